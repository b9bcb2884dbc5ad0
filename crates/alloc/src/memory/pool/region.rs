//! Regions: up to 1 GiB of address space that is reserved at once, and bitmaps of its units.

use crate::bitmap;
use crate::host::message::debug_assert_state;
use crate::host::os;
use crate::memory::unit::{UNIT, Units};
use lanefs_sync::point;
use std::ptr::NonNull;

/// Most units of a region, and the fewest where the process has no address space for more.
pub(super) const MAX_UNITS: usize = if cfg!(miri) { 16 } else { 4096 };
const MIN_UNITS: usize = 16;

/// Fraction of a limited address space that a region may take.
const LIMIT_FRACTION: usize = 16;

const WORDS: usize = MAX_UNITS.div_ceil(bitmap::WORD);

/// Bytes of a region's own memory.
const OWN_BYTES: usize = size_of::<Region>().next_multiple_of(os::PAGE_BYTES);

/// A range of units, and the bitmaps of the free ones.
pub(super) struct Region {
    base: NonNull<u8>,
    units: usize,
    /// Free units.
    free: [u64; WORDS],
    /// Free units with memory that were freed in this tick.
    warm: [u64; WORDS],
    /// Free units with memory that were freed in the tick before.
    cool: [u64; WORDS],
    /// No unit below this one is free.
    low: usize,
}

impl Region {
    /// Reserves a region of at least `fewest` units; none without address space.
    pub(super) fn map(fewest: usize) -> Option<NonNull<Region>> {
        let fewest = fewest.max(MIN_UNITS);
        let own = os::map(OWN_BYTES, os::PAGE_BYTES)?;
        let mut units = MAX_UNITS;
        // The process needs a limited address space for other things too.
        let most_bytes = os::address_space() / LIMIT_FRACTION;
        while units / 4 >= fewest && units * UNIT > most_bytes {
            units /= 4;
        }
        let base = loop {
            match os::map(units * UNIT, UNIT) {
                Some(base) => break base,
                None if units / 4 >= fewest => units /= 4,
                None => {
                    // SAFETY: mapped above, and nothing uses it.
                    unsafe { os::unmap(own, OWN_BYTES, os::PAGE_BYTES) };
                    return None;
                }
            }
        };
        // A free knows an address only, and finds the header of its unit with this provenance
        // (`header::unit_of`).
        base.as_ptr().expose_provenance();
        let region = own.cast::<Region>();
        // SAFETY: fresh memory, which is large enough; zeros are empty bitmaps.
        unsafe {
            (&raw mut (*region.as_ptr()).base).write(base);
            (*region.as_ptr()).units = units;
            for (word, mask) in bitmap::masks(0, units) {
                (*region.as_ptr()).free[word] = mask;
            }
        }
        Some(region)
    }

    /// Ends a region.
    ///
    /// # Safety
    /// It was [mapped](Self::map), no unit of it is in use, and nothing finds it any more.
    pub(super) unsafe fn unmap(region: NonNull<Region>) {
        // SAFETY: the caller's promise.
        unsafe {
            let (base, units) = (region.as_ref().base, region.as_ref().units);
            os::unmap(base, units * UNIT, UNIT);
            os::unmap(region.cast(), OWN_BYTES, os::PAGE_BYTES);
        }
    }

    /// Returns true if all units are free.
    pub(super) fn is_free(&self) -> bool {
        bitmap::masks(0, self.units).all(|(word, mask)| self.free[word] == mask)
    }

    /// Returns the number of the unit at an address, if it lies in this region.
    pub(super) fn unit_at(&self, address: usize) -> Option<usize> {
        let unit = address.checked_sub(self.base.addr().get())? / UNIT;
        (unit < self.units).then_some(unit)
    }

    /// Returns true if a unit is in use.
    pub(super) fn is_in_use(&self, unit: usize) -> bool {
        self.free[unit / bitmap::WORD] >> (unit % bitmap::WORD) & 1 == 0
    }

    #[cfg(test)]
    pub(super) fn units_in_use(&self) -> usize {
        self.units - self.free.iter().map(|word| word.count_ones() as usize).sum::<usize>()
    }

    /// Takes the first `count` consecutive free units.
    pub(super) fn take(&mut self, count: usize) -> Option<Units> {
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
            debug_assert_state!(self.free[word] & mask == mask, "only free units are taken");
            is_zero &= (self.warm[word] | self.cool[word]) & mask == 0;
            for bits in [&mut self.free, &mut self.warm, &mut self.cool] {
                bits[word] &= !mask;
            }
        }
        if first == self.low {
            self.low = first + count;
        }
        self.check();
        // SAFETY: inside the region.
        Units { base: unsafe { self.base.add(first * UNIT) }, count, is_zero }
    }

    /// Takes units back, which keep their memory for one or two ticks.
    pub(super) fn give_back(&mut self, first: usize, count: usize) {
        debug_assert_state!(first + count <= self.units, "units lie in one region");
        for (word, mask) in bitmap::masks(first, first + count) {
            debug_assert_state!(self.free[word] & mask == 0, "only units in use are given back");
            self.free[word] |= mask;
            self.warm[word] |= mask;
        }
        self.low = self.low.min(first);
        self.check();
    }

    /// Gives the memory of cool units back to the kernel; warm units become cool.
    pub(super) fn cool_down(&mut self) {
        let mut from = 0;
        while let Some((first, end)) = bitmap::run(&|word| self.cool[word], from, self.units) {
            // SAFETY: units of this region that nothing uses.
            unsafe { os::release(self.base.add(first * UNIT).as_ptr(), (end - first) * UNIT) };
            from = end;
        }
        self.cool = std::mem::replace(&mut self.warm, [0; WORDS]);
        self.check();
    }

    /// In debug builds, checks the bitmaps.
    fn check(&self) {
        debug_assert_state!(
            (0..WORDS).all(|word| (self.warm[word] | self.cool[word]) & !self.free[word] == 0),
            "warm and cool units are free"
        );
        debug_assert_state!(
            (0..WORDS).all(|word| self.warm[word] & self.cool[word] == 0),
            "a unit is warm or cool"
        );
        debug_assert_state!(
            bitmap::next(&|word| self.free[word], 0, self.low, true) == self.low,
            "no unit below the lowest free one is free"
        );
    }
}
