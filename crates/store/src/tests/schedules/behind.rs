//! Write-behind against commits, readers and the cache.

use super::explorer::{explore, finds};
use super::medium::Medium;
use super::world::{BLOCKS, BOTH, LEFT, World};
use crate::vocabulary::planted::Bug::CommitBeforeWriteBehind;
use lanefs_format::{BLOCK, BlockKind};
use shuttle::thread;

const KIND: BlockKind = BlockKind::Leaf;
/// Position of the "inode", which has the version of the file.
const INODE: u64 = 2 * BLOCK;
/// Position of the first version's block; the next version's block follows it.
const DATA: u64 = 4 * BLOCK;

/// Position of the block of a version.
fn position(version: u64) -> u64 {
    DATA + (version - 1) * BLOCK
}

/// Explores a file that has a new block with each version.
fn a_file_that_moves() {
    let medium = Medium::new(BLOCKS);
    medium.format(INODE, KIND, &BOTH, 0);
    let world = World::on(&medium, 4);
    let (world, medium) = (&world, &medium);
    thread::scope(|scope| {
        scope.spawn(|| world.store.write_behind());
        thread::scope(|scope| {
            scope.spawn(|| {
                for version in 1..=2u64 {
                    let data = version.to_le_bytes().repeat(BLOCK as usize / 8);
                    let written = world.change(|tx| {
                        let inode = tx.reader().block(INODE, KIND)?;
                        tx.put(inode, LEFT, version);
                        tx.validate()?;
                        tx.write_new_data(position(version), &data, true)
                    });
                    assert_eq!(written, Ok(()));
                }
            });
            scope.spawn(|| {
                world.commit();
                // The device as after a power cut: there is no journal, so the inode is in place.
                let version = medium.word(INODE + LEFT.offset as u64);
                if version > 0 {
                    assert_eq!(medium.word(position(version)), version, "a file without its data");
                }
            });
            scope.spawn(|| {
                world.store.drop_clean();
                let found = world.read(|run| {
                    let version = run.block(INODE, KIND)?.get(LEFT);
                    let mut word = version.to_le_bytes();
                    if version > 0 {
                        run.read_data(position(version) + 64, &mut word, 1)?;
                    }
                    Ok((version, u64::from_le_bytes(word)))
                });
                assert!(found.is_ok_and(|(version, word)| word == version), "{found:?}");
            });
        });
        world.store.stop_writing_behind();
    });
    world.commit();
    world.check_books();
    assert_eq!((medium.word(position(1)), medium.word(position(2))), (1, 2), "not on the device");
}

#[test]
fn data_that_are_written_behind_are_there_before_what_names_them() {
    explore(2000, a_file_that_moves);
}

#[test]
fn canary_a_commit_that_does_not_wait_for_what_is_written_behind_is_noticed() {
    finds(CommitBeforeWriteBehind, 2000, a_file_that_moves);
}
