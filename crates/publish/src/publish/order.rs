//! The order of data in packs: what is read first lies first, and apart from what is not.
//!
//! A piece has blocks of one window, and a window lies where the volume has it. But a window may have several
//! pieces, and packs may have pieces in any order. So the blocks that a reader wants in a known order become
//! pieces of their own, which follow one another in that order: he meets them as neighbours.

use crate::format::layout::WINDOW_BYTES;
use lanefs::UsedBlocks;
use lanefs::format::BLOCK;
use std::collections::HashMap;
use std::ops::Range;

/// The blocks that come first.
pub(super) struct PackOrder(HashMap<u64, FirstBlocks>);

/// Blocks of a window that come first.
struct FirstBlocks {
    /// Windows with such blocks before this one.
    rank: usize,
    blocks: u64,
}

impl PackOrder {
    /// Takes ranges of bytes of a volume in the order in which they are read. Bytes outside the volume are
    /// left out.
    pub(super) fn new(ranges: &[Range<u64>], volume_bytes: u64) -> Self {
        let mut windows: HashMap<u64, FirstBlocks> = HashMap::new();
        for range in ranges.iter().filter(|range| !range.is_empty()) {
            let (first, end) = (range.start / BLOCK, range.end.min(volume_bytes).div_ceil(BLOCK));
            let in_window = WINDOW_BYTES / BLOCK;
            let mut block = first;
            while block < end {
                let (window, from) = (block / in_window, block % in_window);
                let count = (in_window - from).min(end - block);
                let rank = windows.len();
                let of_window = windows.entry(window).or_insert(FirstBlocks { rank, blocks: 0 });
                of_window.blocks |= (u64::MAX >> (in_window - count)) << from;
                block += count;
            }
        }
        PackOrder(windows)
    }

    /// The blocks of a window that come first.
    pub(super) fn first(&self, window: &UsedBlocks) -> u64 {
        match self.0.get(&(window.position / WINDOW_BYTES)) {
            // Metadata are read together.
            Some(first) if !window.is_metadata => first.blocks,
            _ => 0,
        }
    }

    /// Sorts windows: those with metadata, those with blocks that come first, and the others, which stay in
    /// their order.
    pub(super) fn sort(&self, windows: &mut [UsedBlocks]) {
        let rank = |window: &UsedBlocks| match self.first(window) {
            0 => usize::MAX,
            _ => self.0.get(&(window.position / WINDOW_BYTES)).map_or(usize::MAX, |first| first.rank),
        };
        windows.sort_by_key(|window| (!window.is_metadata, rank(window)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn used(window: u64, is_metadata: bool) -> UsedBlocks {
        UsedBlocks { position: window * WINDOW_BYTES, used: u64::MAX, is_metadata }
    }

    #[test]
    fn blocks_come_in_the_order_of_the_ranges_and_metadata_before_them() {
        let (at, volume) =
            (|window: u64, block: u64| window * WINDOW_BYTES + block * BLOCK, 8 * WINDOW_BYTES);
        let ranges = [at(5, 3)..at(5, 5), at(2, 63)..at(4, 1), at(5, 0)..at(5, 1), at(1, 0)..at(1, 9)];
        let order = PackOrder::new(&ranges, volume);
        let first: Vec<u64> = (0..6).map(|window| order.first(&used(window, window == 1))).collect();
        assert_eq!(first, [0, 0, 1 << 63, u64::MAX, 1, 0b11001]);
        let mut windows: Vec<UsedBlocks> = (0..8).map(|window| used(window, window == 1)).collect();
        order.sort(&mut windows);
        let sorted: Vec<u64> = windows.iter().map(|window| window.position / WINDOW_BYTES).collect();
        assert_eq!(sorted, [1, 5, 2, 3, 4, 0, 6, 7]);
    }

    #[test]
    fn what_lies_outside_the_volume_is_left_out() {
        let ranges = [u64::MAX - 1..u64::MAX, Range { start: 5, end: 3 }, WINDOW_BYTES - 1..u64::MAX];
        let order = PackOrder::new(&ranges, 2 * WINDOW_BYTES);
        assert_eq!(order.0.len(), 2);
        assert_eq!((order.first(&used(0, false)), order.first(&used(1, false))), (1 << 63, u64::MAX));
    }
}
