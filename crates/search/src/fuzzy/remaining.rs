//! Entries that another engine left to the CPU, on all threads.

use super::names::{EntryId, Names};
use super::query::Term;
use super::ranking::{Rank, key};
use super::whole::Whole;
use std::cmp::Reverse;

/// Fewest entries for which a thread pays.
const PART: usize = 1 << 10;

/// Returns the ranks of the entries that match some groups of terms. Each entry has a score already, to which
/// those of the groups are added.
pub(super) fn decide(
    names: &Names,
    threads: usize,
    entries: &[(EntryId, u32)],
    groups: &[&[Term]],
) -> Vec<Rank> {
    let part = entries.len().div_ceil(threads.max(1)).max(PART);
    let mut parts = entries.chunks(part);
    let own = parts.next().unwrap_or(&[]);
    std::thread::scope(|scope| {
        let others: Vec<_> = parts
            .map(|part| {
                let started =
                    std::thread::Builder::new().spawn_scoped(scope, || decide_part(names, part, groups));
                (part, started)
            })
            .collect();
        let mut ranks = decide_part(names, own, groups);
        for (part, started) in others {
            match started.map(|thread| thread.join()) {
                Ok(Ok(more)) => ranks.extend(more),
                Ok(Err(panic)) => std::panic::resume_unwind(panic),
                Err(_) => ranks.extend(decide_part(names, part, groups)),
            }
        }
        ranks
    })
}

fn decide_part(names: &Names, entries: &[(EntryId, u32)], groups: &[&[Term]]) -> Vec<Rank> {
    let (mut whole, mut path, mut ranks) = (Whole::new(), Vec::new(), Vec::new());
    for (id, score) in entries {
        path.clear();
        names.push_path(*id, &mut path);
        whole.set(&path);
        let sum = groups.iter().try_fold(*score, |sum, group| Some(sum + whole.group(&path, group)?));
        ranks.extend(sum.map(|sum| (key(sum, path.len()), Reverse(*id))));
    }
    ranks
}
