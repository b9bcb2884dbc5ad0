//! Threads that end and begin, memory that goes back to the host meanwhile, and forks.

use super::explorer::{explore, finds};
use super::stage::{BIG, Lane, Object, Stage};
use crate::planted::PlantedBug::{EarlyAbandon, OpenLock, PoolNotLocked, TrimInList};
use lanefs_sync::point;
use shuttle::thread;
use std::sync::Mutex;

fn some(lane: &Lane<'_>, count: usize) -> Vec<Object> {
    (0..count).map(|_| lane.take(BIG)).collect()
}

/// A thread takes objects, frees half of them, and ends; the others are left for whoever comes.
fn short_life(stage: &Stage, left: &Mutex<Vec<Object>>) {
    let lane = stage.begin();
    let mut own = some(&lane, 5);
    own.drain(..2).for_each(|object| lane.free(object));
    left.lock().expect("nobody fails with it").append(&mut own);
    lane.end();
}

/// A thread that frees what others left.
fn heir(stage: &Stage, left: &Mutex<Vec<Object>>) {
    let lane = stage.begin();
    let own = some(&lane, 2);
    for _ in 0..3 {
        point();
        let object = left.lock().expect("nobody fails with it").pop();
        object.into_iter().for_each(|object| lane.free(object));
    }
    own.into_iter().for_each(|object| lane.free(object));
    lane.end();
}

/// Threads that end while others free to their heaps, and others that adopt these heaps; `beside` is done
/// meanwhile.
fn generations_and(beside: impl Fn(&Stage) + Sync) {
    let stage = Stage::new();
    let left = Mutex::default();
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                short_life(&stage, &left);
                heir(&stage, &left);
            });
        }
        scope.spawn(|| heir(&stage, &left));
        beside(&stage);
    });
    let lane = stage.begin();
    for object in left.into_inner().expect("nobody failed") {
        lane.free(object);
    }
    lane.end();
    stage.end();
}

fn generations() {
    generations_and(|_| {});
}

/// With one that has a heap and gives memory back, and one that has none and does so too.
fn generations_and_releases() {
    generations_and(|stage| {
        let lane = stage.begin();
        let own = some(&lane, 3);
        lane.release();
        own.iter().for_each(Object::look);
        own.into_iter().for_each(|object| lane.free(object));
        lane.release();
        lane.end();
        stage.registry.release(None);
    });
}

/// A heap without a thread, to which much came, is adopted while memory is released.
fn an_heir_and_a_release() {
    let stage = Stage::new();
    let (first, second) = (stage.begin(), stage.begin());
    let objects = some(&first, 21);
    first.end();
    objects.into_iter().for_each(|object| second.free(object));
    thread::scope(|scope| {
        scope.spawn(|| stage.registry.release(None));
        scope.spawn(|| {
            let lane = stage.begin();
            for _ in 0..2 {
                let own = some(&lane, 9);
                own.into_iter().for_each(|object| lane.free(object));
            }
            lane.end();
        });
    });
    second.end();
    stage.end();
}

/// A thread with much in its magazines ends while another begins.
fn an_end_and_a_beginning() {
    let stage = Stage::new();
    let first = stage.begin();
    let kept = some(&first, 14);
    for _ in 0..3 {
        some(&first, 2).into_iter().for_each(|object| first.free(object));
    }
    kept.into_iter().for_each(|object| first.free(object));
    thread::scope(|scope| {
        scope.spawn(|| first.end());
        scope.spawn(|| {
            let lane = stage.begin();
            for count in [2, 9] {
                some(&lane, count).into_iter().for_each(|object| lane.free(object));
            }
            lane.end();
        });
    });
    stage.end();
}

/// With one that is about to copy the process, twice: nothing may change that the copy would find half done.
fn generations_and_forks() {
    generations_and(|stage| {
        for _ in 0..2 {
            stage.registry.lock_for_fork();
            // SAFETY: held, so that nobody else may have the pool.
            let pool = unsafe { stage.registry.backend.pool.peek() };
            let before = pool.in_use();
            for _ in 0..5 {
                point();
                assert_eq!(pool.in_use(), before, "units were taken or given back while all is held");
            }
            stage.registry.unlock_after_fork();
        }
    });
}

/// The child of a fork: the forking thread continues with its heap, and new threads begin.
fn after_a_fork() {
    let stage = Stage::new();
    let lane = stage.begin();
    let own = some(&lane, 3);
    stage.registry.lock_for_fork();
    stage.registry.unlock_after_fork();
    thread::scope(|scope| {
        scope.spawn(|| heir(&stage, &Mutex::default()));
        scope.spawn(|| {
            stage.registry.lock_for_fork();
            stage.registry.unlock_after_fork();
        });
    });
    own.into_iter().for_each(|object| lane.free(object));
    lane.end();
    stage.end();
}

#[test]
fn a_heap_goes_from_thread_to_thread_with_all_that_is_in_it() {
    explore(3000, generations);
    explore(1000, an_end_and_a_beginning);
}

#[test]
fn memory_is_released_beside_all_that() {
    explore(2000, generations_and_releases);
    explore(1000, an_heir_and_a_release);
}

#[test]
fn nothing_changes_while_the_process_is_copied() {
    explore(2000, generations_and_forks);
    explore(1000, after_a_fork);
}

#[test]
fn canary_a_heap_that_is_abandoned_before_it_is_emptied_is_noticed() {
    finds(EarlyAbandon, 1000, an_end_and_a_beginning);
}

#[test]
fn canary_heaps_that_are_adopted_without_the_lock_are_noticed() {
    finds(OpenLock, 1000, generations);
}

#[test]
fn canary_a_heap_that_is_trimmed_while_it_can_be_adopted_is_noticed() {
    finds(TrimInList, 1000, an_heir_and_a_release);
}

#[test]
fn canary_a_pool_that_is_not_held_is_noticed() {
    finds(PoolNotLocked, 700, generations_and_forks);
}
