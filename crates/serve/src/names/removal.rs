//! Removal of names, and renaming.

use crate::errno::{Errno, Reply};
use crate::requester::Requester;
use crate::served::Served;
use crate::statistics::Operation;
use crate::versions::NodeId;
use lanefs::{Caller, RenameMode};

const OWNER: Caller = Caller::OWNER;

// Flags of `renameat2(2)`.
const RENAME_NOREPLACE: u32 = 1;
const RENAME_EXCHANGE: u32 = 2;
const RENAME_WHITEOUT: u32 = 4;
const RENAME_NOREPLACE_WHITEOUT: u32 = RENAME_NOREPLACE | RENAME_WHITEOUT;

impl Served {
    /// Removes a name of a file.
    ///
    /// # Errors
    /// Those of [`lanefs::Volume::unlink`].
    pub fn unlink(&self, dir: NodeId, name: &[u8]) -> Reply<()> {
        self.with(Operation::Unlink, dir, |volume| {
            Ok(volume.unlink(&OWNER, volume.numbers.ino(dir), name)?)
        })
    }

    /// Removes an empty directory.
    ///
    /// # Errors
    /// Those of [`lanefs::Volume::rmdir`].
    pub fn rmdir(&self, dir: NodeId, name: &[u8]) -> Reply<()> {
        self.with(Operation::Rmdir, dir, |volume| Ok(volume.rmdir(&OWNER, volume.numbers.ino(dir), name)?))
    }

    /// Renames, with the flags of `renameat2(2)`. A whiteout that stays belongs to the requester.
    ///
    /// # Errors
    /// `EINVAL`: a flag is unknown, or an exchange has a further one. Those of
    /// [`lanefs::Volume::rename_for`].
    pub fn rename(
        &self,
        requester: &Requester<'_>,
        from: (NodeId, &[u8]),
        to: (NodeId, &[u8]),
        flags: u32,
    ) -> Reply<()> {
        self.with(Operation::Rename, from.0, |volume| {
            let mode = match flags {
                0 => RenameMode::Replace,
                RENAME_NOREPLACE => RenameMode::NoReplace,
                RENAME_EXCHANGE => RenameMode::Exchange,
                RENAME_WHITEOUT => RenameMode::Whiteout,
                RENAME_NOREPLACE_WHITEOUT => RenameMode::NoReplaceWhiteout,
                _ => return Err(Errno::EINVAL),
            };
            let (dir, new_dir) = (volume.numbers.ino(from.0), volume.numbers.ino(to.0));
            let maker = Caller::user(requester.uid, requester.gid, &[]);
            Ok(volume.rename_for(&OWNER, &maker, (dir, from.1), (new_dir, to.1), mode)?)
        })
    }
}
