//! Blocks that a pass reads once, or only tries: those of the group table, and tables of chunks of which
//! nobody says that they have one.
//!
//! A block that is fetched has a page at its address, a byte of state, and a page of the host's page tables
//! for each 2 MiB. For a chunk table in every chunk of a volume that is a thousandth of its size, whether
//! anything is there or not. So these blocks are read past the block cache.

use crate::check::pass::Pass;
use crate::vocabulary::error::Outcome;
use lanefs_format::{BLOCK, BlockKind, Field, Word};

/// A verified block of the group table.
pub(in crate::check) struct GroupBlock(Box<[u8; BLOCK as usize]>);

impl GroupBlock {
    pub(in crate::check) fn get<T: Word + Default>(&self, field: Field<T>) -> T {
        field.read(&self.0[..]).unwrap_or_default()
    }
}

impl Pass<'_, '_> {
    /// The block of the group table for a group; `None` where it does not verify.
    ///
    /// # Errors
    /// The device's only.
    pub(in crate::check) fn group_block(&self, number: u64) -> Outcome<Option<GroupBlock>> {
        let mut bytes = Box::new([0; BLOCK as usize]);
        let at = self.core.groups() + number * BLOCK;
        let is_good = self.core.store.examine(at, BlockKind::Group, &mut bytes)?;
        Ok(is_good.then_some(GroupBlock(bytes)))
    }

    /// True where a chunk begins with a table that verifies.
    ///
    /// # Errors
    /// The device's only.
    pub(in crate::check) fn has_table(&self, chunk: u64) -> Outcome<bool> {
        self.core.store.examine(chunk, BlockKind::ChunkHeader, &mut [0; BLOCK as usize])
    }
}
