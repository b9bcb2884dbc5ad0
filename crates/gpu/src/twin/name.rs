//! A name, with its hash and its first words, as in `shaders/name.glsl`.

use super::fuel::Fuel;
use crate::layout::CACHED_NAME_WORDS;
use lanefs::format::{HashSeed, half_md4};

#[derive(Clone, Copy)]
pub(super) struct Name<'t> {
    pub(super) bytes: &'t [u8],
    pub(super) hash: u32,
    /// The first 24 bytes, zeros behind the end.
    pub(super) first: [u32; CACHED_NAME_WORDS],
}

impl<'t> Name<'t> {
    pub(super) fn new(seed: HashSeed, bytes: &'t [u8], fuel: &Fuel) -> Self {
        fuel.spend(1 + bytes.len() as u32 / 32);
        Self::with_hash(half_md4(seed, bytes), bytes)
    }

    pub(super) fn with_hash(hash: u32, bytes: &'t [u8]) -> Self {
        Name { bytes, hash, first: std::array::from_fn(|i| word_of(bytes, 4 * i)) }
    }
}

/// Returns the four bytes from any offset on, the first in the lowest bits; zeros behind the end.
pub(super) fn word_of(bytes: &[u8], at: usize) -> u32 {
    let there = bytes.iter().skip(at).take(4).enumerate();
    there.fold(0, |word, (i, byte)| word | u32::from(*byte) << (8 * i))
}
