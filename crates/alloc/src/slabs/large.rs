//! Large objects: too large for a slab, or with too large an alignment. Each has units of its own.

use super::header::Header;
use crate::checking::checks::Checks;
use crate::checking::misuse;
use crate::host::os;
use crate::memory::backend::Backend;
use crate::memory::unit::{HEADER_BYTES, UNIT, Units};
use std::ptr::{NonNull, null_mut};

/// Allocates `size` bytes at a multiple of `align`, a power of two; returns the object, and whether all bytes
/// are zero. Null without memory.
pub(crate) fn malloc(backend: &Backend, size: usize, align: usize) -> (*mut u8, bool) {
    let none = (null_mut(), false);
    // The object lies after the header, or, with a large alignment, at the start of the next unit, which the
    // pool aligns.
    let (offset, unit_align) = (align.clamp(HEADER_BYTES, UNIT), (align / UNIT).max(1));
    let Some(bytes) = size.checked_add(offset).filter(|bytes| *bytes <= isize::MAX as usize) else {
        return none;
    };
    let count = if unit_align > 1 { size.div_ceil(UNIT).max(1) } else { bytes.div_ceil(UNIT) };
    let Some(units) = backend.pool.lock().take(count, unit_align) else { return none };
    if !units.is_zero {
        release_behind(units, offset + size);
    }
    (place_object(units, offset), units.is_zero)
}

/// Gives memory of earlier users past the end of an object back to the kernel, if it is more than an eighth
/// of the object.
fn release_behind(units: Units, end: usize) {
    let (start, stop) = (end.next_multiple_of(os::PAGE_BYTES), units.count * UNIT);
    if start < stop && stop - start > end / 8 {
        // SAFETY: whole pages of the caller's units.
        unsafe { os::release(units.base.as_ptr().add(start), stop - start) };
    }
}

fn place_object(units: Units, offset: usize) -> *mut u8 {
    let Units { base, count, .. } = units;
    // SAFETY: the units belong to this thread, and the offset lies inside.
    unsafe {
        base.cast().write(Header::of_large(base, count, count * UNIT - offset));
        base.as_ptr().add(offset)
    }
}

/// Frees an object.
///
/// # Safety
/// The header is that of a large object, and nothing uses the object any more.
pub(crate) unsafe fn free(backend: &Backend, header: NonNull<Header>, object: *mut u8) {
    // SAFETY: the caller's promise.
    let (units, size) = unsafe { (header.as_ref().units, header.as_ref().size) };
    let is_start = object.addr() - header.addr().get() == units * UNIT - size;
    if backend.checks() != Checks::Off && !is_start {
        misuse::not_an_object(object);
    }
    // SAFETY: as above.
    unsafe {
        Header::erase(header);
        backend.pool.lock().give_back(header.cast(), units);
    }
}
