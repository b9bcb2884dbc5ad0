//! Paths that wait to be printed in order, in memory that goes with their names: a chain of directories makes
//! a path of a megabyte, and each of many paths below it would have its own.

use std::collections::HashMap;

/// The number of the top directory.
const TOP: u32 = 0;

/// A path: the number of its directory, and the name in it, which is empty for the top itself.
#[derive(Debug)]
pub struct ListedPath {
    dir: u32,
    name: Box<[u8]>,
}

struct PathDir {
    above: u32,
    name: Box<[u8]>,
}

/// Paths with values.
pub struct PathList<T> {
    dirs: Vec<PathDir>,
    known: HashMap<(u32, Box<[u8]>), u32>,
    /// The directory of the path that was added last, with the ends and numbers of those on the way to it.
    last: Vec<u8>,
    way: Vec<(usize, u32)>,
    items: Vec<(ListedPath, T)>,
}

impl<T> Default for PathList<T> {
    fn default() -> Self {
        let dirs = vec![PathDir { above: TOP, name: Box::default() }];
        PathList { dirs, known: HashMap::new(), last: Vec::new(), way: Vec::new(), items: Vec::new() }
    }
}

impl<T> PathList<T> {
    /// Adds a path with a value.
    pub fn push(&mut self, path: ListedPath, value: T) {
        self.items.push((path, value));
    }

    /// Returns a path in the form that the list keeps.
    pub fn path(&mut self, path: &[u8]) -> ListedPath {
        match path.iter().rposition(|byte| *byte == b'/') {
            None => ListedPath { dir: TOP, name: path.into() },
            Some(at) => ListedPath { dir: self.dir(&path[..at]), name: path[at + 1..].into() },
        }
    }

    /// The number of a directory. Paths that follow each other have most of their way in common.
    fn dir(&mut self, dir: &[u8]) -> u32 {
        let is_on_way = |end: usize| {
            let is_whole = dir.len() == end || dir.get(end) == Some(&b'/');
            is_whole && dir.get(..end) == self.last.get(..end)
        };
        // The ends grow, and what is not on the way of one is not on that of a longer one.
        let common = self.way.partition_point(|(end, _)| is_on_way(*end));
        self.way.truncate(common);
        let (mut begin, mut number) = self.way.last().map_or((0, TOP), |(end, number)| (end + 1, *number));
        while begin < dir.len() {
            let rest = &dir[begin..];
            let len = rest.iter().position(|byte| *byte == b'/').unwrap_or(rest.len());
            number = self.below(number, &rest[..len]);
            self.way.push((begin + len, number));
            begin += len + 1;
        }
        self.last.clear();
        self.last.extend_from_slice(dir);
        number
    }

    fn below(&mut self, above: u32, name: &[u8]) -> u32 {
        let next = self.dirs.len() as u32;
        let number = *self.known.entry((above, name.into())).or_insert(next);
        if number == next {
            self.dirs.push(PathDir { above, name: name.into() });
        }
        number
    }

    /// Calls `each` with every path and its value, sorted by path, name by name: a directory before what is
    /// below it. [`PathOf`] makes the paths.
    ///
    /// # Errors
    /// The first of `each`, which ends the calls.
    pub fn each<E>(
        self,
        mut each: impl FnMut(&PathOf<'_>, &ListedPath, &T) -> Result<(), E>,
    ) -> Result<(), E> {
        let PathList { dirs, mut items, .. } = self;
        // The order of several values of one path stays.
        items.sort_by(|(a, _), (b, _)| (a.dir, &a.name).cmp(&(b.dir, &b.name)));
        let mut below: Vec<u32> = (1..dirs.len() as u32).collect();
        let key = |number: &u32| dirs.get(*number as usize).map(|dir| (dir.above, &dir.name));
        below.sort_by(|a, b| key(a).cmp(&key(b)));
        let paths = PathOf(&dirs);
        let above = |number: u32| paths.dir(number).map_or(TOP, |dir| dir.above);
        let items_of = |dir: u32| {
            let first = items.partition_point(|(path, _)| path.dir < dir);
            &items[first..items.partition_point(|(path, _)| path.dir <= dir)]
        };
        let dirs_of = |dir: u32| {
            let first = below.partition_point(|number| above(*number) < dir);
            &below[first..below.partition_point(|number| above(*number) <= dir)]
        };
        let mut walk = vec![(items_of(TOP), dirs_of(TOP))];
        while let Some((items, dirs)) = walk.last_mut() {
            let next = dirs.first().and_then(|number| paths.dir(*number));
            match (items.split_first(), dirs.split_first()) {
                (Some(((path, value), rest)), _) if next.is_none_or(|dir| path.name <= dir.name) => {
                    *items = rest;
                    each(&paths, path, value)?;
                }
                (_, Some((number, rest))) => {
                    *dirs = rest;
                    walk.push((items_of(*number), dirs_of(*number)));
                }
                (_, None) => _ = walk.pop(),
            }
        }
        Ok(())
    }
}

/// The directories of a list.
pub struct PathOf<'l>(&'l [PathDir]);

impl PathOf<'_> {
    fn dir(&self, number: u32) -> Option<&PathDir> {
        self.0.get(number as usize)
    }

    /// Makes a path.
    pub fn path(&self, path: &ListedPath) -> Vec<u8> {
        let (mut parts, mut at) = (vec![&path.name[..]], path.dir);
        while let Some(dir) = self.dir(at).filter(|_| at != TOP) {
            parts.push(&dir.name);
            at = dir.above;
        }
        parts.reverse();
        parts.join(&b'/')
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::convert::Infallible;

    #[test]
    fn paths_come_in_the_order_of_their_names() {
        let long = "d/".repeat(200);
        let mut texts: Vec<String> =
            ["b/c", "", "a.b", "a/b", "a", "a/b/c", "a/", "ab", "b", "\u{1}", "a"].map(String::from).to_vec();
        texts.extend(["a", "b/c", "a/b"].map(|text| format!("{long}{text}")));
        texts.extend(texts.clone());
        let mut list = PathList::default();
        for (number, text) in texts.iter().enumerate() {
            let path = list.path(text.as_bytes());
            list.push(path, number);
        }
        let mut found = Vec::new();
        let listed: Result<(), Infallible> = list.each(|paths, path, number| {
            found.push((String::from_utf8(paths.path(path)).expect("text"), *number));
            Ok(())
        });
        assert!(listed.is_ok());
        let mut wanted: Vec<(String, usize)> =
            texts.into_iter().enumerate().map(|(number, text)| (text, number)).collect();
        wanted.sort_by(|(a, _), (b, _)| a.split('/').cmp(b.split('/')));
        assert_eq!(found, wanted);
    }

    #[test]
    fn directories_are_kept_once() {
        let mut list = PathList::<()>::default();
        for name in ["a/b/1", "a/b/2", "a/c/1", "a/b/3", "x"] {
            list.path(name.as_bytes());
        }
        assert_eq!(list.dirs.len(), 4, "the top, a, a/b, a/c");
    }
}
