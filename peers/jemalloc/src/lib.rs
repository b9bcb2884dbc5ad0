//! jemalloc to preload.

use tikv_jemalloc_sys as jemalloc;

forward::forward!(
    jemalloc::malloc,
    jemalloc::calloc,
    jemalloc::realloc,
    jemalloc::free,
    jemalloc::aligned_alloc,
    jemalloc::malloc_usable_size
);
