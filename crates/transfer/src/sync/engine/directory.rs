//! A directory: its attributes, its names on both sides, and the tasks that follow from them.

use super::{Both, Engine, Task, Waiting, WhichTree};
use crate::running::job::count;
use crate::running::queue::Queue;
use crate::sync::difference::Change;
use crate::sync::effect::{Effect, There};
use crate::sync::failure::Failure;
use crate::sync::fingerprint::{Fingerprint, NameParts};
use crate::sync::listing::{Listing, Segment};
use crate::sync::node::{Name, Node};
use crate::sync::pair::{Pair, Sides};
use crate::sync::scope::ComparedPart;
use crate::sync::tree::{Buffers, Tree};
use crate::vocabulary::name::shown;
use lanefs::FileKind;
use std::ffi::CStr;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

/// Most names of one directory in one task; further ones become tasks for other threads.
pub(super) const TASK_NAMES: usize = 256;

/// Names of `a`, each with the same name of `b`, and the names that only `b` has.
type Matched = (Listing, Listing);

impl<A: Tree, B: Tree, E: Effect<A, B>> Engine<'_, A, B, E> {
    pub(super) fn compared_directory(
        &self,
        queue: &Queue<Task<A, B>>,
        buffers: &mut Buffers,
        pair: &Arc<Pair<A, B>>,
    ) {
        if let Err((side, failure)) = self.compare_directory(buffers, pair) {
            pair.doubt();
            return self.failed(&pair.path(b""), side, failure);
        }
        if pair.part == ComparedPart::Itself {
            return;
        }
        let (both, removed) = match self.matched(buffers, pair) {
            Ok(matched) => matched,
            Err((side, failure)) => {
                pair.doubt();
                return self.failed(&pair.path(b""), side, failure);
            }
        };
        if let Some(dir) = &pair.b {
            self.remember(dir, &removed);
            for name in removed.into_names() {
                if self.job.should_stop() {
                    return;
                }
                if let Some(name) = self.set_old_aside(pair, name) {
                    self.removed(buffers, pair, &name);
                }
            }
        }
        let mut tasks = Vec::new();
        for mut segment in both.into_segments() {
            segment.sort();
            let (len, segment) = (segment.len(), Arc::new(segment));
            let ranges = (0..len).step_by(TASK_NAMES).map(|begin| begin..len.min(begin + TASK_NAMES));
            tasks.extend(ranges.map(|range| (segment.clone(), range)));
        }
        // The first one is the task of this thread, and the second one the next that a thread takes.
        let mut tasks = tasks.into_iter();
        let first = tasks.next();
        for (segment, range) in tasks.rev() {
            pair.tasks.add();
            queue.push(Task::Names(pair.clone(), segment, range));
        }
        if let Some((segment, range)) = first {
            self.names(queue, buffers, pair, &segment, range);
        }
    }

    /// Compares the attributes of the directories themselves.
    fn compare_directory(
        &self,
        buffers: &mut Buffers,
        pair: &Pair<A, B>,
    ) -> Result<(), (WhichTree, Failure)> {
        self.job.note_far_time(&pair.a.1.meta, || self.a.path(&pair.path(b"")));
        if let Some(old) = &pair.old {
            self.job.note_far_time(&old.meta, || self.b.path(&pair.path(b"")));
        }
        if let (Some(b), Some(old)) = (&pair.b, &pair.old)
            && !pair.a.1.is_implied
            && !old.is_implied
        {
            let aspects = self.compare(buffers, (&pair.a.0, b), None, (&pair.a.1, old), false)?;
            let _ = pair.aspects.set(aspects);
        }
        Ok(())
    }

    fn matched(&self, buffers: &mut Buffers, pair: &Pair<A, B>) -> Result<Matched, (WhichTree, Failure)> {
        let in_a = |failure| (WhichTree::A, failure);
        let in_b = |failure| (WhichTree::B, failure);
        let is_walked = buffers.walked.is_of(pair.a.1.meta.id);
        if let Some(changed) = buffers.walked.changed().filter(|_| is_walked)
            && let Some(b) = &pair.b
        {
            let both = self.changed_names(buffers, b, changed).map_err(in_b)?;
            return Ok((both, Listing::default()));
        }
        // A path takes a step for each level above, which a deep chain would have in each directory.
        let needs_path = pair.part == ComparedPart::Way || !self.options.filter.is_empty();
        let mut path = if needs_path { pair.path(b"") } else { Vec::new() };
        if !path.is_empty() {
            path.push(b'/');
        }
        let len = path.len();
        let mut leaves_out = |name: &CStr, kind: FileKind| {
            if !needs_path {
                return false;
            }
            path.truncate(len);
            path.extend_from_slice(name.to_bytes());
            let is_aside =
                pair.part == ComparedPart::Way && self.options.scope.part(&path) == ComparedPart::Itself;
            is_aside || self.options.filter.leaves_out(&path, kind == FileKind::Directory)
        };
        let mut both = Listing::default();
        if is_walked {
            for (name, node) in buffers.walked.iter().filter(|(name, node)| !leaves_out(name, node.meta.kind))
            {
                both.push_with_file(name, node, None);
            }
            buffers.walked.clear();
        } else {
            let mut add = |name: &CStr, kind: FileKind, ino: u64| {
                if !leaves_out(name, kind) {
                    both.push(name, kind, ino);
                }
            };
            self.a.names(self.job, buffers, &pair.a.0, &mut add).map_err(in_a)?;
        }
        let mut removed = Listing::default();
        let (Some(b), Some(_)) = (&pair.b, &pair.old) else { return Ok((both, removed)) };
        let mut matcher = both.matcher().map_err(in_a)?;
        let mut give = |name: &CStr, kind: FileKind, ino: u64| {
            // A name of `b` that is left out stays for its partner, which may be of another type. Below a
            // directory that had another name there is none that was left out under that.
            let stays = |left_out: bool| left_out && !pair.reads_content;
            if !matcher.give(name, kind, ino) && self.finds_removed && !stays(leaves_out(name, kind)) {
                removed.push(name, kind, ino);
            }
        };
        self.b.names(self.job, buffers, b, &mut give).map_err(in_b)?;
        Ok((matcher.into_listing(), removed))
    }

    /// The names of a directory that has the same names as after the last sync: those which may be of files
    /// that have changed since, each with the one of `b`. The others are passed over.
    fn changed_names(
        &self,
        buffers: &mut Buffers,
        b: &B::Dir,
        changed: NameParts,
    ) -> Result<Listing, Failure> {
        let mut walked = std::mem::take(&mut buffers.walked);
        let (mut both, mut passed_over) = (Listing::default(), 0);
        for (name, node) in walked.iter() {
            // A directory is looked at in any case, and tells itself whether it has changed.
            if node.meta.kind == FileKind::Directory || changed.has(name.to_bytes()) {
                both.push_with_file(name, node, self.b.lookup(b, name)?.as_ref());
            } else {
                passed_over += 1;
            }
        }
        walked.clear();
        buffers.walked = walked;
        self.job.counters.compared.fetch_add(passed_over, Relaxed);
        self.tally.pass_over(passed_over);
        Ok(both)
    }

    pub(super) fn names(
        &self,
        queue: &Queue<Task<A, B>>,
        buffers: &mut Buffers,
        pair: &Arc<Pair<A, B>>,
        segment: &Segment,
        range: Range<usize>,
    ) {
        if self.job.should_stop() {
            return;
        }
        let both = |(a, b, node)| Both { a, b, node, open: None, old: None };
        let mut names: Vec<Both<A>> = segment.names_with_files(range).map(both).collect();
        self.describe(pair, &mut names);
        for both in names {
            if self.job.should_stop() {
                return;
            }
            self.name(queue, buffers, pair, both);
            self.effect.between();
        }
    }

    /// Finds the files of `b` for the names of a task, in one call. A file that makes it fail is named when
    /// it is its turn.
    fn describe(&self, pair: &Pair<A, B>, names: &mut [Both<A>]) {
        let Some(dir) = &pair.b else { return };
        let there: Vec<&Name> = names.iter().filter_map(|both| both.b.as_ref()).collect();
        if there.is_empty() {
            return;
        }
        let Ok(nodes) = self.b.nodes(dir, &there) else { return };
        for (both, node) in names.iter_mut().filter(|both| both.b.is_some()).zip(nodes) {
            both.old = node.map(Box::new);
        }
    }

    /// The file of `b` that has a name, if it is not a directory, as it was before the sync.
    pub(super) fn there(&self, pair: &Pair<A, B>, both: &Both<A>) -> Result<Option<Node>, Failure> {
        match (&both.b, &pair.b) {
            (Some(name), Some(dir)) if !name.is_dir() => {
                let old = self.old(dir, name, both)?;
                self.job.note_far_time(&old.meta, || self.b.path(&pair.path(name.name.to_bytes())));
                Ok(Some(if E::CHANGES { self.links.before(old) } else { old }))
            }
            _ => Ok(None),
        }
    }

    /// The file that has a name in `b`.
    fn old(&self, dir: &B::Dir, name: &Name, both: &Both<A>) -> Result<Node, Failure> {
        both.old.as_deref().copied().map_or_else(|| self.b.node(dir, name), Ok)
    }

    /// The file that a name has in `a`. One that is new there is opened at once: that tells its attributes.
    fn node(&self, pair: &Pair<A, B>, both: &mut Both<A>) -> Result<Node, Failure> {
        if let Some(node) = both.node.take() {
            return Ok(*node);
        }
        let is_new_file = both.b.is_none() && pair.old.is_none() && both.a.kind == FileKind::File;
        if E::CHANGES
            && is_new_file
            && let Some((file, node)) = self.a.open_unseen(&pair.a.0, &both.a.name)
        {
            both.open = Some(file);
            return Ok(node);
        }
        self.a.node(&pair.a.0, &both.a)
    }

    fn name(
        &self,
        queue: &Queue<Task<A, B>>,
        buffers: &mut Buffers,
        pair: &Arc<Pair<A, B>>,
        mut both: Both<A>,
    ) {
        let node = match self.node(pair, &mut both) {
            Ok(node) => node,
            Err(failure) => {
                self.failed(&pair.path(both.a.name.to_bytes()), WhichTree::A, failure);
                return self.drop_doubtful(buffers, pair, &both);
            }
        };
        self.add_to_fingerprint(pair, &both.a.name, &node);
        if self.options.skip.contains(&node.meta.id) {
            pair.with_fingerprint(Fingerprint::spoil);
            let path = shown(&self.a.path(&pair.path(both.a.name.to_bytes())));
            return self.job.note(format!("{path}: left out, as it is the volume itself"));
        }
        if let Some(both) = self.set_new_aside(pair, both, &node)
            && !(self.is_matching()
                && both.b.is_none()
                && self.is_renamed(queue, buffers, pair, &both, &node))
        {
            self.placed(queue, buffers, pair, both, node);
        }
    }

    /// Makes a name the same in `b`, under this name.
    pub(super) fn placed(
        &self,
        queue: &Queue<Task<A, B>>,
        buffers: &mut Buffers,
        pair: &Arc<Pair<A, B>>,
        both: Both<A>,
        node: Node,
    ) {
        if self.is_in_the_way(pair, &both) {
            return;
        }
        let path = || self.a.path(&pair.path(both.a.name.to_bytes()));
        self.job.note_far_time(&node.meta, path);
        if node.meta.kind == FileKind::Directory {
            match self.subdirectory(buffers, pair, &both, &node) {
                Some(below) => {
                    pair.tasks.add();
                    queue.push(Task::Directory(below));
                }
                None => self.drop_doubtful(buffers, pair, &both),
            }
            return;
        }
        count(&self.job.counters.compared);
        let has_others = |there: Node| there.meta.links > 1;
        let waits = self.options.in_order
            && (has_others(node) || self.there(pair, &both).is_ok_and(|there| there.is_some_and(has_others)));
        match waits {
            true => {
                pair.tasks.add();
                let both = Both { open: None, ..both };
                self.waiting.lock().push(Waiting { pair: pair.clone(), both, node });
            }
            false => self.file(buffers, pair, &both, &node),
        }
    }

    /// Reports a name of `b` that is left out, where `a` has one of another type that is not.
    fn is_in_the_way(&self, pair: &Pair<A, B>, both: &Both<A>) -> bool {
        let Some(there) = both.b.as_ref().filter(|there| there.is_dir() != both.a.is_dir()) else {
            return false;
        };
        let path = pair.path(both.a.name.to_bytes());
        let is_in_the_way = !pair.reads_content && self.leaves_out(&path, there.is_dir());
        if is_in_the_way {
            self.job.problem(self.a.path(&path), "a name of another type that is left out is in the way");
        }
        is_in_the_way
    }

    /// Removes a name of `b` in a directory that had another name, after a failure: its file has not been
    /// compared, and later syncs would trust its size and time.
    pub(super) fn drop_doubtful(&self, buffers: &mut Buffers, pair: &Pair<A, B>, both: &Both<A>) {
        if let Some(name) = both.b.as_ref().filter(|_| pair.reads_content)
            && !self.job.should_stop()
            && !self.removed(buffers, pair, name)
        {
            pair.doubt();
        }
    }

    /// Makes or finds the directory of a name in `b`.
    fn subdirectory(
        &self,
        buffers: &mut Buffers,
        pair: &Arc<Pair<A, B>>,
        both: &Both<A>,
        node: &Node,
    ) -> Option<Arc<Pair<A, B>>> {
        let name = both.a.name.to_bytes();
        let below = || pair.path(name);
        let a = match self.a.enter(&pair.a.0, &both.a, node) {
            Ok(dir) => (dir, *node),
            Err(failure) => {
                self.failed(&below(), WhichTree::A, failure);
                return None;
            }
        };
        let sides = match (&both.b, &pair.b) {
            (Some(there), Some(dir)) if there.is_dir() => {
                let entered =
                    self.old(dir, there, both).and_then(|old| Ok((self.b.enter(dir, there, &old)?, old)));
                match entered {
                    Ok((b, old)) => Sides { a, b: Some(b), old: Some(old), made: None, moved: None },
                    Err(failure) => {
                        self.failed(&below(), WhichTree::B, failure);
                        return None;
                    }
                }
            }
            (there, _) => {
                let path = || self.a.path(&below());
                let found = self.found(&pair.a.0, &both.a, node, &path);
                let there = match there {
                    // Another name of the file must find how many it had.
                    Some(_) => self.there(pair, both).map(|_| (There::File, Change::Type)),
                    None => Ok((There::Nothing, Change::Added)),
                };
                let (there, change) = match there {
                    Ok(there) => there,
                    Err(failure) => {
                        self.failed(&below(), WhichTree::B, failure);
                        return None;
                    }
                };
                let made = self.effect.put(buffers, &found, pair.b.as_ref(), there, &self.room())?;
                pair.touch();
                Sides { a, b: made.dir, old: None, made: Some(change), moved: None }
            }
        };
        let is_entered = !self.options.one_file_system || node.meta.id.dev == pair.a.1.meta.id.dev;
        let part = match sides.made {
            _ if !is_entered => ComparedPart::Itself,
            Some(_) => ComparedPart::All,
            None => self.part_below(pair, name),
        };
        Some(Pair::new(Some((pair.clone(), name.to_vec())), sides, part))
    }

    /// The part of a directory of both trees that is compared.
    fn part_below(&self, pair: &Pair<A, B>, name: &[u8]) -> ComparedPart {
        match pair.part {
            ComparedPart::All => ComparedPart::All,
            _ => self.options.scope.part(&pair.path(name)),
        }
    }
}
