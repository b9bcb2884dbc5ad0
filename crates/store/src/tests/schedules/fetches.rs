//! Fetches: one read, however many threads need the block, and each thread gets the outcome.

use super::explorer::{explore, finds};
use super::medium::Medium;
use super::world::{BLOCKS, BOTH, LEFT, World};
use crate::memory::state;
use crate::transaction::tx::Tx;
use crate::vocabulary::fault::{Fault, Want};
use crate::vocabulary::planted::Bug::{SilentFetch, UncheckedAlone};
use crate::vocabulary::range::BlockRange;
use lanefs_format::{BLOCK, BlockKind};
use shuttle::thread;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

const AT: u64 = 3 * BLOCK;
const LEAF: Want = Want::Block(BlockKind::Leaf);
const DATA: Want = Want::Data { need: 2, extent: 2 };

fn leaf() -> Medium {
    let medium = Medium::new(BLOCKS);
    medium.format(AT, BlockKind::Leaf, &BOTH, 7);
    medium
}

fn data() -> Medium {
    let medium = Medium::new(BLOCKS);
    (0..4).for_each(|i| medium.fill(AT + i * BLOCK, 7));
    medium
}

fn is_here(world: &World, want: Want) -> bool {
    let content = |index| state::content(world.store.state(index));
    match want {
        Want::Block(kind) => content(AT / BLOCK) == Some(kind as u8),
        Want::Frame => false,
        Want::Data { need, .. } => (0..u64::from(need)).all(|i| content(AT / BLOCK + i) == Some(state::DATA)),
    }
}

/// Three threads need the same block; `failures` reads fail. Returns how many threads got the failure. (A
/// success for data promises little: a thread that arrives after another's fetch has begun and ended retries
/// by itself.)
fn wanted_by_three(medium: &Medium, want: Want, failures: usize) -> usize {
    let world = World::on(medium, BLOCKS);
    let (world, failed) = (&world, &AtomicUsize::new(0));
    medium.fail(failures);
    thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(move || match world.store.fetch(AT, want) {
                Ok(()) => assert!(is_here(world, want) || failures > 0 && want == DATA, "said to be here"),
                Err(Fault::Io { .. }) => drop(failed.fetch_add(1, SeqCst)),
                Err(other) => panic!("{other:?}"),
            });
        }
    });
    world.check_books();
    medium.fail(0);
    world.store.fetch(AT, want).expect("a device that works again");
    assert!(is_here(world, want));
    failed.load(SeqCst)
}

fn metadata() {
    let medium = leaf();
    assert_eq!(wanted_by_three(&medium, LEAF, 0), 0);
    assert_eq!(medium.reads(), 1);
}

fn file_data() {
    let medium = data();
    assert_eq!(wanted_by_three(&medium, DATA, 0), 0);
    // Two threads may have begun, each with one of the blocks.
    assert!(medium.reads() <= 2);
}

fn failing_metadata() {
    assert!(wanted_by_three(&leaf(), LEAF, 1) >= 1);
}

fn metadata_that_cannot_be_read() {
    assert_eq!(wanted_by_three(&leaf(), LEAF, usize::MAX), 3);
}

fn failing_file_data() {
    // One read of the piece, and one of its first block.
    wanted_by_three(&data(), DATA, 2);
}

fn file_data_that_cannot_be_read() {
    assert!(wanted_by_three(&data(), DATA, usize::MAX) >= 1);
}

/// Readahead claims blocks that other threads need, and they wait for it.
fn ahead() {
    let medium = data();
    let world = World::on(&medium, BLOCKS);
    let world = &world;
    thread::scope(|scope| {
        for first in [AT / BLOCK, AT / BLOCK + 1] {
            scope.spawn(move || world.store.read_ahead(BlockRange { first, count: 3 }));
        }
        scope.spawn(|| {
            let mut buffer = vec![0; 2 * BLOCK as usize];
            world.read(|run| run.read_data(AT, &mut buffer, 4)).expect("read");
            assert!(buffer.chunks_exact(8).all(|word| word == 7u64.to_le_bytes()), "not what the device has");
        });
    });
    world.check_books();
    assert_eq!(world.store.stats().blocks_fetched, 4, "each block once");
}

/// Blocks of metadata and file data that two threads fetch together, in different orders, while a third needs
/// one of them; `failures` reads fail.
fn together(failures: usize) -> usize {
    const DATA_AT: u64 = 8 * BLOCK;
    let medium = Medium::new(BLOCKS);
    let leaves = [AT, AT + BLOCK, AT + 3 * BLOCK];
    leaves.iter().for_each(|at| medium.format(*at, BlockKind::Leaf, &BOTH, 7));
    (0..2).for_each(|i| medium.fill(DATA_AT + i * BLOCK, 7));
    let world = World::on(&medium, BLOCKS);
    let mut misses: Vec<(u64, Want)> = leaves.iter().map(|at| (*at, LEAF)).collect();
    misses.extend([(DATA_AT, DATA), (leaves[0], LEAF)]);
    medium.fail(failures);
    let (world, wanted) = (&world, &misses);
    thread::scope(|scope| {
        scope.spawn(move || world.store.fetch_many(wanted));
        scope.spawn(move || {
            let reversed: Vec<_> = wanted.iter().rev().copied().collect();
            world.store.fetch_many(&reversed);
        });
        scope.spawn(move || match world.store.fetch(AT, LEAF) {
            Ok(()) => assert!(is_here(world, LEAF), "said to be here"),
            Err(Fault::Io { .. }) => assert!(failures > 0, "no read failed"),
            Err(other) => panic!("{other:?}"),
        });
    });
    world.check_books();
    let reads = medium.reads();
    medium.fail(0);
    for (at, want) in misses {
        world.store.fetch(at, want).expect("a device that works again");
    }
    assert!(failures > 0 || medium.reads() == reads, "all were here, unless a read failed");
    reads
}

fn many() {
    // The data are one read, or two where both threads have begun.
    assert!((4..=5).contains(&together(0)), "each block once");
}

fn many_of_which_some_fail() {
    together(2);
}

/// A commit takes a block out of use that another thread is fetching, and changes a block after it: both or
/// none, so the attempt is repeated.
fn freed_by_a_commit() {
    const BEHIND: u64 = AT + BLOCK;
    let medium = leaf();
    medium.format(BEHIND, BlockKind::Leaf, &BOTH, 7);
    let world = World::on(&medium, BLOCKS);
    world.store.fetch(BEHIND, LEAF).expect("a leaf");
    let world = &world;
    thread::scope(|scope| {
        // Either the leaf comes first, or there is no block to fetch.
        scope.spawn(|| {
            let _ = world.store.fetch(AT, LEAF);
        });
        scope.spawn(|| {
            let mut free = |tx: &mut Tx<'_>| {
                tx.retire(AT, BlockKind::Leaf);
                let behind = tx.reader().block(BEHIND, BlockKind::Leaf)?;
                tx.put(behind, LEFT, 8);
                Ok(())
            };
            while let Err(fault) = world.attempt_alone(&mut free) {
                assert!(matches!(fault, Fault::Conflict { .. }), "{fault:?}");
                thread::yield_now();
            }
        });
    });
    assert!(world.store.is_retired(AT), "half of a free");
    assert_eq!(world.words(BEHIND, BlockKind::Leaf).expect("a leaf"), (8, 7), "half of a free");
}

#[test]
fn a_commit_frees_blocks_that_others_fetch() {
    explore(1500, freed_by_a_commit);
}

#[test]
fn canary_a_free_that_is_done_by_half_is_noticed() {
    finds(UncheckedAlone, 1500, freed_by_a_commit);
}

#[test]
fn many_blocks_are_read_once_each() {
    explore(1500, many);
    explore(1500, many_of_which_some_fail);
}

#[test]
fn a_block_that_many_want_is_read_once() {
    explore(1500, metadata);
    explore(1500, file_data);
}

#[test]
fn a_read_that_fails_is_told_to_all_who_wait_and_can_be_tried_again() {
    explore(1500, failing_metadata);
    explore(1500, metadata_that_cannot_be_read);
    explore(1500, failing_file_data);
    explore(1500, file_data_that_cannot_be_read);
}

#[test]
fn reading_ahead_and_wanting_read_each_block_once() {
    explore(1500, ahead);
}

#[test]
fn canary_a_fetch_that_wakes_nobody_is_noticed() {
    finds(SilentFetch, 1500, metadata);
    finds(SilentFetch, 1500, failing_file_data);
    finds(SilentFetch, 1500, many);
}
