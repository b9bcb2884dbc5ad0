//! Commands for a mounted volume: the client's end of the socket that `control` opens.

use crate::table;
use crate::wire::{self, CANCEL, DESCRIPTORS, RequestKind};
use crate::{Error, Result};
use rustix::fd::{AsFd, BorrowedFd};
use rustix::fs::{CWD, Mode, OFlags};
use rustix::io::Errno;
use std::ffi::OsString;
use std::io::{ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Interval at which a client polls whether the user interrupts the command.
const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// A mounted volume of LaneFS.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MountedVolume {
    /// The mount point.
    pub dir: PathBuf,
    /// Device number of the mount, or the error of reading it.
    device: rustix::io::Result<u64>,
}

/// Returns the mount of an image, or on a directory; `None` where there is none.
pub fn find(image_or_dir: &Path) -> Option<MountedVolume> {
    let path = table::absolute(image_or_dir).ok()?;
    let mut mounts = table::mounts().ok()?;
    mounts.retain(table::MountEntry::is_lanefs);
    let mounted = |entry: &table::MountEntry| MountedVolume {
        dir: entry.dir.clone(),
        device: rustix::fs::stat(&entry.dir).map(|stat| stat.st_dev),
    };
    if let Some(entry) = mounts.iter().rev().find(|entry| entry.dir == path) {
        return Some(mounted(entry));
    }
    // A mount whose server has ended no longer uses its image.
    let of_image = mounts.iter().rev().filter(|entry| entry.source == path);
    of_image.map(mounted).find(|mounted| !mounted.is_dead())
}

impl MountedVolume {
    fn is_dead(&self) -> bool {
        table::is_dead(&self.dir)
    }

    fn connect(&self) -> Result<UnixStream> {
        let connect = || {
            let socket = wire::socket()?;
            rustix::net::connect(&socket, &wire::address(self.device?)?)?;
            Ok(socket)
        };
        let other_user =
            || Error::directory(&self.dir, "another user has mounted it; run the command as that user");
        let socket = connect().map_err(|errno| match errno {
            _ if self.is_dead() => Error::directory(
                &self.dir,
                "the server of this mount has ended; remove the mount with `lanefs umount`",
            ),
            // Other users have no access to the mount.
            Errno::ACCESS => other_user(),
            Errno::CONNREFUSED => Error::directory(&self.dir, "its server takes no commands"),
            errno => Error::host(format!("the volume mounted at {}", self.dir.display()), errno),
        })?;
        if !wire::is_own_user(&socket) {
            return Err(other_user());
        }
        Ok(UnixStream::from(socket))
    }

    /// Executes a command line (the arguments after the program's name) in the process that serves the mount,
    /// with the standard streams, working directory and umask of this process. Polls `interrupted`, and
    /// cancels the command when that returns true. Returns the exit code.
    ///
    /// # Errors
    /// The mount does not reply, or ends.
    pub fn execute(&self, arguments: &[OsString], interrupted: &dyn Fn() -> bool) -> Result<u8> {
        let mut stream = self.connect()?;
        let failed = |error: &std::io::Error| {
            Error::io(format!("the volume mounted at {}", self.dir.display()), error)
        };
        let working_dir =
            rustix::fs::openat(CWD, c".", OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())
                .map_err(|errno| Error::host("the working directory".to_owned(), errno))?;
        let umask = rustix::process::umask(Mode::empty());
        rustix::process::umask(umask);
        let streams = (std::io::stdin(), std::io::stdout(), std::io::stderr());
        let files: [BorrowedFd<'_>; DESCRIPTORS] =
            [streams.0.as_fd(), streams.1.as_fd(), streams.2.as_fd(), working_dir.as_fd()];
        wire::send_request(&stream, RequestKind::Execute, arguments, umask.as_raw_mode(), &files)
            .map_err(|error| failed(&error))?;
        stream.set_read_timeout(Some(POLL_INTERVAL)).map_err(|error| failed(&error))?;
        let mut cancelled = false;
        loop {
            let mut code = [0];
            match stream.read(&mut code) {
                Ok(1..) => return Ok(code[0]),
                Ok(0) => return Err(failed(&ErrorKind::UnexpectedEof.into())),
                Err(error)
                    if matches!(
                        error.kind(),
                        ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted
                    ) => {}
                Err(error) => return Err(failed(&error)),
            }
            if !cancelled && interrupted() {
                cancelled = true;
                stream.write_all(&[CANCEL]).map_err(|error| failed(&error))?;
            }
        }
    }

    /// Returns the counters of the mount in the text format of Prometheus.
    ///
    /// # Errors
    /// The mount does not reply.
    pub fn statistics(&self) -> Result<String> {
        let mut stream = self.connect()?;
        let failed = |error: &std::io::Error| {
            Error::io(format!("the volume mounted at {}", self.dir.display()), error)
        };
        wire::send_request(&stream, RequestKind::Statistics, &[], 0, &[]).map_err(|error| failed(&error))?;
        let mut text = String::new();
        stream.read_to_string(&mut text).map_err(|error| failed(&error))?;
        Ok(text)
    }
}
