//! Calls by path, for programs that use a volume as a library. They act as [`Caller::OWNER`], and their
//! errors name the path.

use crate::error::{Error, Result};
use crate::inode::Inode;
use crate::path;
use crate::resolve::{self, Start};
use crate::types::{Attr, Caller, Ino};
use crate::volume::Volume;
use lanefs_format::{Code, FileKind};

pub(crate) fn show(path: &[u8]) -> String {
    String::from_utf8_lossy(path).into_owned()
}

impl Volume {
    fn resolve_with(&self, path: &[u8], follow: bool) -> Result<Attr> {
        let root = self.root().0;
        let start = Start { root, base: root, follow, who: &Caller::OWNER };
        self.view(|core| {
            let (ino, _) = resolve::resolve(core, &start, path)?;
            Inode::load(core, ino)?.attr()
        })
        .map_err(|e| e.at(show(path)))
    }

    /// Returns the attributes of the inode that a path names. Symbolic links are followed.
    ///
    /// # Errors
    /// [`Code::NotFound`], [`Code::ComponentNotFound`], [`Code::NotDirectory`], [`Code::SymlinkLoop`].
    pub fn resolve(&self, path: impl AsRef<[u8]>) -> Result<Attr> {
        self.resolve_with(path.as_ref(), true)
    }

    /// Resolves as [`resolve`](Self::resolve) does, but does not follow a symbolic link in the last
    /// component.
    ///
    /// # Errors
    /// As [`resolve`](Self::resolve).
    pub fn resolve_no_follow(&self, path: impl AsRef<[u8]>) -> Result<Attr> {
        self.resolve_with(path.as_ref(), false)
    }

    /// Returns the directory that holds, or would hold, the last component of a path, and that component.
    ///
    /// # Errors
    /// [`Code::Invalid`] for a path without components (`/`); those of [`resolve`](Self::resolve) for the
    /// directory.
    pub fn resolve_parent<'p>(&self, path: &'p [u8]) -> Result<(Ino, &'p [u8])> {
        let invalid = || Error::from(Code::Invalid).at(show(path));
        let (dir, name) = path::split_last(path).ok_or_else(invalid)?;
        let parent = if dir.is_empty() { self.getattr(self.root())? } else { self.resolve(dir)? };
        if parent.kind != FileKind::Directory {
            return Err(Error::from(Code::NotDirectory).at(show(dir)));
        }
        Ok((parent.ino, name))
    }
}
