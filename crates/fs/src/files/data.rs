//! File content: inline in the inode, or in blocks through the file map.
//!
//! The bytes after the end of a file, in its last block, are zero, except those of a write that a crash cut
//! off, and of a truncation on a full volume. So they are cleared again when the file grows over them.
//!
//! A block that a commit may have is not overwritten where file data have checksums: its data go to a new
//! block (`docs/crash.md`). The data of a change are written at its end, see [`WritePlan`].

use super::inode::{Inode, set_flags, touch};
use super::map::{self, MapExtent, MapState};
use super::write_plan::WritePlan;
use crate::attempt::Core;
use crate::attempt::edit::Edit;
use crate::attempt::visited::Visited;
use crate::vocabulary::error::Outcome;
use crate::vocabulary::types::{Allocate, FileExtent, Seek};
use lanefs_format::{BLOCK, Code, INODE_CORE, INODE_INLINE, MAX_FILE_SIZE, inode as f};
use lanefs_store::{Fault, Want};
use std::borrow::Cow;
use std::ops::Range;

/// Size up to which a write that ends inside a block is padded to whole blocks.
const PADDED: usize = 1 << 20;

/// Reads from `offset` on; the result is short only at the end of the file.
pub(crate) fn read(core: &Core, node: Inode<'_>, offset: u64, buffer: &mut [u8]) -> Outcome<usize> {
    let size = node.size();
    if offset >= size {
        return Ok(0);
    }
    let len = (buffer.len() as u64).min(size - offset) as usize;
    let buffer = &mut buffer[..len];
    if node.is_inline() {
        if !node.view.copy_to(INODE_CORE + offset as usize, buffer) {
            return Err(Fault::damaged(node.view.at(), "inline data longer than the inode"));
        }
        return Ok(len);
    }
    let mut done = 0;
    while done < len {
        let at = offset + done as u64;
        let inside = at % BLOCK;
        let left = (len - done) as u64;
        let extent = map::lookup(core, node, at / BLOCK, (inside + left).div_ceil(BLOCK))?;
        let step = (extent.blocks.saturating_mul(BLOCK) - inside).min(left) as usize;
        let part = &mut buffer[done..done + step];
        match extent.state {
            MapState::Data(position) => {
                core.store.read_data(position + inside, part, extent.blocks).map_err(
                    |fault| match fault {
                        Fault::Miss { at: missed, want: Want::Data { need, .. } } => {
                            let first = at / BLOCK + (missed / BLOCK).saturating_sub(position / BLOCK);
                            Fault::Miss {
                                at: missed,
                                want: Want::Data { need, extent: ahead(core, node, first, need) },
                            }
                        }
                        fault => fault,
                    },
                )?;
            }
            MapState::Hole | MapState::Unwritten(_) => part.fill(0),
        }
        done += step;
    }
    debug_assert_eq!(done, len, "bytes read");
    Ok(len)
}

/// Number of blocks, `need` at least, that are consecutive on the volume from the file's block `first` on:
/// the limit of readahead.
#[cold]
fn ahead(core: &Core<'_>, node: Inode<'_>, first: u64, need: u32) -> u32 {
    /// 16 MiB; one lookup covers 2 MiB of small blocks at most.
    const FAR: u64 = 4096;
    let blocks = map::lookup(core, node, first, FAR).map_or(0, |extent| extent.blocks);
    blocks.min(FAR).max(u64::from(need)) as u32
}

/// Writes the content of a file that this change has made.
pub(crate) fn write_new(edit: &mut Edit<'_>, node: Inode<'_>, data: &[u8]) -> Outcome<()> {
    let mut plan = WritePlan::default();
    write(edit, node, 0, data, &mut plan)?;
    debug_assert!(plan.is_new(), "a new file has old blocks");
    if plan.is_empty() { Ok(()) } else { plan.carry_out(edit) }
}

/// Writes all of `data` and grows the file where necessary.
pub(crate) fn write<'d>(
    edit: &mut Edit<'_>,
    node: Inode<'_>,
    offset: u64,
    data: &'d [u8],
    plan: &mut WritePlan<'d>,
) -> Outcome<()> {
    if data.is_empty() {
        return Ok(());
    }
    let end = offset.checked_add(data.len() as u64).filter(|end| *end <= MAX_FILE_SIZE);
    let end = end.ok_or(Code::FileTooLarge)?;
    edit.tx.lock(node.view)?;
    let size = node.size();
    let empty = size == 0 && map::is_empty(&node)?;
    if (node.is_inline() || empty) && end <= node.room()? as u64 {
        set_flags(edit, node, 0, INODE_INLINE);
        edit.tx.put_bytes(node.view, INODE_CORE + offset as usize, data);
    } else {
        spill(edit, node, plan)?;
        clear_tail(edit, node, size, offset, plan)?;
        let aligned = offset.is_multiple_of(BLOCK) && end >= size && !end.is_multiple_of(BLOCK);
        if aligned && data.len() <= PADDED {
            write_blocks(edit, node, offset / BLOCK, Cow::Borrowed(data), plan)?;
        } else {
            write_parts(edit, node, offset, data, plan)?;
        }
    }
    if end > size {
        edit.tx.put(node.view, f::BYTES, end);
    }
    touch(edit, node);
    Ok(())
}

/// Moves inline data to a block.
fn spill(edit: &mut Edit<'_>, node: Inode<'_>, plan: &mut WritePlan<'_>) -> Outcome<()> {
    if !node.is_inline() {
        return Ok(());
    }
    let mut block = [0u8; BLOCK as usize];
    let size = node.size() as usize;
    if size > node.room()? || !node.view.copy_to(INODE_CORE, &mut block[..size]) {
        return Err(Fault::damaged(node.view.at(), "inline data longer than the inode"));
    }
    clear_inline(edit, node, 0)?;
    set_flags(edit, node, INODE_INLINE, 0);
    if size > 0 {
        write_blocks(edit, node, 0, Cow::Owned(block.to_vec()), plan)?;
    }
    Ok(())
}

fn clear_inline(edit: &mut Edit<'_>, node: Inode<'_>, from: usize) -> Outcome<()> {
    let zeros = [0u8; 256];
    let room = node.room()?;
    edit.tx.put_bytes(node.view, INODE_CORE + from, &zeros[from.min(room)..room]);
    Ok(())
}

fn write_parts<'d>(
    edit: &mut Edit<'_>,
    node: Inode<'_>,
    offset: u64,
    data: &'d [u8],
    plan: &mut WritePlan<'d>,
) -> Outcome<()> {
    let head = (offset.next_multiple_of(BLOCK) - offset).min(data.len() as u64) as usize;
    let (first, rest) = data.split_at(head);
    let (middle, last) = rest.split_at(rest.len() & !(BLOCK as usize - 1));
    if !first.is_empty() {
        write_inside(edit, node, offset, Cow::Borrowed(first), plan)?;
    }
    write_blocks(edit, node, offset.div_ceil(BLOCK), Cow::Borrowed(middle), plan)?;
    if !last.is_empty() {
        write_inside(edit, node, offset + (head + middle.len()) as u64, Cow::Borrowed(last), plan)?;
    }
    Ok(())
}

/// Writes inside one block. A block that held nothing is written as a whole, so that the bytes around the
/// data are zero; so is one that gets a new position.
fn write_inside<'d>(
    edit: &mut Edit<'_>,
    node: Inode<'_>,
    offset: u64,
    data: Cow<'d, [u8]>,
    plan: &mut WritePlan<'d>,
) -> Outcome<()> {
    let (block, inside) = (offset / BLOCK, offset % BLOCK);
    let mut whole = vec![0u8; BLOCK as usize];
    if let MapState::Data(at) = map::lookup(edit.core, node, block, 1)?.state {
        if plan.may_overwrite(edit, &node, at, 1).0 {
            plan.add(&node, at + inside, data, false);
            return Ok(());
        }
        edit.store().read_data(at, &mut whole, 1)?;
    }
    whole[inside as usize..inside as usize + data.len()].copy_from_slice(&data);
    write_blocks(edit, node, block, Cow::Owned(whole), plan)
}

/// Writes whole blocks; zeros follow the data in the last one.
fn write_blocks<'d>(
    edit: &mut Edit<'_>,
    node: Inode<'_>,
    block: u64,
    mut data: Cow<'d, [u8]>,
    plan: &mut WritePlan<'d>,
) -> Outcome<()> {
    let (mut at, mut done, len) = (block, 0, data.len());
    while done < len {
        let left = ((len - done) as u64).div_ceil(BLOCK);
        let extent = map::lookup(edit.core, node, at, left)?;
        let (position, blocks, is_new) = match extent.state {
            MapState::Data(position) => match plan.may_overwrite(edit, &node, position, extent.blocks) {
                (true, blocks) => (position, blocks, false),
                (false, blocks) => {
                    let (position, blocks) = map::replace(edit, node, at, blocks)?;
                    (position, blocks, true)
                }
            },
            MapState::Unwritten(position) => {
                map::mark_written(edit, node, at, extent.blocks)?;
                (position, extent.blocks, false)
            }
            MapState::Hole => {
                let (position, blocks) = map::allocate_hole(edit, node, at, extent.blocks, false)?;
                (position, blocks, true)
            }
        };
        let end = len.min(done + (blocks * BLOCK) as usize);
        let part = match &mut data {
            Cow::Borrowed(all) => Cow::Borrowed(&all[done..end]),
            Cow::Owned(all) if done == 0 && end == len => Cow::Owned(std::mem::take(all)),
            Cow::Owned(all) => Cow::Owned(all[done..end].to_vec()),
        };
        plan.add_blocks(&node, position, part, is_new);
        (at, done) = (at + blocks, end);
    }
    Ok(())
}

/// Writes zeros past the end of a file, as far as its last block and `to` reach.
fn clear_tail(
    edit: &mut Edit<'_>,
    node: Inode<'_>,
    size: u64,
    to: u64,
    plan: &mut WritePlan<'_>,
) -> Outcome<()> {
    let to = to.min(size.checked_next_multiple_of(BLOCK).unwrap_or(size));
    if node.is_inline() { Ok(()) } else { zero_inside(edit, node, size, to, plan) }
}

/// Writes zeros over the allocated part of a range within one block.
fn zero_inside(
    edit: &mut Edit<'_>,
    node: Inode<'_>,
    from: u64,
    to: u64,
    plan: &mut WritePlan<'_>,
) -> Outcome<()> {
    if from < to && matches!(map::lookup(edit.core, node, from / BLOCK, 1)?.state, MapState::Data(_)) {
        write_inside(edit, node, from, Cow::Owned(vec![0; (to - from) as usize]), plan)?;
    }
    Ok(())
}

/// Writes zeros over the rest of a file's last block, unless that needs a new block on a full volume, where a
/// file can always be truncated.
fn zero_rest(edit: &mut Edit<'_>, node: Inode<'_>, size: u64, plan: &mut WritePlan<'_>) -> Outcome<()> {
    if let MapState::Data(at) = map::lookup(edit.core, node, size / BLOCK, 1)?.state
        && (!plan.keeps_rests() || plan.may_overwrite(edit, &node, at, 1).0)
    {
        zero_inside(edit, node, size, size.next_multiple_of(BLOCK), plan)?;
    }
    Ok(())
}

/// Truncates a file, or grows it with a hole.
pub(crate) fn truncate(
    edit: &mut Edit<'_>,
    node: Inode<'_>,
    size: u64,
    plan: &mut WritePlan<'_>,
) -> Outcome<()> {
    if size > MAX_FILE_SIZE {
        return Err(Code::FileTooLarge.into());
    }
    edit.tx.lock(node.view)?;
    let old = node.size();
    if node.is_inline() {
        if size > node.room()? as u64 {
            spill(edit, node, plan)?;
        } else if size < old {
            clear_inline(edit, node, size as usize)?;
            if size == 0 {
                set_flags(edit, node, INODE_INLINE, 0);
            }
        }
    } else if size < old {
        map::punch(edit, node, size.div_ceil(BLOCK), u64::MAX)?;
        zero_rest(edit, node, size, plan)?;
    } else {
        clear_tail(edit, node, old, size, plan)?;
    }
    edit.tx.put(node.view, f::BYTES, size);
    touch(edit, node);
    Ok(())
}

/// `fallocate(2)`.
pub(crate) fn fallocate(
    edit: &mut Edit<'_>,
    node: Inode<'_>,
    mode: Allocate,
    offset: u64,
    len: u64,
    plan: &mut WritePlan<'_>,
) -> Outcome<()> {
    if len == 0 {
        return Err(Code::Invalid.into());
    }
    let end = offset.checked_add(len).filter(|end| *end <= MAX_FILE_SIZE).ok_or(Code::FileTooLarge)?;
    edit.tx.lock(node.view)?;
    let size = node.size();
    match mode {
        Allocate::Extend | Allocate::KeepSize => {
            let inside = end <= node.room()? as u64;
            if !(inside && (node.is_inline() || size == 0 && map::is_empty(&node)?)) {
                spill(edit, node, plan)?;
                let first = offset / BLOCK;
                map::allocate(edit, node, first, end.div_ceil(BLOCK) - first)?;
            } else if mode == Allocate::Extend && end > size {
                set_flags(edit, node, 0, INODE_INLINE);
            }
        }
        Allocate::PunchHole | Allocate::ZeroRange => {
            clear(edit, FileRange { node, bytes: offset..end, plan }, mode == Allocate::ZeroRange)?;
        }
        Allocate::CollapseRange | Allocate::InsertRange => {
            shift(edit, FileRange { node, bytes: offset..end, plan }, mode == Allocate::InsertRange)?;
        }
    }
    if matches!(mode, Allocate::Extend | Allocate::ZeroRange) && end > size {
        clear_tail(edit, node, size, end, plan)?;
        edit.tx.put(node.view, f::BYTES, end);
    }
    touch(edit, node);
    Ok(())
}

/// A range of a file, and the change to which its data belong.
struct FileRange<'r, 'd> {
    node: Inode<'r>,
    bytes: Range<u64>,
    plan: &'r mut WritePlan<'d>,
}

/// Makes a range read as zeros: as a hole, or as blocks that are allocated.
fn clear(edit: &mut Edit<'_>, range: FileRange<'_, '_>, allocates: bool) -> Outcome<()> {
    let FileRange { node, bytes: Range { start: offset, end }, plan } = range;
    let size = node.size();
    if node.is_inline() {
        let room = node.room()? as u64;
        if end > room && end > size && allocates {
            spill(edit, node, plan)?;
        } else {
            let (from, to) = (offset.min(room), end.min(size).min(room));
            if from < to {
                let zeros = [0u8; 256];
                edit.tx.put_bytes(node.view, INODE_CORE + from as usize, &zeros[..(to - from) as usize]);
            }
            return Ok(());
        }
    }
    let (first, last) = (offset.div_ceil(BLOCK), end / BLOCK);
    if first > last {
        return zero_inside(edit, node, offset, end, plan);
    }
    if first < last {
        map::punch(edit, node, first, last)?;
    }
    if allocates {
        let from = offset / BLOCK;
        map::allocate(edit, node, from, end.div_ceil(BLOCK) - from)?;
    }
    zero_inside(edit, node, offset, first * BLOCK, plan)?;
    zero_inside(edit, node, last * BLOCK, end, plan)
}

/// `SEEK_DATA` and `SEEK_HOLE`.
pub(crate) fn seek(core: &Core, node: Inode<'_>, offset: u64, what: Seek) -> Outcome<u64> {
    let size = node.size();
    if offset >= size {
        return Err(Code::NoSuchRange.into());
    }
    if node.is_inline() {
        return Ok(if what == Seek::Data { offset } else { size });
    }
    let mut block = offset / BLOCK;
    let mut visited = Visited::default();
    // No file has more extents and holes than this; the loop ends on a damaged map.
    for _ in 0..=2 * core.store.bytes() / BLOCK + 1024 {
        let extent = map::lookup(core, node, block, u64::MAX - block)?;
        let is_data = matches!(extent.state, MapState::Data(_));
        if is_data == (what == Seek::Data) {
            let at = (block * BLOCK).max(offset);
            return if at < size { Ok(at) } else { Err(Code::NoSuchRange.into()) };
        }
        if let MapState::Data(position) | MapState::Unwritten(position) = extent.state {
            visited.meet(block, position, node.view.at())?;
        }
        block = block.saturating_add(extent.blocks);
        if block >= size.div_ceil(BLOCK) {
            return if what == Seek::Hole { Ok(size) } else { Err(Code::NoSuchRange.into()) };
        }
    }
    Err(Fault::damaged(node.view.at(), "a file map with more extents than the volume has blocks"))
}

/// The extents of a file, including those past its end.
pub(crate) fn extents(core: &Core, node: Inode<'_>) -> Outcome<Vec<FileExtent>> {
    if node.is_inline() {
        return Ok(Vec::new());
    }
    let extent = |extent: &MapExtent| FileExtent {
        offset: extent.first * BLOCK,
        position: extent.at,
        bytes: extent.blocks * BLOCK,
        unwritten: extent.unwritten,
    };
    Ok(map::list(core, node, 0)?.iter().map(extent).collect())
}

/// Removes a range from a file, or inserts one that reads as zeros. Both ends of the range are those of
/// blocks.
fn shift(edit: &mut Edit<'_>, range: FileRange<'_, '_>, inserts: bool) -> Outcome<()> {
    let FileRange { node, bytes: Range { start: offset, end }, plan } = range;
    let size = node.size();
    let is_inside = if inserts { offset < size } else { end < size };
    if !offset.is_multiple_of(BLOCK) || !end.is_multiple_of(BLOCK) || !is_inside {
        return Err(Code::Invalid.into());
    }
    if inserts && size > MAX_FILE_SIZE - (end - offset) {
        return Err(Code::FileTooLarge.into());
    }
    spill(edit, node, plan)?;
    let (first, last) = (offset / BLOCK, end / BLOCK);
    if inserts {
        // Blocks past the end of the file go that would lie past the end of the largest file.
        map::punch(edit, node, MAX_FILE_SIZE / BLOCK - (last - first), u64::MAX)?;
        map::move_tail(edit, node, first, last)?;
        edit.tx.put(node.view, f::BYTES, size + (end - offset));
    } else {
        map::punch(edit, node, first, last)?;
        map::move_tail(edit, node, last, first)?;
        edit.tx.put(node.view, f::BYTES, size - (end - offset));
    }
    Ok(())
}
