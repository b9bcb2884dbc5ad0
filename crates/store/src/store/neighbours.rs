//! Neighbours: blocks beside a missed one, which one read brings along.
//!
//! A disk gives 64 or 128 KiB in hardly more time than 4 KiB, and what was made together lies together. So a
//! miss of metadata, or of a small file where the reader comes back again and again, reads its *window*, and
//! the blocks of it that are absent become resident with the missed ones (see `window` and `fetch`). This
//! module has the state: whether neighbours are worth their room, of which chunks the table is worth a read,
//! and in which chunks small files are read again and again.

use crate::journal::AlignedBuffer;
use lanefs_format::{BLOCK, BlockKind, CHUNK};
use lanefs_sync::{Mutex, size};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Blocks of a window of metadata, which begins at a multiple of its size: 64 KiB.
pub(crate) const WINDOW_BLOCKS: u64 = 16;

/// Blocks of a window of small files: 128 KiB. Files are larger than entries, and lie a little apart.
pub(crate) const DATA_WINDOW_BLOCKS: u64 = size(32, 16) as u64;

/// Windows of metadata whose memory is kept (1 MiB): more are seldom read at the same time.
const KEPT_WINDOWS: usize = 16;

/// Smallest cache in blocks that takes neighbours (16 MiB): its small queue has room for 25 windows, so that
/// a neighbour waits for its use through some tens of misses.
const LEAST_CACHE_BLOCKS: u64 = size(4096, 24) as u64;

/// Neighbours, used or evicted, after which it is judged whether they are worth it.
const ROUND: u64 = size(1024, 8) as u64;

/// One neighbour in so many must be used before it is evicted.
const WORTH: u64 = 8;

/// Misses without neighbours after a round in which too few were used.
const PAUSE: u64 = size(8192, 4) as u64;

/// Chunks of which it is remembered that a block was missed.
const CHUNKS: usize = 256;

/// Chunks of which the missed small files are counted: those of 8 GiB.
const DATA_CHUNKS: usize = 4096;

/// Small files that must have been missed in a chunk before their neighbours come along. A chunk has room for
/// 170 files of 12 KiB, and a window for ten. Where a twentieth of a chunk was wanted and as many more will
/// be, every second window saves a read, and costs less than half of one.
pub(crate) const DENSE: u64 = size(8, 2) as u64;

/// Small files that must have been missed in a chunk before the rest of it comes along. By then four windows
/// have come, a quarter of the chunk, so that the rest is at most three times as much.
pub(crate) const PROVEN: u64 = DENSE + size(4, 2) as u64;

/// A block of the chunk was missed, and its table was absent.
const MISSED: u64 = 1;
/// The table cannot be fetched.
const NO_TABLE: u64 = 2;

/// The neighbours that come along with a missed small file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Company {
    None,
    /// Those of its window.
    Window,
    /// Those of its window at once, and all others of its chunk soon.
    Chunk,
}

/// Whether neighbours of one sort were worth their room lately.
#[derive(Default)]
struct Worth {
    /// Of the present round: neighbours used or evicted in the upper half, those used in the lower one.
    round: AtomicU64,
    /// Misses left of a pause.
    pause: AtomicU64,
}

impl Worth {
    /// Returns whether a miss, which this counts, may fetch neighbours.
    fn may_fetch(&self) -> bool {
        self.pause.fetch_update(Relaxed, Relaxed, |left| left.checked_sub(1)).is_err()
    }

    /// Counts a neighbour that was used, or evicted before that.
    fn settle(&self, was_used: bool) {
        let one = 1 << 32 | u64::from(was_used);
        let now = self.round.fetch_add(one, Relaxed) + one;
        if now >> 32 == ROUND {
            self.round.store(0, Relaxed);
            if (now & u64::from(u32::MAX)) * WORTH < ROUND {
                self.pause.store(PAUSE, Relaxed);
            }
        }
    }
}

/// Counts of neighbours, and what follows from them.
pub(crate) struct Neighbours {
    /// The cache is large enough.
    is_in_use: bool,
    /// Totals since the volume was opened.
    pub(crate) fetched: AtomicU64,
    pub(crate) used: AtomicU64,
    metadata: Worth,
    data: Worth,
    /// By number of the chunk: its position, and [`MISSED`] or [`NO_TABLE`]; 0 for none.
    chunks: Box<[AtomicU64]>,
    /// By number of the chunk: its position, and how many small files were missed in it.
    data_chunks: Box<[AtomicU64]>,
    /// Memory of windows of metadata that no thread reads now.
    windows: Mutex<Vec<AlignedBuffer>>,
}

/// Returns true for the kinds of which a window is read. They have what verifies a block in the block itself.
pub(crate) fn is_taken(kind: BlockKind) -> bool {
    matches!(kind, BlockKind::Inodes | BlockKind::Leaf | BlockKind::Tree | BlockKind::Index)
}

impl Neighbours {
    /// Neighbours for a cache of `budget` blocks.
    pub(crate) fn new(budget: u64) -> Self {
        Neighbours {
            is_in_use: budget >= LEAST_CACHE_BLOCKS,
            fetched: 0.into(),
            used: 0.into(),
            metadata: Worth::default(),
            data: Worth::default(),
            chunks: (0..CHUNKS).map(|_| AtomicU64::new(0)).collect(),
            data_chunks: (0..DATA_CHUNKS).map(|_| AtomicU64::new(0)).collect(),
            windows: Mutex::default(),
        }
    }

    /// Returns whether a miss of metadata, which this counts, may fetch neighbours.
    pub(crate) fn may_fetch(&self) -> bool {
        self.is_in_use && self.metadata.may_fetch()
    }

    /// Returns memory for a window of metadata, with the bytes of an earlier one: a miss costs no page fault.
    pub(crate) fn window(&self) -> AlignedBuffer {
        let kept = self.windows.lock().pop();
        kept.unwrap_or_else(|| AlignedBuffer::zeroed((WINDOW_BLOCKS * BLOCK) as usize))
    }

    /// Keeps the memory of a window for the next one.
    pub(crate) fn keep_window(&self, memory: AlignedBuffer) {
        let mut windows = self.windows.lock();
        if windows.len() < KEPT_WINDOWS {
            windows.push(memory);
        }
    }

    /// Returns the neighbours that a miss of a small file's data at `at`, which this counts, should bring:
    /// those of its window where many files of its chunk were missed before, and once those of the chunk,
    /// where still more were.
    ///
    /// A reader that comes to a chunk from the one before it, which came as a whole, reads in the order in
    /// which the files were made: the chunk comes with its first window, and otherwise with the usual number
    /// of windows, but no file comes alone.
    pub(crate) fn company(&self, at: u64) -> Company {
        let chunk = at & !(CHUNK - 1);
        let follows = |chunk: u64| chunk.checked_sub(CHUNK).is_some_and(|one| self.misses(one) > PROVEN);
        let count = match self.misses(chunk) {
            0 if follows(chunk) && at - chunk < DATA_WINDOW_BLOCKS * BLOCK => PROVEN,
            0 if follows(chunk) => DENSE,
            count => count,
        };
        self.data_chunk(chunk).store(chunk | (count + 1).min(PROVEN + 1), Relaxed);
        match count {
            _ if !self.is_in_use || count < DENSE || !self.data.may_fetch() => Company::None,
            PROVEN => Company::Chunk,
            _ => Company::Window,
        }
    }

    fn data_chunk(&self, chunk: u64) -> &AtomicU64 {
        &self.data_chunks[(chunk / CHUNK) as usize % DATA_CHUNKS]
    }

    /// Small files that were missed in a chunk; one more than [`PROVEN`] stands for any larger number.
    fn misses(&self, chunk: u64) -> u64 {
        let word = self.data_chunk(chunk).load(Relaxed);
        if word & !(CHUNK - 1) == chunk { word & (CHUNK - 1) } else { 0 }
    }

    /// Counts a neighbour, of file data or of metadata, that was used, or evicted before that.
    pub(crate) fn settle(&self, is_data: bool, was_used: bool) {
        self.used.fetch_add(u64::from(was_used), Relaxed);
        let worth = if is_data { &self.data } else { &self.metadata };
        worth.settle(was_used);
    }

    fn chunk(&self, chunk: u64) -> &AtomicU64 {
        &self.chunks[(chunk / CHUNK) as usize % CHUNKS]
    }

    /// Counts a miss in the chunk at this position, whose table is absent. Returns true from the second one
    /// on: the table is worth a read.
    pub(crate) fn wants_table(&self, chunk: u64) -> bool {
        let word = self.chunk(chunk);
        let before = word.load(Relaxed);
        if before != chunk | NO_TABLE {
            word.store(chunk | MISSED, Relaxed);
        }
        before == chunk | MISSED
    }

    /// Remembers that the table of the chunk cannot be fetched, so that misses no longer try it.
    pub(crate) fn note_no_table(&self, chunk: u64) {
        self.chunk(chunk).store(chunk | NO_TABLE, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn paused_after(used: u64) -> u64 {
        let near = Neighbours::new(LEAST_CACHE_BLOCKS);
        for number in 0..ROUND {
            assert!(near.may_fetch(), "paused within a round");
            near.settle(false, number < used);
        }
        assert_eq!(near.used.load(Relaxed), used);
        (0..2 * PAUSE).filter(|_| !near.may_fetch()).count() as u64
    }

    #[test]
    fn neighbours_of_which_too_few_are_used_are_not_fetched_for_a_while() {
        assert_eq!(paused_after(ROUND / WORTH), 0);
        assert_eq!(paused_after(ROUND / WORTH - 1), PAUSE);
        assert!(!Neighbours::new(LEAST_CACHE_BLOCKS - 1).may_fetch(), "in a small cache");
    }

    #[test]
    fn a_round_begins_with_no_counts() {
        let near = Neighbours::new(LEAST_CACHE_BLOCKS);
        for number in 0..3 * ROUND {
            near.settle(false, number < ROUND);
        }
        assert!(!near.may_fetch(), "the use of the first round counts for the second");
    }

    /// Misses a small file so many times, one in each window of a chunk.
    fn missed(near: &Neighbours, chunk: u64, times: u64) -> Vec<Company> {
        let window = DATA_WINDOW_BLOCKS * BLOCK;
        (0..times).map(|miss| near.company(chunk + miss * window % CHUNK)).collect()
    }

    #[test]
    fn small_files_bring_neighbours_where_many_of_a_chunk_were_missed() {
        let near = Neighbours::new(LEAST_CACHE_BLOCKS);
        let (one, other) = (3 * CHUNK, (3 + DATA_CHUNKS as u64) * CHUNK);
        assert!(missed(&near, one, DENSE).iter().all(|company| *company == Company::None));
        let last = near.company(one + CHUNK - BLOCK);
        assert_eq!([near.company(one), last], [Company::Window; 2]);
        // Another chunk in the same slot begins again, and so does the first one after it.
        assert_eq!([near.company(other), near.company(one)], [Company::None; 2]);
        let small = Neighbours::new(LEAST_CACHE_BLOCKS - 1);
        let all = missed(&small, one, 2 * PROVEN);
        assert!(all.iter().all(|company| *company == Company::None), "in a small cache");
    }

    #[test]
    fn the_rest_of_a_chunk_comes_once_and_the_next_chunk_without_files_that_come_alone() {
        let near = Neighbours::new(LEAST_CACHE_BLOCKS);
        let first = missed(&near, 3 * CHUNK, PROVEN + 3);
        let at = first.iter().position(|company| *company == Company::Chunk);
        assert_eq!(at, Some(PROVEN as usize), "{first:?}");
        assert!(first[PROVEN as usize + 1..].iter().all(|company| *company == Company::Window), "{first:?}");
        // In order: the next chunk is entered at its start.
        assert_eq!(near.company(4 * CHUNK), Company::Chunk);
        assert_eq!(near.company(5 * CHUNK), Company::Chunk);
        // In mixed order: it is entered elsewhere.
        let mixed = missed(&near, 6 * CHUNK + CHUNK / 2, PROVEN - DENSE + 1);
        assert_eq!(mixed.first(), Some(&Company::Window));
        assert_eq!(mixed.last(), Some(&Company::Chunk));
        assert_eq!(near.company(8 * CHUNK), Company::None, "the chunk before it is unknown");
        assert_eq!(near.company(0), Company::None, "there is no chunk before it");
    }

    #[test]
    fn data_and_metadata_are_judged_apart() {
        let near = Neighbours::new(LEAST_CACHE_BLOCKS);
        missed(&near, 0, DENSE);
        (0..ROUND).for_each(|_| near.settle(true, false));
        assert!(near.may_fetch(), "metadata");
        let paused = missed(&near, 0, 2 * PAUSE);
        assert_eq!(paused.iter().filter(|company| **company == Company::None).count() as u64, PAUSE);
    }

    #[test]
    fn the_second_miss_in_a_chunk_wants_its_table_unless_there_is_none() {
        let near = Neighbours::new(LEAST_CACHE_BLOCKS);
        let (one, other) = (3 * CHUNK, (3 + CHUNKS as u64) * CHUNK);
        assert_eq!([one, one, one].map(|chunk| near.wants_table(chunk)), [false, true, true]);
        near.note_no_table(one);
        assert_eq!([one, one].map(|chunk| near.wants_table(chunk)), [false, false]);
        // Another chunk in the same slot.
        assert_eq!([other, other, one].map(|chunk| near.wants_table(chunk)), [false, true, false]);
    }
}
