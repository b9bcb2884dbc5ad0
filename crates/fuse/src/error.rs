//! Why a mount did not come about, or did not end well.

use rustix::io::Errno;
use std::path::PathBuf;

/// Result of mounting and unmounting.
pub type Result<T> = std::result::Result<T, Error>;

/// What went wrong, with what to do about it.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// An option that makes no sense or is not known.
    #[error("{0}")]
    Option(String),
    /// The directory cannot be mounted on, or is no mount of LaneFS.
    #[error("{}: {why}", dir.display())]
    Directory {
        /// The directory.
        dir: PathBuf,
        /// What is wrong with it, and what to do.
        why: String,
    },
    /// The mount is in use.
    #[error("{}: busy: {by}", dir.display())]
    Busy {
        /// Where it is mounted.
        dir: PathBuf,
        /// By whom, as far as that can be seen.
        by: String,
    },
    /// The host refused something.
    #[error("{what}: {}", errno_text(*errno))]
    Host {
        /// What was being done.
        what: String,
        /// Its error.
        errno: Errno,
    },
    /// What the helper program said.
    #[error("{0}")]
    Helper(String),
    /// The volume's.
    #[error("{0}")]
    Volume(#[from] lanefs::Error),
}

impl Error {
    /// True where the command line is to blame.
    pub fn is_usage(&self) -> bool {
        matches!(self, Error::Option(_))
    }

    pub(crate) fn directory(dir: impl Into<PathBuf>, why: impl Into<String>) -> Self {
        Error::Directory { dir: dir.into(), why: why.into() }
    }

    pub(crate) fn host(what: impl Into<String>, errno: Errno) -> Self {
        Error::Host { what: what.into(), errno }
    }

    pub(crate) fn io(what: impl Into<String>, error: &std::io::Error) -> Self {
        let errno = error.raw_os_error().map_or(Errno::IO, Errno::from_raw_os_error);
        Error::Host { what: what.into(), errno }
    }
}

/// The host's words for its error, without Rust's note of the number.
fn errno_text(errno: Errno) -> String {
    let text = std::io::Error::from(errno).to_string();
    text.split(" (os error").next().unwrap_or_default().to_owned()
}
