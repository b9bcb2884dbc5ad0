//! Attributes that a copy preserves.

use super::location::Location;
use crate::terminal::failure::Failure;
use lanefs::{Attr, FileKind, Ino, Time};
use lanefs_transfer::by_descriptor::Attributes;
use rustix::fs::Stat;

/// Attributes of a file inside the volume or on the host.
#[derive(Clone, Copy, Debug)]
pub(super) struct FileMeta {
    /// Type.
    pub(super) kind: FileKind,
    /// Low 12 bits of the mode.
    pub(super) perm: u16,
    /// Owner.
    pub(super) uid: u32,
    /// Group.
    pub(super) gid: u32,
    /// Device number of a special file.
    pub(super) rdev: u64,
    /// Last access.
    pub(super) atime: Time,
    /// Last change of content.
    pub(super) mtime: Time,
    /// Inode number, inside the volume.
    pub(super) ino: Option<Ino>,
}

impl FileMeta {
    /// Converts the attributes of a file inside the volume.
    pub(super) fn inside(attr: &Attr) -> Self {
        FileMeta {
            kind: attr.kind,
            perm: attr.perm,
            uid: attr.uid,
            gid: attr.gid,
            rdev: attr.rdev,
            atime: attr.atime,
            mtime: attr.mtime,
            ino: Some(attr.ino),
        }
    }

    /// Converts the attributes of a file of the host.
    ///
    /// # Errors
    /// A volume has no such type.
    // The widths of the fields differ between architectures.
    #[allow(clippy::unnecessary_cast, clippy::cast_lossless)]
    pub(super) fn host(location: &Location, stat: &Stat) -> Result<Self, Failure> {
        let mode = (stat.st_mode & 0xffff) as u16;
        let kind = FileKind::from_mode(mode).ok_or_else(|| {
            Failure::partial(location.argument(), "has a type that volumes do not support", "leave it out")
        })?;
        Ok(FileMeta {
            kind,
            perm: mode & 0o7777,
            uid: stat.st_uid,
            gid: stat.st_gid,
            rdev: stat.st_rdev as u64,
            atime: Time::from_parts(stat.st_atime as i64, stat.st_atime_nsec as u32),
            mtime: Time::from_parts(stat.st_mtime as i64, stat.st_mtime_nsec as u32),
            ino: None,
        })
    }

    /// The attributes that a copy on the host gets.
    pub(super) fn attributes(&self) -> Attributes {
        let FileMeta { perm, uid, gid, atime, mtime, .. } = *self;
        Attributes { perm, uid, gid, atime, mtime }
    }

    /// Permissions of a copy: with `preserve` all of them, otherwise without the set-id and sticky bits.
    pub(super) fn copy_perm(&self, preserve: bool) -> u16 {
        if preserve { self.perm } else { self.perm & 0o777 }
    }
}
