//! Attributes of the host's files, in LaneFS's types.

use super::hostdir::FileId;
use lanefs::{Attr, FileKind, SetAttr, Time};
use rustix::fs::{Stat, Timespec, Timestamps};

/// Bytes that one read or write of content transfers at most, aligned to multiples of it: a multiple of the
/// volume's 2 MiB blocks.
pub(crate) const CHUNK_BYTES: usize = 4 << 20;

/// Bytes of a read where a file does not say its size. Those of `/proc/sys` refuse pieces of 4 MiB.
pub(crate) const UNSIZED_BYTES: usize = 64 << 10;

/// Bytes of a buffer for the entries of a directory.
pub(crate) const ENTRIES_BYTES: usize = 64 << 10;

/// Returns whether a second is outside of the range of [`Time`].
fn is_far(seconds: i64) -> bool {
    Time::from_parts(seconds, 0).seconds() != seconds
}

/// The fields of `struct stat` that transfers use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct HostMeta {
    pub(crate) id: FileId,
    pub(crate) kind: FileKind,
    pub(crate) perm: u16,
    pub(crate) uid: u32,
    pub(crate) gid: u32,
    pub(crate) links: u64,
    pub(crate) size: u64,
    /// Allocated space in units of 512 bytes.
    pub(crate) sectors: u64,
    pub(crate) rdev: u64,
    pub(crate) mtime: Time,
    /// Time of the last change of the inode, which no program sets.
    pub(crate) ctime: Time,
    pub(crate) atime: Time,
    /// A time that a copy keeps is outside of the range of [`Time`], and stands here as its nearest end.
    pub(crate) has_far_time: bool,
}

impl From<&Attr> for HostMeta {
    /// Files of a volume have the same fields. They have no device.
    fn from(attr: &Attr) -> Self {
        HostMeta {
            id: FileId { dev: 0, ino: attr.ino.0 },
            kind: attr.kind,
            perm: attr.perm,
            uid: attr.uid,
            gid: attr.gid,
            links: attr.links.into(),
            size: attr.size,
            sectors: attr.blocks.saturating_mul(8),
            rdev: attr.rdev,
            mtime: attr.mtime,
            ctime: attr.ctime,
            atime: attr.atime,
            has_far_time: false,
        }
    }
}

/// Attributes that a copy sets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attributes {
    /// Permission bits with set-id and sticky bits.
    pub perm: u16,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Time of the last access.
    pub atime: Time,
    /// Time of the last change of the content.
    pub mtime: Time,
}

impl From<&Attr> for Attributes {
    fn from(attr: &Attr) -> Self {
        let Attr { perm, uid, gid, atime, mtime, .. } = *attr;
        Attributes { perm, uid, gid, atime, mtime }
    }
}

impl HostMeta {
    /// Converts the host's `struct stat`; `None` for a type of file that POSIX does not define.
    // The widths of the fields differ between architectures.
    #[allow(clippy::unnecessary_cast, clippy::cast_lossless)]
    pub(crate) fn new(stat: &Stat) -> Option<Self> {
        Some(HostMeta {
            id: FileId { dev: stat.st_dev as u64, ino: stat.st_ino as u64 },
            kind: FileKind::from_mode(stat.st_mode as u16)?,
            perm: (stat.st_mode & 0o7777) as u16,
            uid: stat.st_uid,
            gid: stat.st_gid,
            links: stat.st_nlink as u64,
            size: stat.st_size as u64,
            sectors: stat.st_blocks as u64,
            rdev: stat.st_rdev as u64,
            mtime: Time::from_parts(stat.st_mtime as i64, stat.st_mtime_nsec as u32),
            ctime: Time::from_parts(stat.st_ctime as i64, stat.st_ctime_nsec as u32),
            atime: Time::from_parts(stat.st_atime as i64, stat.st_atime_nsec as u32),
            has_far_time: is_far(stat.st_mtime as i64) || is_far(stat.st_atime as i64),
        })
    }

    /// True where fewer bytes are allocated than the size says. Files of up to 4096 bytes are not worth the
    /// search for holes.
    pub(crate) fn may_have_holes(&self) -> bool {
        self.size > 4096 && self.sectors.saturating_mul(512) < self.size
    }

    /// Returns the attributes for the volume's inode, without the size.
    pub(crate) fn set_attr(&self) -> SetAttr {
        SetAttr {
            perm: Some(self.perm),
            uid: Some(self.uid),
            gid: Some(self.gid),
            size: None,
            atime: Some(self.atime),
            mtime: Some(self.mtime),
        }
    }
}

/// Converts times for `utimensat`.
pub(crate) fn timestamps(attr: &Attributes) -> Timestamps {
    let spec = |time: Time| Timespec { tv_sec: time.seconds(), tv_nsec: i64::from(time.nanoseconds()) as _ };
    Timestamps { last_access: spec(attr.atime), last_modification: spec(attr.mtime) }
}
