//! A barrier that threads leave at the same time, and that opens for good when one of them panics.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// Spins before a waiting thread yields its core.
const SPINS: u32 = 200;

/// A barrier at which `threads` threads wait for each other, again and again.
pub(super) struct Gate {
    threads: usize,
    arrived: AtomicUsize,
    broken: AtomicBool,
}

impl Gate {
    pub(super) fn new(threads: usize) -> Self {
        Gate { threads, arrived: AtomicUsize::new(0), broken: AtomicBool::new(false) }
    }

    /// Returns when all threads have called this as often as the caller has.
    pub(super) fn pass(&self) {
        let ticket = self.arrived.fetch_add(1, Ordering::SeqCst);
        let all_here = (ticket / self.threads + 1) * self.threads;
        let mut spins = 0;
        while self.arrived.load(Ordering::SeqCst) < all_here && !self.broken.load(Ordering::SeqCst) {
            spins += 1;
            if spins > SPINS { std::thread::yield_now() } else { std::hint::spin_loop() }
        }
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
        }
    }
}
