//! Tables of metadata chunks, and the blocks of checksums, which each group has in the first of them.

use super::groups::of_chunk;
use crate::attempt::Core;
use crate::attempt::edit::Edit;
use crate::mounted::cursors::RoomKind;
use crate::vocabulary::error::Outcome;
use lanefs_format::{
    BLOCK, BlockKind, CHUNK_HEADER_BLOCKS, SUMS_PER_GROUP, chunk_entry, chunk_header, group as f, sums,
    sums_chunk,
};
use lanefs_store::{Store, View};

/// The header of a chunk's table.
pub(crate) fn chunk_table<'v>(core: &Core<'v>, chunk: u64) -> Outcome<View<'v>> {
    core.store.part(chunk, chunk_header::SIZE, BlockKind::ChunkHeader)
}

/// The table entry of the metadata block at `at`.
pub(crate) fn table_entry<'v>(core: &Core<'v>, at: u64) -> Outcome<View<'v>> {
    let (block, offset) = Store::table_entry(at);
    core.store.part(block + offset as u64, chunk_entry::SIZE, BlockKind::ChunkHeader)
}

/// A table entry that is not tracked in the read set: what it says is a hint.
pub(super) fn peek_entry<'v>(core: &Core<'v>, at: u64) -> Outcome<View<'v>> {
    let (block, offset) = Store::table_entry(at);
    core.store.peek_part(block + offset as u64, chunk_entry::SIZE, BlockKind::ChunkHeader)
}

/// Says in its chunk's table what a metadata block is: `kind` 0 for a free one. It sets every field, so that
/// nothing remains of what a damaged table said of the free block.
pub(super) fn describe(edit: &mut Edit<'_>, entry: View<'_>, kind: u8, owner: u64) {
    edit.tx.put(entry, chunk_entry::KIND, kind);
    edit.tx.put(entry, chunk_entry::USED, 0);
    edit.tx.put(entry, chunk_entry::RESERVED, 0);
    edit.tx.put(entry, chunk_entry::CHECKSUM, 0);
    edit.tx.put(entry, chunk_entry::OWNER, owner);
}

/// Makes the table of a metadata chunk.
pub(super) fn make_table(edit: &mut Edit<'_>, chunk: u64) -> Outcome<()> {
    for block in 0..CHUNK_HEADER_BLOCKS {
        let view = edit.tx.fresh(chunk + block * BLOCK, BlockKind::ChunkHeader, 0)?;
        // The second block of the table has entries only; the first one begins with a header.
        edit.tx.set(view, chunk_header::KIND, if block == 0 { BlockKind::ChunkHeader as u8 } else { 0 });
        edit.tx.set(view, chunk_header::OWNER, if block == 0 { chunk } else { 0 });
    }
    let header = chunk_table(edit.core, chunk)?;
    edit.tx.set(header, chunk_header::USED, CHUNK_HEADER_BLOCKS as u32);
    Ok(())
}

/// Makes the blocks of checksums of a group that is used for the first time. Returns whether it was.
pub(super) fn set_up(edit: &mut Edit<'_>, number: u64) -> Outcome<bool> {
    if !edit.store().has_data_checksums() {
        return Ok(false);
    }
    let chunk = sums_chunk(number);
    let (view, bit) = of_chunk(edit.core, chunk)?;
    if view.get(f::METADATA) & bit != 0 {
        return Ok(false);
    }
    for field in [f::METADATA, f::ROOM] {
        edit.tx.put(view, field, view.get(field) | bit);
    }
    make_all_sums(edit, number)?;
    edit.room.make(RoomKind::Blocks);
    Ok(true)
}

/// Makes the chunk of a group's checksums.
pub(crate) fn make_all_sums(edit: &mut Edit<'_>, number: u64) -> Outcome<()> {
    let chunk = sums_chunk(number);
    make_table(edit, chunk)?;
    for index in 0..SUMS_PER_GROUP {
        make_sums(edit, number, index)?;
    }
    let header = chunk_table(edit.core, chunk)?;
    edit.tx.set(header, chunk_header::USED, (CHUNK_HEADER_BLOCKS + SUMS_PER_GROUP) as u32);
    Ok(())
}

/// Makes one block of checksums, which has none, and its entry in the chunk's table.
pub(crate) fn make_sums(edit: &mut Edit<'_>, number: u64, index: u64) -> Outcome<()> {
    let at = sums_chunk(number) + (CHUNK_HEADER_BLOCKS + index) * BLOCK;
    let entry = table_entry(edit.core, at)?;
    describe(edit, entry, BlockKind::Sums as u8, number);
    let view = edit.tx.fresh(at, BlockKind::Sums, number)?;
    edit.tx.set(view, sums::NUMBER, index);
    Ok(())
}
