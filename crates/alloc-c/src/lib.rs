//! The heap of LaneFS as a C `malloc`, as a shared library that can be preloaded under any program:
//!
//! ```sh
//! LD_PRELOAD=target/release/liblanefs_alloc.so git --version
//! ```
//!
//! `LANEFS_ALLOC_CHECKS` (`off`, `cheap`, `full`) in the environment sets the grade of checks. With
//! `LANEFS_ALLOC_STATS=1` the library prints a line of counters on standard error when the process exits, but
//! not when it ends by `_exit` or by a signal. They are the counters of the thread that exits and of threads
//! that have ended.
//!
//! The functions behave as their manual pages say (malloc(3), posix_memalign(3), malloc_usable_size(3),
//! malloc_trim(3)). Neither this crate nor the heap allocates by other means, or prints through the standard
//! library.

// The manual pages state the duties of callers.
#![allow(clippy::missing_safety_doc)]

use libc::{EINVAL, ENOMEM, c_int, c_void, size_t};

/// Bytes of a page.
const PAGE_BYTES: usize = 4096;

#[cold]
fn fail(error: c_int) -> *mut c_void {
    // SAFETY: a word of this thread.
    unsafe { *libc::__errno_location() = error };
    std::ptr::null_mut()
}

/// malloc(3)
#[unsafe(no_mangle)]
pub extern "C" fn malloc(size: size_t) -> *mut c_void {
    heap::malloc(size).cast()
}

/// malloc(3)
#[unsafe(no_mangle)]
pub unsafe extern "C" fn free(object: *mut c_void) {
    // SAFETY: the manual page's conditions.
    unsafe { heap::free(object.cast()) };
}

/// malloc(3)
#[unsafe(no_mangle)]
pub extern "C" fn calloc(count: size_t, size: size_t) -> *mut c_void {
    match count.checked_mul(size) {
        Some(bytes) => heap::calloc(bytes).cast(),
        None => fail(ENOMEM),
    }
}

/// malloc(3). As in the GNU C library, a size of 0 frees the object and gives null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn realloc(object: *mut c_void, size: size_t) -> *mut c_void {
    // SAFETY: the manual page's conditions.
    unsafe {
        if size == 0 && !object.is_null() {
            heap::free(object.cast());
            return std::ptr::null_mut();
        }
        heap::realloc(object.cast(), size).cast()
    }
}

/// malloc(3)
#[unsafe(no_mangle)]
pub unsafe extern "C" fn reallocarray(object: *mut c_void, count: size_t, size: size_t) -> *mut c_void {
    match count.checked_mul(size) {
        // SAFETY: the manual page's conditions.
        Some(bytes) => unsafe { realloc(object, bytes) },
        None => fail(ENOMEM),
    }
}

/// posix_memalign(3). Returns the error, and leaves `errno` unchanged.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn posix_memalign(result: *mut *mut c_void, align: size_t, size: size_t) -> c_int {
    if !align.is_power_of_two() || !align.is_multiple_of(size_of::<*mut c_void>()) {
        return EINVAL;
    }
    // SAFETY: a word of this thread.
    let errno = unsafe { *libc::__errno_location() };
    let object = heap::malloc_aligned(size, align.max(16));
    if object.is_null() {
        fail(errno);
        return ENOMEM;
    }
    // SAFETY: the manual page's conditions.
    unsafe { *result = object.cast() };
    0
}

/// posix_memalign(3). Refuses an alignment that is not a power of two, as the GNU C library does since 2.38.
#[unsafe(no_mangle)]
pub extern "C" fn aligned_alloc(align: size_t, size: size_t) -> *mut c_void {
    if align.is_power_of_two() { memalign(align, size) } else { fail(EINVAL) }
}

/// posix_memalign(3). Rounds an alignment up to a power of two, as the GNU C library does.
#[unsafe(no_mangle)]
pub extern "C" fn memalign(align: size_t, size: size_t) -> *mut c_void {
    match align.checked_next_power_of_two() {
        Some(align) => heap::malloc_aligned(size, align.max(16)).cast(),
        None => fail(EINVAL),
    }
}

/// posix_memalign(3)
#[unsafe(no_mangle)]
pub extern "C" fn valloc(size: size_t) -> *mut c_void {
    memalign(PAGE_BYTES, size)
}

/// posix_memalign(3)
#[unsafe(no_mangle)]
pub extern "C" fn pvalloc(size: size_t) -> *mut c_void {
    match size.checked_next_multiple_of(PAGE_BYTES) {
        Some(size) => memalign(PAGE_BYTES, size),
        None => fail(ENOMEM),
    }
}

/// malloc_usable_size(3)
#[unsafe(no_mangle)]
pub unsafe extern "C" fn malloc_usable_size(object: *mut c_void) -> size_t {
    // SAFETY: the manual page's conditions.
    unsafe { heap::usable_size(object.cast()) }
}

/// malloc_trim(3). Ignores the amount to keep. Returns 1, because the heap always may have memory to give
/// back.
#[unsafe(no_mangle)]
pub extern "C" fn malloc_trim(_keep: size_t) -> c_int {
    heap::LaneAlloc.release();
    1
}

/// free_sized of C23. Ignores the size.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn free_sized(object: *mut c_void, _size: size_t) {
    // SAFETY: the caller's promise, that of `free`.
    unsafe { free(object) };
}

/// free_aligned_sized of C23. Ignores alignment and size.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn free_aligned_sized(object: *mut c_void, _align: size_t, _size: size_t) {
    // SAFETY: the caller's promise, that of `free`.
    unsafe { free(object) };
}
