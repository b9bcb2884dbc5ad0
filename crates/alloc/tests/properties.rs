//! Random operations on the parts that are for any kind of item, compared with simple models.

use lanefs_alloc::bitmap;
use lanefs_alloc::policy::{Bump, Layers, Magazine, Source};
use proptest::prelude::*;
use std::collections::BTreeSet;
use std::ptr::NonNull;

/// Items of a bitmap, `step` apart.
struct Items {
    free: Vec<u64>,
    step: usize,
    /// Most items that a carve gives. It puts a run that is shorter than `long` into the magazine.
    most: usize,
    long: usize,
}

impl Items {
    fn count(&self) -> usize {
        self.free.iter().map(|word| word.count_ones() as usize).sum()
    }
}

impl Source for Items {
    type Error = ();

    fn step(&self) -> usize {
        self.step
    }

    fn carve(&mut self, layers: &mut Layers) -> Result<(), ()> {
        assert!(layers.magazine.is_empty() && layers.bump.next >= layers.bump.end, "a layer had items left");
        let bits = self.free.len() * bitmap::WORD;
        let (first, end) = bitmap::run(&|word| self.free[word], 0, bits).ok_or(())?;
        let end = end.min(first + self.most);
        bitmap::clear(&mut self.free, first, end);
        if end - first < self.long && end - first <= layers.magazine.capacity() {
            (first..end).for_each(|item| assert!(layers.magazine.put(item * self.step)));
        } else {
            layers.bump = Bump { next: first * self.step, end: end * self.step };
        }
        Ok(())
    }

    fn give_back(&mut self, items: &[usize]) -> Result<(), ()> {
        for item in items {
            assert!(item.is_multiple_of(self.step));
            let (word, bit) = (item / self.step / 64, 1 << (item / self.step % 64));
            assert_eq!(self.free[word] & bit, 0, "{item} was given back twice");
            self.free[word] |= bit;
        }
        Ok(())
    }
}

/// Returns the number of items in the layers.
fn len(layers: &Layers, step: usize) -> usize {
    layers.magazine.len() + layers.bump.len(step)
}

proptest! {
    #[test]
    fn layers_give_each_item_to_one_and_lose_none(
        capacity in 0usize..9,
        step in 1usize..5,
        most in 1usize..100,
        long in 1usize..10,
        words in 1usize..4,
        steps in proptest::collection::vec((0u8..5, any::<proptest::sample::Index>()), 1..400),
    ) {
        let mut room = vec![0; capacity.max(1)];
        // SAFETY: the memory is the test's own, and outlives the magazine.
        let magazine = unsafe { Magazine::over(NonNull::new(room.as_mut_ptr()).expect("memory"), capacity) };
        let mut layers = Layers { magazine, bump: Bump::default() };
        let mut items = Items { free: vec![u64::MAX; words], step, most, long };
        let mut taken = BTreeSet::new();
        for (what, which) in steps {
            match what {
                0..3 => match layers.take(&mut items) {
                    Ok(item) => prop_assert!(taken.insert(item), "{} was given twice", item),
                    Err(()) => prop_assert_eq!(taken.len(), words * 64, "there are free items"),
                },
                3 if !taken.is_empty() => {
                    let item = *which.get(&taken.iter().copied().collect::<Vec<_>>());
                    taken.remove(&item);
                    layers.put(&mut items, item).expect("taken back");
                }
                4 => {
                    if let Some((first, count)) = layers.bump.take_run(step, which.index(7) + 1) {
                        for item in (0..count).map(|i| first + i * step) {
                            prop_assert!(taken.insert(item), "{} was given twice", item);
                        }
                    }
                }
                _ => {}
            }
            prop_assert_eq!(taken.len() + len(&layers, step) + items.count(), words * 64);
        }
    }

    #[test]
    fn runs_are_those_that_one_sees_bit_by_bit(
        words in proptest::collection::vec(prop_oneof![any::<u64>(), Just(0), Just(u64::MAX)], 1..6),
        from in 0usize..400,
        end in 0usize..400,
    ) {
        let bits = words.len() * bitmap::WORD;
        let (from, end) = (from.min(bits), end.min(bits));
        let is_set = |bit: usize| words[bit / 64] >> (bit % 64) & 1 == 1;
        let word = |index: usize| words[index];
        for set in [false, true] {
            let next = (from..end).find(|bit| is_set(*bit) == set).unwrap_or(end);
            prop_assert_eq!(bitmap::next(&word, from, end, set), next);
        }
        let first = (from..end).find(|bit| is_set(*bit));
        let run = first.map(|first| (first, (first..end).find(|bit| !is_set(*bit)).unwrap_or(end)));
        prop_assert_eq!(bitmap::run(&word, from, end), run);
    }

    #[test]
    fn masks_are_the_bits_of_a_run(first in 0usize..300, count in 0usize..300) {
        let end = first + count;
        let mut all = BTreeSet::new();
        for (word, mask) in bitmap::masks(first, end) {
            prop_assert_ne!(mask, 0);
            for bit in (0..64).filter(|bit| mask >> bit & 1 == 1) {
                prop_assert!(all.insert(word * 64 + bit));
            }
        }
        prop_assert_eq!(all, (first..end).collect::<BTreeSet<_>>());
        let mut words = vec![u64::MAX; 10];
        bitmap::clear(&mut words, first, end);
        for bit in 0..640 {
            prop_assert_eq!(words[bit / 64] >> (bit % 64) & 1 == 0, (first..end).contains(&bit));
        }
    }
}
