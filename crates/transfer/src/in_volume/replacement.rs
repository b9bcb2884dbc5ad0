//! A new inode that takes the place of a file of the volume.

use super::volume::TargetDir;
use super::volume_entry::{NewVolumeEntry, VolumeEntryError, create_entry};
use lanefs::{Code, FileSystem, Ino, SetAttr, XattrMode};

/// A file under a temporary name, which replaces another one when it is complete: until then, and after any
/// failure, that one is as it was. (After a kill the temporary name stays, `.lanefs-*.tmp`.)
pub struct Replacement {
    entry: NewVolumeEntry,
    old: Ino,
}

impl Replacement {
    /// Makes a file, as yet empty and private, that will replace the regular file `old`, which is `name` in
    /// `dir`.
    ///
    /// # Errors
    /// The volume's.
    pub fn begin(volume: &dyn FileSystem, dir: Ino, name: &[u8], old: Ino) -> lanefs::Result<Self> {
        let target = TargetDir::existing(volume, dir)?;
        let make = |name: &[u8]| volume.create_file(dir, name, 0o600);
        let entry = create_entry(volume, target, name, true, make).map_err(|error| match error {
            VolumeEntryError::Volume(error) => error,
            VolumeEntryError::TakenByDirectory => Code::IsDirectory.into(),
            VolumeEntryError::Taken | VolumeEntryError::Host(_) => Code::Exists.into(),
        })?;
        Ok(Replacement { entry, old })
    }

    /// The new inode, to be filled.
    #[must_use]
    pub fn ino(&self) -> Ino {
        self.entry.ino
    }

    /// Gives the new file the owner, mode and extended attributes of the old one, and its name.
    ///
    /// # Errors
    /// The volume's; the old file is as it was then.
    pub fn finish(&self, volume: &dyn FileSystem) -> lanefs::Result<()> {
        for name in volume.listxattr(self.old)? {
            volume.setxattr(self.ino(), &name, &volume.getxattr(self.old, &name)?, XattrMode::Set)?;
        }
        let old = volume.getattr(self.old)?;
        let (uid, gid, perm) = (Some(old.uid), Some(old.gid), Some(old.perm));
        volume.setattr(self.ino(), SetAttr { uid, gid, perm, ..SetAttr::default() })?;
        self.entry.finish(volume)
    }

    /// Removes the new file, which failed.
    pub fn abandon(&self, volume: &dyn FileSystem) {
        self.entry.abandon(volume);
    }
}
