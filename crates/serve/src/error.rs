//! Errors of services, and of commands that reach one.

use lanefs::escape::escape_path;
use lanefs::host_text;
use rustix::io::Errno;
use std::path::PathBuf;

/// Result of a call on a service as a whole.
pub type Result<T> = std::result::Result<T, Error>;

/// An error of a service as a whole, or of a command that reaches one. Its text says how to correct it.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The service of a directory cannot be reached, or refuses the command.
    #[error("{}: {why}", escape_path(dir))]
    Refused {
        /// The directory.
        dir: PathBuf,
        /// The reason, and how to correct it.
        why: String,
    },
    /// The host refused an operation.
    #[error("{what}: {}", host_text(&(*errno).into()))]
    Host {
        /// The operation.
        what: String,
        /// The host's error.
        errno: Errno,
    },
    /// The volume has an observer already.
    #[error("the volume is mounted already; bind that directory to another one")]
    Observed,
    /// The service has ended.
    #[error("the service has ended")]
    Ended,
    /// A service cannot move to another version of its volume; the reason.
    #[error("the service stays on its version: {0}")]
    Move(&'static str),
    /// The volume refused an operation.
    #[error("{0}")]
    Volume(#[from] lanefs::Error),
}

impl Error {
    /// Builds an error about the service of a directory.
    pub(crate) fn refused(dir: impl Into<PathBuf>, why: impl Into<String>) -> Self {
        Error::Refused { dir: dir.into(), why: why.into() }
    }

    /// Builds an error of the host from one of the standard library.
    pub fn io(what: impl Into<String>, error: &std::io::Error) -> Self {
        let errno = error.raw_os_error().map_or(Errno::IO, Errno::from_raw_os_error);
        Error::Host { what: what.into(), errno }
    }
}
