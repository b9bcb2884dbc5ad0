//! Standard output as this process got it.
//!
//! Before `main` Rust's runtime opens `/dev/null` in place of a standard stream that is closed, so that no
//! other file gets its number. From then on nothing tells such a stream from one that was sent to
//! `/dev/null`, and output would be lost without an error. So the state is read earlier, by a function that
//! the loader calls.

use rustix::io::{Errno, fcntl_getfd};
use std::sync::atomic::{AtomicBool, Ordering};

static IS_CLOSED: AtomicBool = AtomicBool::new(false);

/// Returns whether standard output was closed when the process began.
pub fn is_closed() -> bool {
    IS_CLOSED.load(Ordering::Relaxed)
}

// The loader calls all functions of this section, in a thread of its own process, before `main`. The function
// has their type: it takes none of the arguments that glibc passes, and musl passes none. It does not unwind,
// allocates nothing, and uses nothing that the runtime has yet to prepare: a system call and an atomic.
#[allow(unsafe_code, reason = "the section is one of functions, and this is one")]
#[used]
#[unsafe(link_section = ".init_array")]
static AT_START: extern "C" fn() = look;

extern "C" fn look() {
    let is_closed = fcntl_getfd(rustix::stdio::stdout()) == Err(Errno::BADF);
    IS_CLOSED.store(is_closed, Ordering::Relaxed);
}
