//! A registry for one schedule, threads with heaps of it, and objects with known contents.

use crate::checking::checks::Checks;
use crate::heap::Heap;
use crate::slabs::bin::Bin;
use crate::slabs::header::from_caller;
use crate::slabs::{class, large};
use crate::threads::registry::Registry;
use std::collections::BTreeSet;
use std::ptr::NonNull;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Bytes of an object of which a magazine has two and a slab seven, so that carves and overflows are
/// frequent.
pub(super) const BIG_BYTES: usize = 32 << 10;

/// Bytes of an object of which a magazine has two and a slab nine, also with guard bytes.
pub(super) const GUARDED_BYTES: usize = 27 << 10;

/// A registry, and its expected state.
pub(super) struct Fixture {
    pub(super) registry: &'static Registry,
    /// The state that the test expects. (Its lock is not the explorer's: no thread is preempted while it has
    /// it.)
    expected: Mutex<Expected>,
}

#[derive(Default)]
struct Expected {
    heaps: BTreeSet<usize>,
    /// Heaps of threads.
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

/// A thread with its heap.
pub(super) struct Worker<'s> {
    fixture: &'s Fixture,
    heap: *mut Heap,
}

// SAFETY: the thread that has this is the heap's thread.
unsafe impl Send for Worker<'_> {}

impl Fixture {
    pub(super) fn new() -> Self {
        Fixture { registry: Box::leak(Box::new(Registry::new())), expected: Mutex::default() }
    }

    pub(super) fn with_checks(checks: Checks) -> Self {
        let fixture = Fixture::new();
        fixture.registry.backend.set_checks(checks);
        fixture
    }

    fn expected(&self) -> MutexGuard<'_, Expected> {
        self.expected.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins a thread.
    pub(super) fn begin(&self) -> Worker<'_> {
        let heap = self.registry.adopt();
        assert!(!heap.is_null(), "memory");
        let mut expected = self.expected();
        expected.heaps.insert(heap.expose_provenance());
        assert!(expected.busy.insert(heap.expose_provenance()), "two threads have one heap");
        Worker { fixture: self, heap }
    }

    /// Ends the test: all threads have ended, and no object is in use.
    pub(super) fn end(self) {
        assert!(self.expected().live.is_empty(), "a test frees what it takes");
        assert!(self.expected().busy.is_empty(), "a test ends its threads");
        let count = self.expected().heaps.len();
        // Objects that came to a heap after its thread had ended are still in its inbox. Twice, because one
        // heap may send to another.
        for _ in 0..2 {
            let workers: Vec<Worker<'_>> = (0..count).map(|_| self.begin()).collect();
            assert_eq!(self.expected().heaps.len(), count, "a heap was lost");
            workers.into_iter().for_each(Worker::end);
        }
        assert_eq!(self.registry.backend.pool.lock().in_use(), 0, "units in use: objects were lost");
        for heap in std::mem::take(&mut self.expected().heaps) {
            // SAFETY: no object is in use any more.
            unsafe { Heap::destroy(std::ptr::with_exposed_provenance_mut(heap)) };
        }
        // SAFETY: from `new`, and nothing uses it any more. (A schedule that fails leaves its registry.)
        drop(unsafe { Box::from_raw(std::ptr::from_ref(self.registry).cast_mut()) });
    }
}

impl Worker<'_> {
    pub(super) fn take(&self, size: usize) -> Object {
        let class = class::aligned(size, 16);
        // SAFETY: the heap is this thread's.
        let at = unsafe {
            match class {
                Some(class) => match Bin::take(Heap::bin(self.heap, class)) {
                    Some(object) => object,
                    None => self.fixture.registry.slow_malloc(self.heap, class, size),
                },
                None => large::malloc(&self.fixture.registry.backend, size, 16).0,
            }
        };
        let at = NonNull::new(at).expect("memory").as_ptr().expose_provenance();
        let mut expected = self.fixture.expected();
        assert!(expected.live.insert(at), "an object was given twice");
        expected.objects += 1;
        let object = Object { at, size, number: expected.objects };
        object.words().for_each(|word| {
            // SAFETY: a word of the object.
            unsafe { word.write(object.number) };
        });
        object
    }

    pub(super) fn free(&self, object: Object) {
        object.check();
        assert!(self.fixture.expected().live.remove(&object.at), "a test frees an object once");
        // SAFETY: the heap is this thread's, and nothing uses the object any more.
        unsafe {
            let at = from_caller(std::ptr::without_provenance(object.at));
            if !Heap::quick_free(self.heap, at) {
                self.fixture.registry.slow_free(self.heap, at);
            }
        }
    }

    /// Gives memory back to the kernel.
    pub(super) fn release(&self) {
        self.fixture.registry.release(Some(self.heap));
    }

    /// Ends the thread.
    pub(super) fn end(self) {
        assert!(self.fixture.expected().busy.remove(&(self.heap.expose_provenance())));
        // SAFETY: the heap of this thread, which ends.
        unsafe { self.fixture.registry.abandon(self.heap) };
    }
}

impl Object {
    /// Fails unless the contents are the object's number.
    pub(super) fn check(&self) {
        for word in self.words() {
            // SAFETY: a word of the object.
            assert_eq!(unsafe { word.read() }, self.number, "foreign words in object {:#x}", self.at);
        }
    }

    /// Returns some words: at both ends, and a few between.
    fn words(&self) -> impl Iterator<Item = *mut usize> {
        let last = self.size / size_of::<usize>() - 1;
        [0, 1, 2, last / 3, last / 2, last - 1, last]
            .map(|word| std::ptr::with_exposed_provenance_mut(self.at + word * size_of::<usize>()))
            .into_iter()
    }
}
