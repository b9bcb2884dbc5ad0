//! Versioned locks over the bytes of a volume.
//!
//! Every structure of metadata has a *record* in a table: a word that is either a version, which grows with each change
//! of the structure, or names the writer that holds it. A writer holds the record of all that it changes until it is
//! done; a reader remembers the versions of all that it read and looks at them again at the end. (Ownership records of
//! word-based transactional memory: Dice, Shalev, Shavit, "Transactional Locking II", DISC 2006; taken when first
//! written, with changes in place and an undo log, as in Felber, Fetzer, Riegel, "TinySTM", PPoPP 2008.)
//!
//! Blocks that hold many structures have many records: one for each 256 bytes of inodes and of directory entries, one for each
//! entry of a chunk table. Others have one in all. Several structures may share a record by chance of the hash: then they are locked together, which costs
//! time and nothing else.

use lanefs_format::{BLOCK, BlockKind};
use lanefs_sync::{point, size};
use std::sync::atomic::{AtomicU64, Ordering, fence};

/// Size of the table: 2^15 words (256 KiB) stay in a core's second-level cache, and 16 writers that hold 10 records each meet
/// by chance once in some 20 changes at worst.
const BITS: u32 = size(15, 10) as u32;

/// How many bytes of a block share a record: the logarithm.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Grain(u8);

impl Grain {
    /// All of them.
    pub(crate) const BLOCK: Grain = Grain(BLOCK.trailing_zeros() as u8);
    /// 256: an inode, a few entries.
    const STRUCTURE: Grain = Grain(8);
    /// 16: writers that take blocks from one chunk change neighbouring entries all the time.
    const TABLE: Grain = Grain(4);

    /// That of blocks of this kind.
    #[inline(always)]
    pub(crate) fn of(kind: BlockKind) -> Self {
        match kind {
            BlockKind::Inodes | BlockKind::Leaf => Self::STRUCTURE,
            BlockKind::ChunkHeader => Self::TABLE,
            _ => Self::BLOCK,
        }
    }
}

/// Size of the table, with what the last block may need.
const SIZE: usize = (1 << BITS) + (BLOCK as usize >> Grain::TABLE.0);

/// Number of a record.
pub(crate) type Record = u32;

/// A record's word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Word(u64);

impl Word {
    const HELD: u64 = 1;
    const HOLDER_BITS: u32 = 8;

    /// Held by a writer; `place` is where the writer finds it in its own list.
    fn held(holder: u8, place: usize) -> Self {
        Word(Self::HELD | u64::from(holder) << 1 | (place as u64) << (1 + Self::HOLDER_BITS))
    }

    /// The writer that holds the record.
    #[inline(always)]
    pub(crate) fn holder(self) -> Option<u8> {
        (self.0 & Self::HELD != 0).then_some((self.0 >> 1) as u8)
    }

    /// Place in the holder's list.
    pub(crate) fn place(self) -> usize {
        (self.0 >> (1 + Self::HOLDER_BITS)) as usize
    }

    /// The version behind this one.
    fn next(self) -> Self {
        Word(self.0.wrapping_add(2))
    }
}

pub(crate) struct Versions {
    table: Box<[AtomicU64]>,
}

/// The records of `len` bytes at `at`, which lie in one block.
#[inline(always)]
pub(crate) fn records(at: u64, len: usize, grain: Grain) -> impl Iterator<Item = Record> {
    let first = record(at, grain);
    let inside = at & ((1 << grain.0) - 1);
    let more = (inside + (len as u64).max(1) - 1) >> grain.0;
    first..=first + more as u32
}

/// The record of the byte at `at`.
#[inline(always)]
pub(crate) fn record(at: u64, grain: Grain) -> Record {
    // Fibonacci hashing (Knuth, TAOCP 3, 6.4). The records of a block follow each other; the table has room for those of the last.
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

    /// Takes a record whose word is still `expected`; false where it is not.
    #[inline(always)]
    pub(crate) fn try_hold(&self, record: Record, expected: Word, holder: u8, place: usize) -> bool {
        point();
        debug_assert!(expected.holder().is_none());
        let held = Word::held(holder, place).0;
        let word = &self.table[record as usize];
        let taken = word.compare_exchange(expected.0, held, Ordering::Acquire, Ordering::Relaxed).is_ok();
        // What is written from now on must not be seen before the record is seen as held.
        fence(Ordering::Release);
        taken
    }

    /// Lets go of a record that was `before` when it was taken. Even when all changes were taken back, its version is a
    /// new one, for somebody may have read them.
    #[inline(always)]
    pub(crate) fn let_go(&self, record: Record, before: Word) {
        point();
        let word = &self.table[record as usize];
        debug_assert!(Word(word.load(Ordering::Relaxed)).holder().is_some(), "a record that is not held");
        debug_assert!(before.next().0 > before.0, "versions only rise");
        word.store(before.next().0, Ordering::Release);
    }
}
