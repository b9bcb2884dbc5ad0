//! Entries without a slot in their region's index.
//!
//! A region whose names all have one hash cannot be divided. Of these names the index takes
//! [`REGION_MAX`](lanefs_format::dir::REGION_MAX); all further ones are in the region's list only, in front
//! of those with a slot. The index is full while there are any: the entry that follows the dummy takes a slot
//! that becomes free. So names with other hashes never pay for them.

use super::entry::{self, Dentry, Name};
use super::index;
use crate::attempt::Core;
use crate::attempt::edit::Edit;
use crate::vocabulary::error::Outcome;
use lanefs_format::dir::{entry as e, index as x};
use lanefs_store::{Fault, View};

/// Number of these entries in a region.
pub(super) fn count(index: View<'_>) -> u32 {
    index.get(x::UNINDEXED)
}

/// The hash of these entries, and so of all in the region; `None` without any.
pub(super) fn hash(core: &Core<'_>, index: View<'_>) -> Outcome<Option<u32>> {
    if count(index) == 0 {
        return Ok(None);
    }
    let dummy = entry::dummy(core, index.get(x::DUMMY))?;
    Ok(Some(Dentry::at(core, dummy.next())?.hash()))
}

/// Tells whether a name that has no slot may be one of these entries. With so many names of one hash, their
/// home bucket overflows: it decides most names, without a look at the head of the block.
#[inline]
pub(super) fn may_have(index: View<'_>, hash: u32) -> bool {
    index::overflows(index, hash) && count(index) != 0
}

/// Finds a name among these entries.
#[cold]
pub(super) fn find<'a>(core: &Core<'a>, index: View<'a>, name: Name<'_>) -> Outcome<Option<Dentry<'a>>> {
    let mut at = entry::dummy(core, index.get(x::DUMMY))?.next();
    // An entry that was passed ends a circle: it is remembered at each power of two.
    let mut passed = 0;
    for number in 1..=count(index) {
        let entry = Dentry::at(core, at)?;
        if at == passed {
            return Err(Fault::damaged(at, "a list of entries that is a circle"));
        }
        if number.is_power_of_two() {
            passed = at;
        }
        if entry.is_dummy() {
            return Err(Fault::damaged(index.at(), "a region with fewer entries than it counts"));
        }
        if entry.is(name) {
            return Ok(Some(entry));
        }
        if entry.hash() != name.hash {
            break;
        }
        at = entry.next();
    }
    Ok(None)
}

/// Adds an entry that was linked after the dummy.
pub(super) fn add(edit: &mut Edit<'_>, index: View<'_>) -> Outcome<()> {
    let count = count(index).checked_add(1);
    let count = count.ok_or(Fault::damaged(index.at(), "a region index block with too many entries"))?;
    edit.tx.put(index, x::UNINDEXED, count);
    Ok(())
}

/// Removes an entry of a region with such entries from index and list. The first of them replaces it in the
/// list, and takes its slot, if it has one.
pub(super) fn remove(
    edit: &mut Edit<'_>,
    index: View<'_>,
    dummy: Dentry<'_>,
    entry: Dentry<'_>,
) -> Outcome<()> {
    let (hash, at, before) = (entry.hash(), entry.view.at(), entry.view.get(e::PREVIOUS));
    let first = Dentry::at(edit.core, dummy.next())?;
    if first.is_dummy() || first.hash() != hash {
        return Err(Fault::damaged(index.at(), "entries with several hashes where the index has no slots"));
    }
    let had_slot = index::replace(edit, index, hash, at, first.view.at());
    if had_slot && first.view.at() == at {
        return Err(Fault::damaged(at, "an entry with a slot in front of those without"));
    }
    entry::unlink(edit, entry)?;
    if had_slot && before != first.view.at() {
        let before = Dentry::at(edit.core, before)?;
        entry::unlink(edit, first)?;
        entry::relink_after(edit, before, first)?;
    }
    edit.tx.put(index, x::UNINDEXED, count(index) - 1);
    Ok(())
}
