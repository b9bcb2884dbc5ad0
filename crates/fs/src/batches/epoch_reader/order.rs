//! The order of an epoch.

use std::sync::Arc;

/// The order in which an epoch reads its files: rows of the path set.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum EpochOrder {
    /// The order of the path set.
    #[default]
    AsGiven,
    /// A random order of all paths, which the seed determines for ever: that of
    /// [`shuffled`](EpochOrder::shuffled).
    Shuffled(u64),
    /// These rows, such as one worker's part of a shuffled order. A row may come several times.
    Rows(Arc<[u32]>),
}

impl EpochOrder {
    /// Returns the rows below `count` in a random order. It depends on the two arguments only, is the same on
    /// every host and in every version, and takes 4 bytes a row.
    ///
    /// Rows are exchanged from the last one down (Fisher and Yates; Durstenfeld 1964, "Algorithm 235"), each
    /// with one that is not after it. The random numbers are those of SplitMix64 with the seed as its state
    /// (Steele, Lea and Flood 2014, "Fast splittable pseudorandom number generators"). They are brought below
    /// the bound without bias (Lemire 2019, "Fast random integer generation in an interval", algorithm 5).
    ///
    /// ```
    /// use lanefs::EpochOrder;
    ///
    /// // The part of the second of four workers.
    /// let all = EpochOrder::shuffled(10, 7);
    /// let part: Vec<u32> = all.iter().copied().skip(1).step_by(4).collect();
    /// assert_eq!(part.len(), 3);
    /// let order = EpochOrder::Rows(part.into());
    /// # let _ = order;
    /// ```
    pub fn shuffled(count: u32, seed: u64) -> Vec<u32> {
        let mut numbers = SplitMix(seed);
        let mut rows: Vec<u32> = (0..count).collect();
        for last in (1..rows.len()).rev() {
            rows.swap(last, numbers.below(last as u64 + 1) as usize);
        }
        rows
    }

    /// The rows, for so many paths.
    pub(super) fn rows(&self, paths: u32) -> Arc<[u32]> {
        match self {
            EpochOrder::AsGiven => (0..paths).collect(),
            EpochOrder::Shuffled(seed) => EpochOrder::shuffled(paths, *seed).into(),
            EpochOrder::Rows(rows) => rows.clone(),
        }
    }
}

/// SplitMix64.
struct SplitMix(u64);

impl SplitMix {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut bits = self.0;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        bits ^ (bits >> 31)
    }

    /// Returns a number below `end`, which is not 0, each with the same probability.
    fn below(&mut self, end: u64) -> u64 {
        let mut product = u128::from(self.next()) * u128::from(end);
        if (product as u64) < end {
            let uneven = end.wrapping_neg() % end;
            while (product as u64) < uneven {
                product = u128::from(self.next()) * u128::from(end);
            }
        }
        (product >> 64) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_gives_the_same_order_for_ever() {
        // Vigna's numbers for this seed, and orders by a program in another language.
        let mut numbers = SplitMix(1_234_567);
        assert_eq!([numbers.next(), numbers.next()], [6_457_827_717_110_365_317, 3_203_168_211_198_807_973]);
        assert_eq!(EpochOrder::shuffled(10, 0), [4, 9, 2, 5, 1, 7, 6, 0, 3, 8]);
        assert_eq!(EpochOrder::shuffled(10, 1), [9, 0, 1, 4, 8, 2, 3, 7, 6, 5]);
        assert_eq!(EpochOrder::shuffled(10, u64::MAX), [6, 7, 0, 3, 5, 4, 2, 1, 9, 8]);
        let large = EpochOrder::shuffled(100_000, 42);
        let fnv = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3);
        let hash = large.iter().flat_map(|row| row.to_le_bytes()).fold(0xcbf2_9ce4_8422_2325, fnv);
        assert_eq!((hash, &large[..2]), (0x58b3_118f_7f88_3939, &[35_485, 31_327][..]));
        assert!(EpochOrder::shuffled(0, 5).is_empty());
        assert_eq!(EpochOrder::shuffled(1, 5), [0]);
    }

    #[test]
    fn numbers_below_a_bound_that_does_not_divide_are_drawn_again() {
        let (mut numbers, bound) = (SplitMix(3), (1 << 63) + 1);
        let drawn = [(); 4].map(|()| numbers.below(bound));
        // The 2nd, 3rd, 5th, 6th and 7th number are rejected.
        let expected = [
            1_046_394_712_501_569_526,
            672_077_022_357_742_823,
            8_196_980_753_821_780_235,
            8_195_237_237_126_968_761,
        ];
        assert_eq!(drawn, expected);
    }
}
