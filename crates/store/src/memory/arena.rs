//! A reserved range of virtual memory, zero until written.

use crate::device::{IoBuf, IoBufMut};
use crate::vocabulary::words;
use lanefs_sync::point;
use std::ops::Range;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU8, AtomicU32};

/// Bytes of a huge page of x86-64, and of aarch64 with pages of 4 KiB.
const HUGE_PAGE_BYTES: u64 = 2 << 20;

/// Address space for `capacity` bytes, aligned to 2 MiB so that a metadata chunk can be one huge page. Pages
/// take memory once they are written.
///
/// Many threads access it at the same time. Each arena is accessed in one way by all of them: the blocks of a
/// volume by [`words`] (the methods here, and [`View`](crate::View)), an array of bytes by
/// [`byte`](Self::byte), one of words of four bytes by [`half`](Self::half). The kernel also reads and fills
/// blocks, and clears pages.
pub(crate) struct Arena {
    base: NonNull<u8>,
    mapping: mapping::Mapping,
    capacity: usize,
}

// SAFETY: the arena owns its mapping. All accesses are atomic, by words or by bytes as above, or done by the
// kernel.
unsafe impl Send for Arena {}
// SAFETY: as above.
unsafe impl Sync for Arena {}

impl Arena {
    /// Reserves address space.
    ///
    /// # Errors
    /// The host's error when it has no such range left.
    pub(crate) fn reserve(capacity: usize) -> std::io::Result<Self> {
        Self::reserve_beside(capacity, 0)
    }

    /// Reserves address space where `spare` more bytes are left.
    ///
    /// # Errors
    /// The host's error when it has no such range left.
    pub(crate) fn reserve_beside(capacity: usize, spare: usize) -> std::io::Result<Self> {
        let (mapping, base) = mapping::Mapping::new(capacity, spare)?;
        Ok(Arena { base, mapping, capacity })
    }

    /// Asks for huge pages: fewer TLB misses in large volumes, at the price of memory in small ones.
    pub(crate) fn prefer_huge_pages(&self) {
        self.mapping.prefer_huge_pages(self.base, self.capacity);
    }

    /// Asks for huge pages where at least half of one is about to be filled: its first touch takes as long as
    /// that of some 130 small pages, of which it has 512. `ranges` are those that are to be filled, by
    /// position.
    pub(crate) fn expect_fill(&self, ranges: impl Iterator<Item = Range<u64>>) {
        for page in huge_pages(ranges) {
            if page.end <= self.capacity as u64 {
                let len = (page.end - page.start) as usize;
                self.mapping.prefer_huge_pages(self.range(page.start, len), len);
            }
        }
    }

    /// Releases the pages of a range; they read as zeros again.
    pub(crate) fn release(&self, at: usize, len: usize) {
        point();
        self.mapping.release(self.range(at as u64, len), len);
    }

    /// Lets the host take the pages of a range when it is short of memory, and not before: a write until then
    /// finds its pages, and clearing new ones costs more than the write. Readers see the old bytes until
    /// then, later zeros.
    pub(crate) fn release_when_wanted(&self, at: usize, len: usize) {
        point();
        self.mapping.release_when_wanted(self.range(at as u64, len), len);
    }

    /// Returns the size in bytes.
    pub(crate) fn capacity(&self) -> usize {
        self.capacity
    }

    /// Returns the address of a byte. `at` must be below the capacity.
    #[inline(always)]
    pub(crate) fn address(&self, at: u64) -> NonNull<u8> {
        debug_assert!((at as usize) < self.capacity);
        // SAFETY: callers check `at` against the volume's size, which is at most the capacity; or it is in a
        // slot, all of which are below it.
        unsafe { self.base.add(at as usize) }
    }

    /// Returns the address of a range.
    ///
    /// # Panics
    /// Where it is not inside.
    #[inline]
    fn range(&self, at: u64, len: usize) -> NonNull<u8> {
        let inside = usize::try_from(at).is_ok_and(|at| at <= self.capacity && len <= self.capacity - at);
        assert!(inside, "{len} bytes at {at} of an arena of {}", self.capacity);
        // SAFETY: inside the mapping, or at its end.
        unsafe { self.base.add(at as usize) }
    }

    /// Returns a byte of an array of bytes.
    #[inline(always)]
    pub(crate) fn byte(&self, index: u64) -> &AtomicU8 {
        // SAFETY: inside the mapping, which lives as long as the arena; atomic, as all accesses to an array
        // of bytes.
        unsafe { AtomicU8::from_ptr(self.address(index).as_ptr()) }
    }

    /// Returns a word of an array of words of four bytes.
    #[inline(always)]
    pub(crate) fn half(&self, index: u64) -> &AtomicU32 {
        // SAFETY: inside the mapping, which lives as long as the arena; aligned, because the mapping is;
        // atomic, as all accesses to an array of such words.
        unsafe { AtomicU32::from_ptr(self.address(4 * index).as_ptr().cast()) }
    }

    /// Copies bytes of blocks, which other threads may change meanwhile.
    #[inline]
    pub(crate) fn copy_out(&self, at: u64, out: &mut [u8]) {
        let from = self.range(at, out.len());
        #[cfg(lanefs_planted = "race")]
        super::undefined::read_plainly(from);
        // SAFETY: inside the mapping, whose size is whole words; atomic by words. `out` is borrowed
        // exclusively.
        unsafe { words::copy_out(from.as_ptr(), out.as_mut_ptr(), out.len()) }
    }

    /// Copies bytes into blocks, which other threads may read meanwhile. No other thread writes the same
    /// words.
    #[inline]
    pub(crate) fn copy_in(&self, at: u64, data: &[u8]) {
        let to = self.range(at, data.len());
        #[cfg(lanefs_planted = "overrun")]
        super::undefined::read_past_the_end(data);
        #[cfg(lanefs_planted = "alias")]
        super::undefined::write_through_a_stale_reference(to, data);
        // SAFETY: inside the mapping, whose size is whole words; atomic by words. The caller owns the words,
        // or has locked their ownership records.
        unsafe { words::copy_in(data.as_ptr(), to.as_ptr(), data.len()) }
    }

    /// Clears whole words of blocks, which other threads may read meanwhile. No other thread writes them.
    pub(crate) fn zero(&self, at: u64, len: usize) {
        let to = self.range(at, len);
        // SAFETY: as in `copy_in`.
        unsafe { words::zero(to.as_ptr(), len) }
    }

    /// Returns bytes of blocks for a device to write. Other threads may change them meanwhile.
    pub(crate) fn source(&self, at: u64, len: usize) -> IoBuf<'_> {
        // SAFETY: inside the mapping, which lives as long as the arena; words, as all blocks.
        unsafe { IoBuf::from_shared(self.range(at, len), len) }
    }

    /// Returns bytes of blocks for a device to fill. Other threads may read them meanwhile. The caller alone
    /// writes them.
    pub(crate) fn target(&self, at: u64, len: usize) -> IoBufMut<'_> {
        // SAFETY: as in `source`, and the caller's promise.
        unsafe { IoBufMut::from_shared(self.range(at, len), len) }
    }
}

/// Returns the huge pages of which the ranges have at least half, joined where they follow one another. The
/// ranges come by position and do not overlap.
fn huge_pages(ranges: impl Iterator<Item = Range<u64>>) -> Vec<Range<u64>> {
    let mut found: Vec<Range<u64>> = Vec::new();
    // The page that the last range ended in, and how many of its bytes were in ranges.
    let (mut page, mut filled) = (0, 0);
    let mut close = |page: u64, filled: u64| {
        if filled < HUGE_PAGE_BYTES / 2 {
            return;
        }
        match found.last_mut().filter(|last| last.end == page) {
            Some(last) => last.end += HUGE_PAGE_BYTES,
            None => found.push(page..page + HUGE_PAGE_BYTES),
        }
    };
    for mut range in ranges {
        while range.start < range.end {
            let own = range.start - range.start % HUGE_PAGE_BYTES;
            if own != page {
                close(page, filled);
                (page, filled) = (own, 0);
            }
            let end = range.end.min(own + HUGE_PAGE_BYTES);
            filled += end - range.start;
            range.start = end;
        }
    }
    close(page, filled);
    found
}

#[cfg(not(miri))]
mod mapping {
    use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous, munmap};
    use std::io::ErrorKind;
    use std::ptr::NonNull;

    const ALIGN: usize = super::HUGE_PAGE_BYTES as usize;

    /// Address space of the host.
    pub(super) struct Mapping {
        start: NonNull<u8>,
        len: usize,
    }

    impl Mapping {
        /// Returns a mapping and its first aligned address, which `capacity` bytes follow. The host could
        /// have given `spare` bytes more.
        pub(super) fn new(capacity: usize, spare: usize) -> std::io::Result<(Self, NonNull<u8>)> {
            let mut whole = Self::map(capacity.checked_add(spare).ok_or(ErrorKind::OutOfMemory)?)?;
            let skip = whole.start.as_ptr().align_offset(ALIGN);
            whole.shorten(capacity + ALIGN);
            // SAFETY: `skip` is below ALIGN, and the mapping is ALIGN bytes longer than the capacity.
            let base = unsafe { whole.start.add(skip) };
            Ok((whole, base))
        }

        /// Maps `capacity` bytes and ALIGN more.
        fn map(capacity: usize) -> std::io::Result<Self> {
            let out_of_memory = || std::io::Error::from(ErrorKind::OutOfMemory);
            let len = capacity.checked_add(ALIGN).ok_or_else(out_of_memory)?;
            // SAFETY: a fresh private mapping at an address of the kernel's choice overlaps nothing.
            let start = unsafe {
                mmap_anonymous(
                    std::ptr::null_mut(),
                    len,
                    ProtFlags::READ | ProtFlags::WRITE,
                    MapFlags::PRIVATE | MapFlags::NORESERVE,
                )?
            };
            let start = NonNull::new(start.cast::<u8>()).ok_or_else(out_of_memory)?;
            Ok(Mapping { start, len })
        }

        /// Gives back what follows the first `len` bytes, rounded up to ALIGN. Nobody has used it.
        fn shorten(&mut self, len: usize) {
            let kept = len.next_multiple_of(ALIGN);
            if kept < self.len {
                // SAFETY: the range is inside this mapping, which is not shared yet, and nothing has its
                // address.
                let given = unsafe { munmap(self.start.as_ptr().add(kept).cast(), self.len - kept) };
                self.len = if given.is_ok() { kept } else { self.len };
            }
        }

        fn advise(&self, at: NonNull<u8>, len: usize, advice: Advice) {
            let end = at.as_ptr().addr() + len;
            debug_assert!(at >= self.start && end <= self.start.as_ptr().addr() + self.len);
            // SAFETY: the range is inside this mapping. The kernel changes its pages, which other threads see
            // as a change by the kernel, as a read from a device. Advice that the kernel does not know is no
            // fault.
            let _ = unsafe { madvise(at.as_ptr().cast(), len, advice) };
        }

        pub(super) fn prefer_huge_pages(&self, at: NonNull<u8>, len: usize) {
            self.advise(at, len, Advice::LinuxHugepage);
        }

        pub(super) fn release(&self, at: NonNull<u8>, len: usize) {
            self.advise(at, len, Advice::LinuxDontNeed);
        }

        pub(super) fn release_when_wanted(&self, at: NonNull<u8>, len: usize) {
            self.advise(at, len, Advice::LinuxFree);
        }

        /// Has the host take the pages that it may take.
        #[cfg(test)]
        pub(super) fn take_what_is_released(&self, at: NonNull<u8>, len: usize) {
            self.advise(at, len, Advice::LinuxPageOut);
        }
    }

    impl Drop for Mapping {
        fn drop(&mut self) {
            // SAFETY: the mapping is this value's own, and no view outlives the store that owns the arena.
            let _ = unsafe { munmap(self.start.as_ptr().cast(), self.len) };
        }
    }
}

/// Miri has no advice on memory, so it gets zeros of an allocator.
#[cfg(miri)]
mod mapping {
    use crate::vocabulary::words::{self, WORD};
    use std::alloc::{Layout, alloc_zeroed, dealloc};
    use std::ptr::NonNull;

    pub(super) struct Mapping {
        start: NonNull<u8>,
        layout: Layout,
    }

    impl Mapping {
        pub(super) fn new(capacity: usize, _: usize) -> std::io::Result<(Self, NonNull<u8>)> {
            let out_of_memory = || std::io::Error::from(std::io::ErrorKind::OutOfMemory);
            let layout = Layout::from_size_align(capacity.max(WORD), lanefs_format::BLOCK as usize);
            let layout = layout.map_err(|_| out_of_memory())?;
            // SAFETY: the size is not zero.
            let start = NonNull::new(unsafe { alloc_zeroed(layout) }).ok_or_else(out_of_memory)?;
            Ok((Mapping { start, layout }, start))
        }

        pub(super) fn prefer_huge_pages(&self, _: NonNull<u8>, _: usize) {}

        pub(super) fn release(&self, at: NonNull<u8>, len: usize) {
            // SAFETY: only whole blocks are released, which are words; the caller has checked the range.
            unsafe { words::zero(at.as_ptr(), len) }
        }

        pub(super) fn release_when_wanted(&self, at: NonNull<u8>, len: usize) {
            self.release(at, len);
        }

        #[cfg(test)]
        pub(super) fn take_what_is_released(&self, _: NonNull<u8>, _: usize) {}
    }

    impl Drop for Mapping {
        fn drop(&mut self) {
            // SAFETY: allocated with this layout, and no view outlives the store that owns the arena.
            unsafe { dealloc(self.start.as_ptr(), self.layout) }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LEN: usize = if cfg!(miri) { 8 << 10 } else { 4 << 20 };

    #[test]
    fn what_is_written_to_memory_that_the_host_may_have_stays() {
        let arena = Arena::reserve(LEN).expect("address space");
        let bytes = || {
            let mut bytes = vec![0; LEN];
            arena.copy_out(0, &mut bytes);
            bytes
        };
        arena.copy_in(0, &[1; LEN]);
        arena.release_when_wanted(0, LEN);
        arena.copy_in(0, &[2; LEN / 2]);
        arena.mapping.take_what_is_released(arena.base, LEN);
        let left = bytes();
        assert!(left[..LEN / 2].iter().all(|byte| *byte == 2), "what was written is lost");
        assert!(left[LEN / 2..].iter().all(|byte| *byte <= 1), "neither the old bytes nor zeros");
        arena.release(0, LEN);
        assert!(bytes().iter().all(|byte| *byte == 0));
    }

    #[test]
    fn a_huge_page_is_wanted_where_half_of_it_or_more_is_to_be_filled() {
        const PAGE: u64 = HUGE_PAGE_BYTES;
        let pages = |ranges: &[(u64, u64)]| -> Vec<(u64, u64)> {
            let pages = huge_pages(ranges.iter().map(|(start, end)| *start..*end));
            pages.iter().map(|page| (page.start, page.end)).collect()
        };
        let half = PAGE / 2;
        assert_eq!(pages(&[]), []);
        assert_eq!(pages(&[(0, half - 4096)]), []);
        assert_eq!(pages(&[(0, 4096), (8192, 4096 + half)]), [(0, PAGE)]);
        let two = [(half, PAGE + half - 4096), (3 * PAGE, 4 * PAGE)];
        assert_eq!(pages(&two), [(0, PAGE), (3 * PAGE, 4 * PAGE)]);
        assert_eq!(pages(&[(half, 5 * PAGE)]), [(0, 5 * PAGE)]);
    }

    #[test]
    #[should_panic(expected = "2 bytes at 4095 of an arena of 4096")]
    fn a_copy_past_the_end_panics() {
        Arena::reserve(4096).expect("address space").copy_in(4095, &[0; 2]);
    }
}
