//! The compiled kernels, and their parameters as bytes.

use crate::vulkan::Shader;

/// Parameters of a kernel, as its source declares them.
pub(crate) struct Parameters {
    bytes: [u8; 128],
    len: usize,
}

impl Parameters {
    pub(crate) fn new() -> Self {
        Parameters { bytes: [0; 128], len: 0 }
    }

    fn add(mut self, bytes: &[u8]) -> Self {
        self.bytes[self.len..self.len + bytes.len()].copy_from_slice(bytes);
        self.len += bytes.len();
        self
    }

    pub(crate) fn quads(self, quads: &[u64]) -> Self {
        quads.iter().fold(self, |parameters, quad| parameters.add(&quad.to_le_bytes()))
    }

    pub(crate) fn words(self, words: &[u32]) -> Self {
        words.iter().fold(self, |parameters, word| parameters.add(&word.to_le_bytes()))
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}

/// Resolves paths.
pub(crate) const LOOKUP: Shader = Shader {
    name: "lookup",
    code: include_bytes!("../shaders/lookup.spv"),
    parameters: 8 * 8 + 4 * 4 + 3 * 4,
};
