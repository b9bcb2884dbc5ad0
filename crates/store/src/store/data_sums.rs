//! State of the checksums of file data: which blocks may be overwritten in place, and which were found wrong.
//!
//! `docs/crash.md` argues why a block never fails its checksum after a crash. This module keeps one
//! word a block, its *age*: the generation of the volume in which the block was last written. A snapshot
//! begins a new generation. A block of the present generation is in no snapshot yet, and is overwritten in
//! place; every other one may be in a commit, and its file gets a new block.

use crate::memory::arena::Arena;
use lanefs_sync::Mutex;
use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

/// Age of a block that has no checksum, because its file has none: it is always overwritten in place.
const PLAIN: u32 = u32::MAX;

/// Generations after which all ages are forgotten. Blocks of forgotten age are not overwritten in place.
const GENERATIONS: u32 = PLAIN - 1;

/// Most wrong blocks that are remembered.
const REMEMBERED: usize = 1 << 16;

/// The state of a store's checksums of file data.
pub(crate) struct DataSums {
    is_in_use: AtomicBool,
    /// One word a block; 0 where the block was not written since the volume was opened.
    ages: Arena,
    /// The present generation, from 1 on.
    generation: AtomicU32,
    /// Blocks that did not match their checksums when a thread needed them.
    wrong: Mutex<BTreeSet<u64>>,
    /// Blocks that were compared with their checksums since the volume was opened.
    pub(crate) verified: AtomicU64,
}

impl DataSums {
    pub(crate) fn new(ages: Arena) -> Self {
        DataSums {
            is_in_use: AtomicBool::new(false),
            ages,
            generation: AtomicU32::new(1),
            wrong: Mutex::default(),
            verified: AtomicU64::new(0),
        }
    }

    pub(crate) fn start(&self) {
        self.is_in_use.store(true, Ordering::Relaxed);
    }

    #[inline(always)]
    pub(crate) fn is_in_use(&self) -> bool {
        self.is_in_use.load(Ordering::Relaxed)
    }

    fn now(&self) -> u32 {
        self.generation.load(Ordering::Relaxed)
    }

    /// Begins a new generation. The caller has closed the gate.
    pub(crate) fn begin_generation(&self) {
        let next = self.now() + 1;
        if next < GENERATIONS {
            self.generation.store(next, Ordering::Relaxed);
        } else {
            self.ages.release(0, self.ages.capacity());
            self.generation.store(1, Ordering::Relaxed);
        }
    }

    /// Returns whether the first of these blocks may be overwritten in place, and how many blocks that is
    /// true of, or not true of.
    pub(crate) fn young(&self, blocks: Range<u64>) -> (bool, u64) {
        let now = self.now();
        let is_young = |index: u64| {
            let age = self.ages.half(index).load(Ordering::Relaxed);
            debug_assert!(age <= now || age == PLAIN, "block {index} is of generation {age}, after {now}");
            age == now
        };
        let first = is_young(blocks.start);
        (first, blocks.take_while(|index| is_young(*index) == first).count() as u64)
    }

    /// Notes that a block of a file with checksums is written.
    pub(crate) fn note_written(&self, index: u64) {
        let age = self.ages.half(index);
        let now = self.now();
        if age.load(Ordering::Relaxed) != now {
            age.store(now, Ordering::Relaxed);
        }
    }

    /// Notes that a block of a file without checksums is written.
    pub(crate) fn note_plain(&self, index: u64) {
        self.ages.half(index).store(PLAIN, Ordering::Relaxed);
    }

    /// True for a block of a file without checksums, once it was written.
    pub(crate) fn is_plain(&self, index: u64) -> bool {
        self.ages.half(index).load(Ordering::Relaxed) == PLAIN
    }

    /// Notes that a block does not match its checksum.
    pub(crate) fn note_wrong(&self, at: u64) {
        let mut wrong = self.wrong.lock();
        if wrong.len() < REMEMBERED {
            wrong.insert(at);
        }
    }

    /// Number of blocks that did not match their checksums.
    pub(crate) fn wrong(&self) -> u64 {
        self.wrong.lock().len() as u64
    }
}
