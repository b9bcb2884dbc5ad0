//! A lookup as the kernels and their twins take and answer it.

use lanefs::User;
use lanefs::format::{Code, HashSeed, InodeSize};

/// Settings of the lookups of a batch.
#[derive(Clone, Debug)]
pub struct LookupQuery {
    /// Inode number of the root directory.
    pub root: u64,
    /// Inode number of the directory where relative paths begin.
    pub base: u64,
    /// Seed of the volume's hashes.
    pub seed: HashSeed,
    /// Size of the volume's inodes.
    pub inode_size: InodeSize,
    /// Symbolic links at the end are followed.
    pub follow: bool,
    /// The user whose permissions are checked; `None`: no permission is checked.
    pub user: Option<User>,
    /// Rounds of all loops of an invocation.
    pub fuel: u32,
}

impl LookupQuery {
    /// Returns the directory in which a path starts, which is not empty.
    pub(crate) fn start_of(&self, path: &[u8]) -> u64 {
        if path.first() == Some(&b'/') { self.root } else { self.base }
    }
}

/// Result of a lookup by a kernel. [`Code::NotResident`]: the host must decide.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PathResult {
    /// Success, or why not.
    pub code: Code,
    /// Number of the file's type (`d_type`), 0 without a file.
    pub kind: u32,
    /// Inode number, 0 without a file.
    pub ino: u64,
}

impl PathResult {
    pub(crate) fn failed(code: Code) -> Self {
        PathResult { code, kind: 0, ino: 0 }
    }
}
