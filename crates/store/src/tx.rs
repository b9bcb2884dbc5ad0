//! Transactions: changes of metadata that happen together or not at all.

use crate::{Fault, Store, View};
use lanefs_format::{BLOCK, BlockKind, Field, Word, dir::leaf};

/// What a transaction must put back when it is taken back. Reused from one transaction to the next.
#[derive(Default)]
pub struct Log {
    undo: Vec<Undo>,
}

/// An old value: the position, and in the top byte what it was: 1, 2, 4 or 8 bytes of a block, or [`KIND`].
struct Undo {
    place: u64,
    old: u64,
}

const WIDTH_SHIFT: u32 = 56;
/// The block's kind, not a word of it.
const KIND: u64 = 0x80;
/// State of a block that the running transaction took out of use; the number of no [`BlockKind`].
const RETIRED: u8 = 0x7f;

/// A running transaction. The caller holds the volume's writer lock. Dropping it takes all changes back;
/// [`commit`](Tx::commit) keeps them.
pub struct Tx<'s> {
    store: &'s Store,
    log: &'s mut Log,
}

impl<'s> Tx<'s> {
    /// Begins a transaction with an empty log.
    pub fn new(store: &'s Store, log: &'s mut Log) -> Self {
        debug_assert!(log.undo.is_empty());
        Tx { store, log }
    }

    /// The store, for reads; they see this transaction's changes.
    #[inline(always)]
    pub fn store(&self) -> &'s Store {
        self.store
    }

    /// Writes a field.
    #[inline(always)]
    pub fn put<T: Word>(&mut self, view: View<'_>, field: Field<T>, value: T) {
        self.word(view, field.offset, T::BYTES, value.to_bits());
    }

    #[inline(always)]
    fn word(&mut self, view: View<'_>, offset: usize, bytes: usize, bits: u64) {
        let old = view.load(offset, bytes);
        if old != bits && offset + bytes <= view.len() {
            let place = (view.at() + offset as u64) | (bytes as u64) << WIDTH_SHIFT;
            self.log.undo.push(Undo { place, old });
            view.store(offset, bytes, bits);
            self.store.mark(view.at() & !(BLOCK - 1));
        }
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

    /// Writes bytes where nothing needs to be put back: into space that this transaction allocated.
    #[inline(always)]
    pub fn init(&mut self, view: View<'_>, offset: usize, bytes: &[u8]) {
        debug_assert!(offset.is_multiple_of(8) && offset + bytes.len() <= view.len());
        let (eights, rest) = bytes.as_chunks::<8>();
        let mut at = offset;
        for eight in eights {
            view.store(at, 8, u64::from_le_bytes(*eight));
            at += 8;
        }
        for byte in rest {
            view.store(at, 1, u64::from(*byte));
            at += 1;
        }
        self.store.mark(view.at() & !(BLOCK - 1));
    }

    /// Writes a field where nothing needs to be put back, as [`init`](Self::init).
    #[inline(always)]
    pub fn set<T: Word>(&mut self, view: View<'_>, field: Field<T>, value: T) {
        view.store(field.offset, T::BYTES, value.to_bits());
        self.store.mark(view.at() & !(BLOCK - 1));
    }

    /// Takes a free block into use as metadata: zeros, with the common header where the kind has one.
    ///
    /// # Errors
    /// [`Fault::Damaged`] when the position is not one of this volume.
    pub fn fresh(&mut self, at: u64, kind: BlockKind, owner: u64) -> Result<View<'s>, Fault> {
        if !at.is_multiple_of(BLOCK) || at >= self.store.bytes() {
            return Err(Fault::damaged(at, "a position outside the volume"));
        }
        let old = self.store.set_kind(at, kind as u8);
        self.log.undo.push(Undo { place: at | KIND << WIDTH_SHIFT, old: u64::from(old) });
        if old != 0 {
            return Err(Fault::damaged(at, "a block in use is marked free"));
        }
        self.store.zero(at, BLOCK);
        let view = self.store.block(at, kind)?;
        if kind.has_header() {
            self.set(view, leaf::KIND, kind as u8);
            self.set(view, leaf::OWNER, owner);
        }
        self.store.mark(at);
        Ok(view)
    }

    /// Takes a block of metadata out of use: from now on no read finds it, but its bytes stay until the transaction is
    /// over, for it may be taken back.
    pub fn retire(&mut self, at: u64) {
        self.set_kind(at, RETIRED);
    }

    /// Lets a retired block be used anew. Only right before the commit.
    pub fn vacate(&mut self, at: u64) {
        self.set_kind(at, 0);
    }

    fn set_kind(&mut self, at: u64, kind: u8) {
        if at.is_multiple_of(BLOCK) && at < self.store.bytes() {
            let old = self.store.set_kind(at, kind);
            self.log.undo.push(Undo { place: at | KIND << WIDTH_SHIFT, old: u64::from(old) });
        }
    }

    /// Keeps the changes.
    pub fn commit(self) {
        self.log.undo.clear();
    }
}

impl Drop for Tx<'_> {
    fn drop(&mut self) {
        for undo in self.log.undo.drain(..).rev() {
            let at = undo.place & ((1 << WIDTH_SHIFT) - 1);
            if undo.place >> WIDTH_SHIFT == KIND {
                self.store.set_kind(at, undo.old as u8);
            } else {
                self.store.restore(at, (undo.place >> WIDTH_SHIFT) as usize, undo.old);
            }
        }
    }
}
