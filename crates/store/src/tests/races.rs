//! Accesses to a frame by several threads at the same time, for Miri and ThreadSanitizer: each access must be
//! atomic by words, or these see a data race. (The schedule tests show that the results are right; they run
//! one thread at a time.)

use crate::device::{Device, IoBuf, MemoryDevice};
use crate::store::{Backing, Store};
use crate::transaction::reader::Reader;
use crate::transaction::tx::{Log, Tx};
use crate::vocabulary::fault::{Fault, Want};
use lanefs_format::{BLOCK, BlockKind, Checksummer, Field, InodeSize};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

const SUMS: Checksummer = Checksummer::new(9);
const BLOCKS: u64 = 16;
/// A block that does not belong to the superblock.
const AT: u64 = 3 * BLOCK;
const ROUNDS: usize = if cfg!(miri) { 2 } else { 200 };

fn store(backing: Backing) -> Store {
    let bytes = BLOCKS * BLOCK;
    Store::new(backing, bytes, bytes, bytes, SUMS, InodeSize::B256).expect("address space")
}

/// A store on a device in memory, with a block of inodes and a block of file data.
fn on_a_device() -> Store {
    let device = MemoryDevice::new(vec![0; (BLOCKS * BLOCK) as usize]);
    let mut block = vec![1; BLOCK as usize];
    let _ = SUMS.seal(BlockKind::Inodes, AT, &mut block, InodeSize::B256.bytes() as usize);
    device.write_slice(AT, &block).expect("inside");
    device.write_at(AT + BLOCK, IoBuf::new(&[2; BLOCK as usize])).expect("inside");
    store(Backing::Device(Box::new(device)))
}

/// Runs `work` beside `beside`, which is repeated until that is done.
fn beside(beside: impl Fn() + Sync, work: impl FnOnce()) {
    let is_over = AtomicBool::new(false);
    let started = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                beside();
                started.store(true, Ordering::Relaxed);
                thread::yield_now();
            }
        });
        while !started.load(Ordering::Relaxed) {
            thread::yield_now();
        }
        work();
        is_over.store(true, Ordering::Relaxed);
    });
}

#[test]
fn a_stale_reader_reads_a_frame_while_a_fetch_fills_it() {
    let store = on_a_device();
    let read_all = || {
        // As a view from before the block left: its owner validates later, and fails.
        let stale = store.view(AT);
        let mut bytes = [0; BLOCK as usize];
        stale.copy_to(0, &mut bytes);
        let _ = stale.get::<u32>(Field::at(12));
        let _ = stale.equals(8, &bytes[8..40]);
        let _ = stale.positions_of(64, 1);
    };
    beside(read_all, || {
        for _ in 0..ROUNDS {
            store.fetch(AT, Want::Block(BlockKind::Inodes)).expect("a good block");
            let mut data = [0; 300];
            loop {
                let reader = Reader::reading(&store);
                match reader.read_data(AT + BLOCK + 100, &mut data, 1) {
                    Err(Fault::Miss { at, want }) => store.fetch(at, want).expect("data"),
                    other => break other.expect("data"),
                }
            }
            assert_eq!(data, [2; 300]);
            assert!(store.is_resident(AT, BlockKind::Inodes));
            store.drop_clean();
        }
    });
}

#[test]
fn a_reader_copies_data_while_a_writer_writes_them() {
    for store in [store(Backing::Memory), on_a_device()] {
        let at = AT + BLOCK + 5;
        let write = |value: u8| {
            let reader = Reader::writing(&store, 0);
            let mut log = Log::default();
            let mut tx = Tx::new(&reader, &mut log);
            loop {
                match tx.write_data(at, &[value; 1001], true) {
                    Err(Fault::Miss { at, want }) => store.fetch(at, want).expect("data"),
                    other => break other.expect("inside"),
                }
            }
            tx.commit();
        };
        let copy = || {
            let mut data = [0; 998];
            let _ = Reader::reading(&store).read_data(at + 3, &mut data, 1);
        };
        write(1);
        beside(copy, || (0..ROUNDS).for_each(|round| write(round as u8)));
        let mut data = [0; 1003];
        Reader::reading(&store).read_data(at - 1, &mut data, 1).expect("data");
        let last = (ROUNDS - 1) as u8;
        assert!(data[1..1002].iter().all(|byte| *byte == last), "what was written last");
        assert_eq!(data[0], data[1002], "the neighbours are as they were");
    }
}

#[test]
fn a_block_is_cleared_and_filled_beside_a_stale_reader() {
    let store = store(Backing::Memory);
    let read_all = || {
        let stale = store.view(AT);
        let mut bytes = [0; BLOCK as usize];
        stale.copy_to(0, &mut bytes);
        let _ = stale.get::<u16>(Field::at(2));
        let _ = stale.get::<u64>(Field::at(256));
    };
    beside(read_all, || {
        for round in 0..ROUNDS {
            let reader = Reader::writing(&store, 1);
            let mut log = Log::default();
            let mut tx = Tx::new(&reader, &mut log);
            let view = tx.fresh(AT, BlockKind::Inodes, 7).expect("a free block");
            tx.put(view, Field::<u16>::at(2), round as u16);
            tx.put(view, Field::<u8>::at(13), 0xaa);
            tx.init(view, 256, &[3; 37]);
            tx.put_bytes(view, 512, &[4; 21]);
            assert_eq!(view.get(Field::<u16>::at(2)), round as u16);
            assert_eq!(view.get(Field::<u8>::at(13)), 0xaa);
            assert_eq!(view.get(Field::<u8>::at(256 + 37)), 0);
            drop(tx);
        }
    });
}
