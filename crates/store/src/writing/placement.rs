//! Placement: the blocks in which file data may lie.
//!
//! A file map is bytes from a device, which may say that a file's data are the group table, or the block with
//! their own checksum. A position of file data becomes a fetch in one place
//! ([`fetch_data`](Store::fetch_data)), and a claim for new data in two. These ask, so every caller is covered
//! and a hit pays nothing. (A block that is resident as metadata is not handed out as data either: its state
//! says so.)

use crate::store::Store;
use lanefs_format::{BLOCK, BLOCKS_PER_CHUNK, BLOCKS_PER_GROUP, BlockKind, group as g, sums_chunk};
use std::ops::Range;

impl Store {
    /// Returns the position of the group table, and its number of blocks.
    pub fn group_table(&self) -> (u64, u64) {
        self.places.groups.get()
    }

    /// Moves the group table: `count` blocks from `at` on. No other thread uses the store, or the caller has
    /// closed the gate.
    pub fn set_group_table(&self, at: u64, count: u64) {
        self.places.groups.set(at, count);
    }

    /// Says that `blocks` blocks from `at` on are a journal that is not in use: the volume was closed, and is
    /// open for reading.
    pub fn set_idle_journal(&self, at: u64, blocks: u64) {
        self.places.idle_journal.set(at, blocks);
    }

    /// Returns false for a block of the group table, of an idle journal, of a chunk of checksums, or of a
    /// metadata chunk. The last needs the block of the group table, and is unknown where that is not
    /// resident.
    pub(crate) fn may_hold_data(&self, index: u64) -> bool {
        let (group, chunk) = (index / BLOCKS_PER_GROUP, index % BLOCKS_PER_GROUP / BLOCKS_PER_CHUNK);
        let is_for_sums = || sums_chunk(group) / BLOCK == group * BLOCKS_PER_GROUP + chunk * BLOCKS_PER_CHUNK;
        let is_metadata = |at| {
            let view = self.view_of(at, BLOCK as usize, BlockKind::Group);
            view.is_ok_and(|view| view.get(g::METADATA) >> chunk & 1 != 0)
        };
        let is_taken = self.places.groups.has(index)
            || self.places.idle_journal.has(index)
            || self.has_data_checksums() && is_for_sums()
            || self.places.groups.block(group).is_some_and(is_metadata);
        !is_taken
    }

    /// Returns the positions of the absent blocks of the group table that say what these blocks hold.
    pub(crate) fn absent_groups(&self, blocks: Range<u64>) -> impl Iterator<Item = u64> {
        let end = if blocks.is_empty() { 0 } else { blocks.end.div_ceil(BLOCKS_PER_GROUP) };
        let all = (blocks.start / BLOCKS_PER_GROUP..end).map_while(|group| self.places.groups.block(group));
        all.filter(|at| !self.is_resident(*at, BlockKind::Group) && !self.places.is_silent(*at))
    }
}
