//! A value that each process has for itself.
//!
//! After a fork the child has a copy of its parent's memory: locks that threads held which do not exist in
//! the child, and files that are the parent's. So it never touches a value of its parent, and gets one of its
//! own.

use std::ptr::null_mut;
use std::sync::atomic::{AtomicPtr, Ordering};

/// A value for each process.
pub(crate) struct PerProcess<T> {
    /// The value of the process that used it last; null at first.
    current: AtomicPtr<OfProcess<T>>,
}

struct OfProcess<T> {
    pid: u32,
    value: T,
}

impl<T> PerProcess<T> {
    /// A value that is made at its first use.
    pub(crate) const fn new() -> Self {
        PerProcess { current: AtomicPtr::new(null_mut()) }
    }

    /// Returns the value of this process; `make` makes it, which may happen in two threads at once.
    pub(crate) fn get(&self, make: impl Fn() -> T) -> &T {
        let pid = std::process::id();
        loop {
            let current = self.current.load(Ordering::Acquire);
            // SAFETY: the pointer is null or comes from a box. The box of a value that was current is freed
            // by `drop` only, which nobody can call while this reference lives.
            if let Some(owned) = unsafe { current.as_ref() }
                && owned.pid == pid
            {
                return &owned.value;
            }
            // This process is new to the value. That of the parent is leaked: a lock of it may be held by a
            // thread that does not exist here, and its end would reach into the parent's files.
            let new = Box::into_raw(Box::new(OfProcess { pid, value: make() }));
            if self.current.compare_exchange(current, new, Ordering::AcqRel, Ordering::Acquire).is_err() {
                // SAFETY: no other thread has seen this pointer.
                drop(unsafe { Box::from_raw(new) });
            }
        }
    }
}

impl<T> Drop for PerProcess<T> {
    fn drop(&mut self) {
        let current = *self.current.get_mut();
        // SAFETY: as in `get`.
        if unsafe { current.as_ref() }.is_some_and(|owned| owned.pid == std::process::id()) {
            // SAFETY: no reference to the value is left, and only this process frees its own.
            drop(unsafe { Box::from_raw(current) });
        }
    }
}
