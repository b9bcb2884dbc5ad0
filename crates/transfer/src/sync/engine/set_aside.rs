//! Names that only one tree has. They are set aside until all others are compared: a file that only the one
//! tree has may be one of the other tree under another name.
//!
//! Then the new names that have an old one come first, the old ones are removed, and the other new names come
//! last, so that they have the room of what is removed. A tree that follows and is full gets that room at
//! once, and nothing is renamed from then on.

use super::directory::TASK_NAMES;
use super::renames::Origin;
use super::{Both, Engine, OldEntry, OldNamesOf, Task, Waiting};
use crate::running::queue::Queue;
use crate::sync::effect::Effect;
use crate::sync::node::{Name, Node};
use crate::sync::old_names::{OldNames, TakenName, is_movable_file};
use crate::sync::pair::Pair;
use crate::sync::tree::{Buffers, Tree};
use crate::sync::walk_order::sort_by_path;
use lanefs_sync::lock::{Condvar, Mutex};
use std::ffi::CStr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Most names of each tree that are set aside, some 250 bytes each. Further ones are taken as they come.
const MOST_NAMES: usize = 1 << 15;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// Names are set aside.
    Gathering,
    /// New names are looked for among the old ones.
    Matching,
    /// Names are taken as they come.
    Over,
}

struct State<A: Tree, B: Tree> {
    stage: Stage,
    new: Vec<Waiting<A, B>>,
    old: Vec<OldEntry<A, B>>,
    names: OldNamesOf<A, B>,
    /// Files that were taken and are being compared.
    tried: usize,
}

/// The names that are set aside.
pub(in crate::sync) struct Apart<A: Tree, B: Tree> {
    state: Mutex<State<A, B>>,
    /// The last file that was tried is decided.
    decided: Condvar,
    /// Locked while names are removed for a tree that is full; true once some were.
    has_made_room: Mutex<bool>,
    is_matching: AtomicBool,
    /// Some file has got, or will get, another name.
    has_taken: AtomicBool,
}

impl<A: Tree, B: Tree> Default for Apart<A, B> {
    fn default() -> Self {
        let (new, old) = (Vec::new(), Vec::new());
        let state = State { stage: Stage::Gathering, new, old, names: OldNames::new(false), tried: 0 };
        let (is_matching, has_taken) = (AtomicBool::new(false), AtomicBool::new(false));
        let (decided, has_made_room) = (Condvar::new(), Mutex::new(false));
        Apart { state: Mutex::new(state), decided, has_made_room, is_matching, has_taken }
    }
}

impl<A: Tree, B: Tree> Apart<A, B> {
    /// Uses the old names for a search.
    pub(super) fn search<T>(&self, search: impl FnOnce(&mut OldNamesOf<A, B>) -> T) -> T {
        let mut state = self.state.lock();
        let found = search(&mut state.names);
        self.has_taken.store(state.names.has_taken(), Ordering::Release);
        found
    }

    /// Takes the old name of a file, which is to be compared.
    pub(super) fn try_file(&self, node: &Node, name: &CStr) -> Option<TriedFile<'_, A, B>> {
        let mut state = self.state.lock();
        let file = state.names.take_file(node, name)?;
        state.tried += 1;
        self.has_taken.store(true, Ordering::Release);
        Some(TriedFile { apart: self, file: Some(file) })
    }

    /// Ends the search. Returns the old names that are still to be removed, once it is decided of each which
    /// are: a file that another thread compares is not, or is after all.
    fn close(&self) -> Vec<OldEntry<A, B>> {
        let mut state = self.state.lock();
        state.stage = Stage::Over;
        state.names.close();
        self.is_matching.store(false, Ordering::Release);
        while state.tried > 0 {
            self.decided.wait(&mut state);
        }
        std::mem::take(&mut state.old)
    }
}

/// A file that was taken by size and time. It is given back unless its content is found to be the same.
pub(super) struct TriedFile<'a, A: Tree, B: Tree> {
    apart: &'a Apart<A, B>,
    file: Option<TakenName<B::Dir>>,
}

impl<A: Tree, B: Tree> TriedFile<'_, A, B> {
    pub(super) fn file(&self) -> Option<&TakenName<B::Dir>> {
        self.file.as_ref()
    }

    /// Keeps the file, whose name is the old one.
    pub(super) fn keep(mut self) -> Option<TakenName<B::Dir>> {
        self.file.take()
    }
}

impl<A: Tree, B: Tree> Drop for TriedFile<'_, A, B> {
    fn drop(&mut self) {
        let mut state = self.apart.state.lock();
        if let Some(file) = self.file.take() {
            state.names.give_back(&file);
        }
        state.tried -= 1;
        if state.tried == 0 {
            self.apart.decided.notify_all();
        }
    }
}

/// Tasks of so many names each.
fn in_tasks<A: Tree, B: Tree, T>(names: Vec<T>, task: impl Fn(Vec<T>) -> Task<A, B>) -> Task<A, B> {
    let (mut names, mut tasks) = (names.into_iter().peekable(), Vec::new());
    while names.peek().is_some() {
        tasks.push(task(names.by_ref().take(TASK_NAMES).collect()));
    }
    Task::Several(tasks)
}

impl<A: Tree, B: Tree, E: Effect<A, B>> Engine<'_, A, B, E> {
    /// True where a file may get another name: where names are not removed, it would be one too many.
    fn finds_renames(&self) -> bool {
        self.finds_removed && !self.options.no_renames
    }

    pub(super) fn is_matching(&self) -> bool {
        self.apart.is_matching.load(Ordering::Acquire)
    }

    fn most_aside(&self) -> usize {
        // A list is the same each time, whichever names the threads meet first.
        if self.options.in_order { usize::MAX } else { MOST_NAMES }
    }

    /// Sets aside a name that `b` lacks, if an old name may belong to it. Returns it otherwise.
    pub(super) fn set_new_aside(
        &self,
        pair: &Arc<Pair<A, B>>,
        both: Both<A>,
        node: &Node,
    ) -> Option<Both<A>> {
        let is_new = both.b.is_none() && pair.b.is_some() && pair.old.is_some();
        let may_move = both.a.is_dir() && self.is_entered(pair, node) || is_movable_file(node);
        if !is_new || !may_move || !self.finds_renames() {
            return Some(both);
        }
        let mut state = self.apart.state.lock();
        if state.stage != Stage::Gathering || state.new.len() >= self.most_aside() {
            return Some(both);
        }
        pair.tasks.add();
        state.new.push(Waiting { pair: pair.clone(), both, node: *node });
        None
    }

    /// Sets aside a name that only `b` has; returns it where that is not to be.
    pub(super) fn set_old_aside(&self, pair: &Arc<Pair<A, B>>, name: Name) -> Option<Name> {
        if !self.finds_renames() {
            return Some(name);
        }
        let mut state = self.apart.state.lock();
        if state.stage != Stage::Gathering || state.old.len() >= self.most_aside() {
            return Some(name);
        }
        pair.tasks.add();
        state.old.push(OldEntry { pair: pair.clone(), name });
        None
    }

    /// Takes the names that were set aside.
    pub(super) fn names_apart(&self, threads: usize) {
        if self.begins_matching() {
            // Of several candidates the first that a thread meets is taken.
            let threads = if self.options.in_order { 1 } else { threads };
            let new = std::mem::take(&mut self.apart.state.lock().new);
            self.run_task(threads, in_tasks(new, Task::New));
            if self.apart.search(|names| names.has_taken_directory()) {
                // A directory leaves its old name once it is complete, and before that is removed.
                self.run_waiting();
            }
        }
        let old = self.apart.close();
        let mut new = std::mem::take(&mut self.apart.state.lock().new);
        if !old.is_empty() {
            self.run_task(threads, in_tasks(old, Task::Old));
        }
        if !new.is_empty() {
            sort_by_path(&mut new, Waiting::place);
            self.run_task(threads, in_tasks(new, Task::New));
        }
    }

    /// Prepares the search for the new names among the old ones; false where one of both has none.
    fn begins_matching(&self) -> bool {
        let tops: Vec<OldEntry<A, B>> = {
            let mut state = self.apart.state.lock();
            if state.new.is_empty() || state.old.is_empty() || state.stage == Stage::Over {
                return false;
            }
            sort_by_path(&mut state.new, Waiting::place);
            sort_by_path(&mut state.old, OldEntry::place);
            let copy = |old: &OldEntry<A, B>| OldEntry { pair: old.pair.clone(), name: old.name.clone() };
            state.old.iter().map(copy).collect()
        };
        let names = self.old_names(&tops);
        self.apart.search(|all| *all = names);
        self.apart.state.lock().stage = Stage::Matching;
        self.apart.is_matching.store(true, Ordering::Release);
        true
    }

    /// Compares a name that was set aside.
    pub(super) fn new_name(&self, queue: &Queue<Task<A, B>>, buffers: &mut Buffers, name: Waiting<A, B>) {
        let Waiting { pair, both, node } = name;
        if !self.job.should_stop() {
            if self.is_matching() {
                match self.renamed(queue, buffers, &pair, &both, &node) {
                    Origin::Renamed => {}
                    Origin::Scattered => self.placed(queue, buffers, &pair, both, node),
                    // It comes after the old names, whose room it may need.
                    Origin::New => {
                        return self.apart.state.lock().new.push(Waiting { pair, both, node });
                    }
                }
            } else {
                self.placed(queue, buffers, &pair, both, node);
            }
            self.effect.between();
        }
        self.end_task(buffers, pair);
    }

    /// Removes a name that was set aside, unless its file has got another name.
    pub(super) fn old_name(&self, buffers: &mut Buffers, old: OldEntry<A, B>) {
        self.take_old(buffers, &old);
        self.end_task(buffers, old.pair);
    }

    fn take_old(&self, buffers: &mut Buffers, OldEntry { pair, name }: &OldEntry<A, B>) {
        if self.job.should_stop() {
            return;
        }
        match pair.b.as_ref().is_some_and(|dir| self.is_taken(dir, name)) {
            true => pair.touch(),
            false => {
                self.removed(buffers, pair, name);
            }
        }
    }

    /// True for a name of `b` whose file has got another name, or will get it.
    pub(super) fn is_taken(&self, dir: &B::Dir, name: &Name) -> bool {
        self.apart.has_taken.load(Ordering::Acquire)
            && self
                .b
                .node(dir, name)
                .is_ok_and(|node| self.apart.search(|names| names.is_taken(node.meta.id)))
    }

    /// The way to get room in a volume that is full. One thread makes it, and others that need it wait. A
    /// thread that comes later tries once more for nothing, and does not know that.
    pub(super) fn room(&self) -> impl Fn(&mut Buffers) -> bool + '_ {
        |buffers| {
            let mut has_made_room = self.apart.has_made_room.lock();
            let old = self.apart.close();
            *has_made_room |= !old.is_empty();
            old.iter().for_each(|old| self.take_old(buffers, old));
            let has_some = *has_made_room;
            drop(has_made_room);
            // A directory that is complete by that may get its new name, which may need room in turn.
            old.into_iter().for_each(|old| self.end_task(buffers, old.pair));
            has_some
        }
    }
}
