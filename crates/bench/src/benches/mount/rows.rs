//! Names of the rows.

use super::sizes::threads;

/// Operations on each file, in this order.
pub(super) const OPERATIONS: [&str; 4] = ["create", "stat", "readdir", "unlink"];

/// Rows of a file on a disk, and of one in memory.
pub(super) const DATA: [&str; 4] =
    ["mount-seq-write", "mount-seq-read", "mount-seq-write-memory", "mount-seq-read-memory"];

/// Rows of random blocks of one file, by the number of reads in flight.
pub(super) const RANDOM: [&str; 2] = ["mount-randread-qd1", "mount-randread-qd32"];

/// Row of small files that are read.
pub(super) const COLD: &str = "mount-read-small-cold";

/// Row of the listing.
pub(super) const LIST: &str = "mount-ls-lr";

/// Rows of a tree, in the order in which its programs run.
pub(super) const TREE: [&str; 12] = [
    "mount-tree-tar-x",
    "mount-tree-find",
    "mount-tree-ls-lr",
    "mount-tree-du",
    "mount-tree-grep-r",
    "mount-tree-cp-a",
    "mount-tree-diff-r",
    "mount-tree-chmod-r",
    "mount-tree-git-add",
    "mount-tree-git-status",
    "mount-tree-sqlite",
    "mount-tree-rm-rf",
];

/// Rows of a build: of all, and of nothing.
pub(super) const BUILD: [&str; 2] = ["mount-build-c", "mount-build-c-again"];

/// Lists every row on `cores` cores, in the order measured.
pub fn row_names(cores: usize) -> Vec<String> {
    let data = DATA.into_iter().chain(RANDOM).chain([COLD, LIST]).chain(TREE).chain(BUILD);
    metadata_names(cores).into_iter().chain(data.map(String::from)).collect()
}

pub(super) fn metadata_names(cores: usize) -> Vec<String> {
    let of = |threads: usize| OPERATIONS.map(|operation| metadata_name(operation, threads));
    threads(cores).into_iter().flat_map(of).collect()
}

pub(super) fn metadata_name(operation: &str, threads: usize) -> String {
    format!("mount-{operation}-{threads}t")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::documented::assert_documented;

    #[test]
    fn the_documentation_names_every_row() {
        assert_documented(row_names(8));
        assert_eq!(row_names(2).len(), 2 * 4 + 4 + 2 + 2 + TREE.len() + 2);
    }
}
