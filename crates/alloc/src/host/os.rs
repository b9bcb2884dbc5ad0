//! Memory from the operating system.
//!
//! Under Miri, which has no mappings, memory comes from the allocator of the standard library.

use std::ptr::NonNull;

#[cfg(miri)]
pub(crate) use interpreted::{map, release, unmap, unmap_front};
#[cfg(not(miri))]
pub(crate) use native::{map, release, unmap, unmap_front};

/// Bytes of a page. A machine with larger pages refuses to take a range of these back; it is then filled with
/// zeros.
pub(crate) const PAGE_BYTES: usize = 4096;

#[cfg(not(miri))]
mod native {
    use super::{NonNull, keeping_errno};

    /// Maps `bytes` of fresh memory at a multiple of `align`. It reads as zeros, and the kernel provides a
    /// page when it is first written.
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
        // SAFETY: inside the mapping; nothing uses the parts that are cut off.
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
    /// It came from [`map`] with this alignment, is given in its whole length, and nothing uses it any more.
    pub(crate) unsafe fn unmap(base: NonNull<u8>, bytes: usize, _align: usize) {
        // SAFETY: the caller's promise.
        keeping_errno(|| unsafe {
            libc::munmap(base.as_ptr().cast(), bytes);
        });
    }

    /// Ends the first `bytes` of a mapping, and returns the start of the rest.
    ///
    /// # Safety
    /// The range is whole pages, and nothing uses it.
    pub(crate) unsafe fn unmap_front(base: NonNull<u8>, bytes: usize) -> NonNull<u8> {
        if bytes > 0 {
            // SAFETY: the caller's promise.
            unsafe { unmap(base, bytes, 1) };
        }
        // SAFETY: inside the mapping, or its end.
        unsafe { base.add(bytes) }
    }

    /// Gives the memory of a range back to the kernel; the range then reads as zeros.
    ///
    /// # Safety
    /// The range is whole pages of a mapping of this process, and nothing needs its contents.
    pub(crate) unsafe fn release(base: *mut u8, bytes: usize) {
        // SAFETY: the caller's promise. Where the kernel refuses, the memory stays and is filled with zeros.
        keeping_errno(|| unsafe {
            if libc::madvise(base.cast(), bytes, libc::MADV_DONTNEED) != 0 {
                base.write_bytes(0, bytes);
            }
        });
    }
}

#[cfg(miri)]
mod interpreted {
    use super::NonNull;
    use std::alloc::{GlobalAlloc, Layout, System};

    fn layout(bytes: usize, align: usize) -> Option<Layout> {
        Layout::from_size_align(bytes, align).ok()
    }

    pub(crate) fn map(bytes: usize, align: usize) -> Option<NonNull<u8>> {
        // SAFETY: no mapping is empty.
        NonNull::new(unsafe { System.alloc_zeroed(layout(bytes, align)?) })
    }

    /// # Safety
    /// As of the native one.
    pub(crate) unsafe fn unmap(base: NonNull<u8>, bytes: usize, align: usize) {
        let layout = layout(bytes, align).expect("it was allocated with this layout");
        // SAFETY: the caller's promise.
        unsafe { System.dealloc(base.as_ptr(), layout) };
    }

    /// Keeps the front: an allocation ends as a whole.
    ///
    /// # Safety
    /// As of the native one.
    pub(crate) unsafe fn unmap_front(base: NonNull<u8>, _bytes: usize) -> NonNull<u8> {
        base
    }

    /// # Safety
    /// As of the native one.
    pub(crate) unsafe fn release(base: *mut u8, bytes: usize) {
        // SAFETY: the caller's promise.
        unsafe { base.write_bytes(0, bytes) };
    }
}

/// Returns the bytes of address space that the process may have (`RLIMIT_AS`).
pub(crate) fn address_space() -> usize {
    if cfg!(miri) {
        return usize::MAX;
    }
    let mut limit = libc::rlimit { rlim_cur: libc::RLIM_INFINITY, rlim_max: libc::RLIM_INFINITY };
    // SAFETY: the kernel writes to the variable.
    unsafe { libc::getrlimit(libc::RLIMIT_AS, &raw mut limit) };
    limit.rlim_cur as usize
}

/// Makes a system call that the program does not expect: `free` leaves `errno` as it is.
pub(crate) fn keeping_errno(work: impl FnOnce()) {
    // SAFETY: a word of this thread.
    unsafe {
        let errno = libc::__errno_location();
        let before = *errno;
        work();
        *errno = before;
    }
}
