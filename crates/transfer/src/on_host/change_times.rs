//! File systems of the host whose times of the last change (ctime) tell every change of a file.
//!
//! Those here set the time for content, attributes, extended attributes and access control lists, with the
//! clock of this machine. The server of a network file system has a clock of its own, and another machine may
//! change its files; layers and user programs have rules of their own.

use rustix::fd::AsFd;
use rustix::fs::fstatfs;

/// ext2, ext3, ext4; XFS; Btrfs: the magic numbers of statfs(2). F2FS is none of them: before Linux 6.6 an
/// extended attribute leaves the time.
const MAGIC_NUMBERS: [u64; 3] = [0xef53, 0x5846_5342, 0x9123_683e];

/// The number of the file system of an open file; `None` where its times do not tell every change.
pub(crate) fn file_system_with_change_times(file: impl AsFd) -> Option<u64> {
    // The type of the field differs between architectures.
    #[allow(clippy::unnecessary_cast, clippy::cast_lossless)]
    let number = fstatfs(file).ok()?.f_type as u64;
    MAGIC_NUMBERS.contains(&number).then_some(number)
}
