//! The hand-over under many schedules.

use super::hand_over::{FoundBatch, HandOver, Held, OpenBatch, ReadyBatch, Stage};
use super::planted::PlantedBug;
use crate::batches::read_files::Located;
use crate::vocabulary::path_set::PathSet;
use lanefs_sync::Explorer;
use shuttle::thread;
use std::sync::Arc;

const BATCHES: usize = 5;
const SCHEDULES: usize = 2000;

/// The finder and the reader, with batches of one file of 4 bytes: each takes 20 bytes.
fn start(memory: u64) -> (Arc<HandOver>, [thread::JoinHandle<()>; 2]) {
    let home = Arc::new(HandOver::new(memory, 4));
    let finder = home.clone();
    let finder = thread::spawn(move || {
        let paths = Arc::new(PathSet::new());
        let batch = |i| FoundBatch {
            part: i..i + 1,
            paths: paths.clone(),
            first_path: 0,
            located: vec![Located::of_len(4)],
        };
        let _ = (0..BATCHES).all(|i| finder.offer(Ok(batch(i))));
        finder.end(Stage::Find);
    });
    let reader = home.clone();
    let reader = thread::spawn(move || {
        loop {
            let batches = reader.batches_to_read();
            if batches.is_empty() {
                break;
            }
            let read = |batch: OpenBatch| {
                let mut room = batch.room;
                let files = batch.found.located.iter().map(|file| (file.code, file.len));
                room.contents.lay_out(files)?.fill(batch.found.part.start as u8);
                Ok(ReadyBatch { part: batch.found.part, room })
            };
            reader.deliver(batches.into_iter().map(|batch| batch.and_then(read)).collect());
        }
        reader.end(Stage::Read);
    });
    (home, [finder, reader])
}

fn next(home: &Arc<HandOver>) -> Option<(usize, Held)> {
    let ReadyBatch { part, room } = home.next()?.expect("a batch");
    assert_eq!(room.contents.bytes(), [part.start as u8; 4]);
    Some((part.start, Held::new(room, home)))
}

fn join(threads: [thread::JoinHandle<()>; 2]) {
    threads.into_iter().for_each(|thread| thread.join().expect("a thread ends"));
}

/// The caller holds one batch at a time.
fn one_after_the_other() {
    let (home, threads) = start(60);
    for i in 0..BATCHES {
        let batch = next(&home).expect("a batch");
        assert_eq!(batch.0, i);
    }
    assert!(next(&home).is_none());
    assert_eq!(home.memory(), 0);
    assert!(home.most_memory() <= 60, "{} bytes", home.most_memory());
    join(threads);
}

/// The caller keeps all batches, which are more than the memory has room for.
fn all_kept() {
    let (home, threads) = start(30);
    let batches: Vec<_> = std::iter::from_fn(|| next(&home)).collect();
    assert!(batches.iter().map(|batch| batch.0).eq(0..BATCHES));
    assert_eq!(home.memory(), 20 * BATCHES as u64);
    join(threads);
}

/// The caller ends in the middle, and keeps a batch.
fn stopped() {
    let (home, threads) = start(50);
    let kept = next(&home);
    home.stop();
    join(threads);
    drop(kept);
    assert_eq!(home.memory(), 0);
}

#[test]
fn batches_come_in_order_within_the_memory() {
    Explorer::new(1).explore(SCHEDULES, one_after_the_other);
}

#[test]
fn a_caller_that_keeps_all_batches_gets_all() {
    Explorer::new(2).explore(SCHEDULES, all_kept);
}

#[test]
fn both_threads_end_when_the_caller_stops() {
    Explorer::new(3).explore(SCHEDULES, stopped);
}

#[test]
fn canary_a_caller_that_is_not_woken_is_found() {
    Explorer::new(4).expect_failure(PlantedBug::ForgetsCaller, SCHEDULES, one_after_the_other);
}

#[test]
fn canary_a_caller_that_waits_in_vain_for_its_own_memory_is_found() {
    Explorer::new(5).expect_failure(PlantedBug::HidesWaitingCaller, SCHEDULES, all_kept);
}

#[test]
fn canary_threads_that_go_on_after_a_stop_are_found() {
    Explorer::new(6).expect_failure(PlantedBug::ForgetsStop, SCHEDULES, stopped);
}

#[test]
fn canary_a_window_beyond_the_memory_is_found() {
    Explorer::new(7).expect_failure(PlantedBug::IgnoresBudget, SCHEDULES, one_after_the_other);
}
