//! An engine beside the CPU that scores all names for the fuzzy terms of a query.

use super::names::EntryId;

/// The letters of a fuzzy term. All are ASCII.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Letters<'q> {
    /// The letters, in lower case where case does not matter.
    pub bytes: &'q [u8],
    /// A letter also matches its capital.
    pub ignores_case: bool,
}

/// The answer of a [`Ranker`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ranked {
    /// Number of the decided names that match all terms.
    pub count: usize,
    /// Those of them whose score is at least that of the last one within the limit, each with its score, in
    /// any order. A score is the sum of nucleo's scores for the terms.
    pub best: Vec<(EntryId, u32)>,
    /// Names that the engine could not decide, in any order. The CPU scores them.
    pub undecided: Vec<EntryId>,
}

/// An engine that scores all names for the fuzzy terms of a query, as nucleo does for paths.
pub trait Ranker: Send + Sync {
    /// Most letters that all terms together may have.
    fn most_letters(&self) -> usize;

    /// Scores all names for some terms. `None`: the engine has failed, and the CPU scores all.
    fn rank(&self, terms: &[Letters<'_>], limit: usize) -> Option<Ranked>;
}
