//! Batches of files in the order of an epoch, read ahead.
//!
//! ```text
//!  order ── find: size and inode of each file ── read: several batches together, by position ── batches
//!            ahead of the reading                 as far as the memory reaches                   in order
//! ```
//!
//! | module | |
//! |---|---|
//! | `order`, `options` | the arguments |
//! | `budget` | the memory of the batches |
//! | `planted`, `hand_over` | the queues between the threads and the caller, and bugs that tests plant in them |
//! | `work`, `find`, `read` | the two threads |
//!
//! The files of a batch are those of [`read_files`](crate::Volume::read_files), by the same code.

mod budget;
mod find;
mod hand_over;
mod options;
mod order;
mod planted;
mod read;
#[cfg(all(test, feature = "_shuttle"))]
mod schedules;
#[cfg(test)]
mod tests;
mod work;

use super::read_files::FileContents;
use crate::running::volume::Volume;
use crate::vocabulary::error::Result;
use crate::vocabulary::path_set::PathSet;
use hand_over::{HandOver, Held, ReadyBatch, Stage};
pub use options::EpochOptions;
pub use order::EpochOrder;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use work::EpochWork;

/// Files that are found ahead of the reading at most. Each takes some hundred bytes.
const MOST_FOUND: u64 = 128 << 10;

/// Reads the files of an epoch, one pass over many files, in batches and ahead of the caller.
///
/// It is an iterator over the batches in order. Two threads work while the caller does: one looks up the
/// files of the next batches, and one reads as many batches together as have room in the memory, in the order
/// of the positions on the device. They wait while the memory is full.
///
/// Each file of a batch has the bytes or the code that [`Volume::read_files`] gives, at some moment between
/// the start of the epoch and the hand-over of the batch. A damaged file affects no other.
///
/// The order and a position are all its state: an epoch with the same order that
/// [starts](EpochOptions::start) at [`position`](Self::position) continues it.
///
/// ```
/// use lanefs::{CreateOptions, EpochOptions, EpochOrder, EpochReader, PathSet, Volume};
/// use std::sync::Arc;
///
/// # fn main() -> lanefs::Result<()> {
/// let volume = Volume::create_memory(&CreateOptions { size: 64 << 20, ..CreateOptions::default() })?;
/// let paths: PathSet = (0..100).map(|i| format!("/{i}")).collect();
/// for path in paths.view().iter() {
///     volume.write_file(path, path)?;
/// }
///
/// let (volume, paths) = (Arc::new(volume), Arc::new(paths));
/// let options = EpochOptions { order: EpochOrder::Shuffled(7), batch: 32, ..EpochOptions::default() };
/// let mut files = 0;
/// for batch in EpochReader::new(volume, paths.clone(), options)? {
///     let batch = batch?;
///     for (row, file) in batch.rows().iter().zip(batch.contents().iter()) {
///         assert_eq!(file.ok(), paths.view().get(*row as usize));
///         files += 1;
///     }
/// }
/// assert_eq!(files, 100);
/// # Ok(())
/// # }
/// ```
///
/// Dropping it ends both threads soon, also in the middle of a batch.
pub struct EpochReader {
    work: Arc<EpochWork>,
    threads: Vec<JoinHandle<()>>,
    position: usize,
    has_ended: bool,
}

/// A batch of an epoch. Its memory serves another batch when it is dropped.
pub struct EpochBatch {
    order: Arc<[u32]>,
    part: Range<usize>,
    held: Held,
}

impl EpochReader {
    /// Starts to read an epoch over these paths.
    ///
    /// # Errors
    /// [`Code::Invalid`](crate::Code::Invalid) for a batch of no file, a row without a path, a start past
    /// the last file, or more than 2^32 - 1 paths; [`Error::Io`](crate::Error::Io) where the host has no
    /// thread left.
    pub fn new(
        volume: impl Into<Arc<Volume>>,
        paths: impl Into<Arc<PathSet>>,
        options: EpochOptions,
    ) -> Result<Self> {
        let (volume, paths) = (volume.into(), paths.into());
        let order = options.rows(paths.len())?;
        let blocks = volume.shared.state.store.stats().blocks_allowed;
        // The metadata that the lookups fetch are still there when the files are read.
        let most_found = (blocks / 8).min(MOST_FOUND) as usize;
        let work = EpochWork {
            volume,
            paths,
            start: options.start as usize,
            batch: options.batch,
            home: Arc::new(HandOver::new(options.memory, most_found)),
            options,
            order,
            stop: AtomicBool::new(false),
        };
        let position = work.start;
        let mut reader =
            EpochReader { work: Arc::new(work), threads: Vec::new(), position, has_ended: false };
        // An error drops the reader, which ends the threads that run.
        reader.threads.push(reader.work.spawn(Stage::Find, find::find)?);
        reader.threads.push(reader.work.spawn(Stage::Read, read::read)?);
        Ok(reader)
    }

    /// Number of files of the order before the next batch: [`EpochOptions::start`] of an epoch that continues
    /// this one.
    pub fn position(&self) -> u64 {
        self.position as u64
    }

    /// Number of files of the whole order.
    pub fn files(&self) -> u64 {
        self.work.order.len() as u64
    }

    /// Memory of the batches that are being read, are ready, or are held by the caller, in bytes.
    pub fn memory(&self) -> u64 {
        self.work.home.memory()
    }

    /// The most memory so far, in bytes: that of [`memory`](Self::memory), and spare memory for the next
    /// batches. It is more than [`EpochOptions::memory`] only where a batch is larger by itself, where the
    /// caller asks for the next batch while it holds too much, or where a file has grown since it was found.
    pub fn most_memory(&self) -> u64 {
        self.work.home.most_memory()
    }

    fn stop(&mut self) {
        self.has_ended = true;
        self.work.stop.store(true, Ordering::Relaxed);
        self.work.home.stop();
    }
}

impl Iterator for EpochReader {
    type Item = Result<EpochBatch>;

    /// Returns the next batch, and waits until it is read.
    ///
    /// # Errors
    /// Those of [`Volume::read_files`]: the device's, where it does not give metadata; too little memory of
    /// the host. The epoch ends there, and another one can continue at [`position`](EpochReader::position).
    ///
    /// # Panics
    /// Panics where one of the threads did, which is a bug of this crate.
    fn next(&mut self) -> Option<Self::Item> {
        if self.has_ended {
            return None;
        }
        match self.work.home.next() {
            Some(Ok(ReadyBatch { part, room })) => {
                self.position = part.end;
                let order = Arc::clone(&self.work.order);
                Some(Ok(EpochBatch { order, part, held: Held::new(room, &self.work.home) }))
            }
            Some(Err(error)) => {
                self.stop();
                Some(Err(error))
            }
            None => {
                self.stop();
                for thread in self.threads.drain(..) {
                    if let Err(panic) = thread.join() {
                        std::panic::resume_unwind(panic);
                    }
                }
                None
            }
        }
    }
}

impl Drop for EpochReader {
    fn drop(&mut self) {
        self.stop();
        for thread in self.threads.drain(..) {
            // Its panic is reported where the batches end, and not in the middle of another one.
            let _ = thread.join();
        }
    }
}

impl EpochBatch {
    /// Number of files of the order before this batch.
    pub fn position(&self) -> u64 {
        self.part.start as u64
    }

    /// The rows of the path set that these files have, in order.
    pub fn rows(&self) -> &[u32] {
        &self.order[self.part.clone()]
    }

    /// The contents and codes of the files, in the order of the [rows](Self::rows).
    pub fn contents(&self) -> &FileContents<'static> {
        self.held.contents()
    }
}

impl std::fmt::Debug for EpochReader {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { position, .. } = self;
        f.debug_struct("EpochReader").field("position", position).field("files", &self.files()).finish()
    }
}

impl std::fmt::Debug for EpochBatch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("EpochBatch").field("part", &self.part).field("contents", self.contents()).finish()
    }
}
