//! File maps: extents in the inode, and radix trees.

use crate::check::outcome::findings::Tally;
use crate::check::outcome::invariants as iv;
use crate::check::pass::Pass;
use crate::vocabulary::error::Outcome;
use lanefs_format::{
    Array, BLOCK, BlockKind, BlockSize, INODE_CORE, INODE_EXTENTS_MASK, INODE_EXTENTS_SHIFT,
    POINTERS_PER_BLOCK, Pointer, extent, inode as f,
};

pub(in crate::check) const SLOTS: Array<u64> = Array::at(0, POINTERS_PER_BLOCK as usize);

/// The content of a map.
pub(in crate::check) struct MapScan {
    /// Blocks of data and of pointers.
    pub(in crate::check) blocks: u64,
    /// A directory's leaves: slot and position, in order of slots.
    pub(in crate::check) leaves: Vec<(u64, u64)>,
    /// True where the root can stay.
    pub(in crate::check) good: bool,
    /// End of the written data, in blocks of the file.
    pub(in crate::check) end: u64,
    /// Blocks of the file at most: those of a link hold its target, those of a file may be more than its size
    /// says.
    most: u64,
}

impl MapScan {
    /// No blocks yet, of a file with `most` blocks at most.
    pub(in crate::check) fn new(most: u64) -> Self {
        MapScan { blocks: 0, leaves: Vec::new(), good: true, end: 0, most }
    }
}

/// The location of a pointer.
#[derive(Clone, Copy)]
struct PointerSlot {
    word: u64,
    /// Level of its block of pointers; for the root: depth + 1.
    level: u8,
    /// First file block of its range.
    base: u64,
    /// Its block or inode.
    holder: u64,
    is_root: bool,
}

impl Pass<'_, '_> {
    /// Walks the extents in the copy of an inode. Bad ones leave the copy, and the others close up.
    pub(in crate::check) fn walk_extents(
        &mut self,
        tally: &mut Tally,
        map: &mut MapScan,
        copy: &mut [u8],
        holder: u64,
    ) {
        let flags = f::FLAGS.read(copy).unwrap_or(0);
        let count = usize::from((flags & INODE_EXTENTS_MASK) >> INODE_EXTENTS_SHIFT);
        let (mut kept, mut before) = (0, 0);
        for index in 0..count {
            let (at, to) = (INODE_CORE + index * extent::SIZE, INODE_CORE + kept * extent::SIZE);
            let Some(blocks) =
                self.claim_extent(tally, map, &mut copy[at..at + extent::SIZE], &mut before, holder)
            else {
                continue;
            };
            map.blocks += blocks;
            copy.copy_within(at..at + extent::SIZE, to);
            kept += 1;
        }
        copy[INODE_CORE + kept * extent::SIZE..INODE_CORE + count * extent::SIZE].fill(0);
        f::FLAGS.write(copy, flags & !INODE_EXTENTS_MASK | (kept as u16) << INODE_EXTENTS_SHIFT);
    }

    /// Claims the blocks of an extent, and returns their number; `None` where it cannot stay. `before` is the
    /// end of the extents before it. An extent that reaches too far is cut.
    fn claim_extent(
        &mut self,
        tally: &mut Tally,
        map: &mut MapScan,
        one: &mut [u8],
        before: &mut u64,
        holder: u64,
    ) -> Option<u64> {
        let first = u64::from(extent::FIRST.read(one)?);
        let mut blocks = u64::from(extent::BLOCKS.read(one)?);
        let Ok(Some(Pointer { offset, indirect: false, size: BlockSize::Small, unwritten })) =
            Pointer::decode(extent::POINTER.read(one)?)
        else {
            tally.note(holder, &iv::MAP_POINTER);
            return None;
        };
        if blocks == 0 || first < *before {
            tally.note(holder, &iv::EXTENT_RANGE);
            return None;
        }
        if first + blocks > map.most {
            tally.note(holder, &iv::INODE_END);
            blocks = map.most.checked_sub(first).filter(|blocks| *blocks > 0)?;
            extent::BLOCKS.write(one, blocks as u32);
        }
        if !self.claim_data(tally, holder, offset / BLOCK, blocks) {
            return None;
        }
        *before = first + blocks;
        if !unwritten {
            map.end = *before;
        }
        Some(blocks)
    }

    /// Walks a file's or a directory's map. A repairing pass turns bad pointers into holes, except the root,
    /// which the caller handles.
    pub(in crate::check) fn walk_map(
        &mut self,
        tally: &mut Tally,
        map: &mut MapScan,
        is_directory: bool,
        (word, depth): (u64, u8),
        holder: u64,
    ) -> Outcome<()> {
        let slot = PointerSlot { word, level: depth + 1, base: 0, holder, is_root: true };
        map.good = match Pointer::decode(word) {
            Ok(Some(p)) if p.indirect != (depth > 0) => {
                tally.note(holder, &iv::MAP_POINTER);
                false
            }
            _ => self.walk_slot(tally, map, is_directory, slot)?,
        };
        Ok(())
    }

    /// Checks one pointer and everything below it; false where it must be removed.
    fn walk_slot(
        &mut self,
        tally: &mut Tally,
        map: &mut MapScan,
        is_directory: bool,
        slot: PointerSlot,
    ) -> Outcome<bool> {
        let PointerSlot { word, level, base, holder, is_root } = slot;
        let p = match Pointer::decode(word) {
            Ok(None) => return Ok(true),
            Ok(Some(p)) => p,
            Err(_) => {
                tally.note(holder, &iv::MAP_POINTER);
                return Ok(false);
            }
        };
        let fits = if p.indirect { level > 1 } else { BlockSize::at_level(level) == Some(p.size) };
        if !fits || is_directory && !p.indirect && (p.size != BlockSize::Small || p.unwritten) {
            tally.note(holder, &iv::MAP_POINTER);
            return Ok(false);
        }
        if !p.indirect {
            if is_directory {
                let is_leaf = self.claim(tally, holder, p.offset, BlockKind::Leaf)?.is_some();
                if is_leaf {
                    map.blocks += 1;
                    map.leaves.push((base, p.offset));
                }
                return Ok(is_leaf);
            }
            let end = base + p.size.blocks();
            if end > map.most {
                tally.note(holder, &iv::INODE_END);
                return Ok(false);
            }
            let is_free = self.claim_data(tally, holder, p.offset / BLOCK, p.size.blocks());
            map.blocks += if is_free { p.size.blocks() } else { 0 };
            if is_free && !p.unwritten {
                map.end = end;
            }
            return Ok(is_free);
        }
        let claims = self.claims.len();
        let Some(view) = self.claim(tally, holder, p.offset, BlockKind::Pointers)? else { return Ok(false) };
        map.blocks += 1;
        let width = 1 << (9 * u32::from(level - 2));
        let mut valid = false;
        let mut gone = Vec::new();
        for i in 0..POINTERS_PER_BLOCK {
            let word = view.get(SLOTS.index(i as usize));
            if word == Pointer::HOLE {
                continue;
            }
            let below = PointerSlot {
                word,
                level: level - 1,
                base: base + i * width,
                holder: p.offset,
                is_root: false,
            };
            if self.walk_slot(tally, map, is_directory, below)? {
                valid = true;
            } else {
                gone.push(i as usize);
            }
        }
        if !valid && !is_root {
            if gone.is_empty() {
                tally.note(p.offset, &iv::MAP_EMPTY);
            }
            map.blocks -= 1;
            self.unclaim(claims, |claim| claim.at == p.offset);
            return Ok(false);
        }
        if !gone.is_empty() {
            self.mend(|edit| {
                for i in &gone {
                    edit.tx.put(view, SLOTS.index(*i), Pointer::HOLE);
                }
                Ok(())
            })?;
        }
        Ok(true)
    }
}
