//! One run of an operation: what it reads, remembered so that it can be checked at the end.
//!
//! While no writer is about, nothing is remembered: that no one came is seen by one word (see [`gate`](crate::gate)).
//! Otherwise each structure is noted with its version before it is read, and a run counts only if all are the same at the
//! end. A run may so read what does not fit together; it cannot do harm, for whatever it meets could as well come from a
//! hostile image: it gets an error at worst, and an error of a run that does not count is no error.

use crate::gate::Epoch;
use crate::versions::{Grain, Record, Word, record, records};
use crate::{Fault, Store, View, planted};
use lanefs_format::{BLOCK, BlockKind};
use lanefs_sync::point;
use smallvec::SmallVec;
use std::cell::{Cell, RefCell};
use std::ops::Deref;
use std::sync::atomic::{Ordering, fence};

/// A change that reads more structures than this is run with all others held off: to remember them costs more.
const CROWD: usize = 2048;

/// What was read, and as which version.
struct Notes {
    list: SmallVec<[(Record, Word); 32]>,
    /// By the low bits of a record: the place of its note, plus one; 0 for none, [`Notes::FULL`] for one that does not fit.
    recent: [u8; Self::WIDTH],
    /// All notes of a long list, by record: open addressing, places plus one. Only who changes things looks notes up.
    index: Option<Box<[u16; Self::INDEX]>>,
}

impl Notes {
    const WIDTH: usize = 128;
    const FULL: u8 = u8::MAX;
    /// A list of this length gets an index.
    const LONG: usize = 64;
    const INDEX: usize = 2 * CROWD;

    fn new() -> Self {
        Notes { list: SmallVec::new(), recent: [0; Self::WIDTH], index: None }
    }

    /// The version that was read, where it was.
    #[inline(always)]
    fn find(&self, record: Record) -> Option<Word> {
        match self.recent[record as usize % Self::WIDTH] {
            0 => None,
            near if near != Self::FULL && self.list[near as usize - 1].0 == record => {
                Some(self.list[near as usize - 1].1)
            }
            _ => self.search(record),
        }
    }

    fn search(&self, record: Record) -> Option<Word> {
        let Some(index) = &self.index else {
            return self.list.iter().find(|note| note.0 == record).map(|note| note.1);
        };
        let mut at = record as usize % Self::INDEX;
        while index[at] != 0 {
            let (noted, word) = self.list[usize::from(index[at]) - 1];
            if noted == record {
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
        debug_assert!(self.list.len() <= CROWD);
        for (place, (record, _)) in self.list.iter().enumerate().skip(first) {
            let mut at = *record as usize % Self::INDEX;
            while index[at] != 0 {
                at = (at + 1) % Self::INDEX;
            }
            index[at] = place as u16 + 1;
        }
    }

    /// True where the last note of this kind is the very one.
    #[inline(always)]
    fn is_recent(&self, record: Record, word: Word) -> bool {
        let near = self.recent[record as usize % Self::WIDTH];
        near != 0 && near != Self::FULL && self.list[near as usize - 1] == (record, word)
    }
}

/// How a run is protected.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Mode {
    /// By the epoch alone, which had this value at the start.
    Quiet(Epoch),
    /// By versions.
    Noted,
    /// By a closed gate: nobody else changes anything.
    Alone,
}

/// Access to a volume's blocks for one run of an operation.
pub struct Reader<'s> {
    store: &'s Store,
    mode: Mode,
    /// The writer's number, for a run that changes things.
    holder: Option<u8>,
    notes: RefCell<Notes>,
    /// Records that this run holds, with their versions before.
    held: RefCell<SmallVec<[(Record, Word); 32]>>,
    /// Why the run cannot come to a good end.
    doom: Cell<Option<Fault>>,
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
    fn new(store: &'s Store, mode: Mode, holder: Option<u8>) -> Self {
        Reader {
            store,
            mode,
            holder,
            notes: RefCell::new(Notes::new()),
            held: RefCell::default(),
            doom: Cell::new(None),
        }
    }

    /// A run that only reads.
    #[inline(always)]
    pub fn reading(store: &'s Store) -> Self {
        let epoch = store.epoch();
        Self::new(store, if epoch.is_quiet() { Mode::Quiet(epoch) } else { Mode::Noted }, None)
    }

    /// A run of writer `holder`, beside others.
    pub fn writing(store: &'s Store, holder: u8) -> Self {
        Self::new(store, Mode::Noted, Some(holder))
    }

    /// A run, of writer `holder` where it changes things, with the gate closed.
    pub fn alone(store: &'s Store, holder: Option<u8>) -> Self {
        Self::new(store, Mode::Alone, holder)
    }

    /// True for a run that no writer was about when it began.
    #[inline(always)]
    pub fn is_quiet(&self) -> bool {
        matches!(self.mode, Mode::Quiet(_))
    }

    /// The store.
    #[inline(always)]
    pub fn store(&self) -> &'s Store {
        self.store
    }

    /// The block at `at`, verified as `kind`.
    ///
    /// # Errors
    /// [`Fault::Miss`] when it is not resident; [`Fault::Damaged`] when there is none of that kind; [`Fault::Conflict`] when a
    /// writer is at it.
    #[inline(always)]
    pub fn block(&self, at: u64, kind: BlockKind) -> Result<View<'s>, Fault> {
        if !at.is_multiple_of(BLOCK) {
            return Err(Fault::damaged(at, "a position outside the volume"));
        }
        self.part(at, BLOCK as usize, kind)
    }

    /// A block that is looked at in passing, to see whether it is worth [reading](Self::block): nothing is noted, so it may be
    /// changing, and nothing may be built on it.
    ///
    /// # Errors
    /// As [`block`](Self::block).
    #[inline(always)]
    pub fn peek(&self, at: u64, kind: BlockKind) -> Result<View<'s>, Fault> {
        if let Some(doom) = self.doom.get() {
            return Err(doom);
        }
        self.store.view_of(at, BLOCK as usize, kind)
    }

    /// A structure in a block of many: `len` bytes at `at`, a multiple of 8, that lie in one block of this kind.
    ///
    /// # Errors
    /// As [`block`](Self::block).
    #[inline(always)]
    pub fn part(&self, at: u64, len: usize, kind: BlockKind) -> Result<View<'s>, Fault> {
        if self.mode == Mode::Noted {
            self.note(at, len, Grain::of(kind))?;
        }
        self.store.view_of(at, len, kind)
    }

    /// The same structure with `len` bytes, which turned out to be its length; `None` past the end of its block.
    #[inline(always)]
    pub fn extend(&self, view: View<'s>, len: usize) -> Result<Option<View<'s>>, Fault> {
        let inside = (view.at() & (BLOCK - 1)) as usize;
        if inside + len > BLOCK as usize {
            return Ok(None);
        }
        if self.mode == Mode::Noted && len > view.len() {
            self.note(view.at() + view.len() as u64, len - view.len(), view.grain())?;
        }
        Ok(Some(view.with_len(len)))
    }

    /// Inode `number`.
    ///
    /// # Errors
    /// As [`block`](Self::block).
    #[inline(always)]
    pub fn inode(&self, number: u64) -> Result<View<'s>, Fault> {
        let size = self.store.inode_size().bytes();
        let at = number.checked_mul(size).ok_or(Fault::damaged(number, "an impossible inode number"))?;
        self.part(at, size as usize, BlockKind::Inodes)
    }

    /// Notes a block of file data.
    #[inline(always)]
    pub(crate) fn note_data(&self, at: u64) -> Result<(), Fault> {
        if self.mode == Mode::Noted { self.note_record(record(at, Grain::BLOCK)) } else { Ok(()) }
    }

    #[inline(always)]
    fn note(&self, at: u64, len: usize, grain: Grain) -> Result<(), Fault> {
        for record in records(at, len, grain) {
            self.note_record(record)?;
        }
        Ok(())
    }

    #[inline(always)]
    fn note_record(&self, record: Record) -> Result<(), Fault> {
        let word = self.store.versions().load(record);
        if let Some(holder) = word.holder() {
            return if Some(holder) == self.holder {
                Ok(())
            } else {
                Err(Fault::Conflict { holder, record })
            };
        }
        if let Some(doom) = self.doom.get() {
            return Err(doom);
        }
        let mut notes = self.notes.borrow_mut();
        if notes.is_recent(record, word) {
            return Ok(());
        }
        if notes.list.len() >= CROWD && self.holder.is_some() {
            return Err(Fault::Crowd);
        }
        notes.add(record, word, self.holder.is_some());
        Ok(())
    }

    /// Takes the record of a byte for this run, so that nobody else reads or changes what it covers. False where that cannot
    /// be: the run is then doomed.
    #[inline(always)]
    pub(crate) fn hold(&self, at: u64, grain: Grain) -> bool {
        self.hold_record(record(at, grain))
    }

    /// Takes all records of a block.
    pub(crate) fn hold_block(&self, at: u64, grain: Grain) -> bool {
        self.hold_range(at, BLOCK as usize, grain)
    }

    /// Takes all records of `len` bytes, which lie in one block.
    #[inline(always)]
    pub(crate) fn hold_range(&self, at: u64, len: usize, grain: Grain) -> bool {
        records(at, len, grain).all(|record| self.hold_record(record))
    }

    #[inline(always)]
    fn hold_record(&self, record: Record) -> bool {
        let word = self.store.versions().load(record);
        if word.holder().is_some() && word.holder() == self.holder {
            return self.doom.get().is_none();
        }
        self.take(record, word)
    }

    fn take(&self, record: Record, word: Word) -> bool {
        let Some(me) = self.holder else { return false };
        if self.doom.get().is_some() {
            return false;
        }
        let holder = word.holder().unwrap_or(u8::MAX);
        // Changed since it was read: what follows from the reading is wrong.
        let stale = self.mode == Mode::Noted
            && !planted::is(planted::Fault::NoVersionCheck)
            && self.notes.borrow().find(record).is_some_and(|noted| noted != word);
        let mut held = self.held.borrow_mut();
        if word.holder().is_some() || stale || !self.store.versions().try_hold(record, word, me, held.len()) {
            self.doom.set(Some(Fault::Conflict { holder, record }));
            return false;
        }
        debug_assert!(held.iter().rev().take(8).all(|(other, _)| *other != record));
        held.push((record, word));
        true
    }

    /// True while nothing speaks against this run.
    #[inline(always)]
    pub(crate) fn is_sound(&self) -> bool {
        self.doom.get().is_none()
    }

    /// Nothing that this run read has changed since.
    ///
    /// # Errors
    /// [`Fault::Conflict`] or [`Fault::Crowd`]: run again.
    #[inline(always)]
    pub fn validate(&self) -> Result<(), Fault> {
        // What was read must have been read before the versions are looked at.
        fence(Ordering::Acquire);
        point();
        match self.mode {
            Mode::Alone => Ok(()),
            Mode::Quiet(epoch) if self.store.epoch() == epoch => Ok(()),
            Mode::Quiet(_) => Err(Fault::Conflict { holder: u8::MAX, record: 0 }),
            Mode::Noted => self.compare(),
        }
    }

    fn compare(&self) -> Result<(), Fault> {
        if let Some(doom) = self.doom.get() {
            return Err(doom);
        }
        if planted::is(planted::Fault::NoVersionCheck) {
            return Ok(());
        }
        let held = self.held.borrow();
        for (record, noted) in &self.notes.borrow().list {
            let word = self.store.versions().load(*record);
            let same = word == *noted
                || self.holder.is_some()
                    && word.holder() == self.holder
                    && held.get(word.place()).is_some_and(|(_, before)| before == noted);
            if !same {
                return Err(Fault::Conflict { holder: word.holder().unwrap_or(u8::MAX), record: *record });
            }
        }
        Ok(())
    }

    /// Lets go of all that is held. What was read before must be read again.
    pub(crate) fn let_go(&self) {
        for (record, before) in self.held.borrow_mut().drain(..) {
            self.store.versions().let_go(record, before);
        }
    }

    /// True where no record is held.
    pub(crate) fn holds_nothing(&self) -> bool {
        self.held.borrow().is_empty()
    }
}

impl Drop for Reader<'_> {
    fn drop(&mut self) {
        self.let_go();
    }
}
