//! Runs of set bits in bitmaps of free items, a word at a time. The heap and the volume carve from them.

/// Bits of a word.
pub const WORD: usize = 64;

/// Returns the next bit at or after `from`, and below `end`, that is `set`; else `end`.
#[inline(always)]
pub fn next(word: &impl Fn(usize) -> u64, from: usize, end: usize, set: bool) -> usize {
    let mut at = from;
    while at < end {
        let bits = word(at / WORD);
        let bits = (if set { bits } else { !bits }) >> (at % WORD);
        if bits != 0 {
            return (at + bits.trailing_zeros() as usize).min(end);
        }
        at = (at / WORD + 1) * WORD;
    }
    end
}

/// Returns the first run of set bits in `from..end`: its first bit, and the bit after its last.
#[inline(always)]
pub fn run(word: &impl Fn(usize) -> u64, from: usize, end: usize) -> Option<(usize, usize)> {
    let first = next(word, from, end, true);
    (first < end).then(|| (first, next(word, first, end, false)))
}

/// Returns each word in which bits of `first..end` lie, with the mask of these bits.
pub fn masks(first: usize, end: usize) -> impl Iterator<Item = (usize, u64)> {
    let (mut at, end) = (first, end.max(first));
    std::iter::from_fn(move || {
        if at == end {
            return None;
        }
        let stop = ((at / WORD + 1) * WORD).min(end);
        let mask = (u64::MAX >> (WORD - (stop - at))) << (at % WORD);
        let word = at / WORD;
        at = stop;
        Some((word, mask))
    })
}

/// Clears the bits `first..end`.
pub fn clear(words: &mut [u64], first: usize, end: usize) {
    for (word, mask) in masks(first, end) {
        words[word] &= !mask;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_are_found_across_words() {
        let mut words = vec![0u64; 4];
        for (word, mask) in masks(60, 130) {
            words[word] |= mask;
        }
        assert_eq!(words.iter().map(|w| w.count_ones()).sum::<u32>(), 70);
        let word = |i: usize| words[i];
        assert_eq!(run(&word, 0, 256), Some((60, 130)));
        assert_eq!(run(&word, 70, 256), Some((70, 130)));
        assert_eq!(run(&word, 0, 100), Some((60, 100)));
        assert_eq!(run(&word, 130, 256), None);
        clear(&mut words, 64, 128);
        assert_eq!(words, [0xf << 60, 0, 3, 0]);
        assert_eq!(masks(5, 5).count(), 0);
    }
}
