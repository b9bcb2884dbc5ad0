//! Search in texts on a device, before the exact engine.

use crate::console::say;
use lanefs_gpu::{Gpu, PatternStep, Patterns, TextScan};
use lanefs_search::{Prefilter, QueryOptions, Sequence};

/// Most steps of a sequence. Where many sequences need more room than a device's machines have, shorter parts
/// of them are looked for.
const LONGEST: [usize; 5] = [64, 32, 16, 8, 4];

/// A device that looks for what each match of a query has.
pub struct TextSearch<'g>(TextScan<'g>);

impl<'g> TextSearch<'g> {
    /// Prepares a search for a query; `None` for one whose matches have nothing that the device could look
    /// for. The exact engine alone answers that.
    pub fn new(gpu: &'g Gpu, query: &QueryOptions) -> Option<Self> {
        let patterns = LONGEST.into_iter().find_map(|longest| patterns(&query.required(longest)?));
        if patterns.is_none() {
            log::debug!(
                "no match of this query has a part that the device could find; the CPU engine searches"
            );
        }
        Some(TextSearch(gpu.text_scan(&patterns?)))
    }

    /// Reports a failure of the device.
    pub fn report(&self) {
        if let Some(error) = self.0.failure() {
            say(&format!("{error}; the CPU engine continued"));
        }
    }
}

impl Prefilter for TextSearch<'_> {
    fn may_match(&self, texts: &[&[u8]]) -> Vec<bool> {
        self.0.may_match(texts)
    }
}

/// Returns patterns of the device; `None` where they do not fit.
fn patterns(sequences: &[Sequence]) -> Option<Patterns> {
    let mut patterns = Patterns::default();
    sequences.iter().all(|sequence| patterns.or(&steps(sequence))).then_some(patterns)
}

fn steps(sequence: &Sequence) -> Vec<PatternStep> {
    let step = |step: &lanefs_search::Step| {
        let lanefs_search::Step { bytes, is_optional, is_repeated } = *step;
        PatternStep { bytes, is_optional, is_repeated }
    };
    sequence.iter().map(step).collect()
}
