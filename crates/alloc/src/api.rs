//! The heap as functions, and as Rust's global allocator.

use crate::checking::checks::Checks;
use crate::checking::{guard, misuse};
use crate::heap::Heap;
use crate::slabs::bin::Bin;
use crate::slabs::class::{self, C_WORDS, LARGEST, TINY_BYTES, WORDS};
use crate::slabs::header::{from_caller, unit_of};
use crate::slabs::large;
use crate::stats::Stats;
use crate::threads::thread::{REGISTRY, attach, heap, own_heap};
use std::alloc::{GlobalAlloc, Layout};
use std::ptr::null_mut;

/// Alignment of an object of C, if it is larger than a word.
const C_ALIGN: usize = 16;

/// The heap as Rust's global allocator.
///
/// ```
/// #[global_allocator]
/// static HEAP: lanefs_alloc::LaneAlloc = lanefs_alloc::LaneAlloc;
///
/// assert_eq!((0..1000).map(|i| Box::new(i)).map(|i| *i).sum::<i32>(), 499_500);
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct LaneAlloc;

/// Allocates `size` bytes, aligned to 16 if there are more than 8, else to 8. Returns null without memory,
/// with `ENOMEM` in `errno`.
#[inline(always)]
pub fn malloc(size: usize) -> *mut u8 {
    if size > TINY_BYTES {
        return malloc_middle(size);
    }
    // SAFETY: the words of a size up to `TINY_BYTES`; the bin is one of the thread's heap, or the empty one.
    let object = unsafe { take(Heap::bin_for_words(heap(), size.div_ceil(8))) };
    object.unwrap_or_else(|| refill(size))
}

/// # Safety
/// As [`Bin::take`].
#[inline(always)]
unsafe fn take(bin: *mut Bin) -> Option<*mut u8> {
    // SAFETY: the caller's promise.
    unsafe {
        #[cfg(feature = "stats")]
        let was_empty = (*bin).layers.magazine.is_empty();
        let object = Bin::take(bin);
        #[cfg(feature = "stats")]
        if object.is_some() {
            let stats = &mut Heap::own(heap()).stats;
            *(if was_empty { &mut stats.bump_hits } else { &mut stats.magazine_hits }) += 1;
        }
        object
    }
}

#[inline(always)]
fn malloc_class(class: usize, size: usize) -> *mut u8 {
    // SAFETY: as in `malloc`.
    let object = unsafe { take(Heap::bin(heap(), class)) };
    object.unwrap_or_else(|| slow_malloc(class, size))
}

// Functions for empty layers have C's calling convention, which does not unwind, so the quick path can jump
// to them.
#[cold]
extern "C" fn refill(size: usize) -> *mut u8 {
    slow_malloc(usize::from(C_WORDS[size.div_ceil(8)]), size)
}

#[cold]
#[inline(never)]
extern "C" fn slow_malloc(class: usize, size: usize) -> *mut u8 {
    let own = own_heap().unwrap_or_else(attach);
    if own.is_null() {
        return no_memory();
    }
    // SAFETY: the thread's own.
    let object = unsafe { REGISTRY.slow_malloc(own, class, size) };
    if object.is_null() { no_memory() } else { object }
}

#[cold]
fn no_memory() -> *mut u8 {
    // SAFETY: a word of this thread.
    unsafe { *libc::__errno_location() = libc::ENOMEM };
    null_mut()
}

#[inline(never)]
extern "C" fn malloc_middle(size: usize) -> *mut u8 {
    if size <= LARGEST { malloc_class(class::middle(size), size) } else { malloc_large(size, C_ALIGN).0 }
}

fn malloc_large(size: usize, align: usize) -> (*mut u8, bool) {
    let (object, is_zero) = large::malloc(&REGISTRY.backend, size, align);
    (if object.is_null() { no_memory() } else { object }, is_zero)
}

/// Allocates `size` bytes at a multiple of `align`, a power of two. Returns null without memory.
#[inline(never)]
pub fn malloc_aligned(size: usize, align: usize) -> *mut u8 {
    match class::aligned(size, align) {
        Some(class) => malloc_class(class, size),
        None => malloc_large(size, align).0,
    }
}

/// Allocates `size` bytes, all zero, with the alignment of [`malloc`].
#[inline(always)]
pub fn calloc(size: usize) -> *mut u8 {
    if size > LARGEST {
        return calloc_large(size, C_ALIGN);
    }
    let object = malloc(size);
    if !object.is_null() {
        // SAFETY: an object of this size.
        unsafe { object.write_bytes(0, size) };
    }
    object
}

#[cold]
fn calloc_large(size: usize, align: usize) -> *mut u8 {
    let (object, is_zero) = malloc_large(size, align);
    if !object.is_null() && !is_zero {
        // SAFETY: an object of this size.
        unsafe { object.write_bytes(0, size) };
    }
    object
}

/// Frees an object. Does nothing for null.
///
/// # Safety
/// The object came from this heap, in this process, and was not freed since.
#[inline(always)]
pub unsafe fn free(object: *mut u8) {
    if object.is_null() {
        return;
    }
    let object = from_caller(object);
    // SAFETY: the thread's heap, and the caller's promise.
    unsafe {
        if !Heap::quick_free(heap(), object) {
            slow_free(object);
        }
    }
}

#[cold]
#[inline(never)]
unsafe extern "C" fn slow_free(object: *mut u8) {
    // SAFETY: as of `free`.
    unsafe { REGISTRY.slow_free(heap(), object) };
}

/// Returns the bytes that the program may write to an object: those it asked for at least. 0 for null.
///
/// # Safety
/// As [`free`].
pub unsafe fn usable_size(object: *const u8) -> usize {
    if object.is_null() {
        return 0;
    }
    let object = from_caller(object);
    // SAFETY: an object in use has a header.
    let header = unsafe { unit_of(object).as_ref() };
    let checks = REGISTRY.backend.checks();
    if checks != Checks::Off && !header.is_sound() {
        misuse::not_an_object(object);
    }
    if checks == Checks::Full && header.units == 0 {
        // SAFETY: in this grade objects of slabs have guard bytes.
        return unsafe { guard::requested_size(object, header.size) };
    }
    header.size
}

/// Resizes an object to `size` bytes and keeps its contents, as far as they fit. The object stays where it is
/// if it has room and less than half of it would be unused. Returns null without memory; the object is then
/// unchanged. For null as [`malloc`].
///
/// # Safety
/// As [`free`].
pub unsafe fn realloc(object: *mut u8, size: usize) -> *mut u8 {
    if object.is_null() {
        return malloc(size);
    }
    // SAFETY: the caller's promise.
    unsafe { resize(object, size, || malloc(size)) }
}

/// # Safety
/// As [`free`]; `allocate` returns `size` bytes.
#[inline(always)]
unsafe fn resize(object: *mut u8, size: usize, allocate: impl FnOnce() -> *mut u8) -> *mut u8 {
    // SAFETY: the caller's promise.
    unsafe {
        let room = usable_size(object);
        if size <= room && size >= room / 2 && REGISTRY.backend.checks() != Checks::Full {
            // (The caller's pointer may be good for fewer bytes.)
            return from_caller(object);
        }
        let new = allocate();
        if !new.is_null() {
            new.copy_from_nonoverlapping(from_caller(object), size.min(room));
            free(object);
        }
        new
    }
}

// SAFETY: an object is as large and as aligned as the layout says, and exclusive to its user until it is
// freed.
unsafe impl GlobalAlloc for LaneAlloc {
    #[inline(always)]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let (size, align) = (layout.size(), layout.align());
        if size <= TINY_BYTES && align <= 8 {
            return malloc_class(usize::from(WORDS[size.div_ceil(8)]), size);
        }
        if align <= C_ALIGN { malloc(size.max(align)) } else { malloc_aligned(size, align) }
    }

    #[inline(always)]
    unsafe fn dealloc(&self, object: *mut u8, _layout: Layout) {
        // SAFETY: the caller's promise.
        unsafe { free(object) };
    }

    #[inline(always)]
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        if layout.size() > LARGEST {
            return calloc_large(layout.size(), layout.align().max(C_ALIGN));
        }
        // SAFETY: the caller's layout; an object of its size.
        unsafe {
            let object = self.alloc(layout);
            if !object.is_null() {
                object.write_bytes(0, layout.size());
            }
            object
        }
    }

    #[inline(always)]
    unsafe fn realloc(&self, object: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // SAFETY: the caller's promise; the size is one that a layout may have.
        unsafe {
            resize(object, size, || self.alloc(Layout::from_size_align_unchecked(size, layout.align())))
        }
    }
}

impl LaneAlloc {
    /// Gives memory in which no object lies back to the kernel: of this thread's heap, of heaps of threads
    /// that have ended, and of units that are kept for the next large object.
    pub fn release(&self) {
        REGISTRY.release(own_heap());
    }

    /// Returns the counters of this thread's heap. They include those of earlier threads that had this heap.
    pub fn stats(&self) -> Stats {
        // SAFETY: the thread's own.
        own_heap().map_or(Stats::NONE, |own| unsafe { Heap::own(own) }.stats)
    }

    /// Returns the grade of checks. `LANEFS_ALLOC_CHECKS` (`off`, `cheap`, `full`) in the environment sets it
    /// when the program starts; it cannot change later, because objects of a lower grade have no guard bytes.
    pub fn checks(&self) -> Checks {
        REGISTRY.backend.checks()
    }
}
