//! Objects too large for a slab, or with too large an alignment: units of their own.

use crate::guard;
use crate::os;
use crate::pool::{HEADER, UNIT, Units};
use crate::slab::Header;
use crate::world::{Checks, World};
use std::ptr::{NonNull, null_mut};

/// An object of `size` bytes at a multiple of `align`, a power of two, and whether it reads as zeros; null without memory.
pub(crate) fn malloc(world: &World, size: usize, align: usize) -> (*mut u8, bool) {
    let none = (null_mut(), false);
    // Behind the header, or at the start of the next unit, whose aligned place the pool finds.
    let (offset, unit_align) = (align.clamp(HEADER, UNIT), (align / UNIT).max(1));
    let Some(bytes) = size.checked_add(offset).filter(|bytes| *bytes <= isize::MAX as usize) else {
        return none;
    };
    let wanted = if unit_align > 1 { size.div_ceil(UNIT).max(1) } else { bytes.div_ceil(UNIT) };
    let Some(units) = world.pool.lock().take(wanted, unit_align) else { return none };
    if !units.is_zero {
        release_behind(units, offset + size);
    }
    (dress(units, offset), units.is_zero)
}

/// Gives back to the host what earlier users left behind the end of an object, where that is more than an eighth of it.
fn release_behind(units: Units, end: usize) {
    let (start, stop) = (end.next_multiple_of(os::PAGE), units.count * UNIT);
    if start < stop && stop - start > end / 8 {
        // SAFETY: whole pages of the caller's units.
        unsafe { os::release(units.base.as_ptr().add(start), stop - start) };
    }
}

fn dress(units: Units, offset: usize) -> *mut u8 {
    let Units { base, count, .. } = units;
    let header = base.cast::<Header>();
    // SAFETY: the units are ours; the offset is inside them.
    unsafe {
        header.write(Header::new(base.as_ptr() as usize, null_mut(), 0, count * UNIT - offset, count));
        base.as_ptr().add(offset)
    }
}

/// Frees an object.
///
/// # Safety
/// The header is of a large object, and nobody uses it any more.
pub(crate) unsafe fn free(world: &World, mut header: NonNull<Header>, object: usize) {
    // SAFETY: the caller's promise.
    let head = unsafe { header.as_mut() };
    if world.checks() != Checks::Off && !is_start(head, object) {
        guard::not_ours(object);
    }
    let count = head.units;
    head.erase();
    // SAFETY: as above.
    unsafe { world.pool.lock().give_back(header.cast(), count) };
}

/// True for the address that [`malloc`] gave.
fn is_start(head: &Header, object: usize) -> bool {
    let base = std::ptr::from_ref(head) as usize;
    head.units > 0 && object - base == head.units * UNIT - head.size
}
