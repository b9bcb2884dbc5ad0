//! Kinds of blocks and of files.

/// Kind of a metadata block. The numbers are part of the format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum BlockKind {
    /// One of the two copies of the superblock.
    Superblock = 1,
    /// Header and bitmap of a block group.
    Group = 2,
    /// Part of a metadata chunk's table.
    ChunkHeader = 3,
    /// Inodes, 16 of 256 B or 32 of 128 B.
    Inodes = 4,
    /// 512 tagged pointers of a file map.
    Pointers = 5,
    /// Directory entries.
    Leaf = 6,
    /// A node of a directory's hash tree.
    Tree = 7,
    /// Hash table from hash to entry position, for one hash region.
    Index = 8,
    /// Extended attributes.
    Xattr = 9,
    /// The journal's own blocks.
    Journal = 10,
    /// Checksums of file data.
    Sums = 11,
}

impl BlockKind {
    /// All kinds.
    pub const ALL: [BlockKind; 11] = [
        BlockKind::Superblock,
        BlockKind::Group,
        BlockKind::ChunkHeader,
        BlockKind::Inodes,
        BlockKind::Pointers,
        BlockKind::Leaf,
        BlockKind::Tree,
        BlockKind::Index,
        BlockKind::Xattr,
        BlockKind::Journal,
        BlockKind::Sums,
    ];

    /// Returns the kind with this number.
    pub fn from_number(number: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| *kind as u8 == number)
    }

    /// Returns true for blocks that begin with the common header: kind `u8` at 0, checksum `u32` at 4, owner
    /// `u64` at 8. The others have checksum and owner elsewhere: pointers in their chunk's table, inodes
    /// one by one.
    pub const fn has_header(self) -> bool {
        !matches!(self, BlockKind::Inodes | BlockKind::Pointers)
    }
}

/// Type of a file. The number is `d_type` of readdir(3), which is the upper four bits of a POSIX mode.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum FileKind {
    /// Named pipe.
    Fifo = 1,
    /// Character device.
    CharDevice = 2,
    /// Directory.
    Directory = 4,
    /// Block device.
    BlockDevice = 6,
    /// Regular file.
    File = 8,
    /// Symbolic link.
    Symlink = 10,
    /// Unix domain socket.
    Socket = 12,
}

impl FileKind {
    /// Returns the kind with this `d_type`.
    #[inline(always)]
    pub const fn from_number(number: u8) -> Option<Self> {
        Some(match number {
            1 => FileKind::Fifo,
            2 => FileKind::CharDevice,
            4 => FileKind::Directory,
            6 => FileKind::BlockDevice,
            8 => FileKind::File,
            10 => FileKind::Symlink,
            12 => FileKind::Socket,
            _ => return None,
        })
    }

    /// Returns the kind in a POSIX mode.
    #[inline(always)]
    pub const fn from_mode(mode: u16) -> Option<Self> {
        Self::from_number((mode >> 12) as u8)
    }

    /// Returns the type bits of a POSIX mode.
    pub const fn mode(self) -> u16 {
        (self as u16) << 12
    }

    /// Returns one word for people: `file`, `dir`, `symlink`, `fifo`, `socket`, `char`, `block`.
    pub const fn word(self) -> &'static str {
        match self {
            FileKind::Fifo => "fifo",
            FileKind::CharDevice => "char",
            FileKind::Directory => "dir",
            FileKind::BlockDevice => "block",
            FileKind::File => "file",
            FileKind::Symlink => "symlink",
            FileKind::Socket => "socket",
        }
    }
}
