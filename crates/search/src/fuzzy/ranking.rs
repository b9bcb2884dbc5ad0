//! The best of many entries.

use super::names::EntryId;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Rank of a match: a higher score first, then a shorter path, then the order of the names.
pub(super) type Rank = (u64, Reverse<EntryId>);

/// The part of a rank that does not depend on the entry.
pub(super) fn key(score: u32, path_len: usize) -> u64 {
    u64::from(score) << 32 | u64::from(u32::MAX - u32::try_from(path_len).unwrap_or(u32::MAX))
}

/// The score in a key.
pub(super) fn score(key: u64) -> u32 {
    (key >> 32) as u32
}

/// The best entries so far.
pub(super) struct Ranking {
    limit: usize,
    /// The worst one on top.
    best: BinaryHeap<Reverse<Rank>>,
}

impl Ranking {
    pub(super) fn new(limit: usize) -> Self {
        Ranking { limit, best: BinaryHeap::new() }
    }

    /// The least key that can still be among the best.
    pub(super) fn threshold(&self) -> u64 {
        match self.best.peek() {
            _ if self.limit == 0 => u64::MAX,
            Some(Reverse((key, _))) if self.best.len() >= self.limit => *key,
            _ => 0,
        }
    }

    /// Adds an entry, if it is one of the best.
    pub(super) fn add(&mut self, key: u64, id: EntryId) {
        let rank = (key, Reverse(id));
        if self.best.len() < self.limit {
            self.best.push(Reverse(rank));
        } else if let Some(mut worst) = self.best.peek_mut()
            && worst.0 < rank
        {
            worst.0 = rank;
        }
    }

    /// The entries, in no order.
    pub(super) fn into_ranks(self) -> impl Iterator<Item = Rank> {
        self.best.into_iter().map(|Reverse(rank)| rank)
    }
}
