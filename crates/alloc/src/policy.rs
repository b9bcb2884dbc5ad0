//! The allocation policy, for any kind of item: a *magazine* of items that came back, a *bump* range of fresh
//! items, and a [`Source`] from which one call refills both.
//!
//! An item is an address of the heap or the number of a volume's block. Both layers belong to one thread. An
//! item comes from the magazine first, because it is warm in the cache, then from the range. When both are
//! empty, one [`Source::carve`] refills them: a long run of free items becomes the range, without a step for
//! each item, and short runs go into the magazine. A freed item goes into the magazine. When the magazine is
//! full, its older half goes back in one call.
//!
//! After Bonwick and Adams, "Magazines and Vmem" (USENIX 2001), with the range as a second layer. An earlier
//! allocator with three layers called the slab once for each item of a refill, and its bump layer was always
//! empty: it was slower than the allocator that it replaced. Here a refill is one call, and it fills the
//! range wherever there is a run.

use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;

/// An allocated thing: a number, or a pointer to memory.
pub trait Item: Copy + Ord {
    /// The item that nothing is before.
    const LOWEST: Self;

    /// The item `distance` after this one.
    #[must_use]
    fn advanced_by(self, distance: usize) -> Self;

    /// The distance from an earlier item to this one.
    fn distance_from(self, earlier: Self) -> usize;
}

impl Item for usize {
    const LOWEST: usize = 0;

    #[inline(always)]
    fn advanced_by(self, distance: usize) -> usize {
        self + distance
    }

    #[inline(always)]
    fn distance_from(self, earlier: usize) -> usize {
        self - earlier
    }
}

impl Item for *mut u8 {
    const LOWEST: *mut u8 = std::ptr::null_mut();

    #[inline(always)]
    fn advanced_by(self, distance: usize) -> *mut u8 {
        self.wrapping_add(distance)
    }

    #[inline(always)]
    fn distance_from(self, earlier: *mut u8) -> usize {
        self.addr() - earlier.addr()
    }
}

/// Consecutive items, `step` apart, that were not in use since they were carved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bump<T = usize> {
    /// The next item.
    pub next: T,
    /// The end of the range, after the last item.
    pub end: T,
}

impl<T: Item> Default for Bump<T> {
    fn default() -> Self {
        Self::EMPTY
    }
}

impl<T: Item> Bump<T> {
    /// A range without items.
    pub const EMPTY: Self = Bump { next: T::LOWEST, end: T::LOWEST };

    /// Returns true if no item is left.
    #[inline(always)]
    pub fn is_empty(&self) -> bool {
        self.next >= self.end
    }

    /// Returns the number of items that are left.
    pub fn len(&self, step: usize) -> usize {
        if self.is_empty() { 0 } else { self.end.distance_from(self.next) / step }
    }

    /// Takes the next item.
    #[inline(always)]
    pub fn take(&mut self, step: usize) -> Option<T> {
        let item = self.next;
        if item >= self.end {
            return None;
        }
        self.next = item.advanced_by(step);
        Some(item)
    }

    /// Takes up to `most` consecutive items, and returns the first one and their number.
    pub fn take_run(&mut self, step: usize, most: usize) -> Option<(T, usize)> {
        let count = self.len(step).min(most);
        let first = self.next;
        self.next = first.advanced_by(count * step);
        (count > 0).then_some((first, count))
    }
}

/// A stack of items that came back, in memory that its creator owns.
#[derive(Debug)]
pub struct Magazine<T = usize> {
    top: *mut T,
    base: *mut T,
    limit: *mut T,
}

// SAFETY: a magazine has exclusive use of its memory (`over`).
unsafe impl<T: Send> Send for Magazine<T> {}

impl<T: Item> Magazine<T> {
    /// Creates a magazine without capacity.
    pub const fn none() -> Self {
        let nowhere = NonNull::dangling().as_ptr();
        Magazine { top: nowhere, base: nowhere, limit: nowhere }
    }

    /// Creates an empty magazine.
    ///
    /// # Safety
    /// `room` is valid for `capacity` items, and nothing else uses it, as long as the magazine is used.
    pub const unsafe fn over(room: NonNull<T>, capacity: usize) -> Self {
        let base = room.as_ptr();
        // SAFETY: the end of the caller's memory.
        Magazine { top: base, base, limit: unsafe { base.add(capacity) } }
    }

    /// Returns the number of items.
    #[inline(always)]
    pub fn len(&self) -> usize {
        // SAFETY: both point into the same memory, and the top is never below the base.
        unsafe { self.top.offset_from_unsigned(self.base) }
    }

    /// Returns true if the magazine has no item.
    #[inline(always)]
    pub fn is_empty(&self) -> bool {
        self.top == self.base
    }

    /// Returns the number of items for which there is room.
    pub fn capacity(&self) -> usize {
        // SAFETY: both point into the same memory, and the limit is never below the base.
        unsafe { self.limit.offset_from_unsigned(self.base) }
    }

    /// Takes the item that came last.
    #[inline(always)]
    pub fn take(&mut self) -> Option<T> {
        // SAFETY: the reference is exclusive.
        unsafe { Self::take_from(self) }
    }

    /// Takes the item that came last, without a reference to the magazine. An empty magazine is only read, so
    /// many threads may call this for the same empty one.
    ///
    /// # Safety
    /// No other thread uses the magazine, or it is empty and stays empty.
    #[inline(always)]
    pub unsafe fn take_from(magazine: *mut Self) -> Option<T> {
        // SAFETY: the caller's promise; an item lies below the top, unless that is the base.
        unsafe {
            let top = (*magazine).top;
            if top == (*magazine).base {
                return None;
            }
            let top = top.sub(1);
            (*magazine).top = top;
            Some(*top)
        }
    }

    /// Puts an item on top; returns false if the magazine is full.
    #[inline(always)]
    pub fn put(&mut self, item: T) -> bool {
        // SAFETY: the reference is exclusive.
        unsafe { Self::put_into(self, item) }
    }

    /// Puts an item on top, without a reference to the magazine; returns false if the magazine is full.
    ///
    /// # Safety
    /// No other thread uses the magazine.
    #[inline(always)]
    pub unsafe fn put_into(magazine: *mut Self, item: T) -> bool {
        // SAFETY: the caller's promise; there is room at the top, unless that is the limit.
        unsafe {
            let top = (*magazine).top;
            if top == (*magazine).limit {
                return false;
            }
            *top = item;
            // (Read again, which is an addition in memory: one instruction less.)
            (*magazine).top = (*magazine).top.add(1);
        }
        true
    }

    /// Returns all items, the oldest first.
    pub fn items(&self) -> &[T] {
        // SAFETY: all items up to the top were written.
        unsafe { std::slice::from_raw_parts(self.base, self.len()) }
    }

    /// Removes the `count` oldest items.
    pub fn forget_oldest(&mut self, count: usize) {
        debug_assert!(count <= self.len(), "{count} of {} items", self.len());
        let count = count.min(self.len());
        // SAFETY: both ranges lie below the top.
        unsafe {
            std::ptr::copy(self.base.add(count), self.base, self.len() - count);
            self.top = self.top.sub(count);
        }
    }

    /// Sets the number of items: drops those above it, or restores those that were taken, if none came since.
    pub fn set_len(&mut self, len: usize) {
        debug_assert!(len <= self.capacity(), "{len} of {} items", self.capacity());
        // SAFETY: inside the memory; each slot below the top was an item before.
        self.top = unsafe { self.base.add(len.min(self.capacity())) };
    }
}

/// A magazine that owns its memory.
#[derive(Debug)]
pub struct OwnMagazine {
    magazine: Magazine,
    room: NonNull<[usize]>,
}

// SAFETY: the memory belongs to the magazine, and moves with it.
unsafe impl Send for OwnMagazine {}

impl OwnMagazine {
    /// Creates an empty magazine.
    pub fn new(capacity: usize) -> Self {
        let room = NonNull::from(Box::leak(vec![0; capacity].into_boxed_slice()));
        // SAFETY: the memory was allocated for this magazine, and is freed with it.
        OwnMagazine { magazine: unsafe { Magazine::over(room.cast(), capacity) }, room }
    }
}

impl Drop for OwnMagazine {
    fn drop(&mut self) {
        // SAFETY: the memory came from a box, and nothing uses it any more.
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

/// Both layers of a thread.
#[derive(Debug)]
#[repr(C)]
pub struct Layers<T = usize> {
    /// Items that came back.
    pub magazine: Magazine<T>,
    /// Fresh items.
    pub bump: Bump<T>,
}

/// The supply below the layers: slabs of the heap, or a bitmap.
pub trait Source<T: Item = usize> {
    /// Reason why no item can be carved or taken back.
    type Error;

    /// Returns the distance of two consecutive items.
    fn step(&self) -> usize;

    /// Refills empty layers in one pass, with one item at least: a long run becomes the range, other items go
    /// into the magazine.
    ///
    /// # Errors
    /// Fails when there are no more items.
    fn carve(&mut self, layers: &mut Layers<T>) -> Result<(), Self::Error>;

    /// Takes items back, in one pass.
    ///
    /// # Errors
    /// Fails when an item is not one that was carved.
    fn give_back(&mut self, items: &[T]) -> Result<(), Self::Error>;
}

impl<T: Item> Layers<T> {
    /// Creates layers without items and without capacity.
    pub const fn none() -> Self {
        Layers { magazine: Magazine::none(), bump: Bump::EMPTY }
    }

    /// Takes an item from either layer, without a reference to them. Empty layers are only read, so many
    /// threads may call this for the same empty ones.
    ///
    /// # Safety
    /// No other thread uses the layers, or they are empty and stay empty.
    #[inline(always)]
    pub unsafe fn take_from(layers: *mut Self, step: usize) -> Option<T> {
        // SAFETY: the caller's promise.
        unsafe {
            if let Some(item) = Magazine::take_from(&raw mut (*layers).magazine) {
                return Some(item);
            }
            let next = (*layers).bump.next;
            if next >= (*layers).bump.end {
                return None;
            }
            (*layers).bump.next = next.advanced_by(step);
            Some(next)
        }
    }

    /// Returns true if neither layer has an item.
    pub fn is_empty(&self) -> bool {
        self.magazine.is_empty() && self.bump.is_empty()
    }

    /// Takes an item, and refills the layers first if they are empty.
    ///
    /// # Errors
    /// As [`Source::carve`].
    #[inline(always)]
    pub fn take<S: Source<T>>(&mut self, source: &mut S) -> Result<T, S::Error> {
        loop {
            if let Some(item) = self.magazine.take().or_else(|| self.bump.take(source.step())) {
                return Ok(item);
            }
            source.carve(self)?;
            debug_assert!(!self.is_empty(), "a carve gives an item at least");
        }
    }

    /// Takes an item back.
    ///
    /// # Errors
    /// As [`Source::give_back`].
    #[inline(always)]
    pub fn put<S: Source<T>>(&mut self, source: &mut S, item: T) -> Result<(), S::Error> {
        if self.magazine.put(item) {
            return Ok(());
        }
        self.make_room(source)?;
        if self.magazine.put(item) { Ok(()) } else { source.give_back(&[item]) }
    }

    /// Gives the older half of a full magazine back to the source.
    ///
    /// # Errors
    /// As [`Source::give_back`].
    #[cold]
    pub fn make_room<S: Source<T>>(&mut self, source: &mut S) -> Result<(), S::Error> {
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
