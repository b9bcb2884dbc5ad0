//! Hash maps by name, for the plan of a batch.
//!
//! The hash is one multiplication for eight bytes. Its key is random, so nobody can choose names that
//! collide.

use std::collections::HashMap;
use std::hash::{BuildHasher, Hasher, RandomState};

/// A map by names, or by what contains names.
pub(super) type NameMap<K, V> = HashMap<K, V, NameHash>;

/// The hash of one map, with its key.
#[derive(Clone)]
pub(super) struct NameHash(u64);

impl Default for NameHash {
    fn default() -> Self {
        NameHash(RandomState::new().hash_one(()))
    }
}

impl BuildHasher for NameHash {
    type Hasher = NameHasher;

    #[inline(always)]
    fn build_hasher(&self) -> NameHasher {
        NameHasher(self.0)
    }
}

/// The hash of a name so far.
pub(super) struct NameHasher(u64);

/// Odd, with as many ones as zeros: the fraction of the golden ratio.
const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;

impl NameHasher {
    /// Adds a word: both halves of the product, so that each bit changes all bits.
    #[inline(always)]
    fn word(&mut self, word: u64) {
        let product = u128::from(self.0 ^ word) * u128::from(FACTOR);
        self.0 = (product as u64 ^ (product >> 64) as u64).rotate_left(23);
    }
}

impl Hasher for NameHasher {
    /// The caller adds the length, as slices do.
    #[inline(always)]
    fn write(&mut self, bytes: &[u8]) {
        let (eights, rest) = bytes.as_chunks::<8>();
        for eight in eights {
            self.word(u64::from_le_bytes(*eight));
        }
        if let Some(last) = bytes.last_chunk::<8>() {
            // Some bytes twice: one load in place of a loop.
            if !rest.is_empty() {
                self.word(u64::from_le_bytes(*last));
            }
        } else {
            self.word(rest.iter().rev().fold(0, |word, byte| word << 8 | u64::from(*byte)));
        }
    }

    #[inline(always)]
    fn write_u32(&mut self, number: u32) {
        self.word(u64::from(number));
    }

    #[inline(always)]
    fn write_u64(&mut self, number: u64) {
        self.word(number);
    }

    #[inline(always)]
    fn write_usize(&mut self, number: usize) {
        self.word(number as u64);
    }

    #[inline(always)]
    fn finish(&self) -> u64 {
        self.0
    }
}
