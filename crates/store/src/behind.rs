//! Writing behind: large writes of new blocks go to the device past the resident ones.
//!
//! A page that the host must find and clear costs more than writing a block, and who writes a large file seldom reads it at once. So
//! blocks that nobody had before are copied into one of a few buffers, whose pages stay, and a helper writes them from there. Until
//! they are on the device their state is [`FETCHING`]: whoever wants one waits as if it were coming in, and then has it
//! fetched. Nobody waits for a buffer: where all are in use, a write goes the ordinary way.
//!
//! A commit waits until all that was handed over before it is written, and flushes it with the other file data.

use crate::journal::AlignedBuffer;
use crate::planted;
use crate::state::{ABSENT, DATA, FETCHING, FREE, ONCE};
use crate::store::Dirt;
use crate::{Fault, IoBuf, Store, Tx, Write};
use lanefs_format::BLOCK;
use lanefs_sync::{Condvar, Mutex, size};
use std::ops::Range;
use std::sync::atomic::Ordering;

/// Shorter writes (in bytes, 128 KiB) are worth keeping.
const LEAST: usize = size(32, 1) * BLOCK as usize;

/// Bytes of a buffer: 1 MiB.
const PIECE: usize = size(256, 1) * BLOCK as usize;

/// Most buffers of a volume. They are made when they are first wanted.
const BUFFERS: usize = size(16, 1);

/// New blocks that follow each other, on their way to the device.
struct Piece {
    first: u64,
    data: AlignedBuffer,
}

impl Piece {
    fn blocks(&self) -> Range<u64> {
        self.first..self.first + self.data.len() as u64 / BLOCK
    }
}

#[derive(Default)]
struct Queue {
    /// A helper writes what is handed over.
    is_served: bool,
    /// It is to end.
    stop: bool,
    waiting: Vec<Piece>,
    idle: Vec<AlignedBuffer>,
    /// Buffers that there are, idle or not.
    buffers: usize,
    /// Pieces so far.
    handed_over: u64,
    /// Pieces of which the device has heard, in the order in which they were handed over.
    written: u64,
}

/// What is on its way.
#[derive(Default)]
pub(crate) struct Behind {
    queue: Mutex<Queue>,
    changed: Condvar,
}

impl Behind {
    fn buffer(&self, len: usize) -> Option<AlignedBuffer> {
        let mut queue = self.queue.lock();
        if !queue.is_served {
            return None;
        }
        let mut buffer = match queue.idle.pop() {
            Some(buffer) => buffer,
            None if queue.buffers < BUFFERS => {
                queue.buffers += 1;
                AlignedBuffer::zeroed(PIECE)
            }
            None => return None,
        };
        drop(queue);
        buffer.reuse(len);
        Some(buffer)
    }

    fn hand_over(&self, piece: Piece) {
        debug_assert!(piece.data.len().is_multiple_of(BLOCK as usize) && !piece.data.is_empty());
        let mut queue = self.queue.lock();
        queue.waiting.push(piece);
        queue.handed_over += 1;
        self.changed.notify_all();
    }

    /// What waits, as soon as there is something; `None` when no more will come.
    fn next(&self) -> Option<Vec<Piece>> {
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

    fn done(&self, pieces: Vec<Piece>) {
        let mut queue = self.queue.lock();
        queue.written += pieces.len() as u64;
        queue.idle.extend(pieces.into_iter().map(|piece| piece.data));
        debug_assert!(queue.written <= queue.handed_over);
        debug_assert!(queue.idle.len() <= queue.buffers && queue.buffers <= BUFFERS);
        self.changed.notify_all();
    }

    /// Waits until the device has heard of all that was handed over before this call.
    pub(crate) fn catch_up(&self) {
        let mut queue = self.queue.lock();
        let wanted = queue.handed_over;
        while queue.written < wanted && !planted::is(planted::Fault::NoCatchingUp) {
            self.changed.wait(&mut queue);
        }
    }
}

impl Tx<'_> {
    /// Writes whole blocks of file data that this transaction took out of nobody's use, as [`write_data`](Tx::write_data).
    ///
    /// # Errors
    /// As [`write_data`](Tx::write_data).
    pub fn write_new_data(&mut self, at: u64, data: &[u8]) -> Result<(), Fault> {
        let store = self.reader().store();
        store.inside(at, data.len())?;
        for (number, piece) in (0..).zip(data.chunks(PIECE)) {
            let at = at + number * PIECE as u64;
            if !store.hand_over(at, piece) {
                self.write_data(at, piece)?;
            }
        }
        Ok(())
    }
}

impl Store {
    /// Has new blocks written behind. False where that is not to be, and nothing was done.
    fn hand_over(&self, at: u64, data: &[u8]) -> bool {
        let is_whole = at.is_multiple_of(BLOCK) && data.len().is_multiple_of(BLOCK as usize);
        if self.is_memory() || !is_whole || data.len() < LEAST {
            return false;
        }
        let Some(mut buffer) = self.behind.buffer(data.len()) else { return false };
        buffer.copy_from_slice(data);
        let piece = Piece { first: at / BLOCK, data: buffer };
        let claim = |index: u64| {
            self.change_state(index, ABSENT, FETCHING) || self.change_state(index, FREE, FETCHING)
        };
        if let Some(taken) = piece.blocks().find(|index| !claim(*index)) {
            // For somebody who comes too late it is on its way in or out.
            (piece.first..taken).for_each(|index| self.finish(index, ABSENT, Ok(())));
            self.behind.queue.lock().idle.push(piece.data);
            return false;
        }
        self.behind.hand_over(piece);
        true
    }

    /// Writes behind until [told to stop](Self::stop_writing_behind): for a thread of its own. Without one nothing is written behind.
    pub fn write_behind(&self) {
        while let Some(pieces) = self.behind.next() {
            self.write_pieces(&pieces);
            self.behind.done(pieces);
        }
    }

    /// Ends [`write_behind`](Self::write_behind) when all that was handed over is written. Nobody changes anything any more.
    pub fn stop_writing_behind(&self) {
        self.behind.queue.lock().stop = true;
        self.behind.changed.notify_all();
    }

    fn write_pieces(&self, pieces: &[Piece]) {
        let requests: Vec<Write<'_>> = pieces
            .iter()
            .map(|piece| Write { at: piece.first * BLOCK, data: IoBuf::new(&piece.data) })
            .collect();
        let written = self.write_data_to_device(&requests).is_ok();
        for piece in pieces {
            for (index, data) in piece.blocks().zip(piece.data.chunks_exact(BLOCK as usize)) {
                if written {
                    self.finish(index, ABSENT, Ok(()));
                } else {
                    // As other data that could not be written it stays here and can be read.
                    self.frame(index * BLOCK, BLOCK).copy_from(data);
                    self.dirt(index).store(Dirt::CHANGED, Ordering::SeqCst);
                    self.cache.add(index, 1);
                    self.finish(index, DATA | ONCE, Ok(()));
                }
            }
        }
    }
}
