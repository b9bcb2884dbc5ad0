//! Types of the arguments and results of a volume's operations.

use lanefs_format::{Code, FileKind};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Inode number: the inode's byte position in units of the volume's inode size. Never 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(transparent)]
pub struct Ino(pub u64);

impl std::fmt::Display for Ino {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}

/// A time in nanoseconds since 1970, negative before it: from the year 1678 to 2262.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Time(pub i64);

impl Time {
    /// The present time, to the precision of the kernel's tick (as the kernel stamps its own inodes).
    pub fn now() -> Self {
        let t = rustix::time::clock_gettime(rustix::time::ClockId::RealtimeCoarse);
        Time::from_parts(t.tv_sec, t.tv_nsec as u32)
    }

    /// Converts seconds and nanoseconds as in `struct timespec`; a time outside the range becomes its nearest
    /// end.
    pub fn from_parts(seconds: i64, nanoseconds: u32) -> Self {
        Time(seconds.saturating_mul(1_000_000_000).saturating_add(i64::from(nanoseconds)))
    }

    /// The same time for the standard library.
    pub fn to_system_time(self) -> SystemTime {
        let nanoseconds = Duration::from_nanos(self.0.unsigned_abs());
        if self.0 < 0 { UNIX_EPOCH - nanoseconds } else { UNIX_EPOCH + nanoseconds }
    }

    /// Whole seconds, rounded down.
    pub fn seconds(self) -> i64 {
        self.0.div_euclid(1_000_000_000)
    }

    /// Nanoseconds within the second, 0 to 999,999,999.
    pub fn nanoseconds(self) -> u32 {
        self.0.rem_euclid(1_000_000_000) as u32
    }
}

impl From<Time> for SystemTime {
    fn from(time: Time) -> Self {
        time.to_system_time()
    }
}

/// A time outside the range becomes its nearest end.
impl From<SystemTime> for Time {
    fn from(time: SystemTime) -> Self {
        let nanoseconds = |duration: Duration| i64::try_from(duration.as_nanos()).unwrap_or(i64::MAX);
        match time.duration_since(UNIX_EPOCH) {
            Ok(after) => Time(nanoseconds(after)),
            Err(before) => Time(-nanoseconds(before.duration())),
        }
    }
}

/// Attributes of an inode, as in `stat(2)`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attr {
    /// Inode number.
    pub ino: Ino,
    /// Type.
    pub kind: FileKind,
    /// Permission bits with set-id and sticky bits: the low 12 bits of a POSIX mode.
    pub perm: u16,
    /// Number of names; for a directory 2, and one for each subdirectory.
    pub links: u32,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Size in bytes; for a directory the size of its blocks.
    pub size: u64,
    /// Number of blocks (4 KiB).
    pub blocks: u64,
    /// Device number of a character or block device.
    pub rdev: u64,
    /// Last change of the content.
    pub mtime: Time,
    /// Last change of the inode.
    pub ctime: Time,
    /// Last access.
    pub atime: Time,
    /// Creation.
    pub btime: Time,
    /// Generation, which grows with each reuse of the inode number.
    pub generation: u32,
}

impl Attr {
    /// Type and permissions as in `st_mode`.
    pub fn mode(&self) -> u16 {
        self.kind.mode() | self.perm
    }
}

/// Attributes of an inode, and whether it has extended ones: what a comparison of many inodes asks for each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Description {
    /// The attributes.
    pub attr: Attr,
    /// True where the inode has extended attributes.
    pub has_xattrs: bool,
}

/// Change of attributes; `None` leaves an attribute as it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SetAttr {
    /// Permission bits (the low 12 bits of a mode).
    pub perm: Option<u16>,
    /// Owner.
    pub uid: Option<u32>,
    /// Group.
    pub gid: Option<u32>,
    /// Size of a regular file: truncated, or extended with a hole.
    pub size: Option<u64>,
    /// Access time.
    pub atime: Option<Time>,
    /// Modification time.
    pub mtime: Option<Time>,
}

/// An entry of a directory, as `readdir` gives it. `.` and `..` are not entries.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DirEntry {
    /// Inode number.
    pub ino: Ino,
    /// Type.
    pub kind: FileKind,
    /// Cookie to continue after this entry. It is stable: entries that stay are neither skipped nor listed
    /// twice, whatever is created or removed meanwhile.
    pub cookie: u64,
    /// Name: any bytes but NUL and '/'.
    pub name: Vec<u8>,
}

/// The caller of an operation. A caller without an identity may do everything.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Caller {
    /// Identity for permission checks.
    pub user: Option<User>,
}

/// An identity; uid 0 overrides permissions as root does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct User {
    /// User id.
    pub uid: u32,
    /// Primary group, which becomes the group of new files.
    pub gid: u32,
    /// Supplementary groups.
    pub groups: Vec<u32>,
}

impl Caller {
    /// The owner of the volume: no permission is checked; new inodes belong to uid 0, gid 0.
    pub const OWNER: Caller = Caller { user: None };

    /// Makes a user with supplementary groups.
    pub fn user(uid: u32, gid: u32, groups: &[u32]) -> Self {
        Caller { user: Some(User { uid, gid, groups: groups.to_vec() }) }
    }
}

/// Behaviour of a rename to an existing name, and of what it leaves at the old one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RenameMode {
    /// Replaces the inode, as `rename(2)`.
    Replace,
    /// Fails with [`Code::Exists`] (`RENAME_NOREPLACE`).
    NoReplace,
    /// Swaps the two inodes (`RENAME_EXCHANGE`); both must exist.
    Exchange,
    /// Replaces the inode, and leaves a whiteout at the old name (`RENAME_WHITEOUT`): a character device of
    /// number 0 without permissions, by which overlayfs hides a name of a lower layer. Two names of one inode
    /// stay as they are.
    Whiteout,
    /// Leaves a whiteout as [`Whiteout`](Self::Whiteout), and fails as [`NoReplace`](Self::NoReplace).
    NoReplaceWhiteout,
}

impl RenameMode {
    /// All modes, in the order of their numbers.
    pub const ALL: [RenameMode; 5] = [
        RenameMode::Replace,
        RenameMode::NoReplace,
        RenameMode::Exchange,
        RenameMode::Whiteout,
        RenameMode::NoReplaceWhiteout,
    ];

    /// Returns true where the new name must not exist.
    pub fn needs_free_name(self) -> bool {
        matches!(self, RenameMode::NoReplace | RenameMode::NoReplaceWhiteout)
    }

    /// Returns true where the old name becomes that of a whiteout.
    pub fn leaves_whiteout(self) -> bool {
        matches!(self, RenameMode::Whiteout | RenameMode::NoReplaceWhiteout)
    }
}

/// Rule by which reading changes times of access.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AccessTimes {
    /// Reading changes none (`noatime`).
    Never,
    /// Reading changes a time that adds information (`relatime`): the inode has been changed since, or a day
    /// has passed.
    #[default]
    Relative,
    /// Each reading changes it (`strictatime`).
    Always,
}

/// Target of a seek.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Seek {
    /// `SEEK_DATA`.
    Data,
    /// `SEEK_HOLE`.
    Hole,
}

/// Blocks of a file that are consecutive in the file and on the volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileExtent {
    /// Offset in the file, in bytes.
    pub offset: u64,
    /// Position on the volume, in bytes.
    pub position: u64,
    /// Length in bytes, a multiple of the block size; the last extent may reach past the end of the file.
    pub bytes: u64,
    /// Allocated and never written: the blocks read as zeros.
    pub unwritten: bool,
}

/// Modes of `fallocate(2)`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Allocate {
    /// Allocates space; the file grows to the end of the range.
    Extend,
    /// Allocates space; the size stays (`FALLOC_FL_KEEP_SIZE`).
    KeepSize,
    /// Makes the range a hole (`FALLOC_FL_PUNCH_HOLE`); the size stays.
    PunchHole,
    /// Makes the range read as zeros, with its space allocated (`FALLOC_FL_ZERO_RANGE`); the file grows to
    /// its end.
    ZeroRange,
    /// Removes the range, and moves the content after it to its start (`FALLOC_FL_COLLAPSE_RANGE`). Its ends
    /// are multiples of the block size, and it ends before the file does.
    CollapseRange,
    /// Inserts a hole of this length, and moves the content from `offset` on after it
    /// (`FALLOC_FL_INSERT_RANGE`). The ends of the range are multiples of the block size, and it begins
    /// before the end of the file.
    InsertRange,
}

/// Behaviour of `setxattr` towards an existing or missing attribute.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum XattrMode {
    /// Creates or replaces.
    Set,
    /// Fails with [`Code::Exists`] (`XATTR_CREATE`).
    Create,
    /// Fails with [`Code::NoAttribute`] (`XATTR_REPLACE`).
    Replace,
}

/// Space of a volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StatFs {
    /// Size of a block in bytes.
    pub block_size: u64,
    /// All blocks.
    pub blocks: u64,
    /// Free blocks, without those inside metadata chunks.
    pub free_blocks: u64,
    /// Inodes in use.
    pub inodes: u64,
    /// Number of inodes for which there are free blocks.
    pub free_inodes: u64,
    /// Longest name in bytes.
    pub max_name: u32,
}

/// Options for resolving paths.
#[derive(Clone, Debug)]
pub struct ResolveOptions {
    /// Directory in which relative paths start; `None`: the root directory.
    pub base: Option<Ino>,
    /// Follow a symbolic link in the last component (those before it are always followed).
    pub follow: bool,
    /// Fill in [`Resolution::attr`].
    pub attributes: bool,
    /// Caller whose search permission is checked.
    pub caller: Caller,
}

impl Default for ResolveOptions {
    fn default() -> Self {
        ResolveOptions { base: None, follow: true, attributes: false, caller: Caller::OWNER }
    }
}

/// Result for one path of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Resolution {
    /// [`Code::Success`], or the reason why there is no inode.
    pub code: Code,
    /// The inode found.
    pub ino: Option<Ino>,
    /// Its type.
    pub kind: Option<FileKind>,
    /// Its attributes, where [`ResolveOptions::attributes`] requests them.
    pub attr: Option<Attr>,
}

impl Resolution {
    /// The result for a path that names no inode.
    pub fn failed(code: Code) -> Self {
        Resolution { code, ino: None, kind: None, attr: None }
    }
}
