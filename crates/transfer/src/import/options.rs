//! Options of an import.

use crate::on_host::hostdir::FileId;
use crate::running::commits::CommitInterval;
use lanefs::Ino;
use lanefs::bulk::{Applied, Change};
use std::fmt;

/// Options of an import.
#[derive(Clone, Debug, Default)]
pub struct ImportOptions<'m> {
    /// A complete new file replaces a file of the volume with the same name. Without this the old file stays
    /// and is a problem. Directories merge either way.
    pub overwrite: bool,
    /// Directories on which another file system is mounted are made, but not entered.
    pub one_file_system: bool,
    /// Number of threads; `None` for twice the cores.
    pub threads: Option<usize>,
    /// Files of the host to leave out, with a note: the volume's own image, for example.
    pub skip: Vec<FileId>,
    /// Engine that makes small files of a tree, many in a call; `None` to make them one by one. The outcome
    /// is the same.
    pub maker: Option<&'m dyn Maker>,
    /// Numbers of users and groups by name, for access control lists in archives, which may have no numbers;
    /// `None`: such lists are not kept, with a note.
    pub names: Option<&'m dyn IdNames>,
    /// How often the import commits.
    pub commit: CommitInterval,
    /// Damage of an archive is skipped up to the next valid header, and is a problem. Without this it ends
    /// the import.
    pub ignore_damage: bool,
}

/// Names of users and groups.
pub trait IdNames: Sync {
    /// Returns the number of a user.
    fn user(&self, name: &str) -> Option<u32>;
    /// Returns the number of a group.
    fn group(&self, name: &str) -> Option<u32>;
}

impl fmt::Debug for dyn IdNames + '_ {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("IdNames")
    }
}

/// An engine of the caller that makes a batch of changes in a volume, in their order, with the results of
/// [`Volume::apply`](lanefs::Volume::apply).
pub trait Maker: Sync {
    /// Makes the changes; relative paths begin in the directory `base`.
    ///
    /// # Errors
    /// The volume's; changes made before the error stay.
    fn make(&self, base: Ino, changes: &[Change<'_>]) -> lanefs::Result<Vec<Applied>>;

    /// Largest number of files in a batch, and of bytes of their contents.
    fn limits(&self) -> (usize, usize) {
        (16_384, 64 << 20)
    }
}

impl fmt::Debug for dyn Maker + '_ {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Maker")
    }
}
