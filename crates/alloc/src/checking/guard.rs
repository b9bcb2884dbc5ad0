//! Guard bytes, in the grade [`Checks::Full`](crate::Checks::Full).
//!
//! Behind the requested bytes of an object lie guard bytes of a known value, and at its end the requested
//! size, mixed with the address. A free object is filled with another known value.

use super::misuse;
use std::slice;

/// Bytes of an object that are not its user's: eight guard bytes at least, and the size.
pub(crate) const GUARD_BYTES: usize = 2 * size_of::<usize>();

const GUARD: u8 = 0xfb;
const FREED: u8 = 0xdf;
const SIZE_MIX: usize = 0x5a17_c0de_0bad_f00d;

/// Address of the size at an object's end, which is not aligned.
fn size_word(object: *mut u8, room: usize) -> *mut usize {
    object.wrapping_add(room - size_of::<usize>()).cast()
}

/// Writes the guard bytes of an object that is allocated; fails if the program wrote to it since it was
/// freed.
///
/// # Safety
/// The object has `room` bytes, [`GUARD_BYTES`] more than `size` at least, is filled as a free one, and
/// nothing else uses it.
pub(crate) unsafe fn write_guards(object: *mut u8, room: usize, size: usize) {
    debug_assert!(size + GUARD_BYTES <= room, "{size} bytes and the guard bytes in {room}");
    // SAFETY: the caller's object.
    unsafe {
        assert_unwritten(object, room);
        let all = slice::from_raw_parts_mut(object, room);
        all[size..].fill(GUARD);
        size_word(object, room).write_unaligned(size ^ object.addr() ^ SIZE_MIX);
    }
}

/// Returns the requested size of an object in use; fails if the program wrote to the guard bytes.
///
/// # Safety
/// The object has `room` bytes and was given [guard bytes](write_guards).
pub(crate) unsafe fn requested_size(object: *mut u8, room: usize) -> usize {
    // SAFETY: the caller's object.
    unsafe {
        let word = size_word(object, room).read_unaligned();
        if word.to_ne_bytes() == [FREED; size_of::<usize>()] {
            misuse::freed_twice(object);
        }
        let size = word ^ object.addr() ^ SIZE_MIX;
        if size > room - GUARD_BYTES {
            misuse::written_behind_end(object);
        }
        let all = slice::from_raw_parts(object, room - size_of::<usize>());
        if all[size..].iter().any(|byte| *byte != GUARD) {
            misuse::written_behind_end(object);
        }
        size
    }
}

/// Fills a free object.
///
/// # Safety
/// The object has `room` bytes, and nothing else uses it.
pub(crate) unsafe fn fill_freed(object: *mut u8, room: usize) {
    // SAFETY: the caller's object.
    unsafe { object.write_bytes(FREED, room) };
}

/// Fails if the program wrote to an object since it was [filled](fill_freed).
///
/// # Safety
/// The object has `room` bytes, and nothing else uses it.
pub(crate) unsafe fn assert_unwritten(object: *mut u8, room: usize) {
    // SAFETY: the caller's object.
    let all = unsafe { slice::from_raw_parts(object, room) };
    if all.iter().any(|byte| *byte != FREED) {
        misuse::written_after_free(object);
    }
}

/// Fills the first word of a free object again, which was the link of a list.
///
/// # Safety
/// Nothing else uses the object, which has a word at least.
pub(crate) unsafe fn fill_link(object: *mut u8) {
    // SAFETY: the caller's object.
    unsafe { object.write_bytes(FREED, size_of::<usize>()) };
}
