//! Flat vectors of bits, by block or by unit.

/// A vector of bits. Zero bits take no memory until they are set: a fresh vector is pages that the host has
/// not allocated yet.
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

    pub(super) fn clear(&mut self, i: u64) {
        if let Some(word) = self.0.get_mut((i / 64) as usize) {
            *word &= !(1 << (i % 64));
        }
    }

    /// True where one of `count` bits from `first` on is set.
    pub(super) fn any(&self, first: u64, count: u64) -> bool {
        pieces(first, count).any(|(i, mask)| self.word(i) & mask != 0)
    }

    /// Sets `count` bits from `first` on.
    pub(super) fn set_all(&mut self, first: u64, count: u64) {
        for (i, mask) in pieces(first, count) {
            if let Some(word) = self.0.get_mut(i as usize) {
                *word |= mask;
            }
        }
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
            let mut bits = Bits::new(256);
            bits.set_all(first, count);
            let set: Vec<u64> = (0..256).filter(|i| bits.get(*i)).collect();
            assert_eq!(set, (first..first + count).collect::<Vec<_>>());
            assert_eq!(bits.count(), count);
            assert!(!bits.any(0, first) && !bits.any(first + count, 256));
            assert_eq!(bits.any(first, 256 - first), count > 0);
        }
    }

    #[test]
    fn past_the_end_nothing_happens() {
        let mut bits = Bits::new(64);
        assert!(bits.set(63) && !bits.set(63) && !bits.set(64) && !bits.get(1000));
        bits.clear(63);
        bits.set_all(60, 1000);
        assert_eq!(bits.count(), 4);
    }
}
