//! Free blocks are taken from the bitmaps: blocks of file data, and whole chunks for metadata.

use super::groups::{chunk_at, flip, group, next, peek};
use super::search::{Kind, is_full, likely, walk};
use super::tables::{make_table, set_up};
use crate::attempt::edit::Edit;
use crate::mounted::cursors::RoomKind;
use crate::vocabulary::error::Outcome;
use lanefs_format::{
    BLOCKS_PER_CHUNK, BLOCKS_PER_GROUP, CHUNKS_PER_GROUP, Code, GROUP, group as f, sums_chunk,
};

/// Marks blocks as used, from block `first` on: as many as are free, `most` at most. Returns their number.
pub(super) fn mark_used(edit: &mut Edit<'_>, first: u64, most: u64) -> Outcome<u64> {
    let (mut at, end) = (first, first.saturating_add(most));
    while at < end && at / BLOCKS_PER_GROUP < edit.core.group_count() {
        let number = at / BLOCKS_PER_GROUP;
        let (bit, stop) = (at % BLOCKS_PER_GROUP, (end - number * BLOCKS_PER_GROUP).min(BLOCKS_PER_GROUP));
        let used = next(group(edit.core, number)?, bit, stop, true);
        if bit < used {
            set_up(edit, number)?;
            flip(edit, number, bit, used - bit, true)?;
            at += used - bit;
        }
        if used < stop {
            break;
        }
    }
    debug_assert!(at <= end, "{} blocks instead of {most}", at - first);
    Ok(at - first)
}

/// Makes a metadata chunk with room and returns its position: that of the checksums in a group without any,
/// else a free chunk. With `sparing`, only a group that is half free serves.
pub(crate) fn alloc_chunk(edit: &mut Edit<'_>, sparing: bool) -> Outcome<u64> {
    if is_full(edit) {
        return Err(Code::NoSpace.into());
    }
    let home = edit.hints.chunk / GROUP;
    for number in likely(edit.core, home)? {
        if let Some(chunk) = alloc_chunk_in(edit, number, sparing)? {
            edit.core.state.cursors.move_frontier_to(number);
            return Ok(chunk);
        }
    }
    let any = match sparing {
        true => None,
        false => {
            let find = |edit: &mut Edit<'_>, number| alloc_chunk_in(edit, number, false);
            walk(edit, Kind::Chunk, 1, home, find)?
        }
    };
    any.ok_or(Code::NoSpace.into())
}

/// Makes a metadata chunk as [`alloc_chunk`] does, in group `number`; `None` where that has no free chunk.
fn alloc_chunk_in(edit: &mut Edit<'_>, number: u64, sparing: bool) -> Outcome<Option<u64>> {
    let least = if sparing { BLOCKS_PER_GROUP / 2 } else { BLOCKS_PER_CHUNK };
    let free = peek(edit.core, number)?.get(f::FREE);
    if free == 0 || sparing && free < least {
        return Ok(None);
    }
    if set_up(edit, number)? {
        edit.core.state.cursors.blocks.go_back_to(number);
        return Ok(Some(sums_chunk(number)));
    }
    if free < least {
        return Ok(None);
    }
    let view = group(edit.core, number)?;
    for chunk in 0..CHUNKS_PER_GROUP {
        let words = (chunk * 8..chunk * 8 + 8).map(|w| view.get(f::BITMAP.index(w as usize)));
        if words.into_iter().all(|word| word == 0) {
            flip(edit, number, chunk * BLOCKS_PER_CHUNK, BLOCKS_PER_CHUNK, true)?;
            for field in [f::METADATA, f::ROOM] {
                edit.tx.put(view, field, view.get(field) | 1 << chunk);
            }
            make_table(edit, chunk_at(number, chunk))?;
            edit.room.make(RoomKind::Blocks);
            edit.core.state.cursors.blocks.go_back_to(number);
            return Ok(Some(chunk_at(number, chunk)));
        }
    }
    Ok(None)
}
