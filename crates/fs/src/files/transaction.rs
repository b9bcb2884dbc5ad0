//! The end of a transaction: its frees reach the bitmaps, its file data are written, and its changes stay.

use super::write_plan::WritePlan;
use crate::attempt::Core;
use crate::attempt::edit::Edit;
use crate::mounted::writer::{Freed, Writer};
use crate::space;
use crate::vocabulary::error::Outcome;
use crate::vocabulary::extent::Extent;

/// Makes one attempt of a change, which plans the file data that it writes. It is kept when it succeeds, else
/// rolled back.
#[inline(always)]
pub(crate) fn run<'d, T>(
    core: &Core<'_>,
    writer: &mut Writer,
    number: u8,
    operation: &mut impl FnMut(&mut Edit<'_>, &mut WritePlan<'d>) -> Outcome<T>,
) -> Outcome<T> {
    let mut edit = Edit::new(core, writer, number);
    let mut plan = WritePlan::default();
    let done = operation(&mut edit, &mut plan).and_then(|value| {
        prepare(&mut edit, plan)?;
        Ok(value)
    });
    match done {
        Ok(value) => {
            edit.commit();
            Ok(value)
        }
        Err(fault) => Err(edit.verdict(fault)),
    }
}

/// Does what may still fail, the validation and the file data at last. On a volume in memory its frees take
/// effect at once.
fn prepare(edit: &mut Edit<'_>, plan: WritePlan<'_>) -> Outcome<()> {
    if edit.core.store.is_memory() {
        make_free(edit)?;
    }
    plan.carry_out(edit)
}

/// Applies deferred frees for a commit, or after it. They are rolled back when the change is dropped, and
/// stay with [`Edit::keep_free`].
pub(crate) fn free_deferred(edit: &mut Edit<'_>, list: &[Freed]) -> Outcome<()> {
    edit.freed.extend_from_slice(list);
    make_free(edit)?;
    // A block that another thread fetches cannot be taken out of use, and nothing after it was changed.
    edit.tx.validate()
}

/// Returns preallocated blocks to the bitmaps, and keeps that. The caller has exclusive access.
///
/// # Errors
/// As any change; nothing has happened then.
pub(crate) fn put_back(mut edit: Edit<'_>, extents: &[Extent]) -> Outcome<()> {
    for extent in extents {
        space::put_back(&mut edit, *extent)?;
    }
    edit.end();
    Ok(())
}

fn make_free(edit: &mut Edit<'_>) -> Outcome<()> {
    // A free may append others (of an emptied chunk).
    let mut next = 0;
    while let Some(freed) = edit.freed.get(next).copied() {
        space::make_free(edit, freed)?;
        next += 1;
    }
    Ok(())
}
