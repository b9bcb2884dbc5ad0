//! The tables of a volume, in whose blocks no file data lie.

use lanefs_format::BLOCK;
use lanefs_sync::Mutex;
use std::collections::HashSet;
use std::sync::atomic::{AtomicU64, Ordering};

/// Most blocks of the group table that are remembered because they cannot be had.
const REMEMBERED_BLOCKS: usize = 4096;

/// An extent of blocks. Relaxed: it changes only while the gate is closed, and a thread that sees the old one
/// has a stale attempt.
#[derive(Default)]
pub(crate) struct Place {
    first: AtomicU64,
    count: AtomicU64,
}

impl Place {
    /// Moves it to `count` blocks from byte `at` on.
    pub(crate) fn set(&self, at: u64, count: u64) {
        self.first.store(at / BLOCK, Ordering::Relaxed);
        self.count.store(count, Ordering::Relaxed);
    }

    /// Returns its byte position and its number of blocks.
    pub(crate) fn get(&self) -> (u64, u64) {
        (self.first.load(Ordering::Relaxed) * BLOCK, self.count.load(Ordering::Relaxed))
    }

    /// Returns true where block `index` is one of it.
    pub(crate) fn has(&self, index: u64) -> bool {
        let (at, count) = self.get();
        index.wrapping_sub(at / BLOCK) < count
    }

    /// Returns the byte position of its block `number`.
    pub(crate) fn block(&self, number: u64) -> Option<u64> {
        let (at, count) = self.get();
        (number < count).then(|| at + number * BLOCK)
    }
}

/// The tables of a volume. (Its superblocks, and the journal of one that is open for writing, have a
/// [state](crate::memory::state::FIXED) of their own.)
#[derive(Default)]
pub(crate) struct Places {
    pub(crate) groups: Place,
    /// The journal of a volume that was closed and is open for reading.
    pub(crate) idle_journal: Place,
    silent: Mutex<HashSet<u64>>,
}

impl Places {
    /// Remembers a block of the group table that cannot be had, and so says nothing.
    pub(crate) fn note_silent(&self, at: u64) {
        let mut silent = self.silent.lock();
        if silent.len() < REMEMBERED_BLOCKS {
            silent.insert(at);
        }
    }

    /// Returns true for a block of the group table that could not be had.
    pub(crate) fn is_silent(&self, at: u64) -> bool {
        self.silent.lock().contains(&at)
    }
}

#[cfg(all(test, not(feature = "_shuttle")))]
mod tests {
    use super::*;

    #[test]
    fn a_place_has_its_blocks_and_no_others() {
        let place = Place::default();
        assert!(![0, 1, u64::MAX].into_iter().any(|index| place.has(index)), "an empty place");
        place.set(7 * BLOCK, 2);
        let inside: Vec<u64> = (0..20).chain([u64::MAX]).filter(|index| place.has(*index)).collect();
        assert_eq!(inside, [7, 8]);
        assert_eq!([0, 1, 2].map(|number| place.block(number)), [Some(7 * BLOCK), Some(8 * BLOCK), None]);
    }
}
