//! Blocks: resident, fetched, written back.

use crate::arena::Arena;
use crate::journal::{Journal, fault, write_in_place};
use crate::view::{View, prefetch};
use crate::{Device, Fault};
use lanefs_format::{
    BLOCK, BlockKind, CHUNK, CHUNK_HEADER_BLOCKS, Checksummer, InodeSize, chunk_entry, chunk_header,
};
use parking_lot::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};

/// Where a volume's bytes are kept.
pub enum Backing {
    /// In memory only: every block is resident from the start.
    Memory,
    /// On a device: metadata becomes resident when it is fetched and goes back at a flush; file data passes through.
    Device(Box<dyn Device>),
}

/// The bytes of one volume.
pub struct Store {
    arena: Arena,
    /// One byte a block: 0 while it is not resident as metadata, else the [`BlockKind`] it was verified as.
    kinds: Arena,
    /// One byte a block: 1 while it differs from the device.
    dirty: Arena,
    backing: Backing,
    blocks: AtomicU64,
    sums: Checksummer,
    inode_size: InodeSize,
    changed: Mutex<Vec<u64>>,
    fetching: Mutex<()>,
    failed: AtomicBool,
    journal: Mutex<Option<Journal>>,
    /// File data was written since the last flush.
    wrote_data: AtomicBool,
}

/// Volumes below this size do without huge pages, which would cost them more memory than they hold.
const HUGE_PAGES_FROM: u64 = 256 << 20;

impl Store {
    /// A store of `bytes` bytes (a multiple of 4096) that can grow up to `room` bytes.
    ///
    /// # Errors
    /// The host's error when it has no address space left.
    pub fn new(
        backing: Backing,
        bytes: u64,
        room: u64,
        uuid: &[u8; 16],
        inode_size: InodeSize,
    ) -> std::io::Result<Self> {
        let reserve = |room: u64| -> std::io::Result<[Arena; 3]> {
            let blocks = (room / BLOCK) as usize;
            Ok([Arena::reserve(room as usize)?, Arena::reserve(blocks)?, Arena::reserve(blocks)?])
        };
        // Under a limit on address space the volume still opens; it only cannot grow while it is open.
        let [arena, kinds, dirty] = reserve(room.max(bytes)).or_else(|_| reserve(bytes))?;
        if bytes >= HUGE_PAGES_FROM && matches!(backing, Backing::Memory) {
            arena.prefer_huge_pages();
        }
        Ok(Store {
            arena,
            kinds,
            dirty,
            backing,
            blocks: (bytes / BLOCK).into(),
            sums: Checksummer::new(uuid),
            inode_size,
            changed: Mutex::default(),
            fetching: Mutex::default(),
            failed: AtomicBool::new(false),
            journal: Mutex::new(None),
            wrote_data: AtomicBool::new(false),
        })
    }

    /// Uses the journal of `blocks` blocks at `at`: `new` makes an empty one, otherwise what a crash left in it is
    /// brought to its place first. Returns whether there was such a commit.
    ///
    /// # Errors
    /// [`Fault::Io`], [`Fault::Damaged`].
    pub fn use_journal(&self, at: u64, blocks: u64, new: bool) -> Result<bool, Fault> {
        let Backing::Device(device) = &self.backing else { return Ok(false) };
        let (journal, recovered) = if new {
            (Journal::format(device.as_ref(), &self.sums, at, blocks)?, false)
        } else {
            Journal::open(device.as_ref(), &self.sums, at, blocks, self.bytes())?
        };
        *self.journal.lock() = Some(journal);
        Ok(recovered)
    }

    /// True when so much has changed that it should be committed before it outgrows the journal.
    pub fn should_commit(&self) -> bool {
        match &*self.journal.lock() {
            Some(journal) => self.changed.lock().len() >= journal.capacity() / 2,
            None => false,
        }
    }

    /// Size in bytes.
    #[inline(always)]
    pub fn bytes(&self) -> u64 {
        self.blocks.load(Ordering::Relaxed) * BLOCK
    }

    /// Size of the volume's inodes.
    #[inline(always)]
    pub fn inode_size(&self) -> InodeSize {
        self.inode_size
    }

    /// True for a volume in memory.
    #[inline(always)]
    pub fn is_memory(&self) -> bool {
        matches!(self.backing, Backing::Memory)
    }

    /// Makes the store larger, or small again when what was to follow failed. The caller holds all others off.
    ///
    /// # Errors
    /// The device's error, or `OutOfMemory` where the reserved address space ends.
    pub fn grow(&self, bytes: u64) -> std::io::Result<()> {
        if bytes > self.arena.capacity() as u64 {
            return Err(std::io::Error::new(
                std::io::ErrorKind::OutOfMemory,
                format!(
                    "an open volume can grow to {} bytes at once; grow it in steps",
                    self.arena.capacity()
                ),
            ));
        }
        if let Backing::Device(device) = &self.backing {
            device.resize(bytes)?;
        }
        let mut changed = self.changed.lock();
        for index in changed.extract_if(.., |index| *index >= bytes / BLOCK) {
            self.state(&self.dirty, index).store(0, Ordering::Relaxed);
        }
        drop(changed);
        self.blocks.store(bytes / BLOCK, Ordering::Relaxed);
        Ok(())
    }

    /// The block at `at`, verified as `kind`.
    ///
    /// # Errors
    /// [`Fault::Miss`] when it is not resident; [`Fault::Damaged`] when there is none of that kind.
    #[inline(always)]
    pub fn block(&self, at: u64, kind: BlockKind) -> Result<View<'_>, Fault> {
        if !at.is_multiple_of(BLOCK) || at >= self.bytes() {
            return Err(Fault::damaged(at, "a position outside the volume"));
        }
        if self.kind(at / BLOCK) != kind as u8 {
            return Err(self.absent(at, kind));
        }
        // SAFETY: inside the volume, whose memory lives as long as the store; a block is aligned to 4096.
        Ok(unsafe { View::new(self.arena.address(at), at, BLOCK as u32) })
    }

    /// Inode `number`, resident.
    ///
    /// # Errors
    /// As [`block`](Self::block).
    #[inline(always)]
    pub fn inode(&self, number: u64) -> Result<View<'_>, Fault> {
        let size = self.inode_size.bytes();
        let at = number.checked_mul(size).ok_or(Fault::damaged(number, "an impossible inode number"))?;
        let block = self.block(at & !(BLOCK - 1), BlockKind::Inodes)?;
        block
            .part((at & (BLOCK - 1)) as usize, size as usize)
            .ok_or(Fault::damaged(at, "an impossible inode number"))
    }

    /// The processor fetches the line at `at` and what tells that its block is resident; nothing is checked.
    #[inline(always)]
    pub fn prefetch(&self, at: u64) {
        if at < self.bytes() {
            prefetch(self.arena.address(at).as_ptr());
        }
    }

    #[inline(always)]
    fn kind(&self, index: u64) -> u8 {
        self.state(&self.kinds, index).load(Ordering::Acquire)
    }

    #[inline(always)]
    fn state<'a>(&self, bytes: &'a Arena, index: u64) -> &'a AtomicU8 {
        debug_assert!(index < self.blocks.load(Ordering::Relaxed));
        // SAFETY: callers keep `index` below the number of blocks; the array has a byte for each.
        unsafe { AtomicU8::from_ptr(bytes.address(index).as_ptr()) }
    }

    #[cold]
    fn absent(&self, at: u64, kind: BlockKind) -> Fault {
        if self.is_memory() || self.kind(at / BLOCK) != 0 {
            return Fault::damaged(at, expectation(kind));
        }
        Fault::Miss { at, kind }
    }

    /// Brings a block in after a [`Fault::Miss`] and verifies it.
    ///
    /// # Errors
    /// [`Fault::Io`] from the device; [`Fault::Damaged`] when the block does not verify as `kind`.
    pub fn fetch(&self, at: u64, kind: BlockKind) -> Result<(), Fault> {
        let Backing::Device(device) = &self.backing else {
            return Err(Fault::damaged(at, expectation(kind)));
        };
        if !at.is_multiple_of(BLOCK) || at >= self.bytes() {
            return Err(Fault::damaged(at, "a position outside the volume"));
        }
        let _one_at_a_time = self.fetching.lock();
        self.fetch_locked(device.as_ref(), at, kind)
    }

    fn fetch_locked(&self, device: &dyn Device, at: u64, kind: BlockKind) -> Result<(), Fault> {
        match self.kind(at / BLOCK) {
            0 => {}
            there if there == kind as u8 => return Ok(()),
            _ => return Err(Fault::damaged(at, expectation(kind))),
        }
        let mut table = [0u8; chunk_entry::SIZE];
        let mut second_sum = None;
        let chunk = at & !(CHUNK - 1);
        match kind {
            BlockKind::ChunkHeader if at != chunk => {
                self.fetch_locked(device, chunk, kind)?;
                second_sum = Some(self.block(chunk, kind)?.get(chunk_header::CHECKSUM2));
            }
            BlockKind::Pointers => {
                let (block, offset) = Self::table_entry(at);
                self.fetch_locked(device, block, BlockKind::ChunkHeader)?;
                self.block(block, BlockKind::ChunkHeader)?.copy_to(offset, &mut table);
            }
            _ => {}
        }
        let mut bytes = [0u8; BLOCK as usize];
        device.read_at(at, &mut bytes).map_err(|e| fault(at, "reading", &e))?;
        let good = match second_sum {
            Some(sum) => self.sums.of(at, &bytes, None) == sum,
            None if kind == BlockKind::ChunkHeader => {
                chunk_header::OWNER.read(&bytes) == Some(at)
                    && chunk_header::KIND.read(&bytes) == Some(kind as u8)
                    && chunk_header::CHECKSUM.read(&bytes) == Some(self.table_sum(at, &bytes))
            }
            None => self.sums.verify(kind, at, &bytes, self.inode_size.bytes() as usize, &table),
        };
        if !good {
            return Err(Fault::damaged(at, expectation(kind)));
        }
        self.fill(at, &bytes);
        self.state(&self.kinds, at / BLOCK).store(kind as u8, Ordering::Release);
        Ok(())
    }

    /// Checksum of a chunk table's first block. It leaves out its own four bytes; the second block's sum is inside, so
    /// it covers both.
    fn table_sum(&self, at: u64, bytes: &[u8]) -> u32 {
        self.sums.of(at, bytes, Some(chunk_header::CHECKSUM))
    }

    /// Block and offset of the chunk-table entry for the block at `at`.
    pub fn table_entry(at: u64) -> (u64, usize) {
        let chunk = at & !(CHUNK - 1);
        let byte = (at - chunk) / BLOCK * chunk_entry::SIZE as u64;
        (chunk + (byte & !(BLOCK - 1)), (byte & (BLOCK - 1)) as usize)
    }

    /// Copies words into memory that no reader sees as a block yet, or that the caller has to itself.
    fn fill(&self, at: u64, bytes: &[u8]) {
        // SAFETY: inside the volume, aligned.
        let view = unsafe { View::new(self.arena.address(at), at, bytes.len() as u32) };
        let (eights, rest) = bytes.as_chunks::<8>();
        for (i, eight) in eights.iter().enumerate() {
            view.store(i * 8, 8, u64::from_le_bytes(*eight));
        }
        for (i, byte) in rest.iter().enumerate() {
            view.store(eights.len() * 8 + i, 1, u64::from(*byte));
        }
    }

    pub(crate) fn set_kind(&self, at: u64, kind: u8) -> u8 {
        self.state(&self.kinds, at / BLOCK).swap(kind, Ordering::AcqRel)
    }

    pub(crate) fn zero(&self, at: u64, len: u64) {
        // SAFETY: inside the volume; the block is not in use, so no reader looks at it.
        unsafe { std::ptr::write_bytes(self.arena.address(at).as_ptr(), 0, len as usize) };
    }

    /// Puts a word back, when a transaction is taken back.
    pub(crate) fn restore(&self, at: u64, bytes: usize, bits: u64) {
        self.view(at & !(BLOCK - 1)).store((at & (BLOCK - 1)) as usize, bytes, bits);
    }

    /// Remembers that a block differs from the device.
    #[inline(always)]
    pub(crate) fn mark(&self, at: u64) {
        if !self.is_memory() {
            let index = at / BLOCK;
            if self.state(&self.dirty, index).swap(1, Ordering::Relaxed) == 0 {
                self.changed.lock().push(index);
            }
        }
    }

    /// Gives memory of a freed range back (volumes in memory only). The caller holds all others off.
    pub fn release(&self, at: u64, len: u64) {
        if self.is_memory() && self.inside(at, len as usize).is_ok() {
            self.arena.release(at as usize, len as usize);
        }
    }

    fn inside(&self, at: u64, len: usize) -> Result<(), Fault> {
        let end = at.checked_add(len as u64);
        if end.is_none_or(|end| end > self.bytes()) {
            return Err(Fault::damaged(at, "file data outside the volume"));
        }
        Ok(())
    }

    /// Reads file data.
    ///
    /// # Errors
    /// [`Fault::Io`], or [`Fault::Damaged`] for a range outside the volume.
    pub fn read_data(&self, at: u64, buffer: &mut [u8]) -> Result<(), Fault> {
        self.inside(at, buffer.len())?;
        match &self.backing {
            Backing::Memory => {
                // SAFETY: the range is inside the volume; the volume's lock keeps writers of data away.
                unsafe {
                    std::ptr::copy_nonoverlapping(
                        self.arena.address(at).as_ptr(),
                        buffer.as_mut_ptr(),
                        buffer.len(),
                    );
                }
                Ok(())
            }
            Backing::Device(device) => device.read_at(at, buffer).map_err(|e| fault(at, "reading", &e)),
        }
    }

    /// Writes file data in place.
    ///
    /// # Errors
    /// [`Fault::Io`], or [`Fault::Damaged`] for a range outside the volume.
    pub fn write_data(&self, at: u64, data: &[u8]) -> Result<(), Fault> {
        self.inside(at, data.len())?;
        match &self.backing {
            Backing::Memory => {
                // SAFETY: the range is inside the volume; the volume's lock keeps all others away.
                unsafe {
                    std::ptr::copy_nonoverlapping(data.as_ptr(), self.arena.address(at).as_ptr(), data.len());
                }
                Ok(())
            }
            Backing::Device(device) => {
                self.wrote_data.store(true, Ordering::Relaxed);
                device.write_at(at, data).map_err(|e| fault(at, "writing", &e))
            }
        }
    }

    /// Writes all changed metadata and makes everything durable. The caller holds writers off.
    ///
    /// # Errors
    /// [`Fault::Io`]; the store then refuses further flushes, for what the device holds is unknown.
    pub fn flush(&self) -> Result<(), Fault> {
        let Backing::Device(device) = &self.backing else { return Ok(()) };
        if self.failed.load(Ordering::Relaxed) {
            return Err(Fault::Io { at: 0, doing: "writing", errno: lanefs_format::Code::Io.errno() });
        }
        let done = self.write_back(device.as_ref());
        if done.is_err() {
            self.failed.store(true, Ordering::Relaxed);
        }
        done
    }

    /// True once a write failed: the volume is readable only from then on.
    pub fn has_failed(&self) -> bool {
        self.failed.load(Ordering::Relaxed)
    }

    fn write_back(&self, device: &dyn Device) -> Result<(), Fault> {
        let mut list = std::mem::take(&mut *self.changed.lock());
        self.seal(&list);
        list.append(&mut self.changed.lock());
        list.sort_unstable();
        list.dedup();
        for index in &list {
            self.state(&self.dirty, *index).store(0, Ordering::Relaxed);
        }
        // A block that went out of use since may hold file data now, which is on the device already.
        list.retain(|index| self.kind(*index) != 0);
        let positions: Vec<u64> = list.iter().map(|index| index * BLOCK).collect();
        let copy = |at: u64, out: &mut [u8]| {
            self.view(at).copy_to(0, out);
        };
        let data = self.wrote_data.swap(false, Ordering::Relaxed);
        match &mut *self.journal.lock() {
            Some(journal) if positions.len() <= journal.capacity() => {
                journal.commit(device, &self.sums, data, &positions, copy)
            }
            // No journal, or a single change that is larger than it: in place, and not atomic.
            _ => {
                write_in_place(device, &positions, copy)?;
                device.flush().map_err(|e| fault(0, "flushing", &e))
            }
        }
    }

    /// Computes the checksums of changed blocks, in an order in which each sum covers what it must: pointer blocks
    /// (their sums go to the chunk tables), other blocks, the tables' second blocks, their first blocks.
    fn seal(&self, list: &[u64]) {
        let of_kind = |list: &[u64], kind: BlockKind| -> Vec<u64> {
            list.iter().map(|i| i * BLOCK).filter(|at| self.kind(at / BLOCK) == kind as u8).collect()
        };
        let mut bytes = [0u8; BLOCK as usize];
        for at in of_kind(list, BlockKind::Pointers) {
            self.view(at).copy_to(0, &mut bytes);
            let sum = self.sums.of(at, &bytes, None);
            let (table, offset) = Self::table_entry(at);
            self.view(table).store(offset + chunk_entry::CHECKSUM.offset, 4, u64::from(sum));
            self.mark(table);
        }
        let more = self.changed.lock().clone();
        let all: Vec<u64> = list.iter().copied().chain(more).collect();
        let inode_size = self.inode_size.bytes() as usize;
        for at in all.iter().map(|i| i * BLOCK) {
            let Some(kind) = BlockKind::from_number(self.kind(at / BLOCK)) else { continue };
            if matches!(kind, BlockKind::Pointers | BlockKind::ChunkHeader) {
                continue;
            }
            self.view(at).copy_to(0, &mut bytes);
            self.sums.seal(kind, at, &mut bytes, inode_size);
            self.fill(at, &bytes);
        }
        let tables = of_kind(&all, BlockKind::ChunkHeader);
        let mut chunks: Vec<u64> = tables.iter().map(|at| at & !(CHUNK - 1)).collect();
        chunks.sort_unstable();
        chunks.dedup();
        for chunk in chunks {
            let second = chunk + (CHUNK_HEADER_BLOCKS - 1) * BLOCK;
            // A second block that was never needed is not here, and its sum is still right.
            if self.kind(second / BLOCK) != 0 {
                self.view(second).copy_to(0, &mut bytes);
                let sum2 = self.sums.of(second, &bytes, None);
                self.view(chunk).store(chunk_header::CHECKSUM2.offset, 4, u64::from(sum2));
            }
            self.view(chunk).copy_to(0, &mut bytes);
            let sum = self.table_sum(chunk, &bytes);
            self.view(chunk).store(chunk_header::CHECKSUM.offset, 4, u64::from(sum));
            self.mark(chunk);
        }
    }

    /// All bytes of the volume, checksums up to date. The caller holds writers off.
    ///
    /// # Errors
    /// [`Fault::Io`].
    pub fn snapshot(&self) -> Result<Vec<u8>, Fault> {
        let mut bytes = vec![0; self.bytes() as usize];
        match &self.backing {
            Backing::Device(device) => {
                self.flush()?;
                device.read_at(0, &mut bytes).map_err(|e| fault(0, "reading", &e))?;
            }
            Backing::Memory => {
                let all: Vec<u64> =
                    (0..self.bytes() / BLOCK).filter(|index| self.kind(*index) != 0).collect();
                self.seal(&all);
                self.read_data(0, &mut bytes)?;
            }
        }
        Ok(bytes)
    }

    fn view(&self, at: u64) -> View<'_> {
        // SAFETY: callers pass positions of blocks of this volume.
        unsafe { View::new(self.arena.address(at), at, BLOCK as u32) }
    }

    /// Writes a block that has no place among the resident ones (the superblock) and makes it durable.
    ///
    /// # Errors
    /// [`Fault::Io`].
    pub fn write_raw(&self, at: u64, block: &[u8]) -> Result<(), Fault> {
        match &self.backing {
            Backing::Memory => {
                self.fill(at, block);
                Ok(())
            }
            Backing::Device(device) => {
                device.write_at(at, block).map_err(|e| fault(at, "writing", &e))?;
                device.flush().map_err(|e| fault(at, "flushing", &e))
            }
        }
    }

    /// Copies a metadata block as it is in memory.
    pub fn read_raw(&self, at: u64, out: &mut [u8; BLOCK as usize]) -> Result<(), Fault> {
        self.inside(at, out.len())?;
        match &self.backing {
            Backing::Device(device) if self.kind(at / BLOCK) == 0 => {
                device.read_at(at, out).map_err(|e| fault(at, "reading", &e))
            }
            _ => {
                self.view(at).copy_to(0, out);
                Ok(())
            }
        }
    }
}

fn expectation(kind: BlockKind) -> &'static str {
    match kind {
        BlockKind::Superblock => "no valid superblock",
        BlockKind::Group => "no valid group block",
        BlockKind::ChunkHeader => "no valid chunk table",
        BlockKind::Inodes => "no valid block of inodes",
        BlockKind::Pointers => "no valid block of pointers",
        BlockKind::Leaf => "no valid leaf block",
        BlockKind::Tree => "no valid tree block",
        BlockKind::Index => "no valid region index block",
        BlockKind::Xattr => "no valid attribute block",
        BlockKind::Journal => "no valid journal block",
    }
}
