//! Conversion between the service's types and the library's.

use fuser::{FileAttr, FileType, Generation, INodeNo, Request, TimeOrNow};
use lanefs::format::BLOCK;
use lanefs::{FileKind, Time};
use lanefs_serve::{Entry, Errno, Groups, NodeId, Requester};
use std::time::{Duration, SystemTime};

/// Bytes of the unit in which stat(2) counts blocks.
const STAT_BLOCK_BYTES: u64 = 512;

/// Converts an error.
pub(crate) fn errno(errno: Errno) -> fuser::Errno {
    fuser::Errno::from_i32(errno.code())
}

/// Converts the kernel's number of an inode.
pub(crate) fn node(number: INodeNo) -> NodeId {
    NodeId(number.0)
}

/// Converts a node.
pub(crate) fn number(node: NodeId) -> INodeNo {
    INodeNo(node.0)
}

/// Returns who sends a request. It has only the first group of the process.
pub(crate) fn requester(request: &Request) -> Requester<'static> {
    Requester { uid: request.uid(), gid: request.gid(), groups: Groups::OfProcess(request.pid()) }
}

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

/// Converts the attributes of a reply.
pub(crate) fn attributes(entry: &Entry) -> FileAttr {
    let attr = &entry.attr;
    FileAttr {
        ino: number(entry.node),
        size: attr.size,
        blocks: attr.blocks.saturating_mul(BLOCK / STAT_BLOCK_BYTES),
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

/// Converts the generation of an inode.
pub(crate) fn generation(entry: &Entry) -> Generation {
    Generation(u64::from(entry.attr.generation))
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

/// Attributes for a name that does not exist: inode 0 tells the kernel so, and the rest means nothing.
pub(crate) const NO_ATTRIBUTES: FileAttr = FileAttr {
    ino: INodeNo(0),
    size: 0,
    blocks: 0,
    atime: SystemTime::UNIX_EPOCH,
    mtime: SystemTime::UNIX_EPOCH,
    ctime: SystemTime::UNIX_EPOCH,
    crtime: SystemTime::UNIX_EPOCH,
    kind: FileType::RegularFile,
    perm: 0,
    nlink: 0,
    uid: 0,
    gid: 0,
    rdev: 0,
    blksize: BLOCK as u32,
    flags: 0,
};

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
}
