//! Region index blocks: hash tables from the low 16 bits of a hash to the position of an entry.
//!
//! Buckets are cache lines. A full bucket overflows into the next one, and has a bit for that. When an entry
//! is removed, one that overflowed past the free slot moves back. So the bit is exact, and a lookup reads one
//! or two lines.

use super::entry::{Dentry, Name};
use crate::attempt::Core;
use crate::attempt::edit::Edit;
use crate::vocabulary::error::Outcome;
use lanefs_format::Word;
use lanefs_format::dir::{BUCKET_SLOTS, BUCKETS, Slot, index as x};
use lanefs_store::{Fault, View};

/// Byte offset of the bucket where a search for `hash` begins.
#[inline(always)]
pub(crate) fn bucket_at(hash: u32) -> usize {
    x::SLOTS.offset + Slot::home(hash as u16) * BUCKET_SLOTS * u64::BYTES
}

fn slot(view: View<'_>, bucket: usize, i: usize) -> Slot {
    Slot(view.get(x::SLOTS.index(bucket * BUCKET_SLOTS + i)))
}

/// Returns the position of the first entry in the bucket that may have `hash`, 0 for none, and whether the
/// search would continue in the next bucket.
#[inline(always)]
pub(crate) fn probe_bucket(view: View<'_>, bucket: usize, hash: u32) -> (u64, bool) {
    let mut found = 0;
    for i in 0..BUCKET_SLOTS {
        let slot = slot(view, bucket, i);
        if slot.tag() == hash as u16 && slot.position() != 0 {
            found = slot.position();
            break;
        }
    }
    (found, slot(view, bucket, 0).0 & Slot::OVERFLOW != 0)
}

/// Finds a name that has a slot.
pub(super) fn find<'a>(core: &Core<'a>, view: View<'a>, name: Name<'_>) -> Outcome<Option<Dentry<'a>>> {
    let mut bucket = Slot::home(name.hash as u16);
    for _ in 0..BUCKETS {
        for i in 0..BUCKET_SLOTS {
            let slot = slot(view, bucket, i);
            if slot.tag() == name.hash as u16 && slot.position() != 0 {
                let entry = Dentry::at(core, slot.position())?;
                if entry.is(name) {
                    return Ok(Some(entry));
                }
            }
        }
        if slot(view, bucket, 0).0 & Slot::OVERFLOW == 0 {
            break;
        }
        bucket = (bucket + 1) % BUCKETS;
    }
    Ok(None)
}

/// Tells whether entries with the home bucket of `hash` lie in further buckets.
pub(super) fn overflows(view: View<'_>, hash: u32) -> bool {
    slot(view, Slot::home(hash as u16), 0).0 & Slot::OVERFLOW != 0
}

/// Writes a slot and keeps the overflow bit of a bucket's first one. A `fresh` block needs no undo.
fn put(edit: &mut Edit<'_>, view: View<'_>, bucket: usize, i: usize, word: u64, fresh: bool) {
    let field = x::SLOTS.index(bucket * BUCKET_SLOTS + i);
    if fresh { edit.tx.set(view, field, word) } else { edit.tx.put(view, field, word) }
}

/// Adds a slot, with its overflow bit clear. `fresh`: this transaction allocated the block.
pub(super) fn add(edit: &mut Edit<'_>, view: View<'_>, new: Slot, fresh: bool) -> Outcome<()> {
    debug_assert!(new.position() != 0 && new.0 & Slot::OVERFLOW == 0, "no slot of an entry: {:#x}", new.0);
    let mut bucket = Slot::home(new.tag());
    for _ in 0..BUCKETS {
        let flag = slot(view, bucket, 0).0 & Slot::OVERFLOW;
        if let Some(i) = (0..BUCKET_SLOTS).find(|i| slot(view, bucket, *i).position() == 0) {
            put(edit, view, bucket, i, new.0 | if i == 0 { flag } else { 0 }, fresh);
            return Ok(());
        }
        put(edit, view, bucket, 0, slot(view, bucket, 0).0 | Slot::OVERFLOW, fresh);
        bucket = (bucket + 1) % BUCKETS;
    }
    Err(Fault::damaged(view.at(), "a region index block without a free slot"))
}

/// Removes the slot of the entry at `position`.
pub(super) fn remove(edit: &mut Edit<'_>, view: View<'_>, hash: u32, position: u64) -> Outcome<()> {
    let Some((bucket, i)) = slot_of(view, hash, position) else {
        return Err(Fault::damaged(position, "an entry that its region's index does not know"));
    };
    clear(edit, view, bucket, i);
    refill(edit, view, bucket)
}

/// Gives the slot of the entry at `position` to another entry with the same hash; false where the entry has
/// none.
pub(super) fn replace(edit: &mut Edit<'_>, view: View<'_>, hash: u32, position: u64, by: u64) -> bool {
    let Some((bucket, i)) = slot_of(view, hash, position) else { return false };
    let flag = slot(view, bucket, i).0 & if i == 0 { Slot::OVERFLOW } else { 0 };
    put(edit, view, bucket, i, Slot::new(hash, by).0 | flag, false);
    true
}

/// The bucket and the slot of the entry at `position`.
fn slot_of(view: View<'_>, hash: u32, position: u64) -> Option<(usize, usize)> {
    let mut bucket = Slot::home(hash as u16);
    for _ in 0..BUCKETS {
        if let Some(i) = (0..BUCKET_SLOTS).find(|i| slot(view, bucket, *i).position() == position) {
            return Some((bucket, i));
        }
        if slot(view, bucket, 0).0 & Slot::OVERFLOW == 0 {
            break;
        }
        bucket = (bucket + 1) % BUCKETS;
    }
    None
}

fn clear(edit: &mut Edit<'_>, view: View<'_>, bucket: usize, i: usize) {
    let flag = slot(view, bucket, i).0 & if i == 0 { Slot::OVERFLOW } else { 0 };
    put(edit, view, bucket, i, flag, false);
}

/// Fills the free slot of `bucket` with an entry that overflowed past it, then the slot that this frees, and
/// so on. Where there is no such entry, the overflow bit is cleared.
fn refill(edit: &mut Edit<'_>, view: View<'_>, bucket: usize) -> Outcome<()> {
    let mut hole = bucket;
    'holes: for _ in 0..BUCKETS {
        if slot(view, hole, 0).0 & Slot::OVERFLOW == 0 {
            return Ok(());
        }
        let mut from = hole;
        for distance in 1..BUCKETS {
            from = (from + 1) % BUCKETS;
            for i in 0..BUCKET_SLOTS {
                let moved = Slot(slot(view, from, i).0 & !Slot::OVERFLOW);
                let from_home = (from + BUCKETS - Slot::home(moved.tag())) % BUCKETS;
                if moved.position() != 0 && from_home >= distance {
                    let free = (0..BUCKET_SLOTS).find(|i| slot(view, hole, *i).position() == 0);
                    let free =
                        free.ok_or(Fault::damaged(view.at(), "a region index block contradicts itself"))?;
                    let flag = slot(view, hole, free).0 & if free == 0 { Slot::OVERFLOW } else { 0 };
                    put(edit, view, hole, free, moved.0 | flag, false);
                    clear(edit, view, from, i);
                    hole = from;
                    continue 'holes;
                }
            }
            if slot(view, from, 0).0 & Slot::OVERFLOW == 0 {
                break;
            }
        }
        put(edit, view, hole, 0, slot(view, hole, 0).0 & !Slot::OVERFLOW, false);
        return Ok(());
    }
    Ok(())
}

/// All used slots, their overflow bits cleared.
pub(crate) fn slots(view: View<'_>) -> impl Iterator<Item = Slot> + '_ {
    (0..x::SLOTS.len)
        .map(move |i| Slot(view.get(x::SLOTS.index(i)) & !Slot::OVERFLOW))
        .filter(|slot| slot.position() != 0)
}
