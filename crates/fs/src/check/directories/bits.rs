//! A vector of bits, by unit of a directory.

/// A vector of bits. Zero bits take no memory until they are set: a fresh vector is pages that
/// the host has not allocated yet.
pub(in crate::check) struct Bits(Vec<u64>);

impl Bits {
    pub(in crate::check) fn new(len: u64) -> Self {
        Bits(vec![0; len.div_ceil(64) as usize])
    }

    /// Bits past the end are clear.
    pub(in crate::check) fn get(&self, i: u64) -> bool {
        self.word(i / 64) >> (i % 64) & 1 != 0
    }

    /// Sixty-four bits.
    pub(in crate::check) fn word(&self, i: u64) -> u64 {
        self.0.get(i as usize).copied().unwrap_or(0)
    }

    /// Sets a bit; false where it was set already (or is past the end).
    pub(in crate::check) fn set(&mut self, i: u64) -> bool {
        let Some(word) = self.0.get_mut((i / 64) as usize) else { return false };
        let new = *word | 1 << (i % 64);
        let was_clear = new != *word;
        *word = new;
        was_clear
    }

    /// Number of bits set.
    pub(in crate::check) fn count(&self) -> u64 {
        self.0.iter().map(|word| u64::from(word.count_ones())).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn past_the_end_nothing_happens() {
        let mut bits = Bits::new(64);
        assert!(bits.set(63) && !bits.set(63) && !bits.set(64) && !bits.get(1000));
        assert_eq!(bits.count(), 1);
    }
}
