//! Extended attributes.

use crate::layout;

layout! {
    /// Header of an extended attribute block. The payloads of an inode's blocks, one after another, are a
    /// sequence of attributes: length of the name `u16`, length of the value `u32`, name, value.
    xattr_block, 32;
    /// `BlockKind::Xattr`
    KIND: u8, 0;
    /// Zero
    RESERVED: u8, 1, 3;
    /// CRC-32C of the block
    CHECKSUM: u32, 4;
    /// Inode number of the owner
    OWNER: u64, 8;
    /// Position of the next block, 0 at the end
    NEXT: u64, 16;
    /// Bytes of payload in this block, which start at byte 32
    LENGTH: u64, 24;
}
