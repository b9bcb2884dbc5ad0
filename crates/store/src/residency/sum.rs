//! Checksums of file data: computed when a block is written, compared when it is fetched.
//!
//! The position of a checksum follows from the position of its block ([`SumPlace`]). The checksum lies in a
//! block of metadata that is journaled, fetched and evicted as any other. From the moment at which a block
//! of file data is dirty until the next snapshot, the block with its checksum is dirty too, and so resident.

use crate::device::Device;
use crate::memory::dirty::Dirty;
use crate::memory::state;
use crate::memory::versions::{Grain, record};
use crate::memory::view::View;
use crate::store::Store;
use crate::transaction::tx::Log;
use crate::vocabulary::fault::{Fault, Want, misplaced};
use crate::vocabulary::planted;
use lanefs_format::{BLOCK, BlockKind, SumPlace};
use lanefs_sync::yield_now;
use std::ops::Range;
use std::sync::atomic::{Ordering, fence};

/// Returns the positions of the blocks with the checksums of these data blocks.
pub(crate) fn sum_blocks(blocks: Range<u64>) -> impl Iterator<Item = u64> {
    let mut next = blocks.start;
    let mut last = 0;
    std::iter::from_fn(move || {
        while next < blocks.end {
            let at = SumPlace::of(next * BLOCK).at;
            next += 1;
            if at != last {
                last = at;
                return Some(at);
            }
        }
        None
    })
}

impl Store {
    /// Keeps checksums of file data from now on. No thread has used the store yet.
    pub fn use_data_checksums(&self) {
        if !self.is_memory() {
            self.data_sums.start();
        }
    }

    /// Returns true where file data have checksums.
    #[inline(always)]
    pub fn has_data_checksums(&self) -> bool {
        self.data_sums.is_in_use()
    }

    /// Returns whether the data block at `at` may be overwritten in place, and of how many blocks from there
    /// on, `most` at most, the same is true. A block that a commit may have is never overwritten: its
    /// checksum would be wrong after a crash.
    pub fn may_overwrite(&self, at: u64, most: u64) -> (bool, u64) {
        let blocks = at / BLOCK..(at / BLOCK).saturating_add(most).min(self.bytes() / BLOCK);
        let always = !self.has_data_checksums() || planted::is(planted::Bug::OverwriteCommitted);
        if always || blocks.is_empty() {
            return (true, most);
        }
        self.data_sums.young(blocks)
    }

    /// Checks that the checksums of data blocks are resident.
    ///
    /// # Errors
    /// [`Fault::Miss`], [`Fault::Damaged`].
    pub(crate) fn check_sums(&self, blocks: Range<u64>) -> Result<(), Fault> {
        if self.has_data_checksums() {
            sum_blocks(blocks)
                .try_for_each(|at| self.view_of(at, BLOCK as usize, BlockKind::Sums).map(drop))?;
        }
        Ok(())
    }

    /// Makes the checksums of data blocks dirty that are about to be written, so that they stay until the
    /// next snapshot. Blocks that are not `summed` have none from now on.
    ///
    /// # Errors
    /// [`Fault::Miss`], [`Fault::Damaged`].
    pub(crate) fn hold_sums(&self, blocks: Range<u64>, summed: bool, log: &mut Log) -> Result<(), Fault> {
        if !self.has_data_checksums() || !summed && blocks.clone().all(|index| self.data_sums.is_plain(index))
        {
            return Ok(());
        }
        for at in sum_blocks(blocks.clone()) {
            self.inside(at, BLOCK as usize)?;
            // A thread that claims a block to evict it loads the mark after the claim; here the mark comes
            // first. A marked block stays marked until the next snapshot.
            if self.dirty(at / BLOCK).load(Ordering::SeqCst) != Dirty::CHANGED {
                self.mark_dirty(at, log.changed_mut());
            }
            if state::kind(self.state(at / BLOCK)) != Some(BlockKind::Sums) {
                return Err(Fault::Miss { at, want: Want::Block(BlockKind::Sums) });
            }
        }
        for index in blocks {
            if summed {
                self.data_sums.note_written(index);
            } else if !self.data_sums.is_plain(index) {
                self.store_sum(index * BLOCK, 0)?;
                self.data_sums.note_plain(index);
            }
        }
        Ok(())
    }

    fn store_sum(&self, at: u64, sum: u32) -> Result<(), Fault> {
        let slot = SumPlace::of(at);
        let view: View<'_> = self.view_of(slot.at, BLOCK as usize, BlockKind::Sums)?;
        debug_assert!(
            self.dirty(slot.at / BLOCK).load(Ordering::SeqCst) == Dirty::CHANGED,
            "a checksum changes in a clean block"
        );
        view.store_shared(slot.field, sum);
        Ok(())
    }

    /// Stores the checksums of blocks whose bytes are about to be written, from their frames.
    ///
    /// # Errors
    /// [`Fault::Damaged`] for a block that became dirty without its checksum: a bug.
    pub(crate) fn sum_frames<'a>(&self, blocks: impl IntoIterator<Item = &'a u64>) -> Result<(), Fault> {
        if !self.has_data_checksums() {
            return Ok(());
        }
        let mut bytes = [0; BLOCK as usize];
        for index in blocks.into_iter().filter(|index| !self.data_sums.is_plain(**index)) {
            self.view(index * BLOCK).copy_to(0, &mut bytes);
            self.store_sum(index * BLOCK, self.sums.of_data(index * BLOCK, &bytes))?;
        }
        Ok(())
    }

    /// Stores the checksums of consecutive blocks of new data.
    ///
    /// # Errors
    /// As [`sum_frames`](Self::sum_frames).
    pub(crate) fn sum_new(&self, first: u64, data: &[u8]) -> Result<(), Fault> {
        if !self.has_data_checksums() {
            return Ok(());
        }
        for (index, block) in (first..).zip(data.chunks_exact(BLOCK as usize)) {
            if !self.data_sums.is_plain(index) {
                self.store_sum(index * BLOCK, self.sums.of_data(index * BLOCK, block))?;
            }
        }
        Ok(())
    }

    /// Compares a block of file data that was read into its frame with its checksum.
    ///
    /// # Errors
    /// [`Fault::WrongData`]; the faults of fetching the checksum; [`Fault::Damaged`] for a block that has
    /// checksums.
    pub(crate) fn verify_data(&self, device: &dyn Device, at: u64) -> Result<(), Fault> {
        if !self.has_data_checksums() {
            return Ok(());
        }
        // The caller has claimed the block. It would wait for itself, or for a thread that waits for it.
        if SumPlace::first_of(at).is_some() {
            return Err(misplaced(at));
        }
        let sum = self.sum_of(device, at)?;
        if sum == 0 {
            return Ok(());
        }
        // A private copy, as for metadata: no reference may stand for a frame.
        let mut bytes = [0; BLOCK as usize];
        self.frames.copy_out(at, &mut bytes);
        self.data_sums.verified.fetch_add(1, Ordering::Relaxed);
        if self.sums.of_data(at, &bytes) == sum { Ok(()) } else { Err(Fault::WrongData { at }) }
    }

    /// Returns the checksum of a data block, which is 0 for none. The block with it may be evicted while it
    /// is read: its version shows that.
    pub(crate) fn sum_of(&self, device: &dyn Device, at: u64) -> Result<u32, Fault> {
        let slot = SumPlace::of(at);
        let record = record(slot.at, Grain::of(BlockKind::Sums));
        loop {
            let before = self.versions().load(record);
            match self.view_of(slot.at, BLOCK as usize, BlockKind::Sums) {
                Ok(view) => {
                    let sum = view.get(slot.field);
                    fence(Ordering::Acquire);
                    if before.owner().is_none() && self.versions().load(record) == before {
                        return Ok(sum);
                    }
                    yield_now();
                }
                Err(Fault::Miss { .. }) => self.fetch_block(device, slot.at, BlockKind::Sums)?,
                Err(fault) => return Err(fault),
            }
        }
    }
}
