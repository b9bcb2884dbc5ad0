//! Memory from the host.

use std::ptr::NonNull;

/// Bytes of a page. (Larger pages of other machines are multiples, and what is given back is never less than a unit.)
pub(crate) const PAGE: usize = 4096;

/// Fresh memory of `bytes` at a multiple of `align`, zeros, none of it in use until it is written.
pub(crate) fn map(bytes: usize, align: usize) -> Option<NonNull<u8>> {
    let with_slack = bytes.checked_add(align)?;
    // SAFETY: a fresh private mapping overlaps nothing.
    let start = unsafe {
        libc::mmap(
            std::ptr::null_mut(),
            with_slack,
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE,
            -1,
            0,
        )
    };
    if start == libc::MAP_FAILED {
        return None;
    }
    let start = start.cast::<u8>();
    let skip = start.align_offset(align);
    // SAFETY: inside the mapping; what is cut off is in nobody's use.
    unsafe {
        let base = start.add(skip);
        if skip > 0 {
            libc::munmap(start.cast(), skip);
        }
        if skip < align {
            libc::munmap(base.add(bytes).cast(), align - skip);
        }
        NonNull::new(base)
    }
}

/// Ends a mapping.
///
/// # Safety
/// It is one of [`map`], as long as it was made, and nobody uses it any more.
pub(crate) unsafe fn unmap(base: NonNull<u8>, bytes: usize) {
    // SAFETY: the caller's promise.
    unsafe { libc::munmap(base.as_ptr().cast(), bytes) };
}

/// Gives the memory of a range back; it reads as zeros again.
///
/// # Safety
/// The range is whole pages of a mapping of ours, and nobody needs what is in it.
pub(crate) unsafe fn release(base: *mut u8, bytes: usize) {
    // SAFETY: the caller's promise. Where the host does not take it, the memory stays and is dirty: so it is asked for zeros.
    unsafe {
        if libc::madvise(base.cast(), bytes, libc::MADV_DONTNEED) != 0 {
            base.write_bytes(0, bytes);
        }
    }
}

/// Milliseconds of a clock that only goes on.
pub(crate) fn milliseconds() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: a place for the answer.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC_COARSE, &raw mut time) };
    time.tv_sec as u64 * 1000 + time.tv_nsec as u64 / 1_000_000
}

/// Ends the program with a message on standard error, without allocating anything.
#[cold]
pub(crate) fn fail(what: &str, at: usize) -> ! {
    let mut text = [0u8; 200];
    let mut len = 0;
    let mut add = |bytes: &[u8]| {
        for byte in bytes {
            if len < text.len() {
                text[len] = *byte;
                len += 1;
            }
        }
    };
    add(b"lanefs-alloc: ");
    add(what.as_bytes());
    add(b" at 0x");
    let digits = (usize::BITS - at.leading_zeros()).div_ceil(4).max(1);
    for digit in (0..digits).rev() {
        add(&[b"0123456789abcdef"[at >> (4 * digit) & 15]]);
    }
    add(b"\n");
    // SAFETY: the text is ours. Whether it can be written changes nothing.
    unsafe {
        libc::write(2, text.as_ptr().cast(), len);
        libc::abort()
    }
}
