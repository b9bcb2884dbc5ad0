//! File data: blocks of a volume without structure or checksum.
//!
//! What reads and writes meet here is ordered by the record of the file's inode, which a writer of its data holds and a
//! reader looks at again. The copying itself may meet a copying the other way; such a read does not count.

use crate::state::{self, ABSENT, DATA, FREE, ONCE};
use crate::store::Dirt;
use crate::{Fault, Log, Reader, Store, Tx, Want};
use lanefs_format::BLOCK;
use std::sync::atomic::Ordering;

/// Ranges of memory from this size on are given back to the host when their data are no longer needed.
const RELEASE_BLOCKS: u64 = 16;

/// Copies bytes of which others may change some meanwhile.
///
/// # Safety
/// Both ranges are valid for `len` bytes and do not overlap.
#[inline(always)]
unsafe fn copy(from: *const u8, to: *mut u8, len: usize) {
    // One instruction of the processor and not a loop of the language, for which such a race would be undefined.
    #[cfg(target_arch = "x86_64")]
    // SAFETY: the caller's ranges; the direction flag is clear by the ABI.
    unsafe {
        std::arch::asm!(
            "rep movsb",
            inout("rcx") len => _, inout("rsi") from => _, inout("rdi") to => _,
            options(nostack, preserves_flags)
        );
    }
    #[cfg(not(target_arch = "x86_64"))]
    // SAFETY: the caller's ranges; every byte is accessed by itself, atomically or not at all changed by the compiler.
    unsafe {
        for i in 0..len {
            to.add(i).write_volatile(from.add(i).read_volatile());
        }
    }
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
        // SAFETY: the range is inside the volume, the buffer is not.
        unsafe { copy(self.arena.address(at).as_ptr(), buffer.as_mut_ptr(), buffer.len()) };
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
            ABSENT | state::FETCHING | state::EVICTING => {
                Fault::Miss { at, want: Want::Data { need, extent } }
            }
            _ => Fault::damaged(at, "file data where metadata is"),
        }
    }

    /// Drops data that nobody needs any more, before others may use their place. The caller holds what said so.
    pub fn drop_data(&self, first: u64, count: u64) {
        if self.inside(first.saturating_mul(BLOCK), (count * BLOCK) as usize).is_err() {
            return;
        }
        if self.is_memory() {
            if count >= RELEASE_BLOCKS {
                self.arena.release((first * BLOCK) as usize, (count * BLOCK) as usize);
            }
            return;
        }
        let mut run = first;
        for index in first..first + count {
            let state = self.state(index);
            let dropped =
                state::content(state) == Some(DATA) && self.change_state(index, state, state::EVICTING);
            if dropped {
                self.commits.uncount_data(self.dirt(index).swap(Dirt::CLEAN, Ordering::SeqCst));
                self.cache.forget(1);
                continue;
            }
            self.leave(run, index, FREE);
            run = index + 1;
        }
        self.leave(run, first + count, FREE);
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
        if !store.is_memory() {
            for index in at / BLOCK..(at + data.len() as u64).div_ceil(BLOCK) {
                let whole = at <= index * BLOCK && (index + 1) * BLOCK <= at + data.len() as u64;
                take_for_writing(store, index, whole, log)?;
            }
        }
        // SAFETY: the range is inside the volume, the data are not.
        unsafe { copy(data.as_ptr(), store.arena.address(at).as_ptr(), data.len()) };
        Ok(())
    }
}

/// Makes a block resident and changed. It stays, for the cache looks at the mark after it has claimed a block, and we at the
/// block's state after we have marked it.
fn take_for_writing(store: &Store, index: u64, whole: bool, log: &mut Log) -> Result<(), Fault> {
    loop {
        if whole
            && (store.change_state(index, ABSENT, DATA | ONCE)
                || store.change_state(index, FREE, DATA | ONCE))
        {
            store.cache.add(index, 1);
        }
        store.mark(index * BLOCK, log.changed_mut());
        let state = store.state(index);
        match state::content(state) {
            Some(DATA) => return Ok(()),
            _ if matches!(state, ABSENT | FREE) && whole => {}
            _ => return Err(store.no_data(index * BLOCK, state, 1, 1)),
        }
    }
}
