//! The directories of a tree that have a watch.

use super::under;
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// A directory that is watched: its name, and the watch of the directory above. The top has neither. A path
/// for each would take the square of the depth.
struct WatchedDir {
    above: Option<i32>,
    name: Vec<u8>,
}

/// The directories that are watched, below the top.
#[derive(Default)]
pub(super) struct WatchedDirs {
    dirs: HashMap<i32, WatchedDir>,
    /// The watch of the directory above and the name, to the watch.
    by_name: BTreeMap<(i32, Vec<u8>), i32>,
    top: Option<i32>,
    /// Paths of directories that this user may not read, and so not watch.
    closed: BTreeSet<Vec<u8>>,
}

impl WatchedDirs {
    /// Adds a directory, `above` with the watch of the one above it. One that has the watch already has
    /// another name by now, and those below it come with it.
    pub(super) fn add(&mut self, watch: i32, above: Option<i32>, name: &[u8]) {
        // A bind mount of the top below itself has its watch: with that name nothing would have a path.
        if above.is_some() && self.top == Some(watch) {
            return;
        }
        self.remove(watch);
        match above {
            Some(above) => _ = self.by_name.insert((above, name.to_vec()), watch),
            None => self.top = Some(watch),
        }
        self.dirs.insert(watch, WatchedDir { above, name: name.to_vec() });
        if !self.closed.is_empty()
            && let Some(path) = self.path(watch)
        {
            self.closed.remove(&path);
        }
    }

    /// Returns the path of a directory; `None` where it is not watched, or one above it not any more.
    pub(super) fn path(&self, watch: i32) -> Option<Vec<u8>> {
        let mut names: Vec<&[u8]> = Vec::new();
        let mut at = self.dirs.get(&watch)?;
        while let Some(above) = at.above {
            names.push(&at.name);
            // Directories that are moved while the tree is read may seem to be in each other.
            at = self.dirs.get(&above).filter(|_| names.len() < self.dirs.len())?;
        }
        names.reverse();
        Some(names.join(&b'/'))
    }

    /// Returns the watch of a path.
    pub(super) fn find(&self, path: &[u8]) -> Option<i32> {
        let names = path.split(|byte| *byte == b'/').filter(|name| !name.is_empty());
        names.into_iter().try_fold(self.top?, |at, name| self.by_name.get(&(at, name.to_vec())).copied())
    }

    /// Removes the directory of a watch. Returns whether it is the top.
    pub(super) fn remove(&mut self, watch: i32) -> Option<bool> {
        let WatchedDir { above, name } = self.dirs.remove(&watch)?;
        let Some(above) = above else {
            self.top = self.top.filter(|top| *top != watch);
            return Some(true);
        };
        // A new directory may have the name of one that is gone before the kernel tells the end of its watch.
        let key = (above, name);
        if self.by_name.get(&key) == Some(&watch) {
            self.by_name.remove(&key);
        }
        Some(false)
    }

    /// True for a directory that has a watch.
    pub(super) fn has(&self, dir: &[u8]) -> bool {
        self.find(dir).is_some()
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
        let mut watches: Vec<i32> = self.find(dir).into_iter().collect();
        let mut at = 0;
        while let Some(above) = watches.get(at).copied() {
            at += 1;
            let names = self.by_name.range((above, Vec::new())..);
            watches.extend(names.take_while(|((of, _), _)| *of == above).map(|(_, watch)| *watch));
            self.remove(above);
        }
        self.closed.remove(dir);
        self.remove_closed_below(dir);
        watches
    }

    pub(super) fn is_empty(&self) -> bool {
        self.dirs.is_empty()
    }

    pub(super) fn len(&self) -> usize {
        self.dirs.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Adds a directory by its path.
    fn add(dirs: &mut WatchedDirs, watch: i32, path: &str) {
        let (above, name) = path.rsplit_once('/').unwrap_or(("", path));
        let above = (!path.is_empty()).then(|| dirs.find(above.as_bytes()).expect("watched"));
        dirs.add(watch, above, name.as_bytes());
    }

    fn path(dirs: &WatchedDirs, watch: i32) -> Option<String> {
        dirs.path(watch).map(|path| String::from_utf8(path).expect("text"))
    }

    #[test]
    fn a_directory_is_removed_with_all_below_it_and_nothing_else() {
        let mut dirs = WatchedDirs::default();
        for (watch, dir) in ["", "a", "a.b", "a/b", "a/b/c", "a0", "ab", "b"].into_iter().enumerate() {
            add(&mut dirs, watch as i32, dir);
            assert_eq!(
                (path(&dirs, watch as i32).as_deref(), dirs.find(dir.as_bytes())),
                (Some(dir), Some(watch as i32))
            );
        }
        let mut removed = dirs.remove_below(b"a");
        removed.sort_unstable();
        assert_eq!(removed, [1, 3, 4]);
        assert_eq!(dirs.remove_below(b"none"), [0; 0]);
        let left: Vec<_> = (0..8).filter_map(|watch| path(&dirs, watch)).collect();
        assert_eq!((left, dirs.len()), (["", "a.b", "a0", "ab", "b"].map(Into::into).to_vec(), 5));
        // Another directory gets the path before the end of the first watch is told; one gets another path.
        add(&mut dirs, 9, "b");
        assert_eq!((dirs.remove(7), dirs.find(b"b")), (Some(false), Some(9)));
        add(&mut dirs, 10, "b/d");
        add(&mut dirs, 9, "c");
        assert_eq!((dirs.remove_below(b"b"), path(&dirs, 10)), (vec![], Some("c/d".into())));
        assert_eq!(dirs.remove_below(b"c"), [9, 10]);
        assert_eq!((dirs.remove(0), dirs.find(b""), path(&dirs, 2)), (Some(true), None, None));
    }

    #[test]
    fn directories_that_seem_to_be_in_each_other_have_no_path() {
        let mut dirs = WatchedDirs::default();
        for (watch, dir) in ["", "a", "a/b"].into_iter().enumerate() {
            add(&mut dirs, watch as i32, dir);
        }
        dirs.add(1, Some(2), b"a");
        assert_eq!((dirs.path(1), dirs.path(2)), (None, None));
        add(&mut dirs, 2, "b");
        assert_eq!(path(&dirs, 1).as_deref(), Some("b/a"));
    }

    #[test]
    fn closed_directories_are_kept_until_they_are_watched_or_gone() {
        let mut dirs = WatchedDirs::default();
        for dir in ["a/b", "a/b/c", "a.b", "d"] {
            dirs.add_closed(dir.into());
        }
        assert!(dirs.remove_closed_below(b"a") && !dirs.remove_closed_below(b"a"));
        add(&mut dirs, 0, "");
        add(&mut dirs, 1, "d");
        assert!(dirs.has(b"d") && !dirs.has(b"a.b"));
        assert_eq!(dirs.remove_below(b"a.b"), [0; 0]);
        assert!(dirs.closed.is_empty());
        dirs.add_closed(b"e".to_vec());
        assert!(dirs.remove_closed_below(b"") && dirs.closed.is_empty());
    }
}
