//! What the rows ask of a file system, so that each is measured by the same words.
//!
//! Everything happens below one root directory that is empty at first. A method that returns a [`Duration`] measures
//! only the work that it is named for: opening the directory, making the requests ready and cleaning up are outside.
//! Every such method also checks its answers, and fails with [`crate::Error::Wrong`] where one is not as it must be.

use crate::workload::{Strings, Tree};
use crate::{Result, stop::Stop};
use std::ffi::CStr;
use std::time::Duration;

/// Whether the requests of a lookup name something that exists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expect {
    /// All of them.
    Found,
    /// None of them: the last component is missing.
    Absent,
}

/// How a file is created.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Create {
    /// As a program creates a file: `openat(O_CREAT | O_EXCL)` and `close`; LaneFS: `create_file`.
    Open,
    /// `mknodat`, which leaves no descriptor to close; LaneFS: `mknod`.
    Node,
}

/// What has a name in a report.
pub trait Named {
    /// The name.
    fn name(&self) -> &str;
}

/// A file system under measurement.
pub trait System: Named {
    /// Makes a tree of directories and empty files.
    fn make_tree(&self, tree: &Tree, stop: &Stop) -> Result<()>;

    /// Attributes of every requested path, relative to `directory` (`None`: the root), symbolic links not followed,
    /// all answers read; each thread resolves its own share of the requests. From the first thread's start to the last
    /// one's end.
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

    /// Removes them again.
    fn remove_subdirectories(&self, directory: &CStr, names: &Strings, stop: &Stop) -> Result<()>;

    /// Creates `depth` directories, each in the one before, the first in a directory of the root.
    fn make_chain(&self, directory: &CStr, depth: usize, stop: &Stop) -> Result<Duration>;

    /// Looks up the deepest directory of such a chain `times` times, each time from its top.
    fn resolve_chain(&self, directory: &CStr, depth: usize, times: usize, stop: &Stop) -> Result<Duration>;

    /// Removes a chain.
    fn remove_chain(&self, directory: &CStr, depth: usize, stop: &Stop) -> Result<()>;

    /// Lists a directory of the root and reads the attributes of each of its `expected` entries, in the order listed.
    fn list_and_stat(&self, directory: &CStr, expected: usize, stop: &Stop) -> Result<Duration>;

    /// Bytes in use, inodes included; `None` where the system does not tell.
    fn used_bytes(&self) -> Result<Option<u64>>;

    /// Writes out whatever waits to be written, so that it does not happen while another system is measured.
    fn settle(&self) -> Result<()>;
}
