//! The lock of processes that open a volume for reading.
//!
//! Programs up to version 0.1 let the first reader of a volume that was not closed recover it, which writes,
//! and hold this lock alone meanwhile. A reader waits for such a program, so that it does not take it for a
//! writer. Today's readers recover in memory ([`Overlay`](super::Overlay)) and share the lock.
//!
//! It is a lock of one byte after any volume's end, apart from the lock of the open volume.

use super::host;
use super::ofd::{self, Kind};
use rustix::fs::OFlags;
use std::fs::File;
use std::io;
use std::path::Path;
use std::time::{Duration, Instant};

/// The byte that is locked.
const BYTE: i64 = i64::MAX - 1;
/// Longest wait: more than any recovery takes. Nobody waits for ever for a process that only holds the lock.
const MAX_WAIT: Duration = Duration::from_secs(60);
/// First pause between two tries; each is twice as long as the one before, up to the last.
const FIRST_PAUSE: Duration = Duration::from_micros(100);
const LAST_PAUSE: Duration = Duration::from_millis(20);

/// The lock, until it is dropped.
pub struct OpeningLock(#[allow(dead_code)] Option<File>);

impl OpeningLock {
    /// Waits until no process recovers the volume. Where the host has no such locks, there is none.
    ///
    /// # Errors
    /// `WouldBlock`: a process has recovered the volume for a minute.
    pub fn shared(path: &Path) -> io::Result<Self> {
        Self::lock(host::open(path, OFlags::RDONLY), Kind::Shared)
    }

    fn lock(file: io::Result<File>, kind: Kind) -> io::Result<Self> {
        // The error of the file itself is that of the open which follows.
        let Ok(file) = file else { return Ok(OpeningLock(None)) };
        let (give_up, mut pause) = (Instant::now() + MAX_WAIT, FIRST_PAUSE);
        loop {
            match ofd::try_lock(&file, BYTE, kind) {
                Ok(true) => return Ok(OpeningLock(Some(file))),
                Ok(false) if Instant::now() >= give_up => {
                    let why = "another process has been opening it for a minute";
                    return Err(io::Error::new(io::ErrorKind::WouldBlock, why));
                }
                Ok(false) => std::thread::sleep(pause),
                Err(_) => return Ok(OpeningLock(None)),
            }
            pause = (pause * 2).min(LAST_PAUSE);
        }
    }
}
