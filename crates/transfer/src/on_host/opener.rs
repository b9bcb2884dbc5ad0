//! Opening of the host's files to read them, without a trace in their times of access where that is possible.

use rustix::fd::OwnedFd;
use rustix::fs::{Mode, OFlags, Stat, fstat, openat};
use rustix::io::Errno;
use std::ffi::CStr;

/// Opens names of directories for reading.
pub(crate) struct Opener {
    /// `O_NOATIME` where this process may use it, so that reading leaves access times unchanged.
    no_atime: OFlags,
}

impl Opener {
    pub(crate) fn new() -> Self {
        let is_root = rustix::process::geteuid().is_root();
        Opener { no_atime: if is_root { OFlags::NOATIME } else { OFlags::empty() } }
    }

    /// Opens a name for reading; leaves the access time unchanged where the host allows that.
    pub(crate) fn open(&self, dir: &OwnedFd, name: &CStr, flags: OFlags) -> Result<OwnedFd, Errno> {
        match openat(dir, name, flags | self.no_atime, Mode::empty()) {
            Err(Errno::PERM) if !self.no_atime.is_empty() => openat(dir, name, flags, Mode::empty()),
            other => other,
        }
    }

    /// Opens a regular file for reading.
    pub(crate) fn open_file(&self, dir: &OwnedFd, name: &CStr) -> Result<(OwnedFd, Stat), Errno> {
        // If the name has become a fifo or a terminal, the call must neither block nor make it the
        // controlling terminal.
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        let file = self.open(dir, name, flags)?;
        let stat = fstat(&file)?;
        Ok((file, stat))
    }
}
