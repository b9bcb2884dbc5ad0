//! Frames: the memory of a volume's blocks, found by position.
//!
//! Where the host has address space for the whole volume, its bytes lie in one range, each at its position.
//! Otherwise the volume is *sparse*: positions are divided into sections of 2 MiB, and a section has memory,
//! a *slot*, while a block of it does (see [`slots`](crate::memory::slots)). A range that crosses a section is then
//! not one range of memory.
//!
//! No memory is unmapped while the store lives. So a stale attempt may read a frame whose slot has another
//! section by now, as it may read one that was fetched again: its result is not accepted.

use super::arena::Arena;
use super::slots::{SLOT_BYTES, Slots};
use crate::device::{IoBuf, IoBufMut};
use lanefs_format::BLOCK;
use std::io;
use std::ops::Range;
use std::ptr::NonNull;

/// Largest volume whose bytes lie in one range (32 TiB): a process of x86-64 has 128 TiB of address space.
pub const LARGEST_RANGE: u64 = 1 << 45;

/// Address space that is left for the rest of the process (1 GiB), or as much as was reserved.
const SPARE: u64 = 1 << 30;

/// Fewest slots with which a sparse volume works. An attempt with exclusive access evicts nothing, so all
/// sections that it needs have one.
const FEWEST_SLOTS: u64 = 32;

/// Blocks of the cache for each slot. The host's page tables take a page for a slot, so they take a quarter
/// of the cache at most.
const BLOCKS_PER_SLOT: u64 = 4;

/// Most memory of slots of a volume in memory: as much as one range.
const MOST_IN_MEMORY: u64 = LARGEST_RANGE / SLOT_BYTES;

/// Blocks of a section.
const BLOCKS: u64 = SLOT_BYTES / BLOCK;

/// The frames of a volume.
pub(crate) struct Frames {
    /// All bytes by position; those of the slots in a sparse volume.
    memory: Arena,
    /// `None` for one range.
    slots: Option<Box<Slots>>,
}

impl Frames {
    /// Reserves one range for all positions below `room`.
    ///
    /// # Errors
    /// The host's error when it has no such range, or not much else.
    pub(crate) fn in_one_range(room: u64) -> io::Result<Self> {
        if room > LARGEST_RANGE {
            return Err(io::ErrorKind::OutOfMemory.into());
        }
        Ok(Frames { memory: Arena::reserve_beside(room as usize, room.min(SPARE) as usize)?, slots: None })
    }

    /// Reserves slots for a sparse volume of up to `room` bytes, whose cache has room for `budget` blocks.
    /// Without a budget all blocks stay. Fewer slots are reserved where the host has less address space.
    ///
    /// # Errors
    /// The host's error when it has none.
    pub(crate) fn in_slots(room: u64, budget: Option<u64>) -> io::Result<Self> {
        let wanted = budget.map_or(MOST_IN_MEMORY, |budget| (budget / BLOCKS_PER_SLOT).max(1 << 10));
        let sections = room.div_ceil(SLOT_BYTES);
        let mut count = wanted.min(MOST_IN_MEMORY).min(sections);
        loop {
            match Self::with_slots(room, count) {
                Err(_) if count / 2 >= FEWEST_SLOTS.min(sections) => count /= 2,
                made => return made,
            }
        }
    }

    /// Reserves exactly `count` slots.
    ///
    /// # Errors
    /// The host's error when it has no address space left.
    pub(crate) fn with_slots(room: u64, count: u64) -> io::Result<Self> {
        // The first one is for sections without one: it stays zeros.
        let bytes = (count + 1) * SLOT_BYTES;
        let memory = Arena::reserve_beside(bytes as usize, bytes.min(SPARE) as usize)?;
        Ok(Frames { memory, slots: Some(Box::new(Slots::new(room.div_ceil(SLOT_BYTES), count as u32)?)) })
    }

    /// Returns the least address space in bytes that frames need.
    pub(crate) fn least() -> u64 {
        2 * (FEWEST_SLOTS + 1) * SLOT_BYTES
    }

    /// Number of sections that have memory.
    #[cfg(test)]
    pub(crate) fn slots_in_use(&self) -> usize {
        self.slots.as_ref().map_or(0, |slots| slots.in_use())
    }

    /// Bytes of address space that are reserved for frames.
    #[cfg(all(test, not(feature = "_shuttle")))]
    pub(crate) fn reserved(&self) -> usize {
        self.memory.capacity()
    }

    /// Returns true for the frames of a sparse volume.
    pub(crate) fn are_sparse(&self) -> bool {
        self.slots.is_some()
    }

    /// Returns whether the memory of block `index` follows that of the block before.
    pub(crate) fn continues(&self, index: u64) -> bool {
        self.slots.is_none() || !index.is_multiple_of(BLOCKS)
    }

    /// Returns whether these bytes are one range of memory.
    pub(crate) fn is_one_range(&self, at: u64, len: u64) -> bool {
        self.slots.is_none() || at % SLOT_BYTES + len <= SLOT_BYTES
    }

    /// Returns whether the block at `at` has a frame. One that has been claimed keeps it.
    #[inline(always)]
    pub(crate) fn has(&self, at: u64) -> bool {
        self.slots.as_ref().is_none_or(|slots| slots.has(at / SLOT_BYTES))
    }

    /// Gives the block at `at`, which is claimed, a frame. Returns false where all slots are in use.
    pub(crate) fn assign(&self, at: u64) -> bool {
        self.slots.as_ref().is_none_or(|slots| slots.assign(at / SLOT_BYTES))
    }

    /// Returns true where a sparse volume should take slots from sections that need none.
    #[inline]
    pub(crate) fn are_short(&self) -> bool {
        self.slots.as_ref().is_some_and(|slots| slots.are_short())
    }

    /// Number of sections that are emptied at a time where slots are short: few, because those that were
    /// filled last must not leave before they are used.
    pub(crate) fn few(&self) -> usize {
        let slots = self.memory.capacity() / SLOT_BYTES as usize;
        (slots / 32).clamp(1, 16)
    }

    /// Returns true where a section without a slot can have one.
    pub(crate) fn are_left(&self) -> bool {
        self.slots.as_ref().is_none_or(|slots| slots.left() > 0)
    }

    /// Takes up to `most` slots away from sections of which no block has a frame, and returns their number.
    /// `is_unused` gets the numbers of a section's blocks, which it may evict first.
    pub(crate) fn reclaim(&self, most: usize, is_unused: impl Fn(Range<u64>) -> bool) -> usize {
        let Some(slots) = &self.slots else { return 0 };
        let taken = |slot: u64| self.memory.release((slot * SLOT_BYTES) as usize, SLOT_BYTES as usize);
        slots.reclaim(most, |section| is_unused(section * BLOCKS..(section + 1) * BLOCKS), taken)
    }

    /// Returns the address of a byte, after which the rest of its block lies. `at` must be inside the volume.
    /// A block without a frame has the address of zeros.
    #[inline(always)]
    pub(crate) fn address(&self, at: u64) -> NonNull<u8> {
        match &self.slots {
            None => self.memory.address(at),
            Some(slots) => self.memory.address(slots.place(at)),
        }
    }

    /// Returns the address of a byte of a volume in one range.
    #[inline(always)]
    pub(crate) fn address_in_range(&self, at: u64) -> NonNull<u8> {
        debug_assert!(self.slots.is_none());
        self.memory.address(at)
    }

    /// Calls `each` with the places in memory of a range of positions, and their offsets in it. Sections
    /// without a slot have the place of zeros; `None` stands for them where the range is to be changed.
    #[inline]
    fn parts(&self, at: u64, len: usize, mut each: impl FnMut(u64, Range<usize>)) {
        let Some(slots) = &self.slots else { return each(at, 0..len) };
        let mut done = 0;
        while done < len {
            let from = at + done as u64;
            let end = len.min(done + (SLOT_BYTES - from % SLOT_BYTES) as usize);
            each(slots.place(from), done..end);
            done = end;
        }
    }

    /// As [`parts`](Self::parts), for bytes that are to be changed: all have frames.
    #[inline]
    fn own_parts(&self, at: u64, len: usize, mut each: impl FnMut(u64, Range<usize>)) {
        self.parts(at, len, |place, part| {
            assert!(self.slots.is_none() || place >= SLOT_BYTES, "no frame for the bytes at {at}");
            each(place, part);
        });
    }

    /// Asks for huge pages: fewer TLB misses in large volumes, at the price of memory in small ones.
    pub(crate) fn prefer_huge_pages(&self) {
        self.memory.prefer_huge_pages();
    }

    /// Asks for huge pages where at least half of one is about to be filled. `ranges` are those that are to
    /// be filled, by position; each is [one range](Self::is_one_range) of memory.
    pub(crate) fn expect_fill(&self, ranges: impl Iterator<Item = Range<u64>>) {
        let Some(slots) = &self.slots else { return self.memory.expect_fill(ranges) };
        let place = |range: Range<u64>| {
            let place = slots.place(range.start);
            place..place + (range.end - range.start)
        };
        let mut places: Vec<Range<u64>> = ranges.map(place).collect();
        places.sort_unstable_by_key(|place| place.start);
        self.memory.expect_fill(places.into_iter());
    }

    /// Releases the pages of a range; they read as zeros again.
    pub(crate) fn release(&self, at: u64, len: usize) {
        self.parts(at, len, |place, part| self.memory.release(place as usize, part.len()));
    }

    /// Lets the host take the pages of a range when it is short of memory, see
    /// [`Arena::release_when_wanted`].
    pub(crate) fn release_when_wanted(&self, at: u64, len: usize) {
        self.parts(at, len, |place, part| self.memory.release_when_wanted(place as usize, part.len()));
    }

    /// Copies bytes of blocks, which other threads may change meanwhile.
    #[inline]
    pub(crate) fn copy_out(&self, at: u64, out: &mut [u8]) {
        self.parts(at, out.len(), |place, part| self.memory.copy_out(place, &mut out[part]));
    }

    /// Copies bytes into blocks, which other threads may read meanwhile. No other thread writes the same
    /// words.
    ///
    /// # Panics
    /// Where a block has no frame.
    #[inline]
    pub(crate) fn copy_in(&self, at: u64, data: &[u8]) {
        self.own_parts(at, data.len(), |place, part| self.memory.copy_in(place, &data[part]));
    }

    /// Clears whole words of blocks, which other threads may read meanwhile. No other thread writes them.
    ///
    /// # Panics
    /// As [`copy_in`](Self::copy_in).
    pub(crate) fn zero(&self, at: u64, len: usize) {
        self.own_parts(at, len, |place, part| self.memory.zero(place, part.len()));
    }

    /// Returns the place of bytes that are one range of memory and have frames.
    ///
    /// # Panics
    /// Where they are not, or have none.
    fn place_of(&self, at: u64, len: usize) -> u64 {
        assert!(self.is_one_range(at, len as u64), "{len} bytes at {at} are in several sections");
        let mut only = 0;
        self.own_parts(at, len, |place, _| only = place);
        only
    }

    /// Returns bytes of blocks for a device to write. Other threads may change them meanwhile.
    ///
    /// # Panics
    /// Where they are not [one range](Self::is_one_range), or have no frames.
    pub(crate) fn source(&self, at: u64, len: usize) -> IoBuf<'_> {
        self.memory.source(self.place_of(at, len), len)
    }

    /// Returns bytes of blocks for a device to fill. Other threads may read them meanwhile. The caller alone
    /// writes them.
    ///
    /// # Panics
    /// As [`source`](Self::source).
    pub(crate) fn target(&self, at: u64, len: usize) -> IoBufMut<'_> {
        self.memory.target(self.place_of(at, len), len)
    }
}
