//! Slabs: units cut into objects of one class, with a bitmap of the free ones.
//!
//! All but the owner in the header belongs to the thread of the heap that owns the slab. So a [`Slab`] is a
//! pointer, and never a reference to the whole: another thread may read the owner at any time.

use super::class::SIZES;
use super::header::{Header, unit_of};
use super::slab_shape::{SHAPES, SHIFT, SlabShape};
use crate::bitmap;
use crate::checking::misuse;
use crate::frees::inbox::Inbox;
use crate::host::message::debug_assert_state;
use crate::host::os;
use crate::memory::unit::HEADER_BYTES;
use crate::policy::Layers;
use std::ptr::NonNull;

/// A slab of the calling thread's heap, or of one that no thread has.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Slab(NonNull<SlabHeader>);

/// The start of a slab. The bitmap of free objects lies after it, at [`HEADER_BYTES`].
#[repr(C)]
struct SlabHeader {
    header: Header,
    shape: SlabShape,
    /// Number of free objects.
    free: u32,
    /// No object below this one is free.
    low: u32,
    /// Number of free objects at the last [`rest`](Slab::rest).
    free_before: u32,
    /// The slab was mostly free at the last check.
    is_sparse: bool,
    /// The memory of free pages has gone back since the slab rests.
    is_released: bool,
    links: Links,
}

const _: () = assert!(size_of::<SlabHeader>() <= HEADER_BYTES, "the bitmap follows the header");

/// Neighbours in the heap's list of slabs that have free objects.
#[derive(Clone, Copy)]
pub(crate) struct Links {
    pub(crate) next: Option<Slab>,
    pub(crate) previous: Option<Slab>,
    pub(crate) is_listed: bool,
}

impl Links {
    const NONE: Links = Links { next: None, previous: None, is_listed: false };
}

impl Slab {
    /// Makes a slab of a unit, with all objects free.
    ///
    /// # Safety
    /// The unit belongs to the caller. The slab, and each copy of it, is used by the thread of the owning
    /// heap only, until the unit goes back.
    pub(crate) unsafe fn make(
        unit: NonNull<u8>,
        owner: *const Inbox,
        layers: *mut Layers<*mut u8>,
        class: usize,
    ) -> Slab {
        let shape = SHAPES[class];
        let slab = Slab(unit.cast());
        let header = SlabHeader {
            header: Header::of_slab(unit, owner, layers, class, SIZES[class] as usize),
            shape,
            free: shape.capacity,
            low: 0,
            free_before: 0,
            is_sparse: false,
            is_released: false,
            links: Links::NONE,
        };
        // SAFETY: the caller's unit, which is larger than the header.
        unsafe { slab.0.write(header) };
        for word in 0..slab.capacity().div_ceil(bitmap::WORD) {
            slab.set_word(word, 0);
        }
        for (word, mask) in bitmap::masks(0, slab.capacity()) {
            slab.set_word(word, mask);
        }
        slab.check();
        slab
    }

    /// Returns the slab of an object.
    ///
    /// # Safety
    /// The object is one of a slab, and the caller is the thread of the owning heap, or no thread has that
    /// heap.
    #[inline(always)]
    pub(crate) unsafe fn of(object: *mut u8) -> Slab {
        Slab(unit_of(object).cast())
    }

    /// Returns the unit of this slab.
    pub(crate) fn unit(self) -> NonNull<u8> {
        self.0.cast()
    }

    #[inline(always)]
    fn ptr(self) -> *mut SlabHeader {
        self.0.as_ptr()
    }

    #[inline(always)]
    fn header(&self) -> &Header {
        // SAFETY: the header of a slab. Other threads only read it.
        unsafe { &(*self.ptr()).header }
    }

    fn shape(self) -> SlabShape {
        // SAFETY: exclusive to this thread (see `make`); it does not change.
        unsafe { (*self.ptr()).shape }
    }

    fn capacity(self) -> usize {
        self.shape().capacity as usize
    }

    /// Returns the class of the objects.
    pub(crate) fn class(self) -> usize {
        self.header().class
    }

    /// Returns the bytes of an object.
    #[inline(always)]
    pub(crate) fn size(self) -> usize {
        self.header().size
    }

    /// Returns the number of free objects.
    pub(crate) fn free(self) -> usize {
        // SAFETY: exclusive to this thread.
        unsafe { (*self.ptr()).free as usize }
    }

    pub(crate) fn links(self) -> Links {
        // SAFETY: exclusive to this thread.
        unsafe { (*self.ptr()).links }
    }

    pub(crate) fn set_links(self, links: Links) {
        // SAFETY: exclusive to this thread.
        unsafe { (*self.ptr()).links = links };
    }

    fn word_ptr(self, word: usize) -> *mut u64 {
        debug_assert_state!(word < self.capacity().div_ceil(bitmap::WORD), "a word lies in the bitmap");
        // SAFETY: the bitmap lies after the header, in the same unit.
        unsafe { self.unit().as_ptr().add(HEADER_BYTES).cast::<u64>().add(word) }
    }

    fn word(self, word: usize) -> u64 {
        // SAFETY: exclusive to this thread.
        unsafe { self.word_ptr(word).read() }
    }

    fn set_word(self, word: usize, bits: u64) {
        // SAFETY: exclusive to this thread.
        unsafe { self.word_ptr(word).write(bits) }
    }

    /// Adjusts the number of free objects, and the number below which none is free.
    fn set_counts(self, free: usize, low: usize) {
        debug_assert_state!(free <= self.capacity(), "no more objects are free than there are");
        // SAFETY: exclusive to this thread.
        unsafe {
            (*self.ptr()).free = free as u32;
            (*self.ptr()).low = low as u32;
        }
    }

    fn low(self) -> usize {
        // SAFETY: exclusive to this thread.
        unsafe { (*self.ptr()).low as usize }
    }

    /// In debug builds, compares the counts with the bitmap.
    fn check(self) {
        let free = || -> usize {
            let words = 0..self.capacity().div_ceil(bitmap::WORD);
            words.map(|word| self.word(word).count_ones() as usize).sum()
        };
        debug_assert_state!(free() == self.free(), "objects in use and free ones are all objects");
        debug_assert_state!(
            bitmap::next(&|word| self.word(word), 0, self.low(), true) == self.low(),
            "no object below the lowest free one is free"
        );
    }

    /// Returns true if the slab has become mostly free since the last call.
    pub(crate) fn becomes_sparse(self) -> bool {
        let is_sparse = 2 * self.free() > self.capacity();
        // SAFETY: exclusive to this thread.
        let was_sparse = unsafe { std::mem::replace(&mut (*self.ptr()).is_sparse, is_sparse) };
        is_sparse && !was_sparse
    }

    /// Returns true if all objects are free.
    pub(crate) fn is_empty(self) -> bool {
        self.free() == self.capacity()
    }

    /// Returns the object with a number.
    #[inline(always)]
    pub(crate) fn object(self, index: usize) -> *mut u8 {
        let offset = self.shape().first as usize + index * self.size();
        // (The object after the last one may begin at the end of the unit.)
        self.unit().as_ptr().wrapping_add(offset)
    }

    /// Returns the number of an object. A pointer into an object gives the same number.
    #[inline(always)]
    fn index(self, object: *mut u8) -> usize {
        let shape = self.shape();
        let offset = (object.addr() - self.0.addr().get()).wrapping_sub(shape.first as usize);
        ((offset as u64).wrapping_mul(shape.reciprocal) >> SHIFT) as usize
    }

    /// Returns the number of the object at exactly this address.
    pub(crate) fn exact(self, object: *mut u8) -> Option<usize> {
        let offset = object.addr().checked_sub(self.0.addr().get() + self.shape().first as usize)?;
        let index = self.index(object);
        (index < self.capacity() && index * self.size() == offset).then_some(index)
    }

    fn is_free(self, index: usize) -> bool {
        self.word(index / bitmap::WORD) >> (index % bitmap::WORD) & 1 != 0
    }

    /// Calls `work` with every object.
    pub(crate) fn each(self, work: impl FnMut(*mut u8)) {
        (0..self.capacity()).map(|index| self.object(index)).for_each(work);
    }

    /// Takes the first free objects that are consecutive, `most` at most; returns the number of the first and
    /// of the one after the last.
    pub(crate) fn take_run(self, most: usize) -> Option<(usize, usize)> {
        let (first, end) = bitmap::run(&|word| self.word(word), self.low(), self.capacity())?;
        let end = end.min(first.saturating_add(most));
        for (word, mask) in bitmap::masks(first, end) {
            self.set_word(word, self.word(word) & !mask);
        }
        self.set_counts(self.free() - (end - first), end);
        self.check();
        Some((first, end))
    }

    /// Takes an object back; returns false if it was free.
    #[inline(always)]
    pub(crate) fn put(self, object: *mut u8) -> bool {
        let index = self.index(object);
        let (word, bit) = (index / bitmap::WORD, 1 << (index % bitmap::WORD));
        let bits = self.word(word);
        self.set_word(word, bits | bit);
        let was_in_use = bits & bit == 0;
        self.set_counts(self.free() + usize::from(was_in_use), self.low().min(index));
        was_in_use
    }

    /// Takes consecutive objects back, none of which is free.
    pub(crate) fn put_run(self, first: *mut u8, count: usize) {
        let index = self.index(first);
        for (word, mask) in bitmap::masks(index, index + count) {
            debug_assert_state!(self.word(word) & mask == 0, "no object of a range is free in its slab");
            self.set_word(word, self.word(word) | mask);
        }
        self.set_counts(self.free() + count, self.low().min(index));
        self.check();
    }

    /// Fails unless this is the address of an object that is not free in its slab: one in use, in a layer, or
    /// on its way there.
    ///
    /// # Safety
    /// A unit in use begins where that of the address would.
    #[inline]
    pub(crate) unsafe fn assert_allocated(object: *mut u8, owner: *const Inbox) {
        // SAFETY: the caller's promise; the rest of a slab is read only if it is the owner's, which is the
        // caller.
        let slab = unsafe { Self::of(object) };
        if !slab.header().is_sound() || slab.header().owner() != owner {
            misuse::not_an_object(object);
        }
        match slab.exact(object) {
            None => misuse::not_an_object(object),
            Some(index) if slab.is_free(index) => misuse::freed_twice(object),
            Some(_) => {}
        }
    }

    /// Gives the memory of free pages back to the kernel if the slab rests: most of it is free, and nothing
    /// came or went since the last call.
    pub(crate) fn rest(self) {
        // SAFETY: exclusive to this thread.
        let (free_before, is_released) = unsafe { ((*self.ptr()).free_before, (*self.ptr()).is_released) };
        let rests = self.free() == free_before as usize && 2 * self.free() > self.capacity();
        if rests && !is_released {
            self.release_pages();
        }
        // SAFETY: as above.
        unsafe {
            (*self.ptr()).is_released = rests;
            (*self.ptr()).free_before = self.free() as u32;
        }
    }

    /// Gives the memory of pages on which only free objects lie back to the kernel.
    pub(crate) fn release_pages(self) {
        let mut from = 0;
        let word = |word: usize| self.word(word);
        while let Some((first, end)) = bitmap::run(&word, from, self.capacity()) {
            from = end;
            let start = self.object(first).map_addr(|address| address.next_multiple_of(os::PAGE_BYTES));
            let stop = self.object(end).addr() & !(os::PAGE_BYTES - 1);
            if start.addr() < stop {
                // SAFETY: whole pages of this slab without an object in use.
                unsafe { os::release(start, stop - start.addr()) };
            }
        }
        self.check();
    }
}

/// First class that tests use. Under Miri, which is slow, slabs have a few hundred objects at most.
#[cfg(test)]
const SMALLEST_CLASS: usize = if cfg!(miri) { 50 } else { 0 };

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::unit::UNIT;

    #[test]
    fn objects_of_every_class_lie_in_their_unit_and_are_found_again() {
        for (class, size) in SIZES.into_iter().enumerate().skip(SMALLEST_CLASS) {
            let unit = os::map(UNIT, UNIT).expect("memory");
            // SAFETY: the unit is the test's.
            let slab = unsafe { Slab::make(unit, std::ptr::null(), std::ptr::null_mut(), class) };
            let size = size as usize;
            let align = (size & size.wrapping_neg()).min(os::PAGE_BYTES);
            assert!(slab.capacity() * size >= UNIT * 7 / 8 - os::PAGE_BYTES, "class {class} wastes a unit");
            let all = slab.capacity();
            assert_eq!(slab.take_run(usize::MAX), Some((0, all)));
            for index in 0..all {
                let object = slab.object(index);
                assert!(object.addr().is_multiple_of(align));
                assert!(object.addr() + size <= unit.addr().get() + UNIT);
                assert_eq!(slab.exact(object), Some(index));
                assert_eq!(slab.index(object.wrapping_add(size - 1)), index);
                assert_eq!(slab.exact(object.wrapping_add(1)), None);
                assert_eq!(unit_of(object).addr(), unit.addr());
                assert!(slab.put(object) && !slab.put(object));
            }
            assert!(slab.is_empty() && slab.header().is_sound());
            assert_eq!(slab.exact(unit.as_ptr()), None);
            assert_eq!(slab.exact(unit.as_ptr().wrapping_add(UNIT)), None);
            // SAFETY: nobody uses it any more.
            unsafe { os::unmap(unit, UNIT, UNIT) };
        }
    }
}

#[cfg(test)]
mod properties {
    use super::*;
    use crate::memory::unit::UNIT;
    use crate::slabs::class::CLASSES;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(if cfg!(miri) { 2 } else { 256 }))]
        #[test]
        fn a_slab_is_a_set_of_objects(
            class in SMALLEST_CLASS..CLASSES,
            steps in proptest::collection::vec((0u8..4, any::<proptest::sample::Index>(), 1usize..200), 1..120),
        ) {
            let unit = os::map(UNIT, UNIT).expect("memory");
            // SAFETY: the unit is the test's.
            let slab = unsafe { Slab::make(unit, std::ptr::null(), std::ptr::null_mut(), class) };
            let capacity = slab.capacity();
            let mut taken: BTreeSet<usize> = BTreeSet::new();
            for (what, which, most) in steps {
                let any_taken = (!taken.is_empty()).then(|| *which.get(&taken.iter().copied().collect::<Vec<_>>()));
                match (what, any_taken) {
                    (0 | 1, _) => match slab.take_run(most) {
                        Some((first, end)) => {
                            prop_assert!(first < end && end - first <= most && end <= capacity);
                            // The first free one, and as many as follow it.
                            prop_assert_eq!(Some(first), (0..capacity).find(|index| !taken.contains(index)));
                            prop_assert!((first..end).all(|index| taken.insert(index)));
                            prop_assert!(end - first == most || end == capacity || taken.contains(&end));
                        }
                        None => prop_assert_eq!(taken.len(), capacity),
                    },
                    (2, Some(index)) => {
                        taken.remove(&index);
                        prop_assert!(slab.put(slab.object(index)));
                        prop_assert!(!slab.put(slab.object(index)), "it is free already");
                    }
                    (3, Some(first)) => {
                        let count = (first..first + most).take_while(|index| taken.remove(index)).count();
                        slab.put_run(slab.object(first), count);
                    }
                    _ => {}
                }
                prop_assert_eq!(slab.free(), capacity - taken.len());
                prop_assert_eq!(slab.is_empty(), taken.is_empty());
            }
            // SAFETY: nobody uses it any more.
            unsafe { os::unmap(unit, UNIT, UNIT) };
        }
    }
}
