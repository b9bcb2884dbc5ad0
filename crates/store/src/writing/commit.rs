//! Commits: all changes of metadata since the last commit reach the device as a whole, while operations
//! continue.
//!
//! A commit has three parts. With the gate closed, [`Store::snapshot`] copies all changed blocks; the gate is
//! closed no longer than the copies take. With the gate open again, [`Store::commit`] writes file data in
//! place and the copies to the journal. Some time later [`Store::checkpoint`] writes the copies in place. One
//! thread at a time does these.

use super::seal::Sealer;
use super::write_back::JOURNALED_DATA_BLOCKS;
use crate::device::{Device, IoBuf, Write};
use crate::journal::{AlignedBuffer, Commit, Copies, Image, Implied, Journal, write_in_place};
use crate::memory::dirty::Dirty;
use crate::memory::state::{self, ABSENT, DATA, EVICTING, FETCHING, FIXED, FREE};
use crate::store::Store;
use crate::vocabulary::fault::{Fault, io_fault};
use crate::vocabulary::planted;
use crate::vocabulary::totals::Totals;
use lanefs_format::BLOCK;
use lanefs_sync::yield_now;
use std::collections::BTreeSet;
use std::sync::atomic::Ordering;

/// Number of blocks that a checkpoint writes at a time.
const BATCH_BLOCKS: usize = 1024;

/// The content of a commit.
pub struct CommitCopies {
    copies: Copies,
    revoked: Vec<u64>,
    /// Blocks of file data that are written in place.
    data: Vec<u64>,
    totals: Option<Totals>,
}

/// The meaning of a journal's content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JournalContent {
    /// None: an empty journal is made there.
    New,
    /// Remains: the volume was closed, and all commits are in place.
    Remains,
    /// A log: the commits that a crash left in it are replayed.
    Log,
}

impl Store {
    /// Uses the journal of `blocks` blocks at `at`. Returns whether commits were replayed.
    ///
    /// # Errors
    /// [`Fault::Io`]; [`Fault::Damaged`], also for a journal in blocks that are in use.
    pub fn use_journal(&self, at: u64, blocks: u64, content: JournalContent) -> Result<bool, Fault> {
        let Some(device) = self.device() else { return Ok(false) };
        // Before anything is done for each of its blocks.
        Journal::check_size(at, blocks)?;
        let end = blocks.checked_mul(BLOCK).and_then(|bytes| at.checked_add(bytes));
        if !at.is_multiple_of(BLOCK) || end.is_none_or(|end| end > self.bytes()) {
            return Err(Fault::damaged(at, "a journal outside the volume"));
        }
        let mut indexes = at / BLOCK..at / BLOCK + blocks;
        if indexes.any(|index| !matches!(self.state(index), ABSENT | FREE | FIXED)) {
            return Err(Fault::damaged(at, "a journal in blocks that are in use"));
        }
        let (journal, recovered) = match content {
            JournalContent::New => (Journal::format(device, &self.sums, at, blocks)?, false),
            JournalContent::Remains => (Journal::open_closed(device, &self.sums, at, blocks)?, false),
            JournalContent::Log => Journal::open(device, &self.sums, at, blocks, self.bytes())?,
        };
        self.fix(at, blocks)?;
        let old = self.commits.set_journal(Some(journal));
        if let Some((first, count)) = old.map(|old| old.place()) {
            // A repair makes a new journal. On a damaged volume a file may have blocks of the old one.
            let kept = at / BLOCK..at / BLOCK + blocks;
            for index in (first / BLOCK..first / BLOCK + count).filter(|index| !kept.contains(index)) {
                self.change_state(index, FIXED, ABSENT);
            }
        }
        Ok(recovered)
    }

    /// Returns the counts of the volume with the last commit in the journal, where they are known.
    pub fn logged_totals(&self) -> Option<Totals> {
        self.commits.lock_journal().as_ref().and_then(Journal::totals)
    }

    /// Gives the journal the counts of the volume before the first change.
    ///
    /// # Errors
    /// [`Fault::Io`].
    pub fn begin_log(&self, totals: Option<Totals>) -> Result<(), Fault> {
        let begun = self.guarded(|device| match self.commits.lock_journal().as_mut() {
            Some(journal) => journal.begin(device, &self.sums, totals),
            None => Ok(()),
        });
        begun.map(|_| ())
    }

    /// Checks the journal of `blocks` blocks at `at`, which is in use or that of a closed volume. Nothing is
    /// written.
    ///
    /// # Errors
    /// [`Fault::Io`], [`Fault::Damaged`].
    pub fn examine_journal(&self, at: u64, blocks: u64) -> Result<(), Fault> {
        let Some(device) = self.device() else { return Ok(()) };
        let next = self.commits.lock_journal().as_ref().map(Journal::next);
        Journal::examine(device, &self.sums, at, blocks, next)
    }

    /// Returns the highest number of a commit of which a journal has a block, 0 for none.
    pub fn last_in_journal(&self, at: u64, blocks: u64) -> u64 {
        self.device().map_or(0, |device| Journal::highest(device, &self.sums, at, blocks))
    }

    /// Replaces the journal, which is empty, by a new one of `blocks` blocks at `at`. They are free, and the
    /// caller has closed the gate. The superblock still names the old journal.
    ///
    /// # Errors
    /// [`Fault::Io`]; [`Fault::Damaged`] for blocks that are in use.
    pub fn move_journal(&self, at: u64, blocks: u64) -> Result<(), Fault> {
        let made = self.guarded(|device| {
            self.fix(at, blocks)?;
            Journal::format(device, &self.sums, at, blocks)
        })?;
        self.commits.set_journal(made);
        Ok(())
    }

    /// Reserves blocks that have fixed positions.
    ///
    /// # Errors
    /// [`Fault::Damaged`] for a block that is in use.
    pub(crate) fn fix(&self, at: u64, blocks: u64) -> Result<(), Fault> {
        let first = at / BLOCK;
        for index in first..(first + blocks).min(self.bytes() / BLOCK) {
            self.fix_block(index)?;
        }
        Ok(())
    }

    fn fix_block(&self, index: u64) -> Result<(), Fault> {
        loop {
            match self.state(index) {
                FIXED => return Ok(()),
                free @ (ABSENT | FREE) if self.change_state(index, free, FIXED) => return Ok(()),
                // A stale attempt, or readahead for one, is about to end.
                ABSENT | FREE | FETCHING | EVICTING => yield_now(),
                // Readahead fetched the block while it was file data.
                state if state::content(state) == Some(DATA) => {
                    self.drop_data(index, 1);
                    if self.state_is(index, state) {
                        return Err(Fault::damaged(index * BLOCK, "a block in use is marked free"));
                    }
                }
                _ => return Err(Fault::damaged(index * BLOCK, "a block in use is marked free")),
            }
        }
    }

    /// Gives back blocks that had fixed positions.
    pub fn release_fixed(&self, at: u64, blocks: u64) {
        for index in at / BLOCK..at / BLOCK + blocks {
            self.change_state(index, FIXED, ABSENT);
        }
    }

    /// Returns true when so much has changed that it should be committed soon, or changed blocks take a
    /// quarter of the memory, or a good part of the slots of a sparse volume.
    pub fn should_commit(&self) -> bool {
        self.is_fuller_than(8) || self.frames.are_short() && self.has_changes()
    }

    /// Returns true when so much has changed that it must be committed before more changes.
    pub fn must_commit(&self) -> bool {
        self.is_fuller_than(4)
    }

    /// Returns how many more metadata blocks may change for the next commit to fit into the journal, which
    /// makes it atomic. It leaves half of the journal, because the frees of a commit change blocks as well.
    pub fn room_for_changes(&self) -> u64 {
        match self.journal_capacity() as u64 / 2 {
            0 => u64::MAX,
            room => room.saturating_sub(self.commits.changed_metadata.load(Ordering::Relaxed)),
        }
    }

    fn journal_capacity(&self) -> usize {
        self.commits.journal_capacity()
    }

    /// Returns true when the changes take more than 1/`part` of the journal or twice that of the cache.
    fn is_fuller_than(&self, part: u64) -> bool {
        self.commits.is_fuller_than(part, self.cache.budget())
    }

    /// Returns true when changes wait for a commit.
    pub fn has_changes(&self) -> bool {
        self.commits.changed_metadata.load(Ordering::Relaxed) > 0
            || self.commits.changed_data.load(Ordering::Relaxed) > 0
    }

    /// Copies all changed blocks. `freed_blocks` are positions of metadata blocks, `freed_ranges` first
    /// blocks and counts of file data, that this commit frees; `totals` are the counts of the volume with it,
    /// where they are known. The caller has closed the gate.
    ///
    /// # Errors
    /// [`Fault::Io`] where a table must be read that takes a checksum.
    pub fn snapshot(
        &self,
        changed: Vec<u64>,
        freed_blocks: &[u64],
        freed_ranges: &[(u64, u64)],
        totals: Option<Totals>,
    ) -> Result<CommitCopies, Fault> {
        let mut list: BTreeSet<u64> = changed.into_iter().collect();
        list.extend(self.commits.carried_over.lock().iter());
        // A block that was freed since needs no copy. When it is allocated again it is listed again.
        list.retain(|index| {
            let in_use = state::content(self.state(*index)).is_some();
            if !in_use {
                self.dirty(*index).store(Dirty::CLEAN, Ordering::SeqCst);
            }
            in_use
        });
        let is_data = |index: &u64| state::content(self.state(*index)) == Some(DATA);
        let mut data: BTreeSet<u64> = list.iter().copied().filter(is_data).collect();
        list.retain(|index| !is_data(index));
        // A snapshot has the checksums of all its data: no thread changes these blocks any more in place.
        if !planted::is(planted::Bug::StaleSums) {
            self.sum_frames(&data)?;
        }
        Sealer::new(self).seal_tables(&mut list)?;
        self.commits.carried_over.lock().clear();
        let capacity = self.journal_capacity();
        if list.len() + data.len() <= capacity / 2 && data.len() <= JOURNALED_DATA_BLOCKS.min(capacity / 8) {
            list.append(&mut data);
        } else {
            // A block of which the journal has an older copy must be journaled again, or that copy leave the
            // journal.
            let (mut again, mut in_place): (BTreeSet<u64>, BTreeSet<u64>) =
                data.into_iter().partition(|index| self.commits.has_committed(index * BLOCK));
            if list.len() + again.len() > capacity {
                self.checkpoint()?;
                in_place.append(&mut again);
            }
            list.append(&mut again);
            data = in_place;
        }
        let copies = self.copy_sealed(&list);
        // From now on the blocks may be evicted, and fetched from here.
        if !planted::is(planted::Bug::NoCopiesInFlight) {
            *self.commits.in_flight.lock() = Some(copies.clone());
        }
        for index in &list {
            self.dirty(*index).store(Dirty::CLEAN, Ordering::SeqCst);
        }
        self.commits.needs_data.store(!data.is_empty(), Ordering::SeqCst);
        self.commits.changed_metadata.store(0, Ordering::Relaxed);
        // The count begins again: it included blocks that were marked, and evicted before they were changed.
        self.commits.changed_data.store(data.len() as u64, Ordering::Relaxed);
        self.data_sums.begin_generation();
        let mut revoked = self.revocations(freed_blocks, freed_ranges);
        // A block that was freed and allocated again has its new copy.
        revoked.retain(|at| copies.get(*at).is_none());
        Ok(CommitCopies { copies, revoked, data: data.into_iter().collect(), totals })
    }

    fn copy_sealed(&self, list: &BTreeSet<u64>) -> Copies {
        let mut images = AlignedBuffer::zeroed(list.len() * BLOCK as usize);
        for (index, image) in list.iter().zip(images.chunks_exact_mut(BLOCK as usize)) {
            Sealer::new(self).copy(index * BLOCK, image);
        }
        Copies::new(list.iter().map(|index| index * BLOCK).collect(), images)
    }

    /// Returns the positions to revoke, ascending: all metadata blocks, and the file data that the journal
    /// may have.
    fn revocations(&self, freed_blocks: &[u64], freed_ranges: &[(u64, u64)]) -> Vec<u64> {
        let mut revoked = freed_blocks.to_vec();
        let pending = self.commits.pending.lock();
        for (first, count) in freed_ranges {
            let (mut at, end) = (first * BLOCK, (first + count) * BLOCK);
            while let Some(next) = pending.next_from(at).filter(|next| *next < end) {
                revoked.push(next);
                at = next + BLOCK;
            }
        }
        revoked.sort_unstable();
        revoked.dedup();
        revoked
    }

    /// Makes a snapshot durable.
    ///
    /// # Errors
    /// [`Fault::Io`]; the store then refuses further commits, because the content of the device is unknown.
    pub fn commit(&self, snapshot: CommitCopies) -> Result<(), Fault> {
        self.commit_by(snapshot, true)
    }

    /// Makes a snapshot durable as [`commit`](Self::commit) does, but writes its blocks in place and not to
    /// the journal. Nothing on the device names them yet, and the journal is empty.
    ///
    /// # Errors
    /// As [`commit`](Self::commit).
    pub fn commit_in_place(&self, snapshot: CommitCopies) -> Result<(), Fault> {
        self.commit_by(snapshot, false)
    }

    fn commit_by(&self, snapshot: CommitCopies, journaled: bool) -> Result<(), Fault> {
        let done = self.guarded(|device| self.commit_to(device, snapshot, journaled)).map(|_| ());
        if done.is_ok() {
            *self.commits.in_flight.lock() = None;
        }
        done
    }

    fn commit_to(
        &self,
        device: &dyn Device,
        mut snapshot: CommitCopies,
        journaled: bool,
    ) -> Result<(), Fault> {
        let mut left = self.write_back(device, &mut snapshot.data, false)?;
        self.commits.carried_over.lock().append(&mut left);
        self.commits.needs_data.store(false, Ordering::SeqCst);
        self.write_queue.wait_until_written();
        self.check_failure()?;
        let flush = || device.flush().map_err(|e| io_fault(0, "flushing", &e));
        if self.commits.wrote_data.swap(false, Ordering::SeqCst) {
            flush()?;
        }
        let copies = &snapshot.copies;
        if copies.positions.is_empty() && snapshot.revoked.is_empty() {
            return Ok(());
        }
        let mut guard = self.commits.lock_journal();
        let mut journal = guard.as_mut();
        let (blocks, revoked) = (copies.positions.len(), snapshot.revoked.len());
        if let Some(journal) = journal.as_deref_mut().filter(|_| journaled)
            && !journal.fits(blocks, revoked)
        {
            self.checkpoint_into(device, journal)?;
        }
        match journal {
            Some(journal) if journaled && journal.fits(blocks, revoked) => {
                self.append(device, journal, &snapshot)?;
            }
            // Without a journal, or for a single change that is larger than it, the commit is in place and
            // not atomic.
            journal => {
                if let Some(journal) = journal {
                    journal.begin(device, &self.sums, None)?;
                }
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

    fn append(
        &self,
        device: &dyn Device,
        journal: &mut Journal,
        snapshot: &CommitCopies,
    ) -> Result<(), Fault> {
        let copies = &snapshot.copies;
        let implied = match self.has_data_checksums() {
            true => Implied::find(&self.sums, copies, &self.commits.pending.lock()),
            false => Implied::default(),
        };
        let is_logged = |(at, _): &(u64, &[u8])| implied.left_out.binary_search(at).is_err();
        let blocks: Vec<(u64, &[u8])> = copies.iter().filter(is_logged).collect();
        let commit = Commit {
            blocks: &blocks,
            summed: &implied.summed,
            revoked: &snapshot.revoked,
            totals: snapshot.totals,
        };
        journal.append(device, &self.sums, &commit)?;
        let mut pending = self.commits.pending.lock();
        for at in &snapshot.revoked {
            pending.revoke(*at);
        }
        for (index, at) in copies.positions.iter().enumerate() {
            if let Some(image) = Image::of(&copies.images, index) {
                pending.add(journal.last(), *at, image);
            }
        }
        self.commits.counters.journal_bytes.store(journal.written(), Ordering::Relaxed);
        Ok(())
    }

    /// Writes committed blocks in place and empties the journal.
    ///
    /// # Errors
    /// [`Fault::Io`].
    pub fn checkpoint(&self) -> Result<(), Fault> {
        self.guarded(|device| match self.commits.lock_journal().as_mut() {
            Some(journal) => self.checkpoint_into(device, journal),
            None => Ok(()),
        })
        .map(|_| ())
    }

    /// Returns true when the journal is so full that it should be emptied soon, or the images of its blocks,
    /// which stay in memory until they are in place, take as much as a quarter of the cache.
    pub fn should_checkpoint(&self) -> bool {
        let is_full = |journal: &Journal| journal.used() > 0.5;
        self.commits.lock_journal().as_ref().is_some_and(is_full) || self.has_many_images()
    }

    /// Returns true when the images of the journal's blocks take so much memory that a next snapshot should
    /// not be taken beside them.
    pub fn has_many_images(&self) -> bool {
        let most = self.cache.budget() / 4;
        self.commits.lock_journal().as_ref().is_some_and(|journal| journal.used_blocks() > most)
    }

    fn checkpoint_into(&self, device: &dyn Device, journal: &mut Journal) -> Result<(), Fault> {
        let last = journal.last();
        let (mut from, mut written) = (0, Vec::new());
        loop {
            let batch = self.commits.pending.lock().batch(from, last, BATCH_BLOCKS);
            let Some(end) = batch.last() else { break };
            assert!(batch[0].position >= from, "batches ascend");
            from = end.position + BLOCK;
            let requests: Vec<Write<'_>> = batch
                .iter()
                .map(|block| Write { at: block.position, data: IoBuf::new(&block.image) })
                .collect();
            device.write_many(&requests).map_err(|e| io_fault(batch[0].position, "writing", &e))?;
            written.extend(batch.iter().map(|block| (block.position, block.sequence)));
        }
        device.flush().map_err(|e| io_fault(0, "flushing", &e))?;
        self.commits.counters.in_place_bytes.fetch_add(written.len() as u64 * BLOCK, Ordering::Relaxed);
        self.commits.pending.lock().done(&written);
        assert!(self.commits.pending.lock().is_empty(), "no block waits whose copy the journal frees");
        journal.advance(device, &self.sums, last)
    }
}
