//! Result codes, the same on every engine.

macro_rules! codes {
    ($($(#[doc = $doc:literal])* $name:ident = $number:literal, $errno:literal, $text:expr $(, $reserved:ident)?;)*) => {
        /// The outcome of an operation. 0 to 8 are the codes of the directory commands, the others continue
        /// from 9. The numbers are part of the interface and the same on both engines.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[repr(u8)]
        #[non_exhaustive]
        pub enum Code { $($(#[doc = $doc])* $name = $number,)* }

        impl Code {
            /// All codes, in order.
            pub const ALL: &'static [Code] = &[$(Code::$name),*];
            /// The errno (Linux numbers) that a caller of the POSIX interface sees; 0 for success.
            pub const fn errno(self) -> i32 { match self { $(Code::$name => $errno),* } }
            /// The outcome in words.
            pub const fn text(self) -> &'static str { match self { $(Code::$name => $text),* } }
            /// True for a number that no operation returns today.
            pub const fn is_reserved(self) -> bool { match self { $(Code::$name => codes!(@reserved $($reserved)?)),* } }
            /// The number of the code.
            pub const fn number(self) -> u8 { self as u8 }
        }
    };
    (@reserved) => { false };
    (@reserved reserved) => { true };
}

codes! {
    /// Done.
    Success = 0, 0, "success";
    /// The name exists already.
    Exists = 1, 17, "exists already";
    /// The directory's tree cannot take another region.
    TreeFull = 2, 28, "directory tree is full";
    /// No pointer could be added to a file map.
    NoPointer = 3, 27, "no pointer can be added to the file map";
    /// The last component of the path does not exist.
    NotFound = 4, 2, "not found";
    /// A component before the last one does not exist.
    ComponentNotFound = 5, 2, "a component of the path was not found";
    /// A word of the volume that must be a pointer or a position is none.
    InvalidPointer = 6, 117, "invalid pointer in the volume";
    /// Reserved: a path that is longer than the interface allows.
    PathTooLong = 7, 36, "path too long", reserved;
    /// A structure of the volume contradicts itself.
    InvariantViolated = 8, 117, "the volume is inconsistent";
    /// A component before the last one, or the target, is not a directory.
    NotDirectory = 9, 20, "not a directory";
    /// A name is longer than [`MAX_NAME`](crate::MAX_NAME) bytes.
    NameTooLong = 10, 36, concat!("name too long (", max_name!(), " bytes at most)");
    /// A block that the operation needs is not in memory. The caller fetches it and attempts the operation
    /// again.
    NotResident = 11, 11, "not resident";
    /// No space is left on the volume.
    NoSpace = 12, 28, "no space left on the volume";
    /// Reserved: an older state than the caller asked for.
    StaleEpoch = 13, 116, "stale", reserved;
    /// The target is a directory.
    IsDirectory = 14, 21, "is a directory";
    /// The directory is not empty.
    NotEmpty = 15, 39, "directory not empty";
    /// The caller has no permission to search, read or write the target (EACCES).
    AccessDenied = 16, 13, "permission denied";
    /// Only the owner or a privileged caller may do this (EPERM).
    NotPermitted = 17, 1, "operation not permitted";
    /// An argument that the operation does not accept.
    Invalid = 18, 22, "invalid argument";
    /// The link count cannot grow further.
    TooManyLinks = 19, 31, "too many links";
    /// More symbolic links in one resolution than [`MAX_SYMLINKS_FOLLOWED`](crate::MAX_SYMLINKS_FOLLOWED).
    SymlinkLoop = 20, 40, "too many levels of symbolic links";
    /// The volume is open for reading only.
    ReadOnly = 21, 30, "the volume is open for reading only";
    /// The device failed.
    Io = 22, 5, "input/output error";
    /// The file would become larger than the format allows.
    FileTooLarge = 23, 27, "file too large";
    /// No such extended attribute.
    NoAttribute = 24, 61, "no such attribute";
    /// A seek past the end, or no data or hole past the offset.
    NoSuchRange = 25, 6, "no such data or hole";
    /// The result does not fit in the buffer.
    BufferTooSmall = 26, 34, "buffer too small";
    /// An operation that this kind of inode does not have, or an unknown version of an access control list.
    Unsupported = 27, 95, "operation not supported";
    /// An extended attribute's value or the attributes together are too large.
    AttributeTooLarge = 28, 7, "attribute too large";
    /// The inode is not in use, or no longer.
    StaleInode = 29, 116, "no such inode";
    /// Out of memory.
    NoMemory = 30, 12, "out of memory";
    /// Another process executes the file, or another engine or process has the volume.
    Busy = 31, 16, "in use";
    /// Bytes of a file are not those that were written.
    WrongData = 32, 5, "the data do not match their checksum";
}

impl Code {
    /// True where bytes of the volume are not what they were or should be: they are damaged, and another
    /// attempt meets the same.
    pub const fn is_damage(self) -> bool {
        matches!(self, Code::InvalidPointer | Code::InvariantViolated | Code::WrongData)
    }

    /// The code with this number.
    pub fn from_number(number: u8) -> Option<Self> {
        Self::ALL.get(usize::from(number)).copied()
    }
}

/// A number that no [`Code`] has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnknownCode(pub u8);

impl std::fmt::Display for UnknownCode {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} is not the number of a result code", self.0)
    }
}

impl std::error::Error for UnknownCode {}

impl TryFrom<u8> for Code {
    type Error = UnknownCode;

    fn try_from(number: u8) -> Result<Self, UnknownCode> {
        Self::from_number(number).ok_or(UnknownCode(number))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_dense_so_that_they_index_tables() {
        for (i, code) in Code::ALL.iter().enumerate() {
            assert_eq!(usize::from(code.number()), i);
            assert_eq!(Code::from_number(i as u8), Some(*code));
            assert_eq!(code.errno() == 0, *code == Code::Success);
        }
    }

    #[test]
    fn texts_name_the_limits_of_the_format() {
        assert!(Code::NameTooLong.text().contains(&format!("({} bytes", crate::geometry::MAX_NAME)));
    }
}
