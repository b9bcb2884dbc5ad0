//! Objects that other threads free.

use super::explorer::{explore, finds};
use super::stage::{BIG, GUARDED, Object, Stage};
use crate::checks::Checks;
use crate::planted::PlantedBug::{EarlyReuse, LostUpdate, Miscount, NoSwap, SameSlot};
use lanefs_sync::point;
use shuttle::thread;
use std::sync::Mutex;

/// Objects on their way from one thread to another.
#[derive(Default)]
struct Way(Mutex<Vec<Object>>);

impl Way {
    fn send(&self, object: Object) {
        self.0.lock().expect("nobody fails with it").push(object);
    }

    /// Takes an object, if there is one.
    fn receive(&self) -> Option<Object> {
        point();
        self.0.lock().expect("nobody fails with it").pop()
    }
}

/// An owner takes, gives away and frees; `others` threads free what it gives away, as far as they come to it.
fn away_and_home(stage: Stage, size: usize, others: usize) {
    let way = Way::default();
    thread::scope(|scope| {
        scope.spawn(|| {
            let lane = stage.begin();
            for _ in 0..3 {
                let mut own: Vec<Object> = (0..4).map(|_| lane.take(size)).collect();
                own.drain(..3).for_each(|object| way.send(object));
                own.into_iter().for_each(|object| lane.free(object));
            }
            lane.end();
        });
        for _ in 0..others {
            scope.spawn(|| {
                let lane = stage.begin();
                let mine = lane.take(size);
                for _ in 0..6 {
                    way.receive().into_iter().for_each(|object| lane.free(object));
                }
                lane.free(mine);
                lane.end();
            });
        }
    });
    let lane = stage.begin();
    while let Some(object) = way.receive() {
        lane.free(object);
    }
    lane.end();
    stage.end();
}

fn an_owner_and_a_thread() {
    away_and_home(Stage::new(), BIG, 1);
}

fn an_owner_and_three_threads() {
    away_and_home(Stage::new(), BIG, 3);
}

fn an_owner_and_a_thread_with_margins() {
    away_and_home(Stage::with_checks(Checks::Full), GUARDED, 1);
}

fn large_objects() {
    away_and_home(Stage::new(), 300 << 10, 2);
}

/// Two owners; a thread frees for both by turns, in batches that are long enough and in ones that are not.
fn batches_for_two() {
    let stage = Stage::new();
    let ways = [Way::default(), Way::default()];
    thread::scope(|scope| {
        for way in &ways {
            let stage = &stage;
            scope.spawn(move || {
                let lane = stage.begin();
                (0..7).map(|_| lane.take(BIG)).for_each(|object| way.send(object));
                let more: Vec<Object> = (0..3).map(|_| lane.take(BIG)).collect();
                more.into_iter().for_each(|object| lane.free(object));
                lane.end();
            });
        }
        scope.spawn(|| {
            let lane = stage.begin();
            for (way, most) in [(0, 4), (1, 1), (0, 1), (1, 6), (0, 2)] {
                for object in (0..most).map_while(|_| ways[way].receive()) {
                    lane.free(object);
                }
            }
            lane.end();
        });
    });
    let lane = stage.begin();
    for way in &ways {
        while let Some(object) = way.receive() {
            lane.free(object);
        }
    }
    lane.end();
    stage.end();
}

#[test]
fn an_owner_gets_back_what_another_thread_frees() {
    explore(4000, an_owner_and_a_thread);
}

#[test]
fn threads_that_free_for_one_heap_lose_nothing() {
    explore(2000, an_owner_and_three_threads);
}

#[test]
fn margins_travel_with_objects() {
    explore(1000, an_owner_and_a_thread_with_margins);
}

#[test]
fn large_objects_are_freed_by_any_thread() {
    explore(2000, large_objects);
}

#[test]
fn batches_come_home_whole() {
    explore(2500, batches_for_two);
}

#[test]
fn canary_an_inbox_that_forgets_what_others_added_is_noticed() {
    finds(LostUpdate, 700, an_owner_and_three_threads);
}

#[test]
fn canary_an_inbox_that_is_read_and_then_emptied_is_noticed() {
    finds(NoSwap, 8000, an_owner_and_three_threads);
}

#[test]
fn canary_two_senders_with_the_same_places_are_noticed() {
    finds(SameSlot, 2000, an_owner_and_three_threads);
}

#[test]
fn canary_places_that_are_given_out_before_they_are_empty_are_noticed() {
    finds(EarlyReuse, 8000, an_owner_and_three_threads);
}

#[test]
fn canary_a_batch_that_is_counted_wrong_is_noticed() {
    finds(Miscount, 1000, batches_for_two);
}
