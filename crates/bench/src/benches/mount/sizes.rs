//! How large each workload of `lanefs-bench mount` is.

/// Threads of the metadata rows; the last ones only if each has a core.
const THREADS: [usize; 4] = [1, 2, 4, 8];

/// Sizes of every part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sizes {
    /// Files of each thread in each round, in a directory of its own.
    pub files: usize,
    /// Bytes of the large file.
    pub large_bytes: u64,
    /// Bytes of the file of which random blocks are read.
    pub random_bytes: u64,
    /// Random blocks that are read in each run.
    pub random_reads: u64,
    /// Small files that are read.
    pub cold_files: usize,
    /// Directories of the tree that is listed.
    pub listed_directories: usize,
    /// Files in each of them.
    pub listed_files: usize,
    /// Files of the tree on which people's programs run.
    pub tree_files: usize,
    /// Sources of the project that is built, beside that of `main`.
    pub c_units: usize,
}

impl Sizes {
    /// Sizes that the goals apply to.
    pub const FULL: Sizes = Sizes {
        files: 4_000,
        large_bytes: 2 << 30,
        random_bytes: 1 << 30,
        random_reads: 100_000,
        cold_files: 40_000,
        listed_directories: 100,
        listed_files: 1_000,
        tree_files: 10_000,
        c_units: 200,
    };
    /// Some minutes at most.
    pub const QUICK: Sizes = Sizes {
        files: 1_000,
        large_bytes: 256 << 20,
        random_bytes: 256 << 20,
        random_reads: 20_000,
        cold_files: 5_000,
        listed_directories: 20,
        listed_files: 1_000,
        tree_files: 1_000,
        c_units: 40,
    };
}

/// Lists the numbers of threads on `cores` cores.
pub(super) fn threads(cores: usize) -> Vec<usize> {
    THREADS.into_iter().filter(|&threads| threads <= cores.max(2)).collect()
}
