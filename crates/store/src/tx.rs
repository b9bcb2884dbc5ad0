//! Transactions: changes of metadata that happen together or not at all.
//!
//! A change is made in place, once the record of what it changes is held (see [`versions`](crate::versions)), and the old
//! value is remembered. Where a record cannot be had, the transaction is *doomed*: its changes are dropped from then on, and
//! in the end all are taken back.

use crate::state::{FREE, RETIRED};
use crate::versions::Grain;
use crate::{Fault, Reader, Store, View, planted};
use lanefs_format::{BLOCK, BlockKind, Field, Word, dir::leaf};

/// What a writer keeps from one transaction to the next.
#[derive(Default)]
pub struct Log {
    undo: Vec<Undo>,
    /// Blocks that differ from the device, by number; each in one writer's list only.
    changed: Vec<u64>,
}

impl Log {
    /// Takes the numbers of blocks that were changed since the last time.
    pub fn take_changed(&mut self) -> Vec<u64> {
        std::mem::take(&mut self.changed)
    }

    /// Puts back what was taken and is still to be committed.
    pub fn put_back_changed(&mut self, mut changed: Vec<u64>) {
        self.changed.append(&mut changed);
    }

    pub(crate) fn changed_mut(&mut self) -> &mut Vec<u64> {
        &mut self.changed
    }
}

/// An old value: the position, and in the top byte what it was: 1, 2, 4 or 8 bytes of a block, or [`KIND`].
struct Undo {
    place: u64,
    old: u64,
}

const WIDTH_SHIFT: u32 = 56;
/// The block's kind, not a word of it.
const KIND: u64 = 0x80;

/// A running transaction. Dropping it takes all changes back; [`commit`](Tx::commit) keeps them.
pub struct Tx<'v> {
    reader: &'v Reader<'v>,
    log: &'v mut Log,
}

impl<'v> Tx<'v> {
    /// Begins a transaction with an empty log.
    pub fn new(reader: &'v Reader<'v>, log: &'v mut Log) -> Self {
        debug_assert!(log.undo.is_empty() && reader.holds_nothing());
        Tx { reader, log }
    }

    pub(crate) fn reader(&self) -> &'v Reader<'v> {
        self.reader
    }

    pub(crate) fn parts(&mut self) -> (&'v Reader<'v>, &mut Log) {
        (self.reader, self.log)
    }

    #[inline(always)]
    fn store(&self) -> &'v Store {
        self.reader.store()
    }

    /// Writes a field.
    #[inline(always)]
    pub fn put<T: Word>(&mut self, view: View<'_>, field: Field<T>, value: T) {
        self.word(view, field.offset, T::BYTES, value.to_bits());
    }

    #[inline(always)]
    fn word(&mut self, view: View<'_>, offset: usize, bytes: usize, bits: u64) {
        let place = view.at() + offset as u64;
        // What is so already was read, and was noted then.
        if view.load(offset, bytes) == bits
            || offset + bytes > view.len()
            || !self.reader.hold(place, view.grain())
        {
            return;
        }
        let old = view.load(offset, bytes);
        self.log.undo.push(Undo { place: place | (bytes as u64) << WIDTH_SHIFT, old });
        view.store(offset, bytes, bits);
        self.mark(view.at());
    }

    #[inline(always)]
    fn mark(&mut self, at: u64) {
        self.store().mark(at & !(BLOCK - 1), &mut self.log.changed);
    }

    /// Writes bytes from `offset` on; `offset` must be a multiple of 8 for speed, not for correctness.
    pub fn put_bytes(&mut self, view: View<'_>, offset: usize, bytes: &[u8]) {
        let mut at = offset;
        let mut rest = bytes;
        while !rest.is_empty() {
            let step = if at.is_multiple_of(8) && rest.len() >= 8 { 8 } else { 1 };
            let (now, later) = rest.split_at(step);
            let mut word = [0; 8];
            word[..step].copy_from_slice(now);
            self.word(view, at, step, u64::from_le_bytes(word));
            (rest, at) = (later, at + step);
        }
    }

    /// Holds what a view shows, so that nobody else reads or changes it until the transaction ends.
    ///
    /// # Errors
    /// [`Fault::Conflict`]: run again.
    pub fn hold(&mut self, view: View<'_>) -> Result<(), Fault> {
        self.reader.hold(view.at(), view.grain());
        self.check()
    }

    /// # Errors
    /// [`Fault::Conflict`] for a doomed transaction.
    fn check(&self) -> Result<(), Fault> {
        if self.reader.is_sound() { Ok(()) } else { self.reader.validate() }
    }

    /// Writes bytes that need not be put back: what is there is in nobody's use. Their records are held first: a run that comes too
    /// late, to what was here before, may else write here, and take that back over what is written now.
    #[inline(always)]
    pub fn init(&mut self, view: View<'_>, offset: usize, bytes: &[u8]) {
        if planted::is(planted::Fault::UnheldInit)
            || self.reader.hold_range(view.at() + offset as u64, bytes.len(), view.grain())
        {
            self.fill(view, offset, bytes);
        }
    }

    /// Writes bytes where nothing needs to be put back and whose records are held: into a block that this transaction
    /// [took into use](Self::fresh).
    #[inline(always)]
    pub fn fill(&mut self, view: View<'_>, offset: usize, bytes: &[u8]) {
        debug_assert!(offset.is_multiple_of(8) && offset + bytes.len() <= view.len());
        if !self.reader.is_sound() {
            return;
        }
        let (eights, rest) = bytes.as_chunks::<8>();
        let mut at = offset;
        for eight in eights {
            view.store(at, 8, u64::from_le_bytes(*eight));
            at += 8;
        }
        view.store_tail(at, rest);
        self.mark(view.at());
    }

    /// Writes a field where nothing needs to be put back and nobody looks, as [`fill`](Self::fill).
    #[inline(always)]
    pub fn set<T: Word>(&mut self, view: View<'_>, field: Field<T>, value: T) {
        if self.reader.is_sound() {
            view.store(field.offset, T::BYTES, value.to_bits());
            self.mark(view.at());
        }
    }

    /// A view of units that this transaction allocated in the block at `at`; nothing is noted, for nobody else has business
    /// there. `None` where they reach past the end.
    ///
    /// # Errors
    /// As [`Reader::block`].
    pub fn own_part(
        &self,
        at: u64,
        offset: usize,
        len: usize,
        kind: BlockKind,
    ) -> Result<Option<View<'v>>, Fault> {
        Ok(self.store().view_of(at, BLOCK as usize, kind)?.part(offset, len))
    }

    /// Takes a free block into use as metadata: zeros, with the common header where the kind has one. The caller has changed
    /// the table that says so first.
    ///
    /// # Errors
    /// [`Fault::Damaged`] when the position is not one of this volume.
    pub fn fresh(&mut self, at: u64, kind: BlockKind, owner: u64) -> Result<View<'v>, Fault> {
        if !at.is_multiple_of(BLOCK) || at >= self.store().bytes() {
            return Err(Fault::damaged(at, "a position outside the volume"));
        }
        // Held, so that the cache does not take it as long as it is not marked, or when it is given back; and so that a run
        // which comes too late, to what was here before, does not take the new content for it.
        self.reader.hold_block(at, Grain::of(kind));
        self.check()?;
        let old = self.store().take_free(at, kind as u8)?;
        self.log.undo.push(Undo { place: at | KIND << WIDTH_SHIFT, old: u64::from(old) });
        self.store().zero(at, BLOCK);
        let view = self.store().view_of(at, BLOCK as usize, kind)?;
        if kind.has_header() {
            self.set(view, leaf::KIND, kind as u8);
            self.set(view, leaf::OWNER, owner);
        }
        self.mark(at);
        Ok(view)
    }

    /// Takes a block of metadata out of use: from now on no read finds it, but its bytes stay until the transaction is
    /// over, for it may be taken back.
    pub fn retire(&mut self, at: u64, kind: BlockKind) {
        if self.reader.hold_block(at, Grain::of(kind)) {
            self.set_kind(at, RETIRED);
        }
    }

    /// Lets a retired block be used anew. Only right before the commit.
    pub fn vacate(&mut self, at: u64) {
        if self.reader.is_sound() {
            self.set_kind(at, FREE);
        }
    }

    fn set_kind(&mut self, at: u64, kind: u8) {
        if at.is_multiple_of(BLOCK) && at < self.store().bytes() {
            let old = self.store().set_kind(at, kind);
            self.log.undo.push(Undo { place: at | KIND << WIDTH_SHIFT, old: u64::from(old) });
        }
    }

    /// Says that a block is going to be changed by [`raise`](Self::raise), so that it stays resident.
    pub fn pin(&mut self, view: View<'_>) {
        self.mark(view.at());
    }

    /// Makes a field at least `value` without holding its record: for times, which only grow, so that two that stamp the same
    /// directory need not wait for one another. Only after [`pin`](Self::pin) and validation.
    #[inline(always)]
    pub fn raise(&mut self, view: View<'_>, field: Field<i64>, value: i64) {
        view.raise(field, value);
    }

    /// Takes the numbers of blocks that this writer changed since the last time.
    pub fn take_changed(&mut self) -> Vec<u64> {
        self.log.take_changed()
    }

    /// What was read still holds, and all that was changed is held: the transaction happens now, as far as others can tell.
    ///
    /// # Errors
    /// [`Fault::Conflict`]: drop it and run again.
    #[inline(always)]
    pub fn validate(&self) -> Result<(), Fault> {
        self.reader.validate()
    }

    /// Keeps the changes.
    #[inline(always)]
    pub fn commit(self) {
        debug_assert!(self.reader.is_sound(), "a doomed transaction commits");
        self.log.undo.clear();
        self.reader.let_go();
        debug_assert!(self.reader.holds_nothing());
    }
}

impl Drop for Tx<'_> {
    fn drop(&mut self) {
        let store = self.reader.store();
        while let Some(undo) = self.log.undo.pop() {
            let at = undo.place & ((1 << WIDTH_SHIFT) - 1);
            if undo.place >> WIDTH_SHIFT == KIND {
                store.set_kind(at, undo.old as u8);
            } else {
                store.restore(at, (undo.place >> WIDTH_SHIFT) as usize, undo.old);
                // A snapshot may have taken the change for what the device is going to have.
                store.mark(at & !(BLOCK - 1), &mut self.log.changed);
            }
        }
        self.reader.let_go();
        debug_assert!(self.log.undo.is_empty() && self.reader.holds_nothing());
    }
}
