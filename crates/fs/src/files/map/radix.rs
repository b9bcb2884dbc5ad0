//! File maps as radix trees of tagged pointers, shaped like page tables.
//!
//! A map of depth d has d levels of pointer blocks; a slot at level 1 covers 4 KiB, at level 2 2 MiB, at
//! level 3 1 GiB. A slot holds a block of its own size, a pointer block one level down, or nothing. The depth
//! is in the inode's flags. The tree of a directory may have the depth 0: the root is a single 4 KiB block or
//! nothing. That of a file has a depth of 1 at least, because the depth 0 means extents in the inode.

use super::mapping::{MapExtent, MapState, Mapping};
use crate::attempt::Core;
use crate::attempt::edit::Edit;
use crate::files::inode::{Inode, add_blocks, set_depth};
use crate::space;
use crate::vocabulary::error::Outcome;
use crate::vocabulary::extent::Extent;
use lanefs_format::{
    Array, BLOCK, BlockKind, BlockSize, Code, Field, MAX_FILE_SIZE, MAX_MAP_DEPTH, POINTERS_PER_BLOCK,
    Pointer, inode as f,
};
use lanefs_store::{Fault, View};

const SLOTS: Array<u64> = Array::at(0, POINTERS_PER_BLOCK as usize);

/// Bits of a block's number that one level of pointer blocks resolves.
const LEVEL_BITS: u32 = POINTERS_PER_BLOCK.trailing_zeros();

const _: () = assert!(POINTERS_PER_BLOCK == 1 << LEVEL_BITS, "a level of a map resolves whole bits");
const _: () =
    assert!(capacity(MAX_MAP_DEPTH) >= MAX_FILE_SIZE / BLOCK, "the deepest map reaches as far as files may");

/// Blocks that a slot at `level` covers.
const fn span(level: u8) -> u64 {
    debug_assert!(level > 0);
    1 << (LEVEL_BITS * (level as u32 - 1))
}

/// Blocks that a map of this depth covers.
const fn capacity(depth: u8) -> u64 {
    1 << (LEVEL_BITS * depth as u32)
}

fn slot(block: u64, level: u8) -> Field<u64> {
    SLOTS.index((block / span(level) % POINTERS_PER_BLOCK) as usize)
}

/// Decodes a slot at `level` and checks that a block of this size may be there.
fn decode(word: u64, level: u8, at: u64) -> Outcome<Option<Pointer>> {
    let bad = Fault::damaged(at, "an invalid pointer in a file map");
    let Some(p) = Pointer::decode(word).map_err(|_| bad)? else { return Ok(None) };
    let fits = if p.indirect { level > 1 } else { BlockSize::at_level(level) == Some(p.size) };
    if fits { Ok(Some(p)) } else { Err(bad) }
}

/// The root pointer: at depth 0 as a slot of level 1, else indirect.
fn root(node: &Inode<'_>, depth: u8) -> Outcome<Option<Pointer>> {
    let word = node.view.get(f::MAP);
    let p = decode(word, depth + 1, node.view.at())?;
    match p {
        Some(p) if p.indirect != (depth > 0) => {
            Err(Fault::damaged(node.view.at(), "a file map whose root contradicts its depth"))
        }
        p => Ok(p),
    }
}

/// Looks up the extent at `block`, `max` blocks of it at most (more may follow).
pub(super) fn lookup(core: &Core, node: Inode<'_>, block: u64, max: u64) -> Outcome<Mapping> {
    let depth = node.depth()?;
    let Some(mut p) = root(&node, depth)? else { return Ok(Mapping::hole(u64::MAX, max)) };
    if block >= capacity(depth) {
        return Ok(Mapping::hole(u64::MAX, max));
    }
    if depth == 0 {
        return Ok(Mapping { state: state(p, 0), blocks: 1 });
    }
    let mut level = depth;
    loop {
        let view = core.store.block(p.offset, BlockKind::Pointers)?;
        let index = block / span(level) % POINTERS_PER_BLOCK;
        let inside = block % span(level);
        let first = decode(view.get(SLOTS.index(index as usize)), level, view.at())?;
        match first {
            Some(next) if next.indirect => (p, level) = (next, level - 1),
            first => {
                let mut blocks = span(level) - inside;
                let mut next = index + 1;
                while blocks < max && next < POINTERS_PER_BLOCK {
                    let word = view.get(SLOTS.index(next as usize));
                    let goes_on = match first {
                        None => word == Pointer::HOLE,
                        Some(p) => {
                            word == Pointer { offset: p.offset + (inside + blocks) * BLOCK, ..p }.word()
                        }
                    };
                    if !goes_on {
                        break;
                    }
                    (blocks, next) = (blocks + span(level), next + 1);
                }
                // Pointer blocks without a pointer, many times the same one, would make holes without end.
                if first.is_none() && level < depth && blocks == span(level + 1) {
                    return Err(Fault::damaged(view.at(), "a block of pointers without a pointer"));
                }
                let state = first.map_or(MapState::Hole, |p| state(p, inside));
                return Ok(Mapping { state, blocks: blocks.min(max) });
            }
        }
    }
}

fn state(p: Pointer, inside: u64) -> MapState {
    let at = p.offset + inside * BLOCK;
    if p.unwritten { MapState::Unwritten(at) } else { MapState::Data(at) }
}

fn new_pointers<'v>(edit: &mut Edit<'v>, node: Inode<'_>) -> Outcome<View<'v>> {
    let view = space::alloc_block(edit, BlockKind::Pointers, node.ino)?;
    add_blocks(edit, node, 1)?;
    Ok(view)
}

/// Deepens the map until it covers `block`.
fn cover(edit: &mut Edit<'_>, node: Inode<'_>, block: u64) -> Outcome<()> {
    let old_depth = node.depth()?;
    let mut depth = old_depth;
    let was_empty = node.view.get(f::MAP) == Pointer::HOLE;
    let least = u8::from(!node.is_directory());
    while block >= capacity(depth) || depth < least {
        if depth == MAX_MAP_DEPTH {
            return Err(Code::NoPointer.into());
        }
        if node.view.get(f::MAP) != Pointer::HOLE {
            let view = new_pointers(edit, node)?;
            edit.tx.put(view, SLOTS.index(0), node.view.get(f::MAP));
            edit.tx.put(node.view, f::MAP, Pointer::indirect(view.at()).word());
        }
        depth += 1;
    }
    set_depth(edit, node, depth);
    if depth > 0 && node.view.get(f::MAP) == Pointer::HOLE {
        let view = new_pointers(edit, node)?;
        edit.tx.put(node.view, f::MAP, Pointer::indirect(view.at()).word());
    }
    if depth > old_depth && old_depth > 0 && !was_empty {
        // The old root may be full of consecutive blocks, which had no slot above them until now.
        collapse(edit, node, capacity(old_depth) - 1, old_depth)?;
    }
    Ok(())
}

/// Replaces a large block in a slot by a pointer block with smaller ones.
fn split(
    edit: &mut Edit<'_>,
    node: Inode<'_>,
    holder: View<'_>,
    at: Field<u64>,
    p: Pointer,
    level: u8,
) -> Outcome<()> {
    let size =
        BlockSize::at_level(level - 1).ok_or(Fault::damaged(holder.at(), "a block cannot be split"))?;
    let view = new_pointers(edit, node)?;
    for i in 0..POINTERS_PER_BLOCK {
        let part = Pointer { offset: p.offset + i * span(level - 1) * BLOCK, size, ..p };
        edit.tx.set(view, SLOTS.index(i as usize), part.word());
    }
    edit.tx.put(holder, at, Pointer::indirect(view.at()).word());
    Ok(())
}

/// Finds the pointer block at level `target` that covers `block`. Missing ones are made, and large blocks on
/// the path are split.
fn descend<'v>(edit: &mut Edit<'v>, node: Inode<'_>, block: u64, target: u8) -> Outcome<View<'v>> {
    let mut level = node.depth()?;
    let p = root(&node, level)?.ok_or(Fault::damaged(node.view.at(), "a file map without a root"))?;
    let mut view = edit.store().block(p.offset, BlockKind::Pointers)?;
    while level > target {
        let field = slot(block, level);
        match decode(view.get(field), level, view.at())? {
            Some(p) if p.indirect => {
                view = edit.store().block(p.offset, BlockKind::Pointers)?;
                level -= 1;
            }
            Some(p) => split(edit, node, view, field, p, level)?,
            None => {
                let next = new_pointers(edit, node)?;
                edit.tx.put(view, field, Pointer::indirect(next.at()).word());
                view = next;
                level -= 1;
            }
        }
    }
    Ok(view)
}

/// Turns an inode without extents into one with an empty tree.
pub(super) fn begin(edit: &mut Edit<'_>, node: Inode<'_>) {
    edit.tx.put(node.view, f::MAP, Pointer::HOLE);
}

/// Maps an extent into the hole where it lies.
pub(super) fn insert(edit: &mut Edit<'_>, node: Inode<'_>, extent: &MapExtent) -> Outcome<()> {
    cover(edit, node, extent.end() - 1)?;
    let depth = node.depth()?;
    let pointer = |block: u64, size| {
        let offset = extent.at + (block - extent.first) * BLOCK;
        Pointer { offset, indirect: false, unwritten: extent.unwritten, size }.word()
    };
    if depth == 0 {
        edit.tx.put(node.view, f::MAP, pointer(extent.first, BlockSize::Small));
        return Ok(());
    }
    let (mut at, end) = (extent.first, extent.end());
    'next: while at < end {
        for (level, size) in [(3, BlockSize::Large), (2, BlockSize::Medium)] {
            if depth < level || at % span(level) != 0 || end - at < span(level) {
                continue;
            }
            let view = descend(edit, node, at, level)?;
            if view.get(slot(at, level)) == Pointer::HOLE {
                edit.tx.put(view, slot(at, level), pointer(at, size));
                at += span(level);
                collapse(edit, node, at - 1, level)?;
                continue 'next;
            }
        }
        let view = descend(edit, node, at, 1)?;
        let stop = ((at / POINTERS_PER_BLOCK + 1) * POINTERS_PER_BLOCK).min(end);
        while at < stop {
            edit.tx.put(view, slot(at, 1), pointer(at, BlockSize::Small));
            at += 1;
        }
        collapse(edit, node, at - 1, 1)?;
    }
    Ok(())
}

/// Replaces a pointer block whose last slot was filled by one larger block, where all its blocks are
/// consecutive; and so on upwards.
fn collapse(edit: &mut Edit<'_>, node: Inode<'_>, last: u64, level: u8) -> Outcome<()> {
    let Some(size) = BlockSize::at_level(level + 1) else { return Ok(()) };
    if !(last + 1).is_multiple_of(span(level + 1)) || node.depth()? <= level {
        return Ok(());
    }
    let holder = descend(edit, node, last, level + 1)?;
    let field = slot(last, level + 1);
    let Some(below) = decode(holder.get(field), level + 1, holder.at())?.filter(|p| p.indirect) else {
        return Ok(());
    };
    let view = edit.store().block(below.offset, BlockKind::Pointers)?;
    let Some(first) = decode(view.get(SLOTS.index(0)), level, view.at())?.filter(|p| !p.indirect) else {
        return Ok(());
    };
    let follows = |i: u64| {
        let expected = Pointer { offset: first.offset + i * span(level) * BLOCK, ..first };
        view.get(SLOTS.index(i as usize)) == expected.word()
    };
    if !(1..POINTERS_PER_BLOCK).all(follows) {
        return Ok(());
    }
    edit.tx.put(holder, field, Pointer { size, ..first }.word());
    space::free_block(edit, below.offset, BlockKind::Pointers)?;
    add_blocks(edit, node, -1)?;
    collapse(edit, node, last, level + 1)
}

/// Marks unwritten blocks as written; all of them are unwritten.
pub(super) fn mark_written(edit: &mut Edit<'_>, node: Inode<'_>, block: u64, count: u64) -> Outcome<()> {
    let (mut at, end) = (block, block + count);
    while at < end {
        let mut level = node.depth()?;
        let Some(mut p) = root(&node, level)? else { return Ok(()) };
        loop {
            let view = edit.store().block(p.offset, BlockKind::Pointers)?;
            let field = slot(at, level);
            let Some(next) = decode(view.get(field), level, view.at())? else {
                return Err(Fault::damaged(view.at(), "a hole where an unwritten block was"));
            };
            if next.indirect {
                (p, level) = (next, level - 1);
            } else if at % span(level) == 0 && end - at >= span(level) {
                edit.tx.put(view, field, Pointer { unwritten: false, ..next }.word());
                at += span(level);
                break;
            } else {
                split(edit, node, view, field, next, level)?;
                break;
            }
        }
    }
    Ok(())
}

/// Removes the blocks from `first` up to `end` (exclusive) from the tree, and frees them where `free` says
/// so. A tree that becomes empty leaves an inode without extents.
pub(super) fn remove(edit: &mut Edit<'_>, node: Inode<'_>, first: u64, end: u64, free: bool) -> Outcome<()> {
    let depth = node.depth()?;
    let Some(p) = root(&node, depth)? else { return Ok(()) };
    let now_empty = if depth == 0 {
        if first == 0 && end > 0 {
            if free {
                space::free_extent(edit, Extent::new(p.offset / BLOCK, 1))?;
            }
            add_blocks(edit, node, -1)?;
        }
        first == 0 && end > 0
    } else {
        let empty = punch_below(edit, node, p.offset, depth, 0, &Range { first, end, free })?;
        if empty {
            space::free_block(edit, p.offset, BlockKind::Pointers)?;
            add_blocks(edit, node, -1)?;
        }
        empty
    };
    if now_empty {
        edit.tx.put(node.view, f::MAP, Pointer::HOLE);
        set_depth(edit, node, 0);
    }
    Ok(())
}

/// A range of blocks that leaves the map, and whether it is freed.
struct Range {
    first: u64,
    end: u64,
    free: bool,
}

/// Removes a range from one pointer block, which covers the file from block `base` on. True when the block is
/// empty then.
fn punch_below(
    edit: &mut Edit<'_>,
    node: Inode<'_>,
    at: u64,
    level: u8,
    base: u64,
    range: &Range,
) -> Outcome<bool> {
    let Range { first, end, free } = *range;
    let view = edit.store().block(at, BlockKind::Pointers)?;
    let width = span(level);
    for i in 0..POINTERS_PER_BLOCK {
        let (low, high) = (base + i * width, base + (i + 1) * width);
        if high <= first || low >= end {
            continue;
        }
        let field = SLOTS.index(i as usize);
        let Some(mut p) = decode(view.get(field), level, at)? else { continue };
        if !p.indirect {
            if first <= low && high <= end {
                if free {
                    space::free_extent(edit, Extent::new(p.offset / BLOCK, width))?;
                }
                add_blocks(edit, node, -(width as i64))?;
                edit.tx.put(view, field, Pointer::HOLE);
                continue;
            }
            split(edit, node, view, field, p, level)?;
            p = match decode(view.get(field), level, at)? {
                Some(p) => p,
                None => continue,
            };
        }
        if punch_below(edit, node, p.offset, level - 1, low, range)? {
            space::free_block(edit, p.offset, BlockKind::Pointers)?;
            add_blocks(edit, node, -1)?;
            edit.tx.put(view, field, Pointer::HOLE);
        }
    }
    Ok((0..POINTERS_PER_BLOCK).all(|i| view.get(SLOTS.index(i as usize)) == Pointer::HOLE))
}
