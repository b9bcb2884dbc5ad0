//! Changes by path, many in one call, and their execution one by one.

use crate::error::{Error, Result};
use crate::path;
use crate::resolve::{self, Start};
use crate::tree::MkdirAll;
use crate::types::{Caller, Ino, RenameMode};
use crate::volume::Volume;
use lanefs_format::{Code, FileKind};

/// One change of a batch. Paths are those of [`Volume::resolve_batch`](crate::Volume::resolve_batch):
/// symbolic links before the last component are followed; the last component is not followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change<'c> {
    /// Creates a regular file with this content.
    Create {
        /// Path of the file.
        path: &'c [u8],
        /// The low 12 bits of its mode.
        perm: u16,
        /// Its content; short content lies in the inode.
        data: &'c [u8],
    },
    /// Creates a directory.
    Mkdir {
        /// Path of the directory.
        path: &'c [u8],
        /// The low 12 bits of its mode.
        perm: u16,
    },
    /// Creates a directory and its missing ancestors; it may exist.
    MkdirAll {
        /// Path of the directory.
        path: &'c [u8],
        /// The low 12 bits of the mode of each created directory.
        perm: u16,
    },
    /// Removes a name that is not a directory's.
    Unlink {
        /// Path of the name.
        path: &'c [u8],
    },
    /// Removes an empty directory.
    Rmdir {
        /// Path of the directory.
        path: &'c [u8],
    },
    /// Renames a file or directory.
    Rename {
        /// The old path.
        from: &'c [u8],
        /// The new path.
        to: &'c [u8],
        /// The treatment of an existing new name.
        mode: RenameMode,
    },
}

/// The answer to a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Applied {
    /// The result code.
    pub code: Code,
    /// The inode that was created, or, for [`Change::MkdirAll`], found; number 0 where a later change of the
    /// same batch removed it again.
    pub ino: Option<Ino>,
}

impl From<Code> for Applied {
    fn from(code: Code) -> Self {
        Applied { code, ino: None }
    }
}

impl Volume {
    /// Makes changes one by one, in their order, each in a transaction of its own; a change that fails harms
    /// no other. The caller is [`Caller::OWNER`]; relative paths begin at `base`.
    ///
    /// # Errors
    /// The device's, and those of a damaged volume; changes made before stay. All other failures are in the
    /// answers.
    pub fn apply(&self, base: Ino, changes: &[Change<'_>]) -> Result<Vec<Applied>> {
        changes.iter().map(|change| self.apply_one(base, change)).collect()
    }

    pub(super) fn apply_one(&self, base: Ino, change: &Change<'_>) -> Result<Applied> {
        let made = match *change {
            Change::Create { path, perm, data } => self.create_at(base, path, perm, data).map(Some),
            Change::Mkdir { path, perm } => self.mkdir_at(base, path, perm).map(Some),
            Change::MkdirAll { path, perm } => self.mkdir_all_at(base, path, perm).map(Some),
            Change::Unlink { path } => self.unlink_at(base, path).map(|()| None),
            Change::Rmdir { path } => self.rmdir_at(base, path).map(|()| None),
            Change::Rename { from, to, mode } => self.rename_at(base, from, to, mode).map(|()| None),
        };
        match made {
            Ok(ino) => Ok(Applied { code: Code::Success, ino }),
            Err(Error::Code(code)) => Ok(code.into()),
            Err(error) => Err(error),
        }
    }

    /// The directory of a path's last component, and that component.
    fn parent_of<'p>(&self, base: Ino, path: &'p [u8]) -> Result<(Ino, &'p [u8])> {
        if path.is_empty() {
            return Err(Code::NotFound.into());
        }
        let (dir, name) = path::split_last(path).ok_or(Code::Invalid)?;
        if dir.is_empty() {
            return Ok((base, name));
        }
        let start = Start { root: self.root().0, base: base.0, follow: true, who: &Caller::OWNER };
        let found = self.view(|core| resolve::resolve(core, &start, dir));
        let (ino, kind) = found.map_err(|error| match error {
            Error::Code(Code::NotFound) => Code::ComponentNotFound.into(),
            error => error,
        })?;
        if kind == FileKind::Directory { Ok((Ino(ino), name)) } else { Err(Code::NotDirectory.into()) }
    }

    /// As above; with a slash at its end, the path must name a directory.
    fn entry_of<'p>(&self, base: Ino, path: &'p [u8]) -> Result<(Ino, &'p [u8])> {
        let (dir, name) = self.parent_of(base, path)?;
        if path.ends_with(b"/") && self.lookup(&Caller::OWNER, dir, name)?.1 != FileKind::Directory {
            return Err(Code::NotDirectory.into());
        }
        Ok((dir, name))
    }

    fn create_at(&self, base: Ino, path: &[u8], perm: u16, data: &[u8]) -> Result<Ino> {
        let (dir, name) = self.parent_of(base, path)?;
        if path.ends_with(b"/") {
            return Err(Code::IsDirectory.into());
        }
        self.create_with(dir, name, perm, data)
    }

    fn mkdir_at(&self, base: Ino, path: &[u8], perm: u16) -> Result<Ino> {
        let (dir, name) = self.parent_of(base, path)?;
        self.mkdir(&Caller::OWNER, dir, name, perm).map(|attr| attr.ino)
    }

    fn mkdir_all_at(&self, base: Ino, path: &[u8], perm: u16) -> Result<Ino> {
        if path.is_empty() {
            return Err(Code::NotFound.into());
        }
        let options = MkdirAll { base: Some(base), perm, perm_above: perm, ..MkdirAll::default() };
        self.make_all(&options, path).map_err(|(error, _)| error)
    }

    fn unlink_at(&self, base: Ino, path: &[u8]) -> Result<()> {
        let (dir, name) = self.entry_of(base, path)?;
        self.unlink(&Caller::OWNER, dir, name)
    }

    fn rmdir_at(&self, base: Ino, path: &[u8]) -> Result<()> {
        let (dir, name) = self.parent_of(base, path)?;
        self.rmdir(&Caller::OWNER, dir, name)
    }

    fn rename_at(&self, base: Ino, from: &[u8], to: &[u8], mode: RenameMode) -> Result<()> {
        let (dir, name) = self.entry_of(base, from)?;
        let (to_dir, new_name) = self.parent_of(base, to)?;
        if to.ends_with(b"/") && self.lookup(&Caller::OWNER, dir, name)?.1 != FileKind::Directory {
            return Err(Code::NotDirectory.into());
        }
        self.rename(&Caller::OWNER, dir, name, to_dir, new_name, mode)
    }
}
