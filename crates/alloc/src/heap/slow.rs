//! Allocation from slabs, and frees that are not quick.

use super::{Heap, Own};
use crate::checking::checks::Checks;
use crate::checking::guard::{self, GUARD_BYTES};
use crate::checking::misuse;
use crate::host::os;
use crate::memory::backend::Backend;
use crate::policy::Layers;
use crate::slabs::bin::{Bin, SlabSource};
use crate::slabs::class::{self, SIZES};
use crate::slabs::header::unit_of;
use crate::slabs::large;
use crate::slabs::slab::Slab;
use std::ptr::null_mut;

impl Heap {
    /// Allocates an object of a class when the layers are empty, for a request of `size` bytes. Null without
    /// memory.
    ///
    /// # Safety
    /// `heap` is that of the calling thread.
    #[cold]
    pub(crate) unsafe fn slow_malloc(heap: *mut Heap, class: usize, size: usize) -> *mut u8 {
        // SAFETY: the caller's promise.
        let own = unsafe { Self::own(heap) };
        let Some(backend) = own.backend else { return null_mut() };
        own.outbox.flush();
        // SAFETY: as above.
        unsafe { Self::take_inbox(heap, own, backend) };
        own.tidy(heap, backend);
        let is_guarded = backend.checks() == Checks::Full;
        let class = if is_guarded { guarded_class(class, size) } else { Some(class) };
        let Some(class) = class else { return large::malloc(backend, size, os::PAGE_BYTES).0 };
        let (layers, mut source) = own.layers_and_source(heap, class, backend);
        let before = layers.magazine.len();
        let Ok(object) = layers.take(&mut source) else { return null_mut() };
        let room = source.size;
        // Some objects of the inbox may have been of this class, so that nothing had to be carved.
        let carved = layers.bump.len(room) + (layers.magazine.len() + 1).saturating_sub(before);
        own.stats.refills += u64::from(before == 0);
        own.stats.refilled += if before == 0 { carved as u64 } else { 0 };
        if is_guarded {
            // SAFETY: an object of this class, which nothing else uses.
            unsafe { guard::write_guards(object, room, size) };
        }
        object
    }

    /// Frees any object.
    ///
    /// # Safety
    /// `heap` is that of the calling thread, or [`NO_HEAP`](super::NO_HEAP); nothing uses the object any
    /// more.
    #[cold]
    pub(crate) unsafe fn slow_free(heap: *mut Heap, backend: &'static Backend, object: *mut u8) {
        let checks = backend.checks();
        if checks != Checks::Off {
            assert_object(backend, object);
        }
        let header = unit_of(object);
        // SAFETY: an object has a header.
        let (owner, is_large, room) =
            unsafe { (header.as_ref().owner(), header.as_ref().units > 0, header.as_ref().size) };
        if is_large {
            // SAFETY: the caller's promise.
            return unsafe { large::free(backend, header, object) };
        }
        if checks == Checks::Full {
            // SAFETY: an object in use, as far as a thread can know that does not own its heap.
            unsafe {
                guard::requested_size(object, room);
                guard::fill_freed(object, room);
            }
        }
        // SAFETY: the caller's promise, the header's for objects of other heaps.
        unsafe {
            if owner == heap.cast_const().cast() {
                if checks != Checks::Off {
                    Slab::assert_allocated(object, owner);
                }
                let own = Self::own(heap);
                own.put(heap, backend, header.as_ref().class, object);
                own.stats.overflows += 1;
                own.tidy(heap, backend);
            } else if Self::is_real(heap) && checks != Checks::Full {
                Self::own(heap).outbox.put(object, owner);
            } else {
                (*owner).add(&[object]);
            }
        }
    }

    /// Takes the objects that other threads freed.
    ///
    /// # Safety
    /// `heap` is that of the calling thread, or no thread has it, and `own` is its own part.
    pub(super) unsafe fn take_inbox(heap: *mut Heap, own: &mut Own, backend: &Backend) {
        let checks = backend.checks();
        // SAFETY: the caller's promise.
        let inbox = unsafe { Self::inbox(heap) };
        let mut last = null_mut();
        inbox.take(|object, was_linked| {
            own.stats.from_others += 1;
            if checks != Checks::Off {
                // SAFETY: senders read a sound header.
                unsafe { Slab::assert_allocated(object, inbox) };
                // Both would lie in the magazine, which nothing searches.
                if std::mem::replace(&mut last, object) == object {
                    misuse::freed_twice(object);
                }
            }
            // SAFETY: an inbox has objects of its heap's slabs.
            let slab = unsafe { Slab::of(object) };
            if checks == Checks::Full {
                // SAFETY: nothing uses the object, which its sender has filled.
                unsafe {
                    if was_linked {
                        guard::fill_link(object);
                    }
                    guard::assert_unwritten(object, slab.size());
                }
            }
            own.put(heap, backend, slab.class(), object);
        });
    }
}

impl Own {
    /// Returns the layers of a class, and the slabs below them.
    pub(super) fn layers_and_source<'h>(
        &'h mut self,
        heap: *mut Heap,
        class: usize,
        backend: &'h Backend,
    ) -> (&'h mut Layers<*mut u8>, SlabSource<'h>) {
        // Headers get a pointer to the layers that is not derived from the reference below.
        // SAFETY: the class exists.
        let shared_layers = unsafe { &raw mut (*Heap::bin(heap, class)).layers };
        let Bin { layers, size, slabs } = &mut self.bins[class];
        let source = SlabSource {
            size: *size,
            slabs,
            class,
            owner: heap.cast_const().cast(),
            layers: shared_layers,
            backend,
            spare: &mut self.spare,
        };
        (layers, source)
    }

    /// Puts an object into the magazine of its class, or back into its slab.
    fn put(&mut self, heap: *mut Heap, backend: &Backend, class: usize, object: *mut u8) {
        let (layers, mut source) = self.layers_and_source(heap, class, backend);
        let _ = layers.put(&mut source, object);
    }
}

/// Fails unless an object may be at this address. A header is mixed with its address, and erased when its
/// unit is given back, so one is not found by chance. Only the highest grade asks the pool too, which has a
/// lock.
fn assert_object(backend: &Backend, object: *mut u8) {
    let header = unit_of(object);
    // SAFETY: the program ends here, without a message, where no memory is mapped; without the check it would
    // end later.
    let sound = unsafe { header.as_ref() };
    if !sound.is_sound() {
        misuse::not_an_object(object);
    }
    if backend.checks() == Checks::Full && !backend.pool.lock().has(header.addr().get()) {
        misuse::not_an_object(object);
    }
    // SAFETY: a sound header without units is that of a slab; its shape does not change.
    if sound.units == 0 && unsafe { Slab::of(object) }.exact(object).is_none() {
        misuse::not_an_object(object);
    }
}

/// Returns the class for an object with guard bytes and the same alignment as one of `class`; none if it is
/// too large.
fn guarded_class(class: usize, size: usize) -> Option<usize> {
    let align = (SIZES[class] & SIZES[class].wrapping_neg()).min(os::PAGE_BYTES as u32);
    class::aligned(size.checked_add(GUARD_BYTES)?, align as usize)
}
