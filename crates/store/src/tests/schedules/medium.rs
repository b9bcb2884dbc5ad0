//! A device for schedule tests.

use crate::device::{Device, IoBuf, IoBufMut, MemoryDevice};
use lanefs_format::{BLOCK, BlockKind, Checksummer, InodeSize, chunk_entry, chunk_header};
use lanefs_sync::point;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// The volume's checksums.
pub(super) const SUMS: Checksummer = Checksummer::new(7);

struct Inner {
    bytes: MemoryDevice,
    reads: AtomicUsize,
    failures: AtomicUsize,
}

/// A device in memory with preemption points in each transfer. It counts its reads, and fails some on
/// request. Clones are the same device.
#[derive(Clone)]
pub(super) struct Medium(Arc<Inner>);

impl Medium {
    /// Returns a device of `blocks` blocks of zeros.
    pub(super) fn new(blocks: u64) -> Self {
        let bytes = MemoryDevice::new(vec![0; (blocks * BLOCK) as usize]);
        Medium(Arc::new(Inner { bytes, reads: 0.into(), failures: 0.into() }))
    }

    /// Writes a sealed block of metadata at `at`, with `value` at each of `offsets`.
    pub(super) fn format(&self, at: u64, kind: BlockKind, offsets: &[usize], value: u64) {
        let mut block = vec![0; BLOCK as usize];
        block[0] = kind as u8;
        for offset in offsets {
            block[*offset..*offset + 8].copy_from_slice(&value.to_le_bytes());
        }
        let _ = SUMS.seal(kind, at, &mut block, InodeSize::B256.bytes() as usize);
        self.0.bytes.write_slice(at, &block).expect("inside");
    }

    /// Writes the table of the chunk at `at`, whose first half names these blocks.
    pub(super) fn format_table(&self, at: u64, blocks: &[(u64, BlockKind)]) {
        let mut table = vec![0; BLOCK as usize];
        table[0] = BlockKind::ChunkHeader as u8;
        chunk_header::OWNER.write(&mut table, at);
        chunk_header::CHECKSUM2.write(&mut table, SUMS.of(at + BLOCK, &[0; BLOCK as usize], None));
        for (block, kind) in blocks {
            table[(block - at) as usize / BLOCK as usize * chunk_entry::SIZE] = *kind as u8;
        }
        let _ = SUMS.seal(BlockKind::ChunkHeader, at, &mut table, InodeSize::B256.bytes() as usize);
        self.0.bytes.write_slice(at, &table).expect("inside");
    }

    /// Writes a block of file data at `at`, full of `value`.
    pub(super) fn fill(&self, at: u64, value: u64) {
        let block: Vec<u8> = value.to_le_bytes().repeat(BLOCK as usize / 8);
        self.0.bytes.write_slice(at, &block).expect("inside");
    }

    /// Returns a device with a copy of the bytes, as a crash leaves them now.
    pub(super) fn copy(&self) -> Self {
        let mut bytes = vec![0; self.0.bytes.len() as usize];
        self.0.bytes.read_slice(0, &mut bytes).expect("inside");
        Medium(Arc::new(Inner { bytes: MemoryDevice::new(bytes), reads: 0.into(), failures: 0.into() }))
    }

    /// Returns the eight bytes at a position.
    pub(super) fn word(&self, at: u64) -> u64 {
        let mut word = [0; 8];
        self.0.bytes.read_slice(at, &mut word).expect("inside");
        u64::from_le_bytes(word)
    }

    /// Returns the number of reads so far, failed ones included.
    pub(super) fn reads(&self) -> usize {
        self.0.reads.load(Relaxed)
    }

    /// Makes the next `count` reads fail.
    pub(super) fn fail(&self, count: usize) {
        self.0.failures.store(count, Relaxed);
    }
}

impl Device for Medium {
    fn len(&self) -> u64 {
        self.0.bytes.len()
    }

    fn read_at(&self, at: u64, buffer: IoBufMut<'_>) -> io::Result<()> {
        point();
        self.0.reads.fetch_add(1, Relaxed);
        if self.0.failures.fetch_update(Relaxed, Relaxed, |count| count.checked_sub(1)).is_ok() {
            return Err(io::ErrorKind::Other.into());
        }
        let done = self.0.bytes.read_at(at, buffer);
        point();
        done
    }

    fn write_at(&self, at: u64, data: IoBuf<'_>) -> io::Result<()> {
        // In two parts, because other threads may read or change a block while it is written.
        let middle = data.len() / 2;
        let (first, second) = (data.part(..middle), data.part(middle..));
        point();
        self.0.bytes.write_at(at, first)?;
        point();
        self.0.bytes.write_at(at + first.len() as u64, second)?;
        point();
        Ok(())
    }

    fn flush(&self) -> io::Result<()> {
        point();
        Ok(())
    }

    fn discard(&self, _at: u64, _len: u64) -> io::Result<()> {
        Ok(())
    }

    fn resize(&self, _len: u64) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }
}
