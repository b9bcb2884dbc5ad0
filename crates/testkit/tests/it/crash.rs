//! Power cuts: the state of a volume after each of 40,000 crashes.
//!
//! `LANEFS_CRASH_CASE=...` with the test `one_case` replays one of them; `LANEFS_CRASH_STATES` and
//! `LANEFS_SEED` set the number of states and the first workload of the long test.

use lanefs_testkit::crash::{
    Case, CrashFailure, Effort, Family, FlushKind, Plant, Recording, Tally, Workload, all_workloads,
    corrupt_commits, explore, plant, random_workloads, record, run_case, run_many, run_workload,
};
use std::sync::atomic::AtomicBool;

fn number(name: &str, default: u64) -> u64 {
    match std::env::var(name) {
        Ok(text) => text.parse().unwrap_or_else(|_| panic!("{name}={text}: a whole number was expected")),
        Err(_) => default,
    }
}

fn passes<T>(result: Result<T, Box<CrashFailure>>) -> T {
    result.unwrap_or_else(|failure| panic!("{failure}"))
}

fn threads() -> usize {
    std::thread::available_parallelism().map_or(2, usize::from)
}

#[test]
fn after_a_power_cut_the_volume_is_as_it_was_after_some_operation_since_the_last_sync() {
    let states = number("LANEFS_CRASH_STATES", 40_000);
    let stop = AtomicBool::new(false);
    let enough = |tally: &Tally| tally.states < states;
    let workloads = all_workloads(number("LANEFS_SEED", 1));
    let tally = passes(run_many(workloads, &Effort::TEST, threads(), &stop, &enough));
    println!("{tally:?}");
    assert!(tally.states >= states, "{tally:?}");
    assert!(tally.workloads >= Family::Seq1.count().unwrap_or(0), "{tally:?}");
    // Recovery had work in many of the states, and was itself cut short often.
    assert!(tally.recovered * 20 > tally.states && tally.again * 20 > tally.states, "{tally:?}");
}

#[test]
fn a_power_cut_while_a_volume_grows_leaves_it_as_large_as_before_or_after() {
    let mut tally = Tally::default();
    for number in 0..number("LANEFS_GROWTHS", 12) {
        let effort = Effort { most: 400, ..Effort::TEST };
        passes(run_workload(Family::Grow, number, &effort, &mut tally));
    }
    println!("{tally:?}");
    assert!(tally.recovered > 0 && tally.again > 0, "{tally:?}");
}

#[test]
fn no_state_shows_half_a_copy() {
    let mut tally = Tally::default();
    for number in 0..24 {
        passes(run_workload(Family::Copies, number, &Effort::TEST, &mut tally));
    }
    assert!(tally.states > 1000, "{tally:?}");
}

#[test]
fn a_power_cut_among_names_of_one_hash_loses_none() {
    let mut tally = Tally::default();
    for number in 0..8 {
        let effort = Effort { most: 250, ..Effort::TEST };
        passes(run_workload(Family::OneHash, number, &effort, &mut tally));
    }
    println!("{tally:?}");
    assert!(tally.recovered > 0 && tally.again > 0, "{tally:?}");
}

#[test]
fn one_case() {
    if let Ok(text) = std::env::var("LANEFS_CRASH_CASE") {
        let case: Case = text.parse().unwrap_or_else(|what| panic!("{what}"));
        passes(run_case(&case, &mut Tally::default()));
    }
}

/// Crash states within which a planted bug must be caught.
const MOST_STATES: u64 = 6000;

/// Returns the number of states tried until the bug was caught.
fn must_be_caught(fault: Plant) -> u64 {
    must_be_caught_with(&fault, &Effort::TEST, |recording| plant(recording, fault))
}

fn must_be_caught_with(
    fault: &dyn std::fmt::Debug,
    effort: &Effort,
    plant: impl Fn(&mut Recording) -> usize,
) -> u64 {
    let (mut tally, mut planted) = (Tally::default(), 0);
    for (family, number) in random_workloads(77) {
        let effort = Effort { most: MOST_STATES.saturating_sub(tally.all()), ..*effort };
        if effort.most == 0 {
            break;
        }
        let mut recording = record(&Workload::new(family, number)).unwrap_or_else(|what| panic!("{what}"));
        let here = plant(&mut recording);
        planted += here;
        if here > 0 && explore(&recording, &effort, None, &mut tally).is_err() {
            println!("{fault:?}: caught in {} states", tally.all());
            return tally.all();
        }
        tally.workloads += 1;
        assert!(tally.workloads < 200, "{fault:?}: planted {planted} times in 200 workloads");
    }
    panic!("{fault:?}, planted {planted} times, is not caught in {tally:?}");
}

#[test]
fn a_device_that_ignores_flushes_is_caught() {
    must_be_caught(Plant::IgnoredFlushes);
}

#[test]
fn a_commit_without_a_flush_of_the_data_before_it_is_caught() {
    must_be_caught(Plant::DroppedFlush(FlushKind::Data));
}

#[test]
fn a_commit_without_a_flush_of_its_record_is_caught() {
    must_be_caught(Plant::DroppedFlush(FlushKind::Record));
}

#[test]
fn blocks_in_place_without_a_flush_before_the_header_are_caught() {
    must_be_caught(Plant::DroppedFlush(FlushKind::InPlace));
}

#[test]
fn a_header_that_is_not_flushed_before_its_space_is_written_over_is_caught() {
    let recorded =
        |(family, number)| record(&Workload::new(family, number)).unwrap_or_else(|what| panic!("{what}"));
    let fault = Plant::DroppedFlush(FlushKind::Header);
    // A journal whose commits all begin at the same position has no such flush.
    if random_workloads(77).take(20).any(|workload| plant(&mut recorded(workload), fault) > 0) {
        must_be_caught(fault);
    }
}

#[test]
fn a_commit_that_is_not_journaled_is_caught() {
    must_be_caught(Plant::NoJournal);
}

#[test]
fn blocks_that_go_to_their_home_positions_before_the_journal_is_flushed_are_caught() {
    must_be_caught(Plant::InPlaceBeforeRecord);
}

#[test]
fn a_sync_that_returns_too_early_is_caught() {
    must_be_caught(Plant::EarlyReturn);
}

#[test]
fn a_recovery_that_does_not_flush_is_caught() {
    let effort = Effort { lazy_recovery: true, again_every: 5, ..Effort::TEST };
    must_be_caught_with(&"recovery without a flush", &effort, |_| 1);
}

#[test]
fn a_file_that_grows_after_a_crash_shows_zeros_behind_its_old_end() {
    let effort = Effort { tails: true, again_every: 5, ..Effort::TEST };
    let workloads = random_workloads(5).take(30);
    let tally = passes(run_many(workloads, &effort, threads(), &AtomicBool::new(false), &|_| true));
    assert_eq!(tally.workloads, 30);
}

#[test]
fn a_state_that_was_found_wrong_is_found_again_by_its_name() {
    let (mut once, mut twice) = (0, 0);
    for number in 0..20 {
        // A wrong commit is found at the first crash, a wrong recovery at the second.
        let lazy = number % 2 == 0;
        let effort = Effort { lazy_recovery: lazy, again_every: 2, ..Effort::TEST };
        let recorded = || {
            let recorded = record(&Workload::new(Family::Seq2, number));
            let mut recording = recorded.unwrap_or_else(|what| panic!("{what}"));
            if !lazy {
                plant(&mut recording, Plant::DroppedFlush(FlushKind::Record));
            }
            recording
        };
        let Err(found) = explore(&recorded(), &effort, None, &mut Tally::default()) else { continue };
        let (only, mut tally) = (Some((found.crash, found.again)), Tally::default());
        let again = explore(&recorded(), &effort, only, &mut tally).expect_err("the same state");
        assert_eq!((again.crash, again.again, tally.states), (found.crash, found.again, 1));
        *(if found.again.is_some() { &mut twice } else { &mut once }) += 1;
    }
    assert!(once > 0 && twice > 0, "{once} states after one crash, {twice} after two");
}

#[test]
fn a_commit_with_a_flipped_bit_is_not_applied() {
    let mut commits = 0;
    for (family, number) in random_workloads(5).take(150) {
        let recording = record(&Workload::new(family, number)).unwrap_or_else(|what| panic!("{what}"));
        match corrupt_commits(&recording) {
            Ok(done) => commits += done.commits,
            Err(what) => panic!("{family}:{number}: {what}"),
        }
    }
    assert!(commits >= 200, "{commits} commits");
}
