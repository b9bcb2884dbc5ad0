//! Eviction of blocks that other threads read and change.

use super::explorer::{explore, finds};
use super::medium::Medium;
use super::world::{BLOCKS, BOTH, LEFT, RIGHT, World};
use crate::residency::pins::{Pinned, Pins};
use crate::vocabulary::fault::Want;
use crate::vocabulary::planted::Bug::{ForgottenPins, NoSecondLook, NoVersionCheck, RetireInTransit};
use crate::vocabulary::range::BlockRange;
use crate::writing::data::DataWrite;
use lanefs_format::{BLOCK, BlockKind, Code};
use shuttle::thread;
use std::sync::Arc;

const KIND: BlockKind = BlockKind::Leaf;
const A: u64 = 2 * BLOCK;
const B: u64 = 5 * BLOCK;
const DATA: u64 = 7 * BLOCK;
/// Budget in blocks: an attempt needs little less.
const ROOM: u64 = 4;

fn medium() -> Medium {
    let medium = Medium::new(BLOCKS);
    medium.format(A, KIND, &BOTH, 7);
    medium.format(B, KIND, &BOTH, 7);
    (0..3).for_each(|i| medium.fill(DATA + i * BLOCK, 7));
    medium
}

fn evict(world: &World) {
    for _ in 0..2 {
        world.store.drop_clean();
    }
}

/// A reader never takes the zeros that eviction leaves for a block's content.
fn clean_blocks_under_a_reader() {
    let medium = medium();
    let world = World::on(&medium, ROOM);
    let world = &world;
    thread::scope(|scope| {
        scope.spawn(|| evict(world));
        for (first, second) in [(A, B), (B, A)] {
            scope.spawn(move || {
                for at in [first, second] {
                    assert_eq!(world.words(at, KIND), Ok((7, 7)));
                }
            });
        }
    });
    world.check_books();
}

/// Explores a writer of metadata, a reader and the cache.
fn changed_blocks_stay() {
    let medium = medium();
    let world = World::on(&medium, ROOM);
    let world = &world;
    thread::scope(|scope| {
        scope.spawn(|| evict(world));
        scope.spawn(|| {
            for _ in 0..2 {
                let added = world.change(|tx| {
                    let (a, b) = (tx.reader().block(A, KIND)?, tx.reader().block(B, KIND)?);
                    let value = a.get(LEFT) + 1;
                    tx.put(a, LEFT, value);
                    tx.put(b, RIGHT, value);
                    Ok(())
                });
                assert_eq!(added, Ok(()));
            }
        });
        scope.spawn(|| {
            let pair = world.read(|run| Ok((run.block(A, KIND)?.get(LEFT), run.block(B, KIND)?.get(RIGHT))));
            assert!(pair.is_ok_and(|(left, right)| left == right && (7..=9).contains(&left)), "{pair:?}");
        });
    });
    world.check_books();
    assert_eq!((world.words(A, KIND), world.words(B, KIND)), (Ok((9, 7)), Ok((7, 9))));
}

/// An allocated block is not evicted before it is dirty; one that is freed again leaves no trace.
fn fresh_blocks_stay(kind: BlockKind) {
    const NEW: u64 = 11 * BLOCK;
    let medium = medium();
    let world = World::on(&medium, ROOM);
    let world = &world;
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| evict(world));
        }
        scope.spawn(|| {
            let outcome = world.change(|tx| {
                let block = tx.fresh(NEW, kind, 0)?;
                tx.set(block, RIGHT, 5u64);
                Err::<(), _>(Code::NoSpace.into())
            });
            assert_eq!(outcome, Err(Code::NoSpace.into()));
            let taken = world.change(|tx| {
                let block = tx.fresh(NEW, kind, 0)?;
                tx.set(block, RIGHT, 6u64);
                Ok(())
            });
            assert_eq!(taken, Ok(()));
            assert_eq!(world.words(NEW, kind), Ok((0, 6)));
        });
    });
    assert_eq!(world.words(NEW, kind), Ok((0, 6)));
    world.check_books();
}

/// A block that is freed and restored by a rollback is like any other.
fn retired_blocks_come_back() {
    let medium = medium();
    let world = World::on(&medium, ROOM);
    let world = &world;
    thread::scope(|scope| {
        scope.spawn(|| evict(world));
        scope.spawn(|| {
            let outcome = world.change(|tx| {
                tx.reader().block(B, KIND)?;
                tx.retire(B, KIND);
                tx.validate()?;
                Err::<(), _>(Code::NoSpace.into())
            });
            assert_eq!(outcome, Err(Code::NoSpace.into()));
        });
        scope.spawn(|| assert_eq!(world.words(B, KIND), Ok((7, 7))));
    });
    world.check_books();
    assert_eq!(world.words(B, KIND), Ok((7, 7)));
}

/// So is one that the transaction never read.
fn unread_blocks_come_back() {
    let medium = medium();
    let world = World::on(&medium, ROOM);
    let world = &world;
    assert_eq!(world.words(B, KIND), Ok((7, 7)));
    thread::scope(|scope| {
        scope.spawn(|| world.store.drop_clean());
        scope.spawn(|| {
            let outcome = world.change(|tx| {
                tx.retire(B, KIND);
                tx.validate()?;
                Err::<(), _>(Code::NoSpace.into())
            });
            assert_eq!(outcome, Err(Code::NoSpace.into()));
        });
    });
    world.check_books();
    assert_eq!(world.words(B, KIND), Ok((7, 7)));
}

fn fresh_leaves_stay() {
    fresh_blocks_stay(BlockKind::Leaf);
}

fn fresh_pointers_stay() {
    fresh_blocks_stay(BlockKind::Pointers);
}

/// A file of two blocks that a writer overwrites, one whole block or both; its version is in its "inode". A
/// reader of the version reads the data of that version, also beside eviction and readahead.
fn data_of_a_file(blocks: u64, ahead: bool) {
    let medium = medium();
    let world = World::on(&medium, ROOM);
    let world = &world;
    let len = (blocks * BLOCK) as usize;
    let read = move || {
        let mut buffer = vec![0; len];
        let version = world.read(|run| {
            let version = run.block(A, KIND)?.get(LEFT);
            run.read_data(DATA, &mut buffer, blocks)?;
            Ok(version)
        });
        let version = version.expect("read");
        let wrong = buffer.chunks_exact(8).find(|word| **word != version.to_le_bytes());
        assert!(wrong.is_none(), "{wrong:?} in a file of version {version}");
        version
    };
    thread::scope(|scope| {
        scope.spawn(|| evict(world));
        if ahead {
            scope.spawn(|| world.store.read_ahead(BlockRange { first: DATA / BLOCK + 1, count: 2 }));
        }
        scope.spawn(move || {
            for version in 8..10u64 {
                let data = version.to_le_bytes().repeat(len / 8);
                let written = world.change(|tx| {
                    let inode = tx.reader().block(A, KIND)?;
                    tx.lock(inode.part(0, 256).expect("inside"))?;
                    tx.put(inode, LEFT, version);
                    tx.prepare_data(DATA, len)?;
                    tx.validate()?;
                    tx.write_data(DATA, &data, true)
                });
                assert_eq!(written, Ok(()));
            }
        });
        scope.spawn(move || assert!(read() <= read(), "back in time"));
    });
    assert_eq!(read(), 9);
    world.check_books();
}

fn one_block_of_data() {
    data_of_a_file(1, false);
}

fn two_blocks_of_data() {
    data_of_a_file(2, true);
}

/// A writer writes a resident clean block of data while the cache evicts it.
fn written_while_it_leaves() {
    let medium = medium();
    let world = World::on(&medium, ROOM);
    let world = &world;
    world.store.read_ahead(BlockRange { first: DATA / BLOCK, count: 1 });
    thread::scope(|scope| {
        scope.spawn(|| world.store.drop_clean());
        scope.spawn(|| {
            let data = 8u64.to_le_bytes().repeat(BLOCK as usize / 8);
            assert_eq!(world.change(|tx| tx.write_data(DATA, &data, true)), Ok(()));
        });
    });
    let mut word = [0; 8];
    world.read(|run| run.read_data(DATA + 64, &mut word, 1)).expect("read");
    assert_eq!(u64::from_le_bytes(word), 8, "what was written is lost");
    world.check_books();
}

/// Explores two writers of parts of one block of data.
fn parts_of_a_block() {
    let medium = medium();
    let world = World::on(&medium, ROOM);
    let world = &world;
    thread::scope(|scope| {
        for (at, value) in [(DATA + 8, 1u64), (DATA + 16, 2)] {
            scope.spawn(move || {
                let written = world.change(|tx| {
                    let inode = tx.reader().block(A, KIND)?;
                    let old = inode.get(LEFT);
                    tx.put(inode, LEFT, old + 1);
                    tx.prepare_data(at, 8)?;
                    tx.validate()?;
                    tx.write_data(at, &value.to_le_bytes(), true)
                });
                assert_eq!(written, Ok(()));
            });
        }
        scope.spawn(|| evict(world));
    });
    world.check_books();
    let mut words = [0u8; 32];
    world.read(|run| run.read_data(DATA, &mut words, 1)).expect("read");
    assert_eq!(words.as_chunks::<8>().0.iter().map(|w| w[0]).collect::<Vec<_>>(), [7, 1, 2, 7]);
}

/// A writer overwrites parts of two blocks of a file together, while blocks are evicted. Each of its attempts
/// finds the old bytes in both: an attempt that was rolled back has written none.
fn parts_of_two_blocks() {
    let medium = medium();
    let world = World::on(&medium, ROOM);
    let world = &world;
    let positions = [DATA + 8, DATA + BLOCK + 8];
    thread::scope(|scope| {
        scope.spawn(|| evict(world));
        let written = world.change(|tx| {
            tx.lock(tx.reader().block(A, KIND)?.part(0, 256).expect("inside"))?;
            let mut words = [[0; 8]; 2];
            let mut parts = positions.iter().zip(&mut words);
            parts.try_for_each(|(at, word)| tx.reader().read_data(*at, word, 1))?;
            tx.validate()?;
            assert_eq!(words.map(u64::from_le_bytes), [7, 7], "an attempt wrote one of two parts");
            tx.write_data_parts(&positions.map(|at| DataWrite { at, data: &[8; 8], summed: true }))
        });
        assert_eq!(written, Ok(()));
    });
    world.check_books();
}

/// Slices in place keep their bytes while the cache evicts blocks and others are fetched.
fn pinned_blocks_under_the_cache() {
    let world = Arc::new(World::for_reading(&medium(), ROOM));
    let world = &world;
    let threads = [DATA, DATA, DATA + BLOCK].map(|at| {
        let world = Arc::clone(world);
        thread::spawn(move || {
            let mut pins = Pins::new(Arc::clone(&world), |world| &world.store).expect("for reading");
            let number = loop {
                match pins.pin(at + 8, BLOCK - 8).expect("inside") {
                    Pinned::At(number) => break number,
                    Pinned::Absent => {
                        world
                            .store
                            .fetch(at, Want::Data { need: 1, extent: 1 })
                            .expect("a device that works");
                    }
                    Pinned::Full | Pinned::Split => return,
                }
            };
            for _ in 0..2 {
                let bytes = pins.bytes(number).expect("pinned");
                assert!(bytes.as_chunks::<8>().0.iter().all(|word| u64::from_le_bytes(*word) == 7));
                thread::yield_now();
            }
        })
    });
    evict(world);
    for thread in threads {
        thread.join().expect("no panic");
    }
    assert_eq!(world.store.stats().blocks_pinned, 0);
    evict(world);
    assert_eq!(world.store.stats().blocks_resident, 0, "a block can never leave");
    world.check_books();
}

#[test]
fn pinned_blocks_do_not_leave() {
    explore(4000, pinned_blocks_under_the_cache);
}

#[test]
fn canary_pins_that_the_cache_forgets_are_noticed() {
    finds(ForgottenPins, 1500, pinned_blocks_under_the_cache);
}

#[test]
fn canary_pins_without_a_second_look_are_noticed() {
    finds(NoSecondLook, 4000, pinned_blocks_under_the_cache);
}

#[test]
fn parts_are_written_together() {
    explore(1500, parts_of_two_blocks);
}

#[test]
fn a_reader_never_sees_a_block_that_left() {
    explore(1500, clean_blocks_under_a_reader);
}

#[test]
fn changed_metadata_do_not_leave() {
    explore(1500, changed_blocks_stay);
}

#[test]
fn a_block_that_was_retired_in_vain_can_leave() {
    explore(1500, retired_blocks_come_back);
    explore(1500, unread_blocks_come_back);
}

#[test]
fn canary_a_block_retired_while_it_leaves_is_noticed() {
    finds(RetireInTransit, 1500, unread_blocks_come_back);
}

#[test]
fn blocks_taken_into_use_do_not_leave() {
    explore(1500, fresh_leaves_stay);
    explore(1500, fresh_pointers_stay);
}

#[test]
fn written_data_do_not_leave() {
    explore(1500, written_while_it_leaves);
    explore(1500, one_block_of_data);
    explore(1500, parts_of_a_block);
}

#[test]
fn data_that_are_written_meet_data_that_are_read_ahead() {
    explore(1500, two_blocks_of_data);
}

#[test]
fn canary_a_block_that_leaves_without_a_second_look_is_noticed() {
    finds(NoSecondLook, 1500, written_while_it_leaves);
}

#[test]
fn canary_versions_that_are_not_compared_are_noticed() {
    finds(NoVersionCheck, 1500, clean_blocks_under_a_reader);
}
