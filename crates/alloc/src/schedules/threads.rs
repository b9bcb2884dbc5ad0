//! Threads that end and begin, memory that goes back to the kernel meanwhile, and forks.

use super::explorer::{explore, finds};
use super::fixture::{BIG_BYTES, Fixture, Object, Worker};
use crate::planted::PlantedBug::{EarlyAbandon, OpenLock, PoolNotLocked, TrimInList};
use lanefs_sync::point;
use shuttle::thread;
use std::sync::Mutex;

fn some(worker: &Worker<'_>, count: usize) -> Vec<Object> {
    (0..count).map(|_| worker.take(BIG_BYTES)).collect()
}

/// A thread allocates objects, frees some of them, and ends; it leaves the others to other threads.
fn short_life(fixture: &Fixture, left: &Mutex<Vec<Object>>) {
    let worker = fixture.begin();
    let mut own = some(&worker, 5);
    own.drain(..2).for_each(|object| worker.free(object));
    left.lock().expect("no thread panics with the lock").append(&mut own);
    worker.end();
}

/// A thread frees objects that others left.
fn successor(fixture: &Fixture, left: &Mutex<Vec<Object>>) {
    let worker = fixture.begin();
    let own = some(&worker, 2);
    for _ in 0..3 {
        point();
        let object = left.lock().expect("no thread panics with the lock").pop();
        object.into_iter().for_each(|object| worker.free(object));
    }
    own.into_iter().for_each(|object| worker.free(object));
    worker.end();
}

/// Threads end while others free to their heaps, and others adopt these heaps; `beside` runs meanwhile.
fn generations_and(beside: impl Fn(&Fixture) + Sync) {
    let fixture = Fixture::new();
    let left = Mutex::default();
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                short_life(&fixture, &left);
                successor(&fixture, &left);
            });
        }
        scope.spawn(|| successor(&fixture, &left));
        beside(&fixture);
    });
    let worker = fixture.begin();
    for object in left.into_inner().expect("no thread panicked") {
        worker.free(object);
    }
    worker.end();
    fixture.end();
}

fn generations() {
    generations_and(|_| {});
}

/// Does the same beside a thread that gives memory back, first with a heap, then without.
fn generations_and_releases() {
    generations_and(|fixture| {
        let worker = fixture.begin();
        let own = some(&worker, 3);
        worker.release();
        own.iter().for_each(Object::check);
        own.into_iter().for_each(|object| worker.free(object));
        worker.release();
        worker.end();
        fixture.registry.release(None);
    });
}

/// Does the same beside a thread without a heap that does the upkeep of abandoned ones.
fn generations_and_upkeep() {
    generations_and(|fixture| {
        for _ in 0..3 {
            fixture.registry.tidy_now();
            point();
        }
    });
}

/// A thread adopts an abandoned heap with many objects in its inbox while another releases memory.
fn an_adoption_and_a_release() {
    let fixture = Fixture::new();
    let (first, second) = (fixture.begin(), fixture.begin());
    let objects = some(&first, 21);
    first.end();
    objects.into_iter().for_each(|object| second.free(object));
    thread::scope(|scope| {
        scope.spawn(|| fixture.registry.release(None));
        scope.spawn(|| {
            let worker = fixture.begin();
            for _ in 0..2 {
                let own = some(&worker, 9);
                own.into_iter().for_each(|object| worker.free(object));
            }
            worker.end();
        });
    });
    second.end();
    fixture.end();
}

/// A thread with full magazines ends while another begins.
fn an_end_and_a_beginning() {
    let fixture = Fixture::new();
    let first = fixture.begin();
    let kept = some(&first, 14);
    for _ in 0..3 {
        some(&first, 2).into_iter().for_each(|object| first.free(object));
    }
    kept.into_iter().for_each(|object| first.free(object));
    thread::scope(|scope| {
        scope.spawn(|| first.end());
        scope.spawn(|| {
            let worker = fixture.begin();
            for count in [2, 9] {
                some(&worker, count).into_iter().for_each(|object| worker.free(object));
            }
            worker.end();
        });
    });
    fixture.end();
}

/// Does the same beside a thread that forks twice: the state that the copy gets must not change meanwhile.
fn generations_and_forks() {
    generations_and(|fixture| {
        for _ in 0..2 {
            fixture.registry.lock_for_fork();
            // SAFETY: the fork has locked the pool.
            let pool = unsafe { fixture.registry.backend.pool.peek() };
            let before = pool.in_use();
            for _ in 0..5 {
                point();
                assert_eq!(
                    pool.in_use(),
                    before,
                    "units were taken or given back while everything is locked"
                );
            }
            fixture.registry.unlock_after_fork();
        }
    });
}

/// After a fork the thread that forked continues with its heap, and new threads begin.
fn after_a_fork() {
    let fixture = Fixture::new();
    let worker = fixture.begin();
    let own = some(&worker, 3);
    fixture.registry.lock_for_fork();
    fixture.registry.unlock_after_fork();
    thread::scope(|scope| {
        scope.spawn(|| successor(&fixture, &Mutex::default()));
        scope.spawn(|| {
            fixture.registry.lock_for_fork();
            fixture.registry.unlock_after_fork();
        });
    });
    own.into_iter().for_each(|object| worker.free(object));
    worker.end();
    fixture.end();
}

#[test]
fn a_heap_goes_from_thread_to_thread_with_all_that_is_in_it() {
    explore(3000, generations);
    explore(1000, an_end_and_a_beginning);
}

#[test]
fn memory_is_released_beside_all_that() {
    explore(2000, generations_and_releases);
    explore(1000, an_adoption_and_a_release);
    explore(2000, generations_and_upkeep);
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
    finds(TrimInList, 1000, an_adoption_and_a_release);
}

#[test]
fn canary_a_pool_that_is_not_locked_is_noticed() {
    finds(PoolNotLocked, 700, generations_and_forks);
}
