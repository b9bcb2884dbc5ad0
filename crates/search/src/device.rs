//! The GPU engine, as the searches use it. Where a device fails, the CPU engine continues; `failure` tells
//! why.

use crate::content_hash::{ContentHash, CpuHash};
use crate::fuzzy::{Letters, Names, Ranked, Ranker};
use crate::prefilter::{Prefilter, Text};
use crate::query::QueryOptions;
use crate::required::{Sequence, Step};
use lanefs::Ino;
use lanefs_gpu::{Gpu, KeptScan, KeptTexts, Needles, PatternStep, Patterns, RankedPaths, TextHash, TextScan};
use std::sync::{Arc, OnceLock};

/// Most steps of a sequence. Where many sequences need more room than a device's machines have, shorter parts
/// of them are looked for.
const LONGEST: [usize; 5] = [64, 32, 16, 8, 4];

/// A device that looks for what each match of a query has.
pub struct DeviceSearch {
    scan: TextScan,
    kept: Option<Arc<KeptTexts>>,
    /// The result of the search in what was kept before.
    known: OnceLock<KeptScan>,
}

impl DeviceSearch {
    /// Prepares a search for a query; `None` for one whose matches have nothing that the device could look
    /// for. The exact engine alone answers that.
    pub fn new(gpu: &Gpu, query: &QueryOptions) -> Option<Self> {
        let scan = gpu.text_scan(&Self::patterns(query)?);
        Some(DeviceSearch { scan, kept: None, known: OnceLock::new() })
    }

    /// Searches in texts that the device keeps, and keeps those of small files: the numbers are those of
    /// inodes. No file of the volume may change while they are kept.
    #[must_use]
    pub fn with_kept(mut self, kept: Arc<KeptTexts>) -> Self {
        self.kept = Some(kept);
        self
    }

    /// Returns in words why the device is not used any more; `None` while it is.
    pub fn failure(&self) -> Option<String> {
        self.scan.failure()
    }

    /// Returns the patterns that a device looks for; `None` where they do not fit.
    pub fn patterns(query: &QueryOptions) -> Option<Patterns> {
        let of = |sequences: Vec<Sequence>| {
            let mut patterns = Patterns::default();
            sequences.iter().all(|sequence| patterns.or(&steps(sequence))).then_some(patterns)
        };
        LONGEST.into_iter().find_map(|longest| of(query.required(longest)?))
    }
}

fn steps(sequence: &Sequence) -> Vec<PatternStep> {
    let step = |step: &Step| {
        let Step { bytes, is_optional, is_repeated } = *step;
        PatternStep { bytes, is_optional, is_repeated }
    };
    sequence.iter().map(step).collect()
}

impl Prefilter for DeviceSearch {
    fn may_match(&self, texts: &[Text<'_>]) -> Vec<bool> {
        let bytes: Vec<&[u8]> = texts.iter().map(|text| text.bytes).collect();
        let Some(kept) = &self.kept else { return self.scan.may_match(&bytes) };
        let ids: Vec<Option<u64>> = texts.iter().map(|text| text.file.map(|file| file.0)).collect();
        self.scan.may_match_and_keep(&bytes, &ids, kept)
    }

    fn known(&self, files: &[Ino]) -> Vec<Option<bool>> {
        let Some(kept) = &self.kept else { return vec![None; files.len()] };
        let known = self.known.get_or_init(|| self.scan.scan_kept(kept));
        known.may_match(files.iter().map(|file| file.0))
    }
}

/// A device that hashes contents. The CPU engine hashes those that the device does not take.
pub struct DeviceHash(TextHash);

impl DeviceHash {
    /// Prepares a device that is open.
    pub fn new(gpu: &Gpu) -> Self {
        DeviceHash(gpu.text_hash())
    }

    /// Returns in words why the device is not used any more; `None` while it is.
    pub fn failure(&self) -> Option<String> {
        self.0.failure()
    }
}

impl ContentHash for DeviceHash {
    fn hash(&self, texts: &[&[u8]]) -> Vec<[u8; 32]> {
        let hashes = self.0.hash(texts).into_iter().zip(texts);
        hashes.map(|(hash, text)| hash.unwrap_or_else(|| CpuHash::of(text))).collect()
    }
}

/// A device that has the paths of some names.
pub struct DeviceRanks(RankedPaths);

impl DeviceRanks {
    /// Copies the paths to a device.
    ///
    /// # Errors
    /// An error of the device, also for want of memory.
    pub fn new(gpu: &Gpu, names: &Names) -> lanefs_gpu::Result<Self> {
        gpu.ranked_paths(names.len(), &mut |id, path| names.push_path(id, path)).map(DeviceRanks)
    }

    /// Returns in words why the device is not used any more; `None` while it is.
    pub fn failure(&self) -> Option<String> {
        self.0.failure()
    }
}

impl Ranker for DeviceRanks {
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
