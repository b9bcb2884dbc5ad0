//! Bounce buffers: direct I/O for requests that are not aligned, through memory that is.

use super::alignment::{Aligned, Alignment};
use super::{IoBuf, IoBufMut, system};
use std::fs::File;
use std::io;

/// Bytes of a bounce buffer: enough to keep a disk busy, and little memory.
const PIECE_BYTES: u64 = 1 << 20;

/// Returns the pieces of a request, each as a position and a range of the request's memory. With the rest of
/// its first and last block, a piece fits into a buffer of `PIECE_BYTES` bytes.
fn pieces(alignment: Alignment, at: u64, len: usize) -> impl Iterator<Item = (u64, std::ops::Range<usize>)> {
    let end = at + len as u64;
    let mut next = at;
    std::iter::from_fn(move || {
        let start = next;
        next = end.min(alignment.down(start) + PIECE_BYTES);
        (start < end).then(|| (start, (start - at) as usize..(next - at) as usize))
    })
}

fn buffer(alignment: &Alignment, at: u64, len: usize) -> Aligned {
    Aligned::new((alignment.up(at + len as u64) - alignment.down(at)).min(PIECE_BYTES), alignment)
}

/// Fills `target`. The range is inside the file, which may end within the last block that is read.
pub(super) fn read(file: &File, alignment: &Alignment, at: u64, mut target: IoBufMut<'_>) -> io::Result<()> {
    let mut memory = buffer(alignment, at, target.len());
    for (start, range) in pieces(*alignment, at, target.len()) {
        let from = alignment.down(start);
        let before = (start - from) as usize;
        let needed = before + range.len();
        let bytes = &mut memory.bytes()[..(alignment.up(start + range.len() as u64) - from) as usize];
        system::read(file, from, IoBufMut::new(bytes), needed, alignment.unit())?;
        target.part(range).copy_from(&bytes[before..needed]);
    }
    Ok(())
}

/// Writes `data`. Where the range begins or ends inside a block, the rest of the block is read and written
/// back, so the caller excludes all other such writes. (An aligned write cannot reach these blocks, except to
/// write the same bytes.) The range is inside the file, whose length is `len`; it keeps that length.
pub(super) fn write(
    file: &File,
    alignment: &Alignment,
    len: u64,
    at: u64,
    data: IoBuf<'_>,
) -> io::Result<()> {
    let mut memory = buffer(alignment, at, data.len());
    for (start, range) in pieces(*alignment, at, data.len()) {
        let end = start + range.len() as u64;
        let (from, to) = (alignment.down(start), alignment.up(end));
        let bytes = &mut memory.bytes()[..(to - from) as usize];
        if !alignment.fits(start, range.len()) {
            let present = to.min(len) - from;
            system::read(file, from, IoBufMut::new(bytes), present as usize, alignment.unit())?;
            bytes[present as usize..].fill(0);
        }
        let before = (start - from) as usize;
        data.part(range.clone()).copy_to(&mut bytes[before..before + range.len()]);
        system::write(file, from, IoBuf::new(bytes), alignment.unit())?;
        if to > len {
            // The file ends inside this block, and the whole block was written. A crash before this call
            // leaves the file some zeros too long, which does no harm: a volume knows its own length.
            file.set_len(len)?;
        }
    }
    Ok(())
}
