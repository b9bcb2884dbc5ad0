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
        MutexGuard { inner: Some(locked(&self.0)), mutex: &self.0 }
    }

    /// Locks the mutex, unless it is locked already.
    pub fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
        Some(MutexGuard { inner: Some(self.0.try_lock().ok()?), mutex: &self.0 })
    }
}

fn locked<T>(mutex: &shuttle::sync::Mutex<T>) -> shuttle::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Access to the value of a locked mutex.
///
/// [`Condvar::wait`] takes the explorer's guard out, and puts the next one in before it returns.
#[derive(Debug)]
pub struct MutexGuard<'a, T> {
    inner: Option<shuttle::sync::MutexGuard<'a, T>>,
    mutex: &'a shuttle::sync::Mutex<T>,
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

/// The explorer's condition variable with the interface of `parking_lot`'s.
///
/// It serves waits until a time itself: the explorer's own never end by time.
#[derive(Debug, Default)]
pub struct Condvar {
    inner: shuttle::sync::Condvar,
    timed: std::sync::Mutex<Timed>,
}

/// Threads that wait until a time at most, by the numbers of their waits.
#[derive(Debug, Default)]
struct Timed {
    waits: u64,
    asleep: Vec<u64>,
    /// Threads that were woken in time and have not continued yet.
    woken: Vec<u64>,
}

impl Condvar {
    /// Creates a condition variable.
    #[must_use]
    pub fn new() -> Self {
        Condvar::default()
    }

    /// Wakes one waiting thread.
    pub fn notify_one(&self) {
        point();
        if !self.timed().wake_one() {
            self.inner.notify_one();
        }
    }

    /// Wakes all waiting threads.
    pub fn notify_all(&self) {
        point();
        self.timed().wake_all();
        self.inner.notify_all();
    }

    /// As [`wait`](Self::wait), until a time at most. The explorer has no clock: the time is over when it
    /// lets the thread continue, or before a wake-up that the thread could have had.
    pub fn wait_until<T>(&self, guard: &mut MutexGuard<'_, T>, _: Instant) -> WaitTimeoutResult {
        let wait = self.timed().begin();
        drop(guard.inner.take());
        yield_now();
        guard.inner = Some(locked(guard.mutex));
        WaitTimeoutResult(!self.timed().end(wait))
    }

    /// Unlocks the mutex, waits for a wake-up, and locks the mutex again.
    pub fn wait<T>(&self, guard: &mut MutexGuard<'_, T>) {
        let inner = guard.inner.take().expect("only a wait takes the guard");
        guard.inner = Some(self.inner.wait(inner).unwrap_or_else(PoisonError::into_inner));
    }

    /// No thread is switched while the lock is held.
    fn timed(&self) -> std::sync::MutexGuard<'_, Timed> {
        self.timed.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Timed {
    /// Begins a wait and returns its number.
    fn begin(&mut self) -> u64 {
        self.waits += 1;
        self.asleep.push(self.waits);
        self.waits
    }

    /// Ends a wait; tells whether its thread was woken in time.
    fn end(&mut self, wait: u64) -> bool {
        self.asleep.retain(|other| *other != wait);
        let woken = self.woken.iter().position(|other| *other == wait);
        woken.map(|i| self.woken.swap_remove(i)).is_some()
    }

    /// Wakes a thread, or decides that the time of all of them is over already.
    fn wake_one(&mut self) -> bool {
        let is_in_time = !self.asleep.is_empty() && random_bool();
        if is_in_time {
            self.woken.push(self.asleep.remove(0));
        } else {
            self.asleep.clear();
        }
        is_in_time
    }

    fn wake_all(&mut self) {
        self.woken.append(&mut self.asleep);
    }
}

/// The end of a wait until a time.
#[derive(Clone, Copy, Debug)]
pub struct WaitTimeoutResult(bool);

impl WaitTimeoutResult {
    /// Tells whether the time was over.
    #[must_use]
    pub fn timed_out(&self) -> bool {
        self.0
    }
}

/// Tells whether a time has come. The explorer decides: a clock would differ when a schedule is replayed.
#[must_use]
pub fn is_past(_: Instant) -> bool {
    random_bool()
}

/// Returns a random value, the same when a schedule is replayed.
fn random_bool() -> bool {
    shuttle::rand::Rng::r#gen(&mut shuttle::rand::thread_rng())
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
    // Counts over all schedules are not part of any.
    use std::sync::atomic::{AtomicUsize, Ordering};

    /// A thread waits until a time for another one, which needs the mutex. Returns in `seen` how the wait
    /// ended: by a wake-up, by time before the change, by time after it; and whether a time has come.
    fn a_wait_until(seen: &[AtomicUsize; 5]) {
        let shared = Arc::new((Mutex::new(false), Condvar::new()));
        let other = shared.clone();
        let thread = thread::spawn(move || {
            *other.0.lock() = true;
            other.1.notify_one();
        });
        seen[3 + usize::from(is_past(Instant::now()))].fetch_add(1, Ordering::Relaxed);
        let (is_changed, changed) = &*shared;
        let mut guard = is_changed.lock();
        if !*guard {
            let is_over = changed.wait_until(&mut guard, Instant::now()).timed_out();
            assert!(is_over || *guard, "a wake-up before the change");
            let end = if is_over { 1 + usize::from(*guard) } else { 0 };
            seen[end].fetch_add(1, Ordering::Relaxed);
        }
        drop(guard);
        thread.join().expect("the thread ends");
        let timed = changed.timed();
        assert!(timed.asleep.is_empty() && timed.woken.is_empty());
    }

    #[test]
    fn a_wait_until_a_time_unlocks_and_ends_by_a_wake_up_or_by_time() {
        static SEEN: [AtomicUsize; 5] = [const { AtomicUsize::new(0) }; 5];
        Explorer::new(2).explore(200, || a_wait_until(&SEEN));
        let seen = SEEN.each_ref().map(|count| count.load(Ordering::Relaxed));
        assert!(seen.iter().all(|count| *count > 0), "{seen:?}");
    }

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
