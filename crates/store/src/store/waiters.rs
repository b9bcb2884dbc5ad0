//! Threads that wait for another thread's fetch of a block.

use crate::vocabulary::fault::Fault;
use crate::vocabulary::planted;
use lanefs_format::BLOCK;
use lanefs_sync::{Condvar, Mutex};
use std::collections::HashMap;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

/// Number of buckets of waiting threads. The block's number selects one.
const BUCKETS: usize = 64;

/// Time between two looks whether a wait was interrupted: soon enough for a person.
const LOOK: Duration = Duration::from_millis(100);

/// Tells whether the calling thread should give up its wait.
pub(crate) type Interrupted = Box<dyn Fn() -> bool + Send + Sync>;

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
    interrupted: OnceLock<Interrupted>,
}

impl Default for Waiters {
    fn default() -> Self {
        Waiters { buckets: (0..BUCKETS).map(|_| Bucket::default()).collect(), interrupted: OnceLock::new() }
    }
}

impl Waiters {
    fn bucket(&self, index: u64) -> &Bucket {
        &self.buckets[index as usize % BUCKETS]
    }

    /// Asks `interrupted` in each wait from now on. Only the first call counts.
    pub(crate) fn interrupt_by(&self, interrupted: Interrupted) {
        let _ = self.interrupted.set(interrupted);
    }

    pub(crate) fn is_interrupted(&self) -> bool {
        self.interrupted.get().is_some_and(|interrupted| interrupted())
    }

    /// Ends the fetch of a block with this outcome, and wakes the threads that wait for it. `publish` changes
    /// the block's state.
    pub(crate) fn finish(&self, index: u64, outcome: Result<(), Fault>, publish: impl FnOnce()) {
        let bucket = self.bucket(index);
        let mut waiting = bucket.waiting.lock();
        if let (Err(fault), Some(waiting)) = (outcome, waiting.get_mut(&index))
            && !fault.is_interruption()
        {
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
    /// The failure of the fetch that this thread waited for, or that the wait was interrupted.
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
            let mut failure = all.get(&index).and_then(|waiting| waiting.failure);
            if failure.is_none() && is_fetching() {
                if !self.is_interrupted() {
                    self.sleep(bucket, &mut all);
                    continue;
                }
                failure = Some(Fault::interrupted(index * BLOCK));
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

    /// Sleeps until a fetch ends, or, where waits may be interrupted, for a short time.
    fn sleep(&self, bucket: &Bucket, all: &mut lanefs_sync::MutexGuard<'_, HashMap<u64, Waiting>>) {
        match self.interrupted.get() {
            Some(_) => drop(bucket.ended.wait_until(all, Instant::now() + LOOK)),
            None => bucket.ended.wait(all),
        }
    }
}
