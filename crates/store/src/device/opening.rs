//! The lock of processes that open a volume for reading.
//!
//! A volume that was not closed is recovered once, by the first process that opens it, and recovery writes.
//! So processes that open it at the same time must neither refuse each other nor take the one that recovers
//! for a writer. Each holds this lock while it opens the volume: shared, or alone to recover it.
//!
//! It is a lock of one byte behind any volume's end, apart from the lock of the open volume (`flock`), and
//! belongs to an open file description (`F_OFD_SETLKW` of fcntl(2)). It ends when its file is closed, and so
//! with its process.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::path::Path;

/// The byte that is locked.
const BYTE: i64 = i64::MAX - 1;

/// The lock, until it is dropped.
pub struct OpeningLock(#[allow(dead_code)] Option<File>);

impl OpeningLock {
    /// Waits until no process recovers the volume. Where the host has no such locks, there is none.
    pub fn shared(path: &Path) -> Self {
        Self::lock(File::open(path), libc::F_RDLCK)
    }

    /// Waits until no other process opens or recovers the volume. A process that may not write gets none.
    pub fn alone(path: &Path) -> Self {
        Self::lock(File::options().read(true).write(true).open(path), libc::F_WRLCK)
    }

    fn lock(file: io::Result<File>, kind: libc::c_int) -> Self {
        // The error of the file itself is that of the open which follows.
        OpeningLock(file.ok().filter(|file| wait_for(file, kind)))
    }
}

fn wait_for(file: &File, kind: libc::c_int) -> bool {
    // SAFETY: `flock` is a structure of numbers, for which zeros are valid.
    let mut lock: libc::flock = unsafe { std::mem::zeroed() };
    lock.l_type = kind as libc::c_short;
    lock.l_whence = libc::SEEK_SET as libc::c_short;
    lock.l_start = BYTE;
    lock.l_len = 1;
    loop {
        // SAFETY: the call reads this structure during the call only, and the descriptor is open.
        let done = unsafe { libc::fcntl(file.as_raw_fd(), libc::F_OFD_SETLKW, &raw const lock) };
        if done == 0 {
            return true;
        }
        if io::Error::last_os_error().kind() != io::ErrorKind::Interrupted {
            return false;
        }
    }
}
