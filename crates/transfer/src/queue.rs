//! A pool of threads over a stack of jobs that grows as jobs are done.
//!
//! Last in, first out: a tree is walked depth first, so few directories are open at a time. One lock is enough,
//! because a job is a directory or some hundred files, and takes a thousand times longer than the lock.

use parking_lot::{Condvar, Mutex};
use std::time::Duration;

/// How often the caller's thread is woken while the others work.
const TICK: Duration = Duration::from_millis(100);

struct State<J> {
    jobs: Vec<J>,
    /// Jobs being done, which may still push others.
    active: usize,
}

/// Jobs not begun yet.
pub(crate) struct Queue<J> {
    state: Mutex<State<J>>,
    /// A job came, or the last one ended.
    changed: Condvar,
    /// The last job ended (for the thread that waits for all).
    finished: Condvar,
}

impl<J: Send> Queue<J> {
    /// Adds a job. Only from within a job: else the pool may have gone home.
    pub(crate) fn push(&self, job: J) {
        self.state.lock().jobs.push(job);
        self.changed.notify_one();
    }

    /// The next job, waiting while others may still push one; `None` once all is done.
    fn next(&self) -> Option<J> {
        let mut state = self.state.lock();
        loop {
            if let Some(job) = state.jobs.pop() {
                state.active += 1;
                return Some(job);
            }
            if state.active == 0 {
                return None;
            }
            self.changed.wait(&mut state);
        }
    }
}

/// Ends a job even where it panics, so that the other threads go home and the panic reaches the caller.
struct Ending<'q, J>(&'q Queue<J>);

impl<J> Drop for Ending<'_, J> {
    fn drop(&mut self) {
        let mut state = self.0.state.lock();
        state.active -= 1;
        if state.active == 0 && state.jobs.is_empty() {
            self.0.changed.notify_all();
            self.0.finished.notify_all();
        }
    }
}

/// Does `first` and all that it pushes on `threads` threads, each with its own `local` state; calls `tick` from this
/// thread now and then.
pub(crate) fn run_jobs<J: Send, L>(
    threads: usize,
    first: J,
    local: impl Fn() -> L + Sync,
    work: impl Fn(&Queue<J>, &mut L, J) + Sync,
    tick: impl Fn(),
) {
    let queue = Queue {
        state: Mutex::new(State { jobs: vec![first], active: 0 }),
        changed: Condvar::new(),
        finished: Condvar::new(),
    };
    std::thread::scope(|scope| {
        for _ in 0..threads.max(1) {
            scope.spawn(|| {
                let mut mine = local();
                while let Some(job) = queue.next() {
                    let _ending = Ending(&queue);
                    work(&queue, &mut mine, job);
                }
            });
        }
        let mut state = queue.state.lock();
        while state.active > 0 || !state.jobs.is_empty() {
            queue.finished.wait_for(&mut state, TICK);
            parking_lot::MutexGuard::unlocked(&mut state, &tick);
        }
    });
}

/// Threads for a transfer where the caller does not say: some more than cores, as reading waits for devices.
pub(crate) fn default_threads() -> usize {
    std::thread::available_parallelism().map_or(2, |n| n.get()).saturating_mul(2).clamp(2, 32)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

    #[test]
    fn every_pushed_job_is_done_once() {
        for threads in [1, 2, 7] {
            let done = AtomicU64::new(0);
            // Job n pushes n jobs of n - 1: 1 + 6 + 30 + 120 + 360 + 720 + 720 jobs.
            run_jobs(
                threads,
                6_u64,
                || (),
                |queue, (), n| {
                    done.fetch_add(1, Relaxed);
                    (0..n).for_each(|_| queue.push(n - 1));
                },
                || (),
            );
            assert_eq!(done.into_inner(), 1957);
        }
    }

    #[test]
    fn a_panicking_job_reaches_the_caller() {
        let result = std::panic::catch_unwind(|| {
            run_jobs(2, 0, || (), |_, (), _| panic!("planted"), || ());
        });
        assert!(result.is_err());
    }
}
