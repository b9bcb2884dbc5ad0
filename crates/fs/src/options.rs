//! How volumes are made and opened.

use lanefs_format::InodeSize;
use lanefs_store::FileOptions;
use std::time::Duration;

/// How a volume is made.
#[derive(Clone, Debug)]
pub struct CreateOptions {
    /// Size of the volume in bytes; rounded down to a multiple of 4096. At least 8 MiB.
    pub size: u64,
    /// Size of an inode.
    pub inode_size: InodeSize,
    /// Take the place of an existing file, or of a volume on a raw device.
    pub force: bool,
    /// A name for people, 64 bytes of UTF-8 at most.
    pub label: String,
    /// Identity; `None` for a random one.
    pub uuid: Option<[u8; 16]>,
    /// Seed of the directory hash; `None` for a random one.
    pub seed: Option<[u8; 16]>,
}

impl Default for CreateOptions {
    fn default() -> Self {
        CreateOptions {
            size: 1 << 30,
            inode_size: InodeSize::B256,
            force: false,
            label: String::new(),
            uuid: None,
            seed: None,
        }
    }
}

/// What a volume is opened for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Reading only; others may read at the same time.
    Read,
    /// Reading and writing; nobody else may have it open.
    Write,
    /// As `Write`, to mend the volume: a journal that does not verify is replaced by an empty one, and what a crash may
    /// have left in it is lost. Check the volume with repair next.
    Repair,
}

/// How a volume is opened.
#[derive(Clone, Debug)]
pub struct OpenOptions {
    /// What for.
    pub access: Access,
    /// Memory for blocks of the device, in bytes; `None` for a quarter of the machine's. What was changed and not
    /// committed comes on top, up to half as much again.
    pub cache: Option<u64>,
    /// Changes become durable after this time by themselves.
    pub commit_every: Duration,
    /// How the host's file is reached (its `write` is set from `access`).
    pub file: FileOptions,
}

impl Default for OpenOptions {
    fn default() -> Self {
        OpenOptions {
            access: Access::Write,
            cache: None,
            // As ext4 has it.
            commit_every: Duration::from_secs(5),
            file: FileOptions::default(),
        }
    }
}

impl From<Access> for OpenOptions {
    fn from(access: Access) -> Self {
        OpenOptions { access, ..OpenOptions::default() }
    }
}
