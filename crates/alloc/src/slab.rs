//! Slabs: a unit cut into objects of one class, a bitmap of the free ones, a header.
//!
//! The bitmap belongs to the heap that owns the slab. Other threads read the owner, and nothing else.

use crate::bitmap;
use crate::class::{CLASSES, SIZES};
use crate::guard;
use crate::heap::Heap;
use crate::os;
use crate::pool::{HEADER, UNIT};
use crate::shelf::Bin;
use lanefs_sync::atomic::{AtomicPtr, Ordering};
use std::ptr::NonNull;

/// What a good header has at its place, mixed with its address.
const COOKIE: usize = 0x4c61_6e65_4653_a110;

/// Reciprocals have so many bits behind the point: enough for any offset in a unit (2^18) times any error (2^15).
const SHIFT: u32 = 40;

/// What a unit in use begins with.
#[repr(C)]
pub(crate) struct Header {
    /// The heap of a slab; null for a large object.
    owner: AtomicPtr<Heap>,
    /// The class in that heap, for which a free needs nothing else.
    pub(crate) bin: *mut Bin,
    cookie: usize,
    /// Bytes of an object. Of a large one, what its user may write.
    pub(crate) size: usize,
    /// Units from this one on, for a large object; else 0.
    pub(crate) units: usize,
    pub(crate) class: usize,
}

/// A slab's header.
#[repr(C)]
pub(crate) struct Slab {
    pub(crate) header: Header,
    reciprocal: u64,
    /// Where the first object is, and how many there are.
    first: u32,
    capacity: u32,
    /// Free ones.
    pub(crate) free: u32,
    /// No object below this one is free.
    low: u32,
    /// Neighbours in its heap's list of slabs that have free objects.
    pub(crate) next: *mut Slab,
    pub(crate) previous: *mut Slab,
    pub(crate) is_listed: bool,
    /// It was found to be mostly free.
    is_sparse: bool,
    /// Free ones when [`rest`](Slab::rest) was called last, and whether the memory of their pages has gone back since.
    free_before: u32,
    is_released: bool,
}

/// Where slabs of a class have their bitmap's end, first object and number of objects.
#[derive(Clone, Copy)]
struct Shape {
    first: u32,
    capacity: u32,
    reciprocal: u64,
}

const SHAPES: [Shape; CLASSES] = {
    let mut shapes = [Shape { first: 0, capacity: 0, reciprocal: 0 }; CLASSES];
    let mut class = 0;
    while class < CLASSES {
        let size = SIZES[class] as usize;
        // Objects are aligned to the largest power of two in their size, up to a page.
        let lowest = size & size.wrapping_neg();
        let align = if lowest > os::PAGE { os::PAGE } else { lowest };
        let most = UNIT / size;
        let bitmap = most.div_ceil(bitmap::WORD) * 8;
        let first = (HEADER + bitmap).next_multiple_of(align);
        shapes[class] = Shape {
            first: first as u32,
            capacity: ((UNIT - first) / size) as u32,
            reciprocal: (1 << SHIFT) / size as u64 + 1,
        };
        class += 1;
    }
    shapes
};

/// The header of the unit that holds an object. (An object never lies at its start, but one with an alignment of a unit lies
/// at the start of the next.)
#[inline(always)]
pub(crate) fn unit_of(object: usize) -> NonNull<Header> {
    let unit = (object - 1) & !(UNIT - 1);
    // SAFETY: objects lie above the first unit of the address space.
    unsafe { NonNull::new_unchecked(std::ptr::with_exposed_provenance_mut(unit)) }
}

impl Header {
    pub(crate) fn new(at: usize, owner: *mut Heap, class: usize, size: usize, units: usize) -> Self {
        Header {
            owner: AtomicPtr::new(owner),
            bin: std::ptr::null_mut(),
            cookie: COOKIE ^ at,
            size,
            units,
            class,
        }
    }

    /// The heap of a slab; null for a large object. It does not change as long as there are objects in the unit.
    #[inline(always)]
    pub(crate) fn owner(&self) -> *mut Heap {
        self.owner.load(Ordering::Relaxed)
    }

    /// False for bytes that no header is.
    pub(crate) fn is_sound(&self) -> bool {
        let at = std::ptr::from_ref(self) as usize;
        self.cookie == COOKIE ^ at && (self.units > 0 || self.class < CLASSES)
    }

    /// The unit is no longer in use.
    pub(crate) fn erase(&mut self) {
        self.cookie = 0;
        self.owner.store(std::ptr::null_mut(), Ordering::Relaxed);
    }
}

impl Slab {
    /// Makes a slab of a unit.
    ///
    /// # Safety
    /// The unit is the caller's.
    pub(crate) unsafe fn make(
        unit: NonNull<u8>,
        owner: *mut Heap,
        bin: *mut Bin,
        class: usize,
    ) -> NonNull<Slab> {
        const { assert!(size_of::<Slab>() <= HEADER) };
        let Shape { first, capacity, reciprocal } = SHAPES[class];
        let slab = unit.cast::<Slab>();
        let at = unit.as_ptr() as usize;
        // SAFETY: the caller's unit, which is larger than the header and the bitmap.
        unsafe {
            slab.write(Slab {
                header: Header { bin, ..Header::new(at, owner, class, SIZES[class] as usize, 0) },
                reciprocal,
                first,
                capacity,
                free: capacity,
                low: 0,
                next: std::ptr::null_mut(),
                previous: std::ptr::null_mut(),
                is_listed: false,
                is_sparse: false,
                free_before: 0,
                is_released: false,
            });
            let bits = Self::bits(slab.as_ptr());
            for word in 0..(capacity as usize).div_ceil(bitmap::WORD) {
                bits.add(word).write(0);
            }
            for (word, mask) in bitmap::masks(0, capacity as usize) {
                bits.add(word).write(mask);
            }
        }
        slab
    }

    fn bits(slab: *mut Slab) -> *mut u64 {
        // SAFETY: the bitmap lies behind the header, in the same unit.
        unsafe { slab.cast::<u8>().add(HEADER).cast() }
    }

    fn at(&self) -> usize {
        std::ptr::from_ref(self) as usize
    }

    fn word(&self, word: usize) -> u64 {
        // SAFETY: callers pass words of the bitmap.
        unsafe { Self::bits(std::ptr::from_ref(self).cast_mut()).add(word).read() }
    }

    fn set_word(&mut self, word: usize, bits: u64) {
        // SAFETY: as above.
        unsafe { Self::bits(self).add(word).write(bits) }
    }

    /// True where it has become mostly free since the last time.
    pub(crate) fn becomes_sparse(&mut self) -> bool {
        let was_sparse = std::mem::replace(&mut self.is_sparse, 2 * self.free > self.capacity);
        self.is_sparse && !was_sparse
    }

    /// True with all objects free.
    pub(crate) fn is_empty(&self) -> bool {
        self.free == self.capacity
    }

    /// The object with this number.
    #[inline(always)]
    pub(crate) fn object(&self, index: usize) -> usize {
        self.at() + self.first as usize + index * self.header.size
    }

    /// The number of an object. Pointers into the middle of one give its number too.
    #[inline(always)]
    fn index(&self, object: usize) -> usize {
        let offset = (object - self.at()).wrapping_sub(self.first as usize);
        ((offset as u64).wrapping_mul(self.reciprocal) >> SHIFT) as usize
    }

    /// The object that this is the address of, by number.
    pub(crate) fn exact(&self, object: usize) -> Option<usize> {
        let offset = object.checked_sub(self.at() + self.first as usize)?;
        let index = self.index(object);
        (index < self.capacity as usize && index * self.header.size == offset).then_some(index)
    }

    /// Does something with every object.
    pub(crate) fn each(&self, mut work: impl FnMut(usize)) {
        (0..self.capacity as usize).for_each(|index| work(self.object(index)));
    }

    /// Takes the next free run: its first object by number, and the one behind its last.
    pub(crate) fn take_run(&mut self, most: usize) -> Option<(usize, usize)> {
        let (first, end) = bitmap::run(&|word| self.word(word), self.low as usize, self.capacity as usize)?;
        let end = end.min(first.saturating_add(most));
        for (word, mask) in bitmap::masks(first, end) {
            self.set_word(word, self.word(word) & !mask);
        }
        self.free -= (end - first) as u32;
        self.low = end as u32;
        Some((first, end))
    }

    /// Takes an object back; false when it was free already.
    #[inline(always)]
    pub(crate) fn put(&mut self, object: usize) -> bool {
        let index = self.index(object);
        let (word, bit) = (index / bitmap::WORD, 1 << (index % bitmap::WORD));
        let bits = self.word(word);
        self.set_word(word, bits | bit);
        let was_taken = bits & bit == 0;
        self.free += u32::from(was_taken);
        self.low = self.low.min(index as u32);
        was_taken
    }

    /// Fails for what is no object of this slab, or one that is free here already. (What lies in a heap's layers, is on the way to them
    /// or in use, is out.) Only for the heap that owns it, or should.
    pub(crate) fn must_be_out(&self, object: usize, owner: *mut Heap) {
        let is_good = self.header.is_sound() && self.header.owner() == owner;
        let Some(index) = self.exact(object).filter(|_| is_good) else { guard::not_ours(object) };
        if self.word(index / bitmap::WORD) >> (index % bitmap::WORD) & 1 != 0 {
            guard::freed_twice(object);
        }
    }

    /// Takes a run back, of which none is free.
    pub(crate) fn put_run(&mut self, first: usize, count: usize) {
        let index = self.index(first);
        for (word, mask) in bitmap::masks(index, index + count) {
            self.set_word(word, self.word(word) | mask);
        }
        self.free += count as u32;
        self.low = self.low.min(index as u32);
    }

    /// To be called now and then: where most has been free since the last call, and nothing came or went, the memory of free pages goes
    /// back to the host.
    pub(crate) fn rest(&mut self) {
        let rests = self.free == self.free_before && 2 * self.free > self.capacity;
        if rests && !self.is_released {
            self.release_pages();
        }
        self.is_released = rests;
        self.free_before = self.free;
    }

    /// Gives the memory of pages that only free objects lie in back to the host.
    pub(crate) fn release_pages(&mut self) {
        let mut from = 0;
        let word = |word: usize| self.word(word);
        while let Some((first, end)) = bitmap::run(&word, from, self.capacity as usize) {
            from = end;
            let (start, stop) =
                (self.object(first).next_multiple_of(os::PAGE), self.object(end) & !(os::PAGE - 1));
            if start < stop {
                // SAFETY: whole pages of this slab without an object in use.
                unsafe { os::release(std::ptr::with_exposed_provenance_mut(start), stop - start) };
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objects_of_every_class_lie_in_their_unit_and_are_found_again() {
        for (class, size) in SIZES.into_iter().enumerate() {
            let unit = os::map(UNIT, UNIT).expect("memory");
            // SAFETY: the unit is the test's.
            let slab =
                unsafe { Slab::make(unit, std::ptr::null_mut(), std::ptr::null_mut(), class).as_mut() };
            let size = size as usize;
            let align = (size & size.wrapping_neg()).min(os::PAGE);
            assert!(slab.capacity as usize * size >= UNIT * 7 / 8 - os::PAGE, "class {class} wastes a unit");
            let all = slab.capacity as usize;
            assert_eq!(slab.take_run(usize::MAX), Some((0, all)));
            for index in 0..all {
                let object = slab.object(index);
                assert!(object.is_multiple_of(align));
                assert!(object + size <= unit.as_ptr() as usize + UNIT);
                assert_eq!(slab.exact(object), Some(index));
                assert_eq!(slab.index(object + size - 1), index);
                assert_eq!(slab.exact(object + 1), None);
                assert_eq!(unit_of(object).as_ptr() as usize, unit.as_ptr() as usize);
                assert!(slab.put(object) && !slab.put(object));
            }
            assert!(slab.is_empty() && slab.header.is_sound());
            assert_eq!(slab.exact(unit.as_ptr() as usize), None);
            assert_eq!(slab.exact(unit.as_ptr() as usize + UNIT), None);
            // SAFETY: nobody uses it any more.
            unsafe { os::unmap(unit, UNIT) };
        }
    }
}

#[cfg(test)]
mod properties {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    proptest! {
        #[test]
        fn a_slab_is_a_set_of_objects(
            class in 0..CLASSES,
            steps in proptest::collection::vec((0u8..4, any::<proptest::sample::Index>(), 1usize..200), 1..120),
        ) {
            let unit = os::map(UNIT, UNIT).expect("memory");
            // SAFETY: the unit is the test's.
            let slab =
                unsafe { Slab::make(unit, std::ptr::null_mut(), std::ptr::null_mut(), class).as_mut() };
            let capacity = slab.capacity as usize;
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
                prop_assert_eq!(slab.free as usize, capacity - taken.len());
                prop_assert_eq!(slab.is_empty(), taken.is_empty());
            }
            // SAFETY: nobody uses it any more.
            unsafe { os::unmap(unit, UNIT) };
        }
    }
}
