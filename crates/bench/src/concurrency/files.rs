//! Single operations on files, so that a workload is written once and compiled for each system: no call through a table
//! lies between the clock and what is measured.

use crate::Result;
use crate::system::Named;
use std::ffi::CStr;

/// A file system as the threads of a workload see it. All calls may come from many threads at once.
pub(super) trait Files: Named + Sync {
    /// An open directory.
    type Dir: Send + Sync;
    /// An open file, closed where it is dropped.
    type File: Send + Sync;

    /// The root directory.
    fn top(&self) -> Result<Self::Dir>;

    /// Makes a directory.
    fn make_dir(&self, dir: &Self::Dir, name: &CStr) -> Result<()>;

    /// Removes an empty directory.
    fn remove_dir(&self, dir: &Self::Dir, name: &CStr) -> Result<()>;

    /// Opens a directory.
    fn open_dir(&self, dir: &Self::Dir, name: &CStr) -> Result<Self::Dir>;

    /// Creates a file that is not there.
    fn create(&self, dir: &Self::Dir, name: &CStr) -> Result<Self::File>;

    /// Opens a file for reading and writing.
    fn open(&self, dir: &Self::Dir, name: &CStr) -> Result<Self::File>;

    /// Removes a file.
    fn remove(&self, dir: &Self::Dir, name: &CStr) -> Result<()>;

    /// Reads from byte `offset` on; returns how many bytes.
    fn read(&self, file: &Self::File, offset: u64, buffer: &mut [u8]) -> Result<usize>;

    /// Writes all of `data` at byte `offset`.
    fn write(&self, file: &Self::File, offset: u64, data: &[u8]) -> Result<()>;

    /// Content and attributes of a file are durable on return.
    fn sync_file(&self, file: &Self::File) -> Result<()>;

    /// Attributes of a name in a directory; returns the inode number.
    fn stat_name(&self, dir: &Self::Dir, name: &CStr) -> Result<u64>;

    /// Attributes of what a path from the root leads to; returns the inode number.
    fn stat_path(&self, path: &CStr) -> Result<u64>;

    /// Lists a directory of the root from its start; returns how many entries it has.
    fn list(&self, name: &CStr) -> Result<u64>;

    /// Visits all that is below a directory of the root: lists each directory and reads the attributes of each entry;
    /// returns how many entries there are.
    fn walk(&self, name: &CStr) -> Result<u64>;
}
