//! Operations that the rows require of a file system, the same for every system.
//!
//! All work happens below one root directory, which is empty at first. A method that returns a [`Duration`]
//! measures only the work that it is named for, without opening the directory, preparing the requests and
//! cleaning up. It also checks the answers, and fails with [`crate::Error::Wrong`] if one is wrong.

use super::workload::{Strings, Tree};
use crate::error::Result;
use crate::measure::stop::Stop;
use std::ffi::CStr;
use std::time::Duration;

/// Expected result of the requests of a lookup.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expect {
    /// All exist.
    Found,
    /// None exists: the last component is missing.
    Absent,
}

/// Call that creates a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Create {
    /// The calls of a program: `openat(O_CREAT | O_EXCL)` and `close`; LaneFS: `create_file`.
    Open,
    /// `mknodat`, which leaves no descriptor to close; LaneFS: `mknod`.
    Node,
}

/// A system with a name in a report.
pub trait Named {
    /// Returns the name.
    fn name(&self) -> &str;
}

/// A file system under measurement.
pub trait System: Named {
    /// Makes a tree of directories and empty files.
    fn make_tree(&self, tree: &Tree, stop: &Stop) -> Result<()>;

    /// Reads the attributes of every requested path, relative to `directory` (`None`: the root), without
    /// following symbolic links. Each thread resolves its own share of the requests. Returns the time from
    /// the start of the first thread to the end of the last one.
    fn resolve(
        &self,
        directory: Option<&CStr>,
        requests: &Strings,
        threads: usize,
        expect: Expect,
        stop: &Stop,
    ) -> Result<Duration>;

    /// Makes an empty directory in the root.
    fn make_directory(&self, name: &CStr) -> Result<()>;

    /// Removes an empty directory from the root.
    fn remove_directory(&self, name: &CStr) -> Result<()>;

    /// Creates empty files in a directory of the root.
    fn create_files(&self, directory: &CStr, names: &Strings, how: Create, stop: &Stop) -> Result<Duration>;

    /// Unlinks files in a directory of the root.
    fn unlink_files(&self, directory: &CStr, names: &Strings, stop: &Stop) -> Result<Duration>;

    /// Creates subdirectories in a directory of the root.
    fn make_subdirectories(&self, directory: &CStr, names: &Strings, stop: &Stop) -> Result<Duration>;

    /// Removes the subdirectories.
    fn remove_subdirectories(&self, directory: &CStr, names: &Strings, stop: &Stop) -> Result<()>;

    /// Creates `depth` directories, each in the previous one, the first in a directory of the root.
    fn make_chain(&self, directory: &CStr, depth: usize, stop: &Stop) -> Result<Duration>;

    /// Looks up the deepest directory of a chain `times` times, each time from the top.
    fn resolve_chain(&self, directory: &CStr, depth: usize, times: usize, stop: &Stop) -> Result<Duration>;

    /// Removes a chain.
    fn remove_chain(&self, directory: &CStr, depth: usize, stop: &Stop) -> Result<()>;

    /// Lists a directory of the root and reads the attributes of each of its `expected` entries, in the order
    /// listed.
    fn list_and_stat(&self, directory: &CStr, expected: usize, stop: &Stop) -> Result<Duration>;

    /// Returns the bytes in use, with inodes; `None` if the system does not report them.
    fn used_bytes(&self) -> Result<Option<u64>>;

    /// Writes out all pending data, so that the write-back does not overlap the measurement of another
    /// system.
    fn settle(&self) -> Result<()>;
}
