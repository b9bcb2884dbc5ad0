//! The names that only the tree that follows has, with all below them: among them a file is found that has
//! another name in the tree that is followed.
//!
//! Size and time find a candidate and prove nothing: programs that make packages give all their files one
//! time. So the engine compares the content before it renames anything.

use super::node::{Name, Node, in_whole_seconds};
use crate::on_host::hostdir::FileId;
use lanefs::{FileKind, Time};
use std::collections::{HashMap, HashSet};
use std::ffi::{CStr, CString};

/// Most names that are kept, some 300 bytes each. Names below further ones are not found.
const MOST_NAMES: usize = 1 << 15;
/// Candidates of one size and time that a search looks at.
const MOST_CANDIDATES: usize = 64;

/// The key by which files are found: size and time of modification.
type FileKey = (u64, Time);

/// A directory that both trees have. Its path is found when it is needed: a chain of directories makes one of
/// a megabyte, and each name would keep its own.
pub(super) trait SharedDir {
    /// The path below the top.
    fn path_below_top(&self) -> Vec<u8>;
}

/// The directory above a name.
pub(super) enum AboveOld<P> {
    /// One of both trees.
    Shared(P),
    /// One that is an old name itself, by its number.
    Old(usize),
}

/// A name that only the tree that follows has, or one below it.
struct OldName<D, P> {
    above: AboveOld<P>,
    dir: D,
    name: Name,
    node: Node,
    /// The file has got, or will get, another name.
    is_taken: bool,
    /// The directory keeps its name: names below it are left out, or have been taken.
    stays: bool,
}

impl<D, P> OldName<D, P> {
    /// Number of the directory above, if that is an old name.
    fn above(&self) -> Option<usize> {
        match self.above {
            AboveOld::Shared(_) => None,
            AboveOld::Old(number) => Some(number),
        }
    }
}

/// A name that was found, and is not to be found again.
pub(super) struct TakenName<D> {
    number: usize,
    /// The directory that has it.
    pub(super) dir: D,
    pub(super) name: Name,
    pub(super) node: Node,
}

/// A file below a directory that may be an old one under a new name.
pub(super) struct Sample {
    /// Names of the directories on the way to it.
    pub(super) way: Vec<CString>,
    pub(super) name: CString,
    pub(super) node: Node,
}

/// The findings of a search for the old name of a directory.
pub(super) enum Search<D> {
    Found(TakenName<D>),
    /// Files below the directory have other names, and not in one directory.
    Scattered,
    Nothing,
}

/// The names that only the tree that follows has.
pub(super) struct OldNames<D, P> {
    names: Vec<OldName<D, P>>,
    files: HashMap<FileKey, Vec<usize>>,
    taken: HashSet<FileId>,
    has_taken_directory: bool,
    /// Nothing is found any more.
    is_closed: bool,
    /// Times are compared by their seconds: one side is an archive.
    in_seconds: bool,
}

/// True for a file that can be renamed: it has content that would be copied otherwise, and no other name.
pub(super) fn is_movable_file(node: &Node) -> bool {
    node.meta.kind == FileKind::File && node.meta.size > 0 && node.meta.links < 2
}

impl<D: Clone, P: SharedDir> OldNames<D, P> {
    /// `in_seconds`: one of the trees is an archive, which may have whole seconds.
    pub(super) fn new(in_seconds: bool) -> Self {
        let (names, files, taken) = (Vec::new(), HashMap::new(), HashSet::new());
        OldNames { names, files, taken, has_taken_directory: false, is_closed: false, in_seconds }
    }

    fn key(&self, node: &Node) -> FileKey {
        let mtime = node.meta.mtime;
        (node.meta.size, if self.in_seconds { in_whole_seconds(mtime) } else { mtime })
    }

    /// Adds a name of a directory, unless there are too many.
    pub(super) fn add(&mut self, above: AboveOld<P>, (dir, name, node): (D, Name, Node)) {
        let number = self.names.len();
        if number >= MOST_NAMES {
            return;
        }
        if is_movable_file(&node) {
            let key = self.key(&node);
            self.files.entry(key).or_default().push(number);
        }
        self.names.push(OldName { above, dir, name, node, is_taken: false, stays: false });
    }

    pub(super) fn len(&self) -> usize {
        self.names.len()
    }

    /// The number of names that can still be added.
    pub(super) fn room(&self) -> usize {
        MOST_NAMES - self.names.len()
    }

    /// Returns the place of a directory that was added, its name and its file.
    pub(super) fn directory(&self, number: usize) -> Option<(&D, &Name, &Node)> {
        let name = self.names.get(number).filter(|name| name.name.is_dir())?;
        Some((&name.dir, &name.name, &name.node))
    }

    /// Lets a directory, and those above it, keep their names.
    pub(super) fn keep(&mut self, number: usize) {
        let mut at = Some(number);
        while let Some(name) = at.and_then(|number| self.names.get_mut(number)).filter(|name| !name.stays) {
            name.stays = true;
            at = name.above();
        }
    }

    /// The path of a name below the top.
    pub(super) fn path(&self, number: usize) -> Vec<u8> {
        let (mut parts, mut top) = (Vec::new(), Vec::new());
        let mut at = Some(number);
        while let Some(name) = at.and_then(|number| self.names.get(number)) {
            parts.push(name.name.name.to_bytes());
            if let AboveOld::Shared(dir) = &name.above {
                top = dir.path_below_top();
            }
            at = name.above();
        }
        if !top.is_empty() {
            parts.push(&top);
        }
        parts.reverse();
        parts.join(&b'/')
    }

    /// The path below the top that a name had when it was taken.
    pub(super) fn path_of(&self, taken: &TakenName<D>) -> Vec<u8> {
        self.path(taken.number)
    }

    /// True where neither the file nor a directory above it was taken.
    fn is_free(&self, number: usize) -> bool {
        let mut at = Some(number);
        while let Some(name) = at.and_then(|number| self.names.get(number)) {
            if name.is_taken {
                return false;
            }
            at = name.above();
        }
        true
    }

    fn take(&mut self, number: usize) -> Option<TakenName<D>> {
        let name = self.names.get_mut(number)?;
        name.is_taken = true;
        self.has_taken_directory |= name.name.is_dir();
        self.taken.insert(name.node.meta.id);
        let above = name.above();
        let (dir, node) = (name.dir.clone(), name.node);
        let taken = TakenName { number, dir, name: name.name.clone(), node };
        if let Some(above) = above {
            self.keep(above);
        }
        Some(taken)
    }

    /// Takes the first file of this size and time, one of the same name rather than another.
    pub(super) fn take_file(&mut self, node: &Node, name: &CStr) -> Option<TakenName<D>> {
        let key = self.key(node);
        let numbers = self.files.get(&key)?.iter().copied().take(MOST_CANDIDATES);
        let free: Vec<usize> = numbers.filter(|number| self.is_free(*number)).collect();
        let has_name = |number: &&usize| self.names.get(**number).is_some_and(|old| *old.name.name == *name);
        let number = *free.iter().find(has_name).or(free.first())?;
        if let Some(files) = self.files.get_mut(&key) {
            files.retain(|other| *other != number);
        }
        self.take(number)
    }

    /// Gives a file back whose content is another one.
    pub(super) fn give_back(&mut self, taken: &TakenName<D>) {
        let node = &taken.node;
        self.taken.remove(&node.meta.id);
        if !self.is_closed {
            let key = self.key(node);
            self.files.entry(key).or_default().push(taken.number);
        }
        if let Some(name) = self.names.get_mut(taken.number) {
            name.is_taken = false;
        }
    }

    /// Takes the directory that has most of the samples under the same names, if that is half of them.
    pub(super) fn take_directory(&mut self, samples: &[Sample], name: &CStr) -> Search<D> {
        let mut votes: HashMap<usize, usize> = HashMap::new();
        let mut is_related = false;
        for sample in samples {
            let numbers = self.files.get(&self.key(&sample.node));
            for number in numbers.into_iter().flatten().copied().take(MOST_CANDIDATES) {
                if !self.is_free(number) {
                    continue;
                }
                is_related = true;
                if let Some(directory) = self.directory_of(number, sample) {
                    *votes.entry(directory).or_default() += 1;
                }
            }
        }
        let has_name = |number: usize| self.names.get(number).is_some_and(|old| *old.name.name == *name);
        let rank = |(number, votes): &(usize, usize)| (*votes, has_name(*number), std::cmp::Reverse(*number));
        let best = votes.into_iter().max_by_key(rank).filter(|(_, votes)| votes * 2 >= samples.len());
        match best.and_then(|(number, _)| self.take(number)) {
            Some(taken) => Search::Found(taken),
            None if is_related => Search::Scattered,
            None => Search::Nothing,
        }
    }

    /// The directory below which a file is where the sample is, if it can be taken.
    fn directory_of(&self, number: usize, sample: &Sample) -> Option<usize> {
        let mut old = self.names.get(number).filter(|old| old.name.name == sample.name)?;
        for name in sample.way.iter().rev() {
            old = self.names.get(old.above()?).filter(|above| above.name.name == *name)?;
        }
        let directory = old.above()?;
        self.names.get(directory).is_some_and(|name| !name.stays).then_some(directory)
    }

    /// True for a file that has got, or will get, another name.
    pub(super) fn is_taken(&self, id: FileId) -> bool {
        self.taken.contains(&id)
    }

    pub(super) fn has_taken(&self) -> bool {
        !self.taken.is_empty()
    }

    pub(super) fn has_taken_directory(&self) -> bool {
        self.has_taken_directory
    }

    /// Ends the search: nothing is found from now on. Names that were taken, and the paths of all, are
    /// remembered.
    pub(super) fn close(&mut self) {
        self.is_closed = true;
        self.files = HashMap::new();
    }
}
