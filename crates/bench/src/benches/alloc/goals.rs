//! Goals of the rows.

use super::allocators::{MIMALLOC, PEERS, TCMALLOC};
use super::workload::Workload;
use crate::measure::report::Row;

/// Maximum number of instructions for an operation.
fn most_instructions(workload: Workload) -> f64 {
    if workload == Workload::TinyHot { 20.0 } else { 25.0 }
}

/// Adds the goal of a row of rates.
pub(super) fn rate_goal(row: Row, workload: Workload) -> Row {
    match workload {
        Workload::TinyHot => ahead_of_all(row),
        Workload::RandomMixed => ahead_of(ahead_of(row, MIMALLOC), TCMALLOC),
        Workload::ProducerConsumer | Workload::Larson | Workload::ThreadChurn => within_best_two(row),
    }
}

/// Adds the goal of a row of instructions.
pub(super) fn instructions_goal(row: Row, workload: Workload) -> Row {
    let most = most_instructions(workload);
    let reached = row.lanefs.median <= most;
    row.goal(format!("<= {most}"), reached)
}

/// Adds the goal of a row of memory.
pub(super) fn resident_goal(row: Row) -> Row {
    // Not by the ratio: a row in which LaneFS needs no memory at all has none.
    match row.peers.get(MIMALLOC).map(|peer| row.lanefs.median <= peer.median) {
        Some(reached) => row.goal(format!("<= {MIMALLOC}"), reached),
        None => row,
    }
}

fn ahead_of(row: Row, peer: &str) -> Row {
    match row.ratio.get(peer) {
        Some(&ratio) => row.goal(format!("> {peer}"), ratio > 1.0),
        None => row,
    }
}

fn ahead_of_all(row: Row) -> Row {
    if row.ratio.is_empty() {
        return row;
    }
    let reached = row.ratio.values().all(|&ratio| ratio > 1.0);
    let text = format!("> every peer{}", how_many(&row));
    row.goal(text, reached)
}

/// The limit that is not worse than the second-best peer; `None` with fewer than two peers.
fn within_best_two(row: Row) -> Row {
    if row.ratio.len() < 2 {
        return row;
    }
    let reached = row.ratio.values().filter(|&&ratio| ratio < 1.0).count() < 2;
    let text = format!(">= second-best peer{}", how_many(&row));
    row.goal(text, reached)
}

/// Appends the number of peers to a goal about all peers that was judged by fewer.
fn how_many(row: &Row) -> String {
    let there = row.ratio.len();
    if there == PEERS { String::new() } else { format!(" ({there} of {PEERS})") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    fn peers(values: &[f64]) -> BTreeMap<String, Vec<f64>> {
        let names = [MIMALLOC, TCMALLOC, "jemalloc", "glibc", "rpmalloc", "snmalloc"];
        names.iter().zip(values).map(|(name, &value)| ((*name).to_string(), vec![value])).collect()
    }

    fn rate(lanefs: f64, values: &[f64]) -> Row {
        Row::rate("r", "Mop/s", &[lanefs], &peers(values)).unwrap()
    }

    fn goals(row: &Row) -> String {
        let goals = row.goals.iter().map(|g| format!("{} {}", g.text, if g.reached { "yes" } else { "NO" }));
        goals.collect::<Vec<_>>().join(", ")
    }

    #[test]
    fn tiny_hot_is_to_be_ahead_of_every_peer() {
        let judged = |lanefs, values: &[f64]| goals(&rate_goal(rate(lanefs, values), Workload::TinyHot));
        assert_eq!(judged(10.0, &[9.0, 8.0, 7.0, 6.0, 5.0, 9.9]), "> every peer yes");
        assert_eq!(judged(10.0, &[9.0, 8.0, 7.0, 6.0, 5.0, 10.0]), "> every peer NO");
        assert_eq!(judged(10.0, &[9.0]), "> every peer (1 of 6) yes");
        assert_eq!(judged(10.0, &[]), "");
    }

    #[test]
    fn random_mixed_is_to_be_ahead_of_two() {
        let judged = |lanefs, values: &[f64]| goals(&rate_goal(rate(lanefs, values), Workload::RandomMixed));
        assert_eq!(judged(10.0, &[9.0, 11.0, 90.0]), "> mimalloc yes, > tcmalloc NO");
        assert_eq!(judged(10.0, &[9.0]), "> mimalloc yes");
    }

    #[test]
    fn the_others_are_to_be_no_worse_than_the_second_best() {
        let judged = |lanefs, values: &[f64]| goals(&rate_goal(rate(lanefs, values), Workload::Larson));
        assert_eq!(judged(10.0, &[12.0, 10.0, 3.0, 3.0, 3.0, 3.0]), ">= second-best peer yes");
        assert_eq!(judged(10.0, &[12.0, 11.0, 3.0, 3.0, 3.0, 3.0]), ">= second-best peer NO");
        assert_eq!(judged(10.0, &[12.0, 9.0]), ">= second-best peer (2 of 6) yes");
        assert_eq!(judged(10.0, &[12.0]), "");
    }

    #[test]
    fn costs_have_a_limit_or_a_peer() {
        let cost = |lanefs: f64, values: &[f64]| Row::new("r", "u", &[lanefs], &peers(values)).unwrap();
        assert_eq!(goals(&instructions_goal(cost(20.0, &[]), Workload::TinyHot)), "<= 20 yes");
        assert_eq!(goals(&instructions_goal(cost(25.1, &[]), Workload::RandomMixed)), "<= 25 NO");
        assert_eq!(goals(&resident_goal(cost(5.0, &[5.0, 1.0]))), "<= mimalloc yes");
        assert_eq!(goals(&resident_goal(cost(0.0, &[5.0]))), "<= mimalloc yes");
        assert_eq!(goals(&resident_goal(cost(6.0, &[5.0]))), "<= mimalloc NO");
        assert_eq!(goals(&resident_goal(cost(6.0, &[]))), "");
    }
}
