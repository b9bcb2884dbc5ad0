//! Checksums of file data beside writers, early writes, eviction and crashes.

use super::explorer::{explore, finds};
use super::medium::Medium;
use super::world::{BOTH, LEFT, RIGHT, World};
use crate::vocabulary::planted::Bug::{OverwriteCommitted, StaleSums};
use crate::writing::commit::JournalContent;
use lanefs_format::{BLOCK, BlockKind, SumPlace};
use shuttle::thread;

const KIND: BlockKind = BlockKind::Leaf;
/// The "inode" of a file: its version, and the position of its data.
const A: u64 = 2 * BLOCK;
/// The file's first position. The file has more than one block, so that its data are written in place and not
/// to the journal.
const DATA: u64 = 20 * BLOCK;
const LEN: usize = 2 * BLOCK as usize;
const JOURNAL: (u64, u64) = (8 * BLOCK, 12);

fn medium() -> Medium {
    let sums = SumPlace::of(DATA).at;
    let medium = Medium::new(sums / BLOCK + 1);
    medium.format(A, KIND, &BOTH, 0);
    medium.format(sums, BlockKind::Sums, &[64], 0);
    medium
}

/// Writes a version of the file, in place where that is allowed and else after its last position.
fn write(world: &World, version: u64) {
    let data = version.to_le_bytes().repeat(LEN / 8);
    let written = world.change(|tx| {
        let inode = tx.reader().block(A, KIND)?;
        tx.lock(inode.part(0, 256).expect("inside"))?;
        let position = match inode.get(RIGHT) {
            0 => DATA,
            old if world.store.may_overwrite(old, 2) == (true, 2) => old,
            old => old + LEN as u64,
        };
        tx.put(inode, LEFT, version);
        tx.put(inode, RIGHT, position);
        tx.prepare_data(position, LEN)?;
        tx.validate()?;
        tx.write_data(position, &data, true)
    });
    assert_eq!(written, Ok(()));
}

/// Reads the file and returns its version, which is that of all its bytes.
fn read(world: &World) -> u64 {
    let mut buffer = vec![0; LEN];
    let version = world.read(|run| {
        let inode = run.block(A, KIND)?;
        let (version, position) = (inode.get(LEFT), inode.get(RIGHT));
        if position != 0 {
            run.read_data(position, &mut buffer, 2)?;
        }
        Ok(version)
    });
    let version = version.expect("data that match their checksums");
    let wrong = buffer.chunks_exact(8).find(|word| **word != version.to_le_bytes());
    assert!(version == 0 || wrong.is_none(), "{wrong:?} in a file of version {version}");
    version
}

/// A file is written while commits, eviction and readers go on, and a crash comes at any time.
fn a_file() {
    let medium = medium();
    let world = World::with_sums(&medium, 4);
    world.store.use_journal(JOURNAL.0, JOURNAL.1, JournalContent::New).expect("a journal");
    let world = &world;
    thread::scope(|scope| {
        scope.spawn(|| {
            for version in 1..=3 {
                write(world, version);
            }
        });
        scope.spawn(|| {
            world.commit();
            world.commit();
            world.checkpoint();
        });
        scope.spawn(|| {
            world.store.drop_clean();
            assert!(read(world) <= read(world), "back in time");
            world.store.drop_clean();
        });
        scope.spawn(|| {
            thread::yield_now();
            let crashed = World::with_sums(&medium.copy(), 4);
            crashed.store.use_journal(JOURNAL.0, JOURNAL.1, JournalContent::Log).expect("a journal");
            read(&crashed);
        });
    });
    world.commit();
    world.checkpoint();
    world.store.drop_clean();
    assert_eq!(world.store.stats().blocks_resident, 0);
    assert_eq!(read(world), 3);
    assert_eq!(world.store.stats().data_wrong, 0);
}

/// A committed file is overwritten, and a crash comes before or after the commit of that.
fn an_overwritten_file() {
    let medium = medium();
    let world = World::with_sums(&medium, 4);
    world.store.use_journal(JOURNAL.0, JOURNAL.1, JournalContent::New).expect("a journal");
    write(&world, 1);
    world.commit();
    let world = &world;
    thread::scope(|scope| {
        scope.spawn(|| {
            write(world, 2);
            world.commit();
        });
        scope.spawn(|| {
            let crashed = World::with_sums(&medium.copy(), 4);
            crashed.store.use_journal(JOURNAL.0, JOURNAL.1, JournalContent::Log).expect("a journal");
            assert!(read(&crashed) >= 1, "a commit is lost");
        });
    });
}

#[test]
fn data_match_their_checksums_at_any_time() {
    explore(1500, a_file);
    explore(500, an_overwritten_file);
}

#[test]
fn canary_a_committed_block_that_is_overwritten_is_noticed() {
    finds(OverwriteCommitted, 1500, an_overwritten_file);
}

#[test]
fn canary_a_checksum_of_older_bytes_is_noticed() {
    finds(StaleSums, 1500, a_file);
}
