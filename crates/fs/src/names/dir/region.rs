//! Hash regions: insertion, removal, split and merge.

use super::entry::{self, Dentry, Name};
use super::root::{root, set_root};
use super::tree::{self, Child, REGION, TreePath};
use super::{index, leaf, small, unindexed};
use crate::attempt::edit::Edit;
use crate::files::inode::{Inode, add_blocks};
use crate::space;
use crate::vocabulary::error::Outcome;
use lanefs_format::dir::{REGION_LOW, REGION_MAX, REGION_MERGED, Slot, entry as e, entry_units, index as x};
use lanefs_format::{BLOCK, BlockKind, DirRoot, FileKind};
use lanefs_store::{Fault, View};

pub(super) fn new_index<'v>(edit: &mut Edit<'v>, node: Inode<'_>, dummy: u64) -> Outcome<View<'v>> {
    let view = space::alloc_block(edit, BlockKind::Index, node.ino)?;
    add_blocks(edit, node, 1)?;
    edit.tx.set(view, x::DUMMY, dummy);
    Ok(view)
}

pub(super) fn free_index(edit: &mut Edit<'_>, node: Inode<'_>, at: u64) -> Outcome<()> {
    space::free_block(edit, at, BlockKind::Index)?;
    add_blocks(edit, node, -1)
}

/// Loads the index block of a region and its dummy entry.
fn region<'v>(edit: &Edit<'v>, at: u64) -> Outcome<(View<'v>, Dentry<'v>)> {
    let view = edit.store().block(at, BlockKind::Index)?;
    let dummy = entry::dummy(edit.core, view.get(x::DUMMY))?;
    let is_full = dummy.count() >= REGION_MAX;
    if dummy.ino() != at || unindexed::count(view) != 0 && !is_full {
        return Err(Fault::damaged(at, "a region index block and its dummy contradict each other"));
    }
    Ok((view, dummy))
}

/// Gives an index block to a small directory that outgrew its inode.
pub(super) fn from_small(edit: &mut Edit<'_>, node: Inode<'_>, leaf: u64) -> Outcome<()> {
    let dummy = small::head(edit.core, leaf)?;
    let members = small::members(edit.core, dummy)?;
    let view = new_index(edit, node, dummy.view.at())?;
    for member in &members {
        index::add(edit, view, Slot::new(member.hash(), member.view.at()), true)?;
    }
    small::set_index(edit, node, &[]);
    edit.tx.put(dummy.view, e::INODE, view.at());
    set_root(edit, node, DirRoot::Region(view.at()));
    Ok(())
}

/// Moves the index of a single region with few entries in a single leaf into the inode.
fn to_small(edit: &mut Edit<'_>, node: Inode<'_>, dummy: Dentry<'_>, index: u64) -> Outcome<()> {
    let members = small::members(edit.core, dummy)?;
    small::set_index(edit, node, &members);
    edit.tx.put(dummy.view, e::INODE, 0);
    set_root(edit, node, DirRoot::Small(dummy.view.at() & !(BLOCK - 1)));
    free_index(edit, node, index)
}

pub(super) fn insert(
    edit: &mut Edit<'_>,
    node: Inode<'_>,
    name: Name<'_>,
    ino: u64,
    kind: FileKind,
) -> Outcome<()> {
    let (index, dummy, has_room) = loop {
        let (path, at) = tree::locate(edit.core, &node, name.hash)?;
        let (index, dummy) = region(edit, at)?;
        if dummy.count() < REGION_MAX {
            break (index, dummy, true);
        }
        if !make_room(edit, node, path, index, dummy, name.hash)? {
            break (index, dummy, false);
        }
    };
    let view = leaf::alloc(edit, node, entry_units(name.bytes.len()))?;
    entry::write(edit, view, name, ino, kind as u8);
    entry::link_after(edit, dummy, view)?;
    if !has_room {
        return unindexed::add(edit, index);
    }
    index::add(edit, index, Slot::new(name.hash, view.at()), false)?;
    entry::add_count(edit, dummy, 1)?;
    Ok(())
}

/// Divides a full region, so that a name with `hash` may find room in a part; false where all entries have
/// this very hash.
fn make_room(
    edit: &mut Edit<'_>,
    node: Inode<'_>,
    path: TreePath,
    old: View<'_>,
    dummy: Dentry<'_>,
    hash: u32,
) -> Outcome<bool> {
    let mut only = unindexed::hash(edit.core, old)?;
    if only == Some(hash) {
        return Ok(false);
    }
    let (mut entries, end) = members(edit, old, dummy)?;
    if only.is_none() {
        match pivot(&mut entries) {
            Some(pivot) => {
                split(edit, node, path, old, dummy, (&entries, end), pivot)?;
                return Ok(true);
            }
            None => only = entries.first().map(|(hash, _)| *hash),
        }
    }
    match only {
        Some(only) if only < hash => open_right(edit, node, path, old, dummy, (end, only + 1))?,
        Some(only) if only > hash => open_left(edit, node, path, old, dummy, only)?,
        _ => return Ok(false),
    }
    Ok(true)
}

/// Lists the entries of a region that have a slot, with their hashes, and the last entry of the region.
fn members<'v>(
    edit: &Edit<'v>,
    index: View<'_>,
    dummy: Dentry<'_>,
) -> Outcome<(Vec<(u32, Dentry<'v>)>, Dentry<'v>)> {
    let positions: Vec<u64> = index::slots(index).map(Slot::position).collect();
    if positions.len() != dummy.count() {
        return Err(Fault::damaged(index.at(), "a region index block with a wrong number of slots"));
    }
    for at in &positions {
        edit.store().prefetch(*at);
    }
    let mut entries = Vec::with_capacity(positions.len());
    for at in positions {
        let entry = Dentry::at(edit.core, at)?;
        entries.push((entry.hash(), entry));
    }
    let mut last = None;
    for (_, entry) in &entries {
        let next = entry.next();
        if next == 0 || Dentry::at(edit.core, next)?.is_dummy() {
            last = Some(*entry);
        }
    }
    let last = last.ok_or(Fault::damaged(dummy.view.at(), "a region without an end"))?;
    Ok((entries, last))
}

/// Opens an empty region on the right of one whose entries all have one hash. It begins at `lowest`.
fn open_right(
    edit: &mut Edit<'_>,
    node: Inode<'_>,
    path: TreePath,
    old: View<'_>,
    dummy: Dentry<'_>,
    (last, lowest): (Dentry<'_>, u32),
) -> Outcome<()> {
    let (second, index) = new_region(edit, node, lowest)?;
    entry::link_after(edit, last, second)?;
    let left = Child { lowest: dummy.hash(), form: REGION, at: old.at() };
    tree::insert(edit, node, path, left, Child { lowest, form: REGION, at: index.at() })
}

/// Opens an empty region on the left of the entries of a region, which all have the hash `lowest`: it keeps
/// the dummy, and the entries get a new one.
fn open_left(
    edit: &mut Edit<'_>,
    node: Inode<'_>,
    path: TreePath,
    old: View<'_>,
    dummy: Dentry<'_>,
    lowest: u32,
) -> Outcome<()> {
    let (second, index) = new_region(edit, node, lowest)?;
    entry::link_after(edit, dummy, second)?;
    edit.tx.set(second, e::INODE, old.at());
    edit.tx.set(second, e::COUNT, dummy.count() as u16);
    edit.tx.put(old, x::DUMMY, second.at());
    edit.tx.put(dummy.view, e::INODE, index.at());
    edit.tx.put(dummy.view, e::COUNT, 0);
    edit.tx.set(index, x::DUMMY, dummy.view.at());
    tree::set_position(edit, node, path, index.at())?;
    let left = Child { lowest: dummy.hash(), form: REGION, at: index.at() };
    tree::insert(edit, node, path, left, Child { lowest, form: REGION, at: old.at() })
}

/// Makes a dummy and an index block that name each other.
fn new_region<'v>(edit: &mut Edit<'v>, node: Inode<'_>, lowest: u32) -> Outcome<(View<'v>, View<'v>)> {
    let dummy = leaf::alloc(edit, node, entry_units(0))?;
    let index = new_index(edit, node, dummy.at())?;
    entry::write(edit, dummy, Name { bytes: b"", hash: lowest }, index.at(), 0);
    Ok((dummy, index))
}

/// Splits a full region at the hash in the middle. Entries are relinked and do not move.
fn split(
    edit: &mut Edit<'_>,
    node: Inode<'_>,
    path: TreePath,
    old: View<'_>,
    dummy: Dentry<'_>,
    (entries, last): (&[(u32, Dentry<'_>)], Dentry<'_>),
    (pivot, lowest): (usize, u32),
) -> Outcome<()> {
    // Position of the entry that follows the region in the list: the dummy of the next region, or 0.
    let after = last.next();
    let (left, right) = entries.split_at(pivot);
    debug_assert!(!left.is_empty() && !right.is_empty(), "a part without entries");
    debug_assert!(left.iter().all(|(hash, _)| *hash < lowest), "a hash of the right part on the left");
    debug_assert!(right.iter().all(|(hash, _)| *hash >= lowest), "a hash of the left part on the right");

    let left_index = new_index(edit, node, dummy.view.at())?;
    let (second, right_index) = new_region(edit, node, lowest)?;
    let second = Dentry::at(edit.core, second.at())?;
    for (index, part) in [(left_index, left), (right_index, right)] {
        for (hash, entry) in part {
            index::add(edit, index, Slot::new(*hash, entry.view.at()), true)?;
        }
    }
    edit.tx.put(dummy.view, e::INODE, left_index.at());
    edit.tx.put(dummy.view, e::COUNT, left.len() as u16);
    edit.tx.set(second.view, e::COUNT, right.len() as u16);

    let chain =
        left.iter().map(|(_, entry)| *entry).chain([second]).chain(right.iter().map(|(_, entry)| *entry));
    let mut before = dummy;
    for entry in chain {
        edit.tx.put(before.view, e::NEXT, entry.view.at());
        edit.tx.put(entry.view, e::PREVIOUS, before.view.at());
        before = entry;
    }
    edit.tx.put(before.view, e::NEXT, after);
    if after != 0 {
        let after = Dentry::at(edit.core, after)?;
        edit.tx.put(after.view, e::PREVIOUS, before.view.at());
    }

    tree::set_position(edit, node, path, left_index.at())?;
    let left = Child { lowest: dummy.hash(), form: REGION, at: left_index.at() };
    tree::insert(edit, node, path, left, Child { lowest, form: REGION, at: right_index.at() })?;
    free_index(edit, node, old.at())
}

/// Divides the entries at a hash near the middle by rank, in linear time, with the lower ones first. Returns
/// their number and the hash; `None` where all hashes are the same.
fn pivot(entries: &mut [(u32, Dentry<'_>)]) -> Option<(usize, u32)> {
    let middle = entries.len() / 2;
    let (low, (median, _), high) = entries.select_nth_unstable_by_key(middle, |(hash, _)| *hash);
    let median = *median;
    let has_lower = low.iter().any(|(hash, _)| *hash < median);
    // Names with one hash stay together: all of the median's go right, or, where no hash is lower, left.
    let lowest = if has_lower {
        median
    } else {
        high.iter().map(|(hash, _)| *hash).filter(|hash| *hash > median).min()?
    };
    let mut below = 0;
    for i in 0..entries.len() {
        if entries[i].0 < lowest {
            entries.swap(i, below);
            below += 1;
        }
    }
    Some((below, lowest))
}

pub(super) fn remove(edit: &mut Edit<'_>, node: Inode<'_>, entry: Dentry<'_>) -> Outcome<()> {
    let (hash, at, units) = (entry.hash(), entry.view.at(), entry.units());
    let (path, index_at) = tree::locate(edit.core, &node, hash)?;
    let (index, dummy) = region(edit, index_at)?;
    let left = if unindexed::count(index) == 0 {
        index::remove(edit, index, hash, at)?;
        entry::unlink(edit, entry)?;
        entry::add_count(edit, dummy, -1)?
    } else {
        unindexed::remove(edit, index, dummy, entry)?;
        dummy.count()
    };
    leaf::free(edit, node, entry.view, units)?;
    match path.last() {
        Some(_) if left == 0 => drop_empty(edit, node, dummy.hash())?,
        Some(step) if left < REGION_LOW => merge(edit, node, path, step)?,
        Some(_) => return Ok(()),
        None => {}
    }
    shrink(edit, node)
}

/// Removes the region that begins at `lowest`, which has no entries, and those beside it without any. So a
/// tree has an entry, also where a foreign writer made regions without entries.
pub(super) fn drop_empty(edit: &mut Edit<'_>, node: Inode<'_>, lowest: u32) -> Outcome<()> {
    let mut empty = Some(lowest);
    while let (Some(lowest), DirRoot::Tree(_)) = (empty, root(&node)?) {
        let (path, at) = tree::locate(edit.core, &node, lowest)?;
        let (_, dummy) = region(edit, at)?;
        let beside = [dummy.next(), dummy.view.get(e::PREVIOUS)];
        entry::unlink(edit, dummy)?;
        leaf::free(edit, node, dummy.view, entry_units(0))?;
        free_index(edit, node, at)?;
        if tree::cut(edit, node, path)? {
            let next = entry::dummy(edit.core, beside[0])?;
            edit.tx.put(next.view, e::HASH, lowest);
        }
        empty = None;
        for at in beside.into_iter().filter(|at| *at != 0) {
            let other = Dentry::at(edit.core, at)?;
            if other.is_dummy() && other.count() == 0 {
                empty = Some(other.hash());
            }
        }
    }
    Ok(())
}

/// Changes the form of a single region that became small or empty.
pub(super) fn shrink(edit: &mut Edit<'_>, node: Inode<'_>) -> Outcome<()> {
    let DirRoot::Region(at) = root(&node)? else { return Ok(()) };
    let (_, dummy) = region(edit, at)?;
    if dummy.count() == 0 {
        set_root(edit, node, DirRoot::Empty);
        free_index(edit, node, at)?;
        return leaf::free(edit, node, dummy.view, entry_units(0));
    }
    let few = edit.store().inode_size().small_entries() / 2;
    // A foreign writer may have put the dummy elsewhere. Entries do not move, so it has no room there.
    if dummy.count() <= few && node.size() == BLOCK && small::is_head(dummy) {
        to_small(edit, node, dummy, at)?;
    }
    Ok(())
}

/// Merges the region at `step` with a neighbour below the same tree block when both together are few enough.
fn merge(edit: &mut Edit<'_>, node: Inode<'_>, path: TreePath, step: tree::TreeStep) -> Outcome<()> {
    let (view, count) = tree::tree_block(edit.core, step.block, None)?;
    for (left, right) in [(step.child.wrapping_sub(1), step.child), (step.child, step.child + 1)] {
        if left >= count || right >= count {
            continue;
        }
        let (a, b) = (tree::child(view, left), tree::child(view, right));
        if a.form != REGION || b.form != REGION {
            return Err(Fault::damaged(step.block, "a tree block with children of two forms"));
        }
        let (a_index, a_dummy) = region(edit, a.at)?;
        let (b_index, b_dummy) = region(edit, b.at)?;
        let (first, second) = (a_dummy.count(), b_dummy.count());
        if first + second > REGION_MERGED {
            continue;
        }
        let slots: Vec<Slot> = index::slots(b_index).collect();
        if slots.len() != second {
            return Err(Fault::damaged(b.at, "a region index block with a wrong number of slots"));
        }
        for slot in slots {
            index::add(edit, a_index, slot, false)?;
        }
        edit.tx.put(a_dummy.view, e::COUNT, (first + second) as u16);
        entry::unlink(edit, b_dummy)?;
        leaf::free(edit, node, b_dummy.view, entry_units(0))?;
        free_index(edit, node, b.at)?;
        return tree::remove(edit, node, path, right);
    }
    Ok(())
}
