//! The replacement policy: which blocks stay in memory.
//!
//! It has two queues in the order of arrival, after S3-FIFO (Yang et al., "FIFO Queues are All You Need for
//! Cache Eviction", SOSP 2023). A new block enters the small queue, and moves to the main queue only if it is
//! used a second time meanwhile. So a scan passes through a tenth of the memory and leaves the rest alone. A
//! block in the main queue gets another round each time that it was used since the last. A block that is
//! fetched soon after its eviction enters the main queue at once.
//!
//! A use writes nothing: a block in steady use has a plain state. Only the first uses after a fetch, or after
//! the main queue's hand has passed, change it (as the marks of Leis et al., "Virtual-Memory Assisted Buffer
//! Management", SIGMOD 2023).

use lanefs_sync::{Mutex, size};
use std::collections::{HashSet, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};

/// The small queue's share of the memory: one part in ten.
const SMALL: u64 = 10;

/// Smallest budget in blocks.
const LEAST_BLOCKS: u64 = size(256, 1) as u64;

/// New blocks may take one part in so many of the budget beyond it before others make room for them.
const NEW: u64 = 16;

/// The queues, of block numbers.
#[derive(Default)]
struct Queues {
    small: VecDeque<u64>,
    main: VecDeque<u64>,
    /// Blocks that were evicted from the small queue, in order, and as a set.
    gone: VecDeque<u64>,
    gone_set: HashSet<u64>,
}

/// The resident blocks that can be evicted.
pub(crate) struct Cache {
    /// Blocks that may be resident.
    budget: u64,
    resident: AtomicU64,
    /// The number of resident blocks up to which none are evicted for new ones.
    most_with_new: AtomicU64,
    queues: Mutex<Queues>,
}

/// The decision on the block under the hand.
pub(crate) enum Verdict {
    /// The block is evicted.
    Evict,
    /// The block stays for another round, in the main queue.
    Keep,
    /// The block is no longer resident: the queues forget it.
    Forget,
}

impl Cache {
    pub(crate) fn new(budget: u64) -> Self {
        let budget = budget.max(LEAST_BLOCKS);
        let most_with_new = AtomicU64::new(budget + budget / NEW);
        Cache { budget, resident: AtomicU64::new(0), most_with_new, queues: Mutex::default() }
    }

    pub(crate) fn budget(&self) -> u64 {
        self.budget
    }

    pub(crate) fn resident(&self) -> u64 {
        self.resident.load(Ordering::Relaxed)
    }

    /// Returns the number of blocks to evict before `more` blocks are fetched.
    pub(crate) fn excess(&self, more: u64) -> u64 {
        (self.resident() + more).saturating_sub(self.budget)
    }

    /// Returns the number of blocks to evict for new ones, which were added without room for them.
    pub(crate) fn excess_of_new(&self) -> u64 {
        if self.resident() > self.most_with_new.load(Ordering::Relaxed) { self.excess(0) } else { 0 }
    }

    /// Expects new blocks beyond the budget, or, where blocks could not be evicted, beyond those that are
    /// resident: one look at all of them is enough for so many new ones.
    pub(crate) fn expect_new(&self, can_evict: bool) {
        let base = if can_evict { self.budget } else { self.resident().max(self.budget) };
        self.most_with_new.store(base + self.budget / NEW, Ordering::Relaxed);
    }

    /// Adds blocks `first..first + count`, which are resident now.
    pub(crate) fn add(&self, first: u64, count: u64) {
        self.resident.fetch_add(count, Ordering::Relaxed);
        let mut queues = self.queues.lock();
        for block in first..first + count {
            if queues.gone_set.remove(&block) {
                queues.main.push_back(block);
            } else {
                queues.small.push_back(block);
            }
        }
    }

    /// Returns how many blocks may be fetched without an eviction.
    pub(crate) fn room(&self) -> u64 {
        self.budget.saturating_sub(self.resident())
    }

    /// Adds a block that is resident now and that no thread asked for. It enters the small queue in any case:
    /// a fetch that nobody asked for does not show that the block was missed.
    pub(crate) fn add_unasked(&self, block: u64) {
        self.resident.fetch_add(1, Ordering::Relaxed);
        self.queues.lock().small.push_back(block);
    }

    /// Returns the blocks in the queues.
    #[cfg(all(test, feature = "_shuttle"))]
    pub(crate) fn queued(&self) -> HashSet<u64> {
        let queues = self.queues.lock();
        queues.small.iter().chain(&queues.main).copied().collect()
    }

    /// Uncounts `count` blocks that are no longer resident. The queues forget them when the hand reaches
    /// them.
    pub(crate) fn forget(&self, count: u64) {
        let before = self.resident.fetch_sub(count, Ordering::Relaxed);
        debug_assert!(before >= count, "{before} blocks resident, {count} forgotten");
    }

    /// Evicts `count` blocks if as many can be evicted, and returns the number. `judge` decides on each
    /// block, and claims it where it returns [`Verdict::Evict`]. Its flag is true for the small queue, where
    /// only blocks used twice are worth keeping.
    pub(crate) fn shrink(&self, count: u64, mut judge: impl FnMut(u64, bool) -> Verdict) -> u64 {
        let mut queues = self.queues.lock();
        let mut left = count;
        // The hand passes each block of the main queue twice at most: once as used since the last round, once
        // as not. A block of the small queue may enter the main queue before.
        let mut looks = 3 * queues.small.len() + 2 * queues.main.len();
        // Blocks of the main queue that stayed since it gave one. Where the hand has passed all of them twice
        // in vain, they are dirty, and the small queue gives.
        let mut stayed = 0;
        while left > 0 && looks > 0 {
            looks -= 1;
            let is_main_stuck = stayed >= 2 * queues.main.len() && !queues.small.is_empty();
            let from_small = queues.small.len() as u64 * SMALL > self.budget || is_main_stuck;
            let next = if from_small { queues.small.pop_front() } else { queues.main.pop_front() };
            let Some(block) = next else { break };
            match judge(block, from_small) {
                Verdict::Evict => {
                    left -= 1;
                    stayed = stayed.saturating_sub(usize::from(!from_small));
                    let before = self.resident.fetch_sub(1, Ordering::Relaxed);
                    debug_assert!(before > 0);
                    if from_small {
                        queues.remember(block, self.budget);
                    }
                }
                Verdict::Keep => {
                    stayed += usize::from(!from_small);
                    queues.main.push_back(block);
                }
                Verdict::Forget => {}
            }
        }
        count - left
    }
}

impl Queues {
    fn remember(&mut self, block: u64, budget: u64) {
        if self.gone_set.insert(block) {
            self.gone.push_back(block);
        }
        debug_assert!(self.gone.len() >= self.gone_set.len());
        while self.gone.len() as u64 > budget {
            if let Some(old) = self.gone.pop_front() {
                self.gone_set.remove(&old);
            }
        }
    }
}

#[cfg(all(test, not(feature = "_shuttle")))]
mod tests {
    use super::*;

    /// Evicts one block that comes from the small queue, and returns it.
    fn evicted_from_small(cache: &Cache) -> Option<u64> {
        let mut from = None;
        let judge = |block, small: bool| {
            from = small.then_some(block);
            Verdict::Evict
        };
        assert_eq!(cache.shrink(1, judge), 1);
        from
    }

    #[test]
    fn a_main_queue_that_cannot_give_leaves_it_to_the_small_one() {
        let cache = Cache::new(LEAST_BLOCKS);
        cache.add(1, 6);
        // Blocks 1 to 3 go to the main queue, and stay there.
        let keeps = |block, _| if block <= 3 { Verdict::Keep } else { Verdict::Evict };
        assert_eq!(cache.shrink(1, keeps), 1);
        assert_eq!(cache.shrink(2, keeps), 2, "two clean blocks are in the small queue");
        assert_eq!((cache.shrink(1, keeps), cache.resident()), (0, 3));
        // One block of the main queue can go, after many that cannot.
        let cache = Cache::new(LEAST_BLOCKS);
        cache.add(1, 30);
        cache.shrink(1, |_, _| Verdict::Keep);
        cache.add(100, 3);
        let last = |block, _| if block < 30 { Verdict::Keep } else { Verdict::Evict };
        assert_eq!(cache.shrink(4, last), 4);
    }

    #[test]
    fn new_blocks_are_a_reason_to_evict_again_when_there_are_more_of_them() {
        let cache = Cache::new(LEAST_BLOCKS);
        let part = LEAST_BLOCKS / NEW;
        cache.add(1, LEAST_BLOCKS + part);
        assert_eq!(cache.excess_of_new(), 0);
        cache.add(10_000, 1);
        assert_eq!(cache.excess_of_new(), part + 1);
        // None could be evicted.
        cache.expect_new(false);
        cache.add(20_000, part);
        assert_eq!(cache.excess_of_new(), 0);
        cache.add(30_000, 1);
        assert_eq!(cache.excess_of_new(), 2 * part + 2);
        // A commit has made all of them clean.
        cache.expect_new(true);
        assert_eq!(cache.excess_of_new(), 2 * part + 2);
        cache.shrink(cache.excess(0), |_, _| Verdict::Evict);
        assert_eq!(cache.excess_of_new(), 0);
    }

    #[test]
    fn a_block_that_nobody_asked_for_proves_itself_again() {
        let cache = Cache::new(LEAST_BLOCKS);
        cache.add(1, 2);
        assert_eq!([evicted_from_small(&cache), evicted_from_small(&cache)], [Some(1), Some(2)]);
        cache.add(1, 1);
        cache.add_unasked(2);
        assert_eq!((cache.resident(), cache.room()), (2, LEAST_BLOCKS - 2));
        // The hand begins with the main queue, where the block is that was missed again.
        assert_eq!([evicted_from_small(&cache), evicted_from_small(&cache)], [None, Some(2)]);
    }
}
