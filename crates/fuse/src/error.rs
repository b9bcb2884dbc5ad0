//! Errors of mounting and unmounting.

use lanefs::escape::escape_path;
use lanefs::host_text;
use rustix::io::Errno;
use std::path::PathBuf;

/// Result of mounting and unmounting.
pub type Result<T> = std::result::Result<T, Error>;

/// An error of mounting or unmounting. Its text says how to correct it.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// An option is unknown or makes no sense.
    #[error("{0}")]
    Option(String),
    /// The directory cannot serve as a mount point, or is not a mount of LaneFS.
    #[error("{}: {why}", escape_path(dir))]
    Directory {
        /// The directory.
        dir: PathBuf,
        /// The reason, and how to correct it.
        why: String,
    },
    /// The mount is in use.
    #[error("{}: busy: {by}", escape_path(dir))]
    Busy {
        /// The mount point.
        dir: PathBuf,
        /// The processes that use it, as far as they are visible.
        by: String,
    },
    /// The host refused an operation.
    #[error("{what}: {}", host_text(&(*errno).into()))]
    Host {
        /// The operation.
        what: String,
        /// The host's error.
        errno: Errno,
    },
    /// The helper program refused; its message.
    #[error("{0}")]
    Helper(String),
    /// A mount cannot move to another version of its volume; the reason.
    #[error("the mount stays on its version: {0}")]
    Move(&'static str),
    /// The volume refused an operation.
    #[error("{0}")]
    Volume(#[from] lanefs::Error),
}

impl From<lanefs_serve::Error> for Error {
    fn from(error: lanefs_serve::Error) -> Self {
        use lanefs_serve::Error as Service;
        match error {
            Service::Refused { dir, why } => Error::Directory { dir, why },
            Service::Host { what, errno } => Error::Host { what, errno },
            Service::Observed => Error::Option(error.to_string()),
            Service::Ended => Error::ENDED,
            Service::Move(why) => Error::Move(why),
            Service::Volume(error) => Error::Volume(error),
        }
    }
}

impl Error {
    /// The error of a call on a mount that has ended.
    pub(crate) const ENDED: Error = Error::Move("the mount has ended");

    /// True where the command line is wrong.
    pub fn is_usage(&self) -> bool {
        matches!(self, Error::Option(_))
    }

    /// Builds an error about a directory.
    pub(crate) fn directory(dir: impl Into<PathBuf>, why: impl Into<String>) -> Self {
        Error::Directory { dir: dir.into(), why: why.into() }
    }

    /// Builds an error of the host.
    pub(crate) fn host(what: impl Into<String>, errno: Errno) -> Self {
        Error::Host { what: what.into(), errno }
    }

    /// Builds an error of the host from one of the standard library.
    pub(crate) fn io(what: impl Into<String>, error: &std::io::Error) -> Self {
        lanefs_serve::Error::io(what, error).into()
    }
}
