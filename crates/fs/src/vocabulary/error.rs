//! Errors of the volume's operations.

use lanefs_format::{BlockKind, Code};
use lanefs_store::{Fault, Want};
use std::io;

/// Result of a volume's operation.
pub type Result<T> = std::result::Result<T, Error>;

/// Result of one attempt of an operation.
pub(crate) type Outcome<T> = std::result::Result<T, Fault>;

/// The kind of an [`Error`], for programs that act on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
#[repr(u8)]
pub enum ErrorKind {
    /// A path, a name, an attribute or an image does not exist.
    NotFound,
    /// The name or the image exists already.
    Exists,
    /// Another process has the image open, or another engine the volume.
    InUse,
    /// The image holds something else than a volume.
    NotAVolume,
    /// The volume has an older format than this version reads.
    OlderFormat,
    /// The volume has a newer format, or features that this version does not know.
    NewerFormat,
    /// A size that a volume cannot have, or an image that ends before its volume does.
    Size,
    /// The volume was not closed, and this use of it needs a closed one.
    NotClosed,
    /// The bytes of the volume contradict the format or their checksums.
    Damaged,
    /// The volume is open for reading only, or its device can only be read.
    ReadOnly,
    /// No space is left on the volume, in a directory's tree or on the host.
    NoSpace,
    /// The caller, or the process, has no permission.
    PermissionDenied,
    /// A directory is needed there.
    NotDirectory,
    /// The name is a directory's.
    IsDirectory,
    /// The directory has entries.
    NotEmpty,
    /// An argument that the call does not accept.
    InvalidInput,
    /// A result, a file, a name or an attribute is larger than allowed.
    TooLarge,
    /// The kind of inode or device has no such operation.
    Unsupported,
    /// Out of memory.
    OutOfMemory,
    /// The device or the host failed.
    Io,
    /// Anything else; [`Error::code`] says more.
    Other,
}

impl ErrorKind {
    /// All kinds, in the order of their numbers.
    const ALL: [ErrorKind; 21] = {
        use ErrorKind::*;
        [
            NotFound,
            Exists,
            InUse,
            NotAVolume,
            OlderFormat,
            NewerFormat,
            Size,
            NotClosed,
            Damaged,
            ReadOnly,
            NoSpace,
            PermissionDenied,
            NotDirectory,
            IsDirectory,
            NotEmpty,
            InvalidInput,
            TooLarge,
            Unsupported,
            OutOfMemory,
            Io,
            Other,
        ]
    };

    /// The kind with this number, as `kind as u8` gives it.
    pub fn from_number(number: u8) -> Option<Self> {
        Self::ALL.get(usize::from(number)).copied()
    }

    /// The kind of a result code.
    pub fn of_code(code: Code) -> Self {
        match code {
            Code::NotFound | Code::ComponentNotFound | Code::NoAttribute | Code::StaleInode => {
                ErrorKind::NotFound
            }
            Code::Exists => ErrorKind::Exists,
            Code::Busy => ErrorKind::InUse,
            Code::InvalidPointer | Code::InvariantViolated => ErrorKind::Damaged,
            Code::ReadOnly => ErrorKind::ReadOnly,
            Code::NoSpace | Code::TreeFull | Code::NoPointer => ErrorKind::NoSpace,
            Code::AccessDenied | Code::NotPermitted => ErrorKind::PermissionDenied,
            Code::NotDirectory => ErrorKind::NotDirectory,
            Code::IsDirectory => ErrorKind::IsDirectory,
            Code::NotEmpty => ErrorKind::NotEmpty,
            Code::Invalid => ErrorKind::InvalidInput,
            Code::FileTooLarge | Code::NameTooLong | Code::AttributeTooLarge | Code::BufferTooSmall => {
                ErrorKind::TooLarge
            }
            Code::Unsupported => ErrorKind::Unsupported,
            Code::NoMemory => ErrorKind::OutOfMemory,
            Code::Io => ErrorKind::Io,
            _ => ErrorKind::Other,
        }
    }

    fn of_host(error: &io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::NotFound => ErrorKind::NotFound,
            io::ErrorKind::AlreadyExists => ErrorKind::Exists,
            io::ErrorKind::PermissionDenied => ErrorKind::PermissionDenied,
            io::ErrorKind::ReadOnlyFilesystem => ErrorKind::ReadOnly,
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => ErrorKind::NoSpace,
            io::ErrorKind::IsADirectory => ErrorKind::IsDirectory,
            io::ErrorKind::NotADirectory => ErrorKind::NotDirectory,
            io::ErrorKind::OutOfMemory => ErrorKind::OutOfMemory,
            _ => ErrorKind::Io,
        }
    }

    /// The kind of the same meaning of the standard library.
    fn of_std(self) -> io::ErrorKind {
        match self {
            ErrorKind::NotFound => io::ErrorKind::NotFound,
            ErrorKind::Exists => io::ErrorKind::AlreadyExists,
            ErrorKind::InUse => io::ErrorKind::ResourceBusy,
            ErrorKind::NotAVolume | ErrorKind::Damaged => io::ErrorKind::InvalidData,
            ErrorKind::ReadOnly => io::ErrorKind::ReadOnlyFilesystem,
            ErrorKind::NoSpace => io::ErrorKind::StorageFull,
            ErrorKind::PermissionDenied => io::ErrorKind::PermissionDenied,
            ErrorKind::NotDirectory => io::ErrorKind::NotADirectory,
            ErrorKind::IsDirectory => io::ErrorKind::IsADirectory,
            ErrorKind::NotEmpty => io::ErrorKind::DirectoryNotEmpty,
            ErrorKind::InvalidInput | ErrorKind::Size => io::ErrorKind::InvalidInput,
            ErrorKind::TooLarge => io::ErrorKind::FileTooLarge,
            ErrorKind::OlderFormat | ErrorKind::NewerFormat | ErrorKind::Unsupported => {
                io::ErrorKind::Unsupported
            }
            ErrorKind::OutOfMemory => io::ErrorKind::OutOfMemory,
            ErrorKind::NotClosed | ErrorKind::Io | ErrorKind::Other => io::ErrorKind::Other,
        }
    }
}

/// The reason why an operation did not happen. Every error has an [`ErrorKind`], a [`Code`], and through it
/// an errno.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
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
    #[error("the volume is damaged at position {at:#x}: {why}")]
    Damaged {
        /// Byte position.
        at: u64,
        /// The contradiction.
        why: String,
    },
    /// Bytes of a file are not those that were written.
    #[error("{what}: the data at position {at:#x} do not match their checksum")]
    WrongData {
        /// Byte position on the volume.
        at: u64,
        /// The file and the offset in it, as far as they are known.
        what: String,
    },
    /// The image cannot be opened, made or changed as a whole.
    #[error("{what}: {why}")]
    Image {
        /// The kind of the problem.
        kind: ErrorKind,
        /// The image's name.
        what: String,
        /// The problem, and how to solve it.
        why: String,
    },
    /// The files of the volume have far more data than the bytes that its device was given for them.
    #[error(
        "the data are more than {factor} times the bytes that were given for them; if they are what they \
         should be, raise the bound"
    )]
    Expansion {
        /// The bound, as a multiple of the bytes that were given.
        factor: u64,
    },
    /// A write to the device failed earlier, so the volume takes no changes until it is opened again. The
    /// [kind](Self::kind) and the errno are those of the failure.
    #[error(
        "a write to the device failed ({what}: {}), so the volume is read-only; open it again to continue \
         from the last commit",
        host_text(source)
    )]
    WriteFailed {
        /// The write.
        what: String,
        /// The host's error.
        source: io::Error,
    },
    /// The device or the host failed.
    #[error("{what}: {source}")]
    Io {
        /// The action that failed.
        what: String,
        /// The host's error.
        source: io::Error,
    },
}

impl Error {
    /// The kind, for programs that act on it.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Error::Code(code) | Error::At { code, .. } => ErrorKind::of_code(*code),
            Error::Damaged { .. } | Error::WrongData { .. } => ErrorKind::Damaged,
            Error::Image { kind, .. } => *kind,
            Error::Expansion { .. } => ErrorKind::TooLarge,
            Error::Io { source, .. } | Error::WriteFailed { source, .. } => ErrorKind::of_host(source),
        }
    }

    /// True where the path, the name, the attribute or the image does not exist.
    pub fn is_not_found(&self) -> bool {
        self.kind() == ErrorKind::NotFound
    }

    /// The result code.
    pub fn code(&self) -> Code {
        match self {
            Error::Code(code) | Error::At { code, .. } => *code,
            Error::Damaged { .. } => Code::InvariantViolated,
            Error::Image { kind: ErrorKind::Exists, .. } => Code::Exists,
            Error::Image { kind: ErrorKind::InUse, .. } => Code::Busy,
            Error::Image { kind: ErrorKind::Unsupported, .. } => Code::Unsupported,
            Error::Image { .. } => Code::Invalid,
            Error::Expansion { .. } => Code::FileTooLarge,
            Error::WrongData { .. } => Code::WrongData,
            Error::Io { .. } => Code::Io,
            Error::WriteFailed { .. } => Code::ReadOnly,
        }
    }

    /// The errno (Linux numbers).
    pub fn errno(&self) -> i32 {
        match self {
            Error::Io { source, .. } | Error::WriteFailed { source, .. } => {
                source.raw_os_error().unwrap_or(Code::Io.errno())
            }
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

    /// True where the volume is damaged: its structures, or the data of files.
    pub fn is_damage(&self) -> bool {
        self.code().is_damage()
    }

    /// The error of all changes after a write that failed with `fault`.
    pub(crate) fn write_failed(fault: Fault) -> Self {
        let (what, source) = Self::failure_of_device(fault);
        Error::WriteFailed { what, source }
    }

    /// The error of the end of a volume to which a write failed with `fault`.
    pub(crate) fn lost_by(fault: Fault) -> Self {
        let (what, source) = Self::failure_of_device(fault);
        let what = format!("a write failed, and the changes since the last sync are lost: {what}");
        Error::Io { what, source }
    }

    /// Returns the action that failed and the host's error. A commit also ends by damage, for which the host
    /// has none.
    fn failure_of_device(fault: Fault) -> (String, io::Error) {
        match Error::from(fault) {
            Error::Io { what, source } => (what, source),
            other => (other.to_string(), io::Error::from_raw_os_error(Code::Io.errno())),
        }
    }

    /// A block of the wrong kind.
    pub(crate) fn wrong_kind(at: u64, expected: BlockKind) -> Self {
        Error::Damaged { at, why: format!("no {expected:?} block there") }
    }
}

/// Returns the host's error in words, without the number that Rust appends.
pub fn host_text(error: &io::Error) -> String {
    let text = error.to_string();
    match text.split_once(" (os error") {
        Some((words, _)) => words.to_owned(),
        None => text,
    }
}

/// The error, with its text and of the kind that the standard library has for it.
impl From<Error> for io::Error {
    fn from(error: Error) -> Self {
        match error {
            Error::Io { what, source } => io::Error::new(source.kind(), format!("{what}: {source}")),
            error => io::Error::new(error.kind().of_std(), error),
        }
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
                source: io::Error::from_raw_os_error(errno),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_host_s_words_come_without_the_number() {
        let denied = io::Error::from_raw_os_error(Code::AccessDenied.errno());
        assert!(denied.to_string().contains("(os error"), "{denied}");
        assert_eq!(host_text(&denied), "Permission denied");
        assert_eq!(host_text(&io::Error::other("no number")), "no number");
    }

    #[test]
    fn kinds_have_their_numbers() {
        for (i, kind) in ErrorKind::ALL.iter().enumerate() {
            assert_eq!((*kind as usize, ErrorKind::from_number(i as u8)), (i, Some(*kind)));
        }
        assert_eq!(ErrorKind::from_number(ErrorKind::ALL.len() as u8), None);
    }

    #[test]
    fn the_standard_library_has_a_kind_for_each_error() {
        let std = |error: Error| {
            let text = error.to_string();
            let std = io::Error::from(error);
            assert!(std.to_string().contains(&text), "{std}");
            std.kind()
        };
        assert_eq!(std(Code::NotFound.into()), io::ErrorKind::NotFound);
        assert_eq!(std(Error::from(Code::Exists).at("/a")), io::ErrorKind::AlreadyExists);
        assert_eq!(std(Code::NoSpace.into()), io::ErrorKind::StorageFull);
        assert_eq!(std(Error::Damaged { at: 1, why: "a".into() }), io::ErrorKind::InvalidData);
        let source = io::Error::from_raw_os_error(2);
        let missing = Error::Io { what: "cannot open a".into(), source };
        assert!(missing.is_not_found());
        assert_eq!(std(missing), io::ErrorKind::NotFound);
    }
}
