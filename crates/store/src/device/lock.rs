//! The lock of an open volume: one writer, or any number of readers.
//!
//! It is a lock of one byte after any volume's end that belongs to the open file ([`ofd`]). Only a file that
//! is open for writing can have it alone. So whoever may read an image and not write it can be one of its
//! readers, and no more: a `flock`, which every reader can have alone, keeps nobody out.
//!
//! Older programs know the `flock` only. So an open volume has that, too, and one that may be such a
//! program's counts. It also names the process, which the other kind does not.

use super::holder;
use super::ofd::{self, Kind};
use rustix::fs::FlockOperation;
use rustix::io::Errno;
use std::fs::File;
use std::io;

/// The byte that is locked.
const BYTE: i64 = i64::MAX - 2;

/// Locks the volume in a file, for as long as the file is open.
///
/// # Errors
/// `WouldBlock`: it is in use; the error names the process where the host tells it.
pub(super) fn lock(file: &File, write: bool) -> io::Result<()> {
    let (kind, flock) = match write {
        true => (Kind::Alone, FlockOperation::NonBlockingLockExclusive),
        false => (Kind::Shared, FlockOperation::NonBlockingLockShared),
    };
    // First the one that names its process.
    let is_strange = match rustix::fs::flock(file, flock) {
        Err(Errno::WOULDBLOCK) if !holder::is_held_by_a_stranger(file) => return Err(holder::in_use(file)),
        Err(Errno::WOULDBLOCK) => true,
        done => done.map(|()| false)?,
    };
    match ofd::try_lock(file, BYTE, kind) {
        Ok(true) => Ok(()),
        // Some network file systems have no locks of this kind: the other one alone counts there.
        Err(_) if !is_strange => Ok(()),
        Ok(false) | Err(_) => Err(holder::in_use(file)),
    }
}

/// True while another open file has the volume in this one open, for reading or for writing.
///
/// # Errors
/// The host's, such as that it has no locks of this kind.
pub(super) fn has_reader(file: &File) -> io::Result<bool> {
    Ok(!ofd::is_free(file, BYTE, Kind::Alone)?)
}

/// True while another open file has the volume in this one open for writing.
///
/// # Errors
/// The host's.
pub fn has_writer(file: &File) -> io::Result<bool> {
    match ofd::is_free(file, BYTE, Kind::Shared) {
        Ok(is_free) => Ok(!is_free),
        Err(_) => match rustix::fs::flock(file, FlockOperation::NonBlockingLockShared) {
            Err(Errno::WOULDBLOCK) => Ok(true),
            done => done.and_then(|()| rustix::fs::flock(file, FlockOperation::Unlock)).map(|()| false),
        }
        .map_err(io::Error::from),
    }
}
