//! Block groups and metadata chunks.

use crate::layout;

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
    /// Inode number of the owner; 0 for a block of inodes
    OWNER: u64, 8;
}
