//! Sections of a sparse volume that take slots from each other.

use super::explorer::{explore, finds};
use super::medium::Medium;
use super::world::{BLOCKS, BOTH, LEFT, World};
use crate::memory::slots::SLOT_BYTES;
use crate::vocabulary::fault::Fault;
use crate::vocabulary::planted::Bug::{NoVersionCheck, SlotOfFreedBlocks, SlotThatLeaves};
use crate::vocabulary::range::BlockRange;
use lanefs_format::{BLOCK, BlockKind, Code};
use shuttle::thread;

const KIND: BlockKind = BlockKind::Leaf;
/// Blocks in three sections, the last of file data.
const A: u64 = SLOT_BYTES - BLOCK;
const B: u64 = SLOT_BYTES + BLOCK;
const DATA: u64 = 3 * SLOT_BYTES + BLOCK;
/// Budget in blocks: all have room, and slots are what is short.
const ROOM: u64 = BLOCKS;

fn world(slots: u64) -> World {
    let medium = Medium::new(BLOCKS);
    medium.format(A, KIND, &BOTH, 7);
    medium.format(B, KIND, &BOTH, 8);
    (0..2).for_each(|i| medium.fill(DATA + i * BLOCK, 9));
    World::in_slots(&medium, ROOM, slots)
}

fn data(world: &World) -> Result<u64, Fault> {
    let mut word = [0; 8];
    world.read(|run| run.read_data(DATA + 8, &mut word, 1)).map(|()| u64::from_le_bytes(word))
}

/// Readers of three sections, for which there are two slots: each finds the bytes of its own section.
fn readers_of_more_sections_than_slots() {
    let world = world(2);
    let world = &world;
    thread::scope(|scope| {
        scope.spawn(|| assert_eq!((world.words(A, KIND), world.words(B, KIND)), (Ok((7, 7)), Ok((8, 8)))));
        scope.spawn(|| assert_eq!((world.words(B, KIND), data(world)), (Ok((8, 8)), Ok(9))));
        world.store.read_ahead(BlockRange { first: DATA / BLOCK, count: 2 });
        assert_eq!(world.words(A, KIND), Ok((7, 7)));
    });
    world.check_books();
    assert_eq!((world.words(A, KIND), world.words(B, KIND), data(world)), (Ok((7, 7)), Ok((8, 8)), Ok(9)));
    assert!(world.store.frames.slots_in_use() <= 2);
}

/// Changed blocks stay while other sections need slots, and so do those that a writer frees in vain.
fn changed_blocks_keep_their_slots() {
    let world = world(3);
    let world = &world;
    thread::scope(|scope| {
        scope.spawn(|| {
            let changed = world.change(|tx| {
                let block = tx.reader().block(A, KIND)?;
                tx.put(block, LEFT, 1);
                Ok(())
            });
            assert_eq!(changed, Ok(()));
            let failed = world.change(|tx| {
                tx.reader().block(B, KIND)?;
                tx.retire(B, KIND);
                tx.vacate(B);
                Err::<(), _>(Fault::Code(Code::NoSpace))
            });
            assert_eq!(failed, Err(Code::NoSpace.into()));
            assert_eq!(world.words(B, KIND), Ok((8, 8)));
        });
        for at in [2 * SLOT_BYTES + BLOCK, DATA] {
            world.store.read_ahead(BlockRange { first: at / BLOCK, count: 2 });
            world.store.make_room(0);
        }
    });
    world.check_books();
    assert_eq!((world.words(A, KIND), world.words(B, KIND)), (Ok((1, 7)), Ok((8, 8))));
}

/// New data are written in a section whose slot, the only one, is about to leave.
fn written_in_a_slot_that_leaves() {
    let world = world(1);
    let world = &world;
    world.store.read_ahead(BlockRange { first: DATA / BLOCK, count: 1 });
    thread::scope(|scope| {
        scope.spawn(|| {
            // Once the data are changed, they keep the only slot.
            let words = world.words(A, KIND);
            assert!(matches!(words, Ok((7, 7)) | Err(Fault::Io { .. })), "{words:?}");
        });
        let written = world.change(|tx| {
            tx.validate()?;
            tx.write_data(DATA + 2 * BLOCK, &[5; BLOCK as usize], false)
        });
        assert_eq!(written, Ok(()));
    });
    world.check_books();
    let mut bytes = [0; BLOCK as usize];
    world.read(|run| run.read_data(DATA + 2 * BLOCK, &mut bytes, 1)).expect("written");
    assert_eq!(bytes, [5; BLOCK as usize]);
}

#[test]
fn sections_share_few_slots() {
    explore(1500, readers_of_more_sections_than_slots);
}

#[test]
fn slots_of_changed_blocks_stay() {
    explore(1500, changed_blocks_keep_their_slots);
}

#[test]
fn data_are_written_beside_slots_that_leave() {
    explore(1500, written_in_a_slot_that_leaves);
}

#[test]
fn canary_a_slot_that_leaves_under_a_claim_is_noticed() {
    finds(SlotThatLeaves, 1500, written_in_a_slot_that_leaves);
}

#[test]
fn canary_a_slot_of_blocks_that_come_back_is_noticed() {
    finds(SlotOfFreedBlocks, 5000, changed_blocks_keep_their_slots);
}

#[test]
fn canary_versions_that_are_not_compared_are_noticed() {
    finds(NoVersionCheck, 3000, readers_of_more_sections_than_slots);
}
