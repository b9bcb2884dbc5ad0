//! The epoch: a counter that says whether writers are active.
//!
//! It is even while the volume is quiescent: no thread has changed anything since the last check found no
//! writer in any slot. A reader then remembers nothing: an even epoch that is the same at the end of an
//! attempt says that no writer was active. The first writer makes the epoch odd. Readers that see no writes
//! for a while make it even again. (Biased locking, reversed: compare BRAVO, Dice and Kogan, ATC 2019.)

use lanefs_sync::{Mutex, MutexGuard, point};
use std::sync::atomic::{AtomicU64, Ordering, fence};

/// A value of the epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Epoch(u64);

impl Epoch {
    /// Returns true where no writer is active.
    #[inline(always)]
    pub fn is_quiet(self) -> bool {
        self.0 & 1 == 0
    }
}

/// The epoch, and the lock of eviction: the state that a store shares with its gate.
#[derive(Default)]
pub(crate) struct Epochs {
    word: AtomicU64,
    /// Locked while blocks are evicted, and while the gate is closed.
    evicting: Mutex<()>,
}

impl Epochs {
    #[inline(always)]
    pub(crate) fn now(&self) -> Epoch {
        point();
        Epoch(self.word.load(Ordering::Acquire))
    }

    /// Returns permission to evict blocks, which readers see as a change. Returns `None` while the gate is
    /// closed, or another thread evicts.
    pub(crate) fn evict(&self) -> Option<MutexGuard<'_, ()>> {
        let guard = self.evicting.try_lock()?;
        self.mark_active();
        Some(guard)
    }

    /// Waits until no thread evicts, and prevents eviction until the guard is dropped.
    pub(crate) fn stop_eviction(&self) -> MutexGuard<'_, ()> {
        self.evicting.lock()
    }

    /// Makes the epoch odd: something is about to change. The caller is in a slot and stays there until the
    /// change has ended.
    #[inline(always)]
    pub(crate) fn mark_active(&self) {
        if self.now().is_quiet() {
            point();
            self.word.fetch_or(1, Ordering::SeqCst);
            // No later change is seen before the odd epoch.
            fence(Ordering::Release);
        }
    }

    /// Makes the epoch even, unless a thread is evicting. The caller has locked all slots.
    pub(crate) fn mark_quiet(&self) {
        let Some(_no_eviction) = self.evicting.try_lock() else { return };
        let now = self.word.load(Ordering::Relaxed);
        point();
        let before = self.word.swap(now + (now & 1), Ordering::SeqCst);
        debug_assert!(before <= now + (now & 1), "epochs only rise");
    }
}
