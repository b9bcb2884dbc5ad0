//! The header: where the log begins.
//!
//! There is one, and it is written over and over. Its fields and its checksum lie in the first sector, and the rest of
//! the block is always zero, so a torn write leaves the old header or the new one, and both are right (see the parent
//! module). Two headers in turns would be no safer against a torn write, and less safe against rot: where the newer one
//! does not verify, the older one would be believed, whose log may have been overwritten.

use super::aligned::AlignedBuffer;
use super::ring::{Ring, SEQUENCE_END};
use crate::fault::io_fault;
use crate::{Device, Fault};
use lanefs_format::{BLOCK, BlockKind, Checksummer, JOURNAL_HEADER, journal_header as h};

/// Where the log begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Tail {
    /// Place of the oldest commit that may not be in place, or of the next commit.
    pub(super) place: u64,
    /// Its number.
    pub(super) sequence: u64,
}

/// Reads the header.
///
/// # Errors
/// [`Fault::Io`]; [`Fault::Damaged`] when it does not verify or says what cannot be.
pub(super) fn read(device: &dyn Device, sums: &Checksummer, ring: Ring) -> Result<Tail, Fault> {
    let at = ring.header();
    let mut block = AlignedBuffer::zeroed(BLOCK as usize);
    device.read_slice(at, &mut block).map_err(|e| io_fault(at, "reading", &e))?;
    let verified = sums.verify(BlockKind::Journal, at, &block, 0, &[]);
    if !verified || h::ROLE.read(&block) != Some(JOURNAL_HEADER) {
        return Err(Fault::damaged(at, "no valid journal header"));
    }
    let (tail, sequence) = (h::TAIL.read(&block).unwrap_or(0), h::SEQUENCE.read(&block).unwrap_or(0));
    if tail == 0 || tail > ring.len() || sequence == 0 || sequence >= SEQUENCE_END {
        return Err(Fault::damaged(at, "a journal header that cannot be"));
    }
    Ok(Tail { place: tail - 1, sequence })
}

/// Writes the header and makes it, and all that was written before, durable. Returns how many bytes were written.
///
/// # Errors
/// [`Fault::Io`]: the device then has the old header or the new one.
pub(super) fn write(device: &dyn Device, sums: &Checksummer, ring: Ring, tail: Tail) -> Result<u64, Fault> {
    let at = ring.header();
    let mut block = AlignedBuffer::zeroed(BLOCK as usize);
    h::KIND.write(&mut block, BlockKind::Journal as u8);
    h::ROLE.write(&mut block, JOURNAL_HEADER);
    h::TAIL.write(&mut block, tail.place % ring.len() + 1);
    h::SEQUENCE.write(&mut block, tail.sequence);
    sums.seal(BlockKind::Journal, at, &mut block, 0);
    device.write_slice(at, &block).map_err(|e| io_fault(at, "writing", &e))?;
    device.flush().map_err(|e| io_fault(at, "flushing", &e))?;
    Ok(BLOCK)
}
