//! A barrier that threads leave at the same time, and that opens for good when one of them panics.

use parking_lot::{Condvar, Mutex};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// Spins before a waiting thread yields its core.
const SPINS: u32 = 200;
/// Yields before a thread that waits for another one to come sleeps. Threads that only yielded took nine
/// tenths of the processor time of short histories.
const YIELDS: u32 = 20;

/// A barrier at which `threads` threads wait for each other, again and again.
pub(super) struct Gate {
    threads: usize,
    arrived: AtomicUsize,
    /// Passes of threads that have seen all others here.
    leaving: AtomicUsize,
    broken: AtomicBool,
    sleepers: Mutex<()>,
    /// All threads are here, or the gate is broken.
    open: Condvar,
}

impl Gate {
    pub(super) fn new(threads: usize) -> Self {
        Gate {
            threads,
            arrived: AtomicUsize::new(0),
            leaving: AtomicUsize::new(0),
            broken: AtomicBool::new(false),
            sleepers: Mutex::new(()),
            open: Condvar::new(),
        }
    }

    /// Returns when all threads have called this as often as the caller has.
    pub(super) fn pass(&self) {
        let ticket = self.arrived.fetch_add(1, Ordering::SeqCst);
        let all_here = (ticket / self.threads + 1) * self.threads;
        if ticket + 1 == all_here {
            self.wake();
        } else if !self.sees(&self.arrived, all_here, SPINS + YIELDS) {
            let mut sleepers = self.sleepers.lock();
            while !self.sees(&self.arrived, all_here, 0) {
                self.open.wait(&mut sleepers);
            }
        }
        // A thread takes a while to wake. The others wait for it awake, so that all leave at the same time.
        self.leaving.fetch_add(1, Ordering::SeqCst);
        self.sees(&self.leaving, all_here, u32::MAX);
    }

    /// Waits until `count` threads have passed, at most so many spins and yields. Returns false where they
    /// have not.
    fn sees(&self, passed: &AtomicUsize, count: usize, most: u32) -> bool {
        let mut waits = 0;
        while passed.load(Ordering::SeqCst) < count && !self.broken.load(Ordering::SeqCst) {
            if waits == most {
                return false;
            }
            waits += u32::from(most < u32::MAX || waits <= SPINS);
            if waits > SPINS { std::thread::yield_now() } else { std::hint::spin_loop() }
        }
        true
    }

    fn wake(&self) {
        // With the lock no thread is between its look at the counter and its sleep.
        let _sleepers = self.sleepers.lock();
        self.open.notify_all();
    }

    /// Opens the gate for good when dropped by a panic, so that the other threads do not wait for ever.
    pub(super) fn keeper(&self) -> Keeper<'_> {
        Keeper(self)
    }
}

pub(super) struct Keeper<'g>(&'g Gate);

impl Drop for Keeper<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.broken.store(true, Ordering::SeqCst);
            self.0.wake();
        }
    }
}
