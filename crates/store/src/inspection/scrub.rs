//! Scrubbing: blocks are read from the device, past the memory, and verified there.

use crate::journal::Journal;
use crate::memory::dirty::Dirty;
use crate::memory::state::{EVICTING, FETCHING};
use crate::memory::view::View;
use crate::store::Store;
use crate::vocabulary::fault::{Fault, Want};
use lanefs_format::superblock::Superblock;
use lanefs_format::{BLOCK, BlockKind, CHUNK, chunk_entry, chunk_header};
use std::sync::atomic::Ordering;

/// Result of comparing data blocks with their checksums.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ScrubbedData {
    /// Blocks that match.
    pub good: u64,
    /// Blocks without a checksum.
    pub without: u64,
    /// Positions of blocks that do not match, or cannot be read.
    pub wrong: Vec<u64>,
}

/// The reads of the calling thread have idle priority until this value is dropped, where the host's scheduler
/// knows priorities.
pub struct IdleReads {
    before: libc::c_long,
}

/// `IOPRIO_WHO_PROCESS` with 0 is the calling thread.
const THIS_THREAD: (libc::c_int, libc::c_int) = (1, 0);
/// `IOPRIO_CLASS_IDLE`, in the bits of the class.
const IDLE: libc::c_int = 3 << 13;

impl IdleReads {
    /// Lowers the priority of the calling thread.
    pub fn begin() -> Self {
        // Miri has no such system call.
        if cfg!(miri) {
            return IdleReads { before: -1 };
        }
        let (which, who) = THIS_THREAD;
        // SAFETY: the call takes two numbers and touches no memory.
        let before = unsafe { libc::syscall(libc::SYS_ioprio_get, which, who) };
        set_priority(IDLE);
        IdleReads { before }
    }
}

fn set_priority(priority: libc::c_int) {
    let (which, who) = THIS_THREAD;
    // SAFETY: the call takes three numbers and touches no memory. Where it fails, the priority stays.
    unsafe { libc::syscall(libc::SYS_ioprio_set, which, who, priority) };
}

impl Drop for IdleReads {
    fn drop(&mut self) {
        if self.before >= 0 {
            set_priority(self.before as libc::c_int);
        }
    }
}

impl Store {
    /// Waits until all data that writers submitted so far are on the device. The caller has closed the gate
    /// and keeps other threads from committing.
    pub fn settle_data(&self) {
        self.write_queue.wait_until_written();
    }

    /// True where the device has the newest bytes of a block: none waits in memory or in the journal.
    fn is_on_device(&self, at: u64) -> bool {
        let state = self.state(at / BLOCK);
        let is_clean = self.dirty(at / BLOCK).load(Ordering::SeqCst) == Dirty::CLEAN;
        is_clean && !matches!(state, FETCHING | EVICTING) && !self.commits.has_copy(at)
    }

    /// Reads the `count` data blocks from block `first` on from the device and compares them with their
    /// checksums. Blocks that the device does not have yet are left out. While writers are active, a block
    /// may seem wrong that is not.
    ///
    /// # Errors
    /// The faults of fetching checksums, but not those of reading data.
    pub fn scrub_data(&self, first: u64, count: u64) -> Result<ScrubbedData, Fault> {
        let mut result = ScrubbedData::default();
        let Some(device) = self.device() else { return Ok(result) };
        self.inside(first * BLOCK, (count * BLOCK) as usize)?;
        let mut bytes = vec![0; (count * BLOCK) as usize];
        let whole = device.read_slice(first * BLOCK, &mut bytes).is_ok();
        for (at, block) in (first..).map(|index| index * BLOCK).zip(bytes.chunks_exact_mut(BLOCK as usize)) {
            if !self.is_on_device(at) {
                continue;
            }
            let readable = whole || device.read_slice(at, block).is_ok();
            let sum = if self.has_data_checksums() { self.sum_of(device, at)? } else { 0 };
            match sum {
                _ if !readable => result.wrong.push(at),
                0 => result.without += 1,
                sum if sum == self.sums.of_data(at, block) => result.good += 1,
                _ => result.wrong.push(at),
            }
        }
        Ok(result)
    }

    /// Reads a block of metadata from the device and verifies it. True also for a block whose newest bytes
    /// the device does not have yet.
    ///
    /// # Errors
    /// The faults of fetching the block that has its checksum.
    pub fn scrub_block(&self, at: u64, kind: BlockKind) -> Result<bool, Fault> {
        let Some(device) = self.device() else { return Ok(true) };
        self.inside(at, BLOCK as usize)?;
        if !self.is_on_device(at) {
            return Ok(true);
        }
        let mut bytes = [0; BLOCK as usize];
        if device.read_slice(at, &mut bytes).is_err() {
            return Ok(false);
        }
        let size = self.inode_size().bytes() as usize;
        Ok(match kind {
            BlockKind::ChunkHeader if at & (CHUNK - 1) != 0 => {
                let first = self.table(at & !(CHUNK - 1))?;
                first.get(chunk_header::CHECKSUM2) == self.sums.of(at, &bytes, None)
            }
            BlockKind::ChunkHeader => chunk_header::CHECKSUM.read(&bytes) == Some(self.table_sum(at, &bytes)),
            BlockKind::Pointers => {
                let (table, offset) = Self::table_entry(at);
                let mut entry = [0; chunk_entry::SIZE];
                self.table(table)?.copy_to(offset, &mut entry);
                self.sums.verify(kind, at, &bytes, size, &entry)
            }
            _ => self.sums.verify(kind, at, &bytes, size, &[]),
        })
    }

    /// Reads a superblock from the device and verifies it. The caller sees to it that nobody writes it.
    pub fn scrub_superblock(&self, at: u64) -> bool {
        let Some(device) = self.device() else { return true };
        let mut bytes = [0; BLOCK as usize];
        device.read_slice(at, &mut bytes).is_ok() && Superblock::decode(&bytes).is_ok()
    }

    /// Reads the headers of the journal of `blocks` blocks at `at` from the device and verifies them. Returns
    /// the positions of those that are wrong, or cannot be read. The log after them counts after a crash
    /// only, and the volume was opened since.
    pub fn scrub_journal(&self, at: u64, blocks: u64) -> Vec<u64> {
        let Some(device) = self.device() else { return Vec::new() };
        // Headers are written by threads that have locked the journal.
        let _journal = self.commits.lock_journal();
        Journal::wrong_headers(device, &self.sums, at, blocks)
    }

    /// Returns a block of a chunk table, and fetches it where it is absent.
    fn table(&self, at: u64) -> Result<View<'_>, Fault> {
        if !self.is_resident(at, BlockKind::ChunkHeader) {
            self.fetch(at, Want::Block(BlockKind::ChunkHeader))?;
        }
        self.view_of(at, BLOCK as usize, BlockKind::ChunkHeader)
    }
}
