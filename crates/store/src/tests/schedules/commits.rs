//! Commits beside writers, evictions and fetches.

use super::explorer::{explore, finds};
use super::medium::Medium;
use super::world::{BLOCKS, BOTH, LEFT, RIGHT, World};
use crate::vocabulary::planted::Bug::{CleanAfterWriting, NoCopiesInFlight};
use crate::vocabulary::range::BlockRange;
use crate::writing::commit::JournalContent;
use lanefs_format::{BLOCK, BlockKind};
use shuttle::thread;

const KIND: BlockKind = BlockKind::Leaf;
const A: u64 = 2 * BLOCK;
const B: u64 = 3 * BLOCK;
const DATA: u64 = 4 * BLOCK;
/// Length of the journal in blocks: room for about two commits.
const JOURNAL: (u64, u64) = (8 * BLOCK, 8);

fn world(medium: &Medium, journal: bool) -> World {
    medium.format(A, KIND, &BOTH, 0);
    medium.format(B, KIND, &BOTH, 0);
    let world = World::on(medium, 4);
    if journal {
        world.store.use_journal(JOURNAL.0, JOURNAL.1, JournalContent::New).expect("a journal");
    }
    world
}

/// The background work of a volume: commits, checkpoints, eviction.
fn background(world: &World) {
    world.commit();
    world.checkpoint();
    world.commit();
}

/// Every change reaches the device, and a fetch returns it.
fn settle(world: &World) {
    world.commit();
    world.check_books();
    assert!(!world.store.has_changes());
    world.checkpoint();
    world.store.drop_clean();
    assert_eq!(world.store.stats().blocks_resident, 0);
}

/// Two counters in two blocks. A thread finds its own increments again.
fn metadata(journal: bool) {
    let medium = Medium::new(BLOCKS);
    let world = world(&medium, journal);
    let world = &world;
    thread::scope(|scope| {
        scope.spawn(|| background(world));
        scope.spawn(|| {
            world.store.drop_clean();
            world.store.drop_clean();
        });
        scope.spawn(|| {
            for count in 1..=3u64 {
                let found = world.change(|tx| {
                    let (a, b) = (tx.reader().block(A, KIND)?, tx.reader().block(B, KIND)?);
                    let found = (a.get(LEFT), b.get(RIGHT));
                    tx.put(a, LEFT, count);
                    tx.put(b, RIGHT, count);
                    Ok(found)
                });
                assert_eq!(found, Ok((count - 1, count - 1)), "what was counted is lost");
            }
        });
    });
    settle(world);
    assert_eq!((medium.word(A + LEFT.offset as u64), medium.word(B + RIGHT.offset as u64)), (3, 3));
    assert_eq!((world.words(A, KIND), world.words(B, KIND)), (Ok((3, 0)), Ok((0, 3))));
}

/// A file of so many blocks of data, overwritten and read again.
fn data(blocks: u64, journal: bool) {
    let medium = Medium::new(BLOCKS);
    let world = world(&medium, journal);
    let world = &world;
    let len = (blocks * BLOCK) as usize;
    let find = move |version: u64| {
        let mut buffer = vec![0xff; len];
        let found = world.read(|run| {
            let found = run.block(A, KIND)?.get(LEFT);
            run.read_data(DATA, &mut buffer, blocks)?;
            Ok(found)
        });
        assert_eq!(found, Ok(version), "what was written is lost");
        let wrong = buffer.chunks_exact(8).position(|word| word != version.to_le_bytes());
        assert_eq!(wrong, None, "what was written is lost");
    };
    thread::scope(|scope| {
        scope.spawn(|| background(world));
        scope.spawn(|| {
            world.store.drop_clean();
            world.store.drop_clean();
        });
        scope.spawn(move || {
            for version in 1..=3u64 {
                let data = version.to_le_bytes().repeat(len / 8);
                let written = world.change(|tx| {
                    let inode = tx.reader().block(A, KIND)?;
                    tx.put(inode, LEFT, version);
                    tx.prepare_data(DATA, len)?;
                    tx.validate()?;
                    tx.write_data(DATA, &data, true)
                });
                assert_eq!(written, Ok(()));
                find(version);
            }
        });
    });
    settle(world);
    for block in 0..blocks {
        assert_eq!(medium.word(DATA + block * BLOCK), 3, "not on the device");
    }
    find(3);
}

/// Writes blocks of data, each full of `value`.
fn overwrite(world: &World, blocks: u64, value: u64) {
    let data = value.to_le_bytes().repeat((blocks * BLOCK) as usize / 8);
    let written = world.change(|tx| {
        tx.prepare_data(DATA, data.len())?;
        tx.write_data(DATA, &data, true)
    });
    assert_eq!(written, Ok(()));
}

/// Blocks are evicted between the snapshot and the journal, or between the journal and the checkpoint, and
/// fetched at once.
fn back_from_the_commit() {
    let medium = Medium::new(BLOCKS);
    let world = world(&medium, true);
    let world = &world;
    let changed = world.change(|tx| {
        let block = tx.reader().block(A, KIND)?;
        tx.put(block, LEFT, 1u64);
        Ok(())
    });
    assert_eq!(changed, Ok(()));
    overwrite(world, 1, 1);
    thread::scope(|scope| {
        scope.spawn(|| {
            world.commit();
            world.checkpoint();
        });
        scope.spawn(|| {
            for _ in 0..2 {
                world.store.drop_clean();
                assert_eq!(world.words(A, KIND), Ok((1, 0)), "what was committed is lost");
                let mut word = [0; 8];
                world.read(|run| run.read_data(DATA + 64, &mut word, 1)).expect("read");
                assert_eq!(u64::from_le_bytes(word), 1, "what was committed is lost");
            }
        });
    });
    settle(world);
}

/// The cache judges blocks that are being written, and the commit writes blocks that the cache judges.
fn written_in_place_while_the_cache_looks() {
    let medium = Medium::new(BLOCKS);
    let world = world(&medium, true);
    let world = &world;
    world.store.read_ahead(BlockRange { first: DATA / BLOCK, count: 2 });
    thread::scope(|scope| {
        scope.spawn(|| world.store.drop_clean());
        scope.spawn(|| {
            overwrite(world, 2, 5);
            world.commit();
        });
    });
    settle(world);
    assert_eq!((medium.word(DATA), medium.word(DATA + BLOCK)), (5, 5), "not on the device");
}

/// A writer has pinned a block that it is going to change, and the commit writes the block before the change.
fn written_before_it_changes() {
    let medium = Medium::new(BLOCKS);
    let world = world(&medium, true);
    let world = &world;
    overwrite(world, 2, 5);
    thread::scope(|scope| {
        scope.spawn(|| world.commit());
        scope.spawn(|| world.store.drop_clean());
        scope.spawn(|| overwrite(world, 2, 6));
    });
    settle(world);
    assert_eq!((medium.word(DATA), medium.word(DATA + BLOCK)), (6, 6), "not on the device");
}

/// Data are freed while an earlier commit writes them: after a crash that follows that commit their file
/// exists again. Writes of freed data that are in flight do not write zeros.
fn freed_while_they_are_written() {
    let medium = Medium::new(BLOCKS);
    let world = world(&medium, false);
    let world = &world;
    let blocks = [DATA, DATA + BLOCK];
    overwrite(world, 2, 7);
    thread::scope(|scope| {
        scope.spawn(|| world.commit());
        scope.spawn(|| {
            let changed = world.change(|tx| {
                let inode = tx.reader().block(A, KIND)?;
                tx.put(inode, LEFT, 1u64);
                tx.write_data(DATA, &1u64.to_le_bytes().repeat(2 * BLOCK as usize / 8), true)
            });
            assert_eq!(changed, Ok(()));
            let freed = world.change(|tx| {
                let inode = tx.reader().block(A, KIND)?;
                tx.put(inode, LEFT, 2u64);
                tx.validate()?;
                tx.reader().drop_data(DATA / BLOCK, 2);
                Ok(())
            });
            assert_eq!(freed, Ok(()));
        });
    });
    if medium.word(A + LEFT.offset as u64) == 1 {
        assert_eq!(blocks.map(|at| medium.word(at)), [1, 1], "a file without its data");
    }
    settle(world);
}

fn metadata_through_the_journal() {
    metadata(true);
}

fn metadata_in_place() {
    metadata(false);
}

fn few_data_through_the_journal() {
    data(1, true);
}

fn many_data_in_place() {
    data(2, true);
}

fn data_without_a_journal() {
    data(1, false);
}

#[test]
fn metadata_that_are_committed_while_they_change_are_not_lost() {
    explore(1000, metadata_through_the_journal);
    explore(1000, metadata_in_place);
}

#[test]
fn data_that_go_through_the_journal_are_not_lost() {
    explore(1500, few_data_through_the_journal);
    explore(1000, data_without_a_journal);
}

#[test]
fn data_that_are_written_in_place_while_they_change_are_not_lost() {
    explore(1500, many_data_in_place);
}

#[test]
fn what_leaves_during_a_commit_comes_back_as_it_was() {
    explore(2000, back_from_the_commit);
}

#[test]
fn data_that_are_written_while_a_commit_and_the_cache_look_at_them_are_not_lost() {
    explore(2000, written_before_it_changes);
    explore(2000, written_in_place_while_the_cache_looks);
}

#[test]
fn data_that_are_freed_during_a_commit_still_reach_the_device() {
    explore(2000, freed_while_they_are_written);
}

#[test]
fn canary_copies_under_way_that_are_not_found_are_noticed() {
    finds(NoCopiesInFlight, 1000, back_from_the_commit);
}

#[test]
fn canary_data_that_are_called_clean_too_soon_are_noticed() {
    finds(CleanAfterWriting, 1500, many_data_in_place);
}
