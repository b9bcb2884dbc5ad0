//! Names, as in `shaders/name.glsl`.

use crate::shared::layout::CACHED_NAME_WORDS;
use crate::twin::headers::fuel::Fuel;
use crate::twin::headers::hash::{end_hash, mix_word};
use lanefs::format::{HashSeed, half_md4};

#[derive(Clone, Copy)]
pub(in crate::twin) struct Name<'t> {
    pub(in crate::twin) bytes: &'t [u8],
    pub(in crate::twin) hash: u32,
}

impl<'t> Name<'t> {
    pub(in crate::twin) fn new(seed: HashSeed, bytes: &'t [u8], fuel: &Fuel) -> Self {
        fuel.spend(1 + bytes.len() as u32 / 32);
        Self::with_hash(half_md4(seed, bytes), bytes)
    }

    pub(in crate::twin) fn with_hash(hash: u32, bytes: &'t [u8]) -> Self {
        Name { bytes, hash }
    }
}

/// A name as the directory cache has it. A longer name has its first words only, and is in no cache.
#[derive(Clone, Copy)]
pub(crate) struct ShortName {
    pub(in crate::twin) bytes: usize,
    /// The first 24 bytes, zeros past the end.
    pub(in crate::twin) word: [u32; CACHED_NAME_WORDS],
    pub(crate) hash: u32,
}

impl ShortName {
    pub(crate) fn new(seed: HashSeed, bytes: &[u8]) -> Self {
        let word = std::array::from_fn(|i| word_of(bytes, 4 * i));
        let hash = end_hash(word.into_iter().fold(seed.0[0], mix_word), bytes.len() as u32);
        ShortName { bytes: bytes.len(), word, hash }
    }
}

/// Returns the four bytes from any offset on, the first in the lowest bits; zeros past the end.
pub(in crate::twin) fn word_of(bytes: &[u8], at: usize) -> u32 {
    let there = bytes.iter().skip(at).take(4).enumerate();
    there.fold(0, |word, (i, byte)| word | u32::from(*byte) << (8 * i))
}
