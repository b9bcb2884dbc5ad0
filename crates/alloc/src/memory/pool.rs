//! The pool: gives out units, for slabs and large objects, and keeps free ones for a while.
//!
//! Free units keep their memory for one or two ticks, for the next user. Then the memory goes back to the
//! kernel.

mod mapping;
mod region;

use super::unit::Units;
use crate::host::clock;
use mapping::Mappings;
use region::{MAX_UNITS, Region};
use std::ptr::NonNull;

/// Most regions: 2 TiB of units.
const MAX_REGIONS: usize = 2048;

/// Most units that one region gives in one piece: 64 MiB. Larger objects have mappings of their own.
const MAX_PIECE_UNITS: usize = if cfg!(miri) { 8 } else { 256 };

const _: () = assert!(MAX_PIECE_UNITS <= MAX_UNITS, "a fresh region has room for the largest piece");

/// All units of a heap.
pub(crate) struct Pool {
    /// Regions, of which the first `count` are there.
    regions: [Option<NonNull<Region>>; MAX_REGIONS],
    count: usize,
    mappings: Mappings,
    last_tick: u64,
}

// SAFETY: the pool owns the memory to which its pointers lead.
unsafe impl Send for Pool {}

impl Pool {
    pub(crate) const fn new() -> Self {
        Pool { regions: [None; MAX_REGIONS], count: 0, mappings: Mappings::NONE, last_tick: 0 }
    }

    /// Returns one region after the other. (No caller keeps one when it asks for the next.)
    fn regions<'r>(&self) -> impl Iterator<Item = &'r mut Region> + use<'_, 'r> {
        // SAFETY: made by `grow`, and unmapped by this pool, which is behind a lock.
        self.regions[..self.count].iter().flatten().map(|region| unsafe { &mut *region.as_ptr() })
    }

    /// Takes `count` consecutive units, the first at a multiple of `align` units.
    pub(crate) fn take(&mut self, count: usize, align: usize) -> Option<Units> {
        let units = self.find(count, align);
        if units.is_some() || !self.unmap_free_regions() {
            return units;
        }
        // There is more address space than before.
        self.find(count, align)
    }

    fn find(&mut self, count: usize, align: usize) -> Option<Units> {
        if count > MAX_PIECE_UNITS || align > 1 {
            return self.mappings.map(count, align);
        }
        let units = self.regions().find_map(|region| region.take(count));
        // A process without address space for a region may still have some for the units themselves.
        units.or_else(|| self.grow(count)?.take(count)).or_else(|| self.mappings.map(count, align))
    }

    /// Unmaps the regions all of whose units are free; returns true if there was one.
    fn unmap_free_regions(&mut self) -> bool {
        let before = self.count;
        let mut index = 0;
        while index < self.count {
            match self.regions[index] {
                // SAFETY: a region of this pool, which is behind a lock.
                Some(region) if unsafe { region.as_ref() }.is_free() => {
                    // SAFETY: no unit of it is in use, and nothing finds it once it has left the list.
                    unsafe { Region::unmap(region) };
                    self.count -= 1;
                    self.regions[index] = self.regions[self.count].take();
                }
                _ => index += 1,
            }
        }
        self.count < before
    }

    /// Adds a region of at least `fewest` units.
    fn grow<'r>(&mut self, fewest: usize) -> Option<&'r mut Region> {
        if self.count == MAX_REGIONS {
            return None;
        }
        let region = Region::map(fewest)?;
        self.regions[self.count] = Some(region);
        self.count += 1;
        // SAFETY: as in `regions`.
        Some(unsafe { &mut *region.as_ptr() })
    }

    /// Takes units back.
    ///
    /// # Safety
    /// They were [taken](Self::take) in one piece, and nothing uses them any more.
    pub(crate) unsafe fn give_back(&mut self, base: NonNull<u8>, count: usize) {
        let address = base.addr().get();
        let found = self.regions().find_map(|region| Some((region.unit_at(address)?, region)));
        match found {
            Some((first, region)) => region.give_back(first, count),
            // SAFETY: units that are in no region are those of a mapping.
            None => unsafe { self.mappings.unmap(base) },
        }
        self.tick();
    }

    /// Gives memory that has been free for long back to the kernel, if a tick has passed. Heaps call this now
    /// and then, because it may be long before the next units are given back.
    pub(crate) fn tick(&mut self) {
        if clock::tick_passed(&mut self.last_tick) {
            self.regions().for_each(Region::cool_down);
        }
    }

    /// Gives the memory of all free units back to the kernel.
    pub(crate) fn release(&mut self) {
        self.unmap_free_regions();
        for region in self.regions() {
            region.cool_down();
            region.cool_down();
        }
    }

    /// Number of units and mappings in use.
    #[cfg(test)]
    pub(crate) fn in_use(&self) -> usize {
        self.regions().map(|region| region.units_in_use()).sum::<usize>() + self.mappings.bases().count()
    }

    /// Returns true if a unit in use begins at this address, or the units of a mapping.
    pub(crate) fn has(&self, base: usize) -> bool {
        match self.regions().find_map(|region| Some((region.unit_at(base)?, region))) {
            Some((unit, region)) => region.is_in_use(unit),
            None => self.mappings.has(base),
        }
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        for region in self.regions[..self.count].iter().flatten() {
            // SAFETY: no object outlives its pool.
            unsafe { Region::unmap(*region) };
        }
        // SAFETY: as above.
        unsafe { self.mappings.unmap_all() };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::unit::{HEADER_BYTES, UNIT};
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    /// Units in use by their start, with the byte that each one's first and last pages begin with.
    type InUse = BTreeMap<usize, (usize, u8)>;

    fn bytes(base: usize, count: usize) -> impl Iterator<Item = *mut u8> {
        // The first bytes of a mapping are the pool's own.
        let first = base + HEADER_BYTES;
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
            for byte in bytes(base, units.count) {
                // SAFETY: units in the test's use.
                assert_eq!(unsafe { byte.read() }, 0, "not zero");
            }
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(if cfg!(miri) { 2 } else { 64 }))]
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
                            // A few of these fill a region, so that there is a second one.
                            85..90 => (MAX_PIECE_UNITS - size % 5, 1),
                            90..95 => (MAX_PIECE_UNITS + size, 1),
                            _ => (size - 94, 1 << (size - 94)),
                        };
                        let units = pool.take(wanted, align).expect("address space");
                        prop_assert!(units.count >= wanted + usize::from(align > 1));
                        check_units(&in_use, units, align);
                        let (base, seed) = (units.base.as_ptr().expose_provenance(), number as u8 | 1);
                        // SAFETY: units in the test's use.
                        bytes(base, units.count).for_each(|byte| unsafe { byte.write(seed) });
                        in_use.insert(base, (units.count, seed));
                    }
                    5..8 if !in_use.is_empty() => {
                        let base = *which.get(&in_use.keys().copied().collect::<Vec<_>>());
                        let (count, seed) = in_use.remove(&base).unwrap_or_default();
                        for byte in bytes(base, count) {
                            // SAFETY: as above.
                            prop_assert_eq!(unsafe { byte.read() }, seed, "another's byte");
                        }
                        prop_assert!(pool.has(base));
                        let start = NonNull::new(std::ptr::with_exposed_provenance_mut(base)).expect("an address");
                        // SAFETY: taken in one piece, and not used any more.
                        unsafe { pool.give_back(start, count) };
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
        let pieces = 2 * MAX_UNITS / MAX_PIECE_UNITS + 1;
        let all: Vec<Units> =
            (0..pieces).map(|_| pool.take(MAX_PIECE_UNITS, 1).expect("address space")).collect();
        assert_eq!((pool.count, pool.in_use()), (3, pieces * MAX_PIECE_UNITS));
        for units in all {
            // SAFETY: nobody uses them.
            unsafe { pool.give_back(units.base, units.count) };
        }
        assert_eq!(pool.in_use(), 0);
        assert!(pool.take(usize::MAX / UNIT, 1).is_none() && pool.take(1, 1 << 50).is_none());
    }
}
