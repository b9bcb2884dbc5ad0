//! mimalloc to preload.

use forward::c_void;
use libmimalloc_sys::{mi_free, mi_malloc, mi_realloc};

unsafe extern "C" {
    fn mi_calloc(count: usize, size: usize) -> *mut c_void;
    fn mi_memalign(alignment: usize, size: usize) -> *mut c_void;
    fn mi_usable_size(block: *const c_void) -> usize;
}

forward::forward!(mi_malloc, mi_calloc, mi_realloc, mi_free, mi_memalign, mi_usable_size);
