//! Write-behind: large writes of new blocks bypass the resident blocks on their way to the device.
//!
//! A page that the host must find and clear costs more than writing a block, and a program that writes a
//! large file seldom reads it at once. So the store copies newly allocated blocks into one of a few buffers,
//! whose pages stay in memory, and a helper thread writes them from there. Until the device has them, their
//! state is [`FETCHING`](crate::memory::state::FETCHING): a thread that needs one waits as for a fetch, and then fetches it. No writer waits
//! for a buffer: where all are in use, it writes into frames.
//!
//! A commit waits until all pieces that were submitted before it are written, and flushes them with the other
//! file data.

use crate::device::{IoBuf, Write};
use crate::memory::dirty::Dirty;
use crate::memory::state::{ABSENT, DATA, FREE, ONCE};
use crate::store::Store;
use crate::store::write_queue::{PIECE_BYTES, QueuedWrite};
use crate::transaction::tx::Tx;
use crate::vocabulary::fault::Fault;
use lanefs_format::BLOCK;
use lanefs_sync::size;
use std::sync::atomic::Ordering;

/// Least length of a write in bytes (128 KiB). Blocks of shorter writes are worth keeping in memory.
const LEAST_BYTES: usize = size(32, 1) * BLOCK as usize;

impl Tx<'_> {
    /// Writes whole blocks of file data that this transaction allocated, as [`write_data`](Tx::write_data).
    ///
    /// # Errors
    /// As [`write_data`](Tx::write_data).
    pub fn write_new_data(&mut self, at: u64, data: &[u8], summed: bool) -> Result<(), Fault> {
        let (reader, log) = self.parts();
        let store = reader.store();
        store.check_changeable()?;
        store.inside(at, data.len())?;
        store.hold_sums(at / BLOCK..(at + data.len() as u64).div_ceil(BLOCK), summed, log)?;
        for (number, piece) in (0..).zip(data.chunks(PIECE_BYTES)) {
            let at = at + number * PIECE_BYTES as u64;
            if !store.submit_behind(at, piece)? {
                self.write_data(at, piece, summed)?;
            }
        }
        Ok(())
    }
}

impl Store {
    /// Submits new blocks to the helper, with their checksums: a snapshot may come before the helper writes
    /// them. Returns false, having done nothing, where they must be written into frames.
    fn submit_behind(&self, at: u64, data: &[u8]) -> Result<bool, Fault> {
        let is_whole = at.is_multiple_of(BLOCK) && data.len().is_multiple_of(BLOCK as usize);
        if self.is_memory() || !is_whole || data.len() < LEAST_BYTES {
            return Ok(false);
        }
        let Some(mut buffer) = self.write_queue.take_buffer(data.len()) else { return Ok(false) };
        buffer.copy_from_slice(data);
        let piece = QueuedWrite { first: at / BLOCK, data: buffer };
        // The frames are there in case the write fails.
        let claim = |index: u64| {
            self.may_hold_data(index)
                && [ABSENT, FREE].iter().any(|free| self.claim_frame(index, *free) == Ok(true))
        };
        if let Some(taken) = piece.blocks().find(|index| !claim(*index)) {
            // A stale attempt is fetching the block, or the block is being evicted; or it cannot hold data.
            (piece.first..taken).for_each(|index| self.finish_fetch(index, ABSENT, Ok(())));
            self.write_queue.put_back(piece.data);
            return Ok(false);
        }
        // The blocks are claimed, so no thread compares them with these checksums before they are written.
        let summed = self.sum_new(piece.first, &piece.data);
        self.write_queue.submit(piece);
        summed.map(|()| true)
    }

    /// Has `start` start a thread that [writes behind](Self::write_behind) when there is something to write;
    /// it returns false where it could not.
    pub fn write_behind_by(&self, start: impl FnOnce() -> bool + Send + 'static) {
        self.write_queue.set_helper(start);
    }

    /// Writes behind until [`stop_writing_behind`](Self::stop_writing_behind), in a thread of its own.
    /// Without such a thread nothing is written behind.
    pub fn write_behind(&self) {
        while let Some(pieces) = self.write_queue.next() {
            self.write_pieces(&pieces);
            self.write_queue.written(pieces);
        }
    }

    /// Ends [`write_behind`](Self::write_behind) once all submitted pieces are written. No thread changes
    /// anything any more.
    pub fn stop_writing_behind(&self) {
        self.write_queue.stop();
    }

    fn write_pieces(&self, pieces: &[QueuedWrite]) {
        let requests: Vec<Write<'_>> = pieces
            .iter()
            .map(|piece| Write { at: piece.first * BLOCK, data: IoBuf::new(&piece.data) })
            .collect();
        let written = self.write_data_to_device(&requests).is_ok();
        for piece in pieces {
            for (index, data) in piece.blocks().zip(piece.data.chunks_exact(BLOCK as usize)) {
                if written {
                    self.finish_fetch(index, ABSENT, Ok(()));
                } else {
                    // As other data that could not be written, the block stays in memory and can be read.
                    self.frame(index * BLOCK, BLOCK).copy_from(data);
                    self.dirty(index).store(Dirty::CHANGED, Ordering::SeqCst);
                    self.cache.add(index, 1);
                    self.finish_fetch(index, DATA | ONCE, Ok(()));
                }
            }
        }
    }
}
