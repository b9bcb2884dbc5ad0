//! Locks of a byte that belong to an open file (`F_OFD_SETLK` of fcntl(2)).
//!
//! Such a lock ends when its file is closed, and so with its process. A file that is open for reading only
//! gets a shared lock and no other: whoever may not write a file cannot lock it alone.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;

/// Kind of a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Many files may have it.
    Shared,
    /// One file has it, which is open for writing.
    Alone,
}

/// Locks a byte. False where another open file has a lock in the way.
///
/// # Errors
/// The host's, such as that it has no locks of this kind.
pub(super) fn try_lock(file: &File, byte: i64, kind: Kind) -> io::Result<bool> {
    match call(file, libc::F_OFD_SETLK, &mut lock_of(byte, kind)) {
        Err(error) if matches!(error.raw_os_error(), Some(libc::EAGAIN | libc::EACCES)) => Ok(false),
        done => done.map(|()| true),
    }
}

/// True where [`try_lock`] would succeed.
///
/// # Errors
/// As there.
pub(super) fn is_free(file: &File, byte: i64, kind: Kind) -> io::Result<bool> {
    let mut lock = lock_of(byte, kind);
    call(file, libc::F_OFD_GETLK, &mut lock)?;
    Ok(i32::from(lock.l_type) == libc::F_UNLCK)
}

fn lock_of(byte: i64, kind: Kind) -> libc::flock {
    // SAFETY: `flock` is a structure of numbers, for which zeros are valid.
    let mut lock: libc::flock = unsafe { std::mem::zeroed() };
    lock.l_type = match kind {
        Kind::Shared => libc::F_RDLCK,
        Kind::Alone => libc::F_WRLCK,
    } as libc::c_short;
    lock.l_whence = libc::SEEK_SET as libc::c_short;
    lock.l_start = byte;
    lock.l_len = 1;
    lock
}

fn call(file: &File, command: libc::c_int, lock: &mut libc::flock) -> io::Result<()> {
    // SAFETY: the call reads and writes this structure during the call only, and the descriptor is open.
    match unsafe { libc::fcntl(file.as_raw_fd(), command, std::ptr::from_mut(lock)) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}
