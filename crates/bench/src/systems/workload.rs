//! Names, paths and orders from a seed: the same for every system, without knowledge of any.

use rand::seq::SliceRandom;
use rand::{RngExt, SeedableRng, rngs::StdRng};
use std::ffi::CStr;

/// Seed of every order and sample. It is fixed, so that two runs measure the same accesses.
pub const SEED: u64 = 0x001a_9ef5;

/// Files in each leaf directory of a [`Tree`].
pub const FILES_PER_DIRECTORY: usize = 32;

/// Many NUL-terminated strings in one block of memory, in the order of the requests: both sides then read
/// their requests in sequence, as from a list that a program received.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Strings {
    bytes: Vec<u8>,
    /// End of each string, after its NUL.
    ends: Vec<usize>,
}

impl Strings {
    /// Appends a string up to its first NUL, as a system call would read it.
    pub fn push(&mut self, string: &[u8]) {
        let len = string.iter().position(|&b| b == 0).unwrap_or(string.len());
        self.bytes.extend_from_slice(&string[..len]);
        self.bytes.push(0);
        self.ends.push(self.bytes.len());
    }

    /// Returns the number of strings.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Returns whether there is no string.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// Returns the string with this index, for system calls.
    ///
    /// # Panics
    /// If the index is not below [`Strings::len`].
    pub fn get(&self, index: usize) -> &CStr {
        let start = if index == 0 { 0 } else { self.ends[index - 1] };
        // `push` leaves exactly one NUL, at the end.
        CStr::from_bytes_with_nul(&self.bytes[start..self.ends[index]]).unwrap_or_default()
    }

    /// Returns the strings in order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &CStr> {
        (0..self.len()).map(|i| self.get(i))
    }

    /// Returns the mean length in bytes, without the NUL.
    pub fn mean_len(&self) -> f64 {
        if self.is_empty() { 0.0 } else { (self.bytes.len() - self.len()) as f64 / self.len() as f64 }
    }

    /// Returns the strings with these indices, in that order.
    pub fn pick(&self, order: &[usize]) -> Strings {
        let mut picked = Strings::default();
        for &index in order {
            picked.push(self.get(index).to_bytes());
        }
        picked
    }
}

impl<S: AsRef<[u8]>> FromIterator<S> for Strings {
    fn from_iter<I: IntoIterator<Item = S>>(strings: I) -> Self {
        let mut all = Strings::default();
        for string in strings {
            all.push(string.as_ref());
        }
        all
    }
}

/// A tree of empty files at depth 5 to 7 (components of the path, the file's own name included), a third of
/// the leaf directories at each depth, 32 files in each, relative paths of 46 bytes on average.
#[derive(Clone, Debug)]
pub struct Tree {
    /// Every directory, parents before their children.
    pub directories: Strings,
    /// Every file, directory by directory.
    pub files: Strings,
}

impl Tree {
    /// Makes a tree of `files` files.
    pub fn new(files: usize) -> Self {
        let mut tree = Tree { directories: Strings::default(), files: Strings::default() };
        let mut number = 0;
        for (class, depth) in [5usize, 6, 7].into_iter().enumerate() {
            // The first classes round up, so that the last one ends the count exactly.
            let share = (files - number).div_ceil(3 - class);
            tree.add_class(depth, share, &mut number);
        }
        tree
    }

    /// Adds `files` files at one depth; names go on counting from `number`.
    fn add_class(&mut self, depth: usize, files: usize, number: &mut usize) {
        let levels = depth - 1;
        let leaves = files.div_ceil(FILES_PER_DIRECTORY);
        // The smallest fan-out that gives enough leaf directories, so that no level has one child only.
        let fan_out = (1usize..).find(|f| f.pow(levels as u32) >= leaves).unwrap_or(1);
        let end = *number + files;
        for leaf in 0..leaves {
            let mut path = String::new();
            for level in 0..levels {
                let under = fan_out.pow((levels - 1 - level) as u32);
                let digit = leaf / under % fan_out;
                let letter = if level == 0 { (b'p' + (depth - 5) as u8) as char } else { 'd' };
                path += &format!("{letter}{digit:04}");
                // A directory is new where all digits after this one are 0.
                if leaf % under == 0 {
                    self.directories.push(path.as_bytes());
                }
                path.push('/');
            }
            for _ in 0..FILES_PER_DIRECTORY.min(end - *number) {
                self.files.push(format!("{path}img-{number:08}.png").as_bytes());
                *number += 1;
            }
        }
    }

    /// Returns the files in random order.
    pub fn requests(&self) -> Strings {
        self.files.pick(&shuffled(self.files.len()))
    }

    /// As [`Tree::requests`], with an absent last component of the same length.
    pub fn absent_requests(&self) -> Strings {
        self.requests()
            .iter()
            .map(|path| [&path.to_bytes()[..path.count_bytes() - 4], b".gif"].concat())
            .collect()
    }
}

/// Returns the numbers below `count`, shuffled.
pub fn shuffled(count: usize) -> Vec<usize> {
    let mut order: Vec<usize> = (0..count).collect();
    order.shuffle(&mut StdRng::seed_from_u64(SEED));
    order
}

/// Returns `samples` random numbers below `count`, with repetition.
pub fn sampled(count: usize, samples: usize) -> Vec<usize> {
    let mut rng = StdRng::seed_from_u64(SEED ^ count as u64);
    (0..samples).map(|_| rng.random_range(0..count.max(1))).collect()
}

/// Returns the name of file `index` in a flat directory: 20 bytes.
pub fn flat_name(index: usize) -> String {
    format!("sample-{index:09}.dat")
}

/// Returns a name as long as [`flat_name`]'s that no flat directory has.
pub fn absent_name(index: usize) -> String {
    format!("sample-{index:09}.txt")
}

/// Returns the name of subdirectory `index` of a wide directory: 9 bytes.
pub fn subdirectory_name(index: usize) -> String {
    format!("dir-{index:05}")
}

/// Returns the first `count` flat names.
pub fn flat_names(count: usize) -> Strings {
    (0..count).map(flat_name).collect()
}

/// Name of every directory of a chain.
pub const CHAIN_NAME: &CStr = c"a";

/// Returns a path that goes `depth` directories down a chain: `a/a/.../a`.
pub fn chain_path(depth: usize) -> Vec<u8> {
    vec![CHAIN_NAME.to_bytes(); depth].join(&b'/')
}

/// Sizes of the workloads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sizes {
    /// Files in the tree of the `resolve-*` rows.
    pub tree_files: usize,
    /// Largest directory of the `lookup-wide-*` rows.
    pub wide_files: usize,
    /// Lookups in each of these directories.
    pub wide_lookups: usize,
    /// Files in the directory of `create-flat`, `unlink-flat` and `bytes-per-file`.
    pub flat_files: usize,
    /// Directories of the chain.
    pub chain_depth: usize,
    /// Lookups of the deepest directory.
    pub chain_lookups: usize,
    /// Subdirectories of the wide directory.
    pub subdirectories: usize,
    /// Lookups in the wide directory.
    pub subdirectory_lookups: usize,
    /// Files in the directory of `readdir-stat`.
    pub listed_files: usize,
}

impl Sizes {
    /// Sizes that the goals apply to.
    pub const FULL: Sizes = Sizes {
        tree_files: 1_000_000,
        wide_files: 10_000_000,
        wide_lookups: 300_000,
        flat_files: 1_000_000,
        chain_depth: 4_000,
        chain_lookups: 256,
        subdirectories: 32_768,
        subdirectory_lookups: 512,
        listed_files: 100_000,
    };

    /// Sizes for a run of about a minute.
    pub const QUICK: Sizes = Sizes {
        tree_files: 100_000,
        wide_files: 100_000,
        wide_lookups: 100_000,
        flat_files: 100_000,
        ..Sizes::FULL
    };

    /// Returns the directory sizes of the `lookup-wide-*` rows: powers of ten.
    pub fn wide_steps(&self) -> Vec<usize> {
        std::iter::successors(Some(1usize), |n| n.checked_mul(10))
            .take_while(|&n| n <= self.wide_files)
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn a_tree_has_the_files_depths_and_lengths_that_it_promises() {
        for count in [1, 2, 31, 32, 33, 1000, 100_000] {
            let tree = Tree::new(count);
            assert_eq!(tree.files.len(), count);
            let directories: HashSet<&CStr> = tree.directories.iter().collect();
            assert_eq!(directories.len(), tree.directories.len(), "a directory twice");
            let files: HashSet<&CStr> = tree.files.iter().collect();
            assert_eq!(files.len(), count, "a file twice");
            for file in tree.files.iter() {
                let parts = file.to_bytes().split(|&b| b == b'/').count();
                assert!((5..=7).contains(&parts), "{file:?}");
            }
        }
        let mean = Tree::new(100_000).files.mean_len();
        assert!((45.0..47.0).contains(&mean), "{mean}");
    }

    #[test]
    fn directories_come_parents_first_and_every_file_has_its_own() {
        let tree = Tree::new(5_000);
        let parent = |path: &CStr| {
            let bytes = path.to_bytes();
            bytes.iter().rposition(|&b| b == b'/').map(|at| bytes[..at].to_vec())
        };
        let mut seen = HashSet::new();
        for directory in tree.directories.iter() {
            if let Some(parent) = parent(directory) {
                assert!(seen.contains(&parent), "{directory:?} before its parent");
            }
            seen.insert(directory.to_bytes().to_vec());
        }
        assert!(tree.files.iter().all(|file| parent(file).is_some_and(|p| seen.contains(&p))));
    }

    #[test]
    fn requests_are_the_files_in_another_order_and_the_same_each_time() {
        let tree = Tree::new(2_000);
        let requests = tree.requests();
        assert_eq!(requests, tree.requests());
        assert_ne!(requests, tree.files);
        let a: HashSet<&CStr> = tree.files.iter().collect();
        assert!(requests.iter().all(|path| a.contains(path)));
        let absent = tree.absent_requests();
        assert_eq!(absent.len(), 2_000);
        for (there, not) in requests.iter().zip(absent.iter()) {
            assert!(!a.contains(not));
            assert_eq!(there.count_bytes(), not.count_bytes());
        }
    }

    #[test]
    fn flat_names_are_twenty_bytes_and_absent_ones_too() {
        for index in [0, 9_999_999] {
            assert_eq!(flat_name(index).len(), 20);
            assert_eq!(absent_name(index).len(), 20);
        }
        assert_eq!(flat_names(3).get(2).to_bytes(), b"sample-000000002.dat");
    }

    #[test]
    fn samples_lie_inside_and_orders_are_permutations() {
        assert!(sampled(10, 1_000).iter().all(|&i| i < 10));
        assert!(sampled(1, 5).iter().all(|&i| i == 0));
        let mut order = shuffled(500);
        assert_ne!(order, (0..500).collect::<Vec<_>>());
        order.sort_unstable();
        assert_eq!(order, (0..500).collect::<Vec<_>>());
    }

    #[test]
    fn a_chain_of_four_thousand_is_longer_than_a_system_call_takes_and_half_of_it_is_not() {
        assert_eq!(chain_path(3), b"a/a/a");
        assert_eq!(chain_path(4_000).len(), 7_999);
        assert!(chain_path(2_000).len() < 4_096);
    }

    #[test]
    fn wide_steps_are_powers_of_ten() {
        assert_eq!(Sizes::QUICK.wide_steps(), [1, 10, 100, 1_000, 10_000, 100_000]);
        assert_eq!(Sizes::FULL.wide_steps().len(), 8);
    }
}
