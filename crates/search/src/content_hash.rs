//! Engines that hash contents.

/// An engine that hashes contents by BLAKE3. Whichever it is, the hashes are the same.
pub trait ContentHash: Sync {
    /// Returns the hash of each text.
    fn hash(&self, texts: &[&[u8]]) -> Vec<[u8; 32]>;
}

/// The CPU engine: the crate `blake3`.
#[derive(Clone, Copy, Debug, Default)]
pub struct CpuHash;

impl CpuHash {
    /// Returns the hash of a text.
    pub fn of(text: &[u8]) -> [u8; 32] {
        *blake3::hash(text).as_bytes()
    }
}

impl ContentHash for CpuHash {
    fn hash(&self, texts: &[&[u8]]) -> Vec<[u8; 32]> {
        texts.iter().map(|text| CpuHash::of(text)).collect()
    }
}
