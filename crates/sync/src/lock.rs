//! Locks for objects that a forked child may make and use, with the interface of `parking_lot`'s.
//!
//! `parking_lot` keeps the threads that wait for any of its locks in one table of the process. A forked child
//! inherits the table with threads that do not exist in it, whose memory its own threads get again: their
//! waits are then lost, and a thread sleeps for ever on a lock that the child itself has made. The locks of
//! the standard library have no state outside of themselves.

use std::fmt;
use std::ops::{Deref, DerefMut};
use std::sync::PoisonError;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

pub use std::sync::{RwLockReadGuard, RwLockWriteGuard};

/// A lock of a value. A panic of a thread that has it does not poison it.
#[derive(Debug, Default)]
pub struct Mutex<T>(std::sync::Mutex<T>);

impl<T> Mutex<T> {
    /// Creates an unlocked mutex.
    pub const fn new(value: T) -> Self {
        Mutex(std::sync::Mutex::new(value))
    }

    /// Locks the mutex.
    pub fn lock(&self) -> MutexGuard<'_, T> {
        MutexGuard { inner: Some(self.inner()), mutex: self }
    }

    fn inner(&self) -> std::sync::MutexGuard<'_, T> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the value, which nobody else can lock.
    pub fn get_mut(&mut self) -> &mut T {
        self.0.get_mut().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes the value out.
    pub fn into_inner(self) -> T {
        self.0.into_inner().unwrap_or_else(PoisonError::into_inner)
    }

    /// Locks the mutex, unless it is locked already.
    pub fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
        let inner = match self.0.try_lock() {
            Ok(inner) => inner,
            Err(std::sync::TryLockError::Poisoned(error)) => error.into_inner(),
            Err(std::sync::TryLockError::WouldBlock) => return None,
        };
        Some(MutexGuard { inner: Some(inner), mutex: self })
    }
}

impl<T> From<T> for Mutex<T> {
    fn from(value: T) -> Self {
        Mutex::new(value)
    }
}

/// Access to the value of a locked mutex. Only a wait takes the inner guard out, and puts it back.
pub struct MutexGuard<'a, T> {
    inner: Option<std::sync::MutexGuard<'a, T>>,
    mutex: &'a Mutex<T>,
}

impl<T> MutexGuard<'_, T> {
    /// Unlocks the mutex, calls `work`, and locks the mutex again.
    pub fn unlocked<R>(guard: &mut Self, work: impl FnOnce() -> R) -> R {
        drop(guard.inner.take());
        let done = work();
        guard.inner = Some(guard.mutex.inner());
        done
    }
}

impl<T> Deref for MutexGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        self.inner.as_ref().expect("only a wait takes the guard")
    }
}

impl<T> DerefMut for MutexGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        self.inner.as_mut().expect("only a wait takes the guard")
    }
}

impl<T: fmt::Debug> fmt::Debug for MutexGuard<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

/// A lock of a value that many threads may read at a time. A panic does not poison it.
#[derive(Debug, Default)]
pub struct RwLock<T>(std::sync::RwLock<T>);

impl<T> RwLock<T> {
    /// Creates an unlocked lock.
    pub const fn new(value: T) -> Self {
        RwLock(std::sync::RwLock::new(value))
    }

    /// Locks the value for reading.
    pub fn read(&self) -> RwLockReadGuard<'_, T> {
        self.0.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Locks the value for writing.
    pub fn write(&self) -> RwLockWriteGuard<'_, T> {
        self.0.write().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T> From<T> for RwLock<T> {
    fn from(value: T) -> Self {
        RwLock::new(value)
    }
}

/// A condition variable. A notifier has changed under the mutex what the waiting threads wait for.
#[derive(Debug, Default)]
pub struct Condvar {
    inner: std::sync::Condvar,
    /// Threads in a wait. Each counts itself under the mutex, so a notifier without waiting threads, which is
    /// the usual one, needs no system call.
    waiting: AtomicUsize,
}

/// Whether a wait ended because its time was over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WaitTimeoutResult(bool);

impl WaitTimeoutResult {
    /// True where the time was over.
    #[must_use]
    pub fn timed_out(self) -> bool {
        self.0
    }
}

impl Condvar {
    /// Creates a condition variable.
    #[must_use]
    pub const fn new() -> Self {
        Condvar { inner: std::sync::Condvar::new(), waiting: AtomicUsize::new(0) }
    }

    /// Wakes one waiting thread.
    pub fn notify_one(&self) {
        if self.waiting.load(Ordering::SeqCst) > 0 {
            self.inner.notify_one();
        }
    }

    /// Wakes all waiting threads.
    pub fn notify_all(&self) {
        if self.waiting.load(Ordering::SeqCst) > 0 {
            self.inner.notify_all();
        }
    }

    /// Unlocks the mutex, waits for a wake-up, and locks the mutex again.
    pub fn wait<T>(&self, guard: &mut MutexGuard<'_, T>) {
        self.waiting.fetch_add(1, Ordering::SeqCst);
        let inner = guard.inner.take().expect("only a wait takes the guard");
        guard.inner = Some(self.inner.wait(inner).unwrap_or_else(PoisonError::into_inner));
        self.waiting.fetch_sub(1, Ordering::SeqCst);
    }

    /// As [`wait`](Self::wait), until a time at most.
    pub fn wait_until<T>(&self, guard: &mut MutexGuard<'_, T>, end: Instant) -> WaitTimeoutResult {
        self.wait_for(guard, end.saturating_duration_since(Instant::now()))
    }

    /// As [`wait`](Self::wait), for so long at most.
    pub fn wait_for<T>(&self, guard: &mut MutexGuard<'_, T>, most: Duration) -> WaitTimeoutResult {
        self.waiting.fetch_add(1, Ordering::SeqCst);
        let inner = guard.inner.take().expect("only a wait takes the guard");
        let (inner, result) = self.inner.wait_timeout(inner, most).unwrap_or_else(PoisonError::into_inner);
        guard.inner = Some(inner);
        self.waiting.fetch_sub(1, Ordering::SeqCst);
        WaitTimeoutResult(result.timed_out())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_end_by_a_wake_up_or_by_time() {
        let (value, changed) = (Mutex::new(0), Condvar::new());
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    let mut seen = value.lock();
                    while *seen < 4 {
                        changed.wait(&mut seen);
                    }
                });
            }
            for _ in 0..4 {
                *value.lock() += 1;
                changed.notify_all();
            }
        });
        let mut guard = value.lock();
        assert!(value.try_lock().is_none());
        let end = Instant::now() + Duration::from_millis(1);
        while !changed.wait_until(&mut guard, end).timed_out() {}
        assert!(Instant::now() >= end && *guard == 4);
        drop(guard);
        assert!(value.try_lock().is_some());
    }
}
