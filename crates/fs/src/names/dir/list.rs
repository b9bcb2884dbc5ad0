//! Listing of a directory: its leaves in the order of its file map.

use super::entry::Dentry;
use crate::attempt::Core;
use crate::files::inode::Inode;
use crate::files::map::{self, MapState};
use crate::vocabulary::error::Outcome;
use crate::vocabulary::types::{DirEntry, Ino};
use lanefs_format::dir::{LEAF_HEADER_UNITS, leaf as l};
use lanefs_format::{BLOCK, BlockKind, UNIT, UNITS_PER_LEAF};
use lanefs_store::{Fault, View};

/// Lists up to `max` entries after `cookie`. A cookie is the index of a leaf in the map, times the units of
/// a leaf, plus the unit after the start of the entry. So an entry that stays keeps its cookie, whatever is
/// added or removed.
pub(crate) fn list(core: &Core, node: Inode<'_>, cookie: u64, max: usize) -> Outcome<Vec<DirEntry>> {
    let mut entries = Vec::new();
    let end = node.size() / BLOCK;
    let mut index = cookie / UNITS_PER_LEAF;
    let mut from = (cookie % UNITS_PER_LEAF) as usize;
    // More extents than the volume has blocks: the map is damaged.
    let mut stretches = core.store.bytes() / BLOCK + 1024;
    while index < end && entries.len() < max {
        stretches = stretches.checked_sub(1).ok_or(Fault::damaged(node.view.at(), "an endless directory"))?;
        let extent = map::lookup(core, node, index, end - index)?;
        match extent.state {
            MapState::Data(at) => {
                list_leaf(core, node, at, index, from, max, &mut entries)?;
                index += 1;
            }
            MapState::Hole => index += extent.blocks,
            MapState::Unwritten(at) => return Err(Fault::damaged(at, "an unwritten leaf block")),
        }
        from = 0;
    }
    Ok(entries)
}

fn list_leaf(
    core: &Core,
    node: Inode<'_>,
    at: u64,
    index: u64,
    from: usize,
    max: usize,
    entries: &mut Vec<DirEntry>,
) -> Outcome<()> {
    let leaf = core.store.block(at, BlockKind::Leaf)?;
    if leaf.get(l::OWNER) != node.ino || leaf.get(l::NUMBER) != index {
        return Err(Fault::damaged(at, "a leaf block of another directory or index"));
    }
    list_entries(core, leaf, from, max, entries)
}

/// Lists all entries of the leaf block at a position, and returns the number of its directory.
pub(crate) fn leaf_entries(core: &Core, at: u64) -> Outcome<(u64, Vec<DirEntry>)> {
    let leaf = core.store.block(at, BlockKind::Leaf)?;
    let mut entries = Vec::new();
    list_entries(core, leaf, 0, usize::MAX, &mut entries)?;
    Ok((leaf.get(l::OWNER), entries))
}

fn list_entries(
    core: &Core,
    leaf: View<'_>,
    from: usize,
    max: usize,
    entries: &mut Vec<DirEntry>,
) -> Outcome<()> {
    let (at, index) = (leaf.at(), leaf.get(l::NUMBER));
    let mut unit = LEAF_HEADER_UNITS;
    while unit < UNITS_PER_LEAF as usize && entries.len() < max {
        let units = leaf.get(l::UNITS.index(unit / 64)) >> (unit % 64);
        if units & 1 == 0 {
            // To the next unit in use, or to the next word.
            unit += (units.trailing_zeros() as usize).min(64 - unit % 64);
            continue;
        }
        let entry = Dentry::at(core, at + unit as u64 * UNIT)?;
        if unit >= from && !entry.is_dummy() {
            entries.push(DirEntry {
                ino: Ino(entry.ino()),
                kind: entry.kind()?,
                cookie: index.wrapping_mul(UNITS_PER_LEAF).wrapping_add(unit as u64 + 1),
                name: entry.name(),
            });
        }
        unit += entry.units();
    }
    Ok(())
}
