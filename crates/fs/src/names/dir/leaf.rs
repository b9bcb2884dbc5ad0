//! Leaf blocks, which hold the entries.
//!
//! The leaves of a directory are the blocks of its file map. Those with room form a list that begins in the
//! inode; new entries go to the first leaf that takes them.

use crate::attempt::Core;
use crate::attempt::edit::Edit;
use crate::attempt::visited::Visited;
use crate::files::inode::{FLAG_MAP_HOLES, Inode, set_flags};
use crate::files::map::{self, MapState};
use crate::space;
use crate::vocabulary::error::Outcome;
use crate::vocabulary::extent::Extent;
use lanefs_format::dir::{LEAF_HEADER_UNITS, LEAF_ROOM, LEAF_UNITS, leaf as l};
use lanefs_format::{BLOCK, BlockKind, UNIT, UNITS_PER_LEAF, dir_inode_128 as tail, inode as f};
use lanefs_store::{Fault, View};

/// Leaves with room that are tried before a new one is made: a long name may not fit where a short one does.
const MAX_LEAVES_TRIED: usize = 4;

/// Holes at the end of the map that are removed at once; the others wait for the next leaf that is freed.
const SHRINK: usize = 1024;

/// Units of the shortest entry; a leaf with fewer has no room.
const LEAST_UNITS: u16 = 2;

const _: () = assert!(LEAST_UNITS as usize <= LEAF_ROOM, "a leaf with room takes the shortest entry");

/// Finds the first of `units` consecutive free units.
fn find_run(leaf: View<'_>, units: usize) -> Option<usize> {
    let (mut start, mut at) = (LEAF_HEADER_UNITS, LEAF_HEADER_UNITS);
    while at < UNITS_PER_LEAF as usize {
        let word = leaf.get(l::UNITS.index(at / 64)) >> (at % 64);
        let left = 64 - at % 64;
        let free = (word.trailing_zeros() as usize).min(left);
        at += free;
        if at - start >= units {
            return Some(start);
        }
        if free < left {
            let used = ((word >> free).trailing_ones() as usize).min(left - free);
            at += used;
            start = at;
        }
    }
    None
}

/// Sets or clears the bits of consecutive units.
fn flip(edit: &mut Edit<'_>, leaf: View<'_>, first: usize, units: usize, used: bool) -> Outcome<()> {
    let (mut at, end) = (first, first + units);
    while at < end {
        let stop = ((at / 64 + 1) * 64).min(end);
        let mask = (u64::MAX >> (64 - (stop - at))) << (at % 64);
        let field = l::UNITS.index(at / 64);
        let word = leaf.get(field);
        if word & mask != if used { 0 } else { mask } || stop > UNITS_PER_LEAF as usize {
            return Err(Fault::damaged(leaf.at(), "the bitmap of a leaf block is wrong"));
        }
        edit.tx.put(leaf, field, word ^ mask);
        at = stop;
    }
    let free = leaf.get(l::FREE);
    let left = if used { free.checked_sub(units as u16) } else { free.checked_add(units as u16) };
    edit.tx.put(leaf, l::FREE, left.ok_or(Fault::damaged(leaf.at(), "a wrong count of free units"))?);
    Ok(())
}

/// Loads the header of the leaf block at `at`, without its entries.
pub(crate) fn header<'v>(core: &Core<'v>, at: u64) -> Outcome<View<'v>> {
    if !at.is_multiple_of(BLOCK) {
        return Err(Fault::damaged(at, "no leaf block there"));
    }
    core.store.part(at, LEAF_HEADER_UNITS * UNIT as usize, BlockKind::Leaf)
}

/// Allocates units in one leaf, given by its header; `None` where they do not fit.
pub(crate) fn alloc_in<'v>(
    edit: &mut Edit<'v>,
    node: Inode<'_>,
    leaf: View<'v>,
    units: usize,
) -> Outcome<Option<View<'v>>> {
    let Some(first) = find_run(leaf, units) else { return Ok(None) };
    flip(edit, leaf, first, units, true)?;
    if leaf.get(l::FREE) < LEAST_UNITS && leaf.get(l::LISTED) != 0 {
        unlist(edit, node, leaf)?;
    }
    edit.tx.own_part(leaf.at(), first * UNIT as usize, units * UNIT as usize, BlockKind::Leaf)
}

/// Allocates units in any leaf, or in a new one. Each writer prefers a leaf of its own.
pub(crate) fn alloc<'v>(edit: &mut Edit<'v>, node: Inode<'_>, units: usize) -> Outcome<View<'v>> {
    let last = edit.leaves.get(node.ino);
    if last != 0 && edit.store().is_resident(last, BlockKind::Leaf) {
        let leaf = header(edit.core, last)?;
        if leaf.get(l::OWNER) == node.ino
            && leaf.get(l::LISTED) != 0
            && !edit.is_claimed(last)
            && let Some(view) = alloc_in(edit, node, leaf, units)?
        {
            edit.claim(last);
            return Ok(view);
        }
    }
    let (mut at, mut tries) = (node.tail().get(tail::ROOM), 0);
    // At most one leaf of the list is claimed by each other writer.
    for _ in 0..lanefs_store::SLOTS + MAX_LEAVES_TRIED {
        if at == 0 || tries == MAX_LEAVES_TRIED {
            break;
        }
        // Check the claim first; another writer may be using the leaf.
        if edit.is_claimed(at) {
            at = peek(edit.core, at)?.get(l::NEXT);
            continue;
        }
        tries += 1;
        let leaf = header(edit.core, at)?;
        let next = leaf.get(l::NEXT);
        if let Some(view) = alloc_in(edit, node, leaf, units)? {
            edit.claim(at);
            edit.leaves.set(node.ino, at);
            return Ok(view);
        }
        unlist(edit, node, leaf)?;
        at = next;
    }
    let leaf = add(edit, node)?;
    edit.claim(leaf.at());
    edit.leaves.set(node.ino, leaf.at());
    alloc_in(edit, node, leaf, units)?.ok_or(Fault::damaged(leaf.at(), "an entry larger than a leaf block"))
}

/// The header of a leaf, untracked: a hint.
fn peek<'v>(core: &Core<'v>, at: u64) -> Outcome<View<'v>> {
    core.store.peek(at & !(BLOCK - 1), BlockKind::Leaf)
}

/// Makes a new leaf and lists it among those with room.
pub(crate) fn add<'v>(edit: &mut Edit<'v>, node: Inode<'_>) -> Outcome<View<'v>> {
    let end = node.size() / BLOCK;
    let index = if node.flags() & FLAG_MAP_HOLES == 0 {
        end
    } else {
        match map::lookup(edit.core, node, 0, end)? {
            extent if extent.state == MapState::Hole => 0,
            mut extent => {
                let mut at = 0;
                let mut visited = Visited::default();
                while let MapState::Data(position) | MapState::Unwritten(position) = extent.state
                    && at + extent.blocks < end
                {
                    visited.meet(at, position, node.view.at())?;
                    at += extent.blocks;
                    extent = map::lookup(edit.core, node, at, end - at)?;
                }
                if extent.state == MapState::Hole {
                    at
                } else {
                    set_flags(edit, node, FLAG_MAP_HOLES, 0);
                    end
                }
            }
        }
    };
    let leaf = space::alloc_block(edit, BlockKind::Leaf, node.ino)?;
    edit.tx.set(leaf, l::NUMBER, index);
    edit.tx.set(leaf, l::FREE, LEAF_UNITS as u16);
    edit.tx.set(leaf, l::UNITS.index(0), (1 << LEAF_HEADER_UNITS) - 1);
    // The map counts the block for the inode.
    map::map_extent(edit, node, index, Extent::new(leaf.at() / BLOCK, 1), false)?;
    if index == end {
        edit.tx.put(node.view, f::BYTES, (end + 1) * BLOCK);
    }
    enlist(edit, node, leaf)?;
    Ok(leaf)
}

fn enlist(edit: &mut Edit<'_>, node: Inode<'_>, leaf: View<'_>) -> Outcome<()> {
    let first = node.tail().get(tail::ROOM);
    edit.tx.put(leaf, l::LISTED, 1);
    edit.tx.put(leaf, l::NEXT, first);
    edit.tx.put(leaf, l::PREVIOUS, 0);
    if first != 0 {
        let old = header(edit.core, first)?;
        edit.tx.put(old, l::PREVIOUS, leaf.at());
    }
    edit.tx.put(node.tail(), tail::ROOM, leaf.at());
    Ok(())
}

fn unlist(edit: &mut Edit<'_>, node: Inode<'_>, leaf: View<'_>) -> Outcome<()> {
    let (next, previous) = (leaf.get(l::NEXT), leaf.get(l::PREVIOUS));
    let broken = Fault::damaged(leaf.at(), "a broken list of leaf blocks with room");
    if next != 0 {
        let after = header(edit.core, next)?;
        if after.get(l::PREVIOUS) != leaf.at() {
            return Err(broken);
        }
        edit.tx.put(after, l::PREVIOUS, previous);
    }
    if previous == 0 {
        if node.tail().get(tail::ROOM) != leaf.at() {
            return Err(broken);
        }
        edit.tx.put(node.tail(), tail::ROOM, next);
    } else {
        let before = header(edit.core, previous)?;
        if before.get(l::NEXT) != leaf.at() {
            return Err(broken);
        }
        edit.tx.put(before, l::NEXT, next);
    }
    edit.tx.put(leaf, l::LISTED, 0);
    edit.tx.put(leaf, l::NEXT, 0);
    edit.tx.put(leaf, l::PREVIOUS, 0);
    Ok(())
}

/// Frees the units of an entry, and the leaf with its last entry.
pub(crate) fn free(edit: &mut Edit<'_>, node: Inode<'_>, entry: View<'_>, units: usize) -> Outcome<()> {
    let at = entry.at();
    let leaf = header(edit.core, at & !(BLOCK - 1))?;
    if leaf.get(l::OWNER) != node.ino {
        return Err(Fault::damaged(at, "an entry in another directory's leaf block"));
    }
    flip(edit, leaf, ((at & (BLOCK - 1)) / UNIT) as usize, units, false)?;
    let free = usize::from(leaf.get(l::FREE));
    if free == LEAF_UNITS {
        return drop_leaf(edit, node, leaf);
    }
    if free >= LEAF_ROOM && leaf.get(l::LISTED) == 0 {
        enlist(edit, node, leaf)?;
    }
    Ok(())
}

fn drop_leaf(edit: &mut Edit<'_>, node: Inode<'_>, leaf: View<'_>) -> Outcome<()> {
    if leaf.get(l::LISTED) != 0 {
        unlist(edit, node, leaf)?;
    }
    let index = leaf.get(l::NUMBER);
    if map::lookup(edit.core, node, index, 1)?.state != MapState::Data(leaf.at()) {
        return Err(Fault::damaged(leaf.at(), "a leaf block that is not in its directory's map"));
    }
    map::unmap(edit, node, index)?;
    space::free_block(edit, leaf.at(), BlockKind::Leaf)?;
    let end = node.size() / BLOCK;
    if index + 1 < end {
        set_flags(edit, node, 0, FLAG_MAP_HOLES);
        return Ok(());
    }
    let mut end = index;
    for _ in 0..SHRINK {
        if end == 0 || map::lookup(edit.core, node, end - 1, 1)?.state != MapState::Hole {
            break;
        }
        end -= 1;
    }
    if end == 0 {
        set_flags(edit, node, FLAG_MAP_HOLES, 0);
    }
    edit.tx.put(node.view, f::BYTES, end * BLOCK);
    Ok(())
}
