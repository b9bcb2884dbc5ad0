//! Tests of volumes that are larger than address space.

use crate::device::{Device, IoBuf, IoBufMut};
use crate::memory::frames::Frames;
use crate::memory::reserved::Memory;
use crate::memory::slots::SLOT_BYTES;
use crate::residency::pins::{Pinned, Pins};
use crate::store::{Backing, Store};
use crate::transaction::reader::Reader;
use crate::transaction::tx::{Log, Tx};
use crate::vocabulary::fault::{Fault, Want};
use crate::vocabulary::range::BlockRange;
use lanefs_format::{BLOCK, BlockKind, Checksummer, Code, Field, InodeSize, MAX_VOLUME};
use lanefs_sync::lock::Mutex;
use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;

const SUMS: Checksummer = Checksummer::new(9);
const TIB: u64 = 1 << 40;
/// Under Miri, whose sections are smaller than the windows of neighbours, too small for neighbours.
const BUDGET: u64 = if cfg!(miri) { 2 << 20 } else { 64 << 20 };
const WORD: Field<u64> = Field::at(64);

/// A device that has the blocks that were written; another one has its number in each word.
#[derive(Clone, Default)]
struct Blocks(Arc<Mutex<BTreeMap<u64, Vec<u8>>>>);

fn pattern(index: u64) -> Vec<u8> {
    index.to_le_bytes().repeat(BLOCK as usize / 8)
}

impl Device for Blocks {
    fn len(&self) -> u64 {
        MAX_VOLUME
    }

    fn read_at(&self, at: u64, mut buffer: IoBufMut<'_>) -> io::Result<()> {
        let blocks = self.0.lock();
        let indexes = at / BLOCK..(at + buffer.len() as u64) / BLOCK;
        let bytes: Vec<u8> =
            indexes.flat_map(|index| blocks.get(&index).cloned().unwrap_or_else(|| pattern(index))).collect();
        buffer.copy_from(&bytes);
        Ok(())
    }

    fn write_at(&self, at: u64, data: IoBuf<'_>) -> io::Result<()> {
        let mut bytes = vec![0; data.len()];
        data.copy_to(&mut bytes);
        let blocks = bytes.chunks(BLOCK as usize).map(<[u8]>::to_vec);
        self.0.lock().extend((at / BLOCK..).zip(blocks));
        Ok(())
    }

    fn flush(&self) -> io::Result<()> {
        Ok(())
    }

    fn discard(&self, _: u64, _: u64) -> io::Result<()> {
        Ok(())
    }

    fn resize(&self, _: u64) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }
}

fn with_slots(backing: Backing, bytes: u64, slots: u64) -> Store {
    let memory = Memory::with(Frames::with_slots(bytes, slots), bytes, Some(BUDGET / BLOCK));
    Store::in_memory(memory.expect("address space"), backing, bytes, BUDGET, SUMS, InodeSize::B256)
}

fn on_device(bytes: u64, slots: u64) -> Store {
    with_slots(Backing::Device(Box::new(Blocks::default())), bytes, slots)
}

fn read(store: &Store, at: u64, len: usize) -> Result<Vec<u8>, Fault> {
    let mut bytes = vec![0; len];
    loop {
        match Reader::reading(store).read_data(at, &mut bytes, 1) {
            Err(Fault::Miss { at, want }) => store.fetch(at, want)?,
            done => return done.map(|()| bytes),
        }
    }
}

/// Changes something until no block is missing, as a volume does.
fn change(
    store: &Store,
    log: &mut Log,
    change: impl Fn(&mut Tx<'_>) -> Result<(), Fault>,
) -> Result<(), Fault> {
    loop {
        let reader = Reader::writing(store, 0);
        let mut tx = Tx::new(&reader, log);
        match change(&mut tx) {
            Ok(()) => {
                tx.commit();
                return Ok(());
            }
            Err(Fault::Miss { at, want }) => {
                drop(tx);
                store.fetch(at, want)?;
            }
            Err(fault) => return Err(fault),
        }
    }
}

fn commit(store: &Store, log: &mut Log) {
    let snapshot = store.snapshot(log.take_changed(), &[], &[], None).expect("no tables");
    store.commit(snapshot).expect("a device that works");
}

/// Writes, commits, evicts and reads blocks all over a volume.
fn use_all_over(store: &Store, bytes: u64) {
    let mut log = Log::default();
    let places: Vec<u64> = [2 * SLOT_BYTES, bytes / 3, bytes / 2, bytes - 2 * SLOT_BYTES]
        .map(|at| at / SLOT_BYTES * SLOT_BYTES)
        .into();
    for at in &places {
        // Across the border of two sections.
        let crossing: Vec<u8> = (at / BLOCK - 2..at / BLOCK + 2).flat_map(pattern).collect();
        assert!(read(store, at - 2 * BLOCK, crossing.len()) == Ok(crossing), "of the device, at {at}");
        let mine: Vec<u8> = (0..4 * BLOCK).map(|i| (i % 251) as u8).collect();
        change(store, &mut log, |tx| tx.write_data(at - 2 * BLOCK, &mine, true)).expect("written");
        let leaf = at + SLOT_BYTES - BLOCK;
        change(store, &mut log, |tx| {
            let block = tx.fresh(leaf, BlockKind::Leaf, 5)?;
            tx.put(block, WORD, *at);
            Ok(())
        })
        .expect("a free block");
    }
    commit(store, &mut log);
    store.drop_clean();
    assert_eq!(store.stats().blocks_resident, 0);
    for at in &places {
        let mine: Vec<u8> = (0..4 * BLOCK).map(|i| (i % 251) as u8).collect();
        assert!(read(store, at - 2 * BLOCK, mine.len()) == Ok(mine), "written before, at {at}");
        let leaf = at + SLOT_BYTES - BLOCK;
        store.fetch(leaf, Want::Block(BlockKind::Leaf)).expect("a good block");
        let block = Reader::reading(store).block(leaf, BlockKind::Leaf).expect("resident");
        assert_eq!(block.get(WORD), *at);
    }
    let outside = Reader::reading(store).block(bytes, BlockKind::Leaf).map(drop);
    assert!(matches!(outside, Err(Fault::Damaged { .. })), "{outside:?}");
}

#[test]
fn an_image_that_the_host_has_no_room_for_is_an_error() {
    let store = on_device(MAX_VOLUME, 64);
    assert!(matches!(store.image(), Err(Fault::Code(Code::NoMemory))));
}

/// Address space of blocks follows use, up to the format's limit.
#[test]
#[cfg_attr(miri, ignore = "Miri has no address space to reserve")]
fn volumes_of_every_size_are_used_all_over() {
    for bytes in [TIB, 33 * TIB, 130 * TIB, 1024 * TIB, MAX_VOLUME] {
        let backing = Backing::Device(Box::new(Blocks::default()));
        let store = Store::new(backing, bytes, bytes, BUDGET, SUMS, InodeSize::B256).expect("address space");
        assert_eq!(store.frames.are_sparse(), bytes > 32 * TIB);
        use_all_over(&store, bytes);
        assert!(bytes <= 32 * TIB || store.frames.reserved() <= 9 << 30, "{}", store.frames.reserved());
        assert!(store.frames.slots_in_use() <= 8);
    }
}

#[test]
fn a_volume_with_few_slots_is_used_all_over() {
    use_all_over(&on_device(64 * SLOT_BYTES, 9), 64 * SLOT_BYTES);
}

#[test]
fn sections_give_their_slots_to_others() {
    const SECTIONS: u64 = if cfg!(miri) { 12 } else { 300 };
    let store = on_device(SECTIONS * SLOT_BYTES, 4);
    for round in 0..2 {
        for section in 0..SECTIONS {
            let at = section * SLOT_BYTES + (2 + round) * BLOCK;
            assert!(read(&store, at, BLOCK as usize) == Ok(pattern(at / BLOCK)), "at {at}");
        }
    }
    assert!(store.frames.slots_in_use() <= 4);
    let stats = store.stats();
    assert!(stats.blocks_resident <= 4 && stats.blocks_fetched == 2 * SECTIONS, "{stats:?}");
}

#[test]
fn changed_blocks_keep_their_slots_and_a_commit_lets_them_go() {
    let store = on_device(16 * SLOT_BYTES, 2);
    let mut log = Log::default();
    let write = |log: &mut Log, section: u64| {
        let at = section * SLOT_BYTES + BLOCK;
        change(&store, log, |tx| tx.write_data(at, &[7; BLOCK as usize], true))
    };
    assert_eq!((write(&mut log, 1), write(&mut log, 2)), (Ok(()), Ok(())));
    if cfg!(not(miri)) {
        let fault = write(&mut log, 3).expect_err("all slots have changed blocks");
        assert!(matches!(fault, Fault::Io { errno: libc::ENOMEM, .. }), "{fault:?}");
    }
    commit(&store, &mut log);
    assert_eq!(write(&mut log, 3), Ok(()));
    for section in 1..4 {
        assert_eq!(read(&store, section * SLOT_BYTES + BLOCK, 8), Ok(vec![7; 8]));
    }
}

#[test]
fn pinned_blocks_keep_their_slots() {
    let store = Arc::new(on_device(16 * SLOT_BYTES, 3).for_reading().expect("address space"));
    let mut pins = Pins::new(Arc::clone(&store), |store| store).expect("for reading");
    store.read_ahead(BlockRange { first: SLOT_BYTES / BLOCK - 1, count: 2 });
    let Ok(Pinned::At(number)) = pins.pin(SLOT_BYTES + 8, 100) else { panic!("not pinned") };
    assert_eq!(pins.pin(SLOT_BYTES - 8, 16), Ok(Pinned::Split), "no slice of two sections");
    for section in 2..16 {
        let at = section * SLOT_BYTES + BLOCK;
        assert_eq!(read(&store, at, 8), Ok((at / BLOCK).to_le_bytes().to_vec()));
    }
    assert_eq!(
        pins.bytes(number).map(|bytes| bytes[..8].to_vec()),
        Some((SLOT_BYTES / BLOCK).to_le_bytes().to_vec())
    );
}

#[test]
fn a_sparse_volume_in_memory_keeps_all_that_is_written() {
    let sections = 40;
    let store = with_slots(Backing::Memory, sections * SLOT_BYTES, 4);
    let mut log = Log::default();
    let places = [SLOT_BYTES - BLOCK, 20 * SLOT_BYTES, 39 * SLOT_BYTES + 5 * (BLOCK / 8)];
    for at in places {
        change(&store, &mut log, |tx| tx.write_data(at, &[9; 100], false)).expect("written");
    }
    for at in places {
        assert_eq!(read(&store, at, 100), Ok(vec![9; 100]));
    }
    assert_eq!(read(&store, 30 * SLOT_BYTES, 100), Ok(vec![0; 100]), "nothing was written there");
    change(&store, &mut log, |tx| tx.fresh(10 * SLOT_BYTES, BlockKind::Leaf, 1).map(drop))
        .expect("the last slot");
    let full = change(&store, &mut log, |tx| tx.fresh(11 * SLOT_BYTES, BlockKind::Leaf, 1).map(drop));
    assert!(matches!(full, Err(Fault::Io { errno: libc::ENOMEM, .. })), "{full:?}");
    let full = change(&store, &mut log, |tx| tx.write_data(12 * SLOT_BYTES - 8, &[9; 16], false));
    assert!(matches!(full, Err(Fault::Io { errno: libc::ENOMEM, .. })), "{full:?}");
}
