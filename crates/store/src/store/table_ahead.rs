//! Readahead of the group table: who walks it wants the next blocks, too.
//!
//! A walk over all groups of 16 TiB reads 131,072 blocks. An attempt that misses one begins again, so the
//! number of misses counts twice. A miss right after the blocks that the last one brought is a walk's, and
//! brings twice as many.

use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Blocks that come along with the second miss in a row.
const FIRST_BLOCKS: u64 = 8;

/// Most blocks that come along: 2 MiB.
const MOST_BLOCKS: u64 = 512;

/// Part of the cache that they take at most.
const CACHE_PART: u64 = 16;

/// The walk that the last misses belong to, if any.
#[derive(Default)]
pub(crate) struct TableAhead {
    /// Block of the table after those that the last miss brought.
    next: AtomicU64,
    run: AtomicU64,
}

impl TableAhead {
    /// Returns the blocks that come along with the missed block `number` of a table of `count` blocks.
    pub(crate) fn plan(&self, number: u64, count: u64, cache: u64) -> Range<u64> {
        let is_walk = number == self.next.load(Relaxed);
        let run = match is_walk {
            true => (self.run.load(Relaxed) * 2).clamp(FIRST_BLOCKS, MOST_BLOCKS).min(cache / CACHE_PART),
            false => 0,
        };
        let ahead = number + 1..number.saturating_add(1 + run).min(count);
        self.run.store(run, Relaxed);
        self.next.store(ahead.end, Relaxed);
        ahead
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_walk_brings_more_each_time_and_single_misses_bring_nothing() {
        let ahead = TableAhead::default();
        assert_eq!(ahead.plan(7, 10_000, 1 << 20), 8..8);
        assert_eq!(ahead.plan(8, 10_000, 1 << 20), 9..17);
        assert_eq!(ahead.plan(17, 10_000, 1 << 20), 18..34);
        assert_eq!(ahead.plan(500, 10_000, 1 << 20), 501..501, "elsewhere");
        let (mut number, mut misses) = (0, 0);
        while number < 131_072 {
            number = ahead.plan(number, 131_072, 1 << 20).end;
            misses += 1;
        }
        assert!(misses < 300, "{misses} misses");
        assert_eq!(ahead.plan(131_071, 131_072, 1 << 20), 131_072..131_072);
        ahead.plan(3, 10, 1 << 20);
        assert_eq!(ahead.plan(4, 10, 1 << 20), 5..10, "not past the table");
        ahead.plan(3, 1000, 64);
        assert_eq!(ahead.plan(4, 1000, 64), 5..9, "a part of the cache");
    }
}
