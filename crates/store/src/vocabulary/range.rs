//! Ranges of blocks.

/// Consecutive blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockRange {
    /// Number of the first block.
    pub first: u64,
    /// Number of blocks.
    pub count: u32,
}

/// Blocks that the helper of readahead reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AheadRange {
    /// A window of a sequential reader, who uses them soon.
    Stream(BlockRange),
    /// Neighbours of a missed block, which nobody has asked for.
    Neighbours(BlockRange),
}

impl From<BlockRange> for AheadRange {
    fn from(range: BlockRange) -> Self {
        AheadRange::Stream(range)
    }
}
