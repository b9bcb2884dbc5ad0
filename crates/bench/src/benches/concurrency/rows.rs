//! Names of the rows.

use super::sizes::{MEMFS_THREADS, Sizes, warm_threads};

/// Operations of the `memfs-*` rows, in the order in which a file meets them.
pub(super) const MEMFS_OPERATIONS: [&str; 4] = ["create", "write", "read", "delete"];

/// Workload of a row `warm-*`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WarmWorkload {
    /// Attributes of random names of one directory.
    Stat,
    /// Attributes of random paths of five to seven components.
    Resolve,
    /// Lists a directory.
    Readdir,
    /// Lists a tree and reads all attributes.
    Traverse,
    /// 4 KiB at random offsets of a file.
    Read4k,
}

impl WarmWorkload {
    pub(super) const ALL: [WarmWorkload; 5] = [
        WarmWorkload::Stat,
        WarmWorkload::Resolve,
        WarmWorkload::Readdir,
        WarmWorkload::Traverse,
        WarmWorkload::Read4k,
    ];

    pub(super) fn name(self) -> &'static str {
        match self {
            WarmWorkload::Stat => "stat",
            WarmWorkload::Resolve => "resolve",
            WarmWorkload::Readdir => "readdir",
            WarmWorkload::Traverse => "traverse",
            WarmWorkload::Read4k => "read4k",
        }
    }
}

/// Call of a row `overhead-*`, which only reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ReadCall {
    Lookup,
    Getattr,
    Readdir,
    Readlink,
    Read4k,
    Statfs,
    Getxattr,
    Resolve,
}

impl ReadCall {
    pub(super) const ALL: [ReadCall; 8] = [
        ReadCall::Lookup,
        ReadCall::Getattr,
        ReadCall::Readdir,
        ReadCall::Readlink,
        ReadCall::Read4k,
        ReadCall::Statfs,
        ReadCall::Getxattr,
        ReadCall::Resolve,
    ];

    pub(super) fn name(self) -> &'static str {
        match self {
            ReadCall::Lookup => "lookup",
            ReadCall::Getattr => "getattr",
            ReadCall::Readdir => "readdir",
            ReadCall::Readlink => "readlink",
            ReadCall::Read4k => "read4k",
            ReadCall::Statfs => "statfs",
            ReadCall::Getxattr => "getxattr",
            ReadCall::Resolve => "resolve",
        }
    }
}

/// Lists every row of a run with these sizes on `cores` cores, in the order measured.
pub fn row_names(sizes: &Sizes, cores: usize) -> Vec<String> {
    let mut names = Vec::new();
    names.extend(warm_names(cores));
    names.extend(ReadCall::ALL.map(overhead_name));
    names.extend(["hits-during-misses", "fill-sequential", "fill-random"].map(String::from));
    names.extend(memfs_names(sizes));
    names.extend(["durable-create-fsync", "durable-batch-sync", "data-checksum"].map(String::from));
    names
}

/// Lists the rows of the part `warm`.
pub(super) fn warm_names(cores: usize) -> Vec<String> {
    let threads = warm_threads(cores);
    WarmWorkload::ALL.iter().flat_map(|&work| threads.iter().map(move |&t| warm_name(work, t))).collect()
}

pub(super) fn warm_name(work: WarmWorkload, threads: usize) -> String {
    format!("warm-{}-{threads}t", work.name())
}

pub(super) fn overhead_name(operation: ReadCall) -> String {
    format!("overhead-{}", operation.name())
}

/// Lists the rows of the part `memfs`.
pub(super) fn memfs_names(sizes: &Sizes) -> Vec<String> {
    let mut names = Vec::new();
    for &files in sizes.memfs_files {
        for threads in MEMFS_THREADS {
            names.extend(MEMFS_OPERATIONS.map(|operation| memfs_name(operation, files, threads)));
        }
    }
    names
}

pub(super) fn memfs_name(operation: &str, files: usize, threads: usize) -> String {
    format!("memfs-{operation}-{files}-{threads}t")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::documented::assert_documented;
    use std::collections::HashSet;

    #[test]
    fn every_row_has_a_name_of_its_own() {
        let names = row_names(&Sizes::FULL, 2);
        assert_eq!(names.len(), 5 * 2 + 8 + 3 + 4 * 5 * 4 + 2 + 1);
        assert_eq!(names.iter().collect::<HashSet<_>>().len(), names.len());
        for name in ["warm-stat-1t", "warm-read4k-2t", "overhead-getxattr", "memfs-delete-100000-16t"] {
            assert!(names.iter().any(|n| n == name), "{name}");
        }
        assert!(row_names(&Sizes::FULL, 16).contains(&"warm-traverse-16t".to_string()));
    }

    #[test]
    fn the_documentation_names_every_row() {
        assert_documented(row_names(&Sizes::FULL, 16));
    }
}
