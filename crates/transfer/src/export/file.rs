//! One file's content out of the volume.

use crate::error::errno_text;
use crate::host::PIECE;
use crate::import::OWNER;
use crate::run::Run;
use lanefs::{Attr, Code, Seek, Volume};
use rustix::fd::OwnedFd;
use rustix::fs::ftruncate;
use rustix::io::{Errno, pwrite};
use std::sync::atomic::Ordering::Relaxed;

/// Why a content was not copied.
#[derive(Debug)]
pub(crate) enum Fault {
    /// The host refused to take it.
    Host(Errno),
    /// The volume could not give it.
    Volume(lanefs::Error),
    /// The transfer ends.
    Ends,
}

impl From<Errno> for Fault {
    fn from(errno: Errno) -> Self {
        Fault::Host(errno)
    }
}

impl From<lanefs::Error> for Fault {
    fn from(error: lanefs::Error) -> Self {
        Fault::Volume(error)
    }
}

impl Fault {
    /// In words, for a problem of the file.
    pub(crate) fn text(&self) -> String {
        match self {
            Fault::Host(errno) => format!("cannot be written: {}", errno_text(*errno)),
            Fault::Volume(error) => format!("cannot be read from the volume: {error}"),
            Fault::Ends => "not finished".into(),
        }
    }
}

/// The ranges of a volume's file that hold data, `(start, end)`, each of one byte at least.
pub(crate) fn data_ranges(volume: &Volume, attr: &Attr) -> lanefs::Result<Vec<(u64, u64)>> {
    // Small files lie inside the inode and have no blocks; a file with all its blocks has no holes.
    if attr.size <= 4096 || attr.blocks.saturating_mul(4096) >= attr.size {
        return Ok(if attr.size == 0 { Vec::new() } else { vec![(0, attr.size)] });
    }
    let mut ranges = Vec::new();
    let mut at = 0;
    while at < attr.size {
        let data = match volume.seek(attr.ino, at, Seek::Data) {
            Ok(data) => data,
            Err(error) if error.code() == Code::NoSuchRange => break,
            Err(error) => return Err(error),
        };
        // A damaged volume must not make this loop stand still.
        let hole =
            volume.seek(attr.ino, data, Seek::Hole)?.clamp(data.saturating_add(1), attr.size.max(data + 1));
        ranges.push((data, hole.min(attr.size)));
        at = hole;
    }
    Ok(ranges)
}

/// Copies a volume's file into the new, empty file `fd`. `buffer` has [`PIECE`] bytes.
pub(crate) fn copy_out(
    run: &Run<'_>,
    volume: &Volume,
    buffer: &mut [u8],
    attr: &Attr,
    fd: &OwnedFd,
) -> Result<(), Fault> {
    let mut end = 0;
    for (start, stop) in data_ranges(volume, attr)? {
        let mut offset = start;
        while offset < stop {
            if run.ends() {
                return Err(Fault::Ends);
            }
            let want = (PIECE as u64 - offset % PIECE as u64).min(stop - offset) as usize;
            let count = volume.read(&OWNER, attr.ino, offset, &mut buffer[..want])?;
            if count == 0 {
                break;
            }
            write_all(fd, &buffer[..count], offset)?;
            offset += count as u64;
            run.counters.bytes.fetch_add(count as u64, Relaxed);
        }
        end = offset;
    }
    if end < attr.size {
        ftruncate(fd, attr.size)?;
    }
    Ok(())
}

fn write_all(fd: &OwnedFd, mut data: &[u8], mut offset: u64) -> Result<(), Errno> {
    while !data.is_empty() {
        match pwrite(fd, data, offset)? {
            0 => return Err(Errno::IO),
            count => {
                data = &data[count..];
                offset += count as u64;
            }
        }
    }
    Ok(())
}
