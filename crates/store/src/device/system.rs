//! Reads and writes by system calls that go on until all is done.

use super::{IoBuf, IoBufMut};
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;

/// How often a call that "would block" is tried again. Files do not block in that sense, but a block device that runs
/// out of request slots may say so for a moment.
const PATIENCE: u32 = 10_000;

/// Makes a system call that returns a count of bytes, or -1.
fn persist(mut call: impl FnMut() -> isize) -> io::Result<usize> {
    let mut patience = PATIENCE;
    loop {
        if let Ok(count) = usize::try_from(call()) {
            return Ok(count);
        }
        let error = io::Error::last_os_error();
        match error.kind() {
            io::ErrorKind::Interrupted => {}
            io::ErrorKind::WouldBlock if patience > 0 => {
                patience -= 1;
                std::thread::yield_now();
            }
            _ => return Err(error),
        }
    }
}

/// A position as the kernel takes it.
fn signed(at: u64) -> io::Result<i64> {
    i64::try_from(at).map_err(|_| io::ErrorKind::InvalidInput.into())
}

/// One read; how many bytes it gave, which is 0 at the end of the file.
pub(super) fn read_some(file: &File, at: u64, buffer: &mut IoBufMut<'_>) -> io::Result<usize> {
    let at = signed(at)?;
    // SAFETY: the kernel fills memory that `buffer` says is valid for writes. Other threads may read it meanwhile, by words.
    persist(|| unsafe { libc::pread64(file.as_raw_fd(), buffer.as_mut_ptr().cast(), buffer.len(), at) })
}

/// One write; how many bytes were taken.
fn write_some(file: &File, at: u64, data: IoBuf<'_>) -> io::Result<usize> {
    let at = signed(at)?;
    // SAFETY: the kernel reads memory that `data` says is valid for reads. Other threads may change it meanwhile, by words.
    persist(|| unsafe { libc::pwrite64(file.as_raw_fd(), data.as_ptr().cast(), data.len(), at) })
}

/// How many of `count` bytes that were moved can be built upon when `left` were asked for: all when that was all, else
/// whole grains, for what follows must be aligned. `None` when that is no progress.
pub(super) fn progress(count: usize, left: usize, grain: usize) -> Option<usize> {
    let usable = if count >= left { left } else { count - count % grain };
    (usable > 0 || left == 0).then_some(usable)
}

/// Reads at least `needed` bytes, and up to as many as `buffer` takes.
///
/// # Errors
/// The host's; `UnexpectedEof` when the file ends before.
pub(super) fn read(
    file: &File,
    at: u64,
    mut buffer: IoBufMut<'_>,
    needed: usize,
    grain: usize,
) -> io::Result<()> {
    let mut done = 0;
    while done < needed {
        let count = read_some(file, at + done as u64, &mut buffer.part(done..))?;
        done += progress(count, needed - done, grain).ok_or(io::ErrorKind::UnexpectedEof)?;
    }
    Ok(())
}

/// Writes all of `data`.
///
/// # Errors
/// The host's; `WriteZero` when the file takes no more.
pub(super) fn write(file: &File, at: u64, data: IoBuf<'_>, grain: usize) -> io::Result<()> {
    let mut done = 0;
    while done < data.len() {
        let count = write_some(file, at + done as u64, data.part(done..))?;
        done += progress(count, data.len() - done, grain).ok_or(io::ErrorKind::WriteZero)?;
    }
    Ok(())
}
