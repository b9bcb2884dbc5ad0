//! What is checked, and what a program that failed a check is told.
//!
//! Objects are guarded in the grade [`Checks::Full`](crate::Checks::Full): behind what was asked for comes a margin with known bytes, at the end of the object the
//! size that was asked for, mixed with the address. What is free has other known bytes.

use crate::os;
use std::slice;

/// Bytes of an object that are not its user's: eight of margin at least, and the size.
pub(crate) const MARGIN: usize = 16;

const BEHIND: u8 = 0xfb;
const FREED: u8 = 0xdf;
const SIZE_MIX: usize = 0x5a17_c0de_0bad_f00d;

/// # Safety
/// `object` has `room` bytes, `MARGIN` more than `size` at least.
unsafe fn size_place(object: usize, room: usize) -> *mut usize {
    std::ptr::with_exposed_provenance_mut(object + room - size_of::<usize>())
}

/// Sets the margin of an object that is given to somebody; fails when anybody wrote to it since it was freed.
///
/// # Safety
/// The object has `room` bytes, and nobody else has it.
pub(crate) unsafe fn dress(object: usize, room: usize, size: usize) {
    let bytes = std::ptr::with_exposed_provenance_mut::<u8>(object);
    // SAFETY: the caller's object.
    unsafe {
        must_be_undressed(object, room);
        let all = slice::from_raw_parts_mut(bytes, room);
        all[size..].fill(BEHIND);
        size_place(object, room).write_unaligned(size ^ object ^ SIZE_MIX);
    }
}

/// The size that was asked for; fails when the margin was written to.
///
/// # Safety
/// As [`dress`], which was called for it.
pub(crate) unsafe fn size_of_dressed(object: usize, room: usize) -> usize {
    // SAFETY: the caller's object.
    unsafe {
        let word = size_place(object, room).read_unaligned();
        if word.to_ne_bytes() == [FREED; 8] {
            freed_twice(object);
        }
        let size = word ^ object ^ SIZE_MIX;
        if size > room - MARGIN {
            os::fail("memory was written to behind the end of an object", object);
        }
        let margin =
            slice::from_raw_parts(std::ptr::with_exposed_provenance::<u8>(object), room - size_of::<usize>());
        if margin[size..].iter().any(|byte| *byte != BEHIND) {
            os::fail("memory was written to behind the end of an object", object);
        }
        size
    }
}

/// Marks an object as free.
///
/// # Safety
/// As [`dress`].
pub(crate) unsafe fn undress(object: usize, room: usize) {
    // SAFETY: the caller's object.
    unsafe { std::ptr::with_exposed_provenance_mut::<u8>(object).write_bytes(FREED, room) };
}

/// Looks whether anybody wrote to an object since it was marked as free.
///
/// # Safety
/// As [`undress`], which was called for it.
pub(crate) unsafe fn must_be_undressed(object: usize, room: usize) {
    // SAFETY: the caller's object.
    let all = unsafe { slice::from_raw_parts(std::ptr::with_exposed_provenance::<u8>(object), room) };
    if all.iter().any(|byte| *byte != FREED) {
        written_after_free(object);
    }
}

/// Marks the first bytes again, which held the link of a list meanwhile.
///
/// # Safety
/// As [`undress`], which was called for it.
pub(crate) unsafe fn undress_link(object: usize) {
    // SAFETY: the caller's object, which is longer.
    unsafe { std::ptr::with_exposed_provenance_mut::<u8>(object).write_bytes(FREED, size_of::<usize>()) };
}

#[cold]
pub(crate) fn written_after_free(object: usize) -> ! {
    os::fail("memory was written to after it was freed", object)
}

#[cold]
pub(crate) fn freed_twice(object: usize) -> ! {
    os::fail("memory was freed twice", object)
}

#[cold]
pub(crate) fn not_ours(object: usize) -> ! {
    os::fail("there is no object in use at an address that was freed or resized,", object)
}
