//! The files: sizes and contents from a seed, the same for every system.

use crate::systems::file_volume::FileSet;
use crate::systems::workload::{SEED, Strings, shuffled};
use lanefs::PathSet;
use rand::{Rng, RngExt, SeedableRng, rngs::StdRng};
use std::ffi::CStr;

/// Mean size of a file in bytes, and the deviation of the logarithm of sizes.
const MEAN: f64 = 10_240.0;
const DEVIATION: f64 = 1.0;

/// Bytes of the smallest file, which has its number at both ends, and of the largest.
const LEAST_BYTES: usize = 16;
pub(crate) const MOST_BYTES: usize = 1 << 20;

/// Files of a directory.
const FILES_PER_DIRECTORY: usize = 300;

/// Files of a data set: in directories of classes, with sizes from a log-normal distribution.
pub(crate) struct Corpus {
    directories: Strings,
    paths: Strings,
    sizes: Vec<usize>,
    /// Bytes that no device below can compress; each file has a part of them.
    noise: Vec<u8>,
}

impl Corpus {
    pub(crate) fn new(files: usize) -> Self {
        let directories = files.div_ceil(FILES_PER_DIRECTORY);
        let mut rng = StdRng::seed_from_u64(SEED);
        let mut noise = vec![0; 2 * MOST_BYTES];
        rng.fill_bytes(&mut noise);
        let mut size = || {
            // Box and Muller's normal distribution.
            let (u, v) = (rng.random_range(f64::MIN_POSITIVE..1.0), rng.random_range(0.0..1.0));
            let normal = (-2.0 * f64::ln(u)).sqrt() * (std::f64::consts::TAU * v).cos();
            let size = (MEAN.ln() - DEVIATION * DEVIATION / 2.0 + DEVIATION * normal).exp();
            (size as usize).clamp(LEAST_BYTES, MOST_BYTES)
        };
        let sizes = (0..files).map(|_| size()).collect();
        let class = |number: usize| format!("class-{number:04}");
        Corpus {
            directories: (0..directories).map(class).collect(),
            paths: (0..files).map(|i| format!("{}/img-{i:07}.jpg", class(i * directories / files))).collect(),
            sizes,
            noise,
        }
    }

    pub(crate) fn paths(&self) -> &Strings {
        &self.paths
    }

    /// Bytes of a file.
    pub(crate) fn size(&self, file: usize) -> usize {
        self.sizes[file]
    }

    /// True for the content of this file, as far as length, begin and end tell.
    pub(crate) fn is_right(&self, file: usize, content: &[u8]) -> bool {
        let stamp = (file as u64).to_le_bytes();
        content.len() == self.sizes[file] && content.starts_with(&stamp) && content.ends_with(&stamp)
    }
}

impl FileSet for Corpus {
    fn len(&self) -> usize {
        self.sizes.len()
    }

    fn bytes(&self) -> u64 {
        self.sizes.iter().map(|size| *size as u64).sum()
    }

    fn directories(&self) -> &Strings {
        &self.directories
    }

    fn path(&self, file: usize) -> &CStr {
        self.paths.get(file)
    }

    fn content(&self, file: usize, to: &mut Vec<u8>) {
        let (begin, from) = (to.len(), file.wrapping_mul(4099) % MOST_BYTES);
        to.extend_from_slice(&self.noise[from..from + self.sizes[file]]);
        let stamp = (file as u64).to_le_bytes();
        to[begin..begin + 8].copy_from_slice(&stamp);
        let end = to.len();
        to[end - 8..].copy_from_slice(&stamp);
    }
}

/// Files in the order in which they are read, with their paths in the form that each system takes.
pub(crate) struct CorpusRequests {
    pub(crate) files: Vec<usize>,
    pub(crate) strings: Strings,
    pub(crate) set: PathSet,
}

impl CorpusRequests {
    /// The first `count` files of a random order.
    pub(crate) fn new(corpus: &Corpus, count: usize) -> Self {
        let mut files = shuffled(corpus.len());
        files.truncate(count);
        let strings = corpus.paths().pick(&files);
        let set = strings.iter().map(CStr::to_bytes).collect();
        CorpusRequests { files, strings, set }
    }

    pub(crate) fn len(&self) -> usize {
        self.files.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_their_mean_and_contents_their_stamps() {
        let corpus = Corpus::new(20_000);
        let mean = corpus.bytes() as f64 / 20_000.0;
        assert!((MEAN * 0.95..MEAN * 1.05).contains(&mean), "{mean}");
        let mut content = Vec::new();
        corpus.content(7, &mut content);
        assert!(corpus.is_right(7, &content) && !corpus.is_right(8, &content));
        content.pop();
        assert!(!corpus.is_right(7, &content));
        let requests = CorpusRequests::new(&corpus, 100);
        let strings: Vec<&[u8]> = requests.strings.iter().map(CStr::to_bytes).collect();
        assert!(requests.set.view().iter().eq(strings));
        assert_eq!(requests.strings.get(3), corpus.path(requests.files[3]));
    }
}
