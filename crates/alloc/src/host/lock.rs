//! A lock that allocates nothing: the heap cannot use one that may allocate.

use super::message::debug_assert_state;
use crate::planted::PlantedBug;
use lanefs_sync::atomic::{AtomicU32, Ordering};
use lanefs_sync::is_planted;
use std::cell::UnsafeCell;
use std::ops::{Deref, DerefMut};

/// Attempts to take a lock before the thread yields the processor.
const SPINS: u32 = 100;

/// A spinning lock.
pub(crate) struct Lock<T> {
    is_locked: AtomicU32,
    value: UnsafeCell<T>,
}

// SAFETY: the value is used by the thread that has locked it only.
unsafe impl<T: Send> Sync for Lock<T> {}
// SAFETY: as the value itself.
unsafe impl<T: Send> Send for Lock<T> {}

impl<T> Lock<T> {
    pub(crate) const fn new(value: T) -> Self {
        Lock { is_locked: AtomicU32::new(0), value: UnsafeCell::new(value) }
    }

    /// Locks until the guard is dropped.
    pub(crate) fn lock(&self) -> LockGuard<'_, T> {
        self.acquire();
        LockGuard { lock: self }
    }

    /// Locks until [`release`](Self::release).
    pub(crate) fn acquire(&self) {
        if is_planted(PlantedBug::OpenLock) {
            return;
        }
        let mut spins = 0;
        while self.is_locked.compare_exchange_weak(0, 1, Ordering::Acquire, Ordering::Relaxed).is_err() {
            spins += 1;
            if spins < SPINS && cfg!(not(feature = "_shuttle")) {
                std::hint::spin_loop();
            } else {
                yield_now();
            }
        }
    }

    /// Returns the value of a lock that was [acquired](Self::acquire).
    ///
    /// # Safety
    /// The caller has acquired the lock, and does not release it while the reference is used.
    #[cfg(all(test, feature = "_shuttle"))]
    pub(crate) unsafe fn peek(&self) -> &T {
        // SAFETY: the caller's promise.
        unsafe { &*self.value.get() }
    }

    /// Unlocks. Only for the thread that has [acquired](Self::acquire) the lock, or its copy after a fork.
    pub(crate) fn release(&self) {
        if cfg!(debug_assertions) {
            let was_locked = self.is_locked.swap(0, Ordering::Release);
            debug_assert_state!(
                was_locked == 1 || is_planted(PlantedBug::OpenLock),
                "only the owner of a lock releases it"
            );
        } else {
            self.is_locked.store(0, Ordering::Release);
        }
    }
}

fn yield_now() {
    #[cfg(feature = "_shuttle")]
    lanefs_sync::yield_now();
    #[cfg(not(feature = "_shuttle"))]
    // SAFETY: no arguments, no memory.
    unsafe {
        libc::sched_yield();
    }
}

/// Access to the value of a lock; dropping it unlocks.
pub(crate) struct LockGuard<'l, T> {
    lock: &'l Lock<T>,
}

impl<T> Deref for LockGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        // SAFETY: this thread has locked the value.
        unsafe { &*self.lock.value.get() }
    }
}

impl<T> DerefMut for LockGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: this thread has locked the value, and the guard is borrowed exclusively.
        unsafe { &mut *self.lock.value.get() }
    }
}

impl<T> Drop for LockGuard<'_, T> {
    fn drop(&mut self) {
        self.lock.release();
    }
}
