//! Conversion between the volume's types and the kernel's.

use fuser::{FileAttr, FileType, Generation, INodeNo, TimeOrNow};
use lanefs::format::BLOCK;
use lanefs::{Attr, FileKind, Ino, Time};
use std::time::{Duration, SystemTime};

/// Time for which the kernel may cache replies. The kernel learns of every change, so a year stands for no
/// limit.
pub(crate) const CACHE_TIMEOUT: Duration = Duration::from_secs(365 * 86_400);

/// Bytes of the unit in which stat(2) counts blocks.
const STAT_BLOCK: u64 = 512;

/// Converts the type of a file.
pub(crate) fn kind(kind: FileKind) -> FileType {
    match kind {
        FileKind::File => FileType::RegularFile,
        FileKind::Directory => FileType::Directory,
        FileKind::Symlink => FileType::Symlink,
        FileKind::Fifo => FileType::NamedPipe,
        FileKind::Socket => FileType::Socket,
        FileKind::CharDevice => FileType::CharDevice,
        FileKind::BlockDevice => FileType::BlockDevice,
    }
}

/// Bits of an inode number of a volume: positions have 51, and an inode has 128 bytes at least.
const INODE_BITS: u32 = 44;
/// Versions that a mount can serve at a time. With them the kernel's numbers have 52 bits, which programs
/// that take numbers for floating-point ones still represent.
pub(crate) const VERSIONS: usize = 1 << u8::BITS;

/// Conversion of inode numbers of one version. The kernel's number of the root directory is 1 in all
/// versions; no inode of a volume has it, because the superblock is at that position. Every other number has
/// the version above the volume's number.
#[derive(Clone, Copy)]
pub(crate) struct InodeNumbers {
    pub(crate) root: Ino,
    pub(crate) version: u8,
}

/// Attributes of an inode, as the kernel gets them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Entry {
    pub(crate) attr: FileAttr,
    pub(crate) generation: Generation,
}

impl InodeNumbers {
    /// Converts the kernel's number.
    pub(crate) fn ino(self, number: INodeNo) -> Ino {
        if number == INodeNo::ROOT { self.root } else { Ino(number.0 & ((1 << INODE_BITS) - 1)) }
    }

    /// Returns the version of the kernel's number of an inode other than the root.
    pub(crate) fn version(number: INodeNo) -> u8 {
        (number.0 >> INODE_BITS) as u8
    }

    /// Returns the kernel's number of an inode.
    pub(crate) fn number(self, ino: Ino) -> INodeNo {
        if ino == self.root {
            return INodeNo::ROOT;
        }
        INodeNo(ino.0 & ((1 << INODE_BITS) - 1) | u64::from(self.version) << INODE_BITS)
    }

    /// Converts attributes.
    pub(crate) fn attr(self, attr: &Attr) -> FileAttr {
        FileAttr {
            ino: self.number(attr.ino),
            size: attr.size,
            blocks: attr.blocks.saturating_mul(BLOCK / STAT_BLOCK),
            atime: to_system(attr.atime),
            mtime: to_system(attr.mtime),
            ctime: to_system(attr.ctime),
            crtime: to_system(attr.btime),
            kind: kind(attr.kind),
            perm: attr.perm,
            nlink: attr.links,
            uid: attr.uid,
            gid: attr.gid,
            // For numbers of 32 bits, the C library and the kernel use the same encoding.
            rdev: attr.rdev as u32,
            blksize: BLOCK as u32,
            flags: 0,
        }
    }
}

/// Converts the generation of an inode.
pub(crate) fn generation(attr: &Attr) -> Generation {
    Generation(u64::from(attr.generation))
}

/// Converts a time of the volume.
fn to_system(time: Time) -> SystemTime {
    let distance = Duration::from_nanos(time.0.unsigned_abs());
    if time.0 < 0 { SystemTime::UNIX_EPOCH - distance } else { SystemTime::UNIX_EPOCH + distance }
}

/// Converts a time that the kernel sets.
///
/// Before 1970 the kernel's seconds are rounded down and its nanoseconds count up. The library subtracts both
/// as one distance; this function separates them again.
pub(crate) fn from_system(time: TimeOrNow, now: Time) -> Time {
    let TimeOrNow::SpecificTime(time) = time else { return now };
    match time.duration_since(SystemTime::UNIX_EPOCH) {
        Ok(after) => {
            let seconds = i64::try_from(after.as_secs()).unwrap_or(i64::MAX);
            Time::from_parts(seconds, after.subsec_nanos())
        }
        Err(before) => {
            let before = before.duration();
            let seconds = i64::try_from(before.as_secs()).map_or(i64::MIN, |seconds| -seconds);
            Time::from_parts(seconds, before.subsec_nanos())
        }
    }
}

/// Returns the attributes for a name that does not exist.
pub(crate) fn no_entry() -> FileAttr {
    let zero = Time::default();
    let attr = Attr {
        ino: Ino(0),
        kind: FileKind::File,
        perm: 0,
        links: 0,
        uid: 0,
        gid: 0,
        size: 0,
        blocks: 0,
        rdev: 0,
        mtime: zero,
        ctime: zero,
        atime: zero,
        btime: zero,
        generation: 0,
    };
    InodeNumbers { root: Ino(u64::MAX), version: 0 }.attr(&attr)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Conversion in the library (fuser 0.18.0, `time::system_time_from_time`).
    fn as_fuser_reads(seconds: i64, nanoseconds: u32) -> TimeOrNow {
        TimeOrNow::SpecificTime(if seconds >= 0 {
            SystemTime::UNIX_EPOCH + Duration::new(seconds as u64, nanoseconds)
        } else {
            SystemTime::UNIX_EPOCH - Duration::new(seconds.unsigned_abs(), nanoseconds)
        })
    }

    #[test]
    fn times_before_1970_come_in_as_the_kernel_means_them() {
        for (seconds, nanoseconds) in
            [(0, 0), (5, 7), (-1, 0), (-2, 800_000_000), (-1, 1), (-9_000_000_000, 5)]
        {
            let time = from_system(as_fuser_reads(seconds, nanoseconds), Time(0));
            assert_eq!(time, Time::from_parts(seconds, nanoseconds));
        }
    }

    #[test]
    fn times_go_out_as_they_are() {
        for nanoseconds in [0, 1, -1, -1_200_000_000, i64::MIN, i64::MAX] {
            let system = to_system(Time(nanoseconds));
            let back = match system.duration_since(SystemTime::UNIX_EPOCH) {
                Ok(after) => after.as_nanos() as i128,
                Err(before) => -(before.duration().as_nanos() as i128),
            };
            assert_eq!(back, i128::from(nanoseconds));
        }
    }

    #[test]
    fn the_root_is_one_in_all_versions_and_nothing_else_is() {
        let numbers = InodeNumbers { root: Ino(4711), version: 0 };
        assert_eq!(numbers.number(Ino(4711)), INodeNo::ROOT);
        assert_eq!(numbers.ino(INodeNo::ROOT), Ino(4711));
        assert_eq!(numbers.ino(INodeNo(4712)), Ino(4712));
        let later = InodeNumbers { version: 255, ..numbers };
        assert_eq!(later.number(Ino(4711)), INodeNo::ROOT);
        let number = later.number(Ino(4712));
        assert_eq!((later.ino(number), InodeNumbers::version(number)), (Ino(4712), 255));
        assert!(number.0 < 1 << 52, "{number}");
        assert_eq!(InodeNumbers::version(numbers.number(Ino(u64::MAX))), 0, "a number of a damaged entry");
    }
}
