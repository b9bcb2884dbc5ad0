//! Undefined behaviour, compiled in by a value of `lanefs_planted` each to see a sanitizer find it.

use std::hint::black_box;

/// Reads shared memory without an atomic access, while other threads may write it: a data race.
#[cfg(lanefs_planted = "race")]
pub(crate) fn read_plainly(shared: std::ptr::NonNull<u8>) {
    // SAFETY: none, that is the fault. The address is inside the arena.
    black_box(unsafe { shared.read() });
}

/// Reads the byte after a caller's buffer: out of bounds.
#[cfg(lanefs_planted = "overrun")]
pub(crate) fn read_past_the_end(bytes: &[u8]) {
    // SAFETY: none, that is the fault.
    black_box(unsafe { bytes.as_ptr().add(bytes.len()).read() });
}

/// Makes an exclusive reference to a frame, reads the frame through its pointer, and writes through the
/// reference: a violation of the aliasing rules.
#[cfg(lanefs_planted = "alias")]
pub(crate) fn write_through_a_stale_reference(shared: std::ptr::NonNull<u8>, bytes: &[u8]) {
    // SAFETY: none, that is the fault. The range is inside the arena.
    unsafe {
        let frame = std::slice::from_raw_parts_mut(shared.as_ptr(), bytes.len());
        black_box(shared.read());
        frame.copy_from_slice(bytes);
    }
}
