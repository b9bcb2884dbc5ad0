//! Attributes that a copy preserves.

use super::location::Location;
use crate::failure::Failure;
use lanefs::{Attr, FileKind, Ino, Time};
use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;

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
    pub(super) fn host(location: &Location, meta: &Metadata) -> Result<Self, Failure> {
        let time =
            |seconds, nanoseconds: i64| Time::from_parts(seconds, u32::try_from(nanoseconds).unwrap_or(0));
        let mode = (meta.mode() & 0xffff) as u16;
        let kind = FileKind::from_mode(mode).ok_or_else(|| {
            Failure::partial(location.argument(), "has a type that volumes do not support", "leave it out")
        })?;
        Ok(FileMeta {
            kind,
            perm: mode & 0o7777,
            uid: meta.uid(),
            gid: meta.gid(),
            rdev: meta.rdev(),
            atime: time(meta.atime(), meta.atime_nsec()),
            mtime: time(meta.mtime(), meta.mtime_nsec()),
            ino: None,
        })
    }

    /// Permissions of a copy: with `preserve` all of them, otherwise without the set-id and sticky bits.
    pub(super) fn copy_perm(&self, preserve: bool) -> u16 {
        if preserve { self.perm } else { self.perm & 0o777 }
    }
}
