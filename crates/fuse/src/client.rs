//! The other end of the socket that `control` opens: a command for a volume that is mounted.

use crate::table;
use crate::wire::{self, FILES, Kind, STOP};
use crate::{Error, Result};
use rustix::fd::{AsFd, BorrowedFd};
use rustix::fs::{CWD, Mode, OFlags};
use rustix::io::Errno;
use std::ffi::OsString;
use std::io::{ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// How often a client looks whether the user wants to stop.
const LOOK: Duration = Duration::from_millis(50);

/// A mount that runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// Where it is.
    pub dir: PathBuf,
    /// Its number, or why it cannot be had.
    device: rustix::io::Result<u64>,
}

/// The mount of this image, or on this directory; `None` where there is none.
pub fn find(what: &Path) -> Option<Found> {
    let what = table::absolute(what).ok()?;
    let mut mounts = table::mounts().ok()?;
    mounts.retain(table::Entry::is_lanefs);
    let found = |entry: &table::Entry| Found {
        dir: entry.dir.clone(),
        device: rustix::fs::stat(&entry.dir).map(|stat| stat.st_dev),
    };
    if let Some(entry) = mounts.iter().rev().find(|entry| entry.dir == what) {
        return Some(found(entry));
    }
    // A mount whose server has ended keeps nobody from its image.
    let of_image = mounts.iter().rev().filter(|entry| entry.source == what);
    of_image.map(found).find(|found| !found.is_dead())
}

impl Found {
    fn is_dead(&self) -> bool {
        table::is_dead(&self.dir)
    }

    fn connect(&self) -> Result<UnixStream> {
        let connect = || {
            let socket = wire::socket()?;
            rustix::net::connect(&socket, &wire::address(self.device?)?)?;
            Ok(socket)
        };
        let of_another = || Error::directory(&self.dir, "another user has mounted it; ask as that user");
        let socket = connect().map_err(|errno| match errno {
            _ if self.is_dead() => Error::directory(
                &self.dir,
                "the server of this mount has ended; take it away with `lanefs umount`",
            ),
            // Only the user who mounted it may look at it.
            Errno::ACCESS => of_another(),
            Errno::CONNREFUSED => Error::directory(&self.dir, "its server takes no commands"),
            errno => Error::host(format!("the volume mounted at {}", self.dir.display()), errno),
        })?;
        if !wire::is_ours(&socket) {
            return Err(of_another());
        }
        Ok(UnixStream::from(socket))
    }

    /// Runs a command line (the words behind the program's name) in the process that serves the mount, with this one's
    /// standard streams, working directory and umask. `stop` is asked from time to time whether the user wants to stop. Returns
    /// the exit code.
    ///
    /// # Errors
    /// Where the mount does not answer, or ends.
    pub fn run(&self, words: &[OsString], stop: &dyn Fn() -> bool) -> Result<u8> {
        let mut stream = self.connect()?;
        let failed = |error: &std::io::Error| {
            Error::io(format!("the volume mounted at {}", self.dir.display()), error)
        };
        let place =
            rustix::fs::openat(CWD, c".", OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())
                .map_err(|errno| Error::host("the working directory".to_owned(), errno))?;
        let umask = rustix::process::umask(Mode::empty());
        rustix::process::umask(umask);
        let streams = (std::io::stdin(), std::io::stdout(), std::io::stderr());
        let files: [BorrowedFd<'_>; FILES] =
            [streams.0.as_fd(), streams.1.as_fd(), streams.2.as_fd(), place.as_fd()];
        wire::ask(&stream, Kind::Run, words, umask.as_raw_mode(), &files).map_err(|error| failed(&error))?;
        stream.set_read_timeout(Some(LOOK)).map_err(|error| failed(&error))?;
        let mut told = false;
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
            if !told && stop() {
                told = true;
                stream.write_all(&[STOP]).map_err(|error| failed(&error))?;
            }
        }
    }

    /// Counters, as the text format of Prometheus has it.
    ///
    /// # Errors
    /// Where the mount does not answer.
    pub fn statistics(&self) -> Result<String> {
        let mut stream = self.connect()?;
        let failed = |error: &std::io::Error| {
            Error::io(format!("the volume mounted at {}", self.dir.display()), error)
        };
        wire::ask(&stream, Kind::Statistics, &[], 0, &[]).map_err(|error| failed(&error))?;
        let mut text = String::new();
        stream.read_to_string(&mut text).map_err(|error| failed(&error))?;
        Ok(text)
    }
}
