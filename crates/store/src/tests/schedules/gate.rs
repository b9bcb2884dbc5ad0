//! The gate: exclusion, and the epoch that readers see.

use super::explorer::{explore, finds};
use super::world::World;
use crate::transaction::gate::SLOTS;
use crate::vocabulary::planted::Bug::QuietWithoutCheck;
use lanefs_format::BlockKind;
use lanefs_sync::point;
use shuttle::thread;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

/// More writers than slots, a thread that closes the gate, and readers that make the epoch even.
fn nobody_inside_while_closed() {
    let world = World::in_memory(BlockKind::Leaf, &[]);
    let (world, inside) = (&world, &AtomicUsize::new(0));
    thread::scope(|scope| {
        for _ in 0..SLOTS + 1 {
            scope.spawn(|| {
                let _entered = world.gate.enter(&world.store);
                inside.fetch_add(1, SeqCst);
                point();
                assert!(!world.store.epoch().is_quiet(), "readers are not told of a writer");
                inside.fetch_sub(1, SeqCst);
            });
        }
        scope.spawn(|| {
            let _closed = world.gate.close_to_change(&world.store);
            for _ in 0..2 {
                point();
                assert_eq!(inside.load(SeqCst), 0, "somebody is inside");
                assert!(!world.store.epoch().is_quiet(), "readers are not told of a change");
                assert!(world.store.epochs().evict().is_none(), "blocks leave");
            }
        });
        scope.spawn(|| {
            for _ in 0..6 {
                world.gate.try_quiesce(&world.store);
            }
        });
    });
}

/// During an eviction the gate does not close, and readers see an odd epoch.
fn leaving_blocks_count_as_a_change() {
    let world = World::in_memory(BlockKind::Leaf, &[]);
    let (world, leaving) = (&world, &AtomicUsize::new(0));
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                if let Some(_permission) = world.store.epochs().evict() {
                    assert_eq!(leaving.fetch_add(1, SeqCst), 0, "one at a time");
                    point();
                    assert!(!world.store.epoch().is_quiet(), "readers are not told that blocks leave");
                    leaving.fetch_sub(1, SeqCst);
                }
            });
        }
        scope.spawn(|| {
            let _closed = world.gate.close(&world.store);
            point();
            assert_eq!(leaving.load(SeqCst), 0, "blocks leave while the gate is closed");
        });
        scope.spawn(|| {
            for _ in 0..6 {
                world.gate.try_quiesce(&world.store);
            }
        });
    });
}

/// A thread that waits for a writer continues when the writer has left its slot, and does not wait for one
/// without locks.
fn waiting_ends() {
    let world = World::in_memory(BlockKind::Leaf, &[]);
    let world = &world;
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                let entered = world.gate.enter(&world.store);
                let record = u32::from(entered.number);
                let word = world.store.versions().load(record);
                if world.store.versions().try_lock(record, word, entered.number, 0) {
                    point();
                    world.store.versions().unlock(record, word);
                }
            });
        }
        for holder in [0, 1, u8::MAX] {
            scope.spawn(move || world.gate.wait_for(&world.store, holder, u32::from(holder)));
        }
    });
}

#[test]
fn nobody_is_inside_a_closed_gate() {
    explore(1500, nobody_inside_while_closed);
}

#[test]
fn blocks_leave_neither_unseen_nor_through_a_closed_gate() {
    explore(1500, leaving_blocks_count_as_a_change);
}

#[test]
fn waiting_for_a_writer_ends() {
    explore(1500, waiting_ends);
}

#[test]
fn canary_an_epoch_that_is_calmed_too_soon_is_noticed() {
    finds(QuietWithoutCheck, 1500, nobody_inside_while_closed);
}
