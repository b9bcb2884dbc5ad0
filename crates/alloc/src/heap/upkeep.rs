//! Objects and memory that a heap gives back.

use super::{Heap, NO_HEAP, Own};
use crate::checking::checks::Checks;
use crate::host::clock;
use crate::host::message::debug_assert_state;
use crate::memory::backend::Backend;
use crate::policy::{Bump, Source};
use crate::slabs::class::CLASSES;
use crate::slabs::slab::Slab;
use lanefs_sync::point;

impl Heap {
    /// Returns false for [`NO_HEAP`].
    #[inline(always)]
    pub(crate) fn is_real(heap: *mut Heap) -> bool {
        heap.cast_const() != &raw const NO_HEAP
    }

    /// Drops objects that threads were about to send to this heap, in the copy of a process, which does not
    /// have these threads.
    ///
    /// # Safety
    /// `heap` is that of the calling thread, or no thread has it, and there is no other thread.
    pub(crate) unsafe fn drop_unfilled(heap: *mut Heap) {
        // SAFETY: the caller's promise.
        unsafe { Self::inbox(heap) }.drop_unfilled();
    }

    /// Sends the objects that the heap's thread freed for another heap.
    ///
    /// # Safety
    /// `heap` is that of the calling thread.
    pub(crate) unsafe fn flush_outbox(heap: *mut Heap) {
        // SAFETY: the caller's promise.
        unsafe { Self::own(heap) }.outbox.flush();
    }

    /// Gives back everything in the heap's layers.
    ///
    /// # Safety
    /// `heap` is that of the calling thread, or no thread has it.
    pub(crate) unsafe fn empty(heap: *mut Heap) {
        // SAFETY: the caller's promise.
        let own = unsafe { Self::own(heap) };
        let Some(backend) = own.backend else { return };
        own.outbox.flush();
        // SAFETY: as above.
        unsafe { Self::take_inbox(heap, own, backend) };
        (0..CLASSES).for_each(|class| own.empty_class(heap, backend, class));
        if let Some(unit) = own.spare.take() {
            // SAFETY: an empty unit.
            unsafe { backend.pool.lock().give_back(unit, 1) };
        }
    }

    /// Gives back everything in the layers of an abandoned heap, and the memory of slabs that rest.
    ///
    /// # Safety
    /// No thread has the heap.
    pub(crate) unsafe fn rest(heap: *mut Heap) {
        // SAFETY: the caller's promise.
        unsafe { Self::empty(heap) };
        // SAFETY: as above.
        let own = unsafe { Self::own(heap) };
        if own.backend.is_some_and(|backend| backend.checks() != Checks::Full) {
            own.each_slab(Slab::rest);
        }
    }

    /// Returns true if the heap has [tidied](Own::tidy) since the last call.
    ///
    /// # Safety
    /// `heap` is that of the calling thread, or [`NO_HEAP`].
    pub(crate) unsafe fn take_tidied(heap: *mut Heap) -> bool {
        // SAFETY: a heap of the calling thread; the one that is only read is left out.
        Self::is_real(heap) && std::mem::take(&mut unsafe { Self::own(heap) }.has_tidied)
    }

    /// Gives all memory in which no object lies back to the kernel.
    ///
    /// # Safety
    /// As [`empty`](Self::empty).
    pub(crate) unsafe fn trim(heap: *mut Heap) {
        // SAFETY: the caller's promise.
        unsafe { Self::empty(heap) };
        // SAFETY: as above.
        let own = unsafe { Self::own(heap) };
        // In the highest grade free objects are filled with known bytes, which must stay.
        if own.backend.is_some_and(|backend| backend.checks() != Checks::Full) {
            own.each_slab(Slab::release_pages);
        }
    }
}

impl Own {
    /// Gives back everything in the layers, if a tick has passed. A few objects of a class that is hardly
    /// used any more would keep a slab each; a class that is in use pays a refill.
    pub(super) fn tidy(&mut self, heap: *mut Heap, backend: &Backend) {
        if clock::tick_passed(&mut self.last_tidy) {
            (0..CLASSES).for_each(|class| self.empty_class(heap, backend, class));
            if backend.checks() != Checks::Full {
                self.each_slab(Slab::rest);
            }
            backend.pool.lock().tick();
            self.has_tidied = true;
        }
    }

    /// Calls `work` with every slab that has free objects.
    fn each_slab(&self, work: impl Fn(Slab)) {
        self.bins.iter().flat_map(|bin| bin.slabs.slabs()).for_each(work);
    }

    /// Gives back the objects in the layers of a class, and its empty slabs.
    fn empty_class(&mut self, heap: *mut Heap, backend: &Backend, class: usize) {
        let (layers, mut source) = self.layers_and_source(heap, class, backend);
        source.give_back_range(std::mem::replace(&mut layers.bump, Bump::EMPTY));
        let _ = source.give_back(layers.magazine.items());
        // If another thread had this heap too, it would take objects here that went back.
        point();
        layers.magazine.set_len(0);
        source.free_empty_slabs();
        debug_assert_state!(layers.is_empty(), "layers that gave back everything are empty");
    }
}
