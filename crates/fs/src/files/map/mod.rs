//! File maps: the blocks of a file, and the extents of the volume that hold them.
//!
//! The map of a file is the extents in its inode (`extents`), as long as the inode has room for them; then it
//! is a radix tree (`radix`) until it is empty again. The map of a directory always is a radix tree.

mod extents;
mod mapping;
mod radix;

use super::inode::{Inode, add_blocks, extent_count};
use crate::attempt::Core;
use crate::attempt::edit::Edit;
use crate::attempt::visited::Visited;
use crate::space::{self, Growth};
use crate::vocabulary::error::Outcome;
use crate::vocabulary::extent::Extent;
use lanefs_format::{BLOCK, MAX_FILE_SIZE, inode as f};
use lanefs_store::Fault;
pub(crate) use mapping::{MapExtent, MapState, Mapping};

/// True where the map is the extents in the inode.
#[inline(always)]
fn is_in_inode(node: &Inode<'_>) -> Outcome<bool> {
    Ok(node.depth()? == 0 && !node.is_directory())
}

/// True where a file has no block.
pub(crate) fn is_empty(node: &Inode<'_>) -> Outcome<bool> {
    Ok(is_in_inode(node)? && extent_count(node.flags()) == 0)
}

/// Looks up the extent at `block`, `max` blocks of it at most (more may follow).
#[inline]
pub(crate) fn lookup(core: &Core<'_>, node: Inode<'_>, block: u64, max: u64) -> Outcome<Mapping> {
    match is_in_inode(&node)? {
        true => extents::lookup(core, &node, block, max),
        false => radix::lookup(core, node, block, max),
    }
}

/// Stores the extents of a file whose map is in its inode: there, or in a radix tree where they do not fit.
fn put_extents(edit: &mut Edit<'_>, node: Inode<'_>, extents: &[MapExtent]) -> Outcome<()> {
    if extents::store(edit, node, extents)? {
        return Ok(());
    }
    extents::store(edit, node, &[])?;
    radix::begin(edit, node);
    extents.iter().try_for_each(|extent| radix::insert(edit, node, extent))
}

/// Maps an extent of the volume into the hole at `block`.
pub(crate) fn map_extent(
    edit: &mut Edit<'_>,
    node: Inode<'_>,
    block: u64,
    extent: Extent,
    unwritten: bool,
) -> Outcome<()> {
    debug_assert!(extent.count > 0, "an empty extent");
    insert(edit, node, MapExtent { first: block, blocks: extent.count, at: extent.first * BLOCK, unwritten })
}

/// Maps an extent into the hole where it lies.
fn insert(edit: &mut Edit<'_>, node: Inode<'_>, extent: MapExtent) -> Outcome<()> {
    add_blocks(edit, node, extent.blocks as i64)?;
    if is_in_inode(&node)? {
        let extents = extents::load(edit.core, &node)?;
        put_extents(edit, node, &extents::insert(&extents, extent))
    } else {
        radix::insert(edit, node, &extent)
    }
}

/// Allocates the holes in `count` blocks from `block` on. The new blocks are unwritten.
pub(crate) fn allocate(edit: &mut Edit<'_>, node: Inode<'_>, block: u64, count: u64) -> Outcome<()> {
    let (mut at, end) = (block, block.saturating_add(count));
    let mut visited = Visited::default();
    while at < end {
        let extent = lookup(edit.core, node, at, end - at)?;
        at += match extent.state {
            MapState::Hole => allocate_hole(edit, node, at, extent.blocks, true)?.1,
            MapState::Data(position) | MapState::Unwritten(position) => {
                visited.meet(at, position, node.view.at())?;
                extent.blocks
            }
        };
    }
    Ok(())
}

/// Allocates blocks for the start of a hole. Returns their position on the volume and their number.
pub(crate) fn allocate_hole(
    edit: &mut Edit<'_>,
    node: Inode<'_>,
    block: u64,
    count: u64,
    unwritten: bool,
) -> Outcome<(u64, u64)> {
    let goal = goal(edit, node, block)?;
    let at_end = block.saturating_mul(BLOCK) >= node.view.get(f::BYTES);
    let growth = Growth { goal, blocks: node.view.get(f::BLOCKS), at_end };
    let extent = space::alloc_extent(edit, growth, count)?;
    map_extent(edit, node, block, extent, unwritten)?;
    Ok((extent.first * BLOCK, extent.count))
}

/// Gives written blocks of a file new positions: the start of `count` blocks from `block` on. Returns their
/// position and their number. The old blocks are freed; the caller writes the new ones.
pub(crate) fn replace(edit: &mut Edit<'_>, node: Inode<'_>, block: u64, count: u64) -> Outcome<(u64, u64)> {
    let goal = goal(edit, node, block)?;
    // A search for the best extent, as for a file that grows, would cost more than a small write.
    let extent = space::alloc_extent(edit, Growth { goal, blocks: 0, at_end: false }, count)?;
    punch(edit, node, block, block + extent.count)?;
    map_extent(edit, node, block, extent, false)?;
    Ok((extent.first * BLOCK, extent.count))
}

/// Returns the block after that of the file's block before `block`, where there is one.
fn goal(edit: &Edit<'_>, node: Inode<'_>, block: u64) -> Outcome<Option<u64>> {
    let before = block.checked_sub(1).map(|before| lookup(edit.core, node, before, 1)).transpose()?;
    Ok(match before {
        Some(Mapping { state: MapState::Data(at) | MapState::Unwritten(at), .. }) => Some(at / BLOCK + 1),
        _ => None,
    })
}

/// Marks unwritten blocks as written; all of them are unwritten.
pub(crate) fn mark_written(edit: &mut Edit<'_>, node: Inode<'_>, block: u64, count: u64) -> Outcome<()> {
    if !is_in_inode(&node)? {
        return radix::mark_written(edit, node, block, count);
    }
    let extents = extents::load(edit.core, &node)?;
    let written = |extent| Ok(Some(MapExtent { unwritten: false, ..extent }));
    let extents = extents::change(&extents, block, block.saturating_add(count), written)?;
    put_extents(edit, node, &extents)
}

/// Frees the blocks from `first` up to `end` (exclusive; `u64::MAX` for all that follow).
pub(crate) fn punch(edit: &mut Edit<'_>, node: Inode<'_>, first: u64, end: u64) -> Outcome<()> {
    remove(edit, node, first, end, true)
}

/// Removes blocks from the map, and frees them where `free` says so.
fn remove(edit: &mut Edit<'_>, node: Inode<'_>, first: u64, end: u64, free: bool) -> Outcome<()> {
    if !is_in_inode(&node)? {
        return radix::remove(edit, node, first, end, free);
    }
    let extents = extents::load(edit.core, &node)?;
    let extents = extents::change(&extents, first, end, |extent| {
        if free {
            space::free_extent(edit, Extent::new(extent.at / BLOCK, extent.blocks))?;
        }
        add_blocks(edit, node, -(extent.blocks as i64))?;
        Ok(None)
    })?;
    put_extents(edit, node, &extents)
}

/// Moves all blocks from block `from` on to block `to` on. The blocks between are not part of the map, and no
/// block moves past the end of the largest file.
pub(crate) fn move_tail(edit: &mut Edit<'_>, node: Inode<'_>, from: u64, to: u64) -> Outcome<()> {
    let tail = list(edit.core, node, from)?;
    remove(edit, node, from, u64::MAX, false)?;
    tail.iter()
        .try_for_each(|extent| insert(edit, node, MapExtent { first: extent.first - from + to, ..*extent }))
}

/// The extents of a file from a block on, those past its end included.
pub(crate) fn list(core: &Core<'_>, node: Inode<'_>, from: u64) -> Outcome<Vec<MapExtent>> {
    let (mut all, mut block) = (Vec::<MapExtent>::new(), from);
    let mut visited = Visited::default();
    // No file has more extents and holes than this; the loop ends on a damaged map.
    for _ in 0..=2 * core.store.bytes() / BLOCK + 1024 {
        if block >= MAX_FILE_SIZE / BLOCK {
            return Ok(all);
        }
        let found = lookup(core, node, block, u64::MAX - block)?;
        let extent = match found.state {
            MapState::Data(at) => {
                Some(MapExtent { first: block, blocks: found.blocks, at, unwritten: false })
            }
            MapState::Unwritten(at) => {
                Some(MapExtent { first: block, blocks: found.blocks, at, unwritten: true })
            }
            MapState::Hole => None,
        };
        if let Some(extent) = &extent {
            visited.meet(block, extent.at, node.view.at())?;
        }
        match (all.last_mut(), extent) {
            (Some(last), Some(extent)) if last.joins(&extent) => last.blocks += extent.blocks,
            (_, extent) => all.extend(extent),
        }
        block = block.saturating_add(found.blocks);
    }
    Err(Fault::damaged(node.view.at(), "a file map with more extents than the volume has blocks"))
}

/// Removes one block from the map of a directory. The caller frees the block itself: a leaf.
pub(crate) fn unmap(edit: &mut Edit<'_>, node: Inode<'_>, block: u64) -> Outcome<()> {
    radix::remove(edit, node, block, block + 1, false)
}
