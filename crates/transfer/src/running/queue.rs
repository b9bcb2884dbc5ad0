//! A pool of threads over a stack of tasks that grows while tasks are executed.
//!
//! The stack is last in, first out: a tree is walked depth first, so few directories are open at a time. One
//! lock is enough, because a task is a directory or some hundred files, and takes a thousand times longer
//! than the lock.

use super::job::PROGRESS_INTERVAL;
use lanefs_sync::lock::{Condvar, Mutex};

struct QueueState<T> {
    tasks: Vec<T>,
    /// Tasks in execution, which may still push others.
    active: usize,
    /// Tasks pushed, and tasks ended, so far.
    pushed: u64,
    ended: u64,
}

/// Tasks that no thread has taken yet.
pub(crate) struct Queue<T> {
    state: Mutex<QueueState<T>>,
    /// A task was pushed, or the last one ended.
    changed: Condvar,
    /// The last task ended; the thread that waits for all of them listens.
    finished: Condvar,
    threads: usize,
}

impl<T: Send> Queue<T> {
    fn new(threads: usize, first: T) -> Self {
        Queue {
            state: Mutex::new(QueueState { tasks: vec![first], active: 0, pushed: 1, ended: 0 }),
            changed: Condvar::new(),
            finished: Condvar::new(),
            threads,
        }
    }

    /// Adds a task. Call it only from within a task: otherwise the threads may have ended.
    pub(crate) fn push(&self, task: T) {
        self.add(task, Vec::push);
    }

    /// Adds a task that is executed after those that are there. Call it only from within a task.
    pub(crate) fn push_below(&self, task: T) {
        self.add(task, |tasks, task| tasks.insert(0, task));
    }

    fn add(&self, task: T, add: impl FnOnce(&mut Vec<T>, T)) {
        let mut state = self.state.lock();
        debug_assert!(state.active > 0, "only a task pushes tasks");
        state.pushed += 1;
        add(&mut state.tasks, task);
        drop(state);
        self.changed.notify_one();
    }

    /// Returns the next task; waits while other tasks may still push one. `None` once all tasks have ended.
    fn next(&self) -> Option<T> {
        let mut state = self.state.lock();
        loop {
            if let Some(task) = state.tasks.pop() {
                state.active += 1;
                debug_assert!(state.active <= self.threads, "a thread executes one task at a time");
                return Some(task);
            }
            if state.active == 0 {
                return None;
            }
            self.changed.wait(&mut state);
        }
    }
}

/// Ends a task even if it panics, so that the other threads end and the panic reaches the caller.
struct TaskGuard<'q, T>(&'q Queue<T>);

impl<T> Drop for TaskGuard<'_, T> {
    fn drop(&mut self) {
        let mut state = self.0.state.lock();
        debug_assert!(state.active > 0, "a task ends once");
        state.active -= 1;
        state.ended += 1;
        if state.active == 0 && state.tasks.is_empty() {
            self.0.changed.notify_all();
            self.0.finished.notify_all();
        }
    }
}

/// Executes `first` and all tasks that it pushes on `threads` threads, each with its own state from `local`.
/// Calls `report_progress` from this thread at intervals.
pub(crate) fn run_tasks<T: Send, L>(
    threads: usize,
    first: T,
    local: impl Fn() -> L + Sync,
    work: impl Fn(&Queue<T>, &mut L, T) + Sync,
    report_progress: impl Fn(),
) {
    let threads = threads.max(1);
    let queue = Queue::new(threads, first);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                let mut mine = local();
                while let Some(task) = queue.next() {
                    let _guard = TaskGuard(&queue);
                    work(&queue, &mut mine, task);
                }
            });
        }
        let mut state = queue.state.lock();
        while state.active > 0 || !state.tasks.is_empty() {
            queue.finished.wait_for(&mut state, PROGRESS_INTERVAL);
            lanefs_sync::lock::MutexGuard::unlocked(&mut state, &report_progress);
        }
        debug_assert_eq!(state.pushed, state.ended, "every pushed task has ended once");
    });
}

/// Default number of threads of a transfer: more than cores, because threads wait for devices.
pub(crate) fn default_threads() -> usize {
    std::thread::available_parallelism().map_or(2, |n| n.get()).saturating_mul(2).clamp(2, 32)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

    #[test]
    fn every_pushed_task_is_done_once() {
        for threads in [1, 2, 7] {
            let done = AtomicU64::new(0);
            // Task n pushes n tasks of n - 1: 1 + 6 + 30 + 120 + 360 + 720 + 720 tasks.
            run_tasks(
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
    fn a_task_below_the_others_comes_after_them() {
        let done = Mutex::new(Vec::new());
        let work = |queue: &Queue<u32>, (): &mut (), task| {
            done.lock().push(task);
            if task == 0 {
                queue.push(1);
                queue.push_below(9);
                queue.push(2);
            }
        };
        run_tasks(1, 0, || (), work, || ());
        assert_eq!(done.into_inner(), [0, 2, 1, 9]);
    }

    #[test]
    fn a_panicking_task_reaches_the_caller() {
        let result = std::panic::catch_unwind(|| {
            run_tasks(2, 0, || (), |_, (), _| panic!("planted"), || ());
        });
        assert!(result.is_err());
    }
}
