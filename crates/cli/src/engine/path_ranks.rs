//! Ranks of paths by a device, for fuzzy searches.

use crate::console::say;
use lanefs_gpu::{Gpu, Needles, RankedPaths};
use lanefs_search::fuzzy::{Letters, Names, Ranked, Ranker};

/// A device that has the paths of some names.
pub struct PathRanks<'g>(RankedPaths<'g>);

impl<'g> PathRanks<'g> {
    /// Copies the paths to a device. If it fails, which is reported, or has too little memory, the CPU engine
    /// answers: `None`.
    pub fn new(gpu: &'g Gpu, names: &Names) -> Option<Self> {
        let ranked = gpu.ranked_paths(names.len(), &mut |id, path| names.push_path(id, path));
        ranked.map(PathRanks).map_err(|error| say(&format!("{error}; the CPU engine continues"))).ok()
    }

    /// Reports a failure of the device.
    pub fn report(&self) {
        if let Some(error) = self.0.failure() {
            say(&format!("{error}; the CPU engine continued"));
        }
    }
}

impl Ranker for PathRanks<'_> {
    fn most_letters(&self) -> usize {
        Needles::MOST_LETTERS
    }

    fn rank(&self, terms: &[Letters<'_>], limit: usize) -> Option<Ranked> {
        let mut needles = Needles::default();
        if !terms.iter().all(|term| needles.and(term.bytes, term.ignores_case)) {
            return None;
        }
        let found = self.0.best(&needles, limit)?;
        Some(Ranked { count: found.matched, best: found.best, undecided: found.undecided })
    }
}
