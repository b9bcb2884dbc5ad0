//! Paths as the kernel `score` reads them: in bundles of 32, whose words of 16 bytes are woven so that
//! neighbouring invocations read neighbouring words.

use crate::shared::layout::{BUNDLE_PATHS, MAX_RANKED_PATH, PATH_UNDECIDED, TEXT_WORD};
use crate::shared::structures::PathBundle;

/// Paths one after the other, in bundles.
#[derive(Default)]
pub(crate) struct PathBundles {
    /// The bundles. Until they have a place on the device, `words` is an offset in bytes.
    bundles: Vec<PathBundle>,
    words: Vec<[u8; TEXT_WORD]>,
    count: usize,
}

impl PathBundles {
    /// Number of paths.
    pub(crate) fn count(&self) -> usize {
        self.count
    }

    /// Tells whether the next path begins a bundle.
    pub(crate) fn is_whole(&self) -> bool {
        self.count.is_multiple_of(BUNDLE_PATHS)
    }

    /// Bytes of the bundles on the device, before their words.
    fn header_bytes(&self) -> usize {
        (self.bundles.len() * PathBundle::SIZE).next_multiple_of(TEXT_WORD)
    }

    /// Bytes on the device.
    pub(crate) fn bytes(&self) -> usize {
        self.header_bytes() + self.words.len() * TEXT_WORD
    }

    /// Adds a path. Of one that the kernel does not take the device has the length only.
    pub(crate) fn push(&mut self, path: &[u8]) {
        if self.is_whole() {
            let words = (self.words.len() * TEXT_WORD) as u64;
            self.bundles.push(PathBundle { words, ..PathBundle::default() });
        }
        let lane = self.count % BUNDLE_PATHS;
        self.count += 1;
        let Some(bundle) = self.bundles.last_mut() else { return };
        if path.len() > MAX_RANKED_PATH || !path.is_ascii() {
            bundle.lengths[lane] = PATH_UNDECIDED;
            return;
        }
        bundle.lengths[lane] = path.len() as u32;
        let first = bundle.words as usize / TEXT_WORD;
        let end = first + path.len().div_ceil(TEXT_WORD) * BUNDLE_PATHS;
        if self.words.len() < end {
            self.words.resize(end, [0; TEXT_WORD]);
        }
        for (number, bytes) in path.chunks(TEXT_WORD).enumerate() {
            self.words[first + number * BUNDLE_PATHS + lane][..bytes.len()].copy_from_slice(bytes);
        }
    }

    /// Writes the paths to memory of [`bytes`](Self::bytes) that has this address on the device.
    pub(crate) fn write(&self, address: u64, to: &mut [u8]) {
        let (header, words) = to.split_at_mut(self.header_bytes());
        let first = address + header.len() as u64;
        let placed = |bundle: &PathBundle| PathBundle { words: first + bundle.words, ..*bundle };
        PathBundle::write_all(header, &self.bundles.iter().map(placed).collect::<Vec<_>>());
        words[..self.words.len() * TEXT_WORD].copy_from_slice(self.words.as_flattened());
    }

    /// Returns the bundle of a path, and its words and those after them; for the twin.
    pub(crate) fn path(&self, number: usize) -> (&PathBundle, &[[u8; TEXT_WORD]]) {
        let bundle = &self.bundles[number / BUNDLE_PATHS];
        (bundle, &self.words[bundle.words as usize / TEXT_WORD..])
    }
}
