//! Reads and writes by system calls, repeated until all bytes are moved.

use super::{IoBuf, IoBufMut};
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;

#[cfg(not(lanefs_no_asm))]
use libc::{pread64, pwrite64};
#[cfg(lanefs_no_asm)]
use uninstrumented::{pread64, pwrite64};

/// The system calls themselves, for ThreadSanitizer. It takes the C library's functions for plain accesses to
/// the memory, but the kernel's are outside the language ([`words`](crate::vocabulary::words)), as those of io_uring are.
#[cfg(lanefs_no_asm)]
mod uninstrumented {
    use libc::{c_int, c_void, off64_t, size_t, ssize_t};

    /// # Safety
    /// As that of the C library's function.
    pub(super) unsafe fn pread64(file: c_int, to: *mut c_void, len: size_t, at: off64_t) -> ssize_t {
        // SAFETY: the caller's promise.
        unsafe { libc::syscall(libc::SYS_pread64, file, to, len, at) as ssize_t }
    }

    /// # Safety
    /// As that of the C library's function.
    pub(super) unsafe fn pwrite64(file: c_int, from: *const c_void, len: size_t, at: off64_t) -> ssize_t {
        // SAFETY: the caller's promise.
        unsafe { libc::syscall(libc::SYS_pwrite64, file, from, len, at) as ssize_t }
    }
}

/// Number of repetitions of a call that "would block". Files do not block in that sense, but a block device
/// that runs out of request slots may return it for a short time.
const MAX_RETRIES: u32 = 10_000;

/// Makes a system call that returns a count of bytes, or -1, and repeats it where it was interrupted.
fn persist(mut call: impl FnMut() -> isize) -> io::Result<usize> {
    let mut retries = MAX_RETRIES;
    loop {
        if let Ok(count) = usize::try_from(call()) {
            return Ok(count);
        }
        let error = io::Error::last_os_error();
        match error.kind() {
            io::ErrorKind::Interrupted => {}
            io::ErrorKind::WouldBlock if retries > 0 => {
                retries -= 1;
                std::thread::yield_now();
            }
            _ => return Err(error),
        }
    }
}

/// Returns a position in the kernel's type.
fn signed(at: u64) -> io::Result<i64> {
    i64::try_from(at).map_err(|_| io::ErrorKind::InvalidInput.into())
}

/// Does one read, and returns the number of bytes, which is 0 at the end of the file.
pub(super) fn read_some(file: &File, at: u64, buffer: &mut IoBufMut<'_>) -> io::Result<usize> {
    let at = signed(at)?;
    // SAFETY: the kernel fills memory that `buffer` says is valid for writes. Other threads may read it
    // meanwhile, by words.
    persist(|| unsafe { pread64(file.as_raw_fd(), buffer.as_mut_ptr().cast(), buffer.len(), at) })
}

/// Does one write, and returns the number of bytes.
fn write_some(file: &File, at: u64, data: IoBuf<'_>) -> io::Result<usize> {
    let at = signed(at)?;
    // SAFETY: the kernel reads memory that `data` says is valid for reads. Other threads may change it
    // meanwhile, by words.
    persist(|| unsafe { pwrite64(file.as_raw_fd(), data.as_ptr().cast(), data.len(), at) })
}

/// Returns the usable part of `count` bytes that were moved when `left` were requested: all where that was
/// all, else whole units, because the rest must be aligned. `None` where that is no progress.
pub(super) fn progress(count: usize, left: usize, unit: usize) -> Option<usize> {
    let usable = if count >= left { left } else { count - count % unit };
    (usable > 0 || left == 0).then_some(usable)
}

/// Reads at least `needed` bytes, and at most the length of `buffer`.
///
/// # Errors
/// The host's; `UnexpectedEof` when the file ends before.
pub(super) fn read(
    file: &File,
    at: u64,
    mut buffer: IoBufMut<'_>,
    needed: usize,
    unit: usize,
) -> io::Result<()> {
    let mut done = 0;
    while done < needed {
        let count = read_some(file, at + done as u64, &mut buffer.part(done..))?;
        done += progress(count, needed - done, unit).ok_or(io::ErrorKind::UnexpectedEof)?;
    }
    Ok(())
}

/// Writes all of `data`.
///
/// # Errors
/// The host's; `WriteZero` when the file takes no more.
pub(super) fn write(file: &File, at: u64, data: IoBuf<'_>, unit: usize) -> io::Result<()> {
    let mut done = 0;
    while done < data.len() {
        let count = write_some(file, at + done as u64, data.part(done..))?;
        done += progress(count, data.len() - done, unit).ok_or(io::ErrorKind::WriteZero)?;
    }
    Ok(())
}
