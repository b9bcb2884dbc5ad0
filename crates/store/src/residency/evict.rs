//! Eviction of clean blocks when memory is short.

use crate::memory::dirty::Dirty;
use crate::memory::state::{self, ABSENT, DATA, EVICTING, FIXED, FREE, ONCE};
use crate::memory::versions::{Grain, record, records};
use crate::store::Store;
use crate::store::cache::Verdict;
use crate::vocabulary::fault::{Fault, Want};
use crate::vocabulary::planted;
use lanefs_format::BLOCK;
use lanefs_sync::{size, yield_now};
use std::ops::Range;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// Number of blocks that are evicted beyond those that must be: the next fetches find room.
const SPARE_BLOCKS: u64 = size(64, 1) as u64;

/// Blocks that one change evicts for new ones at most: it waits for that.
const MOST_NEW_BLOCKS: u64 = size(1024, 4) as u64;

/// Attempts to find a slot while other threads use all: half of them a millisecond apart.
const SLOT_TRIES: usize = size(4096, 1024);

/// Number of the cache among the writers; no slot has it.
const CACHE: u8 = u8::MAX - 1;

/// Returns the fault of a volume that needs more memory at a time than the process has address space.
fn no_slot(at: u64) -> Fault {
    let errno = rustix::io::Errno::NOMEM.raw_os_error();
    Fault::Io { at, doing: "finding address space (ulimit -v) for", errno }
}

impl Store {
    /// Evicts blocks until `more` blocks have room. Attempts of other threads that read an evicted block are
    /// retried.
    pub(crate) fn make_room(&self, more: u64) {
        // A thread that has closed the gate reads without tracking: nothing is evicted then.
        if self.cache.excess(more) > 0
            && let Some(_permission) = self.epochs().evict()
        {
            self.evict(self.cache.excess(more) + SPARE_BLOCKS);
        }
        if self.frames.are_short() {
            self.free_slots();
        }
    }

    /// Evicts blocks until no more are resident than the budget allows, after changed blocks were written:
    /// they could not be evicted before. The caller is in no slot.
    pub fn shrink(&self) {
        self.cache.expect_new(true);
        self.make_room(0);
    }

    /// Evicts clean blocks where new ones, which take frames in the middle of a change, are beyond the
    /// budget. Between two commits there may be as many of them as the cache has. The caller is in no slot.
    pub fn make_room_for_new(&self) {
        let excess = self.cache.excess_of_new().min(MOST_NEW_BLOCKS);
        if excess > 0
            && let Some(_permission) = self.epochs().evict()
        {
            self.cache.expect_new(self.evict(excess) == excess);
        }
    }

    /// Returns true where more blocks are resident than the budget allows.
    pub fn is_over_budget(&self) -> bool {
        self.cache.excess(0) > 0
    }

    /// Evicts blocks while the caller has closed the gate and no attempt is in progress.
    pub fn make_room_exclusively(&self) {
        let excess = self.cache.excess(0);
        if excess > 0 {
            self.evict(excess + SPARE_BLOCKS);
        }
        while self.frames.are_short() && self.free_slots_alone() {}
    }

    /// Evicts all clean blocks, for measurements that begin with a cold cache. Returns the number of evicted
    /// blocks.
    pub fn drop_clean(&self) -> u64 {
        let Some(_permission) = self.epochs().evict() else { return 0 };
        // Twice, because blocks in steady use get another round.
        self.evict(u64::MAX) + self.evict(u64::MAX)
    }

    fn evict(&self, count: u64) -> u64 {
        let count = count.min(self.cache.resident());
        let mut claimed = Vec::with_capacity(count as usize);
        let evicted = self.cache.shrink(count, |index, small| self.judge(index, small, &mut claimed));
        claimed.sort_unstable();
        self.release_claimed(&claimed);
        evicted
    }

    /// Releases the frames of claimed blocks, whose numbers ascend, and makes them absent.
    fn release_claimed(&self, claimed: &[u64]) {
        debug_assert!(claimed.is_sorted_by(|a, b| a < b), "a block is claimed once");
        let mut rest = claimed;
        while let Some(first) = rest.first().copied() {
            let count = (0..rest.len()).take_while(|i| rest[*i] == first + *i as u64).count();
            self.release_frames(first, first + count as u64, ABSENT);
            rest = &rest[count..];
        }
    }

    /// Decides on a block, and claims it where it is to be evicted.
    fn judge(&self, index: u64, small: bool, claimed: &mut Vec<u64>) -> Verdict {
        let state = self.state(index);
        let Some(content) = state::content(state) else {
            // A fetched block enters the queue shortly before it is resident, and a retired one may come
            // back.
            let may_come_back = matches!(state, state::FETCHING | state::RETIRED);
            return if may_come_back { Verdict::Keep } else { Verdict::Forget };
        };
        if !state::is_cold(state) {
            if !small {
                // Another round; the next use clears the mark.
                self.change_state(index, state, state | ONCE);
            }
            return Verdict::Keep;
        }
        if self.must_stay(index) {
            return Verdict::Keep;
        }
        if self.claim(index, state, content) {
            if state::is_unasked(state) {
                self.neighbours.settle(content == DATA, false);
            }
            claimed.push(index);
            return Verdict::Evict;
        }
        Verdict::Keep
    }

    /// True for a block that is dirty or pinned.
    fn must_stay(&self, index: u64) -> bool {
        self.dirty(index).load(Ordering::SeqCst) != Dirty::CLEAN
            || self.pins.as_ref().is_some_and(|pins| pins.is_pinned(index))
    }

    /// Claims a clean block for eviction. It locks the block's records first, so that no writer is changing
    /// it, and all that read it see a new version.
    fn claim(&self, index: u64, state: u8, content: u8) -> bool {
        let at = index * BLOCK;
        let grain =
            if content == DATA { Grain::BLOCK } else { state::kind(state).map_or(Grain::BLOCK, Grain::of) };
        let mut locked = Vec::new();
        let mut all_locked = true;
        for record in records(at, BLOCK as usize, grain) {
            let word = self.versions().load(record);
            if word.owner().is_some() || !self.versions().try_lock(record, word, CACHE, 0) {
                all_locked = false;
                break;
            }
            locked.push((record, word));
        }
        let mut claimed = all_locked && self.change_state(index, state, EVICTING);
        let check_again = !planted::is(planted::Bug::NoSecondLook);
        if claimed && check_again && self.must_stay(index) {
            // A thread marked or pinned the block before it saw the claim: the block stays.
            self.set_state(index, state);
            claimed = false;
        }
        for (record, word) in locked {
            self.versions().unlock(record, word);
        }
        claimed
    }

    /// Finds a frame for a block that the caller has claimed. Where all slots of a sparse volume are in use,
    /// other sections give theirs up.
    ///
    /// # Errors
    /// [`Fault::Miss`] for a frame where none can be had as long as the caller holds what it holds;
    /// [`Fault::Io`] for a volume in memory.
    #[inline(always)]
    pub(crate) fn find_frame(&self, index: u64) -> Result<(), Fault> {
        if self.frames.has(index * BLOCK) { Ok(()) } else { self.find_slot(index * BLOCK) }
    }

    #[cold]
    fn find_slot(&self, at: u64) -> Result<(), Fault> {
        while !self.frames.assign(at) {
            if self.is_memory() {
                return Err(no_slot(at));
            }
            if !self.free_slots() {
                return Err(Fault::Miss { at, want: Want::Frame });
            }
        }
        Ok(())
    }

    /// Waits until a section can have a slot. The caller holds nothing.
    ///
    /// # Errors
    /// [`Fault::Io`] where all slots have blocks that must stay.
    pub(crate) fn wait_for_slot(&self, at: u64) -> Result<(), Fault> {
        for tries in 0..SLOT_TRIES {
            if self.frames.are_left() || self.free_slots() {
                return Ok(());
            }
            // Others end their fetches soon. A commit, which lets changed blocks go, takes longer.
            let is_soon = tries < SLOT_TRIES / 2 || cfg!(feature = "_shuttle");
            if is_soon { yield_now() } else { std::thread::sleep(Duration::from_millis(1)) }
        }
        Err(no_slot(at))
    }

    /// Takes slots from other sections. Returns false where none gives its own up, or another thread evicts,
    /// or the gate is closed.
    fn free_slots(&self) -> bool {
        // A transaction with a closed gate may roll back what it did to free blocks.
        self.epochs().evict().is_some_and(|_permission| self.free_slots_alone())
    }

    /// As [`free_slots`](Self::free_slots), with the permission to evict. No attempt that reads without
    /// tracking is in progress.
    fn free_slots_alone(&self) -> bool {
        self.frames.reclaim(usize::MAX, |blocks| self.is_unused(blocks)) > 0
            || self.frames.reclaim(self.frames.few(), |blocks| self.empty(blocks)) > 0
    }

    /// Evicts all blocks of a section that may leave. Returns true where no block is left.
    fn empty(&self, blocks: Range<u64>) -> bool {
        let mut claimed = Vec::new();
        for index in blocks.start..blocks.end.min(self.bytes() / BLOCK) {
            let state = self.state(index);
            let Some(content) = state::content(state) else { continue };
            if !self.must_stay(index) && self.claim(index, state, content) {
                if state::is_unasked(state) {
                    self.neighbours.settle(content == DATA, false);
                }
                self.cache.forget(1);
                claimed.push(index);
            }
        }
        self.release_claimed(&claimed);
        self.is_unused(blocks)
    }

    /// Returns true where no block of a section has a frame, nor gets back the one that it had.
    fn is_unused(&self, mut blocks: Range<u64>) -> bool {
        blocks.end = blocks.end.min(self.bytes() / BLOCK);
        blocks.all(|index| match self.state_in_order(index) {
            ABSENT | FIXED => true,
            // A transaction that has freed the block, and may be rolled back, has locked its records.
            FREE => {
                let record = record(index * BLOCK, Grain::BLOCK);
                let is_locked = self.versions().load(record).owner().is_some();
                (!is_locked || planted::is(planted::Bug::SlotOfFreedBlocks))
                    && self.state_in_order(index) == FREE
            }
            _ => false,
        })
    }

    /// Evicts a block of file data where metadata are wanted: it was fetched for a stale attempt, or as a
    /// neighbour, when the block held file data, or none. Does nothing where another thread is faster.
    /// Returns false where the block must stay.
    pub(crate) fn evict_stale_data(&self, index: u64, state: u8) -> bool {
        if self.must_stay(index) {
            return false;
        }
        if self.claim(index, state, DATA) {
            self.cache.forget(1);
            self.release_frames(index, index + 1, ABSENT);
        } else {
            yield_now();
        }
        true
    }

    /// Releases the frames of claimed blocks, and sets their state to `state`.
    pub(crate) fn release_frames(&self, first: u64, end: u64, state: u8) {
        if first < end {
            self.frames.release(first * BLOCK, ((end - first) * BLOCK) as usize);
            for index in first..end {
                self.set_state(index, state);
            }
        }
    }
}
