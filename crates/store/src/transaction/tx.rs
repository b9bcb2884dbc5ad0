//! Transactions: changes of metadata that happen together or not at all.
//!
//! A transaction changes bytes in place, once it has locked their ownership record (see
//! [`versions`](crate::memory::versions)), and remembers the old value in its undo log. Where a record cannot be
//! locked, the transaction must be aborted: it makes no further changes, and its end rolls all back.

use super::reader::Reader;
use crate::memory::state::{self, FREE};
use crate::memory::versions::Grain;
use crate::memory::view::View;
use crate::store::Store;
use crate::vocabulary::fault::Fault;
use crate::vocabulary::planted;
use lanefs_format::dir::leaf;
use lanefs_format::{BLOCK, BlockKind, Field, Word};

/// State that a writer keeps from one transaction to the next.
#[derive(Default)]
pub struct Log {
    undo: Vec<Undo>,
    /// Numbers of dirty blocks; each is in one writer's list only.
    changed: Vec<u64>,
}

impl Log {
    /// Takes the numbers of the blocks that were changed since the last call.
    pub fn take_changed(&mut self) -> Vec<u64> {
        std::mem::take(&mut self.changed)
    }

    /// Puts numbers back that were taken and are still to be committed.
    pub fn put_back_changed(&mut self, mut changed: Vec<u64>) {
        self.changed.append(&mut changed);
    }

    pub(crate) fn changed_mut(&mut self) -> &mut Vec<u64> {
        &mut self.changed
    }
}

/// An old value.
struct Undo {
    /// The position, and in the top byte the width of the value: 1, 2, 4 or 8 bytes of a block, or [`KIND`].
    target: u64,
    old: u64,
}

const WIDTH_SHIFT: u32 = 56;
/// The value is the block's kind, not a word of it.
const KIND: u64 = 0x80;

/// A transaction. Dropping it rolls all changes back; [`commit`](Tx::commit) keeps them.
pub struct Tx<'v> {
    reader: &'v Reader<'v>,
    log: &'v mut Log,
    /// Bytes that an earlier step of this transaction took out of use may be written again.
    reuses: bool,
}

impl<'v> Tx<'v> {
    /// Begins a transaction with an empty log.
    pub fn new(reader: &'v Reader<'v>, log: &'v mut Log) -> Self {
        debug_assert!(log.undo.is_empty() && reader.has_no_locks());
        Tx { reader, log, reuses: false }
    }

    /// Makes this a transaction of several steps: one may [initialize](Self::init) bytes that another one has
    /// taken out of use, so a rollback restores them, too.
    pub fn has_steps(&mut self) {
        self.reuses = true;
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
        let target = view.at() + offset as u64;
        // An equal value was read, so the read set has it.
        if view.load(offset, bytes) == bits
            || offset + bytes > view.len()
            || !self.reader.lock(target, view.grain())
        {
            return;
        }
        let old = view.load(offset, bytes);
        self.log.undo.push(Undo { target: target | (bytes as u64) << WIDTH_SHIFT, old });
        view.store(offset, bytes, bits);
        self.mark_dirty(view.at());
    }

    #[inline(always)]
    fn mark_dirty(&mut self, at: u64) {
        self.store().mark_dirty(at & !(BLOCK - 1), &mut self.log.changed);
    }

    /// Writes bytes from `offset` on. A multiple of 8 is faster.
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

    /// Locks the ownership record of a structure, so that no other thread reads or changes it until the
    /// transaction ends.
    ///
    /// # Errors
    /// [`Fault::Conflict`]: retry.
    pub fn lock(&mut self, view: View<'_>) -> Result<(), Fault> {
        self.reader.lock(view.at(), view.grain());
        self.check()
    }

    /// # Errors
    /// The reason why the transaction must be aborted.
    fn check(&self) -> Result<(), Fault> {
        if self.reader.may_continue() { Ok(()) } else { self.reader.validate() }
    }

    /// Writes bytes that need no undo: no structure in use has them. Their records are locked first: a stale
    /// attempt, which sees the structure that was there before, could otherwise roll its write back over the
    /// new contents.
    #[inline(always)]
    pub fn init(&mut self, view: View<'_>, offset: usize, bytes: &[u8]) {
        if planted::is(planted::Bug::UnlockedInit)
            || self.reader.lock_range(view.at() + offset as u64, bytes.len(), view.grain())
        {
            if self.reuses {
                self.remember(view, offset, bytes.len());
            }
            self.fill(view, offset, bytes);
        }
    }

    /// Notes bytes for a rollback, whose records are locked.
    fn remember(&mut self, view: View<'_>, offset: usize, len: usize) {
        if !self.reader.may_continue() || offset + len > view.len() {
            return;
        }
        let mut at = offset;
        while at < offset + len {
            let width = if at.is_multiple_of(8) && offset + len - at >= 8 { 8 } else { 1 };
            let target = view.at() + at as u64;
            let old = view.load(at, width);
            self.log.undo.push(Undo { target: target | (width as u64) << WIDTH_SHIFT, old });
            at += width;
        }
    }

    /// Writes bytes that need no undo and whose records are locked: into a block that this transaction
    /// [allocated](Self::fresh).
    #[inline(always)]
    pub fn fill(&mut self, view: View<'_>, offset: usize, bytes: &[u8]) {
        debug_assert!(offset.is_multiple_of(8) && offset + bytes.len() <= view.len());
        if !self.reader.may_continue() {
            return;
        }
        let (eights, rest) = bytes.as_chunks::<8>();
        let mut at = offset;
        for eight in eights {
            view.store(at, 8, u64::from_le_bytes(*eight));
            at += 8;
        }
        view.store_tail(at, rest);
        self.mark_dirty(view.at());
    }

    /// Writes a field that needs no undo and that no other thread reads, as [`fill`](Self::fill).
    #[inline(always)]
    pub fn set<T: Word>(&mut self, view: View<'_>, field: Field<T>, value: T) {
        if self.reader.may_continue() {
            view.store(field.offset, T::BYTES, value.to_bits());
            self.mark_dirty(view.at());
        }
    }

    /// Returns a view of units that this transaction allocated in the block at `at`. It is not tracked,
    /// because no other attempt that will be accepted accesses them. `None` where the units reach past the
    /// end.
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

    /// Makes a free block a block of metadata: zeros, with the common header where the kind has one. The
    /// caller has changed the table of free blocks first.
    ///
    /// # Errors
    /// [`Fault::Damaged`] when the position is not one of this volume.
    pub fn fresh(&mut self, at: u64, kind: BlockKind, owner: u64) -> Result<View<'v>, Fault> {
        if !at.is_multiple_of(BLOCK) || at >= self.store().bytes() {
            return Err(Fault::damaged(at, "a position outside the volume"));
        }
        // The lock keeps the cache from evicting the block before it is dirty, and during a rollback. It also
        // keeps a stale attempt from taking the new content for the structure that was there before.
        self.reader.lock_block(at, Grain::of(kind));
        self.check()?;
        let old = self.store().take_free(at, kind as u8)?;
        self.log.undo.push(Undo { target: at | KIND << WIDTH_SHIFT, old: u64::from(old) });
        self.store().zero(at, BLOCK);
        let view = self.store().view_of(at, BLOCK as usize, kind)?;
        if kind.has_header() {
            self.set(view, leaf::KIND, kind as u8);
            self.set(view, leaf::OWNER, owner);
        }
        self.mark_dirty(at);
        Ok(view)
    }

    /// Takes a block of metadata out of use: from now on no read finds it. Its bytes stay until the
    /// transaction ends, for a rollback.
    pub fn retire(&mut self, at: u64, kind: BlockKind) {
        let is_inside = at.is_multiple_of(BLOCK) && at < self.store().bytes();
        if !is_inside || !self.reader.lock_block(at, Grain::of(kind)) {
            return;
        }
        match self.store().retire(at) {
            Some(old) => self.log.undo.push(Undo { target: at | KIND << WIDTH_SHIFT, old: u64::from(old) }),
            None => self.reader.abort_because(Fault::Conflict { owner: u8::MAX, record: 0 }),
        }
    }

    /// Makes a retired block free. Only right before the commit.
    pub fn vacate(&mut self, at: u64) {
        if let Err(reason) = self.store().check_changeable() {
            self.reader.abort_because(reason);
        }
        if self.reader.may_continue() {
            self.set_kind(at, FREE);
        }
    }

    fn set_kind(&mut self, at: u64, kind: u8) {
        if at.is_multiple_of(BLOCK) && at < self.store().bytes() {
            let old = self.store().set_kind(at, kind);
            self.log.undo.push(Undo { target: at | KIND << WIDTH_SHIFT, old: u64::from(old) });
        }
    }

    /// Pins a block that [`raise`](Self::raise) is going to change: it stays resident.
    pub fn pin(&mut self, view: View<'_>) {
        self.mark_dirty(view.at());
    }

    /// Makes a field at least `value` without a lock on its record. It is for times, which only rise: two
    /// transactions that stamp the same directory need not wait for each other. Only after [`pin`](Self::pin)
    /// and validation.
    #[inline(always)]
    pub fn raise(&mut self, view: View<'_>, field: Field<i64>, value: i64) {
        view.raise(field, value);
    }

    /// Takes the numbers of blocks that this writer changed since the last call.
    pub fn take_changed(&mut self) -> Vec<u64> {
        self.log.take_changed()
    }

    /// Validates the read set. All changes are under locks, so the transaction takes effect now, as far as
    /// other threads can see.
    ///
    /// # Errors
    /// [`Fault::Conflict`]: drop the transaction and retry.
    #[inline(always)]
    pub fn validate(&self) -> Result<(), Fault> {
        self.reader.validate()
    }

    /// Keeps the changes.
    #[inline(always)]
    pub fn commit(self) {
        assert!(self.reader.may_continue(), "a transaction commits that must be aborted");
        self.log.undo.clear();
        self.reader.unlock_all();
        debug_assert!(self.reader.has_no_locks());
    }
}

impl Drop for Tx<'_> {
    fn drop(&mut self) {
        let store = self.reader.store();
        while let Some(undo) = self.log.undo.pop() {
            let at = undo.target & ((1 << WIDTH_SHIFT) - 1);
            if undo.target >> WIDTH_SHIFT == KIND {
                store.set_kind(at, undo.old as u8);
                // A snapshot may have left the block out, as free, and marked it as clean.
                if state::content(undo.old as u8).is_some() {
                    store.mark_dirty(at, &mut self.log.changed);
                }
            } else {
                store.restore(at, (undo.target >> WIDTH_SHIFT) as usize, undo.old);
                // A snapshot may have copied the change, and marked the block as clean.
                store.mark_dirty(at & !(BLOCK - 1), &mut self.log.changed);
            }
        }
        self.reader.unlock_all();
        debug_assert!(self.log.undo.is_empty() && self.reader.has_no_locks());
    }
}
