//! Directories of the volume to which transfers go.

use crate::vocabulary::error::{Error, Result};
use crate::vocabulary::name::shown;
use crate::vocabulary::xattrs::{ACCESS_LIST, DEFAULT_LIST};
use lanefs::{FileKind, FileSystem, Ino, MkdirAll, XattrMode};

/// A directory in which an import makes names.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TargetDir {
    pub(crate) ino: Ino,
    /// It has a default access control list, which inodes made in it get.
    hands_down: bool,
}

impl TargetDir {
    /// A directory without a default list, or one that takes no new inodes.
    pub(crate) fn plain(ino: Ino) -> Self {
        TargetDir { ino, hands_down: false }
    }

    /// A directory that the import did not make.
    ///
    /// # Errors
    /// The volume's.
    pub(crate) fn existing(volume: &dyn FileSystem, ino: Ino) -> lanefs::Result<Self> {
        let hands_down = volume.listxattr(ino)?.iter().any(|name| name == DEFAULT_LIST);
        Ok(TargetDir { ino, hands_down })
    }

    /// True where new inodes get nothing from it.
    pub(crate) fn is_plain(&self) -> bool {
        !self.hands_down
    }

    /// Takes from a new inode the lists that it got from this directory: it gets those of its source.
    ///
    /// # Errors
    /// The volume's.
    pub(crate) fn take_inherited(
        &self,
        volume: &dyn FileSystem,
        new: Ino,
        kind: FileKind,
    ) -> lanefs::Result<()> {
        if !self.hands_down || kind == FileKind::Symlink {
            return Ok(());
        }
        // An empty list is none.
        volume.setxattr(new, ACCESS_LIST, b"", XattrMode::Set)?;
        match kind {
            FileKind::Directory => volume.setxattr(new, DEFAULT_LIST, b"", XattrMode::Set),
            _ => Ok(()),
        }
    }
}

/// Returns the directory `dest` of the volume; makes it and its parents where they do not exist.
pub(crate) fn destination(volume: &dyn FileSystem, dest: &[u8]) -> Result<TargetDir> {
    let made = volume.mkdir_all(MkdirAll::default(), dest);
    made.and_then(|attr| TargetDir::existing(volume, attr.ino)).map_err(|source| {
        Error::volume(format!("cannot make the directory '{}' in the volume", shown(dest)), source)
    })
}
