//! Setting of a schedule: a registry of its own, threads with heaps of it, and objects whose contents name
//! their owner.

use crate::bin::Bin;
use crate::checks::Checks;
use crate::class;
use crate::header::from_caller;
use crate::heap::Heap;
use crate::large;
use crate::registry::Registry;
use std::collections::BTreeSet;
use std::ptr::NonNull;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Bytes of objects of which a magazine holds two and a slab seven, so that carves and overflows are
/// frequent.
pub(super) const BIG: usize = 32 << 10;

/// The same, of which a magazine holds two and a slab nine, also with margins.
pub(super) const GUARDED: usize = 27 << 10;

/// A registry, and what is true of it.
pub(super) struct Stage {
    pub(super) registry: &'static Registry,
    /// Knowledge of the test. (Its locks are not the explorer's: no thread is preempted while it has one.)
    known: Mutex<Known>,
}

#[derive(Default)]
struct Known {
    heaps: BTreeSet<usize>,
    /// Heaps that threads have.
    busy: BTreeSet<usize>,
    /// Objects in use.
    live: BTreeSet<usize>,
    objects: usize,
}

/// An object in use. Its contents are its number.
#[derive(Debug)]
pub(super) struct Object {
    at: usize,
    size: usize,
    number: usize,
}

/// A thread's part of the heap.
pub(super) struct Lane<'s> {
    stage: &'s Stage,
    heap: *mut Heap,
}

// SAFETY: a heap's thread is whoever has this.
unsafe impl Send for Lane<'_> {}

impl Stage {
    pub(super) fn new() -> Self {
        Stage { registry: Box::leak(Box::new(Registry::new())), known: Mutex::default() }
    }

    pub(super) fn with_checks(checks: Checks) -> Self {
        let stage = Stage::new();
        stage.registry.backend.set_checks(checks);
        stage
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A thread begins.
    pub(super) fn begin(&self) -> Lane<'_> {
        let heap = self.registry.adopt();
        assert!(!heap.is_null(), "memory");
        let mut known = self.known();
        known.heaps.insert(heap.expose_provenance());
        assert!(known.busy.insert(heap.expose_provenance()), "two threads have one heap");
        Lane { stage: self, heap }
    }

    /// All threads have ended: nothing may be in use but what the test still has.
    pub(super) fn end(self) {
        assert!(self.known().live.is_empty(), "a test frees what it takes");
        assert!(self.known().busy.is_empty(), "a test ends its threads");
        let count = self.known().heaps.len();
        // Objects that reached a heap after the end of its thread are still in its inbox. Twice, because one
        // heap may have sent to another.
        for _ in 0..2 {
            let lanes: Vec<Lane<'_>> = (0..count).map(|_| self.begin()).collect();
            assert_eq!(self.known().heaps.len(), count, "a heap was lost");
            lanes.into_iter().for_each(Lane::end);
        }
        assert_eq!(self.registry.backend.pool.lock().in_use(), 0, "units in use: objects were lost");
        for heap in std::mem::take(&mut self.known().heaps) {
            // SAFETY: nothing is in use any more.
            unsafe { Heap::destroy(std::ptr::with_exposed_provenance_mut(heap)) };
        }
        // SAFETY: made by `new`, and nobody has it any more. (A schedule that fails leaves its registry.)
        drop(unsafe { Box::from_raw(std::ptr::from_ref(self.registry).cast_mut()) });
    }
}

impl Lane<'_> {
    pub(super) fn take(&self, size: usize) -> Object {
        let class = class::aligned(size, 16);
        // SAFETY: the heap is this thread's. With an address of a heap as with an exposed one.
        let at = unsafe {
            match class {
                Some(class) => match Bin::take(Heap::bin(self.heap, class)) {
                    Some(object) => object,
                    None => Heap::slow_malloc(self.heap, class, size),
                },
                None => large::malloc(&self.stage.registry.backend, size, 16).0,
            }
        };
        let at = NonNull::new(at).expect("memory").as_ptr().expose_provenance();
        let mut known = self.stage.known();
        assert!(known.live.insert(at), "an object was given twice");
        known.objects += 1;
        let object = Object { at, size, number: known.objects };
        object.words().for_each(|word| {
            // SAFETY: a word of the object.
            unsafe { word.write(object.number) };
        });
        object
    }

    pub(super) fn free(&self, object: Object) {
        object.look();
        assert!(self.stage.known().live.remove(&object.at), "a test frees an object once");
        // SAFETY: the heap is this thread's, the object nobody's any more.
        unsafe {
            let at = from_caller(std::ptr::without_provenance(object.at));
            if !Heap::quick_free(self.heap, at) {
                Heap::slow_free(self.heap, &self.stage.registry.backend, at);
            }
        }
    }

    /// Gives memory back to the host.
    pub(super) fn release(&self) {
        self.stage.registry.release(Some(self.heap));
    }

    /// The thread ends.
    pub(super) fn end(self) {
        assert!(self.stage.known().busy.remove(&(self.heap.expose_provenance())));
        // SAFETY: this thread's, which is over.
        unsafe { self.stage.registry.abandon(self.heap) };
    }
}

impl Object {
    /// The contents are what was written to them.
    pub(super) fn look(&self) {
        for word in self.words() {
            // SAFETY: a word of the object.
            assert_eq!(unsafe { word.read() }, self.number, "another's words in object {:#x}", self.at);
        }
    }

    /// Some words: at both ends, and a few between.
    fn words(&self) -> impl Iterator<Item = *mut usize> {
        let last = self.size / size_of::<usize>() - 1;
        [0, 1, 2, last / 3, last / 2, last - 1, last]
            .map(|word| std::ptr::with_exposed_provenance_mut(self.at + word * size_of::<usize>()))
            .into_iter()
    }
}
