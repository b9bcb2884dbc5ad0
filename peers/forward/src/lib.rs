//! Exports an allocator under the names of the C library, so that it can be preloaded.
//!
//! The C libraries define functions of their own names, and a Rust library exports no names but Rust's: so
//! each name of the C library is a Rust function that jumps to the allocator's. That is one instruction more
//! than without.
#![no_std]

pub use core::ffi::{c_int, c_void};

/// Alignment of `valloc`, and unit to which `pvalloc` rounds up.
pub const PAGE: usize = 4096;
/// Error numbers of the C library, the same on every architecture of Linux.
pub const EINVAL: c_int = 22;
/// No memory.
pub const ENOMEM: c_int = 12;

/// Defines the names of the C library by six functions of an allocator. `$memalign` takes alignment and size.
#[macro_export]
macro_rules! forward {
    ($malloc:path, $calloc:path, $realloc:path, $free:path, $memalign:path, $usable_size:path) => {
        /// As the C library's function of this name, like all others here.
        ///
        /// # Safety
        /// As in C, like all others here.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn malloc(size: usize) -> *mut $crate::c_void {
            // SAFETY: the caller keeps to the rules of C; so below.
            unsafe { $malloc(size).cast() }
        }

        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn calloc(count: usize, size: usize) -> *mut $crate::c_void {
            // SAFETY: as above.
            unsafe { $calloc(count, size).cast() }
        }

        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn realloc(block: *mut $crate::c_void, size: usize) -> *mut $crate::c_void {
            // SAFETY: as above.
            unsafe { $realloc(block.cast(), size).cast() }
        }

        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn free(block: *mut $crate::c_void) {
            // SAFETY: as above.
            unsafe { $free(block.cast()) }
        }

        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn memalign(alignment: usize, size: usize) -> *mut $crate::c_void {
            // SAFETY: as above.
            unsafe { $memalign(alignment, size).cast() }
        }

        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn malloc_usable_size(block: *mut $crate::c_void) -> usize {
            // SAFETY: as above.
            unsafe { $usable_size(block.cast()) }
        }

        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn aligned_alloc(alignment: usize, size: usize) -> *mut $crate::c_void {
            // SAFETY: as above.
            unsafe { memalign(alignment, size) }
        }

        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn posix_memalign(
            block: *mut *mut $crate::c_void,
            alignment: usize,
            size: usize,
        ) -> $crate::c_int {
            if !alignment.is_power_of_two() || alignment % size_of::<usize>() != 0 {
                return $crate::EINVAL;
            }
            // SAFETY: as above.
            let found = unsafe { memalign(alignment, size) };
            if found.is_null() {
                return $crate::ENOMEM;
            }
            // SAFETY: the caller gives a place for the answer.
            unsafe { block.write(found) };
            0
        }

        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn reallocarray(
            block: *mut $crate::c_void,
            count: usize,
            size: usize,
        ) -> *mut $crate::c_void {
            match count.checked_mul(size) {
                // SAFETY: as above.
                Some(bytes) => unsafe { realloc(block, bytes) },
                None => core::ptr::null_mut(),
            }
        }

        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn valloc(size: usize) -> *mut $crate::c_void {
            // SAFETY: as above.
            unsafe { memalign($crate::PAGE, size) }
        }

        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn pvalloc(size: usize) -> *mut $crate::c_void {
            match size.checked_next_multiple_of($crate::PAGE) {
                // SAFETY: as above.
                Some(size) => unsafe { memalign($crate::PAGE, size) },
                None => core::ptr::null_mut(),
            }
        }
    };
}
