//! Waits for other threads' fetches: who is interrupted, and who is not.

use crate::device::{Device, IoBuf, IoBufMut, MemoryDevice};
use crate::memory::state;
use crate::store::{Backing, Store};
use crate::vocabulary::fault::{Fault, Want};
use crate::vocabulary::range::BlockRange;
use lanefs_format::{BLOCK, BlockKind, CHUNK, Checksummer, InodeSize, SumPlace, sums};
use lanefs_sync::lock::{Condvar, Mutex};
use std::cell::Cell;
use std::sync::Arc;
use std::{io, thread};

const SUMS: Checksummer = Checksummer::new(9);
const BYTES: u64 = 4 * CHUNK;
/// A block of file data, and a block of inodes.
const DATA_AT: u64 = 2 * CHUNK;
const INODES_AT: u64 = CHUNK + 40 * BLOCK;
const DATA: Want = Want::Data { need: 1, extent: 1 };

/// A device that does not answer reads of one block while it is closed.
#[derive(Clone)]
struct Stuck(Arc<(MemoryDevice, Mutex<Gate>, Condvar)>);

#[derive(Default)]
struct Gate {
    /// Block whose reads wait.
    closed: Option<u64>,
    waiting: usize,
}

impl Stuck {
    fn close(&self, at: u64) {
        self.0.1.lock().closed = Some(at);
    }

    fn open(&self) {
        self.0.1.lock().closed = None;
        self.0.2.notify_all();
    }

    /// Waits until a read waits.
    fn wait_for_read(&self) {
        let mut gate = self.0.1.lock();
        while gate.waiting == 0 {
            self.0.2.wait(&mut gate);
        }
    }
}

impl Device for Stuck {
    fn len(&self) -> u64 {
        BYTES
    }
    fn read_at(&self, at: u64, buffer: IoBufMut<'_>) -> io::Result<()> {
        let mut gate = self.0.1.lock();
        while gate.closed == Some(at) {
            gate.waiting += 1;
            self.0.2.notify_all();
            self.0.2.wait(&mut gate);
            gate.waiting -= 1;
        }
        drop(gate);
        self.0.0.read_at(at, buffer)
    }
    fn write_at(&self, at: u64, data: IoBuf<'_>) -> io::Result<()> {
        self.0.0.write_at(at, data)
    }
    fn flush(&self) -> io::Result<()> {
        Ok(())
    }
    fn discard(&self, _at: u64, _len: u64) -> io::Result<()> {
        Ok(())
    }
    fn resize(&self, _len: u64) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }
}

thread_local! {
    /// This thread was asked to stop.
    static ASKED: Cell<bool> = const { Cell::new(false) };
}

/// A store with checksums of file data, whose waits a thread gives up once it was asked to stop.
fn store() -> (Stuck, Store) {
    let bytes = MemoryDevice::new(vec![0; BYTES as usize]);
    let put = |at: u64, kind: BlockKind, block: &mut [u8]| {
        let _ = SUMS.seal(kind, at, block, InodeSize::B256.bytes() as usize);
        bytes.write_slice(at, block).expect("inside");
    };
    put(INODES_AT, BlockKind::Inodes, &mut [1; BLOCK as usize]);
    let mut block = [0; BLOCK as usize];
    sums::KIND.write(&mut block, BlockKind::Sums as u8);
    put(SumPlace::of(DATA_AT).at, BlockKind::Sums, &mut block);
    let device = Stuck(Arc::new((bytes, Mutex::default(), Condvar::new())));
    let backing = Backing::Device(Box::new(device.clone()));
    let store = Store::new(backing, BYTES, BYTES, BYTES, SUMS, InodeSize::B256).expect("address space");
    store.use_data_checksums();
    store.interrupt_waits_by(|| ASKED.get());
    (device, store)
}

/// Fetches a block in a thread that was asked to stop.
fn asked(store: &Store, at: u64, want: Want) -> Result<(), Fault> {
    ASKED.set(true);
    store.fetch(at, want)
}

fn is_interruption(done: Result<(), Fault>) -> bool {
    matches!(done, Err(Fault::Io { errno: 4, .. }))
}

#[test]
fn a_wait_for_a_fetch_hears_that_its_thread_should_stop() {
    let (device, store) = store();
    for (at, want) in [(INODES_AT, Want::Block(BlockKind::Inodes)), (DATA_AT, DATA)] {
        device.close(at);
        thread::scope(|scope| {
            let reads = scope.spawn(|| store.fetch(at, want));
            device.wait_for_read();
            let waits = scope.spawn(|| store.fetch(at, want));
            let stops = scope.spawn(|| asked(&store, at, want));
            assert!(is_interruption(stops.join().expect("no panic")), "while the device does not answer");
            device.open();
            assert_eq!(reads.join().expect("no panic"), Ok(()));
            assert_eq!(waits.join().expect("no panic"), Ok(()), "nobody asked this thread to stop");
        });
    }
}

#[test]
fn a_thread_that_stops_while_it_has_claimed_data_fails_no_other() {
    let (device, store) = store();
    let sums = SumPlace::of(DATA_AT).at;
    device.close(sums);
    thread::scope(|scope| {
        let reads = scope.spawn(|| store.fetch(sums, Want::Block(BlockKind::Sums)));
        device.wait_for_read();
        // It has read the data, and waits for their checksum.
        assert!(is_interruption(scope.spawn(|| asked(&store, DATA_AT, DATA)).join().expect("no panic")));
        let waits = scope.spawn(|| store.fetch(DATA_AT, DATA));
        device.open();
        assert_eq!(reads.join().expect("no panic"), Ok(()));
        assert_eq!(waits.join().expect("no panic"), Ok(()));
    });
    assert!(!store.may_hold_data(sums / BLOCK));
}

#[test]
fn nobody_fetches_a_block_of_checksums_as_data() {
    let (_, store) = store();
    // Its own checksum is in it.
    let own = SumPlace::of(CHUNK).at;
    assert_eq!(SumPlace::of(own).at, own);
    for at in [own, own + BLOCK, CHUNK] {
        let done = store.fetch(at, DATA);
        assert_eq!(done, Err(Fault::damaged(at, "file data where metadata is")));
        store.fetch_many(&[(at, DATA)]);
        store.read_ahead(BlockRange { first: at / BLOCK, count: 1 });
        assert_ne!(state::content(store.state(at / BLOCK)), Some(state::DATA), "block {at}");
    }
    let device = store.device().expect("a device");
    assert!(store.verify_data(device, own).is_err(), "a fetch that has claimed it does not wait for it");
}
