//! What goes in and out of a volume's operations.

use lanefs_format::{Code, FileKind};

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
    /// Now, to the precision of the kernel's tick (as the kernel stamps its own inodes).
    pub fn now() -> Self {
        let t = rustix::time::clock_gettime(rustix::time::ClockId::RealtimeCoarse);
        Time::from_parts(t.tv_sec, t.tv_nsec as u32)
    }

    /// From seconds and nanoseconds as in `struct timespec`; what lies outside the range becomes its nearest end.
    pub fn from_parts(seconds: i64, nanoseconds: u32) -> Self {
        Time(seconds.saturating_mul(1_000_000_000).saturating_add(i64::from(nanoseconds)))
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

/// Attributes of an inode, as of `stat(2)`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attr {
    /// Inode number.
    pub ino: Ino,
    /// Type.
    pub kind: FileKind,
    /// Permission bits with set-id and sticky bits: the low 12 bits of a POSIX mode.
    pub perm: u16,
    /// Number of names; of a directory 2 and one for each subdirectory.
    pub links: u32,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Size in bytes; of a directory: that of its blocks.
    pub size: u64,
    /// Space in 4 KiB blocks.
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
    /// Grows each time the inode number is used anew.
    pub generation: u32,
}

impl Attr {
    /// Type and permissions as in `st_mode`.
    pub fn mode(&self) -> u16 {
        self.kind.mode() | self.perm
    }
}

/// A change of attributes; `None` leaves one as it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SetAttr {
    /// Permission bits (the low 12 bits of a mode).
    pub perm: Option<u16>,
    /// Owner.
    pub uid: Option<u32>,
    /// Group.
    pub gid: Option<u32>,
    /// Size of a regular file: cut off, or grown with a hole.
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
    /// Where to go on reading behind this entry. Stable: entries that stay are neither skipped nor seen twice,
    /// whatever is created or removed in between.
    pub cookie: u64,
    /// Name, any bytes but NUL and '/'.
    pub name: Vec<u8>,
}

/// Who asks. A caller without an identity may do everything.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Caller {
    /// Identity that permissions are checked against.
    pub user: Option<User>,
}

/// An identity; uid 0 overrides permissions as root does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct User {
    /// User id.
    pub uid: u32,
    /// Primary group, which new files get.
    pub gid: u32,
    /// Supplementary groups.
    pub groups: Vec<u32>,
}

impl Caller {
    /// The volume's owner: no permission is checked; what is created belongs to uid 0, gid 0.
    pub const OWNER: Caller = Caller { user: None };

    /// A user with supplementary groups.
    pub fn user(uid: u32, gid: u32, groups: &[u32]) -> Self {
        Caller { user: Some(User { uid, gid, groups: groups.to_vec() }) }
    }
}

/// What a rename does where the new name exists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RenameMode {
    /// Replaces it, as `rename(2)`.
    Replace,
    /// Fails with [`Code::Exists`] (`RENAME_NOREPLACE`).
    NoReplace,
    /// The two change places (`RENAME_EXCHANGE`); both must exist.
    Exchange,
}

/// What a seek looks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Seek {
    /// `SEEK_DATA`.
    Data,
    /// `SEEK_HOLE`.
    Hole,
}

/// Blocks of a file that follow each other, in the file and on the volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileExtent {
    /// Byte in the file.
    pub offset: u64,
    /// Byte on the volume.
    pub position: u64,
    /// Length in bytes, a multiple of 4096; the last one may reach past the end of the file.
    pub bytes: u64,
    /// Allocated and never written: reads as zeros.
    pub unwritten: bool,
}

/// Modes of `fallocate(2)`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Allocate {
    /// Space is allocated; the file grows to the end of the range.
    Extend,
    /// Space is allocated; the size stays (`FALLOC_FL_KEEP_SIZE`).
    KeepSize,
    /// The range becomes a hole (`FALLOC_FL_PUNCH_HOLE`); the size stays.
    PunchHole,
    /// The range reads as zeros and stays allocated (`FALLOC_FL_ZERO_RANGE`); the file grows to its end.
    ZeroRange,
}

/// How `setxattr` treats an attribute that exists or does not.
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
    /// Free blocks (those inside metadata chunks not counted).
    pub free_blocks: u64,
    /// Inodes in use.
    pub inodes: u64,
    /// Inodes that could be made from the free blocks.
    pub free_inodes: u64,
    /// Longest name in bytes.
    pub max_name: u32,
}

/// How paths are resolved.
#[derive(Clone, Debug)]
pub struct ResolveOptions {
    /// Where relative paths start; `None`: the root directory.
    pub base: Option<Ino>,
    /// Follow a symbolic link in the last place (those before it are always followed).
    pub follow: bool,
    /// Fill in [`Resolution::attr`].
    pub attributes: bool,
    /// Whose search permission counts.
    pub caller: Caller,
}

impl Default for ResolveOptions {
    fn default() -> Self {
        ResolveOptions { base: None, follow: true, attributes: false, caller: Caller::OWNER }
    }
}

/// The answer for one path of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Resolution {
    /// [`Code::Success`], or why there is no inode.
    pub code: Code,
    /// The inode found.
    pub ino: Option<Ino>,
    /// Its type.
    pub kind: Option<FileKind>,
    /// Its attributes, where asked for.
    pub attr: Option<Attr>,
}
