//! Twin of `shaders/woven.glsl`: texts that are woven, and a count of the bytes that are loaded.

use crate::shared::layout::{TEXT_WORD, WOVEN_STRIPS};
use std::cell::Cell;

/// Texts on the device, woven, and a count of the bytes that were loaded, of texts and of lists.
pub struct WovenText<'t> {
    bytes: &'t [u8],
    loaded: Cell<u64>,
}

impl<'t> WovenText<'t> {
    /// Texts in memory as they lie on the device.
    pub fn new(bytes: &'t [u8]) -> Self {
        WovenText { bytes, loaded: Cell::new(0) }
    }

    /// Returns the bytes that were loaded.
    pub fn loaded(&self) -> u64 {
        self.loaded.get()
    }

    /// Returns the number of words.
    pub(in crate::twin) fn words(&self) -> usize {
        self.bytes.len() / TEXT_WORD
    }

    pub(in crate::twin) fn word(&self, at: usize) -> [u8; TEXT_WORD] {
        self.count(TEXT_WORD);
        self.bytes.as_chunks().0.get(at).copied().unwrap_or_default()
    }

    /// Counts bytes that are loaded.
    pub(in crate::twin) fn count(&self, bytes: usize) {
        self.loaded.set(self.loaded.get() + bytes as u64);
    }
}

/// Returns the place of a word of a strip among the words of all. Each strip has `words` of them.
pub(crate) fn woven(strip: usize, word: usize, words: usize) -> usize {
    strip / WOVEN_STRIPS * (WOVEN_STRIPS * words) + word * WOVEN_STRIPS + strip % WOVEN_STRIPS
}
