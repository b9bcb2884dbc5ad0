//! File data: blocks of a volume without structure. Their checksums are elsewhere, see [`sum`](crate::residency::sum).
//!
//! The ownership record of the file's inode orders reads and writes: a writer of the data has locked it, and
//! a reader tracks it. A copy may still race with a copy in the other direction, word by word; the attempt
//! that reads is then stale.

use crate::memory::dirty::Dirty;
use crate::memory::state::{self, ABSENT, DATA, FETCHING, FREE, ONCE};
use crate::store::Store;
use crate::transaction::reader::Reader;
use crate::transaction::tx::{Log, Tx};
use crate::vocabulary::fault::{Fault, Want, misplaced};
use crate::vocabulary::words::WORD;
use lanefs_format::BLOCK;
use lanefs_sync::point;
use std::ops::Range;
use std::sync::atomic::Ordering;

/// Least number of blocks for which the host may take the pages of data that are no longer needed.
const RELEASE_BLOCKS: u64 = 16;

/// Returns the parts in which bytes are copied: one, or two in schedule tests, which switch threads in the
/// middle, between words.
fn parts(len: usize) -> impl Iterator<Item = Range<usize>> {
    let middle = if cfg!(feature = "_shuttle") { len / 2 / WORD * WORD } else { 0 };
    point();
    [0..middle, middle..len].into_iter().filter(|part| !part.is_empty()).inspect(|_| point())
}

/// File data to write.
#[derive(Clone, Copy)]
pub struct DataWrite<'a> {
    /// Position on the volume.
    pub at: u64,
    /// The bytes.
    pub data: &'a [u8],
    /// The blocks have checksums.
    pub summed: bool,
}

impl DataWrite<'_> {
    fn blocks(&self) -> Range<u64> {
        self.at / BLOCK..(self.at + self.data.len() as u64).div_ceil(BLOCK)
    }

    fn covers(&self, index: u64) -> bool {
        self.at <= index * BLOCK && (index + 1) * BLOCK <= self.at + self.data.len() as u64
    }
}

impl Reader<'_> {
    /// Reads file data at `at`. `extent`: number of consecutive blocks of the same file from that of `at` on,
    /// for readahead.
    ///
    /// # Errors
    /// [`Fault::Miss`], [`Fault::Conflict`], or [`Fault::Damaged`] for a range outside the volume.
    pub fn read_data(&self, at: u64, buffer: &mut [u8], extent: u64) -> Result<(), Fault> {
        self.inside(at, buffer.len())?;
        if !self.is_memory() {
            self.check_data(at, buffer.len(), extent)?;
        }
        for part in parts(buffer.len()) {
            self.frames.copy_out(at + part.start as u64, &mut buffer[part]);
        }
        Ok(())
    }

    /// Checks that all blocks of the range are resident, and tracks them.
    fn check_data(&self, at: u64, len: usize, extent: u64) -> Result<(), Fault> {
        let (first, end) = (at / BLOCK, (at + len as u64).div_ceil(BLOCK));
        for index in first..end {
            self.track_data(index * BLOCK)?;
            let state = self.state(index);
            if state == DATA {
                continue;
            }
            if state::content(state) != Some(DATA) {
                let done = index - first;
                let need = (end - index) as u32;
                let extent = extent.saturating_sub(done).max(u64::from(need)).min(u64::from(u32::MAX)) as u32;
                return Err(self.no_data(index * BLOCK, state, need, extent));
            }
            self.use_again(index, state);
        }
        Ok(())
    }
}

impl Store {
    pub(crate) fn no_data(&self, at: u64, state: u8, need: u32, extent: u32) -> Fault {
        match state {
            ABSENT | FETCHING | state::EVICTING => Fault::Miss { at, want: Want::Data { need, extent } },
            _ => misplaced(at),
        }
    }

    /// Drops file data that were freed, before their blocks may be allocated again. The caller has locked the
    /// structures that name them, and is in a slot.
    pub fn drop_data(&self, first: u64, count: u64) {
        if self.inside(first.saturating_mul(BLOCK), (count * BLOCK) as usize).is_err()
            || self.check_changeable().is_err()
        {
            return;
        }
        if self.is_memory() {
            if count >= RELEASE_BLOCKS {
                self.frames.release_when_wanted(first * BLOCK, (count * BLOCK) as usize);
            }
            return;
        }
        let mut claimed = first;
        for index in first..first + count {
            if self.drop_block(index) {
                self.cache.forget(1);
                continue;
            }
            self.release_frames(claimed, index, FREE);
            claimed = index + 1;
        }
        self.release_frames(claimed, first + count, FREE);
    }

    /// Claims a block of data that is dropped. Returns false where there is none, or where a commit in
    /// progress needs it: after a crash that follows that commit the file exists again. Such a block is
    /// evicted as others are, once it is written.
    fn drop_block(&self, index: u64) -> bool {
        let state = self.state(index);
        let is_needed = |dirty: u8| {
            dirty == Dirty::WRITING
                || dirty == Dirty::CHANGED && self.commits.needs_data.load(Ordering::SeqCst)
        };
        if state::content(state) != Some(DATA)
            || is_needed(self.dirty(index).load(Ordering::SeqCst))
            || !self.change_state(index, state, state::EVICTING)
        {
            return false;
        }
        let (from, to) = (Dirty::CHANGED, Dirty::CLEAN);
        match self.dirty(index).compare_exchange(from, to, Ordering::SeqCst, Ordering::SeqCst) {
            Err(Dirty::WRITING) => {
                // Its write began before the claim.
                self.set_state(index, state);
                return false;
            }
            dirty => self.commits.uncount_data(dirty.unwrap_or_else(|dirty| dirty)),
        }
        true
    }
}

impl Tx<'_> {
    /// Checks that data can be written at `at`: blocks that are written in part must be resident, and so must
    /// the checksums of all. An operation calls it for all ranges before it writes the first.
    ///
    /// # Errors
    /// [`Fault::Miss`], or [`Fault::Damaged`] for a range outside the volume.
    pub fn prepare_data(&self, at: u64, len: usize) -> Result<(), Fault> {
        let store = self.reader().store();
        store.inside(at, len)?;
        if store.is_memory() {
            return Ok(());
        }
        let (first, last) = (at / BLOCK, (at + len as u64 - 1) / BLOCK);
        let whole = |index: u64| at <= index * BLOCK && (index + 1) * BLOCK <= at + len as u64;
        for index in [first, last] {
            let state = store.state(index);
            if !whole(index) && state::content(state) != Some(DATA) {
                return Err(store.no_data(index * BLOCK, state, 1, 1));
            }
        }
        store.check_sums(first..last + 1)
    }

    /// Writes file data, once the transaction is [validated](Tx::validate) and has locked the file's inode.
    /// The blocks have checksums where they are `summed`; each is then new, or one that
    /// [may be overwritten](Store::may_overwrite).
    ///
    /// # Errors
    /// [`Fault::Miss`], or [`Fault::Damaged`] for a range outside the volume.
    pub fn write_data(&mut self, at: u64, data: &[u8], summed: bool) -> Result<(), Fault> {
        self.write_data_parts(&[DataWrite { at, data, summed }])
    }

    /// Writes several parts, as [`write_data`](Self::write_data), in their order: all of them, or, where this
    /// fails, none. So an attempt that is rolled back has not changed data that readers see.
    ///
    /// # Errors
    /// As [`write_data`](Self::write_data).
    pub fn write_data_parts(&mut self, all: &[DataWrite<'_>]) -> Result<(), Fault> {
        let (reader, log) = self.parts();
        let store = reader.store();
        store.check_changeable()?;
        for part in all {
            store.inside(part.at, part.data.len())?;
            store.hold_sums(part.blocks(), part.summed, log)?;
        }
        if store.is_memory() {
            for index in all.iter().flat_map(DataWrite::blocks) {
                store.find_frame(index)?;
            }
        } else {
            let mut taken =
                blocks_to_take(all).map(|(index, whole)| take_for_writing(store, index, whole, log));
            let mut count = 0;
            let failed = taken.find_map(|taken| taken.map(|()| count += 1).err());
            drop(taken);
            if let Some(fault) = failed {
                // Blocks that were absent are absent again, and not zeros.
                for (index, _) in blocks_to_take(all).take(count) {
                    store.finish_fetch(index, ABSENT, Ok(()));
                    store.unpin_data(index);
                }
                return Err(fault);
            }
        }
        for DataWrite { at, data, .. } in all {
            for part in parts(data.len()) {
                store.frames.copy_in(at + part.start as u64, &data[part]);
            }
        }
        if !store.is_memory() {
            for (index, _) in blocks_to_take(all) {
                if store.state(index) == FETCHING {
                    store.pin_data(index, log.changed_mut());
                    store.cache.add(index, 1);
                    store.finish_fetch(index, DATA | ONCE, Ok(()));
                }
                store.unpin_data(index);
            }
        }
        Ok(())
    }
}

/// Returns each block of some parts once, and whether the first part that has it writes it as a whole.
fn blocks_to_take<'a>(all: &'a [DataWrite<'_>]) -> impl Iterator<Item = (u64, bool)> + 'a {
    all.iter().enumerate().flat_map(move |(i, part)| {
        let is_first = move |index: &u64| !all[..i].iter().any(|earlier| earlier.blocks().contains(index));
        part.blocks().filter(is_first).map(|index| (index, part.covers(index)))
    })
}

/// Takes a block to write data in it. A resident block is pinned and stays: the cache loads the mark after it
/// has claimed a block, and this function loads the block's state after it has set the mark. An absent block
/// that will be written as a whole is claimed as for a fetch, so that no other thread sees it before it is
/// written.
fn take_for_writing(store: &Store, index: u64, whole: bool, log: &mut Log) -> Result<(), Fault> {
    let may_claim = whole && store.may_hold_data(index);
    if may_claim && (store.claim_frame(index, ABSENT)? || store.claim_frame(index, FREE)?) {
        return Ok(());
    }
    if state::content(store.state(index)) == Some(DATA) {
        store.pin_data(index, log.changed_mut());
    }
    match store.state_in_order(index) {
        resident if state::content(resident) == Some(DATA) => Ok(()),
        absent => {
            store.unpin_data(index);
            Err(store.no_data(index * BLOCK, absent, 1, 1))
        }
    }
}
