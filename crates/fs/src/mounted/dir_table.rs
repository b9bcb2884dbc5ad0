//! The directory-path table: from the path of a directory to its inode, in one probe.
//!
//! Everything before the last slash of a path is the path of a directory, and few directories hold many
//! files. The table remembers where such paths lead, so a batch of lookups need not walk them again.
//!
//! * **Nothing is believed for a hash.** A slot leads to a record with the whole path, which is compared.
//! * **Nothing is stale.** Each slot has the epoch of the directory tree ([`moves`](crate::mounted::moves)) in which
//!   it was learned, and is ignored in any other.
//! * **A record says how far a path leads**: to which directory, after how many bytes. Where a component was
//!   missing, or was no directory, the walk resumes at that component. So a record of a missing directory
//!   needs no invalidation when the directory is created.
//! * **Few moves matter.** A directory through which no known path leads may move without an end of the
//!   epoch. [`Passed`] is a set of the others.
//!
//! Only plain paths are learned: those without symbolic links, `.` and `..`, of a caller without an identity.
//!
//! ```text
//!  hash of (start, path)          bucket: 64 bytes, 4 slots         records: 64-bit words
//!  low bits  ----------------->  | epoch | tag, record --+--->  directory | start | lengths | text ...
//!  high half: the tag            | epoch | tag, record   |
//! ```
//!
//! Readers take no lock: all words are atomic, and a reader that overlaps a change of the table notices it by
//! the epoch. Threads that learn take turns. The memory is bounded: a full table grows to its limit. Then it
//! keeps what it has, which serves a list of paths that is larger than the table, and forgets everything
//! after it has refused several times as much.

mod planted;
#[cfg(all(test, feature = "_shuttle"))]
mod schedules;
#[cfg(all(test, not(feature = "_shuttle")))]
mod tests;
mod zeroed;

use super::moves::{DirectoryMoves, MoveCause, MoveEpoch, Moving};
use lanefs_store::prefetch;
use lanefs_sync::atomic::{AtomicU64, AtomicUsize, Ordering, fence};
use lanefs_sync::{Mutex, is_planted, size};
use planted::PlantedBug;
use std::hash::{BuildHasher, Hasher};
use std::sync::OnceLock;
use zeroed::zeroed;

/// Memory of the table at most, where the options do not say: room for half a million directories.
pub(crate) const DEFAULT_BYTES: u64 = 64 << 20;

/// Slots of a bucket, which is one cache line.
const SLOTS: usize = 4;

/// Buckets of the first level. Each level has four times as many as the one before.
const FIRST: usize = size(1 << 10, 1);
const LEVELS: usize = 10;

/// Words for records for each bucket: half of its slots are in use at most, with 64 bytes of record each.
const WORDS: usize = 16;

/// Bounds of the misses of an epoch before anything is learned, while epochs end before they pay.
const LEAST_PATIENCE: u64 = 1 << 12;
const MOST_PATIENCE: u64 = 1 << 22;

/// Paths whose loss teaches nothing.
const FEW_PATHS: u64 = 64;

/// Paths that a full table refuses for each that it holds before it begins again.
const REFUSED: usize = 4;

/// Bytes of memory for each bucket.
const BUCKET_BYTES: u64 = (SLOTS * 16 + WORDS * 8) as u64;

/// Words of a record before its text: the directory, the start, the lengths.
const HEADER: usize = 3;

/// Longest path that is kept, in bytes.
const MAX_PATH_BYTES: usize = 1024;

#[cfg_attr(not(feature = "_shuttle"), derive(zerocopy::FromZeros))]
#[cfg_attr(feature = "_shuttle", derive(Default))]
#[repr(C)]
struct Slot {
    /// Epoch of the slot; 0 while it is empty.
    epoch: AtomicU64,
    /// The upper half of the hash, and the index of the record.
    key: AtomicU64,
}

#[cfg_attr(not(feature = "_shuttle"), derive(zerocopy::FromZeros))]
#[cfg_attr(feature = "_shuttle", derive(Default))]
#[repr(C, align(64))]
struct Bucket([Slot; SLOTS]);

/// A table of one size.
struct Level {
    buckets: Box<[Bucket]>,
    words: Box<[AtomicU64]>,
}

impl Level {
    /// Reserves memory, which the host provides when it is first used; `None` where it has none.
    fn new(number: usize) -> Option<Level> {
        let buckets = FIRST << (2 * number);
        Some(Level { buckets: zeroed(buckets)?, words: zeroed(buckets * WORDS)? })
    }

    /// Bytes of all levels up to this one.
    fn bytes(number: usize) -> u64 {
        (0..=number).map(|level| (FIRST as u64) << (2 * level)).sum::<u64>() * BUCKET_BYTES
    }

    #[inline(always)]
    fn bucket(&self, hash: u64) -> &Bucket {
        &self.buckets[hash as usize & (self.buckets.len() - 1)]
    }

    /// Paths that the level holds at most.
    fn capacity(&self) -> usize {
        self.buckets.len() * SLOTS / 2
    }

    /// Compares a record with a key; returns where the path leads.
    #[inline(always)]
    fn compare(&self, record: u32, key: &PathKey<'_>) -> Option<Known> {
        let record = self.words.get(record as usize..)?;
        let (header, text) = record.split_first_chunk::<HEADER>()?;
        let [dir, start, lengths] = header.each_ref().map(|word| word.load(Ordering::Relaxed));
        if start != key.start || lengths as u32 as usize != key.path.len() {
            return None;
        }
        let (whole, rest) = key.path.as_chunks::<8>();
        let equal = whole
            .iter()
            .zip(text)
            .all(|(bytes, word)| u64::from_le_bytes(*bytes) == word.load(Ordering::Relaxed));
        let last = text.get(whole.len()).map(|word| word.load(Ordering::Relaxed));
        let is_same = equal && text.len() >= whole.len() && (rest.is_empty() || last == Some(padded(rest)));
        is_same.then_some(Known { dir, bytes: (lengths >> 32) as u32 })
    }
}

/// The last bytes of a text as a word.
#[inline(always)]
fn padded(rest: &[u8]) -> u64 {
    let mut bytes = [0; 8];
    bytes[..rest.len()].copy_from_slice(rest);
    u64::from_le_bytes(bytes)
}

/// The directories through which paths in the table lead: a set of hashes of inode numbers. A member too many
/// ends an epoch for nothing.
struct Passed(OnceLock<Box<[AtomicU64]>>);

impl Passed {
    /// Words of 64 bits each. With as many directories as the table holds at most, two thirds of all others
    /// are taken for members; each counted move clears the set, so it is not larger.
    const WORDS: usize = size(1 << 13, 4);
    const SHIFT: u32 = 64 - (Self::WORDS * 64).ilog2();

    fn new() -> Self {
        Passed(OnceLock::new())
    }

    #[inline(always)]
    fn bit(ino: u64) -> (usize, u64) {
        // Fibonacci hashing (Knuth, The Art of Computer Programming, volume 3, 6.4).
        let hash = ino.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> Self::SHIFT;
        ((hash >> 6) as usize, 1 << (hash & 63))
    }

    #[inline(always)]
    fn add(&self, ino: u64) {
        let words = self.0.get_or_init(|| zeroed(Self::WORDS).unwrap_or_default());
        let (word, bit) = Self::bit(ino);
        if let Some(word) = words.get(word)
            && word.load(Ordering::SeqCst) & bit == 0
        {
            word.fetch_or(bit, Ordering::SeqCst);
        }
    }

    /// Removes all members. A move is under way, so nobody uses the table; walks that began before learn
    /// nothing.
    fn clear(&self) {
        for word in self.0.get().into_iter().flatten() {
            if word.load(Ordering::Relaxed) != 0 {
                word.store(0, Ordering::SeqCst);
            }
        }
    }

    fn has(&self, ino: u64) -> bool {
        let (word, bit) = Self::bit(ino);
        // Without memory for the set, every directory is a member.
        self.0
            .get()
            .is_some_and(|words| words.get(word).is_none_or(|word| word.load(Ordering::SeqCst) & bit != 0))
    }
}

const _: () = assert!(Passed::WORDS.is_power_of_two(), "each hash that `bit` takes has a word");

/// The path of a directory, and the directory in which it starts.
#[derive(Clone, Copy)]
pub(crate) struct PathKey<'p> {
    pub(crate) start: u64,
    pub(crate) path: &'p [u8],
}

/// How far a path leads through directories.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Known {
    /// The last directory reached.
    pub(crate) dir: u64,
    /// Bytes of the path that lead to it.
    pub(crate) bytes: u32,
}

/// The next free word and the number of paths, in one epoch.
struct Fill {
    epoch: MoveEpoch,
    words: usize,
    paths: usize,
    /// Paths that found no room since the table was full.
    refused: usize,
    /// Hits and misses of the table when the epoch began.
    hits: u64,
    misses: u64,
    /// Misses of an epoch before anything is learned: it grows while epochs end before they pay.
    patience: u64,
}

impl Fill {
    /// Begins an epoch.
    fn renew(&mut self, epoch: MoveEpoch, hits: u64, misses: u64) {
        let (learned, gained) = (self.paths as u64, hits - self.hits);
        if learned > FEW_PATHS && gained < learned {
            self.patience = (2 * self.patience).clamp(LEAST_PATIENCE, MOST_PATIENCE);
        } else if learned > 0 {
            self.patience /= 2;
        }
        *self = Fill { epoch, words: 0, paths: 0, refused: 0, hits, misses, patience: self.patience };
    }
}

/// Counters of the table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DirectoryTableStats {
    /// Paths of directories in the table.
    pub paths: u64,
    /// Bytes of memory reserved.
    pub bytes: u64,
    /// Bytes of memory at most.
    pub limit: u64,
    /// Lookups whose directory was found with one probe.
    pub hits: u64,
    /// Lookups that walked.
    pub misses: u64,
}

/// The table of a mounted volume.
pub(crate) struct DirectoryTable {
    pub(crate) moves: DirectoryMoves,
    hasher: foldhash::fast::RandomState,
    levels: [OnceLock<Level>; LEVELS],
    /// Number of levels in use; only the last of them has entries of the present epoch.
    used: AtomicUsize,
    limit: u64,
    passed: Passed,
    fill: Mutex<Fill>,
    /// The last epoch in which something was learned.
    learned: AtomicU64,
    hits: AtomicU64,
    misses: AtomicU64,
}

impl DirectoryTable {
    /// Returns an empty table that takes at most `limit` bytes.
    pub(crate) fn new(limit: u64) -> Self {
        DirectoryTable {
            moves: DirectoryMoves::default(),
            hasher: foldhash::fast::RandomState::default(),
            levels: Default::default(),
            used: AtomicUsize::new(0),
            limit,
            passed: Passed::new(),
            fill: Mutex::new(Fill {
                epoch: MoveEpoch(0),
                words: 0,
                paths: 0,
                refused: 0,
                hits: 0,
                misses: 0,
                patience: 0,
            }),
            learned: AtomicU64::new(0),
            hits: AtomicU64::new(0),
            misses: AtomicU64::new(0),
        }
    }

    /// Begins to use the table for one attempt; `None` while a directory moves, or without a table.
    #[inline(always)]
    pub(crate) fn begin(&self) -> Option<TableView<'_>> {
        if self.limit < Level::bytes(0) {
            return None;
        }
        let epoch = self.moves.epoch()?;
        let used = self.used.load(Ordering::Acquire);
        let level = used.checked_sub(1).and_then(|last| self.levels.get(last)?.get());
        let is_empty = self.learned.load(Ordering::Relaxed) != epoch.0;
        Some(TableView { table: self, level, is_empty, epoch })
    }

    /// Counts a change that takes names from these directories, as a move, where a path in the table leads
    /// through one of them. The change is about to be published, and has locked all that it changes.
    pub(crate) fn begin_move(&self, moved: &[(MoveCause, u64)]) -> Option<Moving<'_>> {
        if moved.is_empty() {
            return None;
        }
        self.moves.note();
        // A walk that learns adds its directories and then validates. Either it is seen here, or it sees the
        // locks of this change.
        fence(Ordering::SeqCst);
        let (cause, _) = moved.iter().find(|(_, ino)| self.passed.has(*ino))?;
        let moving = self.moves.begin(*cause)?;
        self.passed.clear();
        Some(moving)
    }

    /// Counts lookups.
    pub(crate) fn count(&self, hits: u64, misses: u64) {
        self.hits.fetch_add(hits, Ordering::Relaxed);
        self.misses.fetch_add(misses, Ordering::Relaxed);
    }

    pub(crate) fn stats(&self) -> DirectoryTableStats {
        let fill = self.fill.lock();
        let is_now = self.moves.epoch() == Some(fill.epoch);
        DirectoryTableStats {
            paths: if is_now { fill.paths as u64 } else { 0 },
            bytes: self.used.load(Ordering::Relaxed).checked_sub(1).map_or(0, Level::bytes),
            limit: self.limit,
            hits: self.hits.load(Ordering::Relaxed),
            misses: self.misses.load(Ordering::Relaxed),
        }
    }

    /// Adds the next level where the memory allows it. Returns false where it does not. The caller has locked
    /// `fill`.
    #[cold]
    fn grow(&self) -> bool {
        let used = self.used.load(Ordering::Relaxed);
        if used >= LEVELS || Level::bytes(used) > self.limit {
            return false;
        }
        let Some(level) = Level::new(used) else { return false };
        self.levels[used].get_or_init(|| level);
        self.used.store(used + 1, Ordering::Release);
        self.moves.forget();
        true
    }

    /// Tells whether a full table begins again: it has refused much more than it holds.
    #[cold]
    fn begins_anew(&self, fill: &mut Fill) -> bool {
        fill.refused += 1;
        let is_worn = fill.refused > REFUSED * fill.paths.max(1);
        if is_worn {
            self.moves.forget();
        }
        is_worn
    }
}

/// The table, as one attempt sees it.
#[derive(Clone, Copy)]
pub(crate) struct TableView<'t> {
    table: &'t DirectoryTable,
    level: Option<&'t Level>,
    /// Nothing was learned in this epoch so far.
    is_empty: bool,
    epoch: MoveEpoch,
}

impl TableView<'_> {
    /// Returns the epoch of the directory tree in which the attempt has begun.
    #[inline(always)]
    pub(crate) fn epoch(&self) -> MoveEpoch {
        self.epoch
    }

    /// Hashes a key.
    #[inline(always)]
    fn hash(&self, key: &PathKey<'_>) -> u64 {
        let mut hasher = self.table.hasher.build_hasher();
        hasher.write(key.path);
        hasher.write_u64(key.start);
        hasher.finish()
    }

    /// Hashes a key, and prefetches its bucket; `None` where the table is empty.
    #[inline(always)]
    pub(crate) fn prepare(&self, key: &PathKey<'_>) -> Option<u64> {
        let level = self.level.filter(|_| !self.is_empty)?;
        let hash = self.hash(key);
        prefetch(std::ptr::from_ref(level.bucket(hash)).cast());
        Some(hash)
    }

    /// Notes that a walk leads through a directory.
    #[inline(always)]
    pub(crate) fn pass(&self, dir: u64) {
        if !is_planted(PlantedBug::UnmarkedWalk) {
            self.table.passed.add(dir);
        }
    }

    /// Ends the walks of an attempt, before it is validated.
    #[inline(always)]
    pub(crate) fn end_walks(&self) {
        fence(Ordering::SeqCst);
    }

    /// Returns the record that a hash leads to, and prefetches it.
    #[inline(always)]
    pub(crate) fn probe(&self, hash: u64) -> Option<u32> {
        let level = self.level?;
        for slot in &level.bucket(hash).0 {
            // The order matters: a slot gets its key before its epoch.
            let epoch = slot.epoch.load(Ordering::Acquire);
            let key = slot.key.load(Ordering::Acquire);
            let is_now = epoch == self.epoch.0 || is_planted(PlantedBug::OldEpochs);
            if is_now && key >> 32 == hash >> 32 {
                if let Some(record) = level.words.get(key as u32 as usize..) {
                    // A record of usual length lies in two lines at most.
                    prefetch(record.as_ptr().cast());
                    prefetch(record.as_ptr().wrapping_add(8).cast());
                }
                return Some(key as u32);
            }
        }
        None
    }

    /// Returns how far the path leads, where the record is that of the path.
    #[inline(always)]
    pub(crate) fn compare(&self, record: u32, key: &PathKey<'_>) -> Option<Known> {
        self.level?.compare(record, key)
    }

    /// True where all that was found is still so. The caller has validated its attempt before.
    #[inline(always)]
    pub(crate) fn is_valid(&self) -> bool {
        self.table.moves.is_now(self.epoch) || is_planted(PlantedBug::UncheckedEpoch)
    }

    /// Adds facts of a valid attempt. Those that are known are not added again.
    pub(crate) fn learn<'p>(&self, facts: impl Iterator<Item = (PathKey<'p>, Known)>) {
        let mut fill = self.table.fill.lock();
        // The epochs of those who learn never descend, because they take turns.
        if !self.is_valid() {
            return;
        }
        debug_assert!(fill.epoch <= self.epoch, "epochs only rise");
        let (hits, misses) =
            (self.table.hits.load(Ordering::Relaxed), self.table.misses.load(Ordering::Relaxed));
        if fill.epoch != self.epoch {
            fill.renew(self.epoch, hits, misses);
        }
        if misses - fill.misses < fill.patience {
            return;
        }
        self.table.learned.store(self.epoch.0, Ordering::Relaxed);
        // A reader of an older epoch that sees a word written below also sees that its epoch has ended.
        fence(Ordering::Release);
        for (key, known) in facts {
            let is_added = self.add(&mut fill, &key, self.hash(&key), known);
            if !is_added && (self.table.grow() || self.table.begins_anew(&mut fill)) {
                // The epoch has ended, and not by a move.
                fill.paths = 0;
                return;
            }
        }
    }

    /// Adds one fact. Returns false where there is no room.
    fn add(&self, fill: &mut Fill, key: &PathKey<'_>, hash: u64, known: Known) -> bool {
        if key.path.len() > MAX_PATH_BYTES {
            return true;
        }
        let Some(level) = self.level else { return false };
        let text = key.path.len().div_ceil(8);
        if fill.paths >= level.capacity() || fill.words + HEADER + text > level.words.len() {
            return false;
        }
        let slots = &level.bucket(hash).0;
        let in_use = |slot: &&Slot| slot.epoch.load(Ordering::Relaxed) == self.epoch.0;
        let record_of = |slot: &Slot| {
            let entry = slot.key.load(Ordering::Relaxed);
            (entry >> 32 == hash >> 32).then(|| level.compare(entry as u32, key)).flatten()
        };
        let same = slots.iter().filter(in_use).find_map(|slot| Some((slot, record_of(slot)?)));
        let slot = match same {
            Some((_, before)) if before == known => return true,
            Some((slot, _)) => slot,
            None => match slots.iter().find(|slot| !in_use(slot)) {
                Some(free) => {
                    fill.paths += 1;
                    free
                }
                // Any of them gives way.
                None => &slots[fill.words % SLOTS],
            },
        };
        let record = fill.words;
        let put = |at: usize, word: u64| level.words[record + at].store(word, Ordering::Relaxed);
        put(0, known.dir);
        put(1, key.start);
        put(2, u64::from(known.bytes) << 32 | key.path.len() as u64);
        for (at, bytes) in key.path.chunks(8).enumerate() {
            put(HEADER + at, padded(bytes));
        }
        fill.words += HEADER + text;
        slot.key.store(hash >> 32 << 32 | record as u64, Ordering::Release);
        slot.epoch.store(self.epoch.0, Ordering::Release);
        true
    }
}

const _: () = assert!(
    (FIRST << (2 * (LEVELS - 1))) * WORDS <= 1 << 32,
    "the index of a record fits the word of a slot"
);
