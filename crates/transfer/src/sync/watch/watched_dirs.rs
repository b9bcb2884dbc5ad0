//! The directories of a tree that have a watch.

use super::under;
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// The directories that are watched, below the top.
#[derive(Default)]
pub(super) struct WatchedDirs {
    by_watch: HashMap<i32, Vec<u8>>,
    by_path: BTreeMap<Vec<u8>, i32>,
    /// Directories that this user may not read, and so not watch.
    closed: BTreeSet<Vec<u8>>,
}

impl WatchedDirs {
    /// Adds a directory. One that has the watch already has another path by now.
    pub(super) fn add(&mut self, watch: i32, dir: Vec<u8>) {
        self.remove(watch);
        self.closed.remove(&dir);
        self.by_path.insert(dir.clone(), watch);
        self.by_watch.insert(watch, dir);
    }

    pub(super) fn get(&self, watch: i32) -> Option<&Vec<u8>> {
        self.by_watch.get(&watch)
    }

    /// Removes the directory of a watch, and returns its path.
    pub(super) fn remove(&mut self, watch: i32) -> Option<Vec<u8>> {
        let dir = self.by_watch.remove(&watch)?;
        // A new directory may have the path of one that is gone before the kernel tells the end of its watch.
        if self.by_path.get(&dir) == Some(&watch) {
            self.by_path.remove(&dir);
        }
        Some(dir)
    }

    /// True for a directory that has a watch.
    pub(super) fn has(&self, dir: &[u8]) -> bool {
        self.by_path.contains_key(dir)
    }

    /// Keeps a directory that may not be read.
    pub(super) fn add_closed(&mut self, dir: Vec<u8>) {
        self.closed.insert(dir);
    }

    /// Forgets the directories below `dir` that may not be read; true where there are some.
    pub(super) fn remove_closed_below(&mut self, dir: &[u8]) -> bool {
        let first = under(dir, b"");
        let below = self.closed.range(first.clone()..).take_while(|path| path.starts_with(&first));
        let closed: Vec<Vec<u8>> = below.cloned().collect();
        closed.iter().for_each(|dir| _ = self.closed.remove(dir));
        !closed.is_empty()
    }

    /// Removes a directory with all below it, and returns their watches.
    pub(super) fn remove_below(&mut self, dir: &[u8]) -> Vec<i32> {
        let first = under(dir, b"");
        let below = self.by_path.range(first.clone()..).take_while(|(path, _)| path.starts_with(&first));
        let mut watches: Vec<i32> = below.map(|(_, watch)| *watch).collect();
        watches.extend(self.by_path.get(dir));
        watches.iter().for_each(|watch| _ = self.remove(*watch));
        self.closed.remove(dir);
        self.remove_closed_below(dir);
        watches
    }

    pub(super) fn is_empty(&self) -> bool {
        self.by_watch.is_empty()
    }

    pub(super) fn len(&self) -> usize {
        self.by_watch.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_is_removed_with_all_below_it_and_nothing_else() {
        let mut dirs = WatchedDirs::default();
        for (watch, dir) in ["", "a", "a.b", "a/b", "a/b/c", "a0", "ab", "b"].into_iter().enumerate() {
            dirs.add(watch as i32, dir.into());
        }
        let mut removed = dirs.remove_below(b"a");
        removed.sort_unstable();
        assert_eq!(removed, [1, 3, 4]);
        assert_eq!(dirs.remove_below(b"none"), [0; 0]);
        let left: Vec<_> = dirs.by_path.keys().map(|path| String::from_utf8_lossy(path)).collect();
        assert_eq!((left, dirs.len()), (["", "a.b", "a0", "ab", "b"].map(Into::into).to_vec(), 5));
        // Another directory gets the path before the end of the first watch is told; one gets another path.
        dirs.add(9, b"b".to_vec());
        assert_eq!(dirs.remove(7), Some(b"b".to_vec()));
        dirs.add(9, b"c".to_vec());
        assert_eq!((dirs.remove_below(b"b"), dirs.remove_below(b"c")), (vec![], vec![9]));
    }

    #[test]
    fn closed_directories_are_kept_until_they_are_watched_or_gone() {
        let mut dirs = WatchedDirs::default();
        for dir in ["a/b", "a/b/c", "a.b", "d"] {
            dirs.add_closed(dir.into());
        }
        assert!(dirs.remove_closed_below(b"a") && !dirs.remove_closed_below(b"a"));
        dirs.add(1, b"d".to_vec());
        assert!(dirs.has(b"d") && !dirs.has(b"a.b"));
        assert_eq!(dirs.remove_below(b"a.b"), [0; 0]);
        assert!(dirs.closed.is_empty());
        dirs.add_closed(b"e".to_vec());
        assert!(dirs.remove_closed_below(b"") && dirs.closed.is_empty());
    }
}
