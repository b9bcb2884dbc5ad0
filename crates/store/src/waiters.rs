//! Threads that wait for another thread's fetch of a block.

use crate::{Fault, planted};
use lanefs_sync::{Condvar, Mutex};
use std::collections::HashMap;

/// Number of buckets of waiting threads. The block's number selects one.
const BUCKETS: usize = 64;

#[derive(Default)]
struct Bucket {
    /// By block, the threads that wait for a fetch, and its failure until all of them know it.
    waiting: Mutex<HashMap<u64, Waiting>>,
    ended: Condvar,
}

#[derive(Default)]
struct Waiting {
    threads: usize,
    failure: Option<Fault>,
}

/// All threads that wait for fetches.
pub(crate) struct Waiters {
    buckets: Box<[Bucket]>,
}

impl Default for Waiters {
    fn default() -> Self {
        Waiters { buckets: (0..BUCKETS).map(|_| Bucket::default()).collect() }
    }
}

impl Waiters {
    fn bucket(&self, index: u64) -> &Bucket {
        &self.buckets[index as usize % BUCKETS]
    }

    /// Ends the fetch of a block with this outcome, and wakes the threads that wait for it. `publish` changes
    /// the block's state.
    pub(crate) fn finish(&self, index: u64, outcome: Result<(), Fault>, publish: impl FnOnce()) {
        let bucket = self.bucket(index);
        let mut waiting = bucket.waiting.lock();
        if let (Err(fault), Some(waiting)) = (outcome, waiting.get_mut(&index)) {
            waiting.failure = Some(fault);
        }
        publish();
        drop(waiting);
        if !planted::is(planted::Bug::SilentFetch) {
            bucket.ended.notify_all();
        }
    }

    /// Waits while `is_fetching`.
    ///
    /// # Errors
    /// The failure of the fetch that this thread waited for.
    pub(crate) fn wait(&self, index: u64, is_fetching: impl Fn() -> bool) -> Result<(), Fault> {
        let bucket = self.bucket(index);
        let mut all = bucket.waiting.lock();
        if !is_fetching() {
            return Ok(());
        }
        let waiting = all.entry(index).or_default();
        waiting.threads += 1;
        // A failure of an earlier fetch, which some of its waiters have not seen yet: they wait for this
        // fetch as well.
        waiting.failure = None;
        loop {
            let failure = all.get(&index).and_then(|waiting| waiting.failure);
            if failure.is_none() && is_fetching() {
                bucket.ended.wait(&mut all);
                continue;
            }
            if let Some(waiting) = all.get_mut(&index) {
                debug_assert!(waiting.threads > 0);
                waiting.threads -= 1;
                if waiting.threads == 0 {
                    all.remove(&index);
                }
            }
            return failure.map_or(Ok(()), Err);
        }
    }
}
