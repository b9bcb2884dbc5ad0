//! Errors of the volume's operations.

use lanefs_format::{BlockKind, Code};
use lanefs_store::{Fault, Want};

/// Result of a volume's operation.
pub type Result<T> = std::result::Result<T, Error>;

/// Result of one attempt of an operation.
pub(crate) type Outcome<T> = std::result::Result<T, Fault>;

/// The reason why an operation did not happen. Every error has a [`Code`], and through it an errno.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// An ordinary result of a file system call.
    #[error("{}", .0.text())]
    Code(Code),
    /// A code and its subject, shown as `subject: text`.
    #[error("{what}: {}", code.text())]
    At {
        /// The result code.
        code: Code,
        /// The subject: a path, in words or as given.
        what: String,
    },
    /// The bytes of the volume contradict the format.
    #[error("the volume is damaged at position {at:#x}: {why} (run `lanefs fsck`)")]
    Damaged {
        /// Byte position.
        at: u64,
        /// The contradiction.
        why: String,
    },
    /// Bytes of a file are not those that were written.
    #[error(
        "{what}: the data at position {at:#x} do not match their checksum (`lanefs scrub` names all such files)"
    )]
    WrongData {
        /// Byte position on the volume.
        at: u64,
        /// The file and the offset in it, as far as they are known.
        what: String,
    },
    /// The image cannot be opened or made.
    #[error("{what}: {why}")]
    Image {
        /// The image's name.
        what: String,
        /// The problem, and how to solve it.
        why: String,
    },
    /// The device or the host failed.
    #[error("{what}: {source}")]
    Io {
        /// The action that failed.
        what: String,
        /// The host's error.
        source: std::io::Error,
    },
}

impl Error {
    /// The result code.
    pub fn code(&self) -> Code {
        match self {
            Error::Code(code) | Error::At { code, .. } => *code,
            Error::Damaged { .. } => Code::InvariantViolated,
            Error::Image { .. } => Code::Invalid,
            Error::Io { .. } | Error::WrongData { .. } => Code::Io,
        }
    }

    /// The errno (Linux numbers).
    pub fn errno(&self) -> i32 {
        match self {
            Error::Io { source, .. } => source.raw_os_error().unwrap_or(Code::Io.errno()),
            other => other.code().errno(),
        }
    }

    /// Adds the subject to an error without one.
    pub fn at(self, what: impl Into<String>) -> Self {
        match self {
            Error::Code(code) => Error::At { code, what: what.into() },
            Error::WrongData { at, what: offset } => {
                Error::WrongData { at, what: format!("{}, {offset}", what.into()) }
            }
            other => other,
        }
    }

    /// True where the volume's own structures are damaged.
    pub(crate) fn is_damage(&self) -> bool {
        self.code() == Code::InvariantViolated || self.code() == Code::InvalidPointer
    }

    /// The error of all changes after a failed write.
    pub(crate) fn write_failed() -> Self {
        let what = "a write to the device failed, so the volume is read-only; open it again to continue from the last commit";
        Error::At { code: Code::ReadOnly, what: what.into() }
    }

    /// A block of the wrong kind.
    pub(crate) fn wrong_kind(at: u64, expected: BlockKind) -> Self {
        Error::Damaged { at, why: format!("no {expected:?} block there") }
    }
}

impl From<Code> for Error {
    fn from(code: Code) -> Self {
        Error::Code(code)
    }
}

impl From<Fault> for Error {
    fn from(fault: Fault) -> Self {
        match fault {
            Fault::Code(code) => Error::Code(code),
            Fault::Damaged { at, why } => Error::Damaged { at, why: why.into() },
            Fault::WrongData { at } => Error::WrongData { at, what: "file data".into() },
            Fault::Miss { at, want: Want::Block(kind) } => Error::wrong_kind(at, kind),
            Fault::Miss { at, .. } => Error::Damaged { at, why: "no file data there".into() },
            // An attempt with exclusive access met a writer: its own read set was wrong.
            Fault::Conflict { .. } | Fault::ReadSetTooLarge => Error::Code(Code::InvariantViolated),
            Fault::Io { at, doing, errno } => Error::Io {
                what: format!("{doing} the volume at byte {at}"),
                source: std::io::Error::from_raw_os_error(errno),
            },
        }
    }
}
