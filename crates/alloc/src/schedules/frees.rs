//! Objects that other threads free.

use super::explorer::{explore, finds};
use super::fixture::{BIG_BYTES, Fixture, GUARDED_BYTES, Object};
use crate::checking::checks::Checks;
use crate::planted::PlantedBug::{EarlyReuse, LostUpdate, Miscount, NoSwap, SameSlot};
use lanefs_sync::point;
use shuttle::thread;
use std::sync::Mutex;

/// Objects that one thread sends to another.
#[derive(Default)]
struct Mailbox(Mutex<Vec<Object>>);

impl Mailbox {
    fn send(&self, object: Object) {
        self.0.lock().expect("no thread panics with the lock").push(object);
    }

    /// Takes an object, if there is one.
    fn receive(&self) -> Option<Object> {
        point();
        self.0.lock().expect("no thread panics with the lock").pop()
    }
}

/// An owner allocates, sends and frees; `others` threads free objects that it sends.
fn send_and_free(fixture: Fixture, size: usize, others: usize) {
    let mailbox = Mailbox::default();
    thread::scope(|scope| {
        scope.spawn(|| {
            let worker = fixture.begin();
            for _ in 0..3 {
                let mut own: Vec<Object> = (0..4).map(|_| worker.take(size)).collect();
                own.drain(..3).for_each(|object| mailbox.send(object));
                own.into_iter().for_each(|object| worker.free(object));
            }
            worker.end();
        });
        for _ in 0..others {
            scope.spawn(|| {
                let worker = fixture.begin();
                let mine = worker.take(size);
                for _ in 0..6 {
                    mailbox.receive().into_iter().for_each(|object| worker.free(object));
                }
                worker.free(mine);
                worker.end();
            });
        }
    });
    let worker = fixture.begin();
    while let Some(object) = mailbox.receive() {
        worker.free(object);
    }
    worker.end();
    fixture.end();
}

fn an_owner_and_a_thread() {
    send_and_free(Fixture::new(), BIG_BYTES, 1);
}

fn an_owner_and_three_threads() {
    send_and_free(Fixture::new(), BIG_BYTES, 3);
}

fn an_owner_and_a_thread_with_guard_bytes() {
    send_and_free(Fixture::with_checks(Checks::Full), GUARDED_BYTES, 1);
}

fn large_objects() {
    send_and_free(Fixture::new(), 300 << 10, 2);
}

/// A thread frees for two owners in turn, in full batches and in shorter ones.
fn batches_for_two() {
    let fixture = Fixture::new();
    let mailboxes = [Mailbox::default(), Mailbox::default()];
    thread::scope(|scope| {
        for mailbox in &mailboxes {
            let fixture = &fixture;
            scope.spawn(move || {
                let worker = fixture.begin();
                (0..7).map(|_| worker.take(BIG_BYTES)).for_each(|object| mailbox.send(object));
                let more: Vec<Object> = (0..3).map(|_| worker.take(BIG_BYTES)).collect();
                more.into_iter().for_each(|object| worker.free(object));
                worker.end();
            });
        }
        scope.spawn(|| {
            let worker = fixture.begin();
            for (mailbox, most) in [(0, 4), (1, 1), (0, 1), (1, 6), (0, 2)] {
                for object in (0..most).map_while(|_| mailboxes[mailbox].receive()) {
                    worker.free(object);
                }
            }
            worker.end();
        });
    });
    let worker = fixture.begin();
    for mailbox in &mailboxes {
        while let Some(object) = mailbox.receive() {
            worker.free(object);
        }
    }
    worker.end();
    fixture.end();
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
fn guard_bytes_travel_with_objects() {
    explore(1000, an_owner_and_a_thread_with_guard_bytes);
}

#[test]
fn large_objects_are_freed_by_any_thread() {
    explore(2000, large_objects);
}

#[test]
fn batches_reach_their_heaps_whole() {
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
fn canary_two_senders_with_the_same_slots_are_noticed() {
    finds(SameSlot, 2000, an_owner_and_three_threads);
}

#[test]
fn canary_slots_that_are_reserved_before_they_are_empty_are_noticed() {
    finds(EarlyReuse, 8000, an_owner_and_three_threads);
}

#[test]
fn canary_a_batch_that_is_counted_wrong_is_noticed() {
    finds(Miscount, 1000, batches_for_two);
}
