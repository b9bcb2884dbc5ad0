//! Where a writer goes on looking for room. A hint may be out of date: the truth is in the volume's bytes.

use lanefs_format::{BLOCK, BLOCKS_PER_CHUNK, CHUNK};

/// Where a writer's allocations go on. All of it can be found again from the volume's bytes; a transaction that is taken
/// back restores it as a whole.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Hints {
    /// Inode block with room (position), 0 for none.
    pub(crate) inode_block: u64,
    /// Place in it to go on from.
    pub(crate) inode_slot: u64,
    /// Metadata chunk to take blocks from (position), 0 for none.
    pub(crate) chunk: u64,
    /// Place in its table to go on from.
    pub(crate) chunk_slot: u64,
    /// True after a look at all groups found no inode block with room.
    pub(crate) no_inode_room: bool,
    /// True after a look at all groups found no metadata chunk with room.
    pub(crate) no_chunk_room: bool,
    /// Group in which blocks for files that begin were found last; those before it had few.
    pub(crate) data_group: u64,
}

impl Hints {
    /// Asserts that each hint points at what it is about.
    #[inline(always)]
    pub(crate) fn assert_sound(&self) {
        debug_assert!(self.inode_block.is_multiple_of(BLOCK), "an inode block at {:#x}", self.inode_block);
        debug_assert!(self.chunk.is_multiple_of(CHUNK), "a chunk at {:#x}", self.chunk);
        debug_assert!(self.chunk_slot <= BLOCKS_PER_CHUNK, "slot {} of a chunk", self.chunk_slot);
    }
}

/// Directories that are remembered.
const SLOTS: usize = 16;

/// For some directories, the leaf in which this writer found room last. It may be full or gone by now.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct LeafHints {
    slots: [(u64, u64); SLOTS],
}

impl LeafHints {
    /// Position of the leaf, 0 for none.
    #[inline(always)]
    pub(crate) fn get(&self, directory: u64) -> u64 {
        let (owner, leaf) = self.slots[directory as usize % SLOTS];
        if owner == directory { leaf } else { 0 }
    }

    pub(crate) fn set(&mut self, directory: u64, leaf: u64) {
        self.slots[directory as usize % SLOTS] = (directory, leaf);
    }
}
