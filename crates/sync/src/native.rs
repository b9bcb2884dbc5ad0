//! The primitives of the machine.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

pub use crate::lock::{Condvar, Mutex, MutexGuard};
pub use std::sync::atomic;
pub use std::thread_local;

/// Offers the processor to other threads.
pub fn yield_now() {
    std::thread::yield_now();
}

/// Tells whether a time has come.
#[must_use]
pub fn is_past(time: Instant) -> bool {
    time <= Instant::now()
}

/// Marks a preemption point, at which the schedule explorer may switch threads. It compiles to nothing.
#[inline(always)]
pub fn point() {}

/// Returns a small number for the calling thread, the same for its whole life.
#[must_use]
pub fn thread_number() -> usize {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    std::thread_local! {
        static NUMBER: usize = NEXT.fetch_add(1, Ordering::Relaxed);
    }
    NUMBER.with(|number| *number)
}
