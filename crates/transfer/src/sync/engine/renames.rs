//! Files and directories that had another name.
//!
//! A file is renamed once its content is found to be the same. A directory is compared under its old name,
//! with the content of each file, and gets the new one when it is complete: whatever ends a sync before, no
//! file has a name of the new tree and the content of another file.

use super::{Both, Engine, OldEntry, OldNamesOf, Task, WhichTree};
use crate::running::job::count;
use crate::running::queue::Queue;
use crate::sync::difference::{Aspects, Change, Difference};
use crate::sync::effect::{Effect, Renaming};
use crate::sync::failure::Failure;
use crate::sync::node::{Name, Node};
use crate::sync::old_names::{AboveOld, OldNames, Sample, Search, TakenName, is_movable_file};
use crate::sync::pair::{Pair, Sides};
use crate::sync::scope::ComparedPart;
use crate::sync::tree::{Buffers, Tree};
use crate::vocabulary::name::shown;
use lanefs::FileKind;
use std::collections::{BTreeMap, VecDeque};
use std::ffi::CString;
use std::sync::Arc;

/// Files by which the old name of a directory is found, and directories that are listed for them, at most.
const SAMPLES: usize = 64;
const SAMPLED_DIRECTORIES: usize = 16;

/// The origin of a name that only `a` has.
pub(super) enum Origin {
    /// It had another name, and is done, or will be with its directory.
    Renamed,
    /// Files below it had other names.
    Scattered,
    New,
}

/// The first names of a directory by name, and no more than so many.
struct FirstNames {
    names: BTreeMap<CString, Name>,
    most: usize,
}

impl FirstNames {
    fn new(most: usize) -> Self {
        FirstNames { names: BTreeMap::new(), most }
    }

    fn add(&mut self, name: &std::ffi::CStr, kind: FileKind, ino: u64) {
        let is_last = self.names.last_key_value().is_some_and(|(last, _)| **last < *name);
        if self.names.len() >= self.most && is_last {
            return;
        }
        self.names.insert(name.to_owned(), Name { name: name.to_owned(), kind, ino });
        if self.names.len() > self.most {
            self.names.pop_last();
        }
    }
}

impl<A: Tree, B: Tree, E: Effect<A, B>> Engine<'_, A, B, E> {
    /// True where what is below a directory of `a` is compared.
    pub(super) fn is_entered(&self, pair: &Pair<A, B>, node: &Node) -> bool {
        !self.options.one_file_system || node.meta.id.dev == pair.a.1.meta.id.dev
    }

    /// Lists the old names with all below them, directory by directory and by name.
    pub(super) fn old_names(&self, tops: &[OldEntry<A, B>]) -> OldNamesOf<A, B> {
        let (mut names, mut buffers) = (OldNames::new(self.in_seconds.is_any()), Buffers::new());
        for OldEntry { pair, name } in tops {
            if let Some(dir) = &pair.b
                && let Ok(node) = self.b.node(dir, name)
            {
                names.add(AboveOld::Shared(pair.clone()), (dir.clone(), name.clone(), node));
            }
        }
        let mut at = 0;
        while at < names.len() && !self.job.should_stop() {
            if names.directory(at).is_some() && !self.list_old(&mut buffers, &mut names, at).unwrap_or(false)
            {
                names.keep(at);
            }
            at += 1;
        }
        names
    }

    /// Adds the names of an old directory; false where it has names that are left out, or too many.
    fn list_old(
        &self,
        buffers: &mut Buffers,
        names: &mut OldNamesOf<A, B>,
        number: usize,
    ) -> Result<bool, Failure> {
        let Some((dir, name, node)) = names.directory(number) else { return Ok(true) };
        let dir = self.b.look_into(dir, name, node)?;
        // A path takes a step for each level above, which a deep chain would have in each directory.
        let needs_path = !self.options.filter.is_empty();
        let mut path = if needs_path { names.path(number) } else { Vec::new() };
        path.push(b'/');
        let len = path.len();
        let room = names.room();
        let (mut list, mut has_all, mut count) = (FirstNames::new(room), true, 0);
        self.b.names(self.job, buffers, &dir, &mut |name, kind, ino| {
            path.truncate(len);
            path.extend_from_slice(name.to_bytes());
            match self.leaves_out(&path, kind == FileKind::Directory) {
                true => has_all = false,
                false => {
                    count += 1;
                    list.add(name, kind, ino);
                }
            }
        })?;
        // Names that are left out may be below those that are too many.
        has_all &= count <= room || self.options.filter.is_empty();
        let list: Vec<Name> = list.names.into_values().collect();
        let nodes = self.b.nodes(&dir, &list.iter().collect::<Vec<_>>())?;
        for (name, node) in list.into_iter().zip(nodes) {
            let Some(node) = node else { continue };
            names.add(AboveOld::Old(number), (dir.clone(), name, node));
        }
        Ok(has_all)
    }

    /// True for a name of a new directory that had another name.
    pub(super) fn is_renamed(
        &self,
        queue: &Queue<Task<A, B>>,
        buffers: &mut Buffers,
        pair: &Arc<Pair<A, B>>,
        both: &Both<A>,
        node: &Node,
    ) -> bool {
        matches!(self.renamed(queue, buffers, pair, both, node), Origin::Renamed)
    }

    /// Finds the old name of a file that `b` has under another name, and renames it.
    pub(super) fn renamed(
        &self,
        queue: &Queue<Task<A, B>>,
        buffers: &mut Buffers,
        pair: &Arc<Pair<A, B>>,
        both: &Both<A>,
        node: &Node,
    ) -> Origin {
        if node.meta.kind == FileKind::Directory {
            return match self.is_entered(pair, node) {
                true => self.renamed_directory(queue, buffers, pair, both, node),
                false => Origin::New,
            };
        }
        if !is_movable_file(node) {
            return Origin::New;
        }
        let Some(tried) = self.apart.try_file(node, &both.a.name) else { return Origin::New };
        let Some(old) = tried.file() else { return Origin::New };
        let (dirs, names) = ((&pair.a.0, &old.dir), (&*both.a.name, &*old.name.name));
        let compared = self.compare(buffers, dirs, Some(names), (node, &old.node), true);
        // A failure is named when the file is copied.
        let same = compared.ok().filter(|aspects| !self.needs_copy(node.meta.kind, *aspects));
        let Some(aspects) = same else { return Origin::New };
        count(&self.job.counters.compared);
        // The new name may be seen by more users than the old one: it gets its rights first.
        let found = (&both.a, node);
        if !aspects.is_empty() && !self.set_before(buffers, pair, found, old, aspects) {
            return Origin::New;
        }
        if let Some(old) = tried.keep() {
            self.rename_file(buffers, pair, found, &old, aspects);
        }
        Origin::Renamed
    }

    /// Gives a file its attributes under its old name.
    fn set_before(
        &self,
        buffers: &mut Buffers,
        pair: &Pair<A, B>,
        (name, node): (&Name, &Node),
        old: &TakenName<B::Dir>,
        aspects: Aspects,
    ) -> bool {
        let path = || self.a.path(&pair.path(name.name.to_bytes()));
        let found = self.found(&pair.a.0, name, node, &path);
        self.effect.set(buffers, &found, &old.dir, &old.node, aspects)
    }

    fn rename_file(
        &self,
        buffers: &mut Buffers,
        pair: &Pair<A, B>,
        (name, node): (&Name, &Node),
        old: &TakenName<B::Dir>,
        aspects: Aspects,
    ) {
        let name = name.name.to_bytes();
        let path = || self.a.path(&pair.path(name));
        let renaming = Renaming { from: (&old.dir, &old.name), to: pair.b.as_ref(), name, path: &path };
        if !self.effect.rename(buffers, &renaming, &self.room()) {
            return;
        }
        pair.touch();
        let (path, kind, change) = (pair.path(name), node.meta.kind, Change::Renamed(aspects));
        self.is_different(Difference { path, kind, change, from: Some(self.old_path(old)) });
    }

    /// The path below the top that a file had.
    fn old_path(&self, old: &TakenName<B::Dir>) -> Vec<u8> {
        self.apart.search(|names| names.path_of(old))
    }

    fn renamed_directory(
        &self,
        queue: &Queue<Task<A, B>>,
        buffers: &mut Buffers,
        pair: &Arc<Pair<A, B>>,
        both: &Both<A>,
        node: &Node,
    ) -> Origin {
        let name = both.a.name.to_bytes();
        // Failures are named when the directory is copied.
        let samples = self.samples(buffers, pair, &both.a, node).unwrap_or_default();
        let old = match self.apart.search(|names| names.take_directory(&samples, &both.a.name)) {
            Search::Found(old) => old,
            Search::Scattered => return Origin::Scattered,
            Search::Nothing => return Origin::New,
        };
        let in_a = |failure| (WhichTree::A, failure);
        let entered = self.a.enter(&pair.a.0, &both.a, node).map_err(in_a).and_then(|a| {
            let b = self.b.enter(&old.dir, &old.name, &old.node);
            Ok((a, b.map_err(|failure| (WhichTree::B, failure))?))
        });
        match entered {
            Ok((a, b)) => {
                let (a, old_node) = ((a, *node), Some(old.node));
                let sides = Sides { a, b: Some(b), old: old_node, made: None, moved: Some(old) };
                let below = Pair::new(Some((pair.clone(), name.to_vec())), sides, ComparedPart::All);
                pair.tasks.add();
                queue.push(Task::Directory(below));
            }
            Err((side, failure)) => self.failed(&pair.path(name), side, failure),
        }
        Origin::Renamed
    }

    /// The first files below a new directory, by name.
    fn samples(
        &self,
        buffers: &mut Buffers,
        pair: &Pair<A, B>,
        name: &Name,
        node: &Node,
    ) -> Result<Vec<Sample>, Failure> {
        let needs_path = !self.options.filter.is_empty();
        let path = if needs_path { pair.path(name.name.to_bytes()) } else { Vec::new() };
        let first = self.a.look_into(&pair.a.0, name, node)?;
        let (mut waiting, mut samples) = (VecDeque::from([(first, Vec::<CString>::new())]), Vec::new());
        for _ in 0..SAMPLED_DIRECTORIES {
            let Some((dir, way)) = waiting.pop_front().filter(|_| samples.len() < SAMPLES) else { break };
            let mut path = way.iter().fold(path.clone(), |path, name| [&path, name.to_bytes()].join(&b'/'));
            path.push(b'/');
            let len = path.len();
            let (mut dirs, mut files) =
                (FirstNames::new(SAMPLED_DIRECTORIES), FirstNames::new(SAMPLES - samples.len()));
            self.a.names(self.job, buffers, &dir, &mut |name, kind, ino| {
                path.truncate(len);
                path.extend_from_slice(name.to_bytes());
                match kind {
                    FileKind::Directory if !self.leaves_out(&path, true) => dirs.add(name, kind, ino),
                    FileKind::File if !self.leaves_out(&path, false) => files.add(name, kind, ino),
                    _ => {}
                }
            })?;
            for name in files.names.into_values() {
                let node = self.a.node(&dir, &name)?;
                if is_movable_file(&node) {
                    samples.push(Sample { way: way.clone(), name: name.name, node });
                }
            }
            for name in dirs.names.into_values() {
                let node = self.a.node(&dir, &name)?;
                let way = way.iter().chain([&name.name]).cloned().collect();
                waiting.push_back((self.a.look_into(&dir, &name, &node)?, way));
            }
        }
        Ok(samples)
    }

    /// Gives a directory that is complete its new name.
    pub(super) fn moved(
        &self,
        buffers: &mut Buffers,
        pair: &Pair<A, B>,
        old: &TakenName<B::Dir>,
        aspects: Aspects,
    ) {
        let Some(above) = &pair.parent else { return };
        let path = || self.a.path(&pair.path(b""));
        if pair.is_doubtful() {
            let (path, old) = (shown(&path()), shown(&self.b.path(&self.old_path(old))));
            return self
                .job
                .note(format!("{path}: keeps its old name {old}, as not all in it could be compared"));
        }
        let (from, to) = ((&old.dir, &old.name), above.b.as_ref());
        let renaming = Renaming { from, to, name: &pair.name, path: &path };
        if self.effect.rename(buffers, &renaming, &self.room()) {
            above.touch();
            let (path, kind, change) = (pair.path(b""), FileKind::Directory, Change::Renamed(aspects));
            self.is_different(Difference { path, kind, change, from: Some(self.old_path(old)) });
        }
    }
}
