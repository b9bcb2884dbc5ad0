//! A watch on metadata blocks, for a mirror in another memory: which blocks have changed since the last look.
//!
//! While a watch is kept, every change of a block, and every block that is fetched or evicted, leaves a mark
//! for the block and one for its chunk. The watcher collects the marks with the gate closed. Without a watch,
//! a change costs a load of one word.

use crate::memory::state;
use crate::store::Store;
use lanefs_format::{BLOCK, BLOCKS_PER_CHUNK, BlockKind, CHUNK};

/// A metadata block that changed.
#[derive(Clone, Copy, Debug)]
pub struct Watched<'s> {
    /// Byte position of the block.
    pub at: u64,
    /// Present kind; `None` where the block is not resident, or no metadata.
    pub kind: Option<BlockKind>,
    /// Bytes of the block, where it has a kind.
    pub bytes: &'s [u8; BLOCK as usize],
}

impl Store {
    /// Begins a watch. Returns false where one is kept already. At first all resident metadata blocks count
    /// as changed. The caller has closed the gate.
    ///
    /// # Errors
    /// The host's error when it has no address space left.
    pub fn keep_watch(&self) -> std::io::Result<bool> {
        if !self.marks.begin(self.room() / BLOCK)? {
            return Ok(false);
        }
        self.mark_resident();
        Ok(true)
    }

    /// Marks all resident blocks as changed. The caller keeps the watch and has closed the gate.
    pub fn mark_resident(&self) {
        for index in 0..self.bytes() / BLOCK {
            if state::kind(self.state(index)).is_some() {
                self.marks.set(index);
            }
        }
    }

    /// Ends the watch.
    pub fn end_watch(&self) {
        self.marks.end();
    }

    /// Gives every block that changed since the last call to `take`, in order. The caller keeps the watch and
    /// has closed the gate.
    pub fn watched(&self, take: &mut dyn FnMut(Watched<'_>)) {
        let mut bytes = [0; BLOCK as usize];
        let end = self.bytes() / BLOCK;
        for chunk in 0..self.bytes().div_ceil(CHUNK) {
            if !self.marks.take_chunk(chunk) {
                continue;
            }
            let blocks = chunk * BLOCKS_PER_CHUNK..((chunk + 1) * BLOCKS_PER_CHUNK).min(end);
            for index in blocks.filter(|index| self.marks.take_block(*index)) {
                let kind = state::kind(self.state(index));
                if kind.is_some() {
                    self.view(index * BLOCK).copy_to(0, &mut bytes);
                }
                // A block that was evicted during the copy is marked again.
                let kind = kind.filter(|kind| state::kind(self.state(index)) == Some(*kind));
                take(Watched { at: index * BLOCK, kind, bytes: &bytes });
            }
        }
    }
}
