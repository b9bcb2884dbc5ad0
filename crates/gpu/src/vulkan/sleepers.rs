//! Tasks that wait for submissions, and the thread that waits for them.

use lanefs_sync::lock::Mutex;
use std::task::Waker;

/// Tasks that wait for submissions of a device.
#[derive(Default)]
pub(super) struct Sleepers {
    pub(super) waiting: Mutex<Waiting>,
}

#[derive(Default)]
pub(super) struct Waiting {
    /// The submission that each waits for.
    pub(super) tasks: Vec<(u64, Waker)>,
    pub(super) has_thread: bool,
}
