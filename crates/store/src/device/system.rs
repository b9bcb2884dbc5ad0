//! Reads and writes by system calls that go on until all is done.

use rustix::io::Errno;
use std::fs::File;
use std::io;

/// How often a call that "would block" is tried again. Files do not block in that sense, but a block device that runs
/// out of request slots may say so for a moment.
const PATIENCE: u32 = 10_000;

fn persist(mut call: impl FnMut() -> rustix::io::Result<usize>) -> io::Result<usize> {
    let mut patience = PATIENCE;
    loop {
        match call() {
            Err(Errno::INTR) => {}
            Err(Errno::AGAIN) if patience > 0 => {
                patience -= 1;
                std::thread::yield_now();
            }
            done => return Ok(done?),
        }
    }
}

/// One read; how many bytes it gave, which is 0 at the end of the file.
pub(super) fn read_some(file: &File, at: u64, buffer: &mut [u8]) -> io::Result<usize> {
    persist(|| rustix::io::pread(file, &mut *buffer, at))
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
pub(super) fn read(file: &File, at: u64, buffer: &mut [u8], needed: usize, grain: usize) -> io::Result<()> {
    let mut done = 0;
    while done < needed {
        let count = read_some(file, at + done as u64, &mut buffer[done..])?;
        done += progress(count, needed - done, grain).ok_or(io::ErrorKind::UnexpectedEof)?;
    }
    Ok(())
}

/// Writes all of `data`.
///
/// # Errors
/// The host's; `WriteZero` when the file takes no more.
pub(super) fn write(file: &File, at: u64, data: &[u8], grain: usize) -> io::Result<()> {
    let mut done = 0;
    while done < data.len() {
        let count = persist(|| rustix::io::pwrite(file, &data[done..], at + done as u64))?;
        done += progress(count, data.len() - done, grain).ok_or(io::ErrorKind::WriteZero)?;
    }
    Ok(())
}
