//! The tasks of a directory that are still to be done.

use std::sync::atomic::{AtomicUsize, Ordering};

/// The number of tasks that will still add to a directory. It begins with one.
pub(crate) struct PendingTasks(AtomicUsize);

impl PendingTasks {
    /// Counts one task, the caller's own.
    pub(crate) fn one() -> Self {
        PendingTasks(AtomicUsize::new(1))
    }

    /// Counts one more task. The caller's own task is still pending.
    pub(crate) fn add(&self) {
        let before = self.0.fetch_add(1, Ordering::Relaxed);
        debug_assert!(before > 0, "a complete directory gets no more tasks");
    }

    /// Counts one task less; true for the last one, after which the directory's content is complete.
    pub(crate) fn end(&self) -> bool {
        let before = self.0.fetch_sub(1, Ordering::AcqRel);
        debug_assert!(before > 0, "a task ends once");
        before == 1
    }
}
