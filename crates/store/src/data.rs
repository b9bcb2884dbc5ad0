//! File data: blocks of a volume without structure or checksum.
//!
//! What reads and writes meet here is ordered by the record of the file's inode, which a writer of its data holds and a
//! reader looks at again. The copying itself may meet a copying the other way; such a read does not count.

use crate::state::{self, ABSENT, DATA, FETCHING, FREE, ONCE};
use crate::store::Dirt;
use crate::words::WORD;
use crate::{Fault, Log, Reader, Store, Tx, Want};
use lanefs_format::BLOCK;
use lanefs_sync::point;
use std::ops::Range;
use std::sync::atomic::Ordering;

/// Ranges of memory from this size on are the host's to take when their data are no longer needed.
const RELEASE_BLOCKS: u64 = 16;

/// The parts in which bytes are copied: all at once, but schedule tests stop in the middle, at a word.
fn parts(len: usize) -> impl Iterator<Item = Range<usize>> {
    let middle = if cfg!(feature = "shuttle") { len / 2 / WORD * WORD } else { 0 };
    point();
    [0..middle, middle..len].into_iter().filter(|part| !part.is_empty()).inspect(|_| point())
}

impl Reader<'_> {
    /// Reads file data at `at`. `extent`: blocks of the same file that follow each other from that of `at` on, for reading ahead.
    ///
    /// # Errors
    /// [`Fault::Miss`], [`Fault::Conflict`], or [`Fault::Damaged`] for a range outside the volume.
    pub fn read_data(&self, at: u64, buffer: &mut [u8], extent: u64) -> Result<(), Fault> {
        self.inside(at, buffer.len())?;
        if !self.is_memory() {
            self.look_at_data(at, buffer.len(), extent)?;
        }
        for part in parts(buffer.len()) {
            self.arena.copy_out(at + part.start as u64, &mut buffer[part]);
        }
        Ok(())
    }

    /// All blocks of the range are here.
    fn look_at_data(&self, at: u64, len: usize, extent: u64) -> Result<(), Fault> {
        let (first, end) = (at / BLOCK, (at + len as u64).div_ceil(BLOCK));
        for index in first..end {
            self.note_data(index * BLOCK)?;
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
    fn no_data(&self, at: u64, state: u8, need: u32, extent: u32) -> Fault {
        match state {
            ABSENT | FETCHING | state::EVICTING => Fault::Miss { at, want: Want::Data { need, extent } },
            _ => Fault::damaged(at, "file data where metadata is"),
        }
    }

    /// Drops data that nobody needs any more, before others may use their place. The caller holds what said so, and is in a slot.
    pub fn drop_data(&self, first: u64, count: u64) {
        if self.inside(first.saturating_mul(BLOCK), (count * BLOCK) as usize).is_err() {
            return;
        }
        if self.is_memory() {
            if count >= RELEASE_BLOCKS {
                self.arena.release_when_wanted((first * BLOCK) as usize, (count * BLOCK) as usize);
            }
            return;
        }
        let mut run = first;
        for index in first..first + count {
            if self.drop_block(index) {
                self.cache.forget(1);
                continue;
            }
            self.leave(run, index, FREE);
            run = index + 1;
        }
        self.leave(run, first + count, FREE);
    }

    /// Takes a block of data from everybody. False where there is none, or where a commit from before needs it: a crash behind
    /// that commit would bring the file back. It is then let go as others are, once it is written.
    fn drop_block(&self, index: u64) -> bool {
        let state = self.state(index);
        let is_needed = |dirt: u8| {
            dirt == Dirt::WRITING || dirt == Dirt::CHANGED && self.commits.needs_data.load(Ordering::SeqCst)
        };
        if state::content(state) != Some(DATA)
            || is_needed(self.dirt(index).load(Ordering::SeqCst))
            || !self.change_state(index, state, state::EVICTING)
        {
            return false;
        }
        let (from, to) = (Dirt::CHANGED, Dirt::CLEAN);
        match self.dirt(index).compare_exchange(from, to, Ordering::SeqCst, Ordering::SeqCst) {
            Err(Dirt::WRITING) => {
                // Its writing began before it was claimed.
                self.set_state(index, state);
                return false;
            }
            dirt => self.commits.uncount_data(dirt.unwrap_or_else(|dirt| dirt)),
        }
        true
    }

    /// Gives the memory of blocks back that are on their way out; what they are then.
    pub(crate) fn leave(&self, first: u64, end: u64, state: u8) {
        if first < end {
            self.arena.release((first * BLOCK) as usize, ((end - first) * BLOCK) as usize);
            for index in first..end {
                self.set_state(index, state);
            }
        }
    }
}

impl Tx<'_> {
    /// Sees to it that data can be written at `at`: blocks that are written in part must be here. Call it for all that an
    /// operation will write before the first is written.
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
        Ok(())
    }

    /// Writes file data in place, once the transaction is [validated](Tx::validate) and holds the file's inode.
    ///
    /// # Errors
    /// [`Fault::Miss`], or [`Fault::Damaged`] for a range outside the volume.
    pub fn write_data(&mut self, at: u64, data: &[u8]) -> Result<(), Fault> {
        let (reader, log) = self.parts();
        let store = reader.store();
        store.inside(at, data.len())?;
        let blocks = at / BLOCK..(at + data.len() as u64).div_ceil(BLOCK);
        if !store.is_memory() {
            let mut taken = blocks.clone().map(|index| {
                let whole = at <= index * BLOCK && (index + 1) * BLOCK <= at + data.len() as u64;
                (index, take_for_writing(store, index, whole, log))
            });
            if let Some((end, Err(fault))) = taken.find(|(_, taken)| taken.is_err()) {
                drop(taken);
                // What was absent is so again, and not zeros.
                for index in blocks.start..end {
                    store.finish(index, ABSENT, Ok(()));
                    store.let_data_go(index);
                }
                return Err(fault);
            }
        }
        for part in parts(data.len()) {
            store.arena.copy_in(at + part.start as u64, &data[part]);
        }
        if !store.is_memory() {
            for index in blocks {
                if store.state(index) == FETCHING {
                    store.hold_data(index, log.changed_mut());
                    store.cache.add(index, 1);
                    store.finish(index, DATA | ONCE, Ok(()));
                }
                store.let_data_go(index);
            }
        }
        Ok(())
    }
}

/// Takes a block to write data in it: one that is here is held and stays, for the cache looks at the mark after it has
/// claimed a block, and we at the block's state after we have marked it. One that is absent and will be written as a whole is
/// claimed as if it were fetched, so that nobody sees it before it is.
fn take_for_writing(store: &Store, index: u64, whole: bool, log: &mut Log) -> Result<(), Fault> {
    let claim = |free: u8| store.change_state(index, free, FETCHING);
    if whole && (claim(ABSENT) || claim(FREE)) {
        return Ok(());
    }
    if state::content(store.state(index)) == Some(DATA) {
        store.hold_data(index, log.changed_mut());
    }
    match store.state(index) {
        here if state::content(here) == Some(DATA) => Ok(()),
        gone => {
            store.let_data_go(index);
            Err(store.no_data(index * BLOCK, gone, 1, 1))
        }
    }
}
