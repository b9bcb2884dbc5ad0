//! Changes by path, many in one call, and their execution one by one.

use crate::by_path::steps::Step;
use crate::by_path::tree::MkdirAll;
use crate::by_path::whole::Target;
use crate::names::resolve::Start;
use crate::running::volume::Volume;
use crate::vocabulary::error::{Error, Result};
use crate::vocabulary::types::{Ino, RenameMode};
use lanefs_format::Code;

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

/// # Changes by path, one by one
impl Volume {
    /// Makes changes one by one, in their order, each in a transaction of its own; a change that fails harms
    /// no other. The caller is [`Caller::OWNER`](crate::Caller::OWNER); relative paths begin at `base`.
    ///
    /// # Errors
    /// The device's, and those of a damaged volume; changes made before stay. All other failures are in the
    /// answers.
    pub fn apply(&self, base: Ino, changes: &[Change<'_>]) -> Result<Vec<Applied>> {
        changes.iter().map(|change| self.apply_one(base, change)).collect()
    }

    pub(super) fn apply_one(&self, base: Ino, change: &Change<'_>) -> Result<Applied> {
        let step = match *change {
            Change::Create { path, perm, data } => Step::Create { path, perm, content: data },
            Change::Mkdir { path, perm } => Step::MakeDir { path, perm },
            Change::MkdirAll { path, perm } => return answer(self.mkdir_all_at(base, path, perm).map(Some)),
            Change::Unlink { path } => Step::RemoveFile { path },
            Change::Rmdir { path } => Step::RemoveDir { path },
            Change::Rename { from, to, mode } => Step::Rename { from, to, mode },
        };
        let made = self.do_steps(base, &[step]);
        match *change {
            // One transaction does not take the content.
            Change::Create { path, perm, data } if matches!(&made, Err((error, _)) if error.code() == Code::FileTooLarge) =>
            {
                let start = Start { base: base.0, ..self.start_at_root() };
                let target = Target { start, path, perm, is_new: true };
                answer(self.put_whole(&target, data).map(|attr| Some(attr.ino)))
            }
            _ => answer(made.map(|attr| attr.map(|attr| attr.ino)).map_err(|(error, _)| error)),
        }
    }

    fn mkdir_all_at(&self, base: Ino, path: &[u8], perm: u16) -> Result<Ino> {
        if path.is_empty() {
            return Err(Code::NotFound.into());
        }
        let options = MkdirAll { base: Some(base), perm, perm_above: perm, ..MkdirAll::default() };
        self.make_all(&options, path).map_err(|(error, _)| error)
    }
}

fn answer(made: Result<Option<Ino>>) -> Result<Applied> {
    match made {
        Ok(ino) => Ok(Applied { code: Code::Success, ino }),
        Err(Error::Code(code)) => Ok(code.into()),
        Err(error) => Err(error),
    }
}
