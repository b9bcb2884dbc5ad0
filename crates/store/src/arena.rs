//! A reserved range of virtual memory, zero until written.

use crate::sync::point;
use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous, munmap};
use std::ptr::NonNull;

/// Address space for `capacity` bytes, aligned to 2 MiB so that a metadata chunk can be one huge page. Pages take
/// memory once they are written.
pub(crate) struct Arena {
    base: NonNull<u8>,
    mapping: NonNull<u8>,
    mapped: usize,
    capacity: usize,
}

// SAFETY: the arena owns its mapping; all access goes through `View` and `Store`, by atomic words or, for file data,
// under the volume's lock.
unsafe impl Send for Arena {}
// SAFETY: as above.
unsafe impl Sync for Arena {}

const ALIGN: usize = 2 << 20;

impl Arena {
    /// Reserves address space.
    ///
    /// # Errors
    /// The host's error when it has no such range left.
    pub(crate) fn reserve(capacity: usize) -> std::io::Result<Self> {
        let mapped = capacity
            .checked_add(ALIGN)
            .ok_or_else(|| std::io::Error::from(std::io::ErrorKind::OutOfMemory))?;
        // SAFETY: a fresh private mapping at an address of the kernel's choice overlaps nothing.
        let mapping = unsafe {
            mmap_anonymous(
                std::ptr::null_mut(),
                mapped,
                ProtFlags::READ | ProtFlags::WRITE,
                MapFlags::PRIVATE | MapFlags::NORESERVE,
            )?
        };
        let mapping = NonNull::new(mapping.cast::<u8>())
            .ok_or_else(|| std::io::Error::from(std::io::ErrorKind::OutOfMemory))?;
        let skip = mapping.as_ptr().align_offset(ALIGN);
        // SAFETY: `skip` is below ALIGN, and the mapping is ALIGN bytes longer than the capacity.
        let base = unsafe { mapping.add(skip) };
        Ok(Arena { base, mapping, mapped, capacity })
    }

    /// Asks for huge pages: fewer TLB misses in large volumes, at the price of memory in small ones.
    pub(crate) fn prefer_huge_pages(&self) {
        // SAFETY: the range is this arena's own. Advice that the kernel does not take is no fault.
        let _ = unsafe { madvise(self.base.as_ptr().cast(), self.capacity, Advice::LinuxHugepage) };
    }

    /// Gives the pages of a range back; they read as zeros again.
    pub(crate) fn release(&self, at: usize, len: usize) {
        debug_assert!(at + len <= self.capacity);
        point();
        // SAFETY: the range is inside this arena's own mapping.
        let _ = unsafe { madvise(self.base.as_ptr().add(at).cast(), len, Advice::LinuxDontNeed) };
    }

    /// In bytes.
    pub(crate) fn capacity(&self) -> usize {
        self.capacity
    }

    /// Address of a byte. `at` must be below the capacity.
    #[inline(always)]
    pub(crate) fn address(&self, at: u64) -> NonNull<u8> {
        debug_assert!((at as usize) < self.capacity);
        // SAFETY: callers check `at` against the volume's size, which is at most the capacity.
        unsafe { self.base.add(at as usize) }
    }
}

impl Drop for Arena {
    fn drop(&mut self) {
        // SAFETY: the mapping is this arena's own, and no view outlives the store that owns the arena.
        let _ = unsafe { munmap(self.mapping.as_ptr().cast(), self.mapped) };
    }
}
