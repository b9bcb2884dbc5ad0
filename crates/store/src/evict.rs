//! Letting clean blocks go when memory is short.

use crate::Store;
use crate::cache::Verdict;
use crate::planted;
use crate::state::{self, ABSENT, DATA, EVICTING, ONCE};
use crate::store::Dirt;
use crate::versions::{Grain, records};
use lanefs_format::BLOCK;
use lanefs_sync::size;
use std::sync::atomic::Ordering;

/// Blocks let go at a time beyond those that must: the next fetches find room.
const SPARE: u64 = size(64, 1) as u64;

/// The number of the cache among writers; no slot has it.
const CACHE: u8 = u8::MAX - 1;

impl Store {
    /// Lets blocks go until `more` have room. Runs of other threads that read them begin anew.
    pub(crate) fn make_room(&self, more: u64) {
        // Whoever has closed the gate reads without looking at versions: nothing leaves then.
        if self.cache.excess(more) > 0
            && let Some(_not_alone) = self.epochs().evict()
        {
            self.let_go(self.cache.excess(more) + SPARE);
        }
    }

    /// Lets blocks go while the caller has closed the gate and no run is under way.
    pub fn make_room_alone(&self) {
        let excess = self.cache.excess(0);
        if excess > 0 {
            self.let_go(excess + SPARE);
        }
    }

    /// Lets go of all blocks that are clean, for measurements that begin with a cold cache. Returns how many went.
    pub fn drop_clean(&self) -> u64 {
        let Some(_not_alone) = self.epochs().evict() else { return 0 };
        // Twice, for blocks in steady use get another round.
        self.let_go(u64::MAX) + self.let_go(u64::MAX)
    }

    fn let_go(&self, count: u64) -> u64 {
        let count = count.min(self.cache.resident());
        let mut leaving = Vec::with_capacity(count as usize);
        let gone = self.cache.shrink(count, |index, small| self.judge(index, small, &mut leaving));
        leaving.sort_unstable();
        debug_assert!(leaving.is_sorted_by(|a, b| a < b), "a block is claimed once");
        let mut rest = &leaving[..];
        while let Some(first) = rest.first().copied() {
            let run = (0..rest.len()).take_while(|i| rest[*i] == first + *i as u64).count();
            self.leave(first, first + run as u64, ABSENT);
            rest = &rest[run..];
        }
        gone
    }

    /// Decides on a block, and claims it where it is to go.
    fn judge(&self, index: u64, small: bool, leaving: &mut Vec<u64>) -> Verdict {
        let state = self.state(index);
        let Some(content) = state::content(state) else {
            // A block that was fetched is in the queue a moment before it is here, and one that was retired may come back.
            let comes = matches!(state, state::FETCHING | state::RETIRED);
            return if comes { Verdict::Stay } else { Verdict::Forget };
        };
        if !state::is_cold(state) {
            if !small {
                // Another round; the mark falls with its next use.
                self.change_state(index, state, state | ONCE);
            }
            return Verdict::Stay;
        }
        if self.dirt(index).load(Ordering::SeqCst) != Dirt::CLEAN {
            return Verdict::Stay;
        }
        if self.claim(index, state, content) {
            leaving.push(index);
            return Verdict::Out;
        }
        Verdict::Stay
    }

    /// Takes a clean block from everybody: its records first, so that no writer is at it and all who read it see that it
    /// changed.
    fn claim(&self, index: u64, state: u8, content: u8) -> bool {
        let at = index * BLOCK;
        let grain =
            if content == DATA { Grain::BLOCK } else { state::kind(state).map_or(Grain::BLOCK, Grain::of) };
        let mut held = Vec::new();
        let mut free = true;
        for record in records(at, BLOCK as usize, grain) {
            let word = self.versions().load(record);
            if word.holder().is_some() || !self.versions().try_hold(record, word, CACHE, 0) {
                free = false;
                break;
            }
            held.push((record, word));
        }
        let mut claimed = free && self.change_state(index, state, EVICTING);
        let look_again = !planted::is(planted::Fault::NoSecondLook);
        if claimed && look_again && self.dirt(index).load(Ordering::SeqCst) != Dirt::CLEAN {
            // Somebody marked it before he saw the claim: it stays.
            self.set_state(index, state);
            claimed = false;
        }
        for (record, word) in held {
            self.versions().let_go(record, word);
        }
        claimed
    }
}
