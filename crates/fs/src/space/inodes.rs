//! Allocation of inodes in inode blocks, which are metadata blocks.

use super::chunks::{alloc_block, free_block};
use super::groups::{chunk_at, group, of_chunk, peek};
use super::search::{Kind, goes_on, walk, with_chunks};
use super::tables::{chunk_table, peek_entry, table_entry};
use crate::attempt::Core;
use crate::attempt::edit::Edit;
use crate::mounted::cursors::RoomKind;
use crate::vocabulary::error::Outcome;
use lanefs_format::{
    BLOCK, BLOCKS_PER_CHUNK, BlockKind, CHUNK, CHUNK_HEADER_BLOCKS, Code, GROUP, InodeSize, chunk_entry,
    group as f, inode,
};
use lanefs_store::{Fault, View};

/// Number of inodes in an inode block.
pub(crate) fn per_block(size: InodeSize) -> u64 {
    BLOCK / size.bytes()
}

/// True where group table and chunk table say that `at` is in an inode block.
pub(crate) fn may_hold_inodes(core: &Core<'_>, at: u64) -> Outcome<bool> {
    let block = at & !(BLOCK - 1);
    if at >= core.store.bytes() || core.store.is_retired(block) {
        return Ok(false);
    }
    if !is_in_metadata(core, at)? || at % CHUNK < CHUNK_HEADER_BLOCKS * BLOCK {
        return Ok(false);
    }
    Ok(table_entry(core, block)?.get(chunk_entry::KIND) == BlockKind::Inodes as u8)
}

/// Allocates an inode. Its bytes are those of its last use, and the caller overwrites all of them. The inode
/// stays free until its mode is set.
///
/// # Errors
/// [`Code::NoSpace`](lanefs_format::Code::NoSpace).
pub(crate) fn alloc_inode<'v>(edit: &mut Edit<'v>) -> Outcome<(u64, View<'v>)> {
    let size = edit.store().inode_size();
    loop {
        if edit.hints.inode_block == 0 {
            return_to_freed(edit);
        }
        let found_by_table = edit.hints.inode_block == 0;
        if found_by_table {
            find_block(edit)?;
        }
        let block = edit.hints.inode_block;
        let entry = match table_entry(edit.core, block) {
            Ok(entry) if is_in_use(edit, entry, block) => entry,
            // Another writer has freed the last inode of the block, and perhaps the chunk.
            Ok(_) | Err(Fault::Damaged { .. }) if !found_by_table => {
                edit.hints.inode_block = 0;
                continue;
            }
            // The same; what is there now is not resident.
            Err(Fault::Miss { .. }) if !found_by_table && !is_in_metadata(edit.core, block)? => {
                edit.hints.inode_block = 0;
                continue;
            }
            entry => entry?,
        };
        edit.claim(block);
        for slot in edit.hints.inode_slot..per_block(size) {
            let number = block / size.bytes() + slot;
            let view = edit.store().inode(number)?;
            if view.get(inode::MODE) == 0 {
                edit.room.take(RoomKind::Inodes);
                edit.tx.put(entry, chunk_entry::USED, entry.get(chunk_entry::USED).wrapping_add(1));
                edit.hints.inode_slot = slot + 1;
                edit.counts.inodes += 1;
                return Ok((number, view));
            }
        }
        edit.hints.inode_block = 0;
        if found_by_table {
            // The table would give the same block again and again.
            return Err(Fault::damaged(
                block,
                "an inode block has fewer free inodes than its chunk table says",
            ));
        }
    }
}

/// True for a block that its table entry gives as an inode block, and that no transaction has freed.
fn is_in_use(edit: &Edit<'_>, entry: View<'_>, block: u64) -> bool {
    entry.get(chunk_entry::KIND) == BlockKind::Inodes as u8 && !edit.store().is_retired(block)
}

/// True where the group table says that `at` is in a metadata chunk.
fn is_in_metadata(core: &Core<'_>, at: u64) -> Outcome<bool> {
    let (group, bit) = of_chunk(core, at & !(CHUNK - 1))?;
    Ok(group.get(f::METADATA) & bit != 0)
}

/// Points the hints at the inode that this writer has freed last, if it knows one whose block no other writer
/// has claimed. The inode may be in use by now.
fn return_to_freed(edit: &mut Edit<'_>) {
    let number = std::mem::take(&mut edit.hints.freed_inode);
    let bytes = edit.store().inode_size().bytes();
    let block = (number * bytes) & !(BLOCK - 1);
    if block != 0 && !edit.is_claimed(block) && !edit.is_claimed(block & !(CHUNK - 1)) {
        (edit.hints.inode_block, edit.hints.inode_slot) =
            (block, number % per_block(edit.store().inode_size()));
    }
}

/// Points the hints at an inode block with room, or at a new one.
fn find_block(edit: &mut Edit<'_>) -> Outcome<()> {
    if let Some(block) = search(edit)? {
        (edit.hints.inode_block, edit.hints.inode_slot) = (block, 0);
        return Ok(());
    }
    let block = match alloc_block(edit, BlockKind::Inodes, 0) {
        Ok(view) => {
            // The bit makes the block known to the next mount. The search clears bits that are out of date.
            let (group, bit) = of_chunk(edit.core, view.at() & !(CHUNK - 1))?;
            edit.tx.put(group, f::INODE_ROOM, group.get(f::INODE_ROOM) | bit);
            edit.room.make(RoomKind::Inodes);
            view.at()
        }
        Err(full @ Fault::Code(Code::NoSpace)) => {
            {
                // Nothing else is left, so writers share.
                let find = |edit: &mut Edit<'_>, number| search_group(edit, number, false);
                walk(edit, Kind::Inodes, 1, 0, find)?.ok_or(full)?
            }
        }
        Err(fault) => return Err(fault),
    };
    (edit.hints.inode_block, edit.hints.inode_slot) = (block, 0);
    Ok(())
}

/// Searches a few groups for an inode block with room.
fn search(edit: &mut Edit<'_>) -> Outcome<Option<u64>> {
    let cursor = &edit.core.state.cursors.inodes;
    for number in with_chunks(edit.core, cursor) {
        let found = search_group(edit, number, true)?;
        if found.is_some() {
            return Ok(found);
        }
        // Other writers fill the chunks that they claimed. A search each time would cost more than the few
        // inodes that they leave.
        if !goes_on(cursor, number, peek(edit.core, number)?) {
            break;
        }
    }
    Ok(None)
}

/// An inode block with room in group `number`; with `sparing`, none that another writer has claimed.
fn search_group(edit: &mut Edit<'_>, number: u64, sparing: bool) -> Outcome<Option<u64>> {
    let view = peek(edit.core, number)?;
    let mut room = view.get(f::INODE_ROOM) & view.get(f::METADATA);
    while room != 0 {
        let chunk = u64::from(room.trailing_zeros());
        room &= room - 1;
        // The other writer of a claimed chunk uses its room, and changes its table meanwhile.
        if sparing && edit.is_claimed(chunk_at(number, chunk)) {
            continue;
        }
        if group(edit.core, number)?.get(f::METADATA) & 1 << chunk == 0 {
            // The chunk has been freed since `peek`.
            continue;
        }
        match block_with_room(edit, chunk_at(number, chunk))? {
            Some(block) if sparing && edit.is_claimed(block) => {}
            Some(block) => return Ok(Some(block)),
            None => {
                let view = group(edit.core, number)?;
                edit.tx.put(view, f::INODE_ROOM, view.get(f::INODE_ROOM) & !(1 << chunk));
            }
        }
    }
    Ok(None)
}

/// The position of an inode block with room in a chunk.
fn block_with_room(edit: &Edit<'_>, chunk: u64) -> Outcome<Option<u64>> {
    chunk_table(edit.core, chunk)?;
    let blocks = (CHUNK_HEADER_BLOCKS..BLOCKS_PER_CHUNK).map(|slot| chunk + slot * BLOCK);
    // A look at all entries shows which one is worth tracking: most blocks of a chunk are full.
    for at in blocks.clone() {
        if has_room(edit, peek_entry(edit.core, at)?) {
            if is_block_with_room(edit, at)? {
                return Ok(Some(at));
            }
            break;
        }
    }
    // That no entry has room is true only of all entries at the same time, so all are tracked.
    for at in blocks {
        if is_block_with_room(edit, at)? {
            return Ok(Some(at));
        }
    }
    Ok(None)
}

/// True where the table and the block say that the block at `at` is an inode block with room.
fn is_block_with_room(edit: &Edit<'_>, at: u64) -> Outcome<bool> {
    if !has_room(edit, table_entry(edit.core, at)?) {
        return Ok(false);
    }
    match edit.store().block(at, BlockKind::Inodes) {
        Ok(_) => Ok(true),
        // The block is damaged, or this transaction has freed it.
        Err(Fault::Damaged { .. }) => Ok(false),
        Err(miss) => Err(miss),
    }
}

/// True for the table entry of an inode block with a free inode.
fn has_room(edit: &Edit<'_>, entry: View<'_>) -> bool {
    entry.get(chunk_entry::KIND) == BlockKind::Inodes as u8
        && u64::from(entry.get(chunk_entry::USED)) < per_block(edit.store().inode_size())
}

/// Frees an inode, and its inode block with the last one.
pub(crate) fn free_inode(edit: &mut Edit<'_>, number: u64) -> Outcome<()> {
    let view = edit.store().inode(number)?;
    if view.get(inode::MODE) == 0 {
        return Err(Fault::damaged(view.at(), "an inode is freed twice"));
    }
    edit.tx.put(view, inode::MODE, 0);
    edit.counts.inodes -= 1;
    let block = view.at() & !(BLOCK - 1);
    let entry = table_entry(edit.core, block)?;
    let used = entry.get(chunk_entry::USED).saturating_sub(1);
    edit.tx.put(entry, chunk_entry::USED, used);
    if used == 0 && block != edit.hints.inode_block {
        return free_block(edit, block, BlockKind::Inodes);
    }
    let (group, bit) = of_chunk(edit.core, block & !(CHUNK - 1))?;
    if group.get(f::INODE_ROOM) & bit == 0 {
        edit.tx.put(group, f::INODE_ROOM, group.get(f::INODE_ROOM) | bit);
    }
    edit.core.state.cursors.inodes.go_back_to(block / GROUP);
    edit.made_room = true;
    if block == edit.hints.inode_block {
        let slot = (view.at() - block) / edit.store().inode_size().bytes();
        edit.hints.inode_slot = edit.hints.inode_slot.min(slot);
    } else {
        edit.hints.freed_inode = number;
    }
    Ok(())
}
