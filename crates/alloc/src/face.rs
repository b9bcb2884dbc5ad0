//! The heap as functions, and as Rust's global allocator.

use crate::class::{self, C_WORDS, LARGEST, TINY, WORDS};
use crate::guard;
use crate::heap::{Heap, NO_HEAP, Stats};
use crate::large;
use crate::shelf::Bin;
use crate::slab::unit_of;
use crate::thread::{WORLD, attach, heap};
use crate::world::Checks;
use std::alloc::{GlobalAlloc, Layout};
use std::ptr::{NonNull, null_mut};

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

/// Memory for `size` bytes, aligned to 16 where that is more than 8, else to 8. Null without memory; `errno` is then `ENOMEM`.
#[inline(always)]
pub fn malloc(size: usize) -> *mut u8 {
    if size > TINY {
        return malloc_middle(size);
    }
    // SAFETY: the thread's own heap, or none, in which there is never anything.
    let object = unsafe { take(Heap::bin_for_words(heap(), size.div_ceil(8))) };
    object.map_or_else(|| refill(size), NonNull::as_ptr)
}

/// # Safety
/// The class is one of the thread's own heap, or of the one that stands for none.
#[inline(always)]
unsafe fn take(bin: *mut Bin) -> Option<NonNull<u8>> {
    // SAFETY: the caller's promise. Of the heap that stands for none it is only read.
    unsafe {
        #[cfg(feature = "stats")]
        let was_empty = (*bin).layers.magazine.is_empty();
        let object = (*bin).take();
        #[cfg(feature = "stats")]
        if object.is_some() {
            let stats = &mut (*heap()).own_mut().stats;
            *(if was_empty { &mut stats.bump_hits } else { &mut stats.magazine_hits }) += 1;
        }
        object
    }
}

#[inline(always)]
fn of_class(class: usize, size: usize) -> *mut u8 {
    // SAFETY: as in `malloc`.
    let object = unsafe { take(Heap::bin(heap(), class)) };
    object.map_or_else(|| slow(class, size), NonNull::as_ptr)
}

// What is called where the layers are empty is of C's calling convention, which does not unwind: so it can be jumped to.
#[cold]
extern "C" fn refill(size: usize) -> *mut u8 {
    slow(usize::from(C_WORDS[size.div_ceil(8)]), size)
}

#[cold]
#[inline(never)]
extern "C" fn slow(class: usize, size: usize) -> *mut u8 {
    let mut own = heap();
    if own.cast_const() == &raw const NO_HEAP {
        own = attach();
    }
    if own.is_null() {
        return no_memory();
    }
    // SAFETY: the thread's own.
    let object = unsafe { Heap::slow(own, class, size) };
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
    if size <= LARGEST { of_class(class::middle(size), size) } else { large(size, 16).0 }
}

fn large(size: usize, align: usize) -> (*mut u8, bool) {
    let (object, is_zero) = large::malloc(&WORLD, size, align);
    (if object.is_null() { no_memory() } else { object }, is_zero)
}

/// Memory for `size` bytes at a multiple of `align`, a power of two. Null without memory.
#[inline(never)]
pub fn malloc_aligned(size: usize, align: usize) -> *mut u8 {
    match class::aligned(size, align) {
        Some(class) => of_class(class, size),
        None => large(size, align).0,
    }
}

/// Memory for `size` bytes, all zero, aligned as that of [`malloc`].
#[inline(always)]
pub fn calloc(size: usize) -> *mut u8 {
    if size > LARGEST {
        return calloc_large(size, 16);
    }
    let object = malloc(size);
    if !object.is_null() {
        // SAFETY: as long as it was asked for.
        unsafe { object.write_bytes(0, size) };
    }
    object
}

#[cold]
fn calloc_large(size: usize, align: usize) -> *mut u8 {
    let (object, is_zero) = large(size, align);
    if !object.is_null() && !is_zero {
        // SAFETY: as above.
        unsafe { object.write_bytes(0, size) };
    }
    object
}

/// Frees memory; nothing happens for null.
///
/// # Safety
/// It came from this heap, in this process, and was not freed since.
#[inline(always)]
pub unsafe fn free(object: *mut u8) {
    if object.is_null() {
        return;
    }
    // SAFETY: the thread's heap, and the caller's promise.
    unsafe {
        if !Heap::quick_free(heap(), object.expose_provenance()) {
            slow_free(object);
        }
    }
}

#[cold]
#[inline(never)]
unsafe extern "C" fn slow_free(object: *mut u8) {
    // SAFETY: as of `free`.
    unsafe { Heap::slow_free(heap(), &WORLD, object.expose_provenance()) };
}

/// Bytes that may be written at an object, at least those that were asked for. 0 for null.
///
/// # Safety
/// As [`free`].
pub unsafe fn usable_size(object: *const u8) -> usize {
    if object.is_null() {
        return 0;
    }
    let address = object.expose_provenance();
    // SAFETY: an object in use has a header.
    let head = unsafe { unit_of(address).as_ref() };
    let checks = WORLD.checks();
    if checks != Checks::Off && !head.is_sound() {
        guard::not_ours(address);
    }
    if checks == Checks::Full && head.units == 0 {
        // SAFETY: the objects of slabs were dressed.
        return unsafe { guard::size_of_dressed(address, head.size) };
    }
    head.size
}

/// Memory for `size` bytes with what was in `object`, as far as it fits: the same, where that has neither too little room nor
/// twice too much. Null without memory; then `object` is as it was. For null as [`malloc`].
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
/// As [`free`]; `make` gives memory for `size` bytes.
#[inline(always)]
unsafe fn resize(object: *mut u8, size: usize, make: impl FnOnce() -> *mut u8) -> *mut u8 {
    // SAFETY: the caller's promise.
    unsafe {
        let room = usable_size(object);
        if size <= room && size >= room / 2 && WORLD.checks() != Checks::Full {
            return object;
        }
        let new = make();
        if !new.is_null() {
            new.copy_from_nonoverlapping(object, size.min(room));
            free(object);
        }
        new
    }
}

// SAFETY: objects are as large and as aligned as the layout says, and nobody else's until they are freed.
unsafe impl GlobalAlloc for LaneAlloc {
    #[inline(always)]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let (size, align) = (layout.size(), layout.align());
        if size <= TINY && align <= 8 {
            return of_class(usize::from(WORDS[size.div_ceil(8)]), size);
        }
        if align <= 16 { malloc(size.max(align)) } else { malloc_aligned(size, align) }
    }

    #[inline(always)]
    unsafe fn dealloc(&self, object: *mut u8, _layout: Layout) {
        // SAFETY: the caller's promise.
        unsafe { free(object) };
    }

    #[inline(always)]
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        if layout.size() > LARGEST {
            return calloc_large(layout.size(), layout.align().max(16));
        }
        // SAFETY: the caller's layout; the memory is as long.
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
    /// Gives memory that nothing lies in back to the host: that of this thread's heap, of threads that have ended, and what is
    /// kept for the next large object.
    pub fn release(&self) {
        let heap = heap();
        let own = (heap.cast_const() != &raw const NO_HEAP).then_some(heap);
        WORLD.release(own);
    }

    /// What happened in this thread's heap, and in that of earlier threads which it took over.
    pub fn stats(&self) -> Stats {
        // SAFETY: the thread's own.
        unsafe { (*heap()).own_mut() }.stats
    }

    /// How much is checked from now on. Only right at a program's start, before it allocates, for what was allocated
    /// with fewer checks has no margins; else set `LANEFS_ALLOC_CHECKS` (`off`, `cheap`, `full`) in the environment.
    pub fn checks(&self) -> Checks {
        WORLD.checks()
    }
}
