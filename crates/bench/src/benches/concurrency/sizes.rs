//! How large each workload of `lanefs-bench concurrency` is.

use std::time::Duration;

/// Threads of the `warm-*` rows; more than [`ALWAYS_THREADS`] only on that many cores.
pub(super) const WARM_THREADS: [usize; 5] = [1, 2, 4, 8, 16];

/// Threads that are measured on every machine.
const ALWAYS_THREADS: usize = 2;

/// Threads of the `memfs-*` rows on every machine: the rows measure the cost of more threads than cores.
pub(super) const MEMFS_THREADS: [usize; 5] = [1, 2, 4, 8, 16];

/// Sizes of every part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sizes {
    /// Files in the directory of `warm-stat-*` and `warm-readdir-*`.
    pub listed_files: usize,
    /// Files in the tree of `warm-resolve-*` and `warm-traverse-*`.
    pub tree_files: usize,
    /// Bytes of the file of `warm-read4k-*`.
    pub large_bytes: u64,
    /// Operations of all threads in one run of `warm-stat-*`, `warm-resolve-*` and `warm-read4k-*`.
    pub warm_operations: usize,
    /// Listings of one run of `warm-readdir-*`.
    pub listings: usize,
    /// Length of one round of the `overhead-*` rows.
    pub round: Duration,
    /// Pairs of rounds for each run.
    pub pairs_per_run: usize,
    /// Bytes of the hot file.
    pub hot_bytes: u64,
    /// Bytes of the cold file.
    pub cold_bytes: u64,
    /// Bytes of cache while both are read.
    pub cache_bytes: u64,
    /// Length of one phase of hits.
    pub phase: Duration,
    /// Bytes of the file of the `fill-*` rows.
    pub fill_bytes: u64,
    /// Reads of 4 KiB in one run of `fill-random`.
    pub fill_reads: usize,
    /// Numbers of files of the `memfs-*` rows.
    pub memfs_files: &'static [usize],
    /// Minimum length of each phase of one measurement of `memfs-*`; fresh directories follow until then.
    pub memfs_least: Duration,
    /// Files of `durable-create-fsync`.
    pub durable_files: usize,
    /// Files of `durable-batch-sync`.
    pub batch_files: usize,
}

impl Sizes {
    /// Sizes that the goals apply to.
    pub const FULL: Sizes = Sizes {
        listed_files: 1_000,
        tree_files: 100_000,
        large_bytes: 256 << 20,
        warm_operations: 500_000,
        listings: 2_000,
        round: Duration::from_millis(1),
        pairs_per_run: 100,
        hot_bytes: 64 << 20,
        cold_bytes: 4 << 30,
        cache_bytes: 128 << 20,
        phase: Duration::from_millis(250),
        fill_bytes: 1 << 30,
        fill_reads: 65_536,
        memfs_files: &[100, 1_000, 10_000, 100_000],
        memfs_least: Duration::from_millis(100),
        durable_files: 500,
        batch_files: 10_000,
    };

    /// Sizes for a run of two or three minutes.
    pub const QUICK: Sizes = Sizes {
        large_bytes: 64 << 20,
        warm_operations: 100_000,
        listings: 400,
        tree_files: 20_000,
        pairs_per_run: 60,
        hot_bytes: 16 << 20,
        cold_bytes: 512 << 20,
        cache_bytes: 32 << 20,
        phase: Duration::from_millis(100),
        fill_bytes: 256 << 20,
        fill_reads: 16_384,
        memfs_files: &[100, 1_000, 10_000],
        memfs_least: Duration::from_millis(25),
        durable_files: 100,
        batch_files: 2_000,
        ..Sizes::FULL
    };
}

/// Lists the numbers of threads of the `warm-*` rows on `cores` cores.
pub(super) fn warm_threads(cores: usize) -> Vec<usize> {
    WARM_THREADS.into_iter().filter(|&threads| threads <= cores.max(ALWAYS_THREADS)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_threads_are_measured_everywhere_and_more_where_cores_are() {
        assert_eq!(warm_threads(0), [1, 2]);
        assert_eq!(warm_threads(2), [1, 2]);
        assert_eq!(warm_threads(7), [1, 2, 4]);
        assert_eq!(warm_threads(64), [1, 2, 4, 8, 16]);
    }

    #[test]
    fn the_hot_file_fits_the_cache_and_the_cold_one_does_not() {
        for sizes in [Sizes::QUICK, Sizes::FULL] {
            assert!(sizes.hot_bytes < sizes.cache_bytes && sizes.cache_bytes < sizes.cold_bytes / 4);
        }
    }
}
