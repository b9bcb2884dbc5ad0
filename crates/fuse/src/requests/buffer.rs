//! Read buffers.

use crate::kernel::MAX_WRITE_BYTES;
use std::cell::RefCell;

thread_local! {
    /// Read buffer of the thread, which serves one request at a time.
    static BUFFER: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// Calls `work` with a buffer of `size` bytes, or of [`MAX_WRITE_BYTES`] where the kernel asks for more than
/// it may.
pub(crate) fn with_buffer<T>(size: u32, work: impl FnOnce(&mut [u8]) -> T) -> T {
    let size = size.min(MAX_WRITE_BYTES) as usize;
    BUFFER.with_borrow_mut(|buffer| {
        if buffer.len() < size {
            buffer.resize(size, 0);
        }
        let (used, _) = buffer.split_at_mut(size);
        work(used)
    })
}
