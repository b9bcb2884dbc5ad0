//! Which blocks stay in memory.
//!
//! Two queues in the order of arrival, after S3-FIFO (Yang et al., "FIFO Queues are All You Need for Cache Eviction", SOSP 2023): new
//! blocks wait in a small one, and only those that were used a second time meanwhile go on to the main one, so a scan passes
//! through a tenth of the memory and leaves the rest alone. A block in the main queue gets another round each time that
//! it was used since the last. A block that comes back soon after it left goes to the main queue at once.
//!
//! A use writes nothing: a block in steady use has a plain state, and only the first uses after a fetch, or after the main
//! queue's hand came by, change it (as the marks of Leis et al., "Virtual-Memory Assisted Buffer Management", SIGMOD 2023).

use lanefs_sync::{Mutex, size};
use std::collections::{HashSet, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};

/// The small queue's part of the memory.
const SMALL: u64 = 10;

/// No fewer blocks than this may be resident.
const LEAST: u64 = size(256, 1) as u64;

/// The queues, by number of block.
#[derive(Default)]
struct Queues {
    small: VecDeque<u64>,
    main: VecDeque<u64>,
    /// Blocks that left the small queue, in order, and as a set.
    gone: VecDeque<u64>,
    gone_set: HashSet<u64>,
}

/// Book-keeping of resident blocks that can go.
pub(crate) struct Cache {
    /// Blocks that may be resident.
    budget: u64,
    resident: AtomicU64,
    queues: Mutex<Queues>,
}

/// What becomes of a block that the hand points at.
pub(crate) enum Verdict {
    /// Leaves.
    Out,
    /// Stays for another round, in the main queue.
    Stay,
    /// Is no longer resident or belongs to nobody: forget it.
    Forget,
}

impl Cache {
    pub(crate) fn new(budget: u64) -> Self {
        Cache { budget: budget.max(LEAST), resident: AtomicU64::new(0), queues: Mutex::default() }
    }

    pub(crate) fn budget(&self) -> u64 {
        self.budget
    }

    pub(crate) fn resident(&self) -> u64 {
        self.resident.load(Ordering::Relaxed)
    }

    /// Blocks that must go before `more` can come.
    pub(crate) fn excess(&self, more: u64) -> u64 {
        (self.resident() + more).saturating_sub(self.budget)
    }

    /// Blocks `first..first + count` came in.
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

    /// Blocks that can leave when their turn comes.
    #[cfg(all(test, feature = "shuttle"))]
    pub(crate) fn queued(&self) -> HashSet<u64> {
        let queues = self.queues.lock();
        queues.small.iter().chain(&queues.main).copied().collect()
    }

    /// `count` blocks are no longer resident. The queues learn of it when their turn comes.
    pub(crate) fn forget(&self, count: u64) {
        let before = self.resident.fetch_sub(count, Ordering::Relaxed);
        debug_assert!(before >= count, "{before} blocks resident, {count} forgotten");
    }

    /// Lets go of `count` blocks if there are as many that can go: `judge` decides on each, and takes it out of memory where it
    /// says [`Verdict::Out`]. From the small queue it is told that only blocks used twice are worth keeping.
    pub(crate) fn shrink(&self, count: u64, mut judge: impl FnMut(u64, bool) -> Verdict) -> u64 {
        let mut queues = self.queues.lock();
        let mut left = count;
        // Each block is looked at twice at most: once as used since the last time, once as not.
        let mut looks = 2 * (queues.small.len() + queues.main.len());
        while left > 0 && looks > 0 {
            looks -= 1;
            let from_small = queues.small.len() as u64 * SMALL > self.budget || queues.main.is_empty();
            let next = if from_small { queues.small.pop_front() } else { queues.main.pop_front() };
            let Some(block) = next else { break };
            match judge(block, from_small) {
                Verdict::Out => {
                    left -= 1;
                    let before = self.resident.fetch_sub(1, Ordering::Relaxed);
                    debug_assert!(before > 0);
                    if from_small {
                        queues.remember(block, self.budget);
                    }
                }
                Verdict::Stay => queues.main.push_back(block),
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
