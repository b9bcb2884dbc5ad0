//! Twin of `shaders/best.comp`.

use crate::shared::structures::RankedPath;

/// Returns the paths with at least this score, and those that are undecided. The kernel writes them in any
/// order.
pub(crate) fn best(scores: &[u32], least: u32) -> Vec<RankedPath> {
    let all = scores.iter().zip(0..).filter(|(score, _)| **score >= least);
    all.map(|(score, number)| RankedPath { number, score: *score }).collect()
}
