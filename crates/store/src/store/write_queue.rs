//! The queue of write-behind: buffers of new data on their way to the device (see [`behind`](crate::writing::behind)).

use crate::journal::AlignedBuffer;
use crate::vocabulary::planted;
use lanefs_format::BLOCK;
use lanefs_sync::{Condvar, Mutex, size};
use std::ops::Range;

/// Bytes of a buffer: 1 MiB.
pub(crate) const PIECE_BYTES: usize = size(256, 1) * BLOCK as usize;

/// Most buffers of a volume. Each is allocated when it is first needed.
const BUFFERS: usize = size(16, 1);

/// Consecutive new blocks.
pub(crate) struct QueuedWrite {
    pub(crate) first: u64,
    pub(crate) data: AlignedBuffer,
}

impl QueuedWrite {
    pub(crate) fn blocks(&self) -> Range<u64> {
        self.first..self.first + self.data.len() as u64 / BLOCK
    }
}

/// Starts the helper of a queue; false where the host has no thread for it.
type StartWriter = Box<dyn FnOnce() -> bool + Send>;

#[derive(Default)]
struct Queue {
    /// Starts the helper. It is called when there is something to write.
    start: Option<StartWriter>,
    /// A helper thread writes what is submitted.
    is_served: bool,
    /// The helper is to end.
    stop: bool,
    waiting: Vec<QueuedWrite>,
    idle: Vec<AlignedBuffer>,
    /// Number of buffers, idle or not.
    buffers: usize,
    /// Number of pieces submitted so far.
    submitted: u64,
    /// Number of pieces written so far, in the order in which they were submitted.
    written: u64,
}

/// The queue between writers and the helper that writes behind.
#[derive(Default)]
pub(crate) struct WriteQueue {
    queue: Mutex<Queue>,
    changed: Condvar,
}

impl WriteQueue {
    /// Sets the function that starts the helper; it is called when there is something to write.
    pub(crate) fn set_helper(&self, start: impl FnOnce() -> bool + Send + 'static) {
        self.queue.lock().start = Some(Box::new(start));
    }

    /// Takes a buffer of `len` bytes; `None` where all are in use, or no helper serves the queue.
    pub(crate) fn take_buffer(&self, len: usize) -> Option<AlignedBuffer> {
        let mut queue = self.queue.lock();
        if let Some(start) = queue.start.take() {
            queue.is_served = start();
        }
        if !queue.is_served {
            return None;
        }
        let mut buffer = match queue.idle.pop() {
            Some(buffer) => buffer,
            None if queue.buffers < BUFFERS => {
                queue.buffers += 1;
                AlignedBuffer::zeroed(PIECE_BYTES)
            }
            None => return None,
        };
        drop(queue);
        buffer.reuse(len);
        Some(buffer)
    }

    /// Puts a buffer back that was not submitted.
    pub(crate) fn put_back(&self, buffer: AlignedBuffer) {
        let mut queue = self.queue.lock();
        queue.idle.push(buffer);
        debug_assert!(queue.idle.len() <= queue.buffers);
    }

    /// Submits a piece to the helper.
    pub(crate) fn submit(&self, piece: QueuedWrite) {
        assert!(piece.data.len().is_multiple_of(BLOCK as usize) && !piece.data.is_empty(), "part of a block");
        let mut queue = self.queue.lock();
        queue.waiting.push(piece);
        queue.submitted += 1;
        self.changed.notify_all();
    }

    /// Waits for pieces and takes them; `None` once the helper is to end and all pieces are written. The
    /// caller is the helper.
    pub(crate) fn next(&self) -> Option<Vec<QueuedWrite>> {
        let mut queue = self.queue.lock();
        queue.is_served = true;
        while queue.waiting.is_empty() {
            if queue.stop {
                queue.is_served = false;
                return None;
            }
            self.changed.wait(&mut queue);
        }
        Some(std::mem::take(&mut queue.waiting))
    }

    /// Reports pieces as written, and keeps their buffers.
    pub(crate) fn written(&self, pieces: Vec<QueuedWrite>) {
        let mut queue = self.queue.lock();
        queue.written += pieces.len() as u64;
        queue.idle.extend(pieces.into_iter().map(|piece| piece.data));
        debug_assert!(queue.written <= queue.submitted);
        debug_assert!(queue.idle.len() <= queue.buffers && queue.buffers <= BUFFERS);
        self.changed.notify_all();
    }

    /// Has the helper end once all pieces are written.
    pub(crate) fn stop(&self) {
        let mut queue = self.queue.lock();
        queue.start = None;
        queue.stop = true;
        drop(queue);
        self.changed.notify_all();
    }

    /// Waits until all pieces that were submitted before this call are written.
    pub(crate) fn wait_until_written(&self) {
        let mut queue = self.queue.lock();
        let wanted = queue.submitted;
        while queue.written < wanted && !planted::is(planted::Bug::CommitBeforeWriteBehind) {
            self.changed.wait(&mut queue);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU32, Ordering};

    #[test]
    fn the_helper_starts_with_the_first_buffer_and_once() {
        for has_thread in [true, false] {
            let (queue, started) = (WriteQueue::default(), Arc::new(AtomicU32::new(0)));
            let count = Arc::clone(&started);
            queue.set_helper(move || {
                count.fetch_add(1, Ordering::Relaxed);
                has_thread
            });
            assert_eq!(started.load(Ordering::Relaxed), 0, "nothing to write");
            for _ in 0..2 {
                assert_eq!(queue.take_buffer(BLOCK as usize).is_some(), has_thread);
                assert_eq!(started.load(Ordering::Relaxed), 1);
            }
        }
    }

    #[test]
    fn a_queue_that_ended_starts_no_helper() {
        let queue = WriteQueue::default();
        queue.set_helper(|| true);
        queue.stop();
        assert!(queue.take_buffer(BLOCK as usize).is_none());
    }
}
