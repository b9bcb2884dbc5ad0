//! Identity of the file or raw device that holds a volume.

use rustix::fd::AsFd;
use rustix::fs::FileType;
use std::io;

/// A file or a raw device, under whatever name. Two that are open at the same time are equal exactly if their
/// bytes are the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileId {
    /// A regular file: the device number of its file system, and its inode.
    File {
        /// Device number of the file system.
        device: u64,
        /// Number of the inode.
        inode: u64,
    },
    /// A block device, by its number: many nodes may stand for one device.
    Raw(u64),
}

impl FileId {
    /// Returns the identity of an open file; `None` for a file that holds no volume, such as a directory or a
    /// FIFO. A file that is open as a path only (`O_PATH`) will do.
    ///
    /// # Errors
    /// The host's.
    pub fn of(file: impl AsFd) -> io::Result<Option<FileId>> {
        let stat = rustix::fs::fstat(file)?;
        Ok(match FileType::from_raw_mode(stat.st_mode) {
            FileType::RegularFile => Some(FileId::File { device: stat.st_dev, inode: stat.st_ino }),
            FileType::BlockDevice => Some(FileId::Raw(stat.st_rdev)),
            _ => None,
        })
    }
}
