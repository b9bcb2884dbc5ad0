//! The primitives of the schedule explorer, with the interface of [`native`](crate)'s.

use std::ops::{Deref, DerefMut};
use std::sync::PoisonError;
use std::time::Instant;

pub use shuttle::sync::atomic;
pub use shuttle::thread_local;

/// The explorer's mutex with the interface of `parking_lot`'s.
#[derive(Debug, Default)]
pub struct Mutex<T>(shuttle::sync::Mutex<T>);

impl<T> Mutex<T> {
    /// Creates an unlocked mutex.
    pub fn new(value: T) -> Self {
        Mutex(shuttle::sync::Mutex::new(value))
    }

    /// Locks the mutex.
    pub fn lock(&self) -> MutexGuard<'_, T> {
        MutexGuard(Some(self.0.lock().unwrap_or_else(PoisonError::into_inner)))
    }

    /// Locks the mutex, unless it is locked already.
    pub fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
        Some(MutexGuard(Some(self.0.try_lock().ok()?)))
    }
}

/// Access to the value of a locked mutex.
///
/// [`Condvar::wait`] takes the explorer's guard out, and puts the next one in before it returns.
#[derive(Debug)]
pub struct MutexGuard<'a, T>(Option<shuttle::sync::MutexGuard<'a, T>>);

impl<T> Deref for MutexGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        self.0.as_ref().expect("only a wait takes the guard")
    }
}

impl<T> DerefMut for MutexGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        self.0.as_mut().expect("only a wait takes the guard")
    }
}

/// The explorer's condition variable with the interface of `parking_lot`'s.
#[derive(Debug, Default)]
pub struct Condvar(shuttle::sync::Condvar);

impl Condvar {
    /// Creates a condition variable.
    #[must_use]
    pub fn new() -> Self {
        Condvar(shuttle::sync::Condvar::new())
    }

    /// Wakes one waiting thread.
    pub fn notify_one(&self) {
        self.0.notify_one();
    }

    /// Wakes all waiting threads.
    pub fn notify_all(&self) {
        self.0.notify_all();
    }

    /// As [`wait`](Self::wait), until a time at most. The explorer has no clock: the time is over at once.
    pub fn wait_until<T>(&self, _: &mut MutexGuard<'_, T>, _: Instant) -> WaitTimeoutResult {
        point();
        WaitTimeoutResult
    }

    /// Unlocks the mutex, waits for a wake-up, and locks the mutex again.
    pub fn wait<T>(&self, guard: &mut MutexGuard<'_, T>) {
        let inner = guard.0.take().expect("only a wait takes the guard");
        guard.0 = Some(self.0.wait(inner).unwrap_or_else(PoisonError::into_inner));
    }
}

/// The end of a wait until a time.
#[derive(Clone, Copy, Debug)]
pub struct WaitTimeoutResult;

impl WaitTimeoutResult {
    /// Tells whether the time was over.
    #[must_use]
    pub fn timed_out(&self) -> bool {
        true
    }
}

/// Offers the processor to other threads: the explorer prefers them.
pub fn yield_now() {
    shuttle::thread::yield_now();
}

/// Marks a preemption point: the explorer decides which thread continues.
///
/// It sleeps, which takes the explorer no time, and does not yield: a yield lowers the rank of the thread.
pub fn point() {
    shuttle::thread::sleep(std::time::Duration::ZERO);
}

/// Returns a small number for the calling thread, the same each time a schedule is replayed.
#[must_use]
pub fn thread_number() -> usize {
    shuttle::current::me().into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Explorer;
    use shuttle::thread;
    use std::sync::Arc;

    /// Two threads pass a token back and forth with a condition variable.
    fn a_token() {
        let shared = Arc::new((Mutex::new(0), Condvar::new()));
        let other = shared.clone();
        let thread = thread::spawn(move || {
            let (turn, changed) = &*other;
            let mut guard = turn.lock();
            while *guard != 1 {
                changed.wait(&mut guard);
            }
            *guard = 2;
            changed.notify_all();
        });
        let (turn, changed) = &*shared;
        let mut guard = turn.lock();
        *guard = 1;
        changed.notify_one();
        while *guard != 2 {
            changed.wait(&mut guard);
        }
        drop(guard);
        assert!(turn.try_lock().is_some());
        thread.join().expect("the thread ends");
    }

    #[test]
    fn a_wait_unlocks_and_locks_again() {
        Explorer::new(1).explore(200, a_token);
    }
}
