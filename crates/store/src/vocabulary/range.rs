//! Ranges of blocks.

/// Consecutive blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockRange {
    /// Number of the first block.
    pub first: u64,
    /// Number of blocks.
    pub count: u32,
}
