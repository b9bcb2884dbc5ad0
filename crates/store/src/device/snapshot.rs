//! Snapshots of a device: its bytes of one moment stay readable while it is written.
//!
//! A [`Preserving`] device reads the old content of a block before it overwrites the block, where a snapshot
//! still needs that content, and keeps it in memory. So a snapshot costs memory for blocks that change and
//! that its reader has not [released](DeviceSnapshot::release), and nothing else. A snapshot that would need
//! more memory than it may have is given up: its reads fail from then on, and no write waits or fails for it.
//!
//! A snapshot needs no lock while it reads the device: whoever overwrites a block has saved it before, so a
//! reader that finds no saved copy after its read has read the old content.

use super::{Device, FileId, IoBuf, IoBufMut, Origins, Read, ReadErrors, Write};
use crate::vocabulary::planted;
use lanefs_format::BLOCK;
use lanefs_sync::{Mutex, point};
use std::collections::{BTreeMap, HashMap};
use std::io;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};

/// Words of 64 blocks in a page of [`BlockSet`]: 128 MiB of the device.
const PAGE_WORDS: u64 = 512;

/// A set of blocks, with memory for those parts of a device that have some.
#[derive(Default)]
struct BlockSet(HashMap<u64, Box<[u64; PAGE_WORDS as usize]>>);

impl BlockSet {
    fn word(&self, word: u64) -> u64 {
        self.0.get(&(word / PAGE_WORDS)).map_or(0, |page| page[(word % PAGE_WORDS) as usize])
    }

    fn insert(&mut self, word: u64, mask: u64) {
        let page = self.0.entry(word / PAGE_WORDS).or_insert_with(|| Box::new([0; PAGE_WORDS as usize]));
        page[(word % PAGE_WORDS) as usize] |= mask;
    }

    fn remove(&mut self, word: u64, mask: u64) {
        if let Some(page) = self.0.get_mut(&(word / PAGE_WORDS)) {
            page[(word % PAGE_WORDS) as usize] &= !mask;
        }
    }

    fn contains(&self, index: u64) -> bool {
        self.word(index / 64) >> (index % 64) & 1 != 0
    }
}

/// The state of a snapshot that its reader and the writers of the device share.
#[derive(Default)]
struct Kept {
    /// Blocks whose content is needed and still on the device.
    needed: BlockSet,
    /// Content that is no longer on the device, by number of the block.
    saved: BTreeMap<u64, Box<[u8]>>,
    /// Bytes that read as zeros.
    blank: Range<u64>,
    /// The reason why the snapshot has been given up.
    given_up: Option<String>,
}

impl Kept {
    fn give_up(&mut self, why: String) {
        *self = Kept { given_up: Some(why), ..Kept::default() };
    }
}

struct SnapshotState {
    device: Arc<dyn Device>,
    /// Size in bytes.
    len: u64,
    /// Largest number of saved blocks.
    room: usize,
    kept: Mutex<Kept>,
}

/// The bytes of a device at one moment, as a device that is only read. Clones are the same snapshot, which
/// ends with the last of them.
#[derive(Clone)]
pub struct DeviceSnapshot(Arc<SnapshotState>);

impl DeviceSnapshot {
    /// Gives a block other bytes than the device has.
    ///
    /// # Panics
    /// Where `bytes` is not a whole block.
    pub fn replace(&self, at: u64, bytes: &[u8]) {
        assert_eq!(bytes.len() as u64, BLOCK, "a whole block");
        let (index, mut kept) = (at / BLOCK, self.0.kept.lock());
        kept.needed.remove(index / 64, 1 << (index % 64));
        kept.saved.insert(index, bytes.into());
    }

    /// Makes a range read as zeros, whatever the device has there.
    pub fn blank(&self, bytes: Range<u64>) {
        self.0.kept.lock().blank = bytes;
    }

    /// Keeps blocks from now on: bit `i` of `blocks` is block `i` after `position`, a multiple of 256 KiB.
    /// The caller makes sure that no write to them is in progress.
    pub fn keep(&self, position: u64, blocks: u64) {
        let word = position / BLOCK / 64;
        let mut kept = self.0.kept.lock();
        let saved = (0..64).filter(|bit| kept.saved.contains_key(&(word * 64 + bit)));
        let saved = saved.fold(0, |saved, bit| saved | 1 << bit);
        kept.needed.insert(word, blocks & !saved);
    }

    /// Releases blocks that are not read any more, as [`keep`](Self::keep) names them. They may read as
    /// anything from now on.
    pub fn release(&self, position: u64, blocks: u64) {
        let word = position / BLOCK / 64;
        let mut kept = self.0.kept.lock();
        kept.needed.remove(word, blocks);
        for bit in (0..64).filter(|bit| blocks >> bit & 1 != 0) {
            kept.saved.remove(&(word * 64 + bit));
        }
    }

    /// Returns the reason why the snapshot has been given up, where it has.
    pub fn given_up(&self) -> Option<String> {
        self.0.kept.lock().given_up.clone()
    }

    /// Returns the bytes of memory that saved blocks take.
    pub fn saved_bytes(&self) -> u64 {
        self.0.kept.lock().saved.len() as u64 * BLOCK
    }
}

impl SnapshotState {
    /// Saves the blocks of a range that are needed, before the range is overwritten.
    fn save(&self, at: u64, len: usize) {
        if len == 0 {
            return;
        }
        let mut kept = self.kept.lock();
        let (mut index, end) = (at / BLOCK, (at + len as u64).div_ceil(BLOCK));
        while index < end {
            let count = (index..end).take_while(|index| kept.needed.contains(*index)).count();
            if count == 0 {
                index += 1;
                continue;
            }
            if kept.saved.len() + count > self.room {
                return kept.give_up(format!(
                    "more than {} MiB changed that had not been read yet",
                    (self.room as u64 * BLOCK) >> 20
                ));
            }
            let mut bytes = vec![0; count * BLOCK as usize];
            if let Err(error) = self.device.read_slice(index * BLOCK, &mut bytes) {
                return kept.give_up(format!("byte {} cannot be read: {error}", index * BLOCK));
            }
            for block in bytes.chunks_exact(BLOCK as usize) {
                debug_assert!(!kept.saved.contains_key(&index), "block {index} is saved and needed");
                kept.needed.remove(index / 64, 1 << (index % 64));
                kept.saved.insert(index, block.into());
                index += 1;
            }
        }
    }

    /// Puts saved blocks over bytes that were read from the device.
    fn overlay(&self, at: u64, mut buffer: IoBufMut<'_>) -> io::Result<()> {
        let kept = self.kept.lock();
        if let Some(why) = &kept.given_up {
            return Err(io::Error::other(format!("the snapshot was given up: {why}")));
        }
        let end = at + buffer.len() as u64;
        let blank = kept.blank.start.clamp(at, end)..kept.blank.end.clamp(at, end);
        if !blank.is_empty() {
            buffer.part((blank.start - at) as usize..(blank.end - at) as usize).fill(0);
        }
        for (index, block) in kept.saved.range(at / BLOCK..end.div_ceil(BLOCK)) {
            let (from, to) = ((index * BLOCK).max(at), ((index + 1) * BLOCK).min(end));
            let in_block = (from - index * BLOCK) as usize..(to - index * BLOCK) as usize;
            buffer.part((from - at) as usize..(to - at) as usize).copy_from(&block[in_block]);
        }
        Ok(())
    }
}

impl Device for DeviceSnapshot {
    fn len(&self) -> u64 {
        self.0.len
    }

    fn is_read_only(&self) -> bool {
        true
    }

    fn engine(&self) -> String {
        format!("a snapshot of {}", self.0.device.engine())
    }

    fn read_at(&self, at: u64, mut buffer: IoBufMut<'_>) -> io::Result<()> {
        if at.checked_add(buffer.len() as u64).is_none_or(|end| end > self.0.len) {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        self.0.device.read_at(at, buffer.reborrow())?;
        point();
        self.0.overlay(at, buffer)
    }
}

/// A device that keeps the old content of blocks for its snapshots.
pub(crate) struct Preserving {
    device: Arc<dyn Device>,
    /// True where there may be a snapshot.
    has_snapshots: AtomicBool,
    snapshots: Mutex<Vec<Weak<SnapshotState>>>,
}

impl Preserving {
    pub(crate) fn new(device: Box<dyn Device>) -> Self {
        Preserving { device: device.into(), has_snapshots: false.into(), snapshots: Mutex::new(Vec::new()) }
    }

    /// Takes a snapshot of the first `len` bytes, with up to `memory` bytes for blocks that change. It
    /// [keeps](DeviceSnapshot::keep) no block yet.
    pub(crate) fn snapshot(&self, len: u64, memory: u64) -> DeviceSnapshot {
        let room = usize::try_from(memory / BLOCK).unwrap_or(usize::MAX);
        let device = Arc::clone(&self.device);
        let inner = Arc::new(SnapshotState { device, len, room, kept: Mutex::new(Kept::default()) });
        self.snapshots.lock().push(Arc::downgrade(&inner));
        self.has_snapshots.store(true, Ordering::SeqCst);
        DeviceSnapshot(inner)
    }

    /// Saves all that snapshots need of some ranges, which are to be overwritten.
    fn save(&self, ranges: impl Iterator<Item = (u64, usize)> + Clone) {
        if !self.has_snapshots.load(Ordering::SeqCst) {
            return;
        }
        let living: Vec<Arc<SnapshotState>> = {
            let mut snapshots = self.snapshots.lock();
            snapshots.retain(|snapshot| snapshot.strong_count() > 0);
            if snapshots.is_empty() {
                self.has_snapshots.store(false, Ordering::SeqCst);
            }
            snapshots.iter().filter_map(Weak::upgrade).collect()
        };
        for snapshot in living {
            ranges.clone().for_each(|(at, len)| snapshot.save(at, len));
        }
    }
}

impl Device for Preserving {
    fn len(&self) -> u64 {
        self.device.len()
    }

    fn given(&self) -> u64 {
        self.device.given()
    }

    fn is_read_only(&self) -> bool {
        self.device.is_read_only()
    }

    fn origins(&self) -> Option<&dyn Origins> {
        self.device.origins()
    }

    fn engine(&self) -> String {
        self.device.engine()
    }

    fn file_id(&self) -> Option<FileId> {
        self.device.file_id()
    }

    fn show_mark(&self, mark: Option<u64>) {
        self.device.show_mark(mark);
    }

    fn read_at(&self, at: u64, buffer: IoBufMut<'_>) -> io::Result<()> {
        self.device.read_at(at, buffer)
    }

    fn read_many(&self, requests: &mut [Read<'_>]) -> Result<(), ReadErrors> {
        self.device.read_many(requests)
    }

    fn read_batch(&self, requests: &mut [Read<'_>]) -> Result<(), ReadErrors> {
        self.device.read_batch(requests)
    }

    fn write_at(&self, at: u64, data: IoBuf<'_>) -> io::Result<()> {
        if planted::is(planted::Bug::SavesAfterWriting) {
            let done = self.device.write_at(at, data);
            self.save(std::iter::once((at, data.len())));
            return done;
        }
        self.save(std::iter::once((at, data.len())));
        self.device.write_at(at, data)
    }

    fn write_many(&self, requests: &[Write<'_>]) -> io::Result<()> {
        self.save(requests.iter().map(|request| (request.at, request.data.len())));
        self.device.write_many(requests)
    }

    fn take_from(&self, at: u64, from: u64) -> bool {
        self.save(std::iter::once((at, BLOCK as usize)));
        self.device.take_from(at, from)
    }

    fn flush(&self) -> io::Result<()> {
        self.device.flush()
    }

    fn discard(&self, at: u64, len: u64) -> io::Result<()> {
        self.save(std::iter::once((at, usize::try_from(len).unwrap_or(usize::MAX))));
        self.device.discard(at, len)
    }

    fn resize(&self, len: u64) -> io::Result<()> {
        self.device.resize(len)
    }
}

#[cfg(all(test, not(feature = "_shuttle")))]
mod tests {
    use super::super::MemoryDevice;
    use super::*;

    const BLOCKS: u64 = 256;

    fn device() -> (MemoryDevice, Preserving) {
        let bytes = (0..BLOCKS).flat_map(|block| vec![block as u8; BLOCK as usize]).collect();
        let device = MemoryDevice::new(bytes);
        let preserving = Preserving::new(Box::new(device.clone()));
        (device, preserving)
    }

    fn bytes(snapshot: &DeviceSnapshot, at: u64, len: usize) -> io::Result<Vec<u8>> {
        let mut bytes = vec![0; len];
        snapshot.read_slice(at, &mut bytes)?;
        Ok(bytes)
    }

    #[test]
    fn blocks_that_are_kept_stay_as_they_were_and_others_cost_nothing() {
        let (below, device) = device();
        let snapshot = device.snapshot(BLOCKS * BLOCK, 1 << 20);
        snapshot.replace(0, &[0xaa; BLOCK as usize]);
        snapshot.keep(0, 0b1111);
        snapshot.keep(128 * BLOCK, 1 << 63);
        // A part of block 1 to a part of block 5, of which 1 to 3 are kept; and a block in another word.
        device.write_slice(BLOCK + 100, &[0xff; 4 * BLOCK as usize]).expect("written");
        let parts = [(191 * BLOCK, &[0xee; BLOCK as usize][..]), (7 * BLOCK, &[0xee; 10])];
        let writes = parts.map(|(at, data)| Write { at, data: data.into() });
        device.write_many(&writes).expect("written");
        assert_eq!(snapshot.saved_bytes(), 5 * BLOCK, "the replaced one and four kept ones");
        for (block, byte) in [(0, 0xaa), (1, 1), (2, 2), (3, 3), (191, 191), (6, 6)] {
            assert_eq!(bytes(&snapshot, block * BLOCK, 4096).expect("read"), vec![byte; 4096], "{block}");
        }
        snapshot.blank(9 * BLOCK..10 * BLOCK + 1);
        assert_eq!(bytes(&snapshot, 9 * BLOCK - 1, 2).expect("read"), [8, 0]);
        assert_eq!(bytes(&snapshot, 10 * BLOCK, 2).expect("read"), [0, 10]);
        let across = bytes(&snapshot, BLOCK - 10, 20).expect("read");
        assert_eq!(across, [[0xaa; 10], [1; 10]].concat());
        let mut now = [0; 1];
        below.read_slice(2 * BLOCK, &mut now).expect("read");
        assert_eq!(now, [0xff]);
        // A second write saves nothing more; a released block costs nothing.
        device.write_slice(2 * BLOCK, &[1; 10]).expect("written");
        snapshot.release(0, 0b1100);
        assert_eq!(snapshot.saved_bytes(), 3 * BLOCK);
        device.write_slice(3 * BLOCK, &[1; 10]).expect("written");
        assert_eq!(snapshot.saved_bytes(), 3 * BLOCK);
        let ended = bytes(&snapshot, BLOCKS * BLOCK - 1, 2).expect_err("past the end");
        assert_eq!(ended.kind(), io::ErrorKind::UnexpectedEof);
        assert!(snapshot.write_slice(0, &[0]).is_err() && snapshot.resize(1).is_err());
    }

    #[test]
    fn a_snapshot_without_room_is_given_up_and_writes_go_on() {
        let (below, device) = device();
        let poor = device.snapshot(BLOCKS * BLOCK, 2 * BLOCK);
        let rich = device.snapshot(BLOCKS * BLOCK, 3 * BLOCK);
        poor.keep(0, 0b111);
        rich.keep(0, 0b111);
        device.write_slice(0, &[0xff; 3 * BLOCK as usize]).expect("written");
        let error = bytes(&poor, 9 * BLOCK, 1).expect_err("given up");
        assert!(error.to_string().contains("the snapshot was given up: more than 0 MiB changed"), "{error}");
        assert_eq!((poor.saved_bytes(), rich.saved_bytes()), (0, 3 * BLOCK));
        assert_eq!(bytes(&rich, 2 * BLOCK, 1).expect("read"), [2]);
        assert_eq!(below.bytes()[..3 * BLOCK as usize], [0xff; 3 * BLOCK as usize]);
        // Snapshots that have ended are forgotten.
        drop((poor, rich));
        device.write_slice(0, &[0xfe; 1]).expect("written");
        assert!(!device.has_snapshots.load(Ordering::SeqCst) && device.snapshots.lock().is_empty());
    }
}
