//! Write-back of file data: dirty blocks go from their frames to the device while operations continue.

use crate::device::{Device, Write};
use crate::memory::dirty::Dirty;
use crate::memory::state::{self, DATA};
use crate::store::Store;
use crate::store::committed::CommitState;
use crate::vocabulary::fault::{Fault, io_fault};
use crate::vocabulary::planted;
use lanefs_format::BLOCK;
use lanefs_sync::size;
use std::sync::atomic::Ordering;

/// Most blocks of file data that travel in the journal, beside the metadata: one write and one flush make
/// them durable, instead of two of each. A checkpoint writes them in place with the metadata.
pub(crate) const JOURNALED_DATA_BLOCKS: usize = size(64, 1);

/// Number of changed blocks of file data (16 MiB) from which on they are written without waiting for a
/// commit.
const EARLY_DATA: u64 = 4096;

/// Part of the cache from which on they are written early where it is small: they are clean then, and may
/// leave it, and no commit is needed for that.
const EARLY_PART: u64 = 8;

/// Most blocks of one write of file data (1 MiB).
const PIECE_BLOCKS: usize = 256;

impl CommitState {
    /// Returns true when so many blocks of file data have changed since some were last written that the
    /// device should begin with them: otherwise it is idle until a sync, which then waits for all of them.
    /// `budget`: blocks of the cache.
    fn should_write_data(&self, budget: u64) -> bool {
        let changed = self.changed_data.load(Ordering::Relaxed);
        let written = self.written_early.load(Ordering::Relaxed);
        // After a commit in between, fewer blocks have changed than were written.
        changed.checked_sub(written).unwrap_or(changed) >= EARLY_DATA.min(budget / EARLY_PART)
    }
}

impl Store {
    /// Returns true when so many file data have changed since some were last written that they should be
    /// written early.
    pub fn should_write_data(&self) -> bool {
        self.commits.should_write_data(self.cache.budget())
    }

    /// Returns true once a write failed: from then on the volume is read-only.
    pub fn has_failed(&self) -> bool {
        self.commits.has_failed()
    }

    /// Returns the first failure of a write, which made the volume read-only.
    pub fn failure(&self) -> Option<Fault> {
        self.commits.failure()
    }

    /// Has `listener` learn of the first failure of a write, at once and in the thread that meets it. Only
    /// the first call counts.
    pub fn listen_to_failure(&self, listener: impl Fn(Fault) + Send + Sync + 'static) {
        self.commits.set_failure_listener(Box::new(listener));
    }

    /// Writes nothing more to the device, whose state is unknown after `fault`.
    pub fn give_up(&self, fault: Fault) {
        self.commits.fail(fault);
    }

    /// # Errors
    /// The first failure of a write, which each later one has as well.
    pub(crate) fn check_failure(&self) -> Result<(), Fault> {
        self.failure().map_or(Ok(()), Err)
    }

    /// Runs writes to the device. A failure leaves the device in an unknown state: nothing more is written to
    /// it.
    pub(crate) fn guarded<T>(
        &self,
        work: impl FnOnce(&dyn Device) -> Result<T, Fault>,
    ) -> Result<Option<T>, Fault> {
        let Some(device) = self.device() else { return Ok(None) };
        self.check_failure()?;
        let done = work(device);
        if let Err(fault) = done.as_ref() {
            self.give_up(*fault);
        }
        done.map(Some)
    }

    /// Writes changed file data among `changed` in place, while operations continue. The blocks that remain
    /// in the list belong to the next snapshot: metadata, file data that are few, and those of which the
    /// journal has an older copy.
    ///
    /// # Errors
    /// [`Fault::Io`].
    pub fn write_data_early(&self, changed: &mut Vec<u64>) -> Result<(), Fault> {
        let (mut data, mut rest): (Vec<u64>, Vec<u64>) =
            changed.iter().partition(|index| self.may_go_in_place(**index));
        self.commits
            .written_early
            .store(self.commits.changed_data.load(Ordering::Relaxed), Ordering::Relaxed);
        if data.len() <= JOURNALED_DATA_BLOCKS {
            return Ok(());
        }
        std::mem::swap(changed, &mut rest);
        self.commits.needs_data.store(true, Ordering::SeqCst);
        let left = self.guarded(|device| self.write_back(device, &mut data, true))?;
        self.commits.needs_data.store(false, Ordering::SeqCst);
        changed.extend(left.into_iter().flatten());
        Ok(())
    }

    fn may_go_in_place(&self, index: u64) -> bool {
        state::content(self.state(index)) == Some(DATA) && !self.commits.has_committed(index * BLOCK)
    }

    /// Writes file data from their frames, consecutive blocks in one piece, and stores their checksums where
    /// no snapshot did. Returns, in order, the blocks that need another commit: those that a writer is
    /// changing, or that the cache has claimed for a short time.
    pub(crate) fn write_back(
        &self,
        device: &dyn Device,
        data: &mut Vec<u64>,
        sum: bool,
    ) -> Result<Vec<u64>, Fault> {
        data.sort_unstable();
        data.dedup();
        let mut left = Vec::new();
        data.retain(|index| self.begin_write(*index, &mut left));
        debug_assert!(left.is_sorted());
        // A block that changes from here on is dirty again: it gets another checksum with the new bytes.
        if sum {
            self.sum_frames(data.iter())?;
        }
        if data.is_empty() {
            return Ok(left);
        }
        let mut requests = Vec::new();
        let mut rest = &data[..];
        while let Some(first) = rest.first().copied() {
            let follows = |i: usize| {
                let index = first + i as u64;
                rest[i] == index && (i == 0 || self.frames.continues(index))
            };
            let count = (0..rest.len().min(PIECE_BLOCKS)).take_while(|i| follows(*i)).count();
            // Writers may change the bytes while the device reads them. The blocks are then dirty, and
            // written again before anything says that they are durable.
            let data = self.frames.source(first * BLOCK, count * BLOCK as usize);
            requests.push(Write { at: first * BLOCK, data });
            rest = &rest[count..];
        }
        assert!(requests.is_sorted_by(|a, b| a.at + a.data.len() as u64 <= b.at), "two writes of one block");
        self.write_data_to(device, &requests)?;
        for index in data.iter() {
            if planted::is(planted::Bug::CleanAfterWriting) {
                self.dirty(*index).store(Dirty::CLEAN, Ordering::SeqCst);
            }
            let _ = self.change_dirty(*index, Dirty::WRITING, Dirty::CLEAN);
            if left.binary_search(index).is_err() {
                self.commits.uncount_data(Dirty::CHANGED);
            }
        }
        Ok(left)
    }

    /// Marks a block as being written. Returns whether it is to be written now; adds it to `left` where it
    /// needs another commit.
    fn begin_write(&self, index: u64, left: &mut Vec<u64>) -> bool {
        // From now on a change makes the block dirty again.
        match self.change_dirty(index, Dirty::CHANGED, Dirty::WRITING) {
            Ok(()) => {}
            Err(Dirty::PINNED) => {
                left.push(index);
                return true;
            }
            Err(_) => return false,
        }
        // The state is loaded after the mark was set: a thread that claims a block loads the mark after the
        // claim.
        let is_resident = state::content(self.state(index)) == Some(DATA);
        if !is_resident {
            if self.change_dirty(index, Dirty::WRITING, Dirty::CHANGED).is_ok() {
                left.push(index);
            } else {
                // The block was changed again, and perhaps dropped: that change counts for itself.
                self.commits.uncount_data(Dirty::CHANGED);
            }
        }
        is_resident
    }

    /// Writes file data in place; the next commit flushes them.
    fn write_data_to(&self, device: &dyn Device, requests: &[Write<'_>]) -> Result<(), Fault> {
        let first = requests.first().map_or(0, |request| request.at);
        device.write_many(requests).map_err(|e| io_fault(first, "writing", &e))?;
        self.commits.wrote_data.store(true, Ordering::SeqCst);
        let bytes = requests.iter().map(|request| request.data.len() as u64).sum();
        self.commits.counters.data_bytes.fetch_add(bytes, Ordering::Relaxed);
        Ok(())
    }

    /// Writes file data in place outside of commits; the next commit flushes them.
    ///
    /// # Errors
    /// [`Fault::Io`]; nothing more is written from then on.
    pub(crate) fn write_data_to_device(&self, requests: &[Write<'_>]) -> Result<(), Fault> {
        self.guarded(|device| self.write_data_to(device, requests)).map(drop)
    }

    /// # Errors
    /// The present value, where it is not `from`.
    fn change_dirty(&self, index: u64, from: u8, to: u8) -> Result<(), u8> {
        self.dirty(index).compare_exchange(from, to, Ordering::SeqCst, Ordering::SeqCst).map(|_| ())
    }
}

#[cfg(all(test, not(feature = "_shuttle")))]
mod tests {
    use super::*;

    #[test]
    fn file_data_in_a_small_cache_are_written_early_before_they_need_a_commit() {
        let commits = CommitState::default();
        for (budget, early) in [(4096, 512), (1 << 20, EARLY_DATA)] {
            commits.changed_data.store(early - 1, Ordering::Relaxed);
            assert!(!commits.should_write_data(budget), "{budget}");
            commits.changed_data.store(early, Ordering::Relaxed);
            assert!(commits.should_write_data(budget), "{budget}");
            assert!(!commits.is_fuller_than(8, budget), "{budget}");
            // Where the device is slower than the writers, a commit comes.
            commits.changed_data.store(budget / 4, Ordering::Relaxed);
            assert!(commits.is_fuller_than(8, budget) && !commits.is_fuller_than(4, budget), "{budget}");
            commits.changed_data.store(budget / 2, Ordering::Relaxed);
            assert!(commits.is_fuller_than(4, budget), "{budget}");
        }
    }
}
