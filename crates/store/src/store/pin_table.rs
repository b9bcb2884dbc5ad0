//! The number of pins of each block of a store for reading, and how many there may be.

use crate::memory::arena::Arena;
use crate::vocabulary::planted;
use lanefs_sync::point;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// Blocks that a list of pins reserves at a time, so that threads rarely change the common count.
const RESERVED_BLOCKS: u64 = 512;

/// Share of the cache that may be pinned: one part in two.
const SHARE: u64 = 2;

/// The pins of a store.
pub(crate) struct PinTable {
    /// One word a block: the number of its pins.
    counts: Arena,
    /// Blocks that all lists of pins have reserved.
    reserved: AtomicU64,
    /// The most blocks that may be reserved.
    most: u64,
}

impl PinTable {
    /// Returns a table for a store of so many blocks.
    ///
    /// # Errors
    /// The host's error when it has no address space left.
    pub(crate) fn new(blocks: u64, budget: u64) -> std::io::Result<Self> {
        let counts = Arena::reserve(blocks as usize * size_of::<u32>())?;
        // (No count of pins overflows.)
        let most = (budget / SHARE).min(u64::from(u32::MAX / 2));
        Ok(PinTable { counts, reserved: AtomicU64::new(0), most })
    }

    pub(crate) fn count(&self, index: u64) -> &AtomicU32 {
        point();
        self.counts.half(index)
    }

    /// True for a block that must stay. The caller has claimed it, or looks before it does.
    pub(crate) fn is_pinned(&self, index: u64) -> bool {
        !planted::is(planted::Bug::ForgottenPins) && self.count(index).load(Ordering::SeqCst) > 0
    }

    /// Reserves `blocks` blocks, and more for the next calls where there are many left. Returns the number,
    /// which is 0 where there are too few.
    pub(crate) fn reserve(&self, blocks: u64) -> u64 {
        let take = |wanted: u64| {
            let fits = |reserved: u64| reserved.checked_add(wanted).filter(|sum| *sum <= self.most);
            self.reserved.fetch_update(Ordering::Relaxed, Ordering::Relaxed, fits).is_ok()
        };
        let ample = blocks.max(RESERVED_BLOCKS.min(self.most / 16));
        [ample, blocks].into_iter().find(|wanted| take(*wanted)).unwrap_or(0)
    }

    pub(crate) fn give_back(&self, blocks: u64) {
        let before = self.reserved.fetch_sub(blocks, Ordering::Relaxed);
        debug_assert!(before >= blocks, "{before} blocks reserved, {blocks} given back");
    }

    /// Number of blocks that are reserved.
    pub(crate) fn reserved(&self) -> u64 {
        self.reserved.load(Ordering::Relaxed)
    }
}
