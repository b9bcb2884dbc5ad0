//! Mappings of their own, for objects that are too large for a region or have too large an alignment.

use crate::host::message::debug_assert_state;
use crate::host::os;
use crate::memory::unit::{HEADER_BYTES, POOL_PART, UNIT, Units};
use std::ptr::{NonNull, null_mut};

/// The pool's own part of a mapping, after the header of the object in it.
struct Mapping {
    next: *mut Mapping,
    previous: *mut Mapping,
    /// Start and length of the whole mapping, and its alignment.
    start: NonNull<u8>,
    bytes: usize,
    align: usize,
}

const _: () =
    assert!(POOL_PART + size_of::<Mapping>() <= HEADER_BYTES, "no object lies in the pool's own part");

/// All mappings in use.
pub(super) struct Mappings {
    first: *mut Mapping,
}

impl Mappings {
    pub(super) const NONE: Mappings = Mappings { first: null_mut() };

    /// Maps units, the first at a multiple of `align` units. With an alignment of more than one unit, the
    /// aligned unit is the second: the header lies in the unit before it.
    pub(super) fn map(&mut self, count: usize, align: usize) -> Option<Units> {
        let before = if align > 1 { align } else { 0 };
        let align_bytes = align.checked_mul(UNIT)?;
        let bytes = (count + before).checked_mul(UNIT)?;
        let start = os::map(bytes, align_bytes)?;
        // The unit for the header is the last one before the aligned one.
        let cut = before.saturating_sub(1) * UNIT;
        // SAFETY: inside the mapping, and nothing uses it.
        let (rest, base) = unsafe { (os::unmap_front(start, cut), start.add(cut)) };
        let rest_bytes = bytes - (rest.addr().get() - start.addr().get());
        // As for the units of a region.
        rest.as_ptr().expose_provenance();
        let mapping = Mapping {
            next: self.first,
            previous: null_mut(),
            start: rest,
            bytes: rest_bytes,
            align: align_bytes,
        };
        // SAFETY: a fresh mapping; its neighbour in the list is in use.
        unsafe {
            let own = base.add(POOL_PART).cast::<Mapping>();
            own.write(mapping);
            if !self.first.is_null() {
                debug_assert_state!((*self.first).previous.is_null(), "the first mapping has none before it");
                (*self.first).previous = own.as_ptr();
            }
            self.first = own.as_ptr();
        }
        Some(Units { base, count: (bytes - cut) / UNIT, is_zero: true })
    }

    /// Ends the mapping whose units begin at `base`.
    ///
    /// # Safety
    /// It was [mapped](Self::map), and nothing uses it any more.
    pub(super) unsafe fn unmap(&mut self, base: NonNull<u8>) {
        // SAFETY: the caller's promise; neighbours in the list are in use.
        unsafe {
            let own = base.add(POOL_PART).cast::<Mapping>();
            let Mapping { next, previous, start, bytes, align } = own.read();
            if previous.is_null() {
                debug_assert_state!(self.first == own.as_ptr(), "the first mapping has none before it");
                self.first = next;
            } else {
                debug_assert_state!(
                    (*previous).next == own.as_ptr(),
                    "neighbours in the list name each other"
                );
                (*previous).next = next;
            }
            if !next.is_null() {
                debug_assert_state!(
                    (*next).previous == own.as_ptr(),
                    "neighbours in the list name each other"
                );
                (*next).previous = previous;
            }
            os::unmap(start, bytes, align);
        }
    }

    /// Returns true if units of a mapping begin at this address.
    pub(super) fn has(&self, base: usize) -> bool {
        self.bases().any(|found| found == base)
    }

    /// Returns the addresses at which units of mappings begin.
    pub(super) fn bases(&self) -> impl Iterator<Item = usize> {
        let mut next = self.first;
        std::iter::from_fn(move || {
            let mapping = NonNull::new(next)?;
            // SAFETY: a list of mappings in use.
            next = unsafe { mapping.as_ref() }.next;
            Some(mapping.addr().get() - POOL_PART)
        })
    }

    /// Ends all mappings.
    ///
    /// # Safety
    /// Nothing uses them any more.
    pub(super) unsafe fn unmap_all(&mut self) {
        while let Some(mapping) = NonNull::new(self.first) {
            // SAFETY: the caller's promise; the pool's own part lies inside the units.
            unsafe { self.unmap(mapping.cast().sub(POOL_PART)) };
        }
    }
}
