//! Queries over all names, each one from the matches of a former one where it can.

use super::names::{EntryId, Names};
use super::query::Query;
use super::ranking::{Rank, score};
use super::scan::{Prepared, Range, Scan};
use std::cmp::Reverse;
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
}

/// A query and the entries that match it.
struct Former {
    query: Query,
    matched: Vec<Range>,
}

impl<'n> Finder<'n> {
    /// Makes a finder that works on so many threads.
    pub fn new(names: &'n Names, threads: usize) -> Self {
        Finder { names, threads, former: Vec::new() }
    }

    /// The names.
    pub fn names(&self) -> &'n Names {
        self.names
    }

    /// Returns the best matches of a query, at most `limit`, and the number of all matches. Matches of a
    /// higher score come first, of these shorter paths, of these the order of the names. An empty query
    /// matches all names, in their order.
    pub fn search(&mut self, query: &Query, limit: usize) -> (Vec<Match>, usize) {
        let all = self.names.len();
        if query.is_empty() {
            self.former.clear();
            let best = (0..all.min(limit) as EntryId).map(|id| Match { id, score: 0 });
            return (best.collect(), all);
        }
        while self.former.last().is_some_and(|former| !query.narrows(&former.query)) {
            self.former.pop();
        }
        let everything = [(0, all as EntryId)];
        let within = self.former.last().map_or(&everything[..], |former| &former.matched);
        let (matched, mut ranks) = self.scan(query, within, limit);
        ranks.sort_unstable_by_key(|rank| Reverse(*rank));
        ranks.truncate(limit);
        let best = ranks.iter().map(|(key, Reverse(id))| Match { id: *id, score: score(*key) }).collect();
        let count = matched.iter().map(|(first, end)| (end - first) as usize).sum();
        if self.former.last().is_none_or(|former| former.query != *query) {
            if self.former.len() == KEPT {
                self.former.remove(0);
            }
            self.former.push(Former { query: query.clone(), matched });
        }
        (best, count)
    }

    fn scan(&self, query: &Query, within: &[Range], limit: usize) -> (Vec<Range>, Vec<Rank>) {
        let query = Prepared::new(query);
        let parts = parts(within);
        let next = AtomicUsize::new(0);
        let work = || {
            let mut scan = Scan::new(self.names, &query, limit);
            let mut done = Vec::new();
            // Relaxed: the counter alone gives each part to one thread.
            loop {
                let number = next.fetch_add(1, Ordering::Relaxed);
                let Some(ranges) = parts.get(number) else { break };
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
        (all, ranks)
    }
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
