//! Units: address space for slabs and large objects, in pieces of 256 KiB.
//!
//! Units lie in regions of up to 1 GiB that are reserved at once; a bitmap says which are free. Memory that was given back here
//! stays for a while, for whoever comes next, and then goes back to the host.

use crate::bitmap;
use crate::os;
use lanefs_sync::point;
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
    /// Free memory goes back to the host after one or two ticks.
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
        let found = self.find(count, align);
        if found.is_some() || !self.unmap_free_regions() {
            return found;
        }
        // There is more address space than before.
        self.find(count, align)
    }

    fn find(&mut self, count: usize, align: usize) -> Option<Units> {
        if count > POOLED || align > 1 {
            return self.map(count, align);
        }
        let found = self.regions().find_map(|region| region.take(count));
        // Where there is no room for a region there may still be some for what was asked for.
        found.or_else(|| self.grow(count)?.take(count)).or_else(|| self.map(count, align))
    }

    /// Gives the address space of regions back that are free as a whole; true where there was one.
    fn unmap_free_regions(&mut self) -> bool {
        let before = self.count;
        let mut index = 0;
        while index < self.count {
            let place = self.regions[index];
            // SAFETY: a region of this pool, which is behind a lock.
            let is_free = unsafe { (*place).is_free() };
            if is_free {
                // SAFETY: nobody has a unit of it, and from here on nobody finds it.
                unsafe { Region::unmap(place) };
                self.count -= 1;
                self.regions[index] = self.regions[self.count];
            } else {
                index += 1;
            }
        }
        self.count < before
    }

    /// A region more, of `least` units at least.
    fn grow<'r>(&mut self, least: usize) -> Option<&'r mut Region> {
        if self.count == REGIONS {
            return None;
        }
        let least = least.max(LEAST);
        let own = size_of::<Region>().next_multiple_of(os::PAGE);
        let place = os::map(own, os::PAGE)?;
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
                None => {
                    // SAFETY: mapped above, and nobody uses it.
                    unsafe { os::unmap(place, own) };
                    return None;
                }
            }
        };
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
        self.tick();
    }

    /// Looks at the clock: what has been free for long goes back to the host. To be called now and then also by who neither takes
    /// units nor gives any back, for nobody else may do so.
    pub(crate) fn tick(&mut self) {
        if os::is_time(&mut self.last_tick) {
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
        self.unmap_free_regions();
        for region in self.regions() {
            region.cool_down();
            region.cool_down();
        }
    }

    /// Units in use, and mappings.
    #[cfg(test)]
    pub(crate) fn in_use(&self) -> usize {
        let free = |region: &Region| region.free.iter().map(|word| word.count_ones() as usize).sum::<usize>();
        let units: usize = self.regions().map(|region| region.units - free(region)).sum();
        let mut mapping = self.mappings;
        let mut mappings = 0;
        // SAFETY: a list of mappings that live.
        while let Some(one) = unsafe { mapping.as_ref() } {
            mappings += 1;
            mapping = one.next;
        }
        units + mappings
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
    /// True with all units free.
    fn is_free(&self) -> bool {
        bitmap::masks(0, self.units).all(|(word, mask)| self.free[word] == mask)
    }

    /// Ends a region.
    ///
    /// # Safety
    /// Nobody has a unit of it, nor finds it any more.
    unsafe fn unmap(region: *mut Region) {
        // SAFETY: the caller's promise; both were mapped by `Pool::grow`.
        unsafe {
            let (base, units) = ((*region).base, (*region).units);
            if let (Some(base), Some(place)) = (NonNull::new(base), NonNull::new(region)) {
                os::unmap(base, units * UNIT);
                os::unmap(place.cast(), size_of::<Region>().next_multiple_of(os::PAGE));
            }
        }
    }

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
        point();
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
        for region in &self.regions[..self.count] {
            // SAFETY: who drops a pool has none of its objects any more.
            unsafe { Region::unmap(*region) };
        }
        while let Some(mapping) = NonNull::new(self.mappings) {
            // SAFETY: as above.
            unsafe { self.unmap(mapping) };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    /// Units in use by their start, with the byte that each one's first and last pages begin with.
    type InUse = BTreeMap<usize, (usize, u8)>;

    fn words(base: usize, count: usize) -> impl Iterator<Item = *mut u8> {
        // What the pool keeps of a mapping lies in its first bytes.
        let first = base + HEADER;
        let last = base + count * UNIT - 1;
        [first, base + count * UNIT / 2, last].map(std::ptr::with_exposed_provenance_mut).into_iter()
    }

    fn check_units(in_use: &InUse, units: Units, align: usize) {
        let base = units.base.as_ptr().expose_provenance();
        assert!(base.is_multiple_of(UNIT));
        // With an alignment of more than a unit, the first is for the header.
        assert!(align == 1 || (base + UNIT).is_multiple_of(align * UNIT));
        let end = base + units.count * UNIT;
        if let Some((start, (count, _))) = in_use.range(..end).next_back() {
            assert!(start + count * UNIT <= base, "{base:#x} lies in what is in use");
        }
        if units.is_zero {
            for byte in words(base, units.count) {
                // SAFETY: units in the test's use.
                assert_eq!(unsafe { byte.read() }, 0, "not zero");
            }
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn units_have_one_user_and_are_zero_when_the_pool_says_so(
            steps in proptest::collection::vec((0u8..10, 0usize..100, any::<proptest::sample::Index>()), 1..150),
        ) {
            let mut pool = Pool::new();
            let mut in_use = InUse::new();
            for (number, (what, size, which)) in steps.into_iter().enumerate() {
                match what {
                    0..5 => {
                        let (wanted, align) = match size {
                            0..60 => (1 + size % 3, 1),
                            60..85 => (size, 1),
                            // Fills a region of 4,096 units when it comes more often, so that there is a second one.
                            85..90 => (POOLED - size % 5, 1),
                            90..95 => (POOLED + size, 1),
                            _ => (size - 94, 1 << (size - 94)),
                        };
                        let units = pool.take(wanted, align).expect("address space");
                        prop_assert!(units.count >= wanted + usize::from(align > 1));
                        check_units(&in_use, units, align);
                        let (base, seed) = (units.base.as_ptr().expose_provenance(), number as u8 | 1);
                        // SAFETY: units in the test's use.
                        words(base, units.count).for_each(|byte| unsafe { byte.write(seed) });
                        in_use.insert(base, (units.count, seed));
                    }
                    5..8 if !in_use.is_empty() => {
                        let base = *which.get(&in_use.keys().copied().collect::<Vec<_>>());
                        let (count, seed) = in_use.remove(&base).unwrap_or_default();
                        for byte in words(base, count) {
                            // SAFETY: as above.
                            prop_assert_eq!(unsafe { byte.read() }, seed, "another's byte");
                        }
                        prop_assert!(pool.has(base));
                        let place = NonNull::new(std::ptr::with_exposed_provenance_mut(base)).expect("an address");
                        // SAFETY: taken in one piece, and not used any more.
                        unsafe { pool.give_back(place, count) };
                        prop_assert!(!pool.has(base));
                    }
                    8 => pool.release(),
                    _ => pool.regions().for_each(Region::cool_down),
                }
            }
        }
    }

    #[test]
    fn a_region_that_is_full_is_followed_by_another() {
        let mut pool = Pool::new();
        let all: Vec<Units> = (0..40).map(|_| pool.take(POOLED, 1).expect("address space")).collect();
        assert_eq!((pool.count, pool.in_use()), (3, 40 * POOLED));
        for units in all {
            // SAFETY: nobody uses them.
            unsafe { pool.give_back(units.base, units.count) };
        }
        assert_eq!(pool.in_use(), 0);
        assert!(pool.take(usize::MAX / UNIT, 1).is_none() && pool.take(1, 1 << 50).is_none());
    }
}
