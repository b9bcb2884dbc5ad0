//! Block groups: bitmaps of 4 KiB blocks.

use crate::attempt::Core;
use crate::edit::Edit;
use crate::error::Outcome;
use crate::prealloc::Run;
use crate::writer::Freed;
use lanefs_alloc::bitmap;
use lanefs_format::{
    BLOCK, BLOCKS_PER_CHUNK, BLOCKS_PER_GROUP, BlockKind, CHUNKS_PER_GROUP, Code, group as f,
};
use lanefs_store::{Fault, View};

/// Block of the group table.
pub(crate) fn group<'v>(core: &Core<'v>, number: u64) -> Outcome<View<'v>> {
    if number >= core.group_count() {
        return Err(Fault::damaged(number, "no such block group"));
    }
    core.store.block(core.groups() + number * BLOCK, BlockKind::Group)
}

/// A group, looked at in passing: what it says of its room is a hint.
pub(super) fn glance<'v>(core: &Core<'v>, number: u64) -> Outcome<View<'v>> {
    if number >= core.group_count() {
        return Err(Fault::damaged(number, "no such block group"));
    }
    core.store.peek(core.groups() + number * BLOCK, BlockKind::Group)
}

/// The next block of a group at or behind bit `from`, and before `end`, that is used or is not; else `end`.
pub(super) fn next(view: View<'_>, from: u64, end: u64, used: bool) -> u64 {
    let word = |i| view.get(f::BITMAP.index(i));
    bitmap::next(&word, from as usize, end.min(BLOCKS_PER_GROUP) as usize, used) as u64
}

/// Sets or clears bits, each of which must have been the other.
fn flip(edit: &mut Edit<'_>, number: u64, first: u64, count: u64, used: bool) -> Outcome<()> {
    let view = group(edit.core, number)?;
    let end = first.saturating_add(count);
    if end > BLOCKS_PER_GROUP {
        return Err(Fault::damaged(view.at(), "a run of blocks past the end of its group"));
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
    let free = view.get(f::FREE);
    let left = if used { free.checked_sub(count) } else { free.checked_add(count) };
    edit.tx.put(view, f::FREE, left.ok_or(Fault::damaged(view.at(), "the count of free blocks is wrong"))?);
    edit.counts.free_blocks += if used { -(count as i64) } else { count as i64 };
    Ok(())
}

/// Marks blocks as used, from block `first` on: as many as are free, `most` at most. Returns how many.
pub(super) fn seize(edit: &mut Edit<'_>, first: u64, most: u64) -> Outcome<u64> {
    let (mut at, end) = (first, first.saturating_add(most));
    while at < end && at / BLOCKS_PER_GROUP < edit.core.group_count() {
        let number = at / BLOCKS_PER_GROUP;
        let (bit, stop) = (at % BLOCKS_PER_GROUP, (end - number * BLOCKS_PER_GROUP).min(BLOCKS_PER_GROUP));
        let used = next(group(edit.core, number)?, bit, stop, true);
        if bit < used {
            flip(edit, number, bit, used - bit, true)?;
            at += used - bit;
        }
        if used < stop {
            break;
        }
    }
    Ok(at - first)
}

/// True where all blocks of a run hold file data, as it seems: looked at in passing.
pub(super) fn seem_used(core: &Core<'_>, (first, count): Run) -> Outcome<bool> {
    let (number, bit) = (first / BLOCKS_PER_GROUP, first % BLOCKS_PER_GROUP);
    let (view, end) = (glance(core, number)?, bit + count);
    let mut chunks = bit / BLOCKS_PER_CHUNK..=(end - 1) / BLOCKS_PER_CHUNK;
    Ok(end <= BLOCKS_PER_GROUP
        && next(view, bit, end, false) == end
        && !chunks.any(|chunk| view.get(f::METADATA) & (1 << chunk) != 0))
}

/// Frees consecutive blocks of file data when the transaction commits.
pub(crate) fn free_run(edit: &mut Edit<'_>, first: u64, count: u64) -> Outcome<()> {
    if first.saturating_add(count) > edit.store().bytes() / BLOCK {
        return Err(Fault::damaged(
            first.saturating_mul(BLOCK),
            "a run of blocks past the end of the volume",
        ));
    }
    edit.freed.push(Freed::Run(first, count));
    Ok(())
}

/// Clears the bits of blocks that hold file data, or of a chunk that is no longer a metadata chunk.
pub(crate) fn clear_run(edit: &mut Edit<'_>, first: u64, count: u64) -> Outcome<()> {
    let (mut at, end) = (first, first + count);
    while at < end {
        let number = at / BLOCKS_PER_GROUP;
        let stop = ((number + 1) * BLOCKS_PER_GROUP).min(end);
        let first_bit = at % BLOCKS_PER_GROUP;
        let view = group(edit.core, number)?;
        let mut chunks = first_bit / BLOCKS_PER_CHUNK..=(first_bit + (stop - at) - 1) / BLOCKS_PER_CHUNK;
        if chunks.any(|chunk| view.get(f::METADATA) & (1 << chunk) != 0) {
            return Err(Fault::damaged(at * BLOCK, "file data inside a metadata chunk"));
        }
        flip(edit, number, first_bit, stop - at, false)?;
        at = stop;
    }
    Ok(())
}

/// Takes a whole free chunk for metadata and returns its position. With `sparing`, only from a group of which most is free.
pub(crate) fn alloc_chunk(edit: &mut Edit<'_>, sparing: bool) -> Outcome<u64> {
    let groups = edit.core.group_count();
    let home = edit.hints.chunk / BLOCK / BLOCKS_PER_GROUP % groups;
    let least = if sparing { BLOCKS_PER_GROUP / 2 } else { BLOCKS_PER_CHUNK };
    for i in 0..groups {
        let number = (home + i) % groups;
        if glance(edit.core, number)?.get(f::FREE) < least {
            continue;
        }
        let view = group(edit.core, number)?;
        for chunk in 0..CHUNKS_PER_GROUP {
            let words = (chunk * 8..chunk * 8 + 8).map(|w| view.get(f::BITMAP.index(w as usize)));
            if words.into_iter().all(|word| word == 0) {
                flip(edit, number, chunk * BLOCKS_PER_CHUNK, BLOCKS_PER_CHUNK, true)?;
                edit.tx.put(view, f::METADATA, view.get(f::METADATA) | 1 << chunk);
                return Ok((number * BLOCKS_PER_GROUP + chunk * BLOCKS_PER_CHUNK) * BLOCK);
            }
        }
    }
    Err(Code::NoSpace.into())
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
    (number * BLOCKS_PER_GROUP + chunk * BLOCKS_PER_CHUNK) * BLOCK
}

/// Makes the blocks of groups `from..to` for a volume of `bytes` bytes. What lies past its end counts as used.
pub(crate) fn init_groups(edit: &mut Edit<'_>, from: u64, to: u64, bytes: u64) -> Outcome<()> {
    for number in from..to {
        let at = edit.core.groups() + number * BLOCK;
        let view = edit.tx.fresh(at, BlockKind::Group, number)?;
        let blocks = (bytes / BLOCK - number * BLOCKS_PER_GROUP).min(BLOCKS_PER_GROUP);
        for word in 0..f::BITMAP.len {
            let first = word as u64 * 64;
            let free = blocks.saturating_sub(first).min(64);
            let used = if free == 64 { 0 } else { u64::MAX << free };
            edit.tx.set(view, f::BITMAP.index(word), used);
        }
        edit.tx.set(view, f::FREE, blocks);
        edit.counts.free_blocks += blocks as i64;
    }
    Ok(())
}

/// Marks blocks as used (mkfs, grow).
pub(crate) fn reserve(edit: &mut Edit<'_>, first: u64, count: u64) -> Outcome<()> {
    let (mut at, end) = (first, first + count);
    while at < end {
        let number = at / BLOCKS_PER_GROUP;
        let stop = ((number + 1) * BLOCKS_PER_GROUP).min(end);
        flip(edit, number, at % BLOCKS_PER_GROUP, stop - at, true)?;
        at = stop;
    }
    Ok(())
}
