//! Units: address space for slabs and large objects, in pieces of 256 KiB.
//!
//! Units lie in regions of up to 1 GiB that are reserved at once; a bitmap says which are free. Memory that was given back here
//! stays for a while, for whoever comes next, and then goes back to the host.

use crate::bitmap;
use crate::os;
use std::ptr::NonNull;

/// Bytes of a unit, and what it is aligned to: a pointer and one mask lead to its header.
pub(crate) const UNIT: usize = 256 << 10;

/// Units of a region at most, and at least where the host has no room for more.
const MOST: usize = 4096;
const LEAST: usize = 16;

/// The part of a limited address space that a region may take.
const PART: usize = 16;

/// Regions at most: 2 TiB of units.
const REGIONS: usize = 2048;

/// Objects of more units than this are mappings of their own: 64 MiB.
const POOLED: usize = 256;

/// Memory that nobody took for one or two of these goes back to the host, in milliseconds.
const TICK: u64 = 100;

/// Where [`Mapping`] lies in a mapping; objects begin behind it.
const MAPPING_AT: usize = 128;

/// What a unit's header may take, the pool's own part included.
pub(crate) const HEADER: usize = 256;

const WORDS: usize = MOST / bitmap::WORD;

/// Where the bitmaps of a region are.
struct Region {
    base: *mut u8,
    units: usize,
    /// Units in nobody's use.
    free: [u64; WORDS],
    /// Of those, the ones that have memory: since this tick, since an earlier one.
    warm: [u64; WORDS],
    cool: [u64; WORDS],
    /// No unit below this is free.
    low: usize,
}

/// A mapping of its own; this lies behind the header of the object in it.
struct Mapping {
    next: *mut Mapping,
    previous: *mut Mapping,
    bytes: usize,
}

/// A run of units.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Units {
    pub(crate) base: NonNull<u8>,
    pub(crate) count: usize,
    /// All of it reads as zeros.
    pub(crate) is_zero: bool,
}

/// All units of a heap.
pub(crate) struct Pool {
    regions: [*mut Region; REGIONS],
    count: usize,
    mappings: *mut Mapping,
    last_tick: u64,
}

// SAFETY: the pool owns what its pointers lead to.
unsafe impl Send for Pool {}

impl Pool {
    pub(crate) const fn new() -> Self {
        Pool {
            regions: [std::ptr::null_mut(); REGIONS],
            count: 0,
            mappings: std::ptr::null_mut(),
            last_tick: 0,
        }
    }

    fn regions<'r>(&self) -> impl Iterator<Item = &'r mut Region> + use<'_, 'r> {
        // SAFETY: made by `grow`, never freed before the pool; the pool is behind a lock.
        self.regions[..self.count].iter().map(|region| unsafe { &mut **region })
    }

    /// `count` units one behind the other, the first at a multiple of `align` units.
    pub(crate) fn take(&mut self, count: usize, align: usize) -> Option<Units> {
        if count > POOLED || align > 1 {
            return self.map(count, align);
        }
        let found = self.regions().find_map(|region| region.take(count));
        // Where there is no room for a region there may still be some for what was asked for.
        found.or_else(|| self.grow(count)?.take(count)).or_else(|| self.map(count, align))
    }

    /// A region more, of `least` units at least.
    fn grow<'r>(&mut self, least: usize) -> Option<&'r mut Region> {
        if self.count == REGIONS {
            return None;
        }
        let least = least.max(LEAST);
        let mut units = MOST;
        // Address space that is limited is not for us alone.
        let most = os::address_space() / PART;
        while units / 4 >= least && units * UNIT > most {
            units /= 4;
        }
        let base = loop {
            match os::map(units * UNIT, UNIT) {
                Some(base) => break base,
                None if units / 4 >= least => units /= 4,
                None => return None,
            }
        };
        let place = os::map(size_of::<Region>().next_multiple_of(os::PAGE), os::PAGE)?;
        let region = place.cast::<Region>();
        let mut free = [0; WORDS];
        for (word, mask) in bitmap::masks(0, units) {
            free[word] = mask;
        }
        // SAFETY: fresh memory that is large enough.
        unsafe {
            region.write(Region {
                base: base.as_ptr(),
                units,
                free,
                warm: [0; WORDS],
                cool: [0; WORDS],
                low: 0,
            });
        }
        self.regions[self.count] = region.as_ptr();
        self.count += 1;
        // SAFETY: just written; as in `regions`.
        Some(unsafe { &mut *region.as_ptr() })
    }

    /// A mapping of its own. Its header is in the unit before an object that is aligned to more than a unit.
    fn map(&mut self, count: usize, align: usize) -> Option<Units> {
        // The unit before the aligned one holds the header.
        let before = if align > 1 { align } else { 0 };
        let bytes = (count + before).checked_mul(UNIT)?;
        let base = os::map(bytes, align.checked_mul(UNIT)?)?;
        // SAFETY: inside the mapping: with an alignment of more than a unit, the last unit before the first aligned place behind
        // the start; what lies before it is given back at once.
        let base = unsafe {
            let header = base.add(before.saturating_sub(1) * UNIT);
            if header != base {
                os::unmap(base, header.as_ptr() as usize - base.as_ptr() as usize);
            }
            header
        };
        let bytes = bytes - before.saturating_sub(1) * UNIT;
        // SAFETY: inside the mapping.
        let mapping = unsafe { base.add(MAPPING_AT) }.cast::<Mapping>().as_ptr();
        // SAFETY: a fresh mapping; its neighbours in the list are mappings that live.
        unsafe {
            mapping.write(Mapping { next: self.mappings, previous: std::ptr::null_mut(), bytes });
            if let Some(next) = self.mappings.as_mut() {
                next.previous = mapping;
            }
        }
        self.mappings = mapping;
        Some(Units { base, count: bytes / UNIT, is_zero: true })
    }

    /// Takes units back.
    ///
    /// # Safety
    /// They were [taken](Self::take) in one piece, and nobody uses them any more.
    pub(crate) unsafe fn give_back(&mut self, base: NonNull<u8>, count: usize) {
        let at = base.as_ptr() as usize;
        let region = self.regions().find(|region| region.has(at));
        match region {
            Some(region) => region.give_back((at - region.base as usize) / UNIT, count),
            // SAFETY: what is in no region is a mapping.
            None => unsafe { self.unmap(base.add(MAPPING_AT).cast()) },
        }
        let now = os::milliseconds();
        if now.wrapping_sub(self.last_tick) >= TICK {
            self.last_tick = now;
            for region in self.regions() {
                region.cool_down();
            }
        }
    }

    /// # Safety
    /// It is one of the list, and nobody uses it any more.
    unsafe fn unmap(&mut self, mapping: NonNull<Mapping>) {
        // SAFETY: the caller's promise; neighbours are in the list too.
        unsafe {
            let Mapping { next, previous, bytes } = mapping.read();
            match previous.as_mut() {
                Some(previous) => previous.next = next,
                None => self.mappings = next,
            }
            if let Some(next) = next.as_mut() {
                next.previous = previous;
            }
            os::unmap(mapping.cast().sub(MAPPING_AT), bytes);
        }
    }

    /// The memory of all free units goes back to the host.
    pub(crate) fn release(&mut self) {
        for region in self.regions() {
            region.cool_down();
            region.cool_down();
        }
    }

    /// True where a unit in use lies, or a mapping.
    pub(crate) fn has(&self, unit: usize) -> bool {
        if let Some(region) = self.regions().find(|region| region.has(unit)) {
            let index = (unit - region.base as usize) / UNIT;
            return region.free[index / bitmap::WORD] >> (index % bitmap::WORD) & 1 == 0;
        }
        let mut mapping = self.mappings;
        // SAFETY: a list of mappings that live.
        while let Some(one) = unsafe { mapping.as_ref() } {
            if mapping as usize == unit + MAPPING_AT {
                return true;
            }
            mapping = one.next;
        }
        false
    }
}

impl Region {
    fn has(&self, at: usize) -> bool {
        (self.base as usize..self.base as usize + self.units * UNIT).contains(&at)
    }

    /// The first run of `count` free units.
    fn take(&mut self, count: usize) -> Option<Units> {
        let free = |word: usize| self.free[word];
        let mut from = self.low;
        loop {
            let (first, end) = bitmap::run(&free, from, self.units)?;
            if from == self.low {
                self.low = first;
            }
            if end - first >= count {
                return Some(self.take_at(first, count));
            }
            from = end;
        }
    }

    fn take_at(&mut self, first: usize, count: usize) -> Units {
        let mut is_zero = true;
        for (word, mask) in bitmap::masks(first, first + count) {
            is_zero &= (self.warm[word] | self.cool[word]) & mask == 0;
            for bits in [&mut self.free, &mut self.warm, &mut self.cool] {
                bits[word] &= !mask;
            }
        }
        if first == self.low {
            self.low = first + count;
        }
        // SAFETY: inside the region.
        let base = unsafe { NonNull::new_unchecked(self.base.add(first * UNIT)) };
        Units { base, count, is_zero }
    }

    fn give_back(&mut self, first: usize, count: usize) {
        for (word, mask) in bitmap::masks(first, first + count) {
            self.free[word] |= mask;
            self.warm[word] |= mask;
        }
        self.low = self.low.min(first);
    }

    /// What was cool goes back to the host, and what was warm is cool.
    fn cool_down(&mut self) {
        let mut from = 0;
        while let Some((first, end)) = bitmap::run(&|word| self.cool[word], from, self.units) {
            // SAFETY: units of this region in nobody's use.
            unsafe { os::release(self.base.add(first * UNIT), (end - first) * UNIT) };
            from = end;
        }
        self.cool = std::mem::replace(&mut self.warm, [0; WORDS]);
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        let own = size_of::<Region>().next_multiple_of(os::PAGE);
        for region in self.regions() {
            // SAFETY: who drops a pool has none of its objects any more.
            unsafe {
                if let Some(base) = NonNull::new(region.base) {
                    os::unmap(base, region.units * UNIT);
                }
                os::unmap(NonNull::from(region).cast(), own);
            }
        }
        while let Some(mapping) = NonNull::new(self.mappings) {
            // SAFETY: as above.
            unsafe { self.unmap(mapping) };
        }
    }
}
