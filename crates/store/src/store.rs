//! The bytes of one volume, and the state of each block.

use crate::arena::Arena;
use crate::behind::Behind;
use crate::cache::Cache;
use crate::commit::Commits;
use crate::fetch::Fetches;
use crate::gate::{Epoch, Epochs};
use crate::readahead::ReadAhead;
use crate::state::{self, ABSENT, FREE, FRESH, MARKER};
use crate::versions::{Grain, Versions};
use crate::view::{View, prefetch};
use crate::watch::Watch;
use crate::{Device, Fault, Want};
use lanefs_format::{BLOCK, BlockKind, CHUNK, Checksummer, InodeSize, SUPERBLOCK_COPY, chunk_entry};
use lanefs_sync::point;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};

/// Where a volume's bytes are kept.
pub enum Backing {
    /// In memory only: every block is resident from the start.
    Memory,
    /// On a device: blocks become resident when they are fetched, and changed ones go back at a commit.
    Device(Box<dyn Device>),
}

/// The bytes of one volume.
///
/// Blocks are read through a [`Reader`](crate::Reader) and changed through a [`Tx`](crate::Tx).
pub struct Store {
    pub(crate) arena: Arena,
    /// One byte a block, see [`state`].
    states: Arena,
    /// One byte a block, see [`Dirt`].
    dirty: Arena,
    pub(crate) backing: Backing,
    blocks: AtomicU64,
    pub(crate) sums: Checksummer,
    inode_size: InodeSize,
    versions: Versions,
    epochs: Epochs,
    pub(crate) cache: Cache,
    pub(crate) fetches: Fetches,
    pub(crate) ahead: ReadAhead,
    pub(crate) commits: Commits,
    pub(crate) behind: Behind,
    pub(crate) watch: Watch,
}

/// How a resident block differs from the device.
pub(crate) struct Dirt;

impl Dirt {
    /// Not at all.
    pub(crate) const CLEAN: u8 = 0;
    /// It was changed.
    pub(crate) const CHANGED: u8 = 1;
    /// It is being written, and was not changed since.
    pub(crate) const WRITING: u8 = 2;
    /// It is file data that a writer is changing just now: written or not, it is not clean until he is done.
    pub(crate) const HELD: u8 = 3;
}

/// Volumes below this size do without huge pages, which would cost them more memory than they hold.
const HUGE_PAGES_FROM: u64 = 256 << 20;

impl Store {
    /// A store of `bytes` bytes (a multiple of 4096) that can grow up to `room` bytes. Of a device's blocks, up to `budget`
    /// bytes stay in memory, beside those that were changed and not committed.
    ///
    /// # Errors
    /// The host's error when it has no address space left.
    pub fn new(
        backing: Backing,
        bytes: u64,
        room: u64,
        budget: u64,
        uuid: &[u8; 16],
        inode_size: InodeSize,
    ) -> std::io::Result<Self> {
        let reserve = |room: u64| -> std::io::Result<[Arena; 3]> {
            let blocks = (room / BLOCK) as usize;
            Ok([Arena::reserve(room as usize)?, Arena::reserve(blocks)?, Arena::reserve(blocks)?])
        };
        // Under a limit on address space the volume still opens; it only cannot grow while it is open.
        let [arena, states, dirty] = reserve(room.max(bytes)).or_else(|_| reserve(bytes))?;
        if bytes >= HUGE_PAGES_FROM && matches!(backing, Backing::Memory) {
            arena.prefer_huge_pages();
        }
        let store = Store {
            arena,
            states,
            dirty,
            backing,
            blocks: (bytes / BLOCK).into(),
            sums: Checksummer::new(uuid),
            inode_size,
            versions: Versions::new(),
            epochs: Epochs::default(),
            cache: Cache::new(budget / BLOCK),
            fetches: Fetches::default(),
            ahead: ReadAhead::default(),
            commits: Commits::default(),
            behind: Behind::default(),
            watch: Watch::default(),
        };
        store.fix(0, 1);
        store.fix(SUPERBLOCK_COPY, 1);
        Ok(store)
    }

    /// Keeps blocks that lie at a fixed place from being taken for anything else.
    pub(crate) fn fix(&self, at: u64, blocks: u64) {
        let first = at / BLOCK;
        for index in first..(first + blocks).min(self.blocks.load(Ordering::Relaxed)) {
            self.set_state(index, state::FIXED);
        }
    }

    /// Size in bytes.
    #[inline(always)]
    pub fn bytes(&self) -> u64 {
        self.blocks.load(Ordering::Relaxed) * BLOCK
    }

    /// Bytes to which it can grow.
    pub(crate) fn room(&self) -> u64 {
        self.arena.capacity() as u64
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

    /// The device, where there is one.
    #[inline(always)]
    pub(crate) fn device(&self) -> Option<&dyn Device> {
        match &self.backing {
            Backing::Memory => None,
            Backing::Device(device) => Some(device.as_ref()),
        }
    }

    #[inline(always)]
    pub(crate) fn versions(&self) -> &Versions {
        &self.versions
    }

    #[inline(always)]
    pub(crate) fn epochs(&self) -> &Epochs {
        &self.epochs
    }

    /// Whether writers are about.
    #[inline(always)]
    pub(crate) fn epoch(&self) -> Epoch {
        self.epochs.now()
    }

    /// Makes the store larger, or small again when what was to follow failed. The caller holds all others off.
    ///
    /// # Errors
    /// The device's error, or `OutOfMemory` where the reserved address space ends.
    pub fn grow(&self, bytes: u64) -> std::io::Result<()> {
        debug_assert!(bytes.is_multiple_of(BLOCK));
        if bytes > self.arena.capacity() as u64 {
            return Err(std::io::Error::new(
                std::io::ErrorKind::OutOfMemory,
                format!(
                    "an open volume can grow to {} bytes at once; grow it in steps",
                    self.arena.capacity()
                ),
            ));
        }
        if let Some(device) = self.device() {
            device.resize(bytes)?;
        }
        self.blocks.store(bytes / BLOCK, Ordering::Relaxed);
        Ok(())
    }

    /// `len` bytes at `at`, of a block verified as `kind`.
    #[inline(always)]
    pub(crate) fn view_of(&self, at: u64, len: usize, kind: BlockKind) -> Result<View<'_>, Fault> {
        let end = (at & (BLOCK - 1)) as usize + len;
        if !at.is_multiple_of(8) || at >= self.bytes() || end > BLOCK as usize {
            return Err(Fault::damaged(at, "a position outside the volume"));
        }
        let state = self.state(at / BLOCK);
        if state != kind as u8 {
            self.look_closer(at, kind, state)?;
        }
        // SAFETY: inside the volume, whose memory lives as long as the store; aligned to 8.
        Ok(unsafe { View::new(self.arena.address(at), at, len as u32, Grain::of(kind)) })
    }

    /// The block is not resident, or not in steady use.
    #[cold]
    fn look_closer(&self, at: u64, kind: BlockKind, state: u8) -> Result<(), Fault> {
        match state {
            ABSENT | state::FETCHING | state::EVICTING if !self.is_memory() => {
                Err(Fault::Miss { at: at & !(BLOCK - 1), want: Want::Block(kind) })
            }
            state if state::content(state) == Some(kind as u8) => {
                self.use_again(at / BLOCK, state);
                Ok(())
            }
            _ => Err(Fault::damaged(at & !(BLOCK - 1), expectation(kind))),
        }
    }

    /// One more use of a block that is not in steady use.
    #[cold]
    pub(crate) fn use_again(&self, index: u64, state: u8) {
        if state & (FRESH | state::ONCE) != 0
            && self.change_state(index, state, state::used(state))
            && state & MARKER != 0
        {
            self.ahead.reached(index);
        }
    }

    /// True where the block at `at` is here as `kind`.
    pub fn is_resident(&self, at: u64, kind: BlockKind) -> bool {
        at < self.bytes() && state::content(self.state(at / BLOCK)) == Some(kind as u8)
    }

    /// The processor fetches the line at `at`; nothing is checked.
    #[inline(always)]
    pub fn prefetch(&self, at: u64) {
        if at < self.bytes() {
            prefetch(self.arena.address(at).as_ptr());
        }
    }

    #[inline(always)]
    pub(crate) fn state(&self, index: u64) -> u8 {
        point();
        self.byte(&self.states, index).load(Ordering::Acquire)
    }

    /// The state without a point of schedule tests: for assertions.
    pub(crate) fn state_is(&self, index: u64, state: u8) -> bool {
        self.byte(&self.states, index).load(Ordering::Relaxed) == state
    }

    pub(crate) fn set_state(&self, index: u64, state: u8) -> u8 {
        point();
        let old = self.byte(&self.states, index).swap(state, Ordering::SeqCst);
        debug_assert!(state::is_legal(old, state), "block {index} from state {old:#x} to {state:#x}");
        self.note_for_watch(index);
        old
    }

    pub(crate) fn change_state(&self, index: u64, from: u8, to: u8) -> bool {
        point();
        debug_assert!(state::is_legal(from, to), "block {index} from state {from:#x} to {to:#x}");
        let bytes = self.byte(&self.states, index);
        let done = bytes.compare_exchange(from, to, Ordering::SeqCst, Ordering::Relaxed).is_ok();
        // Behind the change: who collects the mark sees it, or finds the mark the next time.
        self.note_for_watch(index);
        done
    }

    #[inline(always)]
    fn byte<'a>(&self, bytes: &'a Arena, index: u64) -> &'a AtomicU8 {
        debug_assert!(index < self.blocks.load(Ordering::Relaxed));
        bytes.byte(index)
    }

    #[inline(always)]
    pub(crate) fn dirt(&self, index: u64) -> &AtomicU8 {
        point();
        self.byte(&self.dirty, index)
    }

    /// Remembers that the block at `at` differs from the device; the first to say so has it in `list`.
    #[inline(always)]
    pub(crate) fn mark(&self, at: u64, list: &mut Vec<u64>) {
        self.note_for_watch(at / BLOCK);
        if !self.is_memory() {
            let index = at / BLOCK;
            // Sequentially consistent with the cache, which looks here after it has claimed the block.
            if self.dirt(index).swap(Dirt::CHANGED, Ordering::SeqCst) != Dirt::CHANGED {
                list.push(index);
                self.commits.count_changed(self.state(index));
            }
        }
    }

    /// Says that the data of a block are about to be changed. Until [`let_data_go`](Self::let_data_go) it neither leaves nor
    /// counts as clean.
    #[inline(always)]
    pub(crate) fn hold_data(&self, index: u64, list: &mut Vec<u64>) {
        let before = self.dirt(index).swap(Dirt::HELD, Ordering::SeqCst);
        if before == Dirt::CLEAN || before == Dirt::WRITING {
            list.push(index);
            self.commits.count_changed(state::DATA);
        }
    }

    /// The data of a block have been changed.
    #[inline(always)]
    pub(crate) fn let_data_go(&self, index: u64) {
        let (from, to) = (Dirt::HELD, Dirt::CHANGED);
        let _ = self.dirt(index).compare_exchange(from, to, Ordering::SeqCst, Ordering::Relaxed);
    }

    /// Block and offset of the chunk-table entry for the block at `at`.
    pub fn table_entry(at: u64) -> (u64, usize) {
        let chunk = at & !(CHUNK - 1);
        let byte = (at - chunk) / BLOCK * chunk_entry::SIZE as u64;
        (chunk + (byte & !(BLOCK - 1)), (byte & (BLOCK - 1)) as usize)
    }

    /// The block at `at` whatever it is. The caller has checked that it is inside.
    pub(crate) fn view(&self, at: u64) -> View<'_> {
        // SAFETY: callers pass positions of blocks of this volume.
        unsafe { View::new(self.arena.address(at), at, BLOCK as u32, Grain::BLOCK) }
    }

    /// Copies words into memory that no reader sees as a block yet, or that the caller has to itself.
    pub(crate) fn fill(&self, at: u64, bytes: &[u8]) {
        point();
        self.arena.copy_in(at, bytes);
    }

    /// Changes what a block is, for a transaction.
    pub(crate) fn set_kind(&self, at: u64, kind: u8) -> u8 {
        let old = self.set_state(at / BLOCK, kind);
        if !self.is_memory() {
            // What a transaction takes into use is resident from then on, and no longer when it goes.
            let is_resident = |state: u8| !matches!(state, ABSENT | FREE);
            match (is_resident(old), is_resident(kind)) {
                (false, true) => self.cache.add(at / BLOCK, 1),
                (true, false) => self.cache.forget(1),
                _ => {}
            }
        }
        match state::content(old) {
            Some(kind) => kind,
            None => old,
        }
    }

    /// Takes a free block into use as `kind`; what it was before.
    pub(crate) fn take_free(&self, at: u64, kind: u8) -> Result<u8, Fault> {
        let index = at / BLOCK;
        match self.state(index) {
            free @ (ABSENT | FREE) if self.change_state(index, free, kind) => {
                if !self.is_memory() {
                    self.cache.add(index, 1);
                }
                Ok(free)
            }
            // Read ahead for somebody when it was in use as data; of no more use.
            state if state::content(state) == Some(state::DATA) && self.change_state(index, state, kind) => {
                Ok(FREE)
            }
            state if state::kind(state).is_some() || matches!(state, state::RETIRED | state::FIXED) => {
                Err(Fault::damaged(at, "a block in use is marked free"))
            }
            // On its way in or out for somebody who comes too late.
            _ => Err(Fault::Conflict { holder: u8::MAX, record: 0 }),
        }
    }

    /// True where a transaction took the block at `at` out of use.
    pub fn is_retired(&self, at: u64) -> bool {
        at < self.bytes() && self.state(at / BLOCK) == state::RETIRED
    }

    pub(crate) fn zero(&self, at: u64, len: u64) {
        point();
        debug_assert!(at.is_multiple_of(BLOCK) && len.is_multiple_of(BLOCK));
        self.arena.zero(at, len as usize);
    }

    /// Puts a word back, when a transaction is taken back.
    pub(crate) fn restore(&self, at: u64, bytes: usize, bits: u64) {
        self.view(at & !(BLOCK - 1)).store((at & (BLOCK - 1)) as usize, bytes, bits);
    }

    pub(crate) fn inside(&self, at: u64, len: usize) -> Result<(), Fault> {
        let end = at.checked_add(len as u64);
        if end.is_none_or(|end| end > self.bytes()) {
            return Err(Fault::damaged(at, "file data outside the volume"));
        }
        Ok(())
    }
}

pub(crate) fn expectation(kind: BlockKind) -> &'static str {
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
