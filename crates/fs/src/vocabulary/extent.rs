//! Consecutive blocks of a volume.

/// Consecutive blocks: the number of the first one, and their number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Extent {
    pub(crate) first: u64,
    pub(crate) count: u64,
}

impl Extent {
    #[inline(always)]
    pub(crate) fn new(first: u64, count: u64) -> Self {
        Extent { first, count }
    }

    /// Number of the block after the last one.
    #[inline(always)]
    pub(crate) fn end(self) -> u64 {
        self.first.saturating_add(self.count)
    }
}
