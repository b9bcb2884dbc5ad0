//! What the host says about a file, in LaneFS's terms.

use crate::hostdir::FileId;
use lanefs::{Attr, FileKind, SetAttr, Time};
use rustix::fs::{Stat, Timespec, Timestamps};

/// Content is read and written in pieces of this size, aligned to it: a multiple of the volume's 2 MiB blocks.
pub(crate) const PIECE: usize = 4 << 20;

/// The part of `struct stat` that is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Meta {
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
    pub(crate) atime: Time,
}

impl Meta {
    /// From the host's answer; `None` for a type of file that POSIX does not know.
    // The widths of the fields differ between architectures.
    #[allow(clippy::unnecessary_cast, clippy::cast_lossless)]
    pub(crate) fn new(stat: &Stat) -> Option<Self> {
        Some(Meta {
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
            atime: Time::from_parts(stat.st_atime as i64, stat.st_atime_nsec as u32),
        })
    }

    /// Fewer bytes allocated than the size: worth asking for holes. Small files have none worth the question.
    pub(crate) fn may_have_holes(&self) -> bool {
        self.size > 4096 && self.sectors.saturating_mul(512) < self.size
    }

    /// All attributes that a volume's inode takes over, but the size.
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

/// The times of a volume's inode, for `utimensat`.
pub(crate) fn timestamps(attr: &Attr) -> Timestamps {
    let spec = |time: Time| Timespec { tv_sec: time.seconds(), tv_nsec: i64::from(time.nanoseconds()) as _ };
    Timestamps { last_access: spec(attr.atime), last_modification: spec(attr.mtime) }
}
