//! Locks of bytes that belong to an open file (`F_OFD_SETLK` of fcntl(2)).
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

/// Bytes of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Range {
    pub(super) first: i64,
    /// Number of bytes; 0 for all from the first on.
    pub(super) bytes: i64,
}

impl Range {
    fn byte(byte: i64) -> Self {
        Range { first: byte, bytes: 1 }
    }
}

/// Locks a byte. False where another open file has a lock in the way.
///
/// # Errors
/// The host's, such as that it has no locks of this kind.
pub(super) fn try_lock(file: &File, byte: i64, kind: Kind) -> io::Result<bool> {
    lock_range(file, Range::byte(byte), kind)
}

/// [`try_lock`] for a range.
///
/// # Errors
/// As there.
pub(super) fn lock_range(file: &File, range: Range, kind: Kind) -> io::Result<bool> {
    match call(file, libc::F_OFD_SETLK, &mut structure(range, kind_number(kind))) {
        Err(error) if matches!(error.raw_os_error(), Some(libc::EAGAIN | libc::EACCES)) => Ok(false),
        done => done.map(|()| true),
    }
}

/// Unlocks a range.
///
/// # Errors
/// As for [`try_lock`].
pub(super) fn unlock(file: &File, range: Range) -> io::Result<()> {
    call(file, libc::F_OFD_SETLK, &mut structure(range, libc::F_UNLCK))
}

/// True where [`try_lock`] would succeed.
///
/// # Errors
/// As there.
pub(super) fn is_free(file: &File, byte: i64, kind: Kind) -> io::Result<bool> {
    Ok(lock_in(file, Range::byte(byte), kind)?.is_none())
}

/// Returns the range of a lock that another open file has, and that is in the way of one of this range.
///
/// # Errors
/// As for [`try_lock`].
pub(super) fn lock_in(file: &File, range: Range, kind: Kind) -> io::Result<Option<Range>> {
    let mut lock = structure(range, kind_number(kind));
    call(file, libc::F_OFD_GETLK, &mut lock)?;
    let found = Range { first: lock.l_start, bytes: lock.l_len };
    Ok((i32::from(lock.l_type) != libc::F_UNLCK).then_some(found))
}

fn kind_number(kind: Kind) -> libc::c_int {
    match kind {
        Kind::Shared => libc::F_RDLCK,
        Kind::Alone => libc::F_WRLCK,
    }
}

fn structure(range: Range, kind: libc::c_int) -> libc::flock {
    // SAFETY: `flock` is a structure of numbers, for which zeros are valid.
    let mut lock: libc::flock = unsafe { std::mem::zeroed() };
    lock.l_type = kind as libc::c_short;
    lock.l_whence = libc::SEEK_SET as libc::c_short;
    lock.l_start = range.first;
    lock.l_len = range.bytes;
    lock
}

fn call(file: &File, command: libc::c_int, lock: &mut libc::flock) -> io::Result<()> {
    // SAFETY: the call reads and writes this structure during the call only, and the descriptor is open.
    match unsafe { libc::fcntl(file.as_raw_fd(), command, std::ptr::from_mut(lock)) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}
