//! Hashes of contents on a device.

use crate::console::say;
use lanefs_gpu::{Gpu, TextHash};
use lanefs_search::{ContentHash, CpuHash};

/// A device that hashes contents. The CPU engine hashes those that the device does not take, and all where it
/// fails.
pub struct DeviceHash<'g>(TextHash<'g>);

impl<'g> DeviceHash<'g> {
    /// Prepares a device that is open.
    pub fn new(gpu: &'g Gpu) -> Self {
        DeviceHash(gpu.text_hash())
    }

    /// Reports a failure of the device.
    pub fn report(&self) {
        if let Some(error) = self.0.failure() {
            say(&format!("{error}; the CPU engine continued"));
        }
    }
}

impl ContentHash for DeviceHash<'_> {
    fn hash(&self, texts: &[&[u8]]) -> Vec<[u8; 32]> {
        let hashes = self.0.hash(texts).into_iter().zip(texts);
        hashes.map(|(hash, text)| hash.unwrap_or_else(|| CpuHash::of(text))).collect()
    }
}
