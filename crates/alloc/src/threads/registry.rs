//! The registry: the backend, and heaps whose threads have ended.

use crate::heap::Heap;
use crate::host::clock;
use crate::host::lock::Lock;
use crate::host::message::debug_assert_state;
use crate::memory::backend::Backend;
use crate::planted::PlantedBug;
use crate::stats::Stats;
use lanefs_sync::{is_planted, point, size};
use std::ptr::null_mut;

/// Returns the number of abandoned heaps that keep the objects in their layers for the next thread, until the
/// next upkeep. The others keep only slabs in which objects are in use. (None under the schedule explorer,
/// which looks for errors while a heap gives back.)
fn max_warm_heaps() -> usize {
    size(8, 0)
}

/// All heaps of a process, but for those that threads have. Tests make their own.
pub(crate) struct Registry {
    pub(crate) backend: Backend,
    abandoned: Lock<Abandoned>,
}

/// Heaps of threads that have ended.
struct Abandoned {
    /// Heaps with objects in their layers.
    warm: List,
    /// Heaps with empty layers, which have their next upkeep before those in `rested`.
    cold: List,
    /// Heaps that had their upkeep in the current round.
    rested: List,
    /// The time of the last upkeep, for [`clock::tick_passed`].
    last_upkeep: u64,
}

/// A list of heaps.
struct List {
    first: *mut Heap,
    len: usize,
}

// SAFETY: no thread has a heap in the lists.
unsafe impl Send for Abandoned {}

impl Registry {
    pub(crate) const fn new() -> Self {
        let abandoned =
            Abandoned { warm: List::EMPTY, cold: List::EMPTY, rested: List::EMPTY, last_upkeep: 0 };
        Registry { backend: Backend::new(), abandoned: Lock::new(abandoned) }
    }

    /// Returns a heap for a thread: that of a thread which has ended, with everything in it, or a new one.
    /// Null without memory.
    pub(crate) fn adopt(&'static self) -> *mut Heap {
        let mut abandoned = self.abandoned.lock();
        match abandoned.pop() {
            Some(heap) => heap,
            None => {
                drop(abandoned);
                Heap::create(&self.backend)
            }
        }
    }

    /// Allocates an object of a class when the layers are empty; see [`Heap::slow_malloc`].
    ///
    /// # Safety
    /// `heap` is that of the calling thread.
    pub(crate) unsafe fn slow_malloc(&self, heap: *mut Heap, class: usize, size: usize) -> *mut u8 {
        // SAFETY: the caller's promise.
        unsafe {
            let object = Heap::slow_malloc(heap, class, size);
            if Heap::take_tidied(heap) {
                self.tidy();
            }
            object
        }
    }

    /// Frees any object; see [`Heap::slow_free`].
    ///
    /// # Safety
    /// `heap` is that of the calling thread, or [`NO_HEAP`](crate::heap::NO_HEAP); nothing uses the object
    /// any more.
    pub(crate) unsafe fn slow_free(&'static self, heap: *mut Heap, object: *mut u8) {
        // SAFETY: the caller's promise.
        unsafe {
            Heap::slow_free(heap, &self.backend, object);
            if Heap::take_tidied(heap) {
                self.tidy();
            }
        }
    }

    /// Adds the heap of a thread that ends to the abandoned ones.
    ///
    /// # Safety
    /// The heap is that of the calling thread, which does not use it any more.
    pub(crate) unsafe fn abandon(&self, heap: *mut Heap) {
        if is_planted(PlantedBug::EarlyAbandon) {
            self.abandoned.lock().cold.push(heap);
        }
        let is_warm = self.abandoned.lock().warm.len < max_warm_heaps();
        // SAFETY: the caller's promise.
        unsafe {
            if is_warm {
                Heap::flush_outbox(heap);
            } else {
                Heap::empty(heap);
            }
        }
        if !is_planted(PlantedBug::EarlyAbandon) {
            let mut abandoned = self.abandoned.lock();
            if is_warm { abandoned.warm.push(heap) } else { abandoned.cold.push(heap) }
        }
    }

    /// Gives memory that no heap needs back to the kernel: of the caller's heap, if it has one, and of
    /// abandoned ones.
    pub(crate) fn release(&self, own: Option<*mut Heap>) {
        if let Some(own) = own {
            // SAFETY: the caller's own.
            unsafe { Heap::trim(own) };
        }
        self.each_abandoned(|heap| {
            // SAFETY: no other thread finds it now.
            unsafe { Heap::trim(heap) }
        });
        self.backend.pool.lock().release();
    }

    /// Gives back memory that abandoned heaps do not need, unless a thread has done so in this tick. No
    /// thread of theirs does it: without this, the objects in their layers and those that other threads free
    /// for them would keep slabs until a thread begins.
    #[cold]
    pub(crate) fn tidy(&self) {
        let is_due = clock::tick_passed(&mut self.abandoned.lock().last_upkeep);
        if is_due {
            self.tidy_now();
        }
    }

    /// As [`tidy`](Self::tidy), whatever the time.
    pub(crate) fn tidy_now(&self) {
        self.each_abandoned(|heap| {
            // SAFETY: no other thread finds it now.
            unsafe { Heap::rest(heap) }
        });
    }

    /// Calls `work` with each abandoned heap. They are taken out of the lists one by one, so that a thread
    /// which begins meanwhile finds the others.
    fn each_abandoned(&self, work: impl Fn(*mut Heap)) {
        self.abandoned.lock().begin_round();
        loop {
            let Some(heap) = self.abandoned.lock().pop_unrested() else { break };
            if is_planted(PlantedBug::TrimInList) {
                self.abandoned.lock().cold.push(heap);
                work(heap);
                break;
            }
            work(heap);
            self.abandoned.lock().rested.push(heap);
        }
    }

    /// Drops objects that other threads were about to send to the caller's heap, if it has one, and to
    /// abandoned ones. Only in the copy of a process, in which the caller is the only thread.
    pub(crate) fn drop_unfilled(&self, own: Option<*mut Heap>) {
        let abandoned = self.abandoned.lock();
        for heap in own.into_iter().chain(abandoned.heaps()) {
            // SAFETY: the caller's own, or one that no thread has; there is no other thread.
            unsafe { Heap::drop_unfilled(heap) };
        }
    }

    /// Returns the sum of the counters of the caller's heap, if it has one, and of abandoned ones.
    pub(crate) fn stats(&self, own: Option<*mut Heap>) -> Stats {
        let mut sum = Stats::NONE;
        let abandoned = self.abandoned.lock();
        for heap in own.into_iter().chain(abandoned.heaps()) {
            // SAFETY: the caller's own, or one that no thread has, and no thread adopts it while the lists
            // are locked.
            sum.add(&unsafe { Heap::own(heap) }.stats);
        }
        sum
    }

    /// Locks everything until [`unlock_after_fork`](Self::unlock_after_fork), so that the process is not
    /// copied while another thread changes it.
    pub(crate) fn lock_for_fork(&self) {
        self.abandoned.acquire();
        if !is_planted(PlantedBug::PoolNotLocked) {
            self.backend.pool.acquire();
        }
    }

    /// Unlocks everything, in the process and in its copy. Heaps of threads that the copy does not have are
    /// never adopted: the threads may have left them half changed.
    pub(crate) fn unlock_after_fork(&self) {
        if !is_planted(PlantedBug::PoolNotLocked) {
            self.backend.pool.release();
        }
        self.abandoned.release();
    }
}

impl Abandoned {
    fn pop(&mut self) -> Option<*mut Heap> {
        self.pop_unrested().or_else(|| self.rested.pop())
    }

    fn pop_unrested(&mut self) -> Option<*mut Heap> {
        self.warm.pop().or_else(|| self.cold.pop())
    }

    /// Begins a round of upkeep, in which every heap has its turn.
    fn begin_round(&mut self) {
        while let Some(heap) = self.rested.pop() {
            self.cold.push(heap);
        }
    }

    /// Returns all heaps in the lists.
    fn heaps(&self) -> impl Iterator<Item = *mut Heap> {
        [self.warm.first, self.cold.first, self.rested.first].into_iter().flat_map(|first| {
            let mut next = first;
            std::iter::from_fn(move || {
                let heap = (!next.is_null()).then_some(next)?;
                // SAFETY: no thread has a heap in the lists.
                next = unsafe { Heap::own(heap) }.next_abandoned;
                Some(heap)
            })
        })
    }
}

impl List {
    const EMPTY: List = List { first: null_mut(), len: 0 };

    fn push(&mut self, heap: *mut Heap) {
        // SAFETY: no thread has this heap.
        let own = unsafe { Heap::own(heap) };
        debug_assert_state!(!own.is_abandoned, "a heap is abandoned once");
        own.next_abandoned = self.first;
        own.is_abandoned = true;
        self.first = heap;
        self.len += 1;
    }

    fn pop(&mut self) -> Option<*mut Heap> {
        let heap = self.first;
        point();
        if heap.is_null() {
            debug_assert_state!(self.len == 0, "an empty list has no heaps");
            return None;
        }
        // SAFETY: no thread has a heap in the list.
        let own = unsafe { Heap::own(heap) };
        debug_assert_state!(own.is_abandoned && self.len > 0, "a list has abandoned heaps");
        own.is_abandoned = false;
        self.first = own.next_abandoned;
        self.len -= 1;
        Some(heap)
    }
}
