//! Neighbours: blocks of metadata beside a missed one, which one read brings along.
//!
//! A disk gives 64 KiB in hardly more time than 4 KiB, and inodes that were made together lie together. So a
//! miss of metadata reads its *window*, and the blocks of it that are absent become resident with the missed
//! one (see `window`). This module has the state: whether neighbours are worth their room, and of which
//! chunks the table is worth a read.

use lanefs_format::{BlockKind, CHUNK};
use lanefs_sync::size;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Blocks of a window, which begins at a multiple of its size: 64 KiB.
pub(crate) const WINDOW: u64 = 16;

/// Smallest cache in blocks that takes neighbours (16 MiB): its small queue has room for 25 windows, so that
/// a neighbour waits for its use through some tens of misses.
const LEAST_CACHE: u64 = size(4096, 24) as u64;

/// Neighbours, used or evicted, after which it is judged whether they are worth it.
const ROUND: u64 = size(1024, 8) as u64;

/// One neighbour in so many must be used before it is evicted.
const WORTH: u64 = 8;

/// Misses without neighbours after a round in which too few were used.
const PAUSE: u64 = size(8192, 4) as u64;

/// Chunks of which it is remembered that a block was missed.
const CHUNKS: usize = 256;

/// A block of the chunk was missed, and its table was absent.
const MISSED: u64 = 1;
/// The table cannot be fetched.
const NO_TABLE: u64 = 2;

/// Counts of neighbours, and what follows from them.
pub(crate) struct Neighbours {
    /// The cache is large enough.
    is_in_use: bool,
    /// Totals since the volume was opened.
    pub(crate) fetched: AtomicU64,
    pub(crate) used: AtomicU64,
    /// Of the present round: neighbours used or evicted in the upper half, those used in the lower one.
    round: AtomicU64,
    /// Misses left of a pause.
    pause: AtomicU64,
    /// By number of the chunk: its position, and [`MISSED`] or [`NO_TABLE`]; 0 for none.
    chunks: Box<[AtomicU64]>,
}

/// Returns true for the kinds of which a window is read. They have what verifies a block in the block itself.
pub(crate) fn is_taken(kind: BlockKind) -> bool {
    matches!(kind, BlockKind::Inodes | BlockKind::Leaf | BlockKind::Tree | BlockKind::Index)
}

impl Neighbours {
    /// Neighbours for a cache of `budget` blocks.
    pub(crate) fn new(budget: u64) -> Self {
        Neighbours {
            is_in_use: budget >= LEAST_CACHE,
            fetched: 0.into(),
            used: 0.into(),
            round: 0.into(),
            pause: 0.into(),
            chunks: (0..CHUNKS).map(|_| AtomicU64::new(0)).collect(),
        }
    }

    /// Returns whether a miss, which this counts, may fetch neighbours.
    pub(crate) fn may_fetch(&self) -> bool {
        let is_paused = || self.pause.fetch_update(Relaxed, Relaxed, |left| left.checked_sub(1)).is_ok();
        self.is_in_use && !is_paused()
    }

    /// Counts a neighbour that was used, or evicted before that.
    pub(crate) fn settle(&self, was_used: bool) {
        let used = u64::from(was_used);
        self.used.fetch_add(used, Relaxed);
        let one = 1 << 32 | used;
        let now = self.round.fetch_add(one, Relaxed) + one;
        if now >> 32 == ROUND {
            self.round.store(0, Relaxed);
            if (now & u64::from(u32::MAX)) * WORTH < ROUND {
                self.pause.store(PAUSE, Relaxed);
            }
        }
    }

    fn chunk(&self, chunk: u64) -> &AtomicU64 {
        &self.chunks[(chunk / CHUNK) as usize % CHUNKS]
    }

    /// Counts a miss in the chunk at this position, whose table is absent. Returns true from the second one
    /// on: the table is worth a read.
    pub(crate) fn wants_table(&self, chunk: u64) -> bool {
        let word = self.chunk(chunk);
        let before = word.load(Relaxed);
        if before != chunk | NO_TABLE {
            word.store(chunk | MISSED, Relaxed);
        }
        before == chunk | MISSED
    }

    /// Remembers that the table of the chunk cannot be fetched, so that misses no longer try it.
    pub(crate) fn note_no_table(&self, chunk: u64) {
        self.chunk(chunk).store(chunk | NO_TABLE, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn paused_after(used: u64) -> u64 {
        let near = Neighbours::new(LEAST_CACHE);
        for number in 0..ROUND {
            assert!(near.may_fetch(), "paused within a round");
            near.settle(number < used);
        }
        assert_eq!(near.used.load(Relaxed), used);
        (0..2 * PAUSE).filter(|_| !near.may_fetch()).count() as u64
    }

    #[test]
    fn neighbours_of_which_too_few_are_used_are_not_fetched_for_a_while() {
        assert_eq!(paused_after(ROUND / WORTH), 0);
        assert_eq!(paused_after(ROUND / WORTH - 1), PAUSE);
        assert!(!Neighbours::new(LEAST_CACHE - 1).may_fetch(), "in a small cache");
    }

    #[test]
    fn a_round_begins_with_no_counts() {
        let near = Neighbours::new(LEAST_CACHE);
        for number in 0..3 * ROUND {
            near.settle(number < ROUND);
        }
        assert!(!near.may_fetch(), "the use of the first round counts for the second");
    }

    #[test]
    fn the_second_miss_in_a_chunk_wants_its_table_unless_there_is_none() {
        let near = Neighbours::new(LEAST_CACHE);
        let (one, other) = (3 * CHUNK, (3 + CHUNKS as u64) * CHUNK);
        assert_eq!([one, one, one].map(|chunk| near.wants_table(chunk)), [false, true, true]);
        near.note_no_table(one);
        assert_eq!([one, one].map(|chunk| near.wants_table(chunk)), [false, false]);
        // Another chunk in the same slot.
        assert_eq!([other, other, one].map(|chunk| near.wants_table(chunk)), [false, true, false]);
    }
}
