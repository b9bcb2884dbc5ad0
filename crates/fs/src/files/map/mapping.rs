//! The content of a file map: extents of blocks, and holes between them.

use lanefs_format::BLOCK;

/// State of a block of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MapState {
    Hole,
    /// Blocks at this byte position.
    Data(u64),
    /// Blocks at this position that are allocated and read as zeros.
    Unwritten(u64),
}

/// Consecutive blocks of equal state, in the file and on the volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Mapping {
    pub(crate) state: MapState,
    pub(crate) blocks: u64,
}

impl Mapping {
    /// A hole of `blocks`, of which the caller wants `max` at most.
    #[inline(always)]
    pub(super) fn hole(blocks: u64, max: u64) -> Self {
        Mapping { state: MapState::Hole, blocks: blocks.min(max).max(1) }
    }
}

/// Allocated blocks that are consecutive in the file and on the volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct MapExtent {
    /// Number of the first block in the file.
    pub(crate) first: u64,
    pub(crate) blocks: u64,
    /// Byte position of the first block.
    pub(crate) at: u64,
    pub(crate) unwritten: bool,
}

impl MapExtent {
    /// Number of the block of the file after the extent.
    #[inline(always)]
    pub(crate) fn end(&self) -> u64 {
        self.first + self.blocks
    }

    /// State of the block that is `inside` blocks after the first one.
    #[inline(always)]
    pub(super) fn state(&self, inside: u64) -> MapState {
        let at = self.at + inside * BLOCK;
        if self.unwritten { MapState::Unwritten(at) } else { MapState::Data(at) }
    }

    /// The blocks of the file from `first` up to `end` (exclusive); both lie in the extent.
    pub(super) fn part(&self, first: u64, end: u64) -> MapExtent {
        debug_assert!(self.first <= first && first <= end && end <= self.end());
        MapExtent { first, blocks: end - first, at: self.at + (first - self.first) * BLOCK, ..*self }
    }

    /// True where `next` continues this extent in the file and on the volume.
    pub(super) fn joins(&self, next: &MapExtent) -> bool {
        self.end() == next.first
            && self.at + self.blocks * BLOCK == next.at
            && self.unwritten == next.unwritten
    }
}
