//! Where the checksums of file data are.

use super::{BLOCK, CHUNK_BLOCKS, CHUNK_TABLE_BLOCKS, GROUP_BLOCKS};

/// Checksums in a block of checksums.
const SUMS: u64 = 1008;

/// Where the checksum of a block of file data is.
pub(super) struct SumPlace {
    pub(super) group: u64,
    /// Number of the block of checksums in its group.
    pub(super) number: u64,
    /// Offset of the checksum in that block.
    pub(super) offset: usize,
}

impl SumPlace {
    pub(super) fn of(at: u64) -> Self {
        let (group, inside) = (at / BLOCK / GROUP_BLOCKS, at / BLOCK % GROUP_BLOCKS);
        SumPlace { group, number: inside / SUMS, offset: 64 + 4 * (inside % SUMS) as usize }
    }

    /// Position of the block of checksums.
    pub(super) fn block(&self) -> u64 {
        first_sums(self.group) + self.number * BLOCK
    }
}

/// Position of a group's first block of checksums: after the table of its first chunk that can be a metadata
/// chunk.
pub(super) fn first_sums(group: u64) -> u64 {
    let chunk = if group == 0 { 1 } else { 0 };
    (group * GROUP_BLOCKS + chunk * CHUNK_BLOCKS + CHUNK_TABLE_BLOCKS) * BLOCK
}
