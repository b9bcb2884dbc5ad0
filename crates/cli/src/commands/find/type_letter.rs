//! Types of files by the letters of find(1).

use clap::ValueEnum;
use lanefs::FileKind;

/// A type of file, by its letter.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(super) enum TypeLetter {
    /// Regular file
    #[value(name = "f")]
    File,
    /// Directory
    #[value(name = "d")]
    Directory,
    /// Symbolic link
    #[value(name = "l")]
    Symlink,
    /// Named pipe
    #[value(name = "p")]
    Fifo,
    /// Socket
    #[value(name = "s")]
    Socket,
    /// Character device
    #[value(name = "c")]
    CharDevice,
    /// Block device
    #[value(name = "b")]
    BlockDevice,
}

impl TypeLetter {
    /// The type.
    pub(super) fn kind(self) -> FileKind {
        match self {
            TypeLetter::File => FileKind::File,
            TypeLetter::Directory => FileKind::Directory,
            TypeLetter::Symlink => FileKind::Symlink,
            TypeLetter::Fifo => FileKind::Fifo,
            TypeLetter::Socket => FileKind::Socket,
            TypeLetter::CharDevice => FileKind::CharDevice,
            TypeLetter::BlockDevice => FileKind::BlockDevice,
        }
    }
}
