//! Files of the host that the user named to be read: also pipes, which may wait for their writer.

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::OwnedFd;
use rustix::fs::{CWD, FileType, Mode, OFlags, fcntl_getfl, fcntl_setfl, fstat, openat};
use rustix::io::Errno;
use std::path::Path;

/// A wait for a writer checks so often whether to stop.
const POLL_INTERVAL: Timespec = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };

/// Opens a file to read. Of a pipe it waits for the first byte, or for the end of a writer, because an open
/// that the kernel holds up hears no signal; `should_stop` is asked meanwhile.
///
/// # Errors
/// The host's; `EINTR` once `should_stop` returns true.
pub fn open_input(path: &Path, should_stop: &dyn Fn() -> bool) -> Result<OwnedFd, Errno> {
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let file = openat(CWD, path, flags, Mode::empty())?;
    if FileType::from_raw_mode(fstat(&file)?.st_mode) == FileType::Fifo {
        wait(&file, should_stop)?;
    }
    fcntl_setfl(&file, fcntl_getfl(&file)?.difference(OFlags::NONBLOCK))?;
    Ok(file)
}

fn wait(file: &OwnedFd, should_stop: &dyn Fn() -> bool) -> Result<(), Errno> {
    while !should_stop() {
        match poll(&mut [PollFd::new(file, PollFlags::IN)], Some(&POLL_INTERVAL)) {
            Ok(0) | Err(Errno::INTR) => {}
            Ok(_) => return Ok(()),
            Err(errno) => return Err(errno),
        }
    }
    Err(Errno::INTR)
}
