//! Block groups, metadata chunks, checksums of file data.

use crate::geometry::{
    BLOCK, BLOCKS_PER_GROUP, BLOCKS_PER_SUMS, CHUNK, CHUNK_HEADER_BLOCKS, GROUP, SUMS_PER_GROUP,
};
use crate::layout;
use crate::layout::Field;

layout! {
    /// A block group: header and bitmap of 63 chunks in one block of the group table.
    group, 4096;
    /// `BlockKind::Group`
    KIND: u8, 0;
    /// Zero
    RESERVED0: u8, 1, 3;
    /// CRC-32C of the block
    CHECKSUM: u32, 4;
    /// Number of the group
    OWNER: u64, 8;
    /// Free blocks: clear bits of the bitmap
    FREE: u64, 16;
    /// Bit c set: chunk c of the group is a metadata chunk (its 512 bits in the bitmap are set)
    METADATA: u64, 24;
    /// Bit c set: metadata chunk c has a free block
    ROOM: u64, 32;
    /// Bit c set: metadata chunk c has an inode block with a free inode
    INODE_ROOM: u64, 40;
    /// Zero
    RESERVED1: u64, 48, 2;
    /// Bit b of word b / 64 set: block b of the group is used, or lies past the volume's end
    BITMAP: u64, 64, 504;
}

layout! {
    /// First 32 bytes of a metadata chunk's table, instead of the entries of the table's own two blocks. The
    /// table fills the chunk's first two blocks; entry b is 16 B at byte 16 b. The second block's first entry
    /// (256) is an ordinary one.
    chunk_header, 32;
    /// `BlockKind::ChunkHeader`
    KIND: u8, 0;
    /// Zero
    RESERVED0: u8, 1, 3;
    /// CRC-32C of the table's first block
    CHECKSUM: u32, 4;
    /// Byte position of the chunk
    OWNER: u64, 8;
    /// Used blocks, the table's two included
    USED: u32, 16;
    /// CRC-32C of the table's second block
    CHECKSUM2: u32, 20;
    /// Zero
    RESERVED1: u64, 24;
}

layout! {
    /// One entry of a metadata chunk's table.
    chunk_entry, 16;
    /// `BlockKind` of the block, 0 for a free one
    KIND: u8, 0;
    /// Of a block of inodes: how many are in use; else 0
    USED: u8, 1;
    /// Zero
    RESERVED: u16, 2;
    /// CRC-32C of a block that has no room for its own (pointers); else 0
    CHECKSUM: u32, 4;
    /// Inode number of the owner, group number for checksums; 0 for inodes and a free block
    OWNER: u64, 8;
}

layout! {
    /// Checksums of the file data in 1,008 consecutive blocks of a group.
    sums, 4096;
    /// `BlockKind::Sums`
    KIND: u8, 0;
    /// Zero
    RESERVED0: u8, 1, 3;
    /// CRC-32C of the block
    CHECKSUM: u32, 4;
    /// Number of the group
    OWNER: u64, 8;
    /// Number of this block among those of its group
    NUMBER: u64, 16;
    /// Zero
    RESERVED1: u64, 24, 5;
    /// Checksum i is that of block 1,008 * `NUMBER` + i of the group; 0 for none
    SUMS: u32, 64, 1008;
}

/// The position of a data block's checksum.
#[derive(Clone, Copy, Debug)]
pub struct SumPlace {
    /// Position of the block of kind `Sums`.
    pub at: u64,
    /// The checksum in it.
    pub field: Field<u32>,
}

impl SumPlace {
    /// Returns the position of the checksum of the block at `position`.
    #[inline(always)]
    pub const fn of(position: u64) -> Self {
        let (group, block) = (position / GROUP, position / BLOCK % BLOCKS_PER_GROUP);
        let number = block / BLOCKS_PER_SUMS;
        debug_assert!(number < SUMS_PER_GROUP);
        SumPlace {
            at: sums_chunk(group) + (CHUNK_HEADER_BLOCKS + number) * BLOCK,
            field: sums::SUMS.index((block % BLOCKS_PER_SUMS) as usize),
        }
    }

    /// Returns the position of the first block whose checksum is in the block of kind `Sums` at `at`; `None`
    /// where no such block has its place.
    pub fn first_of(at: u64) -> Option<u64> {
        let group = at / GROUP;
        let number = (at.checked_sub(sums_chunk(group))? / BLOCK).checked_sub(CHUNK_HEADER_BLOCKS)?;
        let is_one = at.is_multiple_of(BLOCK) && number < SUMS_PER_GROUP;
        is_one.then_some(group * GROUP + number * BLOCKS_PER_SUMS * BLOCK)
    }
}

/// Returns the position of the metadata chunk in which the checksums of a group's file data begin: its first
/// one, in group 0 its second one, because the first is the system chunk.
#[inline(always)]
pub const fn sums_chunk(group: u64) -> u64 {
    if group == 0 { CHUNK } else { group * GROUP }
}
