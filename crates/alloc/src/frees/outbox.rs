//! Objects that a thread freed for another heap, until it sends them.

use super::inbox::Inbox;
use crate::host::message::debug_assert_state;
use crate::planted::PlantedBug;
use lanefs_sync::{is_planted, size};
use std::ptr::null;

/// Objects that are sent at once.
const BATCH_OBJECTS: usize = size(32, 3);

const _: () = assert!(BATCH_OBJECTS <= super::ring::CAPACITY, "an empty ring has room for a batch");

/// A batch of objects for one heap.
pub(crate) struct Outbox {
    to: *const Inbox,
    count: usize,
    objects: [*mut u8; BATCH_OBJECTS],
}

impl Outbox {
    pub(crate) const fn new() -> Self {
        Outbox { to: null(), count: 0, objects: [std::ptr::null_mut(); BATCH_OBJECTS] }
    }

    /// Adds an object. It is sent with the batch: when that is full, or an object for another heap comes.
    ///
    /// # Safety
    /// The object is one of the inbox's heap, and nothing uses it any more.
    pub(crate) unsafe fn put(&mut self, object: *mut u8, to: *const Inbox) {
        if self.to != to {
            self.flush();
            self.to = to;
        }
        debug_assert_state!(self.count < BATCH_OBJECTS, "a full batch is sent at once");
        if let Some(slot) = self.objects.get_mut(self.count) {
            *slot = object;
        }
        self.count += usize::from(!is_planted(PlantedBug::Miscount) || self.count > 0);
        if self.count == BATCH_OBJECTS {
            self.flush();
        }
    }

    /// Sends the batch.
    pub(crate) fn flush(&mut self) {
        let count = std::mem::take(&mut self.count);
        if let Some(objects) = self.objects.get(..count).filter(|objects| !objects.is_empty()) {
            // SAFETY: nothing else uses the objects, and a heap is never freed.
            unsafe { (*self.to).add(objects) };
        }
    }
}
