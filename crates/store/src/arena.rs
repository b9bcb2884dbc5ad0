//! A reserved range of virtual memory, zero until written.

use lanefs_sync::point;
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

    /// Lets the host take the pages of a range when it is short of memory, and not before: what is written there until then finds
    /// its pages, and clearing new ones costs more than the writing. Until then the old bytes can be seen, later zeros.
    pub(crate) fn release_when_wanted(&self, at: usize, len: usize) {
        debug_assert!(at + len <= self.capacity);
        point();
        // SAFETY: the range is inside this arena's own mapping. A kernel that does not know the advice keeps the pages.
        let _ = unsafe { madvise(self.base.as_ptr().add(at).cast(), len, Advice::LinuxFree) };
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

#[cfg(test)]
mod tests {
    use super::*;

    const LEN: usize = 4 << 20;

    #[test]
    fn what_is_written_to_memory_that_the_host_may_have_stays() {
        let arena = Arena::reserve(LEN).expect("address space");
        let fill = |value: u8, len: usize| {
            // SAFETY: inside the arena, which nobody else has.
            unsafe { std::ptr::write_bytes(arena.address(0).as_ptr(), value, len) };
        };
        // SAFETY: as above; what was never written is zero.
        let bytes = || unsafe { std::slice::from_raw_parts(arena.address(0).as_ptr(), LEN) };
        fill(1, LEN);
        arena.release_when_wanted(0, LEN);
        fill(2, LEN / 2);
        // The host takes what it may.
        // SAFETY: the range is this arena's own.
        let _ = unsafe { madvise(arena.base.as_ptr().cast(), LEN, Advice::LinuxPageOut) };
        assert!(bytes()[..LEN / 2].iter().all(|byte| *byte == 2), "what was written is lost");
        assert!(bytes()[LEN / 2..].iter().all(|byte| *byte <= 1), "neither the old bytes nor zeros");
        arena.release(0, LEN);
        assert!(bytes().iter().all(|byte| *byte == 0));
    }
}
