//! Copying of one file's content to the host.

use crate::on_host::host::CHUNK_BYTES;
use crate::running::expansion::{Expansion, RangesFailure};
use crate::running::job::TransferJob;
use lanefs::{Attr, FileSystem};
use rustix::fd::OwnedFd;
use rustix::fs::ftruncate;
use rustix::io::{Errno, pwrite};
use std::sync::atomic::Ordering::Relaxed;

/// Reason why a content was not copied.
#[derive(Debug)]
pub(crate) enum ExportFailure {
    /// The host refused to write it.
    Host(Errno),
    /// The volume could not read it.
    Volume(lanefs::Error),
    /// The transfer stops.
    Stopped,
}

impl From<Errno> for ExportFailure {
    fn from(errno: Errno) -> Self {
        ExportFailure::Host(errno)
    }
}

impl From<lanefs::Error> for ExportFailure {
    fn from(error: lanefs::Error) -> Self {
        ExportFailure::Volume(error)
    }
}

impl From<RangesFailure> for ExportFailure {
    fn from(failure: RangesFailure) -> Self {
        match failure {
            RangesFailure::Volume(error) => ExportFailure::Volume(error),
            RangesFailure::Stopped => ExportFailure::Stopped,
        }
    }
}

/// Copies a volume's file into the new, empty file `fd`. `buffer` has [`CHUNK_BYTES`] bytes.
pub(crate) fn copy_out(
    job: &TransferJob<'_>,
    volume: &dyn FileSystem,
    expansion: &Expansion,
    buffer: &mut [u8],
    attr: &Attr,
    fd: &OwnedFd,
) -> Result<(), ExportFailure> {
    let (mut end, mut from) = (0, 0);
    while let Some((start, stop)) = expansion.next_range(job, volume, attr, from)? {
        let mut offset = start;
        while offset < stop {
            if job.should_stop() {
                return Err(ExportFailure::Stopped);
            }
            let want = (CHUNK_BYTES as u64 - offset % CHUNK_BYTES as u64).min(stop - offset) as usize;
            let count = volume.read(attr.ino, offset, &mut buffer[..want])?;
            if count == 0 {
                break;
            }
            write_all(fd, &buffer[..count], offset)?;
            offset += count as u64;
            job.counters.bytes.fetch_add(count as u64, Relaxed);
        }
        (end, from) = (offset, stop);
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
