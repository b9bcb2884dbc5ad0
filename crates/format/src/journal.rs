//! The journal: blocks of commits, before a writer puts them in their home positions.

use crate::layout;

layout! {
    /// Each of the first two blocks of the journal.
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
    /// First block of the oldest commit whose blocks may not all be in their home positions, 2 to
    /// `JOURNAL_BLOCKS` - 1
    TAIL: u64, 16;
    /// Number of that commit; without one, of the next commit
    SEQUENCE: u64, 24;
    /// Free blocks, as in the superblock, before that commit
    FREE_BLOCKS: u64, 32;
    /// Inodes in use, as in the superblock, before that commit; 0 where neither count is known
    INODES: u64, 40;
    /// Zero
    RESERVED1: u64, 48, 506;
}

// The fields of a header that change lie in its first sector, which a device writes as a whole or not at all.
const _: () = assert!(journal_header::INODES.offset + 8 <= 512);

layout! {
    /// A descriptor, which gives the home positions of the blocks that follow it, or a revocation, which no
    /// blocks follow.
    journal_descriptor, 4096;
    /// `BlockKind::Journal`
    KIND: u8, 0;
    /// 2: a descriptor, 4: a revocation
    ROLE: u8, 1;
    /// Number of positions, 1 to 500; of a descriptor also the number of blocks that follow
    COUNT: u16, 2;
    /// CRC-32C of the block
    CHECKSUM: u32, 4;
    /// Zero
    OWNER: u64, 8;
    /// Number of the commit
    SEQUENCE: u64, 16;
    /// Zero
    RESERVED: u64, 24, 9;
    /// Position and flags of each of the blocks; zero from `COUNT` on
    POSITIONS: u64, 96, 500;
}

layout! {
    /// A commit record: the end of a whole commit.
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
    /// Blocks of the commit before the record: descriptors, copies and revocations
    BLOCKS: u64, 24;
    /// CRC-32C of these blocks, one after another
    CONTENT: u32, 32;
    /// Zero
    RESERVED1: u32, 36;
    /// Free blocks, as in the superblock, with this commit
    FREE_BLOCKS: u64, 40;
    /// Inodes in use, as in the superblock, with this commit; 0 where neither count is known
    INODES: u64, 48;
    /// Zero
    RESERVED2: u64, 56, 505;
}

/// Blocks of a journal before the ring: copies of its header.
pub const JOURNAL_HEADERS: u64 = 2;
/// Smallest journal in blocks: the headers, and a commit of one block with its descriptor and record.
pub const MIN_JOURNAL: u64 = JOURNAL_HEADERS + 3;
/// Largest journal in blocks (128 MiB). So recovery has a bound, whatever a superblock says.
pub const MAX_JOURNAL: u64 = 1 << 15;

/// Flag of a position in a descriptor: the copy is file data, whose checksum recovery computes and stores.
pub const JOURNAL_SUMMED: u64 = 1;

/// Role of a journal's header.
pub const JOURNAL_HEADER: u8 = 1;
/// Role of a descriptor.
pub const JOURNAL_DESCRIPTOR: u8 = 2;
/// Role of a commit record.
pub const JOURNAL_COMMIT: u8 = 3;
/// Role of a revocation. It has the fields of a descriptor.
pub const JOURNAL_REVOCATION: u8 = 4;
