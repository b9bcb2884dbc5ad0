//! Sealing: checksums of blocks that are about to be written.

use crate::memory::state;
use crate::memory::view::View;
use crate::store::Store;
use crate::vocabulary::fault::{Fault, Want};
use lanefs_format::{BLOCK, BlockKind, CHUNK, CHUNK_HEADER_BLOCKS, chunk_entry, chunk_header};
use std::collections::BTreeSet;

/// Computes checksums in the order of their dependence: pointer blocks first (the chunk tables have their
/// checksums), then the tables' second blocks (the first blocks have theirs), then all others. The caller has
/// closed the gate.
pub(crate) struct Sealer<'s> {
    store: &'s Store,
}

impl<'s> Sealer<'s> {
    pub(crate) fn new(store: &'s Store) -> Self {
        Sealer { store }
    }

    fn of_kind(&self, list: &BTreeSet<u64>, kind: BlockKind) -> Vec<u64> {
        let is = |index: &&u64| state::kind(self.store.state(**index)) == Some(kind);
        list.iter().filter(is).map(|index| index * BLOCK).collect()
    }

    /// Returns a block of a chunk table, and fetches it where it was evicted.
    fn table(&self, at: u64) -> Result<View<'s>, Fault> {
        if !self.store.is_resident(at, BlockKind::ChunkHeader) {
            self.store.fetch(at, Want::Block(BlockKind::ChunkHeader))?;
        }
        self.store.view_of(at, BLOCK as usize, BlockKind::ChunkHeader)
    }

    /// Writes checksums of other blocks into the chunk tables, and adds these tables to the list.
    ///
    /// # Errors
    /// [`Fault::Io`], [`Fault::Damaged`] where a table cannot be read.
    pub(crate) fn seal_tables(&self, list: &mut BTreeSet<u64>) -> Result<(), Fault> {
        let mut bytes = [0u8; BLOCK as usize];
        for at in self.of_kind(list, BlockKind::Pointers) {
            self.store.view(at).copy_to(0, &mut bytes);
            let sum = self.store.sums.of(at, &bytes, None);
            let (table, offset) = Store::table_entry(at);
            self.table(table)?.store(offset + chunk_entry::CHECKSUM.offset, 4, u64::from(sum));
            list.insert(table / BLOCK);
        }
        let tables = self.of_kind(list, BlockKind::ChunkHeader);
        debug_assert!(tables.is_sorted());
        for second in tables.into_iter().filter(|at| at & (CHUNK - 1) != 0) {
            let first = second & !(CHUNK - 1);
            assert_eq!(second - first, (CHUNK_HEADER_BLOCKS - 1) * BLOCK, "a table's block at {second:#x}");
            self.store.view(second).copy_to(0, &mut bytes);
            let sum = self.store.sums.of(second, &bytes, None);
            self.table(first)?.store(chunk_header::CHECKSUM2.offset, 4, u64::from(sum));
            list.insert(first / BLOCK);
        }
        Ok(())
    }

    /// Copies a block and seals the copy.
    pub(crate) fn copy(&self, at: u64, out: &mut [u8]) {
        debug_assert!(at.is_multiple_of(BLOCK) && out.len() as u64 == BLOCK);
        self.store.view(at).copy_to(0, out);
        let Some(kind) = state::kind(self.store.state(at / BLOCK)) else { return };
        match kind {
            BlockKind::Pointers => {}
            BlockKind::ChunkHeader if at & (CHUNK - 1) != 0 => {}
            BlockKind::ChunkHeader => {
                let sum = self.store.table_sum(at, out);
                chunk_header::CHECKSUM.write(out, sum);
            }
            _ => drop(self.store.sums.seal(kind, at, out, self.store.inode_size().bytes() as usize)),
        }
    }
}
