//! Heaps: the bins of one thread, and the inbox to which other threads add.
//!
//! | module | |
//! |---|---|
//! | `slow` | allocation from slabs, frees that are not quick |
//! | `upkeep` | objects and memory that a heap gives back |

mod slow;
mod upkeep;

use crate::checking::checks::Checks;
use crate::frees::inbox::Inbox;
use crate::frees::outbox::Outbox;
use crate::host::os;
use crate::memory::backend::Backend;
use crate::policy::{Layers, Magazine};
use crate::slabs::bin::Bin;
use crate::slabs::class::{C_WORDS, CLASSES, MAGAZINE_TOTAL, SIZES, magazine_capacity};
use crate::slabs::header::unit_of;
use crate::stats::Stats;
use std::cell::UnsafeCell;
use std::mem::offset_of;
use std::ptr::{NonNull, null_mut};

const WORDS: usize = C_WORDS.len();

/// Bytes of a heap with its magazines.
const BYTES: usize =
    (size_of::<Heap>() + MAGAZINE_TOTAL * size_of::<*mut u8>()).next_multiple_of(os::PAGE_BYTES);

/// A heap. It is never freed: the heap of a thread that has ended goes to the next thread that begins.
///
/// Threads use it through a raw pointer, because other threads add to the inbox at any time.
#[repr(C)]
pub(crate) struct Heap {
    /// The inbox, whose address is the heap's, and names the heap in headers.
    inbox: Inbox,
    own: UnsafeCell<Own>,
}

const _: () = assert!(offset_of!(Heap, inbox) == 0, "heap and inbox have one address");
const _: () = assert!(size_of::<Heap>().is_multiple_of(align_of::<*mut u8>()), "magazines follow a heap");

// SAFETY: the inbox is for all threads; only the thread that has the heap uses `own`.
unsafe impl Sync for Heap {}

/// The part of a heap that only its thread uses.
#[repr(C)]
pub(crate) struct Own {
    bins: [Bin; CLASSES],
    /// Bin by size in words, for the alignment of C: one table instead of two.
    bin_for_words: [*mut Bin; WORDS],
    /// None in [`NO_HEAP`].
    backend: Option<&'static Backend>,
    outbox: Outbox,
    last_tidy: u64,
    has_tidied: bool,
    /// An empty unit, for the next slab.
    spare: Option<NonNull<u8>>,
    /// The next heap in a list of abandoned ones, and whether this one is in such a list.
    pub(crate) next_abandoned: *mut Heap,
    pub(crate) is_abandoned: bool,
    pub(crate) stats: Stats,
}

/// An empty bin, for all classes of [`NO_HEAP`].
static NO_BIN: EmptyBin = EmptyBin(Bin::new(1, Layers::none()));

struct EmptyBin(Bin);

// SAFETY: a bin that is empty and has no capacity is only read.
unsafe impl Sync for EmptyBin {}

/// The heap of a thread that has none yet. It is always empty, and only read.
pub(crate) static NO_HEAP: Heap = Heap {
    inbox: Inbox::new(),
    own: UnsafeCell::new(Own {
        bins: [const { Bin::new(1, Layers::none()) }; CLASSES],
        bin_for_words: [(&raw const NO_BIN.0).cast_mut(); WORDS],
        backend: None,
        outbox: Outbox::new(),
        last_tidy: 0,
        has_tidied: false,
        spare: None,
        next_abandoned: null_mut(),
        is_abandoned: false,
        stats: Stats::NONE,
    }),
};

impl Heap {
    /// Creates a heap; null without memory.
    pub(crate) fn create(backend: &'static Backend) -> *mut Heap {
        let Some(memory) = os::map(BYTES, os::PAGE_BYTES) else { return null_mut() };
        let heap = memory.cast::<Heap>().as_ptr();
        let with_magazines = backend.checks() != Checks::Full;
        // SAFETY: fresh memory, which is long enough for the heap and its magazines.
        unsafe {
            let mut room = memory.add(size_of::<Heap>()).cast::<*mut u8>();
            let mut class = 0;
            let bins = [(); CLASSES].map(|()| {
                let mut layers = Layers::none();
                if with_magazines {
                    layers.magazine = Magazine::over(room, magazine_capacity(class));
                    room = room.add(magazine_capacity(class));
                }
                class += 1;
                Bin::new(SIZES[class - 1] as usize, layers)
            });
            heap.write(Heap {
                inbox: Inbox::new(),
                own: UnsafeCell::new(Own {
                    bins,
                    bin_for_words: C_WORDS.map(|class| Self::bin(heap, usize::from(class))),
                    backend: Some(backend),
                    outbox: Outbox::new(),
                    last_tidy: 0,
                    has_tidied: false,
                    spare: None,
                    next_abandoned: null_mut(),
                    is_abandoned: false,
                    stats: Stats::NONE,
                }),
            });
        }
        heap
    }

    /// Frees a heap. Only for tests, which create so many that they would fill the machine.
    ///
    /// # Safety
    /// It was [created](Self::create), no thread has it, and no object of it is in use.
    #[cfg(all(test, feature = "_shuttle"))]
    pub(crate) unsafe fn destroy(heap: *mut Heap) {
        let Some(memory) = NonNull::new(heap) else { return };
        // SAFETY: the caller's promise.
        unsafe { os::unmap(memory.cast(), BYTES, os::PAGE_BYTES) };
    }

    /// Returns the thread's own part, for a heap or [`NO_HEAP`].
    #[inline(always)]
    fn own_ptr(heap: *mut Heap) -> *mut Own {
        heap.cast::<u8>().wrapping_add(offset_of!(Heap, own)).cast()
    }

    /// Returns the thread's own part.
    ///
    /// # Safety
    /// The heap is not [`NO_HEAP`]. The caller is its thread, or no thread has it, and no other such
    /// reference is used.
    #[inline(always)]
    pub(crate) unsafe fn own<'h>(heap: *mut Heap) -> &'h mut Own {
        // SAFETY: the caller's promise.
        unsafe { &mut *Self::own_ptr(heap) }
    }

    /// Returns the inbox.
    ///
    /// # Safety
    /// It is a heap; heaps are never freed.
    pub(crate) unsafe fn inbox<'h>(heap: *mut Heap) -> &'h Inbox {
        // SAFETY: the caller's promise.
        unsafe { &(*heap).inbox }
    }

    /// Returns the bin for a size in words, with the alignment of C.
    ///
    /// # Safety
    /// The words are those of a size up to [`TINY_BYTES`](crate::slabs::class::TINY_BYTES).
    #[inline(always)]
    pub(crate) unsafe fn bin_for_words(heap: *mut Heap, words: usize) -> *mut Bin {
        // SAFETY: the caller's promise; this table does not change.
        unsafe { (&raw const (*Self::own_ptr(heap)).bin_for_words).cast::<*mut Bin>().add(words).read() }
    }

    /// Returns the bin of a class.
    ///
    /// # Safety
    /// The class exists.
    #[inline(always)]
    pub(crate) unsafe fn bin(heap: *mut Heap, class: usize) -> *mut Bin {
        // SAFETY: the caller's promise.
        unsafe { (&raw mut (*Self::own_ptr(heap)).bins).cast::<Bin>().add(class) }
    }

    /// Frees an object in the frequent case: it is of this heap, and the magazine has room. Else returns
    /// false.
    ///
    /// # Safety
    /// `heap` is that of the calling thread, or [`NO_HEAP`]; nothing uses the object any more.
    #[inline(always)]
    pub(crate) unsafe fn quick_free(heap: *mut Heap, object: *mut u8) -> bool {
        // SAFETY: an object has a header; a slab of this heap changes only through this thread.
        unsafe {
            let header = unit_of(object).as_ref();
            header.owner() == heap.cast_const().cast()
                && Magazine::put_into(&raw mut (*header.layers).magazine, object)
        }
    }
}
