//! Windows: one read brings the neighbours of a missed block or small file, beside writers, eviction and
//! commits.

use super::explorer::{explore, finds};
use super::medium::Medium;
use super::world::{BOTH, LEFT, World};
use crate::memory::state;
use crate::store::neighbours::{DATA_WINDOW_BLOCKS, DENSE};
use crate::transaction::tx::Tx;
use crate::vocabulary::fault::{Fault, Want};
use crate::vocabulary::planted::Bug::{NeighboursWithoutCopies, TrustedTable};
use crate::writing::commit::JournalContent;
use lanefs_format::{BLOCK, BlockKind, CHUNK, Code, chunk_entry};
use shuttle::thread;

const KIND: BlockKind = BlockKind::Leaf;
const TABLE: u64 = CHUNK;
/// Three leaves of a window.
const A: u64 = TABLE + 2 * BLOCK;
const B: u64 = TABLE + 4 * BLOCK;
const C: u64 = TABLE + 5 * BLOCK;
/// A block that is free by the table, with the bytes of an older leaf.
const FREE: u64 = TABLE + 3 * BLOCK;
/// Blocks of other kinds: attributes, and inodes of which none is in use.
const XATTR: u64 = TABLE + 6 * BLOCK;
const INODES: u64 = TABLE + 7 * BLOCK;
/// A leaf of the next window.
const FAR: u64 = TABLE + 16 * BLOCK;
const JOURNAL: (u64, u64) = (8 * BLOCK, 12);
/// Budget in blocks, from which on windows are read; and one in which a miss is one block.
const LARGE: u64 = 32;
const SMALL: u64 = 16;

fn medium() -> Medium {
    let medium = Medium::new(CHUNK / BLOCK + 32);
    let leaves = [A, B, C, FAR].map(|at| (at, KIND));
    medium.format_table(
        TABLE,
        &[&leaves[..], &[(XATTR, BlockKind::Xattr), (INODES, BlockKind::Inodes)]].concat(),
    );
    for at in [A, B, C, FREE, FAR] {
        medium.format(at, KIND, &BOTH, 7);
    }
    medium.format(XATTR, BlockKind::Xattr, &BOTH, 7);
    medium
}

/// A store whose table is resident.
fn world(medium: &Medium) -> World {
    let world = World::on_all(medium, LARGE);
    world.store.fetch(TABLE, Want::Block(BlockKind::ChunkHeader)).expect("a table");
    world
}

fn fetch(world: &World, at: u64) -> Result<(), Fault> {
    world.store.fetch(at, Want::Block(KIND))
}

/// Returns which leaves are resident.
fn here(world: &World) -> Vec<u64> {
    [A, FREE, B, C, FAR].into_iter().filter(|at| world.store.is_resident(*at, KIND)).collect()
}

fn a_window() {
    let medium = medium();
    let world = world(&medium);
    let before = medium.reads();
    assert_eq!(fetch(&world, B), Ok(()));
    assert_eq!(medium.reads() - before, 1);
    assert_eq!(here(&world), [A, B, C], "the leaves of the window and no others");
    assert!(!world.store.is_resident(XATTR, BlockKind::Xattr), "nobody looks for attributes near a leaf");
    assert!(!world.store.is_resident(INODES, BlockKind::Inodes), "no inode is in use");
    assert_eq!((world.words(A, KIND), world.words(C, KIND)), (Ok((7, 7)), Ok((7, 7))));
    assert_eq!(world.words(A, KIND), Ok((7, 7)));
    assert_eq!(medium.reads() - before, 1);
    let stats = world.store.stats();
    assert_eq!((stats.neighbours_fetched, stats.neighbours_used), (2, 2), "each use counts once");
    world.check_books();
}

fn a_small_cache() {
    let medium = medium();
    let world = World::on_all(&medium, SMALL);
    world.store.fetch(TABLE, Want::Block(BlockKind::ChunkHeader)).expect("a table");
    assert_eq!(fetch(&world, B), Ok(()));
    assert_eq!(here(&world), [B]);
}

fn a_table_that_is_absent() {
    let medium = medium();
    let world = World::on_all(&medium, LARGE);
    assert_eq!(fetch(&world, FAR), Ok(()));
    assert_eq!(medium.reads(), 1, "one miss does not pay for a table");
    assert_eq!(fetch(&world, B), Ok(()));
    assert_eq!((medium.reads(), here(&world)), (3, vec![A, B, C, FAR]));
    world.check_books();
}

fn a_read_that_fails() {
    let medium = medium();
    let world = world(&medium);
    let before = medium.reads();
    medium.fail(1);
    assert_eq!(fetch(&world, B), Ok(()), "the window fails, and the block alone does not");
    assert_eq!((medium.reads() - before, here(&world)), (2, vec![B]));
    medium.fail(2);
    assert!(matches!(fetch(&world, A), Err(Fault::Io { at: A, .. })));
    assert_eq!(here(&world), [B]);
    assert_eq!(fetch(&world, A), Ok(()));
    assert_eq!(here(&world), [A, B, C]);
    world.check_books();
}

fn a_neighbour_that_is_damaged() {
    let medium = medium();
    medium.fill(A, 5);
    let world = world(&medium);
    assert_eq!(fetch(&world, B), Ok(()));
    assert_eq!(here(&world), [B, C]);
    assert!(matches!(fetch(&world, A), Err(Fault::Damaged { at: A, .. })));
    world.check_books();
}

/// Neighbours get the room that is there, and the rest of the cache stays.
fn a_cache_that_is_full() {
    let medium = medium();
    let world = world(&medium);
    // One block of the table is resident. These leave room for the wanted block and one more.
    medium.fill(BLOCK, 7);
    let data = Want::Data { need: LARGE as u32 - 3, extent: LARGE as u32 - 3 };
    assert_eq!(world.store.fetch(BLOCK, data), Ok(()));
    assert_eq!(fetch(&world, C), Ok(()));
    assert_eq!(here(&world), [A, C]);
    assert_eq!(world.store.stats().blocks_resident, LARGE);
    world.check_books();
}

fn evicted_unused() {
    let medium = medium();
    let world = world(&medium);
    let miss = |used: bool| {
        assert_eq!(fetch(&world, B), Ok(()));
        let is_alone = here(&world) == [B];
        assert!(!used || world.words(A, KIND).is_ok());
        world.store.drop_clean();
        assert!(here(&world).is_empty());
        world.store.fetch(TABLE, Want::Block(BlockKind::ChunkHeader)).expect("a table");
        is_alone
    };
    // Of each window two neighbours come, so that four windows make a round. A pause has four misses.
    assert_eq!([true; 4].map(miss), [false; 4], "alone, although one in two is used");
    let two_rounds = [false, false, false, false, true, true, true, true].repeat(2);
    assert_eq!([false; 16].map(miss)[..], two_rounds);
}

/// Changes the table's row of a block, as the allocator of a volume does.
fn put_row(tx: &mut Tx<'_>, at: u64, kind: u8) -> Result<(), Fault> {
    let row = TABLE + (at - TABLE) / BLOCK * chunk_entry::SIZE as u64;
    let view = tx.reader().part(row, chunk_entry::SIZE, BlockKind::ChunkHeader)?;
    tx.put(view, chunk_entry::KIND, kind);
    Ok(())
}

/// A free block with the bytes of an older leaf is allocated twice beside windows; the first time the
/// transaction is rolled back.
fn allocated_beside() {
    let medium = medium();
    let world = world(&medium);
    let world = &world;
    thread::scope(|scope| {
        scope.spawn(|| assert_eq!(world.words(A, KIND), Ok((7, 7))));
        scope.spawn(|| {
            for keep in [false, true] {
                let made = world.change(|tx| {
                    put_row(tx, FREE, KIND as u8)?;
                    let view = tx.fresh(FREE, KIND, 0)?;
                    tx.set(view, LEFT, 9);
                    if keep { Ok(()) } else { Err(Code::NoSpace.into()) }
                });
                assert_eq!(made, if keep { Ok(()) } else { Err(Code::NoSpace.into()) });
            }
        });
    });
    world.check_books();
    assert_eq!(world.words(FREE, KIND), Ok((9, 0)));
}

/// A leaf is freed beside windows.
fn freed_beside() {
    let medium = medium();
    let world = world(&medium);
    let world = &world;
    thread::scope(|scope| {
        scope.spawn(|| assert_eq!(world.words(A, KIND), Ok((7, 7))));
        scope.spawn(|| assert_eq!(world.words(C, KIND), Ok((7, 7))));
        scope.spawn(|| {
            let freed = world.change(|tx| {
                tx.reader().block(B, KIND)?;
                put_row(tx, B, 0)?;
                tx.retire(B, KIND);
                tx.validate()?;
                tx.vacate(B);
                Ok(())
            });
            assert_eq!(freed, Ok(()));
        });
    });
    world.check_books();
    assert!(here(world).iter().all(|at| *at != B), "a freed block is here");
    assert!(matches!(world.words(B, KIND), Err(Fault::Damaged { .. })));
}

/// Threads miss the blocks of a window while others leave; `failures` reads fail.
fn wanted_beside(failures: usize) {
    let medium = medium();
    let world = world(&medium);
    medium.fail(failures);
    let world = &world;
    thread::scope(|scope| {
        for (first, second) in [(A, B), (B, C), (C, A)] {
            scope.spawn(move || {
                for at in [first, second] {
                    match world.words(at, KIND) {
                        Ok(words) => assert_eq!(words, (7, 7)),
                        Err(Fault::Io { .. }) => assert!(failures > 0),
                        Err(other) => panic!("{other:?}"),
                    }
                }
            });
        }
        scope.spawn(|| world.store.drop_clean());
    });
    world.check_books();
    medium.fail(0);
    assert_eq!([A, B, C].map(|at| world.words(at, KIND)), [Ok((7, 7)); 3]);
}

fn wanted_by_three() {
    wanted_beside(0);
}

fn wanted_by_three_of_a_failing_device() {
    wanted_beside(3);
}

/// A leaf changes, is committed and evicted, and is not in place when its neighbour is missed.
fn committed_beside() {
    let medium = medium();
    let world = world(&medium);
    world.store.use_journal(JOURNAL.0, JOURNAL.1, JournalContent::New).expect("a journal");
    let world = &world;
    thread::scope(|scope| {
        scope.spawn(|| {
            for count in 8..=9 {
                let changed = world.change(|tx| {
                    let b = tx.reader().block(B, KIND)?;
                    let before = b.get(LEFT);
                    tx.put(b, LEFT, count);
                    Ok(before)
                });
                assert_eq!(changed, Ok(count - 1), "a change is lost");
                world.commit();
                world.store.drop_clean();
            }
            world.checkpoint();
        });
        scope.spawn(|| {
            for _ in 0..2 {
                assert_eq!(world.words(A, KIND), Ok((7, 7)));
                world.store.drop_clean();
            }
        });
    });
    assert_eq!(world.words(B, KIND), Ok((9, 7)));
    world.check_books();
}

/// The second window of file data in the first chunk.
const FILES: u64 = DATA_WINDOW_BLOCKS * BLOCK;

/// Fetches a file of two blocks.
fn fetch_file(world: &World, at: u64) -> Result<(), Fault> {
    world.store.fetch(at, Want::Data { need: 2, extent: 2 })
}

/// Misses so many small files from `first` on that the next one of the chunk brings neighbours.
fn make_dense(world: &World, first: u64) {
    for file in 0..DENSE {
        assert_eq!(fetch_file(world, first + 2 * file * BLOCK), Ok(()));
    }
}

fn small_files() {
    let medium = Medium::new(CHUNK / BLOCK + 32);
    (0..3 * DATA_WINDOW_BLOCKS).for_each(|i| medium.fill(i * BLOCK, 7));
    let world = World::on_all(&medium, LARGE);
    make_dense(&world, FILES + DATA_WINDOW_BLOCKS * BLOCK);
    let (first, before) = (FILES / BLOCK, medium.reads());
    let resident = || {
        (first..first + DATA_WINDOW_BLOCKS)
            .filter(|i| state::content(world.store.state(*i)).is_some())
            .count()
    };
    assert_eq!(resident(), 0, "the first files of a chunk come alone");
    assert_eq!(fetch_file(&world, FILES + 4 * BLOCK), Ok(()));
    assert_eq!((medium.reads() - before, resident() as u64), (1, DATA_WINDOW_BLOCKS));
    let mut words = [0; 16];
    for at in [FILES, FILES + 4 * BLOCK, FILES] {
        world.read(|run| run.read_data(at, &mut words, 1)).expect("a neighbour");
        assert_eq!(words[8..], 7u64.to_le_bytes());
    }
    assert_eq!(medium.reads() - before, 1);
    let stats = world.store.stats();
    assert_eq!((stats.neighbours_fetched, stats.neighbours_used), (DATA_WINDOW_BLOCKS - 2, 1));
    // The reader of a part of a file, and one who needs more than a window, get what they ask for.
    world.store.drop_clean();
    for (need, extent) in [(1, 2), (1 + DATA_WINDOW_BLOCKS as u32 / 2, 1 + DATA_WINDOW_BLOCKS as u32 / 2)] {
        assert_eq!(world.store.fetch(FILES + 3 * BLOCK, Want::Data { need, extent }), Ok(()));
    }
    assert_eq!(world.store.fetch(FILES + 20 * BLOCK, Want::Data { need: 9, extent: 9 }), Ok(()));
    assert_eq!(world.store.stats().neighbours_fetched, DATA_WINDOW_BLOCKS - 2);
    // Nothing is evicted for a neighbour.
    assert!(world.store.stats().blocks_resident > LARGE - DATA_WINDOW_BLOCKS);
    assert_eq!(fetch_file(&world, FILES), Ok(()));
    assert_eq!(world.store.stats().neighbours_fetched, DATA_WINDOW_BLOCKS - 2);
    world.check_books();
}

/// The chunk of the small files has become one of metadata since these fetches were planned.
fn small_files_too_late() {
    let medium = medium();
    let world = World::on_all(&medium, LARGE);
    make_dense(&world, FAR + 8 * BLOCK);
    let world = &world;
    thread::scope(|scope| {
        scope.spawn(|| assert_eq!(fetch_file(world, TABLE + 8 * BLOCK), Ok(())));
        for at in [A, B] {
            scope.spawn(move || {
                for _ in 0..2 {
                    assert_eq!(world.words(at, KIND), Ok((7, 7)));
                }
            });
        }
        scope.spawn(|| world.store.drop_clean());
    });
    world.check_books();
    assert_eq!([A, B, C].map(|at| world.words(at, KIND)), [Ok((7, 7)); 3]);
    assert_eq!(world.words(TABLE, BlockKind::ChunkHeader).map(drop), Ok(()));
}

#[test]
fn one_read_brings_the_small_files_of_the_window() {
    explore(1, small_files);
}

#[test]
fn data_that_were_fetched_too_late_leave_when_metadata_are_wanted() {
    explore(1500, small_files_too_late);
}

#[test]
fn one_read_brings_the_leaves_of_the_window() {
    explore(1, a_window);
    explore(1, a_small_cache);
}

#[test]
fn the_second_miss_in_a_chunk_fetches_the_table() {
    explore(1, a_table_that_is_absent);
}

#[test]
fn only_the_wanted_block_can_fail() {
    explore(1, a_read_that_fails);
    explore(1, a_neighbour_that_is_damaged);
}

#[test]
fn neighbours_take_only_room_that_is_there() {
    explore(1, a_cache_that_is_full);
}

#[test]
fn neighbours_that_nobody_uses_do_not_come_for_a_while() {
    explore(1, evicted_unused);
}

#[test]
fn a_block_that_is_taken_into_or_out_of_use_is_no_neighbour() {
    explore(1500, allocated_beside);
    explore(1500, freed_beside);
}

#[test]
fn canary_a_neighbour_that_became_free_meanwhile_is_noticed() {
    finds(TrustedTable, 1500, allocated_beside);
}

#[test]
fn threads_that_want_neighbours_get_them() {
    explore(1500, wanted_by_three);
    explore(1500, wanted_by_three_of_a_failing_device);
}

#[test]
fn a_window_never_brings_older_bytes() {
    explore(1500, committed_beside);
}

#[test]
fn canary_a_neighbour_with_older_bytes_is_noticed() {
    finds(NeighboursWithoutCopies, 1500, committed_beside);
}
