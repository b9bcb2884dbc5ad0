//! Hints: where a writer continues its search for room. A hint may be out of date; the truth is in the blocks
//! of the volume.

use lanefs_format::{BLOCK, BLOCKS_PER_CHUNK, CHUNK};

/// The allocation state of a writer. All of it can be found again in the blocks of the volume. A transaction
/// that is rolled back restores it as a whole.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Hints {
    /// Position of an inode block with room, 0 for none.
    pub(crate) inode_block: u64,
    /// Slot in the inode block where the search continues.
    pub(crate) inode_slot: u64,
    /// Number of an inode that this writer has freed, 0 for none: it has room, where a search would look at
    /// the entries of a whole chunk.
    pub(crate) freed_inode: u64,
    /// Position of a metadata chunk with room, 0 for none.
    pub(crate) chunk: u64,
    /// Slot in the chunk's table where the search continues.
    pub(crate) chunk_slot: u64,
    /// Group that last had blocks for new files; the groups before it had few.
    pub(crate) data_group: u64,
}

impl Hints {
    /// Asserts that each hint points at a block, chunk or slot of its kind.
    #[inline(always)]
    pub(crate) fn assert_sound(&self) {
        debug_assert!(self.inode_block.is_multiple_of(BLOCK), "an inode block at {:#x}", self.inode_block);
        debug_assert!(self.chunk.is_multiple_of(CHUNK), "a chunk at {:#x}", self.chunk);
        debug_assert!(self.chunk_slot <= BLOCKS_PER_CHUNK, "slot {} of a chunk", self.chunk_slot);
    }
}

/// Directories in the table.
const SLOTS: usize = 16;

/// For some directories, the leaf in which this writer last found room. The leaf may be full or freed by now.
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
