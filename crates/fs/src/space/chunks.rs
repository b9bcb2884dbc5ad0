//! Metadata chunks: metadata blocks after a table that describes them.

use super::extents::free_data;
use super::groups::{chunk_at, clear_bits, free_chunk, of_chunk, peek};
use super::search::{Kind, goes_on, walk, with_chunks};
use super::tables::{chunk_table, describe, table_entry};
use super::take::alloc_chunk;
use crate::attempt::edit::Edit;
use crate::mounted::cursors::RoomKind;
use crate::mounted::writer::Freed;
use crate::vocabulary::error::Outcome;
use crate::vocabulary::extent::Extent;
use lanefs_format::{
    BLOCK, BLOCKS_PER_CHUNK, BlockKind, CHUNK, CHUNK_HEADER_BLOCKS, Code, GROUP, chunk_entry, chunk_header,
    group as f,
};
use lanefs_store::{Fault, View};

/// Allocates a metadata block: zeros after the common header.
///
/// # Errors
/// [`Code::NoSpace`](lanefs_format::Code::NoSpace).
pub(crate) fn alloc_block<'v>(edit: &mut Edit<'v>, kind: BlockKind, owner: u64) -> Outcome<View<'v>> {
    loop {
        if edit.hints.chunk == 0 {
            find_chunk(edit)?;
        }
        let chunk = edit.hints.chunk;
        let (group, bit) = of_chunk(edit.core, chunk)?;
        if group.get(f::METADATA) & bit == 0 {
            // Another writer has freed the chunk's last block.
            edit.hints.chunk = 0;
            continue;
        }
        edit.claim(chunk);
        let header = chunk_table(edit.core, chunk)?;
        let first = edit.hints.chunk_slot.max(CHUNK_HEADER_BLOCKS);
        let used = header.get(chunk_header::USED);
        if u64::from(used) < BLOCKS_PER_CHUNK {
            for slot in (first..BLOCKS_PER_CHUNK).chain(CHUNK_HEADER_BLOCKS..first) {
                let at = chunk + slot * BLOCK;
                let entry = table_entry(edit.core, at)?;
                if entry.get(chunk_entry::KIND) != 0 {
                    continue;
                }
                edit.room.take(RoomKind::Blocks);
                // The table first, so that no other writer takes the block.
                describe(edit, entry, kind as u8, owner);
                let view = edit.tx.fresh(at, kind, owner)?;
                edit.tx.put(header, chunk_header::USED, used + 1);
                edit.hints.chunk_slot = slot + 1;
                return Ok(view);
            }
        }
        edit.tx.put(group, f::ROOM, group.get(f::ROOM) & !bit);
        edit.hints.chunk = 0;
    }
}

/// A metadata chunk with room.
enum WithRoom {
    /// One that no other writer has claimed.
    Own(u64),
    /// One that another writer has claimed.
    Shared(u64),
}

/// Points the hints at a metadata chunk with room, or at a new one.
fn find_chunk(edit: &mut Edit<'_>) -> Outcome<()> {
    let found = search(edit)?;
    (edit.hints.chunk, edit.hints.chunk_slot) = match found {
        Some(WithRoom::Own(chunk)) => (chunk, 0),
        // Each writer gets a chunk of its own while there is enough space; else writers share.
        found => match (alloc_chunk(edit, found.is_some()), found) {
            (Err(Fault::Code(Code::NoSpace)), Some(WithRoom::Shared(chunk))) => (chunk, 0),
            (Err(full @ Fault::Code(Code::NoSpace)), _) => {
                let room = |edit: &mut Edit<'_>, number| room_in(edit, number);
                match walk(edit, Kind::Blocks, 1, 0, room)?.ok_or(full)? {
                    WithRoom::Own(chunk) | WithRoom::Shared(chunk) => (chunk, 0),
                }
            }
            (chunk, _) => (chunk?, CHUNK_HEADER_BLOCKS),
        },
    };
    Ok(())
}

/// Searches a few groups for a metadata chunk with room.
fn search(edit: &Edit<'_>) -> Outcome<Option<WithRoom>> {
    let (cursor, mut shared) = (&edit.core.state.cursors.blocks, None);
    for number in with_chunks(edit.core, cursor) {
        match room_in(edit, number)? {
            Some(WithRoom::Shared(chunk)) => shared = Some(WithRoom::Shared(chunk)),
            None if !goes_on(cursor, number, peek(edit.core, number)?) => break,
            None => {}
            own => return Ok(own),
        }
    }
    Ok(shared)
}

/// A metadata chunk with room in group `number`.
fn room_in(edit: &Edit<'_>, number: u64) -> Outcome<Option<WithRoom>> {
    let (group, mut shared) = (peek(edit.core, number)?, None);
    let mut room = group.get(f::ROOM) & group.get(f::METADATA);
    while room != 0 {
        let chunk = chunk_at(number, u64::from(room.trailing_zeros()));
        room &= room - 1;
        if !edit.is_claimed(chunk) {
            return Ok(Some(WithRoom::Own(chunk)));
        }
        shared = Some(WithRoom::Shared(chunk));
    }
    Ok(shared)
}

/// Frees a metadata block when the transaction commits.
pub(crate) fn free_block(edit: &mut Edit<'_>, at: u64, kind: BlockKind) -> Outcome<()> {
    edit.store().block(at, kind)?;
    edit.tx.retire(at, kind);
    edit.freed.push(Freed::Block(at, kind));
    Ok(())
}

/// Applies a free of a transaction.
pub(crate) fn make_free(edit: &mut Edit<'_>, freed: Freed) -> Outcome<()> {
    match freed {
        Freed::Extent(extent) => free_data(edit, extent),
        Freed::Chunk(at) => clear_bits(edit, Extent::new(at / BLOCK, BLOCKS_PER_CHUNK)),
        Freed::Block(at, kind) => make_block_free(edit, at, kind),
    }
}

/// Marks a metadata block as free, and its chunk with the last one.
fn make_block_free(edit: &mut Edit<'_>, at: u64, kind: BlockKind) -> Outcome<()> {
    let entry = table_entry(edit.core, at)?;
    if entry.get(chunk_entry::KIND) != kind as u8 {
        return Err(Fault::damaged(at, "the chunk table says another kind of block"));
    }
    describe(edit, entry, 0, 0);
    edit.tx.vacate(at);
    edit.made_room = true;
    let chunk = at & !(CHUNK - 1);
    let header = chunk_table(edit.core, chunk)?;
    let used = header.get(chunk_header::USED).saturating_sub(1);
    edit.tx.put(header, chunk_header::USED, used);
    if u64::from(used) <= CHUNK_HEADER_BLOCKS {
        for block in 0..CHUNK_HEADER_BLOCKS {
            edit.tx.retire(chunk + block * BLOCK, BlockKind::ChunkHeader);
            edit.tx.vacate(chunk + block * BLOCK);
        }
        if edit.hints.chunk == chunk {
            edit.hints.chunk = 0;
        }
        return free_chunk(edit, chunk);
    }
    let (group, bit) = of_chunk(edit.core, chunk)?;
    if group.get(f::ROOM) & bit == 0 {
        edit.tx.put(group, f::ROOM, group.get(f::ROOM) | bit);
        edit.core.state.cursors.blocks.go_back_to(chunk / GROUP);
    }
    Ok(())
}
