//! Small directories: one leaf, found through tags in the inode.
//!
//! The dummy entry that opens the list is always the first entry of the leaf.

use super::entry::{self, Dentry, Name};
use super::leaf;
use super::root::{root, set_root};
use crate::attempt::Core;
use crate::attempt::edit::Edit;
use crate::files::inode::Inode;
use crate::vocabulary::error::Outcome;
use lanefs_format::dir::{LEAF_HEADER_UNITS, entry as e, entry_units, small_tag};
use lanefs_format::{BLOCK, DirRoot, Field, FileKind, InodeSize, UNIT};
use lanefs_store::{Fault, View};

const _: () = assert!(
    2 * InodeSize::B256.small_entries() <= 64,
    "the index that `fill` makes takes a tag and a unit for each entry"
);

/// Slots of the small index whose tag is that of `hash`, as bits. The name decides between them.
#[inline(always)]
pub(crate) fn candidates(inode: View<'_>, size: InodeSize, hash: u32) -> u32 {
    inode.positions_of(size.small_tags(), small_tag(hash)) & ((1 << size.small_entries()) - 1)
}

/// Unit of the entry in this slot of the small index, 0 for none.
#[inline(always)]
pub(crate) fn unit_of(inode: View<'_>, size: InodeSize, slot: u32) -> u64 {
    u64::from(inode.get(Field::<u8>::at(size.small_units() + slot as usize)))
}

pub(crate) fn find<'a>(
    core: &Core<'a>,
    node: &Inode<'a>,
    leaf: u64,
    name: Name<'_>,
) -> Outcome<Option<Dentry<'a>>> {
    let size = core.store.inode_size();
    let mut slots = candidates(node.view, size, name.hash);
    while slots != 0 {
        let unit = unit_of(node.view, size, slots.trailing_zeros());
        slots &= slots - 1;
        if unit != 0 {
            let entry = Dentry::at(core, leaf.wrapping_add(unit * UNIT))?;
            if entry.is(name) {
                return Ok(Some(entry));
            }
        }
    }
    Ok(None)
}

/// Gives an empty directory its leaf and its dummy.
pub(super) fn begin(edit: &mut Edit<'_>, node: Inode<'_>) -> Outcome<()> {
    let leaf = leaf::add(edit, node)?;
    let view = leaf::alloc_in(edit, node, leaf, entry_units(0))?;
    let view = view.ok_or(Fault::damaged(leaf.at(), "a new leaf block without room"))?;
    entry::write(edit, view, Name { bytes: b"", hash: 0 }, 0, 0);
    set_root(edit, node, DirRoot::Small(leaf.at()));
    Ok(())
}

/// Gives an empty directory its first entries, all at once; the last one opens the list. False where the
/// directory is not empty, or they have no room: then it has its leaf and its dummy only.
pub(super) fn fill(
    edit: &mut Edit<'_>,
    node: Inode<'_>,
    entries: &[(Name<'_>, u64, FileKind)],
) -> Outcome<bool> {
    let size = edit.store().inode_size();
    if root(&node)? != DirRoot::Empty || entries.is_empty() || entries.len() > size.small_entries() {
        return Ok(false);
    }
    begin(edit, node)?;
    let DirRoot::Small(leaf) = root(&node)? else {
        return Err(Fault::damaged(node.view.at(), "a directory that is not small"));
    };
    let units = |name: Name<'_>| entry_units(name.bytes.len());
    let all: usize = entries.iter().map(|(name, ..)| units(*name)).sum();
    let block = leaf::header(edit.core, leaf)?;
    let Some(view) = leaf::alloc_in(edit, node, block, all)? else { return Ok(false) };
    let dummy = head(edit.core, leaf)?;
    let mut index = [0u8; 64];
    let (mut offset, mut next) = (0, 0);
    for (slot, (name, ino, kind)) in entries.iter().enumerate() {
        let len = units(*name) * UNIT as usize;
        let part = view.part(offset, len).ok_or(Fault::damaged(leaf, "a leaf block without room"))?;
        offset += len;
        let previous = if slot + 1 < entries.len() { view.at() + offset as u64 } else { dummy.view.at() };
        entry::write(edit, part, *name, *ino, *kind as u8);
        edit.tx.set(part, e::NEXT, next);
        edit.tx.set(part, e::PREVIOUS, previous);
        next = part.at();
        index[slot] = small_tag(name.hash);
        index[size.small_entries() + slot] = ((next & (BLOCK - 1)) / UNIT) as u8;
    }
    edit.tx.put(dummy.view, e::NEXT, next);
    edit.tx.put(dummy.view, e::COUNT, entries.len() as u16);
    edit.tx.put_bytes(node.view, size.small_tags(), &index[..2 * size.small_entries()]);
    Ok(true)
}

/// Loads the dummy entry of a small directory.
pub(super) fn head<'a>(core: &Core<'a>, leaf: u64) -> Outcome<Dentry<'a>> {
    entry::dummy(core, leaf + LEAF_HEADER_UNITS as u64 * UNIT)
}

/// True for a dummy entry that is where that of a small directory is: the first entry of its leaf.
pub(super) fn is_head(dummy: Dentry<'_>) -> bool {
    dummy.view.at() & (BLOCK - 1) == LEAF_HEADER_UNITS as u64 * UNIT
}

/// Adds an entry; false where the index or the leaf has no room.
pub(super) fn insert(
    edit: &mut Edit<'_>,
    node: Inode<'_>,
    leaf: u64,
    name: Name<'_>,
    ino: u64,
    kind: FileKind,
) -> Outcome<bool> {
    let size = edit.store().inode_size();
    let slots = size.small_entries() as u32;
    let Some(slot) = (0..slots).find(|p| unit_of(node.view, size, *p) == 0) else { return Ok(false) };
    let block = leaf::header(edit.core, leaf)?;
    let Some(view) = leaf::alloc_in(edit, node, block, entry_units(name.bytes.len()))? else {
        return Ok(false);
    };
    entry::write(edit, view, name, ino, kind as u8);
    let dummy = head(edit.core, leaf)?;
    entry::link_after(edit, dummy, view)?;
    entry::add_count(edit, dummy, 1)?;
    let unit = (view.at() & (BLOCK - 1)) / UNIT;
    edit.tx.put(node.view, Field::at(size.small_tags() + slot as usize), small_tag(name.hash));
    edit.tx.put(node.view, Field::at(size.small_units() + slot as usize), unit as u8);
    Ok(true)
}

pub(super) fn remove(edit: &mut Edit<'_>, node: Inode<'_>, leaf: u64, entry: Dentry<'_>) -> Outcome<()> {
    let size = edit.store().inode_size();
    let at = entry.view.at();
    let slot = (0..size.small_entries() as u32)
        .find(|p| leaf + unit_of(node.view, size, *p) * UNIT == at)
        .ok_or(Fault::damaged(at, "an entry that the small index does not know"))?;
    let units = entry.units();
    entry::unlink(edit, entry)?;
    edit.tx.put(node.view, Field::at(size.small_tags() + slot as usize), 0u8);
    edit.tx.put(node.view, Field::at(size.small_units() + slot as usize), 0u8);
    let dummy = head(edit.core, leaf)?;
    let left = entry::add_count(edit, dummy, -1)?;
    leaf::free(edit, node, entry.view, units)?;
    if left == 0 {
        set_root(edit, node, DirRoot::Empty);
        leaf::free(edit, node, dummy.view, entry_units(0))?;
    }
    Ok(())
}

/// Lists the entries of a region in the order of the list; no more than its dummy counts.
pub(super) fn members<'a>(core: &Core<'a>, dummy: Dentry<'a>) -> Outcome<Vec<Dentry<'a>>> {
    let mut members = Vec::with_capacity(dummy.count());
    let mut at = dummy.next();
    for _ in 0..dummy.count() {
        let entry = Dentry::at(core, at)?;
        if entry.is_dummy() {
            return Err(Fault::damaged(dummy.view.at(), "a region with fewer entries than it counts"));
        }
        at = entry.view.get(e::NEXT);
        members.push(entry);
    }
    Ok(members)
}

/// Fills the small index from the list, or empties it.
pub(super) fn set_index(edit: &mut Edit<'_>, node: Inode<'_>, entries: &[Dentry<'_>]) {
    let size = edit.store().inode_size();
    for slot in 0..size.small_entries() {
        let entry = entries.get(slot);
        let tag = entry.map_or(0, |entry| small_tag(entry.hash()));
        let unit = entry.map_or(0, |entry| (entry.view.at() & (BLOCK - 1)) / UNIT);
        edit.tx.put(node.view, Field::at(size.small_tags() + slot), tag);
        edit.tx.put(node.view, Field::at(size.small_units() + slot), unit as u8);
    }
}
