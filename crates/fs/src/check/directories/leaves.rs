//! A directory's leaf blocks: their headers, bitmaps and entries, one by one.

use crate::check::directories::bits::Bits;
use crate::check::outcome::findings::Tally;
use crate::check::outcome::invariants as iv;
use crate::check::pass::{Claim, Pass};
use crate::names::dir::Dentry;
use crate::vocabulary::error::Outcome;
use crate::vocabulary::path::is_name;
use lanefs_format::dir::{LEAF_HEADER_UNITS, LEAF_UNITS, entry as e, leaf as l};
use lanefs_format::{
    BLOCK, BLOCKS_PER_CHUNK, BlockKind, FileKind, UNIT, UNITS_PER_LEAF, chunk_entry, half_md4,
};
use lanefs_store::View;

/// A directory while it is checked.
pub(in crate::check) struct DirectoryScan {
    /// Slot in the map and position of each leaf, in order of slots.
    pub(in crate::check) leaves: Vec<(u64, u64)>,
    /// Position and rank among `leaves`, in order of position.
    by_position: Vec<(u64, u32)>,
    /// Units where an entry begins, 256 for each leaf.
    pub(in crate::check) starts: Bits,
    /// Named entries: hash of the name and position.
    pub(in crate::check) entries: Vec<(u32, u64)>,
    /// Dummies in the leaves.
    pub(in crate::check) dummies: u64,
    /// True where only a rebuild of the directory repairs a fault.
    pub(in crate::check) broken: bool,
}

impl DirectoryScan {
    pub(in crate::check) fn new(leaves: Vec<(u64, u64)>) -> Self {
        let mut by_position: Vec<(u64, u32)> =
            leaves.iter().enumerate().map(|(rank, (_, at))| (*at, rank as u32)).collect();
        by_position.sort_unstable();
        let starts = Bits::new(leaves.len() as u64 * UNITS_PER_LEAF);
        DirectoryScan { leaves, by_position, starts, entries: Vec::new(), dummies: 0, broken: false }
    }

    /// Records a fault of the directory's structure.
    pub(in crate::check) fn bad(&mut self, tally: &mut Tally, at: u64, invariant: &'static iv::Invariant) {
        tally.note(at, invariant);
        self.broken = true;
    }

    /// Rank of the leaf block at `at`.
    pub(in crate::check) fn rank(&self, at: u64) -> Option<u64> {
        let found = self.by_position.binary_search_by_key(&at, |(at, _)| *at).ok()?;
        Some(u64::from(self.by_position[found].1))
    }

    /// Number of the unit at a byte position, counted over all leaves.
    pub(in crate::check) fn unit(&self, at: u64) -> Option<u64> {
        let rank = self.rank(at & !(BLOCK - 1))?;
        at.is_multiple_of(UNIT).then_some(rank * UNITS_PER_LEAF + (at & (BLOCK - 1)) / UNIT)
    }
}

impl Pass<'_, '_> {
    /// Scans all leaves of a directory.
    pub(in crate::check) fn scan_leaves(
        &mut self,
        tally: &mut Tally,
        dir: &mut DirectoryScan,
    ) -> Outcome<()> {
        for rank in 0..dir.leaves.len() {
            let (slot, at) = dir.leaves[rank];
            let Some(leaf) = self.load(at, BlockKind::Leaf)? else { continue };
            if leaf.get(l::OWNER) != tally.ino {
                dir.bad(tally, at, &iv::LEAF_OWNER);
            }
            if leaf.get(l::NUMBER) != slot {
                dir.bad(tally, at, &iv::LEAF_PLACE);
            }
            self.scan_leaf(tally, dir, rank as u64, leaf);
        }
        Ok(())
    }

    fn scan_leaf(&self, tally: &mut Tally, dir: &mut DirectoryScan, rank: u64, leaf: View<'_>) {
        let words: [u64; 4] = std::array::from_fn(|i| leaf.get(l::UNITS.index(i)));
        let is_set = |unit: usize| words[unit / 64 % 4] >> (unit % 64) & 1 != 0;
        let header = (1 << LEAF_HEADER_UNITS) - 1;
        if words[0] & header != header {
            dir.bad(tally, leaf.at(), &iv::LEAF_BITMAP);
        }
        let used: u32 = words.iter().map(|word| word.count_ones()).sum();
        let used = used as usize - (words[0] & header).count_ones() as usize;
        if usize::from(leaf.get(l::FREE)) != LEAF_UNITS - used {
            dir.bad(tally, leaf.at(), &iv::LEAF_FREE);
        }
        let mut unit = LEAF_HEADER_UNITS;
        while unit < UNITS_PER_LEAF as usize {
            if !is_set(unit) {
                unit += 1;
                continue;
            }
            let Ok(entry) = Dentry::at(self.core, leaf.at() + unit as u64 * UNIT) else {
                dir.bad(tally, leaf.at(), &iv::LEAF_BITMAP);
                unit += 1;
                continue;
            };
            let end = unit + entry.units();
            if !(unit..end).all(is_set) {
                dir.bad(tally, leaf.at(), &iv::LEAF_BITMAP);
                unit += 1;
                continue;
            }
            dir.starts.set(rank * UNITS_PER_LEAF + unit as u64);
            self.scan_entry(tally, dir, entry);
            unit = end;
        }
    }

    fn scan_entry(&self, tally: &mut Tally, dir: &mut DirectoryScan, entry: Dentry<'_>) {
        let at = entry.view.at();
        if entry.is_dummy() {
            dir.dummies += 1;
            if entry.view.get(e::KIND) != 0 {
                dir.bad(tally, at, &iv::ENTRY_COUNT);
            }
            return;
        }
        let mut name = [0; 256];
        let name = &mut name[..entry.name_len()];
        entry.view.copy_to(e::SIZE, name);
        if !is_name(name) {
            dir.bad(tally, at, &iv::ENTRY_NAME);
        }
        let hash = half_md4(self.core.seed, name);
        if hash != entry.hash() {
            dir.bad(tally, at, &iv::ENTRY_HASH);
        }
        if entry.count() != 0 {
            dir.bad(tally, at, &iv::ENTRY_COUNT);
        }
        dir.entries.push((hash, at));
    }

    /// Entries of leaf blocks that belong to a directory but are not in its map. They restore the names that
    /// a damaged map lost.
    pub(in crate::check) fn lost_entries(&mut self, ino: u64) -> Outcome<Vec<(u32, u64)>> {
        let known = match self.known_leaves.take() {
            Some(known) => known,
            None => self.all_leaves()?,
        };
        let mut entries = Vec::new();
        let first = known.partition_point(|(owner, _)| *owner < ino);
        for (_, at) in known[first..].iter().take_while(|(owner, _)| *owner == ino) {
            if self.claimed.get(at / BLOCK) || !self.in_metadata_chunk(*at) {
                continue;
            }
            let Some(leaf) = self.load(*at, BlockKind::Leaf)? else { continue };
            if leaf.get(l::OWNER) == ino {
                if self.mends() {
                    // The block stays until its entries are in the directory again.
                    self.claimed.set(at / BLOCK);
                    self.claims.push(Claim { at: *at, kind: BlockKind::Leaf, owner: ino });
                }
                let mut lost = DirectoryScan::new(vec![(0, *at)]);
                self.scan_leaf(&mut Tally::new(ino), &mut lost, 0, leaf);
                // Outside of a list, only an entry with a correct hash is accepted.
                entries.extend(lost.entries.into_iter().filter(|(hash, at)| {
                    Dentry::at(self.core, *at).is_ok_and(|entry| entry.hash() == *hash)
                }));
            }
        }
        self.known_leaves = Some(known);
        Ok(entries)
    }

    fn all_leaves(&self) -> Outcome<Vec<(u64, u64)>> {
        let mut known = Vec::new();
        for chunk in self.metadata_chunks() {
            for at in (2..BLOCKS_PER_CHUNK).map(|index| chunk + index * BLOCK) {
                let Some(entry) = self.table_entry(at)? else { continue };
                if entry.get(chunk_entry::KIND) == BlockKind::Leaf as u8 {
                    known.push((entry.get(chunk_entry::OWNER), at));
                }
            }
        }
        known.sort_unstable();
        Ok(known)
    }

    /// The name at a position that is known to be an entry's.
    pub(in crate::check) fn name_at(&self, at: u64) -> Vec<u8> {
        Dentry::at(self.core, at).map(|entry| entry.name()).unwrap_or_default()
    }

    /// Inode number and type in the entry at `at`.
    pub(in crate::check) fn target_at(&self, at: u64) -> (u64, Option<FileKind>) {
        Dentry::at(self.core, at).map_or((0, None), |entry| (entry.ino(), entry.kind().ok()))
    }
}
