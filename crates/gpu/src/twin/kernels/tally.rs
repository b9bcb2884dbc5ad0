//! Twin of `shaders/tally.comp`.

use crate::shared::layout::{SCORE_BUCKETS, SCORE_UNDECIDED};

/// Counts scores, a bucket for each. The first one counts the paths that are undecided.
pub(crate) fn tally(scores: &[u32]) -> Vec<u32> {
    let mut counts = vec![0; SCORE_BUCKETS];
    for score in scores.iter().filter(|score| **score != 0) {
        counts[bucket(*score)] += 1;
    }
    counts
}

fn bucket(score: u32) -> usize {
    if score == SCORE_UNDECIDED { 0 } else { (score as usize).min(SCORE_BUCKETS - 1) }
}
