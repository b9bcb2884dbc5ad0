//! Settings of the kernels that change directories.

use lanefs::format::{HashSeed, InodeSize};

/// Facts about a volume and a dispatch that the kernels for changes depend on.
#[derive(Clone, Debug)]
pub struct KernelSettings {
    /// Seed of the volume's hashes.
    pub seed: HashSeed,
    /// Size of the volume's inodes.
    pub inode_size: InodeSize,
    /// Rounds of all loops of an invocation.
    pub fuel: u32,
    /// Invocations of a workgroup, which share its work.
    pub workgroup: u32,
}
