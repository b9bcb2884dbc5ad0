//! Single operations on files, so that a workload is written once and compiled for each system: no call
//! through a table lies between the clock and the measured work.

use crate::error::Result;
use crate::systems::system::Named;
use std::ffi::CStr;

/// A file system as the threads of a workload see it. Many threads may call at once.
pub(super) trait Files: Named + Sync {
    /// An open directory.
    type Dir: Send + Sync;
    /// An open file, closed when it is dropped.
    type File: Send + Sync;

    /// Opens the root directory.
    fn top(&self) -> Result<Self::Dir>;

    /// Makes a directory.
    fn make_dir(&self, dir: &Self::Dir, name: &CStr) -> Result<()>;

    /// Removes an empty directory.
    fn remove_dir(&self, dir: &Self::Dir, name: &CStr) -> Result<()>;

    /// Opens a directory.
    fn open_dir(&self, dir: &Self::Dir, name: &CStr) -> Result<Self::Dir>;

    /// Creates a new file.
    fn create(&self, dir: &Self::Dir, name: &CStr) -> Result<Self::File>;

    /// Opens a file for reading and writing.
    fn open(&self, dir: &Self::Dir, name: &CStr) -> Result<Self::File>;

    /// Removes a file.
    fn remove(&self, dir: &Self::Dir, name: &CStr) -> Result<()>;

    /// Reads from byte `offset` on; returns the number of bytes.
    fn read(&self, file: &Self::File, offset: u64, buffer: &mut [u8]) -> Result<usize>;

    /// Writes all of `data` at byte `offset`.
    fn write(&self, file: &Self::File, offset: u64, data: &[u8]) -> Result<()>;

    /// Makes contents and attributes of a file durable.
    fn sync_file(&self, file: &Self::File) -> Result<()>;

    /// Reads the attributes of a name in a directory; returns the inode number.
    fn stat_name(&self, dir: &Self::Dir, name: &CStr) -> Result<u64>;

    /// Reads the attributes of a path from the root; returns the inode number.
    fn stat_path(&self, path: &CStr) -> Result<u64>;

    /// Lists a directory of the root from its start; returns the number of entries.
    fn list(&self, name: &CStr) -> Result<u64>;

    /// Visits the tree below a directory of the root: lists each directory and reads the attributes of each
    /// entry. Returns the number of entries.
    fn walk(&self, name: &CStr) -> Result<u64>;
}
