//! snmalloc to preload.

use forward::c_void;
use snmalloc_sys::{sn_calloc, sn_free, sn_malloc, sn_malloc_usable_size, sn_realloc};

unsafe extern "C" {
    fn sn_memalign(alignment: usize, size: usize) -> *mut c_void;
}

forward::forward!(sn_malloc, sn_calloc, sn_realloc, sn_free, sn_memalign, sn_malloc_usable_size);
