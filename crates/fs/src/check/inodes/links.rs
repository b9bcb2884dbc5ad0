//! The names of inodes that are not directories, counted for a range of inodes at a time.
//!
//! The count of an inode takes four bytes, for a billion inodes too much on small machines. So the leaf
//! blocks are read once for each range whose counts fit into memory; in order of position, which is fast.

use crate::check::pass::Pass;
use crate::names::dir::Dentry;
use crate::vocabulary::error::Outcome;
use lanefs_format::dir::{LEAF_HEADER_UNITS, leaf as l};
use lanefs_format::{
    BLOCK, BLOCKS_PER_CHUNK, BlockKind, CHUNK_HEADER_BLOCKS, FileKind, UNIT, UNITS_PER_LEAF, chunk_entry,
};
use lanefs_store::View;
use std::ops::Range;
use std::sync::atomic::{AtomicU32, Ordering};

/// Metadata chunks in a batch.
const CHUNKS: usize = 4;

/// Numbers of names of a range of inodes, by rank.
pub(in crate::check) struct Names {
    first: usize,
    counts: Vec<AtomicU32>,
}

impl Names {
    /// Number of entries that name the inode with this rank.
    pub(in crate::check) fn of(&self, rank: usize) -> u32 {
        let count = rank.checked_sub(self.first).and_then(|index| self.counts.get(index));
        count.map_or(0, |count| count.load(Ordering::Relaxed))
    }

    fn add(&self, rank: usize) {
        if let Some(count) = rank.checked_sub(self.first).and_then(|index| self.counts.get(index)) {
            // More names than an inode can have are damage of their own, and no reason to begin with 0 again.
            let more = |count: u32| count.checked_add(1);
            let _ = count.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more);
        }
    }
}

impl Pass<'_, '_> {
    /// Counts the names of the inodes in a range of ranks.
    pub(in crate::check) fn count_names(&mut self, ranks: Range<usize>) -> Outcome<Names> {
        let names = Names { first: ranks.start, counts: ranks.map(|_| AtomicU32::new(0)).collect() };
        let chunks = self.metadata_chunks();
        self.in_batches(chunks.len(), CHUNKS, |pass, range| {
            for chunk in &chunks[range] {
                for index in CHUNK_HEADER_BLOCKS..BLOCKS_PER_CHUNK {
                    if let Some(leaf) = pass.leaf_at(chunk + index * BLOCK)? {
                        pass.count_entries(leaf, &names);
                    }
                }
            }
            Ok(())
        })?;
        Ok(names)
    }

    /// The leaf block at a position in a metadata chunk.
    fn leaf_at(&self, at: u64) -> Outcome<Option<View<'_>>> {
        let is_leaf = match self.table_entry(at)? {
            Some(entry) => entry.get(chunk_entry::KIND) == BlockKind::Leaf as u8,
            // Without a table only the claim says that something is there.
            None => self.claimed.get(at / BLOCK),
        };
        let leaf = if is_leaf { self.load(at, BlockKind::Leaf)? } else { None };
        // The orphan directory gives no names.
        Ok(leaf.filter(|leaf| !self.is_orphan_directory(leaf.get(l::OWNER))))
    }

    fn count_entries(&self, leaf: View<'_>, names: &Names) {
        let mut unit = LEAF_HEADER_UNITS;
        while unit < UNITS_PER_LEAF as usize {
            let is_used = leaf.get(l::UNITS.index(unit / 64)) >> (unit % 64) & 1 != 0;
            let entry = is_used.then(|| Dentry::at(self.core, leaf.at() + unit as u64 * UNIT).ok()).flatten();
            let Some(entry) = entry else {
                unit += 1;
                continue;
            };
            unit += entry.units().max(1);
            if !entry.is_dummy()
                && let Some(rank) = self.inodes.rank(entry.ino())
                && self.inodes.kind(rank) != Some(FileKind::Directory)
            {
                names.add(rank);
            }
        }
    }
}
