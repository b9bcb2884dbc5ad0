//! The store: the bytes of one volume, and the state of each block.
//!
//! [`Store`] owns the state; the operations on it are in the modules above this one.

pub(crate) mod cache;
pub(crate) mod committed;
mod data_sums;
mod marks;
pub(crate) mod neighbours;
pub(crate) mod pin_table;
mod places;
mod readahead;
mod table_ahead;
mod waiters;
pub(crate) mod write_queue;

use crate::device::{Device, DeviceSnapshot, Preserving};
use crate::memory::arena::Arena;
use crate::memory::dirty::Dirty;
use crate::memory::epoch::{Epoch, Epochs};
use crate::memory::frames::Frames;
use crate::memory::reserved::Memory;
use crate::memory::state::{self, ABSENT, FETCHING, FREE, FRESH, MARKER};
use crate::memory::versions::{Grain, Versions};
use crate::memory::view::{View, prefetch};
use crate::vocabulary::fault::{Fault, Want, expectation};
use crate::vocabulary::planted;
use cache::Cache;
use committed::CommitState;
use data_sums::DataSums;
use lanefs_format::{
    BLOCK, BlockKind, CHUNK, Checksummer, Code, InodeSize, SUPERBLOCK_COPY, chunk_entry, chunk_header,
};
use lanefs_sync::point;
use marks::Marks;
use neighbours::Neighbours;
use pin_table::PinTable;
use places::Places;
use readahead::ReadAhead;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use table_ahead::TableAhead;
use waiters::Waiters;
use write_queue::WriteQueue;

/// Storage of a volume's bytes.
pub enum Backing {
    /// Memory only: every block is resident from the start.
    Memory,
    /// A device: blocks become resident when they are fetched, and a commit writes dirty ones.
    Device(Box<dyn Device>),
}

/// The bytes of one volume.
///
/// Blocks are read through a [`Reader`](crate::Reader) and changed through a [`Tx`](crate::Tx).
pub struct Store {
    pub(crate) frames: Frames,
    /// Blocks to which the store can grow.
    room: u64,
    /// One byte a block, see [`state`].
    states: Arena,
    /// One byte a block, see [`Dirty`].
    dirty: Arena,
    /// The device; `None` for a volume in memory.
    device: Option<Preserving>,
    blocks: AtomicU64,
    /// Bytes that lie in one range, at their positions: all, or none of a sparse volume.
    in_range: AtomicU64,
    pub(crate) sums: Checksummer,
    inode_size: InodeSize,
    versions: Versions,
    epochs: Epochs,
    pub(crate) cache: Cache,
    /// Threads that wait for fetches.
    pub(crate) waiters: Waiters,
    /// Total since the volume was opened.
    pub(crate) blocks_fetched: AtomicU64,
    pub(crate) ahead: ReadAhead,
    pub(crate) neighbours: Neighbours,
    pub(crate) commits: CommitState,
    pub(crate) write_queue: WriteQueue,
    pub(crate) marks: Marks,
    pub(crate) data_sums: DataSums,
    pub(crate) places: Places,
    pub(crate) table_ahead: TableAhead,
    /// The pins of a store for reading; `None` where blocks may be changed.
    pub(crate) pins: Option<PinTable>,
}

/// Returns whether `len` bytes at `at` can be a view: words of one block.
#[inline(always)]
fn is_part(at: u64, len: usize) -> bool {
    at.is_multiple_of(8) && (at & (BLOCK - 1)) as usize + len <= BLOCK as usize
}

/// True for the bytes of the first block of the table of the chunk at `at`, in a volume with these checksums.
pub(crate) fn is_table(sums: &Checksummer, at: u64, bytes: &[u8]) -> bool {
    chunk_header::OWNER.read(bytes) == Some(at)
        && chunk_header::KIND.read(bytes) == Some(BlockKind::ChunkHeader as u8)
        && chunk_header::CHECKSUM.read(bytes) == Some(sums.of(at, bytes, Some(chunk_header::CHECKSUM)))
}

/// Smallest volume in bytes that gets huge pages: they cost a smaller one more memory than its content.
const HUGE_PAGES_FROM_BYTES: u64 = 256 << 20;

impl Store {
    /// Returns a store of `bytes` bytes (a multiple of 4096) that can grow up to `room` bytes, with these
    /// checksums. Of a device's blocks, up to `budget` bytes stay in memory, beside dirty ones.
    ///
    /// # Errors
    /// `OutOfMemory` when the host has too little address space left, with the number of bytes that it takes.
    pub fn new(
        backing: Backing,
        bytes: u64,
        room: u64,
        budget: u64,
        sums: Checksummer,
        inode_size: InodeSize,
    ) -> std::io::Result<Self> {
        let on_device = matches!(backing, Backing::Device(_));
        let memory = Memory::reserve(bytes, room, on_device.then_some(budget / BLOCK))?;
        Ok(Self::in_memory(memory, backing, bytes, budget, sums, inode_size))
    }

    /// Returns a store whose bytes and states lie in `memory`, as [`new`](Self::new).
    pub(crate) fn in_memory(
        memory: Memory,
        backing: Backing,
        bytes: u64,
        budget: u64,
        sums: Checksummer,
        inode_size: InodeSize,
    ) -> Self {
        let Memory { frames, states, dirty, ages, room } = memory;
        if bytes >= HUGE_PAGES_FROM_BYTES && matches!(backing, Backing::Memory) {
            frames.prefer_huge_pages();
        }
        let store = Store {
            frames,
            room,
            states,
            dirty,
            device: match backing {
                Backing::Memory => None,
                Backing::Device(device) => Some(Preserving::new(device)),
            },
            blocks: (bytes / BLOCK).into(),
            in_range: 0.into(),
            sums,
            inode_size,
            versions: Versions::new(),
            epochs: Epochs::default(),
            cache: Cache::new(budget / BLOCK),
            waiters: Waiters::default(),
            blocks_fetched: 0.into(),
            ahead: ReadAhead::default(),
            neighbours: Neighbours::new(budget / BLOCK),
            commits: CommitState::default(),
            write_queue: WriteQueue::default(),
            marks: Marks::default(),
            data_sums: DataSums::new(ages),
            places: Places::default(),
            table_ahead: TableAhead::default(),
            pins: None,
        };
        store.set_bytes(bytes);
        for at in [0, SUPERBLOCK_COPY].into_iter().filter(|at| *at < bytes) {
            store.set_state(at / BLOCK, state::FIXED);
        }
        store
    }

    /// Makes this a store for reading: every change of it fails from now on, so file data can be
    /// [pinned](crate::Pins) and read in place. A store in memory stays as it is.
    ///
    /// # Errors
    /// The host's error when it has no address space left.
    pub fn for_reading(mut self) -> std::io::Result<Self> {
        if !self.is_memory() {
            self.pins = Some(PinTable::new(self.room() / BLOCK, self.cache.budget())?);
        }
        Ok(self)
    }

    /// Refuses a change of a store for reading.
    ///
    /// # Errors
    /// [`Code::ReadOnly`].
    #[inline(always)]
    pub(crate) fn check_changeable(&self) -> Result<(), Fault> {
        if self.pins.is_some() { Err(Fault::Code(Code::ReadOnly)) } else { Ok(()) }
    }

    /// Returns the size in bytes.
    #[inline(always)]
    pub fn bytes(&self) -> u64 {
        self.blocks.load(Ordering::Relaxed) * BLOCK
    }

    /// Returns the size in bytes to which the store can grow.
    pub fn room(&self) -> u64 {
        self.room * BLOCK
    }

    /// Returns the size of the volume's inodes.
    #[inline(always)]
    pub fn inode_size(&self) -> InodeSize {
        self.inode_size
    }

    /// Returns true for a volume in memory.
    #[inline(always)]
    pub fn is_memory(&self) -> bool {
        self.device.is_none()
    }

    /// Returns the device, where there is one.
    #[inline(always)]
    pub(crate) fn device(&self) -> Option<&dyn Device> {
        self.device.as_ref().map(|device| device as &dyn Device)
    }

    /// Takes a snapshot of the device's bytes, which keeps up to `memory` bytes of blocks that change; `None`
    /// for a volume in memory. The snapshot keeps no block yet. The caller makes sure that no thread writes
    /// those in place that it shall keep.
    pub fn device_snapshot(&self, memory: u64) -> Option<DeviceSnapshot> {
        Some(self.device.as_ref()?.snapshot(self.bytes(), memory))
    }

    #[inline(always)]
    pub(crate) fn versions(&self) -> &Versions {
        &self.versions
    }

    #[inline(always)]
    pub(crate) fn epochs(&self) -> &Epochs {
        &self.epochs
    }

    /// Returns the epoch.
    #[inline(always)]
    pub(crate) fn epoch(&self) -> Epoch {
        self.epochs.now()
    }

    /// Makes the store larger, or smaller again after a failure. The caller has closed the gate.
    ///
    /// # Errors
    /// The device's error, or `OutOfMemory` where the reserved address space ends.
    pub fn grow(&self, bytes: u64) -> std::io::Result<()> {
        debug_assert!(bytes.is_multiple_of(BLOCK));
        if bytes > self.room() {
            return Err(std::io::ErrorKind::OutOfMemory.into());
        }
        if let Some(device) = self.device() {
            device.resize(bytes)?;
        }
        self.set_bytes(bytes);
        Ok(())
    }

    fn set_bytes(&self, bytes: u64) {
        self.blocks.store(bytes / BLOCK, Ordering::Relaxed);
        self.in_range.store(if self.frames.are_sparse() { 0 } else { bytes }, Ordering::Relaxed);
    }

    /// Returns a view of `len` bytes at `at`, of a block verified as `kind`.
    #[inline(always)]
    pub(crate) fn view_of(&self, at: u64, len: usize, kind: BlockKind) -> Result<View<'_>, Fault> {
        // One comparison serves both: a volume in one range pays nothing for sparse ones.
        let base = if is_part(at, len) && at < self.in_range.load(Ordering::Relaxed) {
            self.check_kind(at, kind)?;
            self.frames.address_in_range(at)
        } else {
            self.address_in_slot(at, len, kind)?
        };
        // SAFETY: inside the volume, whose memory lives as long as the store; aligned to 8. All frames of a
        // block are one range.
        Ok(unsafe { View::new(base, at, len as u32, Grain::of(kind)) })
    }

    /// Returns the address of the view in a sparse volume; refuses a position outside of any volume.
    #[cold]
    fn address_in_slot(&self, at: u64, len: usize, kind: BlockKind) -> Result<NonNull<u8>, Fault> {
        if !is_part(at, len) || at >= self.bytes() {
            return Err(Fault::damaged(at, "a position outside the volume"));
        }
        self.check_kind(at, kind)?;
        Ok(self.frames.address(at))
    }

    #[inline(always)]
    fn check_kind(&self, at: u64, kind: BlockKind) -> Result<(), Fault> {
        let state = self.state(at / BLOCK);
        if state == kind as u8 { Ok(()) } else { self.check_state(at, kind, state) }
    }

    /// Checks the state of a block that is not resident, or not in steady use.
    #[cold]
    fn check_state(&self, at: u64, kind: BlockKind, state: u8) -> Result<(), Fault> {
        let content = state::content(state);
        // Data were fetched too late, when the block held metadata already: the next fetch evicts them.
        let is_stale = content == Some(state::DATA);
        let is_away = is_stale || matches!(state, ABSENT | FETCHING | state::EVICTING);
        if content == Some(kind as u8) {
            self.use_again(at / BLOCK, state);
            Ok(())
        } else if is_away && !self.is_memory() {
            Err(Fault::Miss { at: at & !(BLOCK - 1), want: Want::Block(kind) })
        } else {
            Err(Fault::damaged(at & !(BLOCK - 1), expectation(kind)))
        }
    }

    /// Counts a use of a block that is not in steady use.
    #[cold]
    pub(crate) fn use_again(&self, index: u64, state: u8) {
        if state & (FRESH | state::ONCE) == 0 || !self.change_state(index, state, state::used(state)) {
            return;
        }
        if state::is_unasked(state) {
            self.neighbours.settle(state::content(state) == Some(state::DATA), true);
        }
        if state & MARKER != 0 {
            self.ahead.reached(index);
        }
    }

    /// Returns true where the block at `at` is resident as `kind`.
    pub fn is_resident(&self, at: u64, kind: BlockKind) -> bool {
        at < self.bytes() && state::content(self.state(at / BLOCK)) == Some(kind as u8)
    }

    /// Returns true where nothing of the block at `at` is in memory, nor on its way there.
    pub fn is_absent(&self, at: u64) -> bool {
        at >= self.bytes() || self.state(at / BLOCK) == ABSENT
    }

    /// Prefetches the cache line at `at`, of a volume in one range; nothing is checked.
    #[inline(always)]
    pub fn prefetch(&self, at: u64) {
        if at < self.in_range.load(Ordering::Relaxed) {
            prefetch(self.frames.address_in_range(at).as_ptr());
        }
    }

    #[inline(always)]
    pub(crate) fn state(&self, index: u64) -> u8 {
        point();
        self.byte(&self.states, index).load(Ordering::Acquire)
    }

    /// Loads the state in the one order of all sequentially consistent accesses.
    #[inline(always)]
    pub(crate) fn state_in_order(&self, index: u64) -> u8 {
        point();
        self.byte(&self.states, index).load(Ordering::SeqCst)
    }

    /// Compares the state without a preemption point: for assertions.
    pub(crate) fn state_is(&self, index: u64, state: u8) -> bool {
        self.byte(&self.states, index).load(Ordering::Relaxed) == state
    }

    pub(crate) fn set_state(&self, index: u64, state: u8) -> u8 {
        point();
        let old = self.byte(&self.states, index).swap(state, Ordering::SeqCst);
        debug_assert!(state::is_legal(old, state), "block {index} from state {old:#x} to {state:#x}");
        self.marks.mark(index);
        old
    }

    pub(crate) fn change_state(&self, index: u64, from: u8, to: u8) -> bool {
        point();
        debug_assert!(state::is_legal(from, to), "block {index} from state {from:#x} to {to:#x}");
        let bytes = self.byte(&self.states, index);
        let done = bytes.compare_exchange(from, to, Ordering::SeqCst, Ordering::Relaxed).is_ok();
        // The mark follows the change: a watcher that takes the mark sees the change, or finds the mark the
        // next time.
        self.marks.mark(index);
        done
    }

    /// Claims a block that has no frame, or a free one, to fill its frame. Returns false where another thread
    /// was faster.
    ///
    /// # Errors
    /// As [`find_frame`](Self::find_frame); the block is absent then.
    pub(crate) fn claim_frame(&self, index: u64, from: u8) -> Result<bool, Fault> {
        if !self.change_state(index, from, FETCHING) {
            return Ok(false);
        }
        self.find_frame(index).inspect_err(|_| self.finish_fetch(index, ABSENT, Ok(()))).map(|()| true)
    }

    #[inline(always)]
    fn byte<'a>(&self, bytes: &'a Arena, index: u64) -> &'a AtomicU8 {
        debug_assert!(index < self.blocks.load(Ordering::Relaxed));
        bytes.byte(index)
    }

    #[inline(always)]
    pub(crate) fn dirty(&self, index: u64) -> &AtomicU8 {
        point();
        self.byte(&self.dirty, index)
    }

    /// Marks the block at `at` as dirty; the first writer that does so has it in `list`.
    #[inline(always)]
    pub(crate) fn mark_dirty(&self, at: u64, list: &mut Vec<u64>) {
        self.marks.mark(at / BLOCK);
        if !self.is_memory() {
            let index = at / BLOCK;
            // Sequentially consistent with the cache, which loads the mark after it has claimed the block.
            if self.dirty(index).swap(Dirty::CHANGED, Ordering::SeqCst) != Dirty::CHANGED {
                list.push(index);
                self.commits.count_changed(self.state(index));
            }
        }
    }

    /// Pins a block whose data are about to be changed. Until [`unpin_data`](Self::unpin_data) it is neither
    /// evicted nor marked clean.
    #[inline(always)]
    pub(crate) fn pin_data(&self, index: u64, list: &mut Vec<u64>) {
        let before = self.dirty(index).swap(Dirty::PINNED, Ordering::SeqCst);
        if before == Dirty::CLEAN || before == Dirty::WRITING {
            list.push(index);
            self.commits.count_changed(state::DATA);
        }
    }

    /// Unpins a block whose data have been changed.
    #[inline(always)]
    pub(crate) fn unpin_data(&self, index: u64) {
        let (from, to) = (Dirty::PINNED, Dirty::CHANGED);
        let _ = self.dirty(index).compare_exchange(from, to, Ordering::SeqCst, Ordering::Relaxed);
    }

    /// Returns the checksum of a chunk table's first block. It leaves out its own four bytes; the second
    /// block's checksum is inside, so it covers both.
    pub(crate) fn table_sum(&self, at: u64, bytes: &[u8]) -> u32 {
        self.sums.of(at, bytes, Some(chunk_header::CHECKSUM))
    }

    /// True for the bytes of the first block of the table of the chunk at `at`.
    pub(crate) fn is_table(&self, at: u64, bytes: &[u8]) -> bool {
        is_table(&self.sums, at, bytes)
    }

    /// Returns block and offset of the chunk-table entry for the block at `at`.
    pub fn table_entry(at: u64) -> (u64, usize) {
        let chunk = at & !(CHUNK - 1);
        let byte = (at - chunk) / BLOCK * chunk_entry::SIZE as u64;
        (chunk + (byte & !(BLOCK - 1)), (byte & (BLOCK - 1)) as usize)
    }

    /// Returns the block at `at`, of whatever kind. The caller has checked that it is inside.
    pub(crate) fn view(&self, at: u64) -> View<'_> {
        // SAFETY: callers pass positions of blocks of this volume.
        unsafe { View::new(self.frames.address(at), at, BLOCK as u32, Grain::BLOCK) }
    }

    /// Copies bytes into a block that no reader sees yet, or to which the caller has exclusive access.
    pub(crate) fn fill(&self, at: u64, bytes: &[u8]) {
        point();
        self.frames.copy_in(at, bytes);
    }

    /// Changes the kind of a block, for a transaction, and returns the old one.
    pub(crate) fn set_kind(&self, at: u64, kind: u8) -> u8 {
        let old = self.set_state(at / BLOCK, kind);
        self.count_resident(at / BLOCK, old, kind);
        state::content(old).unwrap_or(old)
    }

    /// Takes a block out of use, for a transaction that has locked its records, and returns the old kind.
    /// Returns `None` while another thread fetches or evicts the block: it ends that on its own, and a
    /// rollback would then restore a state that nobody leaves, over a frame that is gone.
    pub(crate) fn retire(&self, at: u64) -> Option<u8> {
        loop {
            let old = self.state(at / BLOCK);
            let in_transit = matches!(old, FETCHING | state::EVICTING);
            if in_transit && !planted::is(planted::Bug::RetireInTransit) {
                return None;
            }
            if self.change_state(at / BLOCK, old, state::RETIRED) {
                self.count_resident(at / BLOCK, old, state::RETIRED);
                return Some(state::content(old).unwrap_or(old));
            }
        }
    }

    /// A block that a transaction allocates is resident from then on, and no longer once it is freed.
    fn count_resident(&self, index: u64, old: u8, new: u8) {
        let is_resident = |state: u8| !matches!(state, ABSENT | FREE);
        match (is_resident(old), is_resident(new)) {
            _ if self.is_memory() => {}
            (false, true) => self.cache.add(index, 1),
            (true, false) => self.cache.forget(1),
            _ => {}
        }
    }

    /// Makes a free block a resident block of `kind`, and returns its old state.
    pub(crate) fn take_free(&self, at: u64, kind: u8) -> Result<u8, Fault> {
        let index = at / BLOCK;
        match self.state(index) {
            free @ (ABSENT | FREE) if self.change_state(index, free, kind) => {
                if let Err(fault) = self.find_frame(index) {
                    self.set_state(index, free);
                    return Err(fault);
                }
                if !self.is_memory() {
                    self.cache.add(index, 1);
                }
                Ok(free)
            }
            // Readahead fetched it while it was file data; no reader needs it any more.
            state if state::content(state) == Some(state::DATA) && self.change_state(index, state, kind) => {
                Ok(FREE)
            }
            state if state::kind(state).is_some() || matches!(state, state::RETIRED | state::FIXED) => {
                Err(Fault::damaged(at, "a block in use is marked free"))
            }
            // A stale attempt is fetching it, or it is being evicted.
            _ => Err(Fault::Conflict { owner: u8::MAX, record: 0 }),
        }
    }

    /// Returns true where a transaction has taken the block at `at` out of use.
    pub fn is_retired(&self, at: u64) -> bool {
        at < self.bytes() && self.state(at / BLOCK) == state::RETIRED
    }

    /// Clears whole blocks that the caller owns. Stale attempts may read them.
    pub(crate) fn zero(&self, at: u64, len: u64) {
        point();
        debug_assert!(at.is_multiple_of(BLOCK) && len.is_multiple_of(BLOCK));
        self.frames.zero(at, len as usize);
    }

    /// Restores a word, in the rollback of a transaction.
    pub(crate) fn restore(&self, at: u64, bytes: usize, bits: u64) {
        self.view(at & !(BLOCK - 1)).store((at & (BLOCK - 1)) as usize, bytes, bits);
    }

    /// Checks that a range of file data is inside the volume.
    ///
    /// # Errors
    /// [`Fault::Damaged`].
    pub(crate) fn inside(&self, at: u64, len: usize) -> Result<(), Fault> {
        let end = at.checked_add(len as u64);
        if end.is_none_or(|end| end > self.bytes()) {
            return Err(Fault::damaged(at, "file data outside the volume"));
        }
        Ok(())
    }
}
