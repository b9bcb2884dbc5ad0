//! Options for creating and opening volumes.

use lanefs_format::InodeSize;
use lanefs_store::{Choice, FileOptions};
use std::time::Duration;

/// Options for a new volume.
#[derive(Clone, Debug)]
pub struct CreateOptions {
    /// Size of the volume in bytes; rounded down to a multiple of 4096. At least 8 MiB.
    pub size: u64,
    /// Size of an inode.
    pub inode_size: InodeSize,
    /// Overwrite an existing file, or a volume on a raw device.
    pub force: bool,
    /// Name for people, 64 bytes of UTF-8 at most.
    pub label: String,
    /// Identity; `None`: random.
    pub uuid: Option<[u8; 16]>,
    /// Seed of the directory hash; `None`: random.
    pub seed: Option<[u8; 16]>,
    /// File data have checksums. (A volume in memory has none.)
    pub data_checksums: bool,
    /// Permissions (of 0777) of the file, whatever the umask is; nobody else can open it before it has them.
    /// `None`: 0666 without those of the umask. (A raw device or memory cannot have any.)
    pub mode: Option<u16>,
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
            data_checksums: true,
            mode: None,
        }
    }
}

/// Purpose of an open volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Reading only; other processes may read at the same time. A volume whose journal is damaged opens
    /// without it, and changes that only the journal has are missing.
    Read,
    /// Reading and writing; no other process may have the volume open.
    Write,
    /// As `Write`, for repair: a volume whose journal is damaged opens without it. Check the volume with
    /// repair next, which makes a new journal; changes that only the old one has are lost.
    Repair,
}

/// Options for opening a volume.
#[derive(Clone, Debug)]
pub struct OpenOptions {
    /// Purpose.
    pub access: Access,
    /// Memory for blocks of the device, in bytes; `None`: a quarter of what the process may use, which is the
    /// machine's memory or the limit of its control group (of a container). Uncommitted changes add up to
    /// half as much.
    pub cache: Option<u64>,
    /// Memory for the directory-path table at most, in bytes; `None`: 64 MiB, for half a million
    /// directories. 0: no table.
    pub directory_table: Option<u64>,
    /// Bytes by which the volume can [grow](crate::Volume::grow) while it is open, which cost address space
    /// only; `None`: 15 times its size, up to a volume of 32 TiB.
    pub growth: Option<u64>,
    /// Time after which changes become durable without a call.
    pub commit_every: Duration,
    /// Access to the host's file (`write` is set from `access`).
    pub file: FileOptions,
}

impl Default for OpenOptions {
    fn default() -> Self {
        OpenOptions {
            access: Access::Write,
            cache: None,
            directory_table: None,
            growth: None,
            // The same as ext4.
            commit_every: Duration::from_secs(5),
            file: FileOptions::default(),
        }
    }
}

/// Bytes of the cache that one of many readers has of its own.
const SMALL_CACHE_BYTES: u64 = 64 << 20;

impl OpenOptions {
    /// Options of one of several processes that read a volume at the same time, such as the workers of a
    /// loader. The bytes of the volume are in the host's page cache, once for all processes, and each process
    /// has a cache of 64 MiB of its own.
    pub fn one_of_many_readers() -> Self {
        let file = FileOptions { direct: Choice::Never, ..FileOptions::default() };
        OpenOptions { cache: Some(SMALL_CACHE_BYTES), file, ..OpenOptions::from(Access::Read) }
    }
}

impl From<Access> for OpenOptions {
    fn from(access: Access) -> Self {
        OpenOptions { access, ..OpenOptions::default() }
    }
}
