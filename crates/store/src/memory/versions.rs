//! Ownership records: versioned locks over the bytes of a volume.
//!
//! Every structure of metadata has an *ownership record* in a table: a word that is either a version, which
//! rises with each change of the structure, or names the writer that has locked it. A writer locks the
//! records of all that it changes until its transaction ends; a reader tracks the versions of all that it
//! reads and compares them at the end. (Ownership records of word-based transactional memory: Dice, Shalev,
//! Shavit, "Transactional Locking II", DISC 2006; locked at the first write, with changes in place and an
//! undo log, as in Felber, Fetzer, Riegel, "TinySTM", PPoPP 2008.)
//!
//! Blocks of many structures have many records: one for each 256 bytes of inodes and of directory entries,
//! one for each entry of a chunk table. Other blocks have one. Structures whose hashes collide share a
//! record: they are locked together, which costs time and nothing else.

use lanefs_format::{BLOCK, BlockKind};
use lanefs_sync::{point, size};
use std::sync::atomic::{AtomicU64, Ordering, fence};

/// Size of the table: 2^15 words (256 KiB) stay in a core's second-level cache, and 16 writers that lock 10
/// records each collide once in some 20 changes at worst.
const BITS: u32 = size(15, 10) as u32;

/// Logarithm of the number of bytes of a block that share a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Grain(u8);

impl Grain {
    /// All bytes of the block.
    pub(crate) const BLOCK: Grain = Grain(BLOCK.trailing_zeros() as u8);
    /// 256 bytes: an inode, a few entries.
    const STRUCTURE: Grain = Grain(8);
    /// 16 bytes: writers that allocate from one chunk change neighbouring entries all the time.
    const TABLE: Grain = Grain(4);

    /// Returns the grain of blocks of this kind.
    #[inline(always)]
    pub(crate) fn of(kind: BlockKind) -> Self {
        match kind {
            BlockKind::Inodes | BlockKind::Leaf => Self::STRUCTURE,
            BlockKind::ChunkHeader => Self::TABLE,
            _ => Self::BLOCK,
        }
    }
}

const _: () = assert!(
    1 << Grain::TABLE.0 >= crate::vocabulary::words::WORD,
    "a word belongs to one record, so that one writer at a time changes it"
);

/// Length of the table, with the records that the last block may need.
const SIZE: usize = (1 << BITS) + (BLOCK as usize >> Grain::TABLE.0);

/// Number of an ownership record.
pub(crate) type Record = u32;

/// Word of an ownership record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Word(u64);

impl Word {
    const LOCKED: u64 = 1;
    const OWNER_BITS: u32 = 8;

    /// Locked by a writer. `index` is the lock's index in the writer's own list.
    fn locked(owner: u8, index: usize) -> Self {
        Word(Self::LOCKED | u64::from(owner) << 1 | (index as u64) << (1 + Self::OWNER_BITS))
    }

    /// Returns the writer that has locked the record.
    #[inline(always)]
    pub(crate) fn owner(self) -> Option<u8> {
        (self.0 & Self::LOCKED != 0).then_some((self.0 >> 1) as u8)
    }

    /// Returns the index of the lock in its owner's list.
    pub(crate) fn index(self) -> usize {
        (self.0 >> (1 + Self::OWNER_BITS)) as usize
    }

    /// Returns the next version.
    fn next(self) -> Self {
        Word(self.0.wrapping_add(2))
    }
}

/// The table of ownership records.
pub(crate) struct Versions {
    table: Box<[AtomicU64]>,
}

/// Returns the records of `len` bytes at `at`, which lie in one block.
#[inline(always)]
pub(crate) fn records(at: u64, len: usize, grain: Grain) -> impl Iterator<Item = Record> {
    let first = record(at, grain);
    let inside = at & ((1 << grain.0) - 1);
    let more = (inside + (len as u64).max(1) - 1) >> grain.0;
    first..=first + more as u32
}

/// Returns the record of the byte at `at`.
#[inline(always)]
pub(crate) fn record(at: u64, grain: Grain) -> Record {
    // Fibonacci hashing (Knuth, TAOCP 3, 6.4). The records of a block are consecutive; the table has room for
    // those of the last.
    let hash = ((at / BLOCK).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (64 - BITS)) as u32;
    hash + ((at & (BLOCK - 1)) >> grain.0) as u32
}

impl Versions {
    pub(crate) fn new() -> Self {
        Versions { table: (0..SIZE).map(|_| AtomicU64::new(0)).collect() }
    }

    #[inline(always)]
    pub(crate) fn load(&self, record: Record) -> Word {
        point();
        Word(self.table[record as usize].load(Ordering::Acquire))
    }

    /// Locks a record whose word is still `expected`, which is a version. Returns false where the word has
    /// changed.
    #[inline(always)]
    pub(crate) fn try_lock(&self, record: Record, expected: Word, owner: u8, index: usize) -> bool {
        point();
        debug_assert!(expected.owner().is_none());
        let locked = Word::locked(owner, index).0;
        let word = &self.table[record as usize];
        let taken = word.compare_exchange(expected.0, locked, Ordering::Acquire, Ordering::Relaxed).is_ok();
        // No later write is seen before the lock.
        fence(Ordering::Release);
        taken
    }

    /// Unlocks a record that was `before` when it was locked. Its version rises even after a rollback,
    /// because readers may have seen the changes.
    #[inline(always)]
    pub(crate) fn unlock(&self, record: Record, before: Word) {
        point();
        let word = &self.table[record as usize];
        debug_assert!(Word(word.load(Ordering::Relaxed)).owner().is_some(), "the record is not locked");
        debug_assert!(before.owner().is_none() && before.next().0 > before.0, "versions only rise");
        word.store(before.next().0, Ordering::Release);
    }
}
