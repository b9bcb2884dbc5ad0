//! Errors that keep a transfer from starting, or stop it.

use rustix::io::Errno;

/// Ends the message about a file whose name exists already.
pub const OVERWRITE_HINT: &str = "(the option overwrite replaces it)";

/// Result of a transfer.
pub type Result<T> = std::result::Result<T, Error>;

/// An error that ends a whole transfer. A failure of one file is a [`crate::Problem`] and ends nothing.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The host refused an operation.
    #[error("{what}: {}", errno_text(*.errno))]
    Host {
        /// The operation, with the path.
        what: String,
        /// The host's error.
        errno: Errno,
    },
    /// The volume refused an operation.
    #[error("{what}: {source}")]
    Volume {
        /// The operation, with the path.
        what: String,
        /// The volume's error.
        source: lanefs::Error,
    },
    /// The request makes no sense; the text says how to correct it.
    #[error("{0}")]
    Usage(String),
    /// The files of a volume have more data than it can hold.
    #[error(
        "the files have more data than {factor} times the size of the volume, which is damaged or hostile; \
         check it, or raise the bound (max_expansion)"
    )]
    Expansion {
        /// The bound, as a multiple of the volume's size.
        factor: u32,
    },
    /// The input is not an archive, or a damaged one.
    #[error("{what}: {why}")]
    Archive {
        /// The archive, or the member in it.
        what: String,
        /// The defect.
        why: String,
    },
}

impl Error {
    /// Builds an error of the host.
    pub(crate) fn host(what: impl Into<String>, errno: Errno) -> Self {
        Error::Host { what: what.into(), errno }
    }

    /// Builds an error of the volume.
    pub(crate) fn volume(what: impl Into<String>, source: lanefs::Error) -> Self {
        // `what` names the file already.
        let source = match source {
            lanefs::Error::At { code, .. } => lanefs::Error::Code(code),
            other => other,
        };
        Error::Volume { what: what.into(), source }
    }

    /// True where the volume is damaged, or hostile.
    pub fn is_damage(&self) -> bool {
        match self {
            Error::Volume { source, .. } => {
                source.is_damage()
                    || matches!(source, lanefs::Error::Image { .. } | lanefs::Error::Expansion { .. })
            }
            Error::Expansion { .. } => true,
            Error::Host { .. } | Error::Usage(_) | Error::Archive { .. } => false,
        }
    }

    /// Returns the Linux error number.
    pub fn errno(&self) -> i32 {
        match self {
            Error::Host { errno, .. } => errno.raw_os_error(),
            Error::Volume { source, .. } => source.errno(),
            Error::Usage(_) | Error::Archive { .. } | Error::Expansion { .. } => Errno::INVAL.raw_os_error(),
        }
    }
}

/// Returns the host's text for an error number, without the number.
pub(crate) fn errno_text(errno: Errno) -> String {
    lanefs::host_text(&errno.into())
}

/// True where every further file would fail as well: the volume is full, damaged or read-only, or its device
/// fails.
pub(crate) fn ends_transfer(error: &lanefs::Error) -> bool {
    use lanefs::{Code, Error};
    matches!(error, Error::Damaged { .. } | Error::Io { .. } | Error::Image { .. } | Error::Expansion { .. })
        || matches!(
            error.code(),
            Code::NoSpace | Code::ReadOnly | Code::Io | Code::NoMemory | Code::InvariantViolated
        )
}

/// True where the host's file system would refuse every further file as well: full, quota, read-only, device
/// failure.
pub(crate) fn ends_writing(errno: Errno) -> bool {
    [Errno::NOSPC, Errno::DQUOT, Errno::ROFS, Errno::IO, Errno::NOMEM].contains(&errno)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_host_s_words_come_without_the_number() {
        assert_eq!(errno_text(Errno::ACCESS), "Permission denied");
        assert_eq!(
            Error::host("cannot open 'a'", Errno::NOENT).to_string(),
            "cannot open 'a': No such file or directory"
        );
    }

    #[test]
    fn only_what_hits_every_file_ends_everything() {
        use lanefs::Code;
        assert!(ends_transfer(&Code::NoSpace.into()));
        assert!(!ends_transfer(&Code::TreeFull.into()));
        assert!(!ends_transfer(&Code::AttributeTooLarge.into()));
        assert!(ends_writing(Errno::NOSPC) && !ends_writing(Errno::ACCESS));
    }
}
