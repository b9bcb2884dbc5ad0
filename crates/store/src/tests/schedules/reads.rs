//! Reads without locks against writers.

use super::explorer::{explore, finds};
use super::world::{LEFT, RIGHT, World};
use crate::transaction::reader::Reader;
use crate::transaction::tx::Tx;
use crate::vocabulary::fault::Fault;
use crate::vocabulary::planted::Bug::{NoVersionCheck, QuietWithoutCheck};
use lanefs_format::{BLOCK, BlockKind, Code};
use shuttle::thread;

const HERE: u64 = 2 * BLOCK;
const THERE: u64 = 5 * BLOCK;

/// Two words that writers keep equal.
#[derive(Clone, Copy)]
struct Pair {
    kind: BlockKind,
    second: u64,
}

impl Pair {
    fn world(self) -> World {
        let positions = [HERE, self.second];
        World::in_memory(self.kind, &positions[usize::from(self.second == HERE)..])
    }

    fn get(self, run: &Reader<'_>) -> Result<(u64, u64), Fault> {
        // Structure by structure, as a volume reads directories and inodes.
        let left = run.part(HERE, 256, self.kind)?.get(LEFT);
        let right = run.part(self.second + RIGHT.offset as u64, 256, self.kind)?;
        Ok((left, right.get(lanefs_format::Field::<u64>::at(0))))
    }

    fn add(self, tx: &mut Tx<'_>) -> Result<u64, Fault> {
        let reader = tx.reader();
        let (left, right) = (reader.block(HERE, self.kind)?, reader.block(self.second, self.kind)?);
        let value = left.get(LEFT) + 1;
        tx.put(left, LEFT, value);
        tx.put(right, RIGHT, value);
        Ok(value)
    }

    /// Explores a writer, and a reader that must never accept words that differ.
    fn is_never_seen_torn(self) {
        let world = self.world();
        thread::scope(|scope| {
            scope.spawn(|| {
                for _ in 0..2 {
                    world.change(|tx| self.add(tx)).expect("changed");
                }
            });
            scope.spawn(|| {
                let mut last = 0;
                for _ in 0..5 {
                    let (left, right) = world.read(|run| self.get(run)).expect("read");
                    assert_eq!(left, right, "torn");
                    assert!(left >= last, "back in time");
                    last = left;
                }
            });
        });
        assert_eq!(world.read(|run| self.get(run)), Ok((2, 2)));
    }

    /// Explores a writer that rolls back, and a reader that must never accept its changes.
    fn is_never_seen_undone(self) {
        let world = self.world();
        thread::scope(|scope| {
            scope.spawn(|| {
                let outcome = world.change(|tx| {
                    self.add(tx)?;
                    Err::<(), _>(Code::NoSpace.into())
                });
                assert_eq!(outcome, Err(Code::NoSpace.into()));
            });
            scope.spawn(|| {
                for _ in 0..4 {
                    assert_eq!(world.read(|run| self.get(run)), Ok((0, 0)), "seen what never was");
                }
            });
        });
    }
}

fn one_block() {
    Pair { kind: BlockKind::Tree, second: HERE }.is_never_seen_torn();
}

fn one_block_of_many_structures() {
    Pair { kind: BlockKind::Leaf, second: HERE }.is_never_seen_torn();
}

fn two_blocks() {
    Pair { kind: BlockKind::Leaf, second: THERE }.is_never_seen_torn();
}

fn undone() {
    Pair { kind: BlockKind::Leaf, second: THERE }.is_never_seen_undone();
}

/// With the gate closed an attempt needs no validation.
fn alone() {
    let pair = Pair { kind: BlockKind::Leaf, second: THERE };
    let world = pair.world();
    thread::scope(|scope| {
        scope.spawn(|| world.change(|tx| pair.add(tx)).expect("changed"));
        scope.spawn(|| {
            let _closed = world.gate.close(&world.store);
            let (left, right) = pair.get(&Reader::exclusive(&world.store, None)).expect("read");
            assert_eq!(left, right, "torn");
        });
    });
}

#[test]
fn words_of_a_block_are_seen_together() {
    explore(1500, one_block);
    explore(1500, one_block_of_many_structures);
}

#[test]
fn words_of_two_blocks_are_seen_together() {
    explore(2000, two_blocks);
}

#[test]
fn what_was_taken_back_is_never_seen() {
    explore(2000, undone);
}

#[test]
fn a_closed_gate_needs_no_versions() {
    explore(2000, alone);
}

#[test]
fn canary_versions_that_are_not_compared_are_noticed() {
    finds(NoVersionCheck, 2000, one_block_of_many_structures);
    finds(NoVersionCheck, 2000, two_blocks);
    finds(NoVersionCheck, 2000, undone);
}

#[test]
fn canary_an_epoch_that_is_calmed_too_soon_is_noticed() {
    finds(QuietWithoutCheck, 2000, two_blocks);
}
