//! Vectors of bits, by block or by unit.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

/// Words of a part of [`SharedBits`]: 4 KiB.
const PART: u64 = 512;

/// A vector of bits that threads share. A part without a bit set takes no memory.
pub(super) struct SharedBits(Box<[OnceLock<Box<[AtomicU64]>>]>);

impl SharedBits {
    pub(super) fn new(len: u64) -> Self {
        SharedBits((0..len.div_ceil(64 * PART)).map(|_| OnceLock::new()).collect())
    }

    fn at(&self, word: u64) -> Option<&AtomicU64> {
        self.0.get((word / PART) as usize)?.get()?.get((word % PART) as usize)
    }

    /// The word, whose part is made where it is missing; `None` past the end.
    fn make(&self, word: u64) -> Option<&AtomicU64> {
        let part = self.0.get((word / PART) as usize)?;
        part.get_or_init(|| (0..PART).map(|_| AtomicU64::new(0)).collect()).get((word % PART) as usize)
    }

    /// Bits past the end are clear.
    pub(super) fn get(&self, i: u64) -> bool {
        self.word(i / 64) >> (i % 64) & 1 != 0
    }

    /// Sixty-four bits.
    pub(super) fn word(&self, i: u64) -> u64 {
        self.at(i).map_or(0, |word| word.load(Ordering::Relaxed))
    }

    /// Sets a bit; false where it was set already (or is past the end).
    pub(super) fn set(&self, i: u64) -> bool {
        let mask = 1 << (i % 64);
        self.make(i / 64).is_some_and(|word| word.fetch_or(mask, Ordering::Relaxed) & mask == 0)
    }

    pub(super) fn clear(&self, i: u64) {
        if let Some(word) = self.at(i / 64) {
            word.fetch_and(!(1 << (i % 64)), Ordering::Relaxed);
        }
    }

    /// True where one of `count` bits from `first` on is set.
    pub(super) fn any(&self, first: u64, count: u64) -> bool {
        pieces(first, count).any(|(i, mask)| self.word(i) & mask != 0)
    }

    /// Sets `count` bits from `first` on; false where one of them was set.
    pub(super) fn set_all(&self, first: u64, count: u64) -> bool {
        let mut clear = true;
        for (i, mask) in pieces(first, count) {
            if let Some(word) = self.make(i) {
                clear &= word.fetch_or(mask, Ordering::Relaxed) & mask == 0;
            }
        }
        clear
    }
}

/// A vector of bits of one thread. Zero bits take no memory until they are set: a fresh vector is pages that
/// the host has not allocated yet.
pub(super) struct Bits(Vec<u64>);

impl Bits {
    pub(super) fn new(len: u64) -> Self {
        Bits(vec![0; len.div_ceil(64) as usize])
    }

    /// Bits past the end are clear.
    pub(super) fn get(&self, i: u64) -> bool {
        self.word(i / 64) >> (i % 64) & 1 != 0
    }

    /// Sixty-four bits.
    pub(super) fn word(&self, i: u64) -> u64 {
        self.0.get(i as usize).copied().unwrap_or(0)
    }

    /// Sets a bit; false where it was set already (or is past the end).
    pub(super) fn set(&mut self, i: u64) -> bool {
        let Some(word) = self.0.get_mut((i / 64) as usize) else { return false };
        let new = *word | 1 << (i % 64);
        let was_clear = new != *word;
        *word = new;
        was_clear
    }

    /// Number of bits set.
    pub(super) fn count(&self) -> u64 {
        self.0.iter().map(|word| u64::from(word.count_ones())).sum()
    }
}

/// The words that a range of bits touches, each with the mask of its bits.
fn pieces(first: u64, count: u64) -> impl Iterator<Item = (u64, u64)> {
    let end = first.saturating_add(count);
    (first / 64..end.div_ceil(64)).map(move |i| {
        let (low, high) = (first.max(i * 64), end.min((i + 1) * 64));
        (i, if low < high { (u64::MAX >> (64 - (high - low))) << (low % 64) } else { 0 })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_touch_what_they_say_and_nothing_else() {
        for (first, count) in [(0, 1), (5, 0), (3, 61), (3, 62), (63, 2), (64, 64), (10, 180)] {
            // The second one begins a bit before the end of a part.
            for base in [0, 64 * PART - 100] {
                let (first, bits) = (base + first, SharedBits::new(base + 256));
                assert!(bits.set_all(first, count));
                let set: Vec<u64> = (0..base + 256).filter(|i| bits.get(*i)).collect();
                assert_eq!(set, (first..first + count).collect::<Vec<_>>());
                assert!(!bits.any(0, first) && !bits.any(first + count, 256));
                assert_eq!(bits.any(first, 256), count > 0);
                assert_eq!(bits.set_all(first, count), count == 0, "all were set already");
            }
        }
    }

    #[test]
    fn past_the_end_nothing_happens() {
        let mut bits = Bits::new(64);
        assert!(bits.set(63) && !bits.set(63) && !bits.set(64) && !bits.get(1000));
        assert_eq!(bits.count(), 1);
        let bits = SharedBits::new(64);
        assert!(bits.set(63) && !bits.set(63) && !bits.get(1 << 40) && !bits.set(1 << 40));
        bits.clear(63);
        bits.clear(1 << 40);
        assert!(bits.set(63));
    }
}
