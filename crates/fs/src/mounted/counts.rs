//! Counts of free blocks and of inodes in use, one line for each writer.

use lanefs_store::{SLOTS, Totals};
use std::ops::AddAssign;
use std::sync::atomic::{AtomicI64, Ordering};

/// Blocks and inodes that a writer's changes added (or removed, where negative).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    /// Free blocks, including preallocated ones.
    pub(crate) free_blocks: i64,
    /// Inodes in use.
    pub(crate) inodes: i64,
    /// Blocks of file data that the next commit frees.
    pub(crate) deferred: i64,
}

impl Counts {
    /// Returns the counts of a whole volume as the superblock and the log have them.
    pub(crate) fn totals(self) -> Totals {
        Totals { free_blocks: self.free_blocks.max(0) as u64, inodes: self.inodes.max(0) as u64 }
    }
}

impl AddAssign for Counts {
    fn add_assign(&mut self, more: Self) {
        // A hostile superblock may begin with any count.
        self.free_blocks = self.free_blocks.wrapping_add(more.free_blocks);
        self.inodes = self.inodes.wrapping_add(more.inodes);
        self.deferred = self.deferred.wrapping_add(more.deferred);
    }
}

/// The counts of one writer, in a cache line of its own.
#[derive(Default)]
#[repr(align(128))]
struct WriterCounts {
    free_blocks: AtomicI64,
    inodes: AtomicI64,
    deferred: AtomicI64,
}

/// The counts of a volume: the start values, and what each writer added.
pub(crate) struct VolumeCounts {
    /// One line for each writer, and one for the start values.
    lines: Box<[WriterCounts]>,
}

impl VolumeCounts {
    /// Starts from the counts of the superblock.
    pub(crate) fn new(free_blocks: u64, inodes: u64) -> Self {
        let counts = VolumeCounts { lines: (0..=SLOTS).map(|_| WriterCounts::default()).collect() };
        let start = &counts.lines[SLOTS];
        start.free_blocks.store(free_blocks as i64, Ordering::Relaxed);
        start.inodes.store(inodes as i64, Ordering::Relaxed);
        counts
    }

    /// Sets the counts to counted values. The caller has exclusive access.
    pub(crate) fn set(&self, totals: Totals) {
        let (free_blocks, inodes) = (totals.free_blocks as i64, totals.inodes as i64);
        let now = self.sum();
        let start = &self.lines[SLOTS];
        start.free_blocks.fetch_add(free_blocks.wrapping_sub(now.free_blocks), Ordering::Relaxed);
        start.inodes.fetch_add(inodes.wrapping_sub(now.inodes), Ordering::Relaxed);
        debug_assert_eq!(
            self.sum(),
            Counts { free_blocks, inodes, deferred: now.deferred },
            "the sum is what was counted"
        );
    }

    /// Returns the sum over all writers.
    pub(crate) fn sum(&self) -> Counts {
        let mut sum = Counts::default();
        for line in &self.lines {
            sum += Counts {
                free_blocks: line.free_blocks.load(Ordering::Relaxed),
                inodes: line.inodes.load(Ordering::Relaxed),
                deferred: line.deferred.load(Ordering::Relaxed),
            };
        }
        sum
    }

    /// Publishes the counts of writer `number`.
    pub(crate) fn publish(&self, number: u8, counts: Counts) {
        debug_assert!(usize::from(number) < SLOTS, "no writer {number}");
        let line = &self.lines[usize::from(number)];
        line.free_blocks.store(counts.free_blocks, Ordering::Relaxed);
        line.inodes.store(counts.inodes, Ordering::Relaxed);
        line.deferred.store(counts.deferred, Ordering::Relaxed);
    }
}
