//! Commits: what was changed reaches the device, as a whole, while operations go on.
//!
//! A commit has three parts. With the gate closed, [`Store::snapshot`] copies all blocks that were changed; this takes no more
//! time than the copying. With the gate open again, [`Store::commit`] writes file data in place and the copies to the
//! journal. Some time later [`Store::checkpoint`] writes the copies to their places. One thread at a time does these.

use crate::journal::{AlignedBuffer, Commit, Image, Journal, Pending, write_in_place};
use crate::planted;
use crate::seal::Sealer;
use crate::state::{self, DATA};
use crate::store::Dirt;
use crate::{Device, Fault, IoBuf, IoBufMut, Store, Write};
use lanefs_format::{BLOCK, Code};
use lanefs_sync::{Mutex, size};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

pub(crate) use crate::journal::fault;

/// Up to so many blocks of file data travel in the journal, beside the metadata: one write and one flush make them durable, where
/// two of each were needed. They go to their places with the metadata.
const JOURNALED_DATA: usize = size(64, 1);

/// So many blocks of changed file data (16 MiB) are written without waiting for a commit.
const EARLY_DATA: u64 = 4096;

/// File data go to the device in pieces of so many blocks (1 MiB).
const PIECE: usize = 256;

/// Nothing is written any more.
const FAILED: Fault = Fault::Io { at: 0, doing: "writing", errno: Code::Io.errno() };

/// A checkpoint writes so many blocks at a time.
const BATCH: usize = 1024;

/// What the store knows of commits.
#[derive(Default)]
pub(crate) struct Commits {
    journal: Mutex<Option<Journal>>,
    /// Copies that are on their way into the journal.
    under_way: Mutex<Option<Copies>>,
    /// Committed blocks that are not in place.
    pending: Mutex<Pending>,
    failed: AtomicBool,
    changed_metadata: AtomicU64,
    changed_data: AtomicU64,
    /// The same when file data were written early the last time.
    written_early: AtomicU64,
    /// File data was written in place since the last flush.
    wrote_data: AtomicBool,
    /// Blocks of file data that changed while they were written for a commit and stand in no writer's list: for the next one.
    left: Mutex<Vec<u64>>,
    /// File data are being written in place, or still to be written for a snapshot that was taken (set with the gate closed then,
    /// so that who drops data sees it).
    pub(crate) needs_data: AtomicBool,
    counters: Counters,
}

#[derive(Default)]
struct Counters {
    commits: AtomicU64,
    data_bytes: AtomicU64,
    in_place_bytes: AtomicU64,
    journal_bytes: AtomicU64,
}

/// What was done since the volume was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StoreStats {
    /// Blocks of 4 KiB read from the device.
    pub blocks_fetched: u64,
    /// Blocks resident now.
    pub blocks_resident: u64,
    /// Blocks that may be resident.
    pub blocks_allowed: u64,
    /// Commits.
    pub commits: u64,
    /// Bytes of file data written to their places.
    pub data_bytes: u64,
    /// Bytes written to the journal.
    pub journal_bytes: u64,
    /// Bytes that went from the journal to their places.
    pub in_place_bytes: u64,
}

/// Copies of blocks, by position, which ascends.
#[derive(Clone)]
struct Copies {
    positions: Arc<[u64]>,
    images: Arc<AlignedBuffer>,
}

impl Copies {
    fn image(&self, place: usize) -> &[u8] {
        &self.images[place * BLOCK as usize..(place + 1) * BLOCK as usize]
    }

    fn get(&self, at: u64) -> Option<&[u8]> {
        Some(self.image(self.positions.binary_search(&at).ok()?))
    }

    fn iter(&self) -> impl Iterator<Item = (u64, &[u8])> {
        self.positions.iter().enumerate().map(|(place, at)| (*at, self.image(place)))
    }
}

/// What a commit makes durable.
pub struct Snapshot {
    copies: Copies,
    revoked: Vec<u64>,
    /// Blocks of file data that go in place.
    data: Vec<u64>,
}

impl Commits {
    pub(crate) fn count_changed(&self, state: u8) {
        let counter =
            if state::content(state) == Some(DATA) { &self.changed_data } else { &self.changed_metadata };
        counter.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn uncount_data(&self, dirt: u8) {
        if dirt == Dirt::CHANGED {
            let less = |count: u64| Some(count.saturating_sub(1));
            let _ = self.changed_data.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less);
        }
    }

    /// Copies the last version of a block that is not in place: one that is being committed, else one that was; false where
    /// there is none.
    pub(crate) fn copy_committed(&self, at: u64, out: &mut IoBufMut<'_>) -> bool {
        if let Some(image) = self.under_way.lock().as_ref().and_then(|copies| copies.get(at)) {
            out.copy_from(image);
            return true;
        }
        match self.pending.lock().get(at) {
            Some(image) => {
                out.copy_from(image);
                true
            }
            None => false,
        }
    }

    fn has_committed(&self, at: u64) -> bool {
        self.pending.lock().get(at).is_some()
    }
}

impl Store {
    /// Uses the journal of `blocks` blocks at `at`: `new` makes an empty one, otherwise what a crash left in it is
    /// brought to its place first. Returns whether there was such a commit.
    ///
    /// # Errors
    /// [`Fault::Io`], [`Fault::Damaged`].
    pub fn use_journal(&self, at: u64, blocks: u64, new: bool) -> Result<bool, Fault> {
        let Some(device) = self.device() else { return Ok(false) };
        let (journal, recovered) = if new {
            (Journal::format(device, &self.sums, at, blocks)?, false)
        } else {
            // As long as the device: a volume that was being made larger may have been cut short before its superblock said so.
            Journal::open(device, &self.sums, at, blocks, device.len() & !(BLOCK - 1))?
        };
        self.fix(at, blocks);
        *self.commits.journal.lock() = Some(journal);
        Ok(recovered)
    }

    /// True when so much has changed that it should be committed soon; also when file data wait that take a good part of
    /// the memory.
    pub fn should_commit(&self) -> bool {
        self.is_fuller_than(8)
    }

    /// True when so much has changed that it must be committed before more is.
    pub fn must_commit(&self) -> bool {
        self.is_fuller_than(4)
    }

    /// True when so many file data have changed since some were last written that the device has better begin with them: a sync
    /// would have to wait for all of them, with the device idle until then.
    pub fn should_write_data(&self) -> bool {
        let changed = self.commits.changed_data.load(Ordering::Relaxed);
        let written = self.commits.written_early.load(Ordering::Relaxed);
        // Less has changed than was written where a commit lies between.
        changed.checked_sub(written).unwrap_or(changed) >= EARLY_DATA
    }

    /// How many more metadata blocks may change for the next commit to go through the journal, which is what makes it atomic; by far not
    /// all of them, for what a commit frees changes some as well.
    pub fn room_for_changes(&self) -> u64 {
        match self.journal_capacity() as u64 / 2 {
            0 => u64::MAX,
            room => room.saturating_sub(self.commits.changed_metadata.load(Ordering::Relaxed)),
        }
    }

    fn journal_capacity(&self) -> usize {
        self.commits.journal.lock().as_ref().map_or(0, Journal::capacity)
    }

    fn is_fuller_than(&self, part: u64) -> bool {
        let metadata = self.commits.changed_metadata.load(Ordering::Relaxed);
        let data = self.commits.changed_data.load(Ordering::Relaxed);
        let room = match self.journal_capacity() {
            0 => u64::MAX,
            blocks => blocks as u64,
        };
        metadata >= room / part || data + metadata >= self.cache.budget() / part
    }

    /// True when changes wait for a commit.
    pub fn has_changes(&self) -> bool {
        self.commits.changed_metadata.load(Ordering::Relaxed) > 0
            || self.commits.changed_data.load(Ordering::Relaxed) > 0
    }

    /// True once a write failed: the volume is readable only from then on.
    pub fn has_failed(&self) -> bool {
        self.commits.failed.load(Ordering::Relaxed)
    }

    /// Says what the device is and how it is reached.
    pub fn engine(&self) -> String {
        self.device().map_or_else(|| "memory".into(), Device::engine)
    }

    /// What was done so far.
    pub fn stats(&self) -> StoreStats {
        let get = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let counters = &self.commits.counters;
        StoreStats {
            blocks_fetched: get(&self.fetches.blocks),
            blocks_resident: self.cache.resident(),
            blocks_allowed: self.cache.budget(),
            commits: get(&counters.commits),
            data_bytes: get(&counters.data_bytes),
            journal_bytes: get(&counters.journal_bytes),
            in_place_bytes: get(&counters.in_place_bytes),
        }
    }

    /// What fails here leaves the device in an unknown state: nothing more is written to it.
    fn guarded<T>(&self, work: impl FnOnce(&dyn Device) -> Result<T, Fault>) -> Result<Option<T>, Fault> {
        let Some(device) = self.device() else { return Ok(None) };
        if self.has_failed() {
            return Err(FAILED);
        }
        let done = work(device);
        if done.is_err() {
            self.commits.failed.store(true, Ordering::Relaxed);
        }
        done.map(Some)
    }

    /// Writes changed file data among `changed` to their places, while operations go on. What stays in the list must go with
    /// the next snapshot: metadata, file data that are few, and those of which the journal has an older copy.
    ///
    /// # Errors
    /// [`Fault::Io`].
    pub fn write_data_early(&self, changed: &mut Vec<u64>) -> Result<(), Fault> {
        let (mut data, mut rest): (Vec<u64>, Vec<u64>) =
            changed.iter().partition(|index| self.may_go_in_place(**index));
        self.commits
            .written_early
            .store(self.commits.changed_data.load(Ordering::Relaxed), Ordering::Relaxed);
        if data.len() <= JOURNALED_DATA {
            return Ok(());
        }
        std::mem::swap(changed, &mut rest);
        self.commits.needs_data.store(true, Ordering::SeqCst);
        let left = self.guarded(|device| self.write_back(device, &mut data))?;
        self.commits.needs_data.store(false, Ordering::SeqCst);
        changed.extend(left.into_iter().flatten());
        Ok(())
    }

    fn may_go_in_place(&self, index: u64) -> bool {
        state::content(self.state(index)) == Some(DATA) && !self.commits.has_committed(index * BLOCK)
    }

    /// Copies all that was changed. `freed`: positions of metadata blocks, and first blocks with counts of file data, that
    /// this commit frees. The caller has closed the gate.
    ///
    /// # Errors
    /// [`Fault::Io`] where a table must be read to hold a checksum.
    pub fn snapshot(
        &self,
        changed: Vec<u64>,
        freed_blocks: &[u64],
        freed_runs: &[(u64, u64)],
    ) -> Result<Snapshot, Fault> {
        let mut list: BTreeSet<u64> = changed.into_iter().collect();
        list.extend(self.commits.left.lock().iter());
        // A block that went out of use since needs no copy. When it comes back into use it is listed anew.
        list.retain(|index| {
            let in_use = state::content(self.state(*index)).is_some();
            if !in_use {
                self.dirt(*index).store(Dirt::CLEAN, Ordering::SeqCst);
            }
            in_use
        });
        let is_data = |index: &u64| state::content(self.state(*index)) == Some(DATA);
        let mut data: BTreeSet<u64> = list.iter().copied().filter(is_data).collect();
        list.retain(|index| !is_data(index));
        Sealer::new(self).seal_tables(&mut list)?;
        self.commits.left.lock().clear();
        let capacity = self.journal_capacity();
        if list.len() + data.len() <= capacity / 2 && data.len() <= JOURNALED_DATA.min(capacity / 8) {
            list.append(&mut data);
        } else {
            // What the journal has an older copy of must go there again, or that copy out of it.
            let (mut again, mut in_place): (BTreeSet<u64>, BTreeSet<u64>) =
                data.into_iter().partition(|index| self.commits.has_committed(index * BLOCK));
            if list.len() + again.len() > capacity {
                self.checkpoint()?;
                in_place.append(&mut again);
            }
            list.append(&mut again);
            data = in_place;
        }
        let mut images = AlignedBuffer::zeroed(list.len() * BLOCK as usize);
        for (index, image) in list.iter().zip(images.chunks_exact_mut(BLOCK as usize)) {
            Sealer::new(self).copy(index * BLOCK, image);
        }
        let positions: Vec<u64> = list.iter().map(|index| index * BLOCK).collect();
        debug_assert!(positions.is_sorted_by(|a, b| a < b), "copies ascend");
        let copies = Copies { positions: positions.into(), images: Arc::new(images) };
        // From now on the blocks may leave memory, and come back from here.
        if !planted::is(planted::Fault::NoUnderWay) {
            *self.commits.under_way.lock() = Some(copies.clone());
        }
        for index in &list {
            self.dirt(*index).store(Dirt::CLEAN, Ordering::SeqCst);
        }
        self.commits.needs_data.store(!data.is_empty(), Ordering::SeqCst);
        let mut revoked = freed_blocks.to_vec();
        let pending = self.commits.pending.lock();
        for (first, count) in freed_runs {
            let (mut at, end) = (first * BLOCK, (first + count) * BLOCK);
            while let Some(next) = pending.next_from(at).filter(|next| *next < end) {
                revoked.push(next);
                at = next + BLOCK;
            }
        }
        revoked.sort_unstable();
        revoked.dedup();
        self.commits.changed_metadata.store(0, Ordering::Relaxed);
        // Counted anew: what was marked and left memory before it was changed was counted too.
        self.commits.changed_data.store(data.len() as u64, Ordering::Relaxed);
        // What was freed and taken into use again has its new copy.
        revoked.retain(|at| copies.get(*at).is_none());
        debug_assert!(revoked.is_sorted_by(|a, b| a < b));
        Ok(Snapshot { copies, revoked, data: data.into_iter().collect() })
    }

    /// Makes a snapshot durable.
    ///
    /// # Errors
    /// [`Fault::Io`]; the store then refuses further commits, for what the device holds is unknown.
    pub fn commit(&self, snapshot: Snapshot) -> Result<(), Fault> {
        let done = self.guarded(|device| self.commit_to(device, snapshot)).map(|_| ());
        if done.is_ok() {
            *self.commits.under_way.lock() = None;
        }
        done
    }

    fn commit_to(&self, device: &dyn Device, mut snapshot: Snapshot) -> Result<(), Fault> {
        let mut left = self.write_back(device, &mut snapshot.data)?;
        self.commits.left.lock().append(&mut left);
        self.commits.needs_data.store(false, Ordering::SeqCst);
        self.behind.catch_up();
        if self.has_failed() {
            return Err(FAILED);
        }
        let flush = || device.flush().map_err(|e| fault(0, "flushing", &e));
        if self.commits.wrote_data.swap(false, Ordering::SeqCst) {
            flush()?;
        }
        let copies = &snapshot.copies;
        if copies.positions.is_empty() && snapshot.revoked.is_empty() {
            return Ok(());
        }
        let mut journal = self.commits.journal.lock();
        let (blocks, revoked) = (copies.positions.len(), snapshot.revoked.len());
        if let Some(journal) = journal.as_mut()
            && !journal.fits(blocks, revoked)
        {
            self.checkpoint_into(device, journal)?;
        }
        match journal.as_mut() {
            Some(journal) if journal.fits(blocks, revoked) => {
                let blocks: Vec<(u64, &[u8])> = copies.iter().collect();
                journal.append(
                    device,
                    &self.sums,
                    &Commit { blocks: &blocks, revoked: &snapshot.revoked },
                )?;
                let mut pending = self.commits.pending.lock();
                for at in &snapshot.revoked {
                    pending.revoke(*at);
                }
                for (place, at) in copies.positions.iter().enumerate() {
                    if let Some(image) = Image::of(&copies.images, place) {
                        pending.add(journal.last(), *at, image);
                    }
                }
                self.commits.counters.journal_bytes.store(journal.written(), Ordering::Relaxed);
            }
            // No journal, or a single change that is larger than it: in place, and not atomic.
            _ => {
                let copy = |at: u64, out: &mut [u8]| {
                    if let Some(image) = copies.get(at) {
                        out.copy_from_slice(image);
                    }
                };
                write_in_place(device, &copies.positions, copy)?;
                flush()?;
            }
        }
        self.commits.counters.commits.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    /// Writes file data from their frames, neighbours in one piece. Returns, in order, those that need another
    /// commit: that a writer is changing just now, or whose place in memory the cache has claimed for a moment.
    fn write_back(&self, device: &dyn Device, data: &mut Vec<u64>) -> Result<Vec<u64>, Fault> {
        data.sort_unstable();
        data.dedup();
        let mut left = Vec::new();
        data.retain(|index| {
            // From now on a change marks the block anew.
            match self.change_dirt(*index, Dirt::CHANGED, Dirt::WRITING) {
                Ok(()) => {}
                Err(Dirt::HELD) => {
                    left.push(*index);
                    return true;
                }
                Err(_) => return false,
            }
            // Looked at behind the mark: who claims a block looks at the mark behind the claim.
            let is_here = state::content(self.state(*index)) == Some(DATA);
            if !is_here {
                if self.change_dirt(*index, Dirt::WRITING, Dirt::CHANGED).is_ok() {
                    left.push(*index);
                } else {
                    // Changed again, and dropped perhaps: that counts for itself.
                    self.commits.uncount_data(Dirt::CHANGED);
                }
            }
            is_here
        });
        if data.is_empty() {
            return Ok(left);
        }
        let mut requests = Vec::new();
        let mut rest = &data[..];
        while let Some(first) = rest.first().copied() {
            let run = (0..rest.len().min(PIECE)).take_while(|i| rest[*i] == first + *i as u64).count();
            // Writers may change the bytes while the device reads them: they are then marked and written again, before anything
            // says that they are durable.
            let data = self.arena.source(first * BLOCK, run * BLOCK as usize);
            requests.push(Write { at: first * BLOCK, data });
            rest = &rest[run..];
        }
        debug_assert!(requests.is_sorted_by(|a, b| a.at + a.data.len() as u64 <= b.at));
        self.write_data_to(device, &requests)?;
        debug_assert!(left.is_sorted());
        for index in data.iter() {
            if planted::is(planted::Fault::CleanAfterWriting) {
                self.dirt(*index).store(Dirt::CLEAN, Ordering::SeqCst);
            }
            let _ = self.change_dirt(*index, Dirt::WRITING, Dirt::CLEAN);
            if left.binary_search(index).is_err() {
                self.commits.uncount_data(Dirt::CHANGED);
            }
        }
        Ok(left)
    }

    /// Writes file data to their places; the next commit flushes them.
    fn write_data_to(&self, device: &dyn Device, requests: &[Write<'_>]) -> Result<(), Fault> {
        let first = requests.first().map_or(0, |request| request.at);
        device.write_many(requests).map_err(|e| fault(first, "writing", &e))?;
        self.commits.wrote_data.store(true, Ordering::SeqCst);
        let bytes = requests.iter().map(|request| request.data.len() as u64).sum();
        self.commits.counters.data_bytes.fetch_add(bytes, Ordering::Relaxed);
        Ok(())
    }

    /// As [`write_data_to`](Self::write_data_to), for data that are written beside commits.
    ///
    /// # Errors
    /// [`Fault::Io`]; nothing more is written then.
    pub(crate) fn write_data_to_device(&self, requests: &[Write<'_>]) -> Result<(), Fault> {
        self.guarded(|device| self.write_data_to(device, requests)).map(drop)
    }

    /// # Errors
    /// What it is instead of `from`.
    fn change_dirt(&self, index: u64, from: u8, to: u8) -> Result<(), u8> {
        self.dirt(index).compare_exchange(from, to, Ordering::SeqCst, Ordering::SeqCst).map(|_| ())
    }

    /// Writes what was committed to its places and empties the journal.
    ///
    /// # Errors
    /// [`Fault::Io`].
    pub fn checkpoint(&self) -> Result<(), Fault> {
        self.guarded(|device| match self.commits.journal.lock().as_mut() {
            Some(journal) => self.checkpoint_into(device, journal),
            None => Ok(()),
        })
        .map(|_| ())
    }

    /// True when the journal is so full that it should be emptied soon.
    pub fn should_checkpoint(&self) -> bool {
        self.commits.journal.lock().as_ref().is_some_and(|journal| journal.used() > 0.5)
    }

    fn checkpoint_into(&self, device: &dyn Device, journal: &mut Journal) -> Result<(), Fault> {
        let last = journal.last();
        let (mut from, mut written) = (0, Vec::new());
        loop {
            let batch = self.commits.pending.lock().batch(from, last, BATCH);
            let Some(end) = batch.last() else { break };
            debug_assert!(batch[0].position >= from, "batches ascend");
            from = end.position + BLOCK;
            let requests: Vec<Write<'_>> = batch
                .iter()
                .map(|block| Write { at: block.position, data: IoBuf::new(&block.image) })
                .collect();
            device.write_many(&requests).map_err(|e| fault(batch[0].position, "writing", &e))?;
            written.extend(batch.iter().map(|block| (block.position, block.sequence)));
        }
        device.flush().map_err(|e| fault(0, "flushing", &e))?;
        self.commits.counters.in_place_bytes.fetch_add(written.len() as u64 * BLOCK, Ordering::Relaxed);
        self.commits.pending.lock().done(&written);
        journal.advance(device, &self.sums, last)
    }
}
