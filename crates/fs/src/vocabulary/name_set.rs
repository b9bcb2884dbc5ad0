//! Paths as names under directories. The files of a walk, of a data set or of a listing lie in few
//! directories, so most of the text of their paths is said again and again. A [`NameSet`] has each directory
//! once, and of each path the last name and the number of its directory. [`NamesUnder`] is a view of it, or
//! of memory that another library owns, such as a dictionary array of Apache Arrow beside a column of names.

use super::as_path::AsPath;
use super::path_set::{PathSet, Paths};
use std::ops::Range;

/// Paths as directories and names under them, which own their text. The path of a name is its directory, a
/// slash and the name. A directory that is empty, or ends with a slash, gets no slash.
///
/// ```
/// use lanefs::{NameSet, PathSet};
///
/// let mut set = PathSet::under("/data/a", ["1", "2"]);
/// set.enter("/data/b");
/// set.push("3");
/// let whole: PathSet = ["/data/a/1", "/data/a/2", "/data/b/3"].into_iter().collect();
/// assert!(set.view().to_paths().view().iter().eq(whole.view().iter()));
/// assert_eq!(NameSet::of_paths(whole.view()).view().directories().len(), 2);
/// ```
#[derive(Clone, Debug, Default)]
pub struct NameSet {
    directories: PathSet,
    /// Number of the directory of each name.
    directory_of: Vec<u32>,
    names: PathSet,
}

impl PathSet {
    /// Returns the paths of names in one directory, with its text once.
    pub fn under<N: AsPath>(directory: impl AsPath, names: impl IntoIterator<Item = N>) -> NameSet {
        let mut set = NameSet::new();
        set.enter(directory);
        names.into_iter().for_each(|name| set.push(name));
        set
    }
}

impl NameSet {
    /// Returns an empty set.
    pub fn new() -> Self {
        NameSet::default()
    }

    /// Cuts each path before its last name. Neighbours in the same directory share it.
    pub fn of_paths(paths: Paths<'_>) -> Self {
        let (mut set, mut last) = (NameSet::new(), None);
        for path in paths.iter() {
            let slash = memchr::memrchr(b'/', path);
            let directory = match slash {
                None => &b""[..],
                Some(0) => &path[..1],
                Some(at) => &path[..at],
            };
            if last != Some(directory) {
                set.enter(directory);
                last = Some(directory);
            }
            set.push(&path[slash.map_or(0, |at| at + 1)..]);
        }
        set
    }

    /// Begins a directory: the names that are pushed from now on lie in it.
    pub fn enter(&mut self, directory: impl AsPath) {
        self.directories.push(directory);
    }

    /// Appends a name in the directory that was entered last; without one, in the directory where relative
    /// paths begin.
    pub fn push(&mut self, name: impl AsPath) {
        if self.directories.is_empty() {
            self.enter("");
        }
        self.names.push(name);
        self.directory_of.push(self.directories.len() as u32 - 1);
    }

    /// Removes all names and directories, and keeps the memory.
    pub fn clear(&mut self) {
        self.directories.clear();
        self.directory_of.clear();
        self.names.clear();
    }

    /// Number of paths.
    pub fn len(&self) -> usize {
        self.directory_of.len()
    }

    /// True for a set without paths.
    pub fn is_empty(&self) -> bool {
        self.directory_of.is_empty()
    }

    /// Bytes of text: of the names, and of each directory once.
    pub fn bytes(&self) -> usize {
        self.directories.bytes() + self.names.bytes()
    }

    /// Returns the paths as a view.
    pub fn view(&self) -> NamesUnder<'_> {
        let directory_of = match self.directories.len() {
            0 | 1 => Numbers::One,
            _ => Numbers::U32(&self.directory_of),
        };
        NamesUnder { directories: self.directories.view(), directory_of, names: self.names.view() }
    }
}

/// The reason why numbers of directories are not those of a set of names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadNumbers {
    /// There is not one number for each name.
    #[error("{numbers} numbers of directories for {names} names")]
    Count {
        /// Numbers of directories.
        numbers: usize,
        /// Names.
        names: usize,
    },
    /// A number has no directory.
    #[error("name {index} lies in directory {number}, and there are {directories}")]
    Outside {
        /// Index of the name.
        index: usize,
        /// The number, which is negative in some libraries where it is missing.
        number: i64,
        /// Directories.
        directories: usize,
    },
}

/// A borrowed set of names under directories.
#[derive(Clone, Copy, Debug)]
pub struct NamesUnder<'t> {
    directories: Paths<'t>,
    directory_of: Numbers<'t>,
    names: Paths<'t>,
}

/// The number of the directory of each name.
#[derive(Clone, Copy, Debug)]
enum Numbers<'t> {
    /// All lie in the first.
    One,
    U32(&'t [u32]),
    I32(&'t [i32]),
}

impl<'t> NamesUnder<'t> {
    /// Returns names under directories: name `i` lies in the directory with number `directory_of[i]`.
    ///
    /// # Errors
    /// There is not one number for each name, or one has no directory.
    pub fn new(
        directories: impl Into<Paths<'t>>,
        directory_of: &'t [u32],
        names: impl Into<Paths<'t>>,
    ) -> Result<Self, BadNumbers> {
        NamesUnder::checked(directories.into(), Numbers::U32(directory_of), names.into())
    }

    /// As [`new`](Self::new) with signed numbers, such as the indices of a dictionary array of Arrow.
    ///
    /// # Errors
    /// As there; a negative number has no directory.
    pub fn from_indices32(
        directories: impl Into<Paths<'t>>,
        directory_of: &'t [i32],
        names: impl Into<Paths<'t>>,
    ) -> Result<Self, BadNumbers> {
        NamesUnder::checked(directories.into(), Numbers::I32(directory_of), names.into())
    }

    fn checked(
        directories: Paths<'t>,
        directory_of: Numbers<'t>,
        names: Paths<'t>,
    ) -> Result<Self, BadNumbers> {
        let set = NamesUnder { directories, directory_of, names };
        let (numbers, count) = match directory_of {
            Numbers::One => (names.len(), directories.len()),
            Numbers::U32(list) => (list.len(), directories.len()),
            Numbers::I32(list) => (list.len(), directories.len()),
        };
        if numbers != names.len() {
            return Err(BadNumbers::Count { numbers, names: names.len() });
        }
        let outside = (0..numbers).find(|index| set.number(*index).is_none_or(|number| number >= count));
        match outside {
            Some(index) => {
                let number = match directory_of {
                    Numbers::One => 0,
                    Numbers::U32(list) => list[index].into(),
                    Numbers::I32(list) => list[index].into(),
                };
                Err(BadNumbers::Outside { index, number, directories: count })
            }
            None => Ok(set),
        }
    }

    /// Number of paths.
    #[inline(always)]
    pub fn len(&self) -> usize {
        self.names.len()
    }

    /// True for a set without paths.
    pub fn is_empty(&self) -> bool {
        self.names.is_empty()
    }

    /// The directories.
    pub fn directories(&self) -> Paths<'t> {
        self.directories
    }

    /// The names.
    pub fn names(&self) -> Paths<'t> {
        self.names
    }

    /// Returns the number of the directory of a name; `None` past the last.
    #[inline(always)]
    pub fn number(&self, index: usize) -> Option<usize> {
        match self.directory_of {
            Numbers::One => (index < self.names.len()).then_some(0),
            Numbers::U32(list) => list.get(index).map(|number| *number as usize),
            Numbers::I32(list) => list.get(index).and_then(|number| usize::try_from(*number).ok()),
        }
    }

    /// Visits the number of the directory of each name, in order.
    #[inline(always)]
    pub fn each_number(&self, mut visit: impl FnMut(u32)) {
        match self.directory_of {
            Numbers::One => (0..self.len()).for_each(|_| visit(0)),
            Numbers::U32(list) => list.iter().for_each(|number| visit(*number)),
            // None is negative.
            Numbers::I32(list) => list.iter().for_each(|number| visit(*number as u32)),
        }
    }

    /// Returns some of the names, under the same directories.
    ///
    /// # Panics
    /// The range is not within the set, or ends before it starts, as with a slice.
    pub fn slice(&self, range: Range<usize>) -> NamesUnder<'t> {
        let names = self.names.slice(range.clone());
        let directory_of = match self.directory_of {
            Numbers::One => Numbers::One,
            Numbers::U32(list) => Numbers::U32(&list[range]),
            Numbers::I32(list) => Numbers::I32(&list[range]),
        };
        NamesUnder { names, directory_of, ..*self }
    }

    /// Appends the path of a name to `text`.
    pub fn append_path(&self, index: usize, text: &mut Vec<u8>) {
        let directory = self.number(index).and_then(|number| self.directories.get(number)).unwrap_or(&[]);
        text.extend_from_slice(directory);
        if directory.last().is_some_and(|last| *last != b'/') {
            text.push(b'/');
        }
        text.extend_from_slice(self.names.get(index).unwrap_or(&[]));
    }

    /// Returns the paths, whole.
    pub fn to_paths(&self) -> PathSet {
        let (mut set, mut text) = (PathSet::with_capacity(self.len(), 0), Vec::new());
        for index in 0..self.len() {
            text.clear();
            self.append_path(index, &mut text);
            set.push(&text);
        }
        set
    }
}

impl<'t> From<&'t NameSet> for NamesUnder<'t> {
    fn from(set: &'t NameSet) -> Self {
        set.view()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn whole<'t>(names: impl Into<NamesUnder<'t>>) -> Vec<String> {
        let names = names.into();
        assert_eq!(names.number(names.len()), None);
        let mut numbers = Vec::new();
        names.each_number(|number| numbers.push(Some(number as usize)));
        assert!((0..names.len()).map(|index| names.number(index)).eq(numbers));
        let paths = names.to_paths();
        paths.view().iter().map(|path| String::from_utf8_lossy(path).into_owned()).collect()
    }

    #[test]
    fn a_path_is_its_directory_a_slash_and_its_name() {
        for (directory, path) in [("/a", "/a/x"), ("/a/", "/a/x"), ("/", "/x"), ("", "x"), ("a/b", "a/b/x")] {
            assert_eq!(whole(&PathSet::under(directory, ["x"])), [path]);
        }
        let mut set = NameSet::new();
        set.push("first");
        set.enter("/a");
        set.enter("/b");
        set.extend_names(&["x", "", "y/z"]);
        assert_eq!((set.len(), set.is_empty(), set.bytes()), (4, false, 5 + 2 + 2 + 1 + 3));
        assert_eq!(whole(&set), ["first", "/b/x", "/b/", "/b/y/z"]);
        assert_eq!(whole(set.view().slice(1..3)), ["/b/x", "/b/"]);
        set.clear();
        assert!(set.is_empty() && set.view().is_empty() && set.view().directories().is_empty());
    }

    impl NameSet {
        fn extend_names(&mut self, names: &[&str]) {
            names.iter().for_each(|name| self.push(name));
        }
    }

    #[test]
    fn paths_are_cut_before_their_last_names() {
        let paths = ["/a/x", "/a/y", "z", "/w", "", "/", "b/c/", "/a/x"];
        let set: PathSet = paths.into_iter().collect();
        let names = NameSet::of_paths(set.view());
        assert_eq!(whole(&names), paths);
        assert_eq!(names.view().directories().len(), 7);
    }

    #[test]
    fn numbers_of_another_library_are_checked() {
        let directories: PathSet = ["/a", "/b"].into_iter().collect();
        let names: PathSet = ["x", "y"].into_iter().collect();
        let set = NamesUnder::new(&directories, &[1, 0], &names).expect("a set");
        assert_eq!(whole(set), ["/b/x", "/a/y"]);
        let set = NamesUnder::from_indices32(&directories, &[1, 1], &names).expect("a set");
        assert_eq!(whole(set.slice(1..2)), ["/b/y"]);
        let refused = NamesUnder::new(&directories, &[1], &names).expect_err("refused");
        assert_eq!(refused, BadNumbers::Count { numbers: 1, names: 2 });
        let refused = NamesUnder::new(&directories, &[1, 2], &names).expect_err("refused");
        assert_eq!(refused, BadNumbers::Outside { index: 1, number: 2, directories: 2 });
        let refused = NamesUnder::from_indices32(&directories, &[-1, 0], &names).expect_err("refused");
        assert_eq!(refused, BadNumbers::Outside { index: 0, number: -1, directories: 2 });
    }
}
