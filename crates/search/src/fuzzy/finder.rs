//! Queries over all names, each one from the matches of a former one where it can.

use super::names::{EntryId, Names};
use super::query::{Query, Term};
use super::ranker::{Letters, Ranker};
use super::ranking::{Rank, key, score};
use super::remaining;
use super::scan::{Prepared, Range, Scan};
use std::cmp::Reverse;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Entries that a thread takes at once.
const PART: u32 = 1 << 14;
/// Former queries that are kept, for a query that shrinks again.
const KEPT: usize = 32;

/// An entry that matches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Match {
    /// The entry.
    pub id: EntryId,
    /// Its score.
    pub score: u32,
}

/// Ranks names for queries.
pub struct Finder<'n> {
    names: &'n Names,
    threads: usize,
    former: Vec<Former>,
    ranker: Option<Arc<dyn Ranker>>,
}

/// A query and the entries that match it.
struct Former {
    query: Query,
    matched: Vec<Range>,
}

impl<'n> Finder<'n> {
    /// Makes a finder that works on so many threads.
    pub fn new(names: &'n Names, threads: usize) -> Self {
        Finder { names, threads, former: Vec::new(), ranker: None }
    }

    /// Has another engine score all names for the fuzzy terms of queries. The results are the same.
    pub fn with_ranker(mut self, ranker: Arc<dyn Ranker>) -> Self {
        self.ranker = Some(ranker);
        self
    }

    /// The names.
    pub fn names(&self) -> &'n Names {
        self.names
    }

    /// Returns the best matches of a query, at most `limit`, and the number of all matches. Matches of a
    /// higher score come first, of these shorter paths, of these the order of the names. An empty query
    /// matches all names, in their order.
    pub fn search(&mut self, query: &Query, limit: usize) -> (Vec<Match>, usize) {
        self.search_until(query, limit, &|| false).unwrap_or_default()
    }

    /// Does the same, or returns `None` once `stops` returns true.
    pub fn search_until(
        &mut self,
        query: &Query,
        limit: usize,
        stops: &(dyn Fn() -> bool + Sync),
    ) -> Option<(Vec<Match>, usize)> {
        let all = self.names.len();
        if query.is_empty() {
            self.former.clear();
            let best = (0..all.min(limit) as EntryId).map(|id| Match { id, score: 0 });
            return Some((best.collect(), all));
        }
        if let Some(found) = self.by_ranker(query, limit) {
            return Some(found).filter(|_| !stops());
        }
        while self.former.last().is_some_and(|former| !query.narrows(&former.query)) {
            self.former.pop();
        }
        let everything = [(0, all as EntryId)];
        let within = self.former.last().map_or(&everything[..], |former| &former.matched);
        let (matched, ranks) = self.scan(query, within, limit, stops)?;
        let best = best_of(ranks, limit);
        let count = matched.iter().map(|(first, end)| (end - first) as usize).sum();
        if self.former.last().is_none_or(|former| former.query != *query) {
            if self.former.len() == KEPT {
                self.former.remove(0);
            }
            self.former.push(Former { query: query.clone(), matched });
        }
        Some((best, count))
    }

    /// Searches with the other engine; `None` where there is none, where it failed, or where the query has
    /// nothing for it.
    fn by_ranker(&self, query: &Query, limit: usize) -> Option<(Vec<Match>, usize)> {
        let ranker = self.ranker.as_deref()?;
        let (terms, others) = divide(query, ranker.most_letters());
        if terms.is_empty() {
            return None;
        }
        // The other terms may change the order.
        let asked = if others.is_empty() { limit } else { usize::MAX };
        let ranked = ranker.rank(&terms, asked)?;
        let rank = |(id, score): &(EntryId, u32)| (key(*score, self.names.path_len(*id)), Reverse(*id));
        let (mut ranks, mut count) = if others.is_empty() {
            (ranked.best.iter().map(rank).collect(), ranked.count)
        } else {
            let ranks = remaining::decide(self.names, self.threads, &ranked.best, &others);
            let count = ranks.len();
            (ranks, count)
        };
        let undecided: Vec<(EntryId, u32)> = ranked.undecided.iter().map(|id| (*id, 0)).collect();
        let all: Vec<&[Term]> = query.groups.iter().map(Vec::as_slice).collect();
        let more = remaining::decide(self.names, self.threads, &undecided, &all);
        count += more.len();
        ranks.extend(more);
        Some((best_of(ranks, limit), count))
    }

    fn scan(
        &self,
        query: &Query,
        within: &[Range],
        limit: usize,
        stops: &(dyn Fn() -> bool + Sync),
    ) -> Option<(Vec<Range>, Vec<Rank>)> {
        let query = Prepared::new(query);
        let parts = parts(within);
        let next = AtomicUsize::new(0);
        let work = || {
            let mut scan = Scan::new(self.names, &query, limit);
            let mut done = Vec::new();
            // Relaxed: the counter alone gives each part to one thread.
            loop {
                let number = next.fetch_add(1, Ordering::Relaxed);
                let Some(ranges) = parts.get(number).filter(|_| !stops()) else { break };
                let mut matched = Vec::new();
                ranges.iter().for_each(|range| scan.search(*range, &mut matched));
                done.push((number, matched));
            }
            (done, scan.ranking)
        };
        let mut results = Vec::new();
        std::thread::scope(|scope| {
            let others: Vec<_> = (1..self.threads.min(parts.len()))
                .map_while(|_| std::thread::Builder::new().spawn_scoped(scope, work).ok())
                .collect();
            results.push(work());
            for other in others {
                match other.join() {
                    Ok(result) => results.push(result),
                    Err(panic) => std::panic::resume_unwind(panic),
                }
            }
        });
        if stops() {
            return None;
        }
        let mut done = Vec::new();
        let mut ranks = Vec::new();
        for (matched, ranking) in results {
            done.extend(matched);
            ranks.extend(ranking.into_ranks());
        }
        done.sort_unstable_by_key(|(number, _)| *number);
        let mut all: Vec<Range> = Vec::new();
        for range in done.into_iter().flat_map(|(_, matched)| matched) {
            match all.last_mut() {
                Some(last) if last.1 == range.0 => last.1 = range.1,
                _ => all.push(range),
            }
        }
        Some((all, ranks))
    }
}

/// Divides a query into fuzzy terms of at most so many letters together, and the other groups of terms.
fn divide(query: &Query, most_letters: usize) -> (Vec<Letters<'_>>, Vec<&[Term]>) {
    let (mut terms, mut others, mut room) = (Vec::new(), Vec::new(), most_letters);
    for group in &query.groups {
        let letters = match &group[..] {
            [term] => term.letters().map(|bytes| Letters { bytes, ignores_case: term.ignores_case }),
            _ => None,
        };
        match letters.filter(|letters| letters.bytes.len() <= room) {
            Some(letters) => {
                room -= letters.bytes.len();
                terms.push(letters);
            }
            None => others.push(&group[..]),
        }
    }
    (terms, others)
}

/// The best of some ranks, in their order.
fn best_of(mut ranks: Vec<Rank>, limit: usize) -> Vec<Match> {
    ranks.sort_unstable_by_key(|rank| Reverse(*rank));
    ranks.truncate(limit);
    ranks.iter().map(|(key, Reverse(id))| Match { id: *id, score: score(*key) }).collect()
}

/// Divides entries into parts of about the same number.
fn parts(within: &[Range]) -> Vec<Vec<Range>> {
    let mut parts = vec![Vec::new()];
    let mut room = PART;
    for (mut first, end) in within.iter().copied() {
        while first < end {
            if room == 0 {
                parts.push(Vec::new());
                room = PART;
            }
            let until = end.min(first.saturating_add(room));
            room -= until - first;
            if let Some(part) = parts.last_mut() {
                part.push((first, until));
            }
            first = until;
        }
    }
    parts
}
