//! A lock that allocates nothing.

use crate::planted::PlantedBug;
use lanefs_sync::atomic::{AtomicU32, Ordering};
use lanefs_sync::is_planted;
use std::cell::UnsafeCell;
use std::ops::{Deref, DerefMut};

/// Looks at a lock before its holder is given the processor.
const SPINS: u32 = 100;

/// A lock that allocates nothing, which the locks of the standard library may do.
pub(crate) struct Lock<T> {
    taken: AtomicU32,
    value: UnsafeCell<T>,
}

// SAFETY: one thread at a time has the value.
unsafe impl<T: Send> Sync for Lock<T> {}
// SAFETY: as the value itself.
unsafe impl<T: Send> Send for Lock<T> {}

impl<T> Lock<T> {
    pub(crate) const fn new(value: T) -> Self {
        Lock { taken: AtomicU32::new(0), value: UnsafeCell::new(value) }
    }

    pub(crate) fn lock(&self) -> Locked<'_, T> {
        self.take();
        Locked { lock: self }
    }

    /// Takes the lock for good, until [`release`](Self::release).
    pub(crate) fn take(&self) {
        if is_planted(PlantedBug::OpenLock) {
            return;
        }
        let mut spins = 0;
        while self.taken.compare_exchange_weak(0, 1, Ordering::Acquire, Ordering::Relaxed).is_err() {
            spins += 1;
            if spins < SPINS && cfg!(not(feature = "shuttle")) {
                std::hint::spin_loop();
            } else {
                rest();
            }
        }
    }

    /// The value of a lock that was [taken](Self::take).
    ///
    /// # Safety
    /// The caller has taken the lock, and does not let go of it as long as this is used.
    #[cfg(all(test, feature = "shuttle"))]
    pub(crate) unsafe fn peek(&self) -> &T {
        // SAFETY: the caller's promise.
        unsafe { &*self.value.get() }
    }

    /// Lets go of a lock that was [taken](Self::take). Only for who has it.
    pub(crate) fn release(&self) {
        self.taken.store(0, Ordering::Release);
    }
}

fn rest() {
    #[cfg(feature = "shuttle")]
    shuttle::thread::yield_now();
    #[cfg(not(feature = "shuttle"))]
    // SAFETY: no arguments, no memory.
    unsafe {
        libc::sched_yield();
    }
}

/// The value of a lock that is taken.
pub(crate) struct Locked<'l, T> {
    lock: &'l Lock<T>,
}

impl<T> Deref for Locked<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        // SAFETY: the lock is taken.
        unsafe { &*self.lock.value.get() }
    }
}

impl<T> DerefMut for Locked<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: the lock is taken, and this is borrowed.
        unsafe { &mut *self.lock.value.get() }
    }
}

impl<T> Drop for Locked<'_, T> {
    fn drop(&mut self) {
        self.lock.release();
    }
}
