//! Inodes.

use crate::layout;
use crate::layout::Field;
use std::ops::Range;

layout! {
    /// The first 96 bytes of every inode; the rest depends on its type and on the volume's inode size.
    inode, 96;
    /// Type and permission bits as in `st_mode`; 0 in a free inode
    MODE: u16, 0;
    /// Flags, see `INODE_*`
    FLAGS: u16, 2;
    /// Number of names (directories: 2 and one for each subdirectory)
    LINKS: u32, 4;
    /// Owner
    UID: u32, 8;
    /// Group
    GID: u32, 12;
    /// Size in bytes; of a directory: end of its file map, in bytes
    BYTES: u64, 16;
    /// Root of the radix tree of the file map: a tagged pointer; 0 where the map is the extents in the inode
    MAP: u64, 24;
    /// Directories: inode number of the parent; devices: device number
    PARENT_OR_DEVICE: u64, 32;
    /// First block of the extended attributes; below 4096 the bytes of attributes in the inode; 0 for none
    XATTR: u64, 40;
    /// Time of the last change of content, in nanoseconds since 1970 (signed)
    MTIME: i64, 48;
    /// Time of the last change of the inode
    CTIME: i64, 56;
    /// Time of the last access
    ATIME: i64, 64;
    /// Time of creation
    BTIME: i64, 72;
    /// Grows each time the inode is used again
    GENERATION: u32, 80;
    /// CRC-32C of the inode
    CHECKSUM: u32, 84;
    /// 4 KiB blocks that the inode owns: data, pointers, directory and attribute blocks
    BLOCKS: u64, 88;
}

layout! {
    /// An extent in the inode of a file: consecutive blocks of the file that are consecutive on the volume.
    /// The first one lies after the first 96 bytes of the inode.
    extent, 16;
    /// Position of its first block: a tagged pointer of 4 KiB, whose tag *unwritten* holds for all blocks
    POINTER: u64, 0;
    /// Number of its first block in the file
    FIRST: u32, 8;
    /// Number of blocks, 1 at least
    BLOCKS: u32, 12;
}

layout! {
    /// The part of a directory's inode of 256 B after the first 96 bytes. A lookup reads its last 64 bytes
    /// only.
    dir_inode_256, 160;
    /// First leaf block on the list of leaves with room, 0 for none
    ROOM: u64, 0;
    /// Room for extended attributes, which lie at its end
    ATTRIBUTES: u64, 8, 11;
    /// Root of the lookups: a block, and its form in the low bits
    ROOT: u64, 96;
    /// Small index: tag of each entry (see format.md)
    TAGS: u8, 104, 28;
    /// Small index: unit of each entry in the leaf block, 0 in a free slot
    UNITS: u8, 132, 28;
}

layout! {
    /// The part of a directory's inode of 128 B after the first 96 bytes.
    dir_inode_128, 32;
    /// First leaf block on the list of leaves with room, 0 for none
    ROOM: u64, 0;
    /// Root of the lookups: a block, and its form in the low bits
    ROOT: u64, 8;
    /// Small index: tag of each entry
    TAGS: u8, 16, 8;
    /// Small index: unit of each entry in the leaf block, 0 in a free slot
    UNITS: u8, 24, 8;
}

/// Shift of the file map's depth in an inode's flags.
pub const INODE_DEPTH_SHIFT: u32 = 8;

/// Bits of the file map's depth in an inode's flags.
pub const INODE_DEPTH_MASK: u16 = 0xf << INODE_DEPTH_SHIFT;

/// Shift of the number of extents in an inode's flags.
pub const INODE_EXTENTS_SHIFT: u32 = 12;

/// Bits of the number of extents in an inode's flags.
pub const INODE_EXTENTS_MASK: u16 = 0xf << INODE_EXTENTS_SHIFT;

/// Flag: the content lies in the inode itself, after its first 96 bytes.
pub const INODE_INLINE: u16 = 1;

/// Flag: the file's data have no checksums and are overwritten in place; of a directory, new files and
/// directories in it have the flag.
pub const INODE_NO_DATA_CHECKSUMS: u16 = 8;

/// Flag: the inode has an access control list, the attribute `system.posix_acl_access`.
pub const INODE_ACCESS_ACL: u16 = 16;

/// Flag of a directory: it has a default access control list, the attribute `system.posix_acl_default`.
pub const INODE_DEFAULT_ACL: u16 = 32;

/// Bytes of an inode before its inline data.
pub const INODE_CORE: usize = inode::SIZE;

/// Sizes of inodes that mkfs offers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u16)]
pub enum InodeSize {
    /// 128 bytes: 32 bytes of inline data or 2 extents, 8 entries in a directory's small index.
    B128 = 128,
    /// 256 bytes: 160 bytes of inline data or 10 extents, 28 entries in a directory's small index.
    B256 = 256,
}

impl InodeSize {
    /// Returns the size with this number of bytes.
    pub const fn from_bytes(bytes: u64) -> Option<Self> {
        match bytes {
            128 => Some(InodeSize::B128),
            256 => Some(InodeSize::B256),
            _ => None,
        }
    }

    /// Returns the number of bytes.
    #[inline(always)]
    pub const fn bytes(self) -> u64 {
        self as u64
    }

    /// Returns the room for inline data, in bytes.
    #[inline(always)]
    pub const fn inline(self) -> usize {
        self as usize - INODE_CORE
    }

    /// Returns the bytes of an inode where extended attributes may lie, before others use a part of them.
    pub const fn attributes(self, is_directory: bool) -> Range<usize> {
        match self {
            InodeSize::B128 if is_directory => INODE_CORE..INODE_CORE,
            InodeSize::B256 if is_directory => {
                let start = INODE_CORE + dir_inode_256::ATTRIBUTES.offset;
                start..start + dir_inode_256::ATTRIBUTES.len * 8
            }
            _ => INODE_CORE..self as usize,
        }
    }

    /// Returns the number of extents for which an inode has room, where it has nothing else there.
    #[inline(always)]
    pub const fn extents(self) -> usize {
        self.inline() / extent::SIZE
    }

    /// Returns the number of entries in a directory's small index.
    #[inline(always)]
    pub const fn small_entries(self) -> usize {
        match self {
            InodeSize::B128 => dir_inode_128::UNITS.len,
            InodeSize::B256 => dir_inode_256::UNITS.len,
        }
    }

    /// Returns the field of a directory's root, from the start of the inode.
    #[inline(always)]
    pub const fn dir_root(self) -> Field<u64> {
        Field::at(
            INODE_CORE
                + match self {
                    InodeSize::B128 => dir_inode_128::ROOT.offset,
                    InodeSize::B256 => dir_inode_256::ROOT.offset,
                },
        )
    }

    /// Returns the offset of the small index's tags from the start of the inode.
    #[inline(always)]
    pub const fn small_tags(self) -> usize {
        INODE_CORE
            + match self {
                InodeSize::B128 => dir_inode_128::TAGS.offset,
                InodeSize::B256 => dir_inode_256::TAGS.offset,
            }
    }

    /// Returns the offset of the small index's units from the start of the inode.
    #[inline(always)]
    pub const fn small_units(self) -> usize {
        self.small_tags() + self.small_entries()
    }
}
