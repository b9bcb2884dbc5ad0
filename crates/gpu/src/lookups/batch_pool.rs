//! The buffers of batches, which all callers share. Memory of a device takes longer to allocate than to fill,
//! so the buffers of a batch that has ended stay for the next one of about its size. Together they have a
//! bound: many callers wait for one another's buffers rather than allocate more.

use super::batch::{BatchShape, PathBatch};
use crate::error::Result;
use crate::kernels::context::DeviceContext;
use lanefs::ColumnSet;
use lanefs_sync::lock::{Condvar, Mutex, MutexGuard};

/// The wish of a caller where all bytes are in use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WhenScarce {
    /// More bytes: the caller may have batches of its own in flight, and a wait for these would not end.
    Exceed,
    /// To wait. The caller has no batch.
    Wait,
    /// Nothing: the caller has another batch, which it answers first.
    GiveUp,
}

/// Buffers for batches.
pub(crate) struct BatchPool {
    /// Bytes of all batches at most; one batch may have more.
    limit: u64,
    state: Mutex<PoolState>,
    /// Notified when bytes come back.
    returned: Condvar,
}

#[derive(Default)]
struct PoolState {
    /// Batches that have ended, the oldest first.
    spare: Vec<PathBatch>,
    /// Bytes of the batches that callers have.
    used: u64,
}

impl PoolState {
    /// Drops the oldest spares until so many bytes fit beside those in use; tells whether they do.
    fn make_room(&mut self, bytes: u64, limit: u64) -> bool {
        let sum = |spare: &[PathBatch]| spare.iter().map(PathBatch::bytes).sum::<u64>();
        while !self.spare.is_empty() && self.used + sum(&self.spare) + bytes > limit {
            self.spare.remove(0);
        }
        self.used == 0 || self.used + bytes <= limit
    }
}

/// The bytes of a batch that a caller has. Dropping it gives them back.
pub(crate) struct PoolShare<'p> {
    pool: &'p BatchPool,
    bytes: u64,
}

impl BatchPool {
    pub(crate) fn new(limit: u64) -> BatchPool {
        BatchPool { limit, state: Mutex::default(), returned: Condvar::new() }
    }

    /// Returns buffers for a batch, with commands that bring these columns to the host. `None` only with
    /// [`WhenScarce::GiveUp`].
    ///
    /// # Errors
    /// An error of the device, also for want of memory.
    pub(crate) fn take(
        &self,
        context: &DeviceContext,
        shape: BatchShape,
        wanted: ColumnSet,
        scarce: WhenScarce,
    ) -> Result<Option<(PathBatch, PoolShare<'_>)>> {
        let fits = |batch: &PathBatch| batch.shape().fits(shape) && batch.wanted() == Some(wanted);
        let bytes = PathBatch::bytes_of(shape, wanted);
        let mut state = self.state.lock();
        loop {
            if let Some(at) = state.spare.iter().rposition(fits) {
                let batch = state.spare.remove(at);
                let share = self.share(state, batch.bytes());
                return Ok(Some((batch, share)));
            }
            if state.make_room(bytes, self.limit) || scarce == WhenScarce::Exceed {
                break;
            }
            if scarce == WhenScarce::GiveUp {
                return Ok(None);
            }
            self.returned.wait(&mut state);
        }
        // Counted before it is made, and no longer where that fails.
        let share = self.share(state, bytes);
        let batch = PathBatch::new(&context.device, &context.kernels, shape, wanted)?;
        debug_assert_eq!(batch.bytes(), bytes, "bytes of a batch");
        Ok(Some((batch, share)))
    }

    fn share(&self, mut state: MutexGuard<'_, PoolState>, bytes: u64) -> PoolShare<'_> {
        state.used += bytes;
        PoolShare { pool: self, bytes }
    }

    /// Frees the batches that nobody has: memory is short.
    pub(crate) fn free_spares(&self) {
        let spare = std::mem::take(&mut self.state.lock().spare);
        drop(spare);
    }
}

impl PoolShare<'_> {
    /// Keeps the buffers of a batch that has ended for the next one.
    pub(crate) fn give_back(self, batch: PathBatch) {
        debug_assert_eq!(batch.bytes(), self.bytes, "the batch of this share");
        self.pool.state.lock().spare.push(batch);
    }
}

impl Drop for PoolShare<'_> {
    fn drop(&mut self) {
        self.pool.state.lock().used -= self.bytes;
        self.pool.returned.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernels::context::GpuOptions;
    use lanefs::{Column, PathSet};
    use std::sync::atomic::{AtomicUsize, Ordering};

    const WANTED: ColumnSet = ColumnSet::of(&[Column::Exists]);

    fn shape(paths: usize) -> BatchShape {
        let set: PathSet = (0..paths).map(|number| format!("/a path {number:08}")).collect();
        BatchShape::of(set.view())
    }

    fn context() -> DeviceContext {
        DeviceContext::open(&GpuOptions::default()).expect("a Vulkan device")
    }

    #[test]
    fn buffers_of_a_batch_serve_the_next_one_of_about_its_size() {
        let (context, pool) = (context(), BatchPool::new(1 << 30));
        let take = |paths| {
            let taken = pool.take(&context, shape(paths), WANTED, WhenScarce::Wait).expect("memory");
            taken.expect("buffers")
        };
        let ((first, share), (second, other)) = (take(1000), take(1000));
        share.give_back(first);
        other.give_back(second);
        assert_eq!(pool.state.lock().spare.len(), 2);
        let (batch, share) = take(990);
        assert_eq!((pool.state.lock().spare.len(), batch.shape()), (1, shape(1000)));
        share.give_back(batch);
        for paths in [100, 1200] {
            let (batch, share) = take(paths);
            assert_eq!(pool.state.lock().spare.len(), 2, "a batch of {paths} paths took far larger buffers");
            drop((batch, share));
        }
        let state = pool.state.lock();
        assert_eq!((state.used, state.spare.len()), (0, 2));
    }

    #[test]
    fn bytes_are_bounded_and_whoever_has_a_batch_does_not_wait() {
        let context = context();
        let bytes = PathBatch::bytes_of(shape(1000), WANTED);
        let pool = BatchPool::new(2 * bytes);
        let take = |scarce| pool.take(&context, shape(1000), WANTED, scarce).expect("memory");
        let (first, second) = (take(WhenScarce::Wait), take(WhenScarce::GiveUp));
        assert!(first.is_some() && second.is_some());
        assert!(take(WhenScarce::GiveUp).is_none());
        let third = take(WhenScarce::Exceed);
        assert_eq!((third.is_some(), pool.state.lock().used), (true, 3 * bytes));
        drop((first, second, third));
        // One that has more bytes than all may have is made alone.
        let large = shape(10_000);
        assert!(pool.take(&context, large, WANTED, WhenScarce::GiveUp).expect("memory").is_some());
        assert_eq!(pool.state.lock().used, 0);
    }

    #[test]
    fn many_callers_share_few_buffers() {
        let context = context();
        let bytes = PathBatch::bytes_of(shape(1000), WANTED);
        let (pool, most) = (BatchPool::new(3 * bytes), AtomicUsize::new(0));
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    for _ in 0..50 {
                        let (first, share) = pool
                            .take(&context, shape(1000), WANTED, WhenScarce::Wait)
                            .expect("memory")
                            .expect("one");
                        most.fetch_max((pool.state.lock().used / bytes) as usize, Ordering::Relaxed);
                        let more =
                            pool.take(&context, shape(990), WANTED, WhenScarce::GiveUp).expect("memory");
                        share.give_back(first);
                        more.into_iter().for_each(|(batch, share)| share.give_back(batch));
                    }
                });
            }
        });
        let state = pool.state.lock();
        assert_eq!(state.used, 0);
        assert!(most.into_inner() <= 3 && state.spare.len() <= 3, "{} spares", state.spare.len());
    }
}
