//! Writers against each other.

use super::explorer::{explore, finds};
use super::world::{LEFT, RIGHT, World};
use crate::memory::state::FREE;
use crate::transaction::tx::Tx;
use crate::vocabulary::fault::Fault;
use crate::vocabulary::planted::Bug::{NoVersionCheck, UnlockedInit};
use lanefs_format::{BLOCK, BlockKind, Code};
use shuttle::thread;

const KIND: BlockKind = BlockKind::Leaf;
const A: u64 = 2 * BLOCK;
const B: u64 = 5 * BLOCK;

/// Increments both counters, that of `first` first.
fn count(tx: &mut Tx<'_>, first: u64, second: u64) -> Result<(), Fault> {
    for at in [first, second] {
        let block = tx.reader().block(at, KIND)?;
        let value = block.get(LEFT);
        tx.put(block, LEFT, value + 1);
    }
    Ok(())
}

fn counters(world: &World) -> (u64, u64) {
    let get = |at| world.words(at, KIND).expect("read").0;
    (get(A), get(B))
}

/// Explores two writers, and with a third one that rolls back in the middle.
fn opposite_orders(with_third: bool) {
    let world = World::in_memory(KIND, &[A, B]);
    let world = &world;
    thread::scope(|scope| {
        for (first, second) in [(A, B), (B, A)] {
            scope.spawn(move || {
                for _ in 0..2 {
                    world.change(|tx| count(tx, first, second)).expect("counted");
                }
            });
        }
        if with_third {
            scope.spawn(|| {
                let outcome = world.change(|tx| {
                    count(tx, B, A)?;
                    Err::<(), _>(Code::NoSpace.into())
                });
                assert_eq!(outcome, Err(Code::NoSpace.into()));
            });
        }
    });
    assert_eq!(counters(world), (4, 4));
}

fn two_writers() {
    opposite_orders(false);
}

fn three_writers() {
    opposite_orders(true);
}

/// Each of two writers sets its own word if the other's is not set. In any serial order only one does.
fn skew() {
    let world = World::in_memory(KIND, &[A]);
    let world = &world;
    thread::scope(|scope| {
        for (mine, other) in [(LEFT, RIGHT), (RIGHT, LEFT)] {
            scope.spawn(move || {
                let set = world.change(|tx| {
                    let part = |field: lanefs_format::Field<u64>| {
                        let at = A + (field.offset as u64 & !255);
                        tx.reader().part(at, 256, KIND)
                    };
                    let here =
                        |field: lanefs_format::Field<u64>| lanefs_format::Field::at(field.offset % 256);
                    if part(other)?.get(here(other)) == 0 {
                        let view = part(mine)?;
                        tx.put::<u64>(view, here(mine), 1);
                    }
                    Ok(())
                });
                set.expect("changed");
            });
        }
    });
    let (left, right) = world.words(A, KIND).expect("read");
    assert_eq!(left + right, 1, "both saw the other's word unset");
}

/// Two writers allocate and free blocks, with a counter of the blocks in use.
fn blocks_in_and_out_of_use() {
    let world = World::in_memory(KIND, &[A]);
    let world = &world;
    thread::scope(|scope| {
        for me in 1..=2u64 {
            scope.spawn(move || {
                let taken = world.change(|tx| {
                    let table = tx.reader().block(A, KIND)?;
                    let taken = table.get(LEFT);
                    if taken != 0 {
                        let block = tx.reader().block(B, KIND)?;
                        let owner = block.get(RIGHT);
                        assert!(tx.reader().validate().is_err() || owner == taken, "another's block");
                        return Ok(owner);
                    }
                    tx.put(table, LEFT, me);
                    let block = tx.fresh(B, KIND, 0)?;
                    tx.put(block, RIGHT, me);
                    Ok(me)
                });
                if taken != Ok(me) {
                    return;
                }
                let freed = world.change(|tx| {
                    let table = tx.reader().block(A, KIND)?;
                    tx.put(table, LEFT, 0u64);
                    tx.reader().block(B, KIND)?;
                    tx.retire(B, KIND);
                    tx.validate()?;
                    tx.vacate(B);
                    Ok(())
                });
                assert_eq!(freed, Ok(()));
            });
        }
    });
    assert_eq!(counters_of_table(world), 0);
    assert_eq!(world.store.state(B / BLOCK), FREE);
}

fn counters_of_table(world: &World) -> u64 {
    world.words(A, KIND).expect("read").0
}

/// A writer puts new content in the place of old content, which another writer, perhaps a stale one, changes.
/// The table has the generation of the content.
fn units_used_again() {
    let world = World::in_memory(KIND, &[A, B]);
    let world = &world;
    thread::scope(|scope| {
        scope.spawn(|| {
            for generation in 1..=2u64 {
                let made = world.change(|tx| {
                    let table = tx.reader().block(A, KIND)?;
                    tx.put(table, LEFT, generation);
                    if let Some(unit) = tx.own_part(B, LEFT.offset, 8, KIND)? {
                        tx.init(unit, 0, &(generation * 10).to_le_bytes());
                    }
                    Ok(())
                });
                assert_eq!(made, Ok(()));
            }
        });
        scope.spawn(|| {
            let touched = world.change(|tx| {
                let generation = tx.reader().block(A, KIND)?.get(LEFT);
                let unit = tx.reader().block(B, KIND)?;
                // Otherwise its second attempt would hide the effect of the first.
                if generation < 2 {
                    tx.put(unit, LEFT, generation * 10 + 1);
                }
                Ok(())
            });
            assert_eq!(touched, Ok(()));
        });
    });
    let content = world.words(B, KIND).expect("read").0;
    assert_eq!(content / 10, counters_of_table(world), "the content of another generation: {content}");
}

#[test]
fn what_is_put_in_the_place_of_something_old_stays() {
    explore(2000, units_used_again);
}

#[test]
fn two_writers_in_opposite_order_lose_nothing() {
    explore(2000, two_writers);
}

#[test]
fn three_writers_one_of_which_gives_up_lose_nothing() {
    explore(1000, three_writers);
}

#[test]
fn what_a_writer_read_still_holds_when_it_commits() {
    explore(2000, skew);
}

#[test]
fn a_block_is_taken_by_one() {
    explore(2000, blocks_in_and_out_of_use);
}

#[test]
fn canary_versions_that_are_not_compared_are_noticed() {
    finds(NoVersionCheck, 2000, two_writers);
    finds(NoVersionCheck, 2000, skew);
}

#[test]
fn canary_content_that_is_written_without_its_record_is_noticed() {
    finds(UnlockedInit, 2000, units_used_again);
}
