//! The lock.

use super::explorer::{explore, finds};
use crate::host::lock::Lock;
use crate::planted::PlantedBug::OpenLock;
use lanefs_sync::point;
use shuttle::thread;

/// Two threads increment a counter, with a preemption point between reading and writing; a third one takes
/// the lock without a guard.
fn a_counter() {
    let lock = Lock::new(0);
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                for _ in 0..3 {
                    let mut value = lock.lock();
                    let before = *value;
                    point();
                    *value = before + 1;
                }
            });
        }
        scope.spawn(|| {
            for _ in 0..2 {
                lock.acquire();
                point();
                lock.release();
            }
        });
    });
    assert_eq!(*lock.lock(), 6);
}

#[test]
fn a_lock_has_one_owner() {
    explore(2000, a_counter);
}

#[test]
fn canary_a_lock_that_is_open_is_noticed() {
    finds(OpenLock, 2000, a_counter);
}
