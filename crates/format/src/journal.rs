//! The journal: blocks of one commit, before they go to their places.

use crate::layout;

layout! {
    /// First block of the journal.
    journal_header, 4096;
    /// `BlockKind::Journal`
    KIND: u8, 0;
    /// 1: the header
    ROLE: u8, 1;
    /// Zero
    RESERVED0: u16, 2;
    /// CRC-32C of the block
    CHECKSUM: u32, 4;
    /// Zero
    OWNER: u64, 8;
    /// Number of the last commit whose blocks are all in their places
    DONE: u64, 16;
    /// Zero
    RESERVED1: u64, 24, 509;
}

layout! {
    /// A descriptor: where the blocks that follow it belong.
    journal_descriptor, 4096;
    /// `BlockKind::Journal`
    KIND: u8, 0;
    /// 2: a descriptor
    ROLE: u8, 1;
    /// Number of blocks that follow, 1 to 500
    COUNT: u16, 2;
    /// CRC-32C of the block
    CHECKSUM: u32, 4;
    /// Zero
    OWNER: u64, 8;
    /// Number of the commit
    SEQUENCE: u64, 16;
    /// Zero
    RESERVED: u64, 24, 9;
    /// Position of each of the blocks
    POSITIONS: u64, 96, 500;
}

layout! {
    /// A commit record: all that stands before it counts.
    journal_commit, 4096;
    /// `BlockKind::Journal`
    KIND: u8, 0;
    /// 3: a commit record
    ROLE: u8, 1;
    /// Zero
    RESERVED0: u16, 2;
    /// CRC-32C of the block
    CHECKSUM: u32, 4;
    /// Zero
    OWNER: u64, 8;
    /// Number of the commit
    SEQUENCE: u64, 16;
    /// Blocks before the record, descriptors included
    BLOCKS: u64, 24;
    /// CRC-32C of these blocks, one after another
    CONTENT: u32, 32;
    /// Zero
    RESERVED1: u32, 36;
    /// Zero
    RESERVED2: u64, 40, 507;
}

/// Role of a journal's first block.
pub const JOURNAL_HEADER: u8 = 1;
/// Role of a descriptor.
pub const JOURNAL_DESCRIPTOR: u8 = 2;
/// Role of a commit record.
pub const JOURNAL_COMMIT: u8 = 3;
