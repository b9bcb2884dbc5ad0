//! One attempt of an operation: the structures that it reads, tracked so that they can be validated at the
//! end.
//!
//! While the volume is quiescent nothing is tracked: one word, the epoch, shows that no writer was active
//! (see [`epoch`](crate::memory::epoch)). Otherwise an attempt tracks each structure with its version before it reads
//! it, and its result is accepted only if all versions are the same at the end. An attempt may so read
//! structures that do not fit together. That does no harm: it treats all bytes as if they came from a hostile
//! image, so it gets an error at worst, and the error of a stale attempt is not reported.

use crate::memory::epoch::Epoch;
use crate::memory::versions::{Grain, Record, Word, record, records};
use crate::memory::view::View;
use crate::store::Store;
use crate::vocabulary::fault::Fault;
use crate::vocabulary::planted;
use lanefs_format::{BLOCK, BlockKind};
use lanefs_sync::point;
use smallvec::SmallVec;
use std::cell::{Cell, RefCell};
use std::ops::Deref;
use std::sync::atomic::{Ordering, fence};

/// Most structures that a change tracks. A change that reads more gets exclusive access, which costs less.
const MAX_TRACKED: usize = 2048;

/// The structures that an attempt has read: pairs of ownership record and version.
struct ReadSet {
    list: SmallVec<[(Record, Word); 32]>,
    /// By the low bits of a record: the index of its last pair, plus one; 0 for none, [`ReadSet::FULL`] for
    /// an index that does not fit.
    recent: [u8; Self::WIDTH],
    /// All pairs of a long list, by record: open addressing, indices plus one. Only writers look up pairs.
    index: Option<Box<[u16; Self::INDEX]>>,
}

impl ReadSet {
    const WIDTH: usize = 128;
    const FULL: u8 = u8::MAX;
    /// A list of this length gets an index.
    const LONG: usize = 64;
    const INDEX: usize = 2 * MAX_TRACKED;

    fn new() -> Self {
        ReadSet { list: SmallVec::new(), recent: [0; Self::WIDTH], index: None }
    }

    /// Returns the version that was read of a record, where it was read.
    #[inline(always)]
    fn find(&self, record: Record) -> Option<Word> {
        match self.recent[record as usize % Self::WIDTH] {
            0 => None,
            near => match self.near(near) {
                Some((tracked, word)) if *tracked == record => Some(*word),
                _ => self.search(record),
            },
        }
    }

    /// Returns the pair that a bucket names; `None` for 0 and [`ReadSet::FULL`].
    #[inline(always)]
    fn near(&self, near: u8) -> Option<&(Record, Word)> {
        if near == Self::FULL { None } else { self.list.as_slice().get(usize::from(near).wrapping_sub(1)) }
    }

    fn search(&self, record: Record) -> Option<Word> {
        let Some(index) = &self.index else {
            return self.list.iter().find(|pair| pair.0 == record).map(|pair| pair.1);
        };
        let mut at = record as usize % Self::INDEX;
        while index[at] != 0 {
            let (tracked, word) = self.list[usize::from(index[at]) - 1];
            if tracked == record {
                return Some(word);
            }
            at = (at + 1) % Self::INDEX;
        }
        None
    }

    #[inline(always)]
    fn add(&mut self, record: Record, word: Word, is_writer: bool) {
        self.list.push((record, word));
        self.recent[record as usize % Self::WIDTH] = self.list.len().min(Self::FULL as usize) as u8;
        if self.list.len() >= Self::LONG && is_writer {
            self.add_to_index();
        }
    }

    #[cold]
    fn add_to_index(&mut self) {
        let first = if self.index.is_some() { self.list.len() - 1 } else { 0 };
        let index = self.index.get_or_insert_with(|| Box::new([0; Self::INDEX]));
        debug_assert!(self.list.len() <= MAX_TRACKED);
        for (number, (record, _)) in self.list.iter().enumerate().skip(first) {
            let mut at = *record as usize % Self::INDEX;
            while index[at] != 0 {
                at = (at + 1) % Self::INDEX;
            }
            index[at] = number as u16 + 1;
        }
    }

    /// Returns true where the last pair of this record's bucket is the same.
    #[inline(always)]
    fn is_recent(&self, record: Record, word: Word) -> bool {
        let near = self.recent[record as usize % Self::WIDTH];
        self.near(near) == Some(&(record, word))
    }
}

/// Protection of an attempt against writers.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Mode {
    /// The epoch alone, which had this value at the start.
    Quiet(Epoch),
    /// The versions of the read set.
    Tracked,
    /// A closed gate: no other thread changes anything.
    Exclusive,
}

/// The version of a structure that one ownership record covers, such as an inode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Version(Word);

/// Access to a volume's blocks for one attempt of an operation.
pub struct Reader<'s> {
    store: &'s Store,
    mode: Mode,
    /// Number of the writer; `None` for an attempt that only reads.
    writer: Option<u8>,
    read_set: RefCell<ReadSet>,
    /// Records that this attempt has locked, with their versions before.
    locked: RefCell<SmallVec<[(Record, Word); 32]>>,
    /// The reason why the attempt must be aborted.
    abort_reason: Cell<Option<Fault>>,
}

impl Deref for Reader<'_> {
    type Target = Store;

    #[inline(always)]
    fn deref(&self) -> &Store {
        self.store
    }
}

impl<'s> Reader<'s> {
    #[inline(always)]
    fn new(store: &'s Store, mode: Mode, writer: Option<u8>) -> Self {
        Reader {
            store,
            mode,
            writer,
            read_set: RefCell::new(ReadSet::new()),
            locked: RefCell::default(),
            abort_reason: Cell::new(None),
        }
    }

    /// Begins an attempt that only reads.
    #[inline(always)]
    pub fn reading(store: &'s Store) -> Self {
        let epoch = store.epoch();
        Self::new(store, if epoch.is_quiet() { Mode::Quiet(epoch) } else { Mode::Tracked }, None)
    }

    /// Begins an attempt of writer `writer`, beside others.
    pub fn writing(store: &'s Store, writer: u8) -> Self {
        Self::new(store, Mode::Tracked, Some(writer))
    }

    /// Begins an attempt with the gate closed, of writer `writer` where it changes things.
    pub fn exclusive(store: &'s Store, writer: Option<u8>) -> Self {
        Self::new(store, Mode::Exclusive, writer)
    }

    /// Returns true for an attempt that began while the volume was quiescent.
    #[inline(always)]
    pub fn is_quiet(&self) -> bool {
        matches!(self.mode, Mode::Quiet(_))
    }

    /// Returns the store.
    #[inline(always)]
    pub fn store(&self) -> &'s Store {
        self.store
    }

    /// Returns the block at `at`, verified as `kind`.
    ///
    /// # Errors
    /// [`Fault::Miss`] when it is absent; [`Fault::Damaged`] when there is none of that kind;
    /// [`Fault::Conflict`] when a writer has locked it.
    #[inline(always)]
    pub fn block(&self, at: u64, kind: BlockKind) -> Result<View<'s>, Fault> {
        if !at.is_multiple_of(BLOCK) {
            return Err(Fault::damaged(at, "a position outside the volume"));
        }
        self.part(at, BLOCK as usize, kind)
    }

    /// Returns a block without tracking it, to see whether it is worth [reading](Self::block): it may be
    /// changing, and no result may depend on it.
    ///
    /// # Errors
    /// As [`block`](Self::block).
    #[inline(always)]
    pub fn peek(&self, at: u64, kind: BlockKind) -> Result<View<'s>, Fault> {
        self.peek_part(at, BLOCK as usize, kind)
    }

    /// Returns a structure in a block of many as [`part`](Self::part) does, without tracking it.
    ///
    /// # Errors
    /// As [`block`](Self::block).
    #[inline(always)]
    pub fn peek_part(&self, at: u64, len: usize, kind: BlockKind) -> Result<View<'s>, Fault> {
        if let Some(reason) = self.abort_reason.get() {
            return Err(reason);
        }
        self.store.view_of(at, len, kind)
    }

    /// Returns a structure in a block of many: `len` bytes at `at`, a multiple of 8, that lie in one block of
    /// this kind.
    ///
    /// # Errors
    /// As [`block`](Self::block).
    #[inline(always)]
    pub fn part(&self, at: u64, len: usize, kind: BlockKind) -> Result<View<'s>, Fault> {
        if self.mode == Mode::Tracked {
            self.track(at, len, Grain::of(kind))?;
        }
        self.store.view_of(at, len, kind)
    }

    /// Returns the same structure with `len` bytes, once its length is known; `None` past the end of its
    /// block.
    ///
    /// # Errors
    /// As [`block`](Self::block).
    #[inline(always)]
    pub fn extend(&self, view: View<'s>, len: usize) -> Result<Option<View<'s>>, Fault> {
        let inside = (view.at() & (BLOCK - 1)) as usize;
        if inside + len > BLOCK as usize {
            return Ok(None);
        }
        if self.mode == Mode::Tracked && len > view.len() {
            self.track(view.at() + view.len() as u64, len - view.len(), view.grain())?;
        }
        Ok(Some(view.with_len(len)))
    }

    /// Returns inode `number`.
    ///
    /// # Errors
    /// As [`block`](Self::block).
    #[inline(always)]
    pub fn inode(&self, number: u64) -> Result<View<'s>, Fault> {
        let size = self.store.inode_size().bytes();
        let at = number.checked_mul(size).ok_or(Fault::damaged(number, "an impossible inode number"))?;
        self.part(at, size as usize, BlockKind::Inodes)
    }

    /// Returns the version of a structure. As long as it is the same, in this attempt and in others that were
    /// valid, nobody has changed the structure, nor what only a writer changes that has locked it.
    pub fn version(&self, view: &View<'_>) -> Version {
        Version(self.store.versions().load(record(view.at(), view.grain())))
    }

    /// Tracks a block of file data.
    #[inline(always)]
    pub(crate) fn track_data(&self, at: u64) -> Result<(), Fault> {
        if self.mode == Mode::Tracked { self.track_record(record(at, Grain::BLOCK)) } else { Ok(()) }
    }

    #[inline(always)]
    fn track(&self, at: u64, len: usize, grain: Grain) -> Result<(), Fault> {
        for record in records(at, len, grain) {
            self.track_record(record)?;
        }
        Ok(())
    }

    #[inline(always)]
    fn track_record(&self, record: Record) -> Result<(), Fault> {
        let word = self.store.versions().load(record);
        if let Some(owner) = word.owner() {
            return if Some(owner) == self.writer { Ok(()) } else { Err(Fault::Conflict { owner, record }) };
        }
        if let Some(reason) = self.abort_reason.get() {
            return Err(reason);
        }
        let mut read_set = self.read_set.borrow_mut();
        if read_set.is_recent(record, word) {
            return Ok(());
        }
        if read_set.list.len() >= MAX_TRACKED && self.writer.is_some() {
            return Err(Fault::ReadSetTooLarge);
        }
        read_set.add(record, word, self.writer.is_some());
        Ok(())
    }

    /// Locks the record of a byte, so that no other thread reads or changes the bytes that it covers. Returns
    /// false where it cannot be locked: the attempt must then be aborted.
    #[inline(always)]
    pub(crate) fn lock(&self, at: u64, grain: Grain) -> bool {
        self.lock_record(record(at, grain))
    }

    /// Locks all records of a block.
    pub(crate) fn lock_block(&self, at: u64, grain: Grain) -> bool {
        self.lock_range(at, BLOCK as usize, grain)
    }

    /// Locks all records of `len` bytes, which lie in one block.
    #[inline(always)]
    pub(crate) fn lock_range(&self, at: u64, len: usize, grain: Grain) -> bool {
        records(at, len, grain).all(|record| self.lock_record(record))
    }

    #[inline(always)]
    fn lock_record(&self, record: Record) -> bool {
        let word = self.store.versions().load(record);
        if word.owner().is_some() && word.owner() == self.writer {
            return self.abort_reason.get().is_none();
        }
        self.acquire(record, word)
    }

    fn acquire(&self, record: Record, word: Word) -> bool {
        let Some(writer) = self.writer else { return false };
        if self.abort_reason.get().is_some() {
            return false;
        }
        if let Err(reason) = self.store.check_changeable() {
            self.abort_reason.set(Some(reason));
            return false;
        }
        let owner = word.owner().unwrap_or(u8::MAX);
        // The structure has changed since it was read, so conclusions from the old bytes are wrong.
        let is_stale = self.mode == Mode::Tracked
            && !planted::is(planted::Bug::NoVersionCheck)
            && self.read_set.borrow().find(record).is_some_and(|tracked| tracked != word);
        let mut locked = self.locked.borrow_mut();
        if word.owner().is_some()
            || is_stale
            || !self.store.versions().try_lock(record, word, writer, locked.len())
        {
            self.abort_reason.set(Some(Fault::Conflict { owner, record }));
            return false;
        }
        debug_assert!(locked.iter().rev().take(8).all(|(other, _)| *other != record));
        locked.push((record, word));
        true
    }

    /// Gives the attempt a reason to be aborted.
    pub(crate) fn abort_because(&self, reason: Fault) {
        self.abort_reason.set(Some(reason));
    }

    /// Returns true while the attempt has no reason to be aborted.
    #[inline(always)]
    pub(crate) fn may_continue(&self) -> bool {
        self.abort_reason.get().is_none()
    }

    /// Compares the read set with the ownership records: nothing that this attempt read has changed since.
    ///
    /// # Errors
    /// [`Fault::Conflict`] or [`Fault::ReadSetTooLarge`]: retry.
    #[inline(always)]
    pub fn validate(&self) -> Result<(), Fault> {
        // All reads of the attempt come before the loads of the versions.
        fence(Ordering::Acquire);
        point();
        match self.mode {
            // Nobody else changes anything, but a block that a thread fetches cannot be taken out of use.
            Mode::Exclusive if planted::is(planted::Bug::UncheckedAlone) => Ok(()),
            Mode::Exclusive => self.abort_reason.get().map_or(Ok(()), Err),
            Mode::Quiet(epoch) if self.store.epoch() == epoch => Ok(()),
            Mode::Quiet(_) => Err(Fault::Conflict { owner: u8::MAX, record: 0 }),
            Mode::Tracked => self.compare(),
        }
    }

    fn compare(&self) -> Result<(), Fault> {
        if let Some(reason) = self.abort_reason.get() {
            return Err(reason);
        }
        if planted::is(planted::Bug::NoVersionCheck) {
            return Ok(());
        }
        let locked = self.locked.borrow();
        for (record, tracked) in &self.read_set.borrow().list {
            let word = self.store.versions().load(*record);
            let is_same = word == *tracked
                || self.writer.is_some()
                    && word.owner() == self.writer
                    && locked.get(word.index()).is_some_and(|(_, before)| before == tracked);
            if !is_same {
                return Err(Fault::Conflict { owner: word.owner().unwrap_or(u8::MAX), record: *record });
            }
        }
        Ok(())
    }

    /// Unlocks all records. Structures that were read before must be read again.
    pub(crate) fn unlock_all(&self) {
        for (record, before) in self.locked.borrow_mut().drain(..) {
            self.store.versions().unlock(record, before);
        }
    }

    /// Returns true where no record is locked.
    pub(crate) fn has_no_locks(&self) -> bool {
        self.locked.borrow().is_empty()
    }
}

impl Drop for Reader<'_> {
    fn drop(&mut self) {
        self.unlock_all();
    }
}
