//! Why a transfer could not begin or had to stop.

use rustix::io::Errno;

/// Result of a transfer's step.
pub type Result<T> = std::result::Result<T, Error>;

/// What ends a transfer as a whole. What concerns one file only is a [`crate::Problem`] and ends nothing.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The host refused something.
    #[error("{what}: {}", errno_text(*.errno))]
    Host {
        /// What was being done, with the path.
        what: String,
        /// The host's error.
        errno: Errno,
    },
    /// The volume refused something.
    #[error("{what}: {source}")]
    Volume {
        /// What was being done, with the path.
        what: String,
        /// The volume's error.
        source: lanefs::Error,
    },
    /// What was asked for makes no sense; the text says what to do.
    #[error("{0}")]
    Usage(String),
    /// An archive is not one or is damaged.
    #[error("{what}: {why}")]
    Archive {
        /// The archive, or the member in it.
        what: String,
        /// What is wrong.
        why: String,
    },
}

impl Error {
    /// A refusal of the host.
    pub(crate) fn host(what: impl Into<String>, errno: Errno) -> Self {
        Error::Host { what: what.into(), errno }
    }

    /// A refusal of the volume.
    pub(crate) fn volume(what: impl Into<String>, source: lanefs::Error) -> Self {
        // `what` names the file already.
        let source = match source {
            lanefs::Error::At { code, .. } => lanefs::Error::Code(code),
            other => other,
        };
        Error::Volume { what: what.into(), source }
    }

    /// The error number (Linux) behind it.
    pub fn errno(&self) -> i32 {
        match self {
            Error::Host { errno, .. } => errno.raw_os_error(),
            Error::Volume { source, .. } => source.errno(),
            Error::Usage(_) | Error::Archive { .. } => Errno::INVAL.raw_os_error(),
        }
    }
}

/// The host's words for an error number, without the number.
pub(crate) fn errno_text(errno: Errno) -> String {
    let text = std::io::Error::from(errno).to_string();
    match text.rfind(" (os error ") {
        Some(end) => text[..end].to_string(),
        None => text,
    }
}

/// True where going on with the next file is pointless: the volume is full, damaged, read-only or its device fails.
pub(crate) fn ends_everything(error: &lanefs::Error) -> bool {
    use lanefs::Code;
    matches!(error, lanefs::Error::Damaged { .. } | lanefs::Error::Io { .. } | lanefs::Error::Image { .. })
        || matches!(
            error.code(),
            Code::NoSpace | Code::ReadOnly | Code::Io | Code::NoMemory | Code::InvariantViolated
        )
}

/// True where the host's file system will refuse the next file as well: full, quota, read-only, device failure.
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
        assert!(ends_everything(&Code::NoSpace.into()));
        assert!(!ends_everything(&Code::TooManyCollisions.into()));
        assert!(!ends_everything(&Code::AttributeTooLarge.into()));
        assert!(ends_writing(Errno::NOSPC) && !ends_writing(Errno::ACCESS));
    }
}
