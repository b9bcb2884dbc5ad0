//! rpmalloc to preload.
//!
//! rpmalloc wants to hear of the end of a thread, and its own `pthread_create` sees to that where it is
//! preloaded. That of the C library in `rpmalloc-sys` is not exported, so it stands here once more (and takes
//! its place, see `build.rs`).

use forward::c_void;
use libc::{
    RTLD_NEXT, dlsym, pthread_attr_t, pthread_key_create, pthread_key_t, pthread_setspecific, pthread_t,
};
use rpmalloc_sys::{
    rpcalloc, rpfree, rpmalloc, rpmalloc_thread_initialize, rpmalloc_usable_size, rpmemalign, rprealloc,
};
use std::ffi::c_int;
use std::sync::OnceLock;

unsafe extern "C" {
    // The declaration in `rpmalloc-sys` is older than the C library in it, and lacks the argument.
    fn rpmalloc_thread_finalize(release_caches: c_int);
}

forward::forward!(rpmalloc, rpcalloc, rprealloc, rpfree, rpmemalign, rpmalloc_usable_size);

type Start = extern "C" fn(*mut c_void) -> *mut c_void;
type Create = unsafe extern "C" fn(*mut pthread_t, *const pthread_attr_t, Start, *mut c_void) -> c_int;

/// Work of a new thread.
struct Task {
    start: Start,
    argument: *mut c_void,
}

/// A key whose destructor runs at the end of a thread, after those of Rust and C++.
fn end_key() -> pthread_key_t {
    static KEY: OnceLock<pthread_key_t> = OnceLock::new();
    *KEY.get_or_init(|| {
        let mut key = 0;
        // SAFETY: the key is written, and the destructor is a function that takes its value.
        unsafe { pthread_key_create(&mut key, Some(end)) };
        key
    })
}

unsafe extern "C" fn end(_: *mut c_void) {
    // SAFETY: this thread was initialised, and allocates nothing any more.
    unsafe { rpmalloc_thread_finalize(1) };
}

extern "C" fn begin(task: *mut c_void) -> *mut c_void {
    // SAFETY: rpmalloc may be told of a thread more than once.
    unsafe { rpmalloc_thread_initialize() };
    // SAFETY: the pointer is that of `pthread_create` below, which gave the box away.
    let task = *unsafe { Box::from_raw(task.cast::<Task>()) };
    // SAFETY: the key exists; any value but null makes the destructor run.
    unsafe { pthread_setspecific(end_key(), std::ptr::dangling()) };
    (task.start)(task.argument)
}

/// As the C library's.
///
/// # Safety
/// As in C.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pthread_create(
    thread: *mut pthread_t,
    attributes: *const pthread_attr_t,
    start: Start,
    argument: *mut c_void,
) -> c_int {
    // SAFETY: the name is a string, and the next library that has it is the C library.
    let create = unsafe { dlsym(RTLD_NEXT, c"pthread_create".as_ptr()) };
    // SAFETY: the C library's function has this type.
    let create: Create = unsafe { std::mem::transmute(create) };
    let task = Box::into_raw(Box::new(Task { start, argument }));
    // SAFETY: the caller keeps to the rules of C, and `begin` takes the task over.
    let failed = unsafe { create(thread, attributes, begin, task.cast()) };
    if failed != 0 {
        // SAFETY: no thread has begun, so the task is still here alone.
        drop(unsafe { Box::from_raw(task) });
    }
    failed
}
