//! Block groups: bitmaps of blocks.

use crate::attempt::Core;
use crate::attempt::edit::Edit;
use crate::mounted::cursors::RoomKind;
use crate::mounted::writer::Freed;
use crate::vocabulary::error::Outcome;
use crate::vocabulary::extent::Extent;
use lanefs_alloc::bitmap;
use lanefs_format::{
    BLOCK, BLOCKS_PER_CHUNK, BLOCKS_PER_GROUP, BlockKind, CHUNKS_PER_GROUP, group as f, sums_chunk,
};
use lanefs_store::{Fault, View};

/// The block of the group table that describes group `number`.
pub(crate) fn group<'v>(core: &Core<'v>, number: u64) -> Outcome<View<'v>> {
    if number >= core.group_count() {
        return Err(Fault::damaged(number, "no such block group"));
    }
    core.store.block(core.groups() + number * BLOCK, BlockKind::Group)
}

/// A group that is not tracked in the read set: its room is a hint.
pub(super) fn peek<'v>(core: &Core<'v>, number: u64) -> Outcome<View<'v>> {
    if number >= core.group_count() {
        return Err(Fault::damaged(number, "no such block group"));
    }
    core.store.peek(core.groups() + number * BLOCK, BlockKind::Group)
}

/// True for the chunk of a group in which the checksums of its file data begin.
fn is_for_sums(core: &Core<'_>, number: u64, chunk: u64) -> bool {
    core.store.has_data_checksums() && chunk_at(number, chunk) == sums_chunk(number)
}

/// The first block of a group from bit `from` on that is used, or that is free; `end` where there is none
/// before it.
pub(super) fn next(view: View<'_>, from: u64, end: u64, used: bool) -> u64 {
    let word = |i| view.get(f::BITMAP.index(i));
    bitmap::next(&word, from as usize, end.min(BLOCKS_PER_GROUP) as usize, used) as u64
}

/// Sets or clears bits, each of which must have been the other.
pub(super) fn flip(edit: &mut Edit<'_>, number: u64, first: u64, count: u64, used: bool) -> Outcome<()> {
    let view = group(edit.core, number)?;
    let end = first.saturating_add(count);
    if end > BLOCKS_PER_GROUP {
        return Err(Fault::damaged(view.at(), "an extent ends past its group"));
    }
    for (i, mask) in bitmap::masks(first as usize, end as usize) {
        let field = f::BITMAP.index(i);
        let word = view.get(field);
        let expected = if used { 0 } else { mask };
        if word & mask != expected {
            return Err(Fault::damaged(view.at(), "a block is used twice or freed twice"));
        }
        edit.tx.put(view, field, word ^ mask);
    }
    if used {
        edit.room.take(RoomKind::Free);
    }
    let free = view.get(f::FREE);
    let left = if used { free.checked_sub(count) } else { free.checked_add(count) };
    edit.tx.put(view, f::FREE, left.ok_or(Fault::damaged(view.at(), "the count of free blocks is wrong"))?);
    edit.counts.free_blocks += if used { -(count as i64) } else { count as i64 };
    Ok(())
}

/// True where all blocks of an extent probably hold file data.
pub(super) fn seem_used(core: &Core<'_>, extent: Extent) -> Outcome<bool> {
    let (number, bit) = (extent.first / BLOCKS_PER_GROUP, extent.first % BLOCKS_PER_GROUP);
    let (view, end) = (peek(core, number)?, bit + extent.count);
    let mut chunks = bit / BLOCKS_PER_CHUNK..=(end - 1) / BLOCKS_PER_CHUNK;
    Ok(end <= BLOCKS_PER_GROUP
        && next(view, bit, end, false) == end
        && !chunks.any(|chunk| view.get(f::METADATA) & (1 << chunk) != 0))
}

/// Frees blocks of file data when the transaction commits.
pub(crate) fn free_extent(edit: &mut Edit<'_>, extent: Extent) -> Outcome<()> {
    if extent.end() > edit.store().bytes() / BLOCK {
        let at = extent.first.saturating_mul(BLOCK);
        return Err(Fault::damaged(at, "an extent ends past the volume"));
    }
    edit.freed.push(Freed::Extent(extent));
    Ok(())
}

/// Clears the bits of blocks that hold file data, or of a chunk that is no longer a metadata chunk.
pub(crate) fn clear_bits(edit: &mut Edit<'_>, extent: Extent) -> Outcome<()> {
    let (mut at, end) = (extent.first, extent.end());
    while at < end {
        let number = at / BLOCKS_PER_GROUP;
        let stop = ((number + 1) * BLOCKS_PER_GROUP).min(end);
        let first_bit = at % BLOCKS_PER_GROUP;
        let view = group(edit.core, number)?;
        let mut chunks = first_bit / BLOCKS_PER_CHUNK..=(first_bit + (stop - at) - 1) / BLOCKS_PER_CHUNK;
        if chunks
            .any(|chunk| view.get(f::METADATA) & (1 << chunk) != 0 || is_for_sums(edit.core, number, chunk))
        {
            return Err(Fault::damaged(at * BLOCK, "file data inside a metadata chunk"));
        }
        flip(edit, number, first_bit, stop - at, false)?;
        edit.core.state.cursors.extents.go_back_to(number);
        edit.made_room = true;
        at = stop;
    }
    Ok(())
}

/// Gives an empty metadata chunk back.
pub(crate) fn free_chunk(edit: &mut Edit<'_>, at: u64) -> Outcome<()> {
    let (view, bit) = of_chunk(edit.core, at)?;
    for field in [f::METADATA, f::ROOM, f::INODE_ROOM] {
        edit.tx.put(view, field, view.get(field) & !bit);
    }
    edit.freed.push(Freed::Chunk(at));
    Ok(())
}

/// The group of the chunk at `at`, and the chunk's bit in the group's masks.
pub(crate) fn of_chunk<'v>(core: &Core<'v>, at: u64) -> Outcome<(View<'v>, u64)> {
    let block = at / BLOCK;
    Ok((group(core, block / BLOCKS_PER_GROUP)?, 1 << (block % BLOCKS_PER_GROUP / BLOCKS_PER_CHUNK)))
}

/// Position of the chunk with this bit number in a group.
pub(crate) fn chunk_at(number: u64, chunk: u64) -> u64 {
    debug_assert!(chunk < CHUNKS_PER_GROUP, "chunk {chunk} of a group");
    (number * BLOCKS_PER_GROUP + chunk * BLOCKS_PER_CHUNK) * BLOCK
}
