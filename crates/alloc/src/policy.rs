//! The policy, whatever is allocated: a *magazine* of items that came back, a *bump* range of items that nobody had yet, and
//! a carve of many at once from what stands behind both.
//!
//! An item is a number: an address of the heap, a block of a volume. Both layers belong to one thread. Items are taken from the
//! magazine first, which are warm, then from the range; when both are empty, one [`Source::carve`] fills either, whatever
//! lies there: a run of free items becomes the range, as long as it is, without a step for each; single ones go into the
//! magazine. What comes back goes into the magazine, and when that is full, its older half goes back in one call.
//!
//! After Bonwick and Adams, "Magazines and Vmem" (USENIX 2001), with the range as a second layer. An earlier allocator of three
//! layers, which called the slab once for each item of a refill and whose bump layer never had anything, was slower than
//! what it replaced; here a refill is one call, and a range is what a refill gives wherever there is one.

use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;

/// Items one behind the other, `step` apart, that nobody had since they were carved.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Bump {
    /// The next one.
    pub next: usize,
    /// Behind the last one.
    pub end: usize,
}

impl Bump {
    /// True without any.
    #[inline(always)]
    pub fn is_empty(&self) -> bool {
        self.next >= self.end
    }

    /// The next item.
    #[inline(always)]
    pub fn take(&mut self, step: usize) -> Option<usize> {
        let item = self.next;
        if item >= self.end {
            return None;
        }
        self.next = item + step;
        Some(item)
    }

    /// Up to `most` items that follow each other: the first, and how many.
    pub fn take_run(&mut self, step: usize, most: usize) -> Option<(usize, usize)> {
        let count = ((self.end - self.next) / step).min(most);
        let first = self.next;
        self.next += count * step;
        (count > 0).then_some((first, count))
    }
}

/// Items that came back, the last one on top, in memory that somebody else owns.
#[derive(Debug)]
pub struct Magazine {
    top: *mut usize,
    base: *mut usize,
    limit: *mut usize,
}

// SAFETY: a magazine is the only one that uses its memory (`over`).
unsafe impl Send for Magazine {}

impl Magazine {
    /// A magazine that takes nothing and has nothing.
    pub const fn none() -> Self {
        let nowhere = NonNull::dangling().as_ptr();
        Magazine { top: nowhere, base: nowhere, limit: nowhere }
    }

    /// An empty magazine.
    ///
    /// # Safety
    /// `room` is good for `capacity` items, and nobody else's, as long as the magazine is used.
    pub const unsafe fn over(room: NonNull<usize>, capacity: usize) -> Self {
        let base = room.as_ptr();
        // SAFETY: the end of the caller's memory.
        Magazine { top: base, base, limit: unsafe { base.add(capacity) } }
    }

    /// Items in it.
    #[inline(always)]
    pub fn len(&self) -> usize {
        // SAFETY: both point into the same memory, top at base or behind.
        unsafe { self.top.offset_from_unsigned(self.base) }
    }

    /// True without any.
    #[inline(always)]
    pub fn is_empty(&self) -> bool {
        self.top == self.base
    }

    /// Items that it can have.
    pub fn capacity(&self) -> usize {
        // SAFETY: as above.
        unsafe { self.limit.offset_from_unsigned(self.base) }
    }

    /// The last one that came.
    #[inline(always)]
    pub fn take(&mut self) -> Option<usize> {
        if self.top == self.base {
            return None;
        }
        // SAFETY: there is one below the top.
        unsafe {
            self.top = self.top.sub(1);
            Some(*self.top)
        }
    }

    /// Puts an item on top; false where there is no room.
    #[inline(always)]
    pub fn put(&mut self, item: usize) -> bool {
        if self.top == self.limit {
            return false;
        }
        // SAFETY: there is room at the top.
        unsafe {
            *self.top = item;
            self.top = self.top.add(1);
        }
        true
    }

    /// All items, the oldest first.
    pub fn items(&self) -> &[usize] {
        // SAFETY: those up to the top were written.
        unsafe { std::slice::from_raw_parts(self.base, self.len()) }
    }

    /// Forgets the `count` oldest items.
    pub fn forget_oldest(&mut self, count: usize) {
        let count = count.min(self.len());
        // SAFETY: moves what is behind them to the front.
        unsafe {
            std::ptr::copy(self.base.add(count), self.base, self.len() - count);
            self.top = self.top.sub(count);
        }
    }

    /// Forgets all that came after the first `len`, or has the items back that were taken since there were `len`, if none came
    /// since.
    pub fn set_len(&mut self, len: usize) {
        debug_assert!(len <= self.capacity());
        // SAFETY: inside the memory; what lies there was an item once.
        self.top = unsafe { self.base.add(len.min(self.capacity())) };
    }
}

/// A magazine with memory of its own, for whoever may allocate some.
#[derive(Debug)]
pub struct OwnMagazine {
    magazine: Magazine,
    room: NonNull<[usize]>,
}

// SAFETY: the memory is the magazine's, and goes where it goes.
unsafe impl Send for OwnMagazine {}

impl OwnMagazine {
    /// An empty magazine.
    pub fn new(capacity: usize) -> Self {
        let room = NonNull::from(Box::leak(vec![0; capacity].into_boxed_slice()));
        // SAFETY: the memory was just allocated for it, and is freed with it.
        OwnMagazine { magazine: unsafe { Magazine::over(room.cast(), capacity) }, room }
    }
}

impl Drop for OwnMagazine {
    fn drop(&mut self) {
        // SAFETY: from a box, and nobody uses it any more.
        drop(unsafe { Box::from_raw(self.room.as_ptr()) });
    }
}

impl Deref for OwnMagazine {
    type Target = Magazine;

    fn deref(&self) -> &Magazine {
        &self.magazine
    }
}

impl DerefMut for OwnMagazine {
    fn deref_mut(&mut self) -> &mut Magazine {
        &mut self.magazine
    }
}

/// Both layers.
#[derive(Debug)]
pub struct Layers {
    /// What came back.
    pub magazine: Magazine,
    /// What nobody had.
    pub bump: Bump,
}

/// What stands behind the layers: a slab of the heap, a bitmap of a volume.
pub trait Source {
    /// Why there are no more.
    type Error;

    /// Distance of two items.
    fn step(&self) -> usize;

    /// Puts items into empty layers, in one pass: a long run into the range, others into the magazine; at least one.
    ///
    /// # Errors
    /// There are no more.
    fn carve(&mut self, layers: &mut Layers) -> Result<(), Self::Error>;

    /// Takes items back, in one pass.
    ///
    /// # Errors
    /// One of them cannot be.
    fn give_back(&mut self, items: &[usize]) -> Result<(), Self::Error>;
}

impl Layers {
    /// Without any item, and without room for one.
    pub const fn none() -> Self {
        Layers { magazine: Magazine::none(), bump: Bump { next: 0, end: 0 } }
    }

    /// An item.
    ///
    /// # Errors
    /// As [`Source::carve`].
    #[inline(always)]
    pub fn take<S: Source>(&mut self, source: &mut S) -> Result<usize, S::Error> {
        loop {
            if let Some(item) = self.magazine.take().or_else(|| self.bump.take(source.step())) {
                return Ok(item);
            }
            source.carve(self)?;
        }
    }

    /// Takes an item back.
    ///
    /// # Errors
    /// As [`Source::give_back`].
    #[inline(always)]
    pub fn put<S: Source>(&mut self, source: &mut S, item: usize) -> Result<(), S::Error> {
        if self.magazine.put(item) {
            return Ok(());
        }
        self.make_room(source)?;
        if self.magazine.put(item) { Ok(()) } else { source.give_back(&[item]) }
    }

    /// Gives the older half of a full magazine back.
    ///
    /// # Errors
    /// As [`Source::give_back`].
    #[cold]
    pub fn make_room<S: Source>(&mut self, source: &mut S) -> Result<(), S::Error> {
        let half = self.magazine.len().div_ceil(2);
        source.give_back(&self.magazine.items()[..half])?;
        self.magazine.forget_oldest(half);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bitmap;
    use std::collections::BTreeSet;

    /// Numbers from a bitmap, `STEP` apart.
    struct Numbers {
        free: Vec<u64>,
        carves: usize,
    }

    const STEP: usize = 3;

    impl Source for Numbers {
        type Error = &'static str;

        fn step(&self) -> usize {
            STEP
        }

        fn carve(&mut self, layers: &mut Layers) -> Result<(), Self::Error> {
            self.carves += 1;
            let bits = self.free.len() * 64;
            let (first, end) = bitmap::run(&|i| self.free[i], 0, bits).ok_or("empty")?;
            bitmap::clear(&mut self.free, first, end);
            layers.bump = Bump { next: first * STEP, end: end * STEP };
            Ok(())
        }

        fn give_back(&mut self, items: &[usize]) -> Result<(), Self::Error> {
            for item in items {
                let (word, bit) = (item / STEP / 64, 1 << (item / STEP % 64));
                if self.free[word] & bit != 0 {
                    return Err("twice");
                }
                self.free[word] |= bit;
            }
            Ok(())
        }
    }

    fn with_layers(capacity: usize, work: impl FnOnce(&mut Layers, &mut Numbers)) {
        let mut room = vec![0; capacity];
        // SAFETY: the memory is the test's own, and outlives the magazine.
        let magazine = unsafe { Magazine::over(NonNull::new(room.as_mut_ptr()).expect("memory"), capacity) };
        let mut layers = Layers { magazine, bump: Bump::default() };
        work(&mut layers, &mut Numbers { free: vec![u64::MAX; 4], carves: 0 });
    }

    #[test]
    fn one_carve_gives_a_whole_range() {
        with_layers(8, |layers, numbers| {
            let all: BTreeSet<usize> =
                (0..256).map(|_| layers.take(numbers).expect("there are more")).collect();
            assert_eq!(all, (0..256).map(|i| i * STEP).collect());
            assert_eq!(numbers.carves, 1);
            assert_eq!(layers.take(numbers), Err("empty"));
        });
    }

    #[test]
    fn what_came_back_last_goes_first_and_older_half_goes_home() {
        with_layers(8, |layers, numbers| {
            let items: Vec<usize> = (0..9).map(|_| layers.take(numbers).expect("there are more")).collect();
            for item in &items {
                layers.put(numbers, *item).expect("taken back");
            }
            assert_eq!(layers.magazine.items(), [&items[4..8], &items[8..]].concat());
            assert_eq!(numbers.free[0].count_ones(), 4);
            assert_eq!(layers.take(numbers), Ok(items[8]));
        });
    }

    #[test]
    fn a_magazine_can_go_back_to_what_it_was() {
        with_layers(8, |layers, numbers| {
            for item in [30, 33, 36] {
                layers.put(numbers, item).expect("taken back");
            }
            let (len, bump) = (layers.magazine.len(), layers.bump);
            assert_eq!((layers.take(numbers), layers.take(numbers)), (Ok(36), Ok(33)));
            layers.magazine.set_len(len);
            layers.bump = bump;
            assert_eq!(layers.magazine.items(), [30, 33, 36]);
        });
    }

    #[test]
    fn a_magazine_without_room_passes_everything_on() {
        let mut numbers = Numbers { free: vec![0; 1], carves: 0 };
        let mut layers = Layers::none();
        layers.put(&mut numbers, STEP).expect("taken back");
        assert_eq!(numbers.free[0], 2);
        assert_eq!(layers.put(&mut numbers, STEP), Err("twice"));
        assert_eq!(layers.take(&mut numbers), Ok(STEP));
    }

    #[test]
    fn a_magazine_with_memory_of_its_own_moves_and_goes() {
        let mut own = OwnMagazine::new(2);
        assert!(own.put(7) && own.put(8) && !own.put(9));
        let mut moved = Box::new(own);
        assert_eq!((moved.take(), moved.take(), moved.take()), (Some(8), Some(7), None));
    }

    #[test]
    fn a_run_is_no_longer_than_what_is_there() {
        let mut bump = Bump { next: 10, end: 22 };
        assert!(!bump.is_empty());
        assert_eq!(bump.take_run(STEP, 3), Some((10, 3)));
        assert_eq!(bump.take_run(STEP, 3), Some((19, 1)));
        assert!(bump.take_run(STEP, 3).is_none() && bump.is_empty());
    }
}
