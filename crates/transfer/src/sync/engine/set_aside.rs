//! Names that only one tree has. They are set aside until all others are compared: a file that only the one
//! tree has may be one of the other tree under another name.
//!
//! Then the new names that have an old one come first, the old ones are removed, and the other new names come
//! last, so that they have the room of what is removed. A tree that follows and is full gets that room at
//! once, and nothing is renamed from then on.

use super::directory::TASK_NAMES;
use super::renames::Origin;
use super::{Both, Engine, OldEntry, Task, Waiting};
use crate::running::queue::Queue;
use crate::sync::effect::Effect;
use crate::sync::node::{Name, Node};
use crate::sync::old_names::{OldNames, is_movable_file};
use crate::sync::pair::Pair;
use crate::sync::tree::{Buffers, Tree};
use lanefs_sync::lock::Mutex;
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
    names: OldNames<B::Dir>,
}

/// The names that are set aside.
pub(in crate::sync) struct Apart<A: Tree, B: Tree> {
    state: Mutex<State<A, B>>,
    is_matching: AtomicBool,
    /// Some file has got, or will get, another name.
    has_taken: AtomicBool,
}

impl<A: Tree, B: Tree> Default for Apart<A, B> {
    fn default() -> Self {
        let (new, old) = (Vec::new(), Vec::new());
        let state = State { stage: Stage::Gathering, new, old, names: OldNames::default() };
        let (is_matching, has_taken) = (AtomicBool::new(false), AtomicBool::new(false));
        Apart { state: Mutex::new(state), is_matching, has_taken }
    }
}

impl<A: Tree, B: Tree> Apart<A, B> {
    /// Uses the old names for a search.
    pub(super) fn search<T>(&self, search: impl FnOnce(&mut OldNames<B::Dir>) -> T) -> T {
        let mut state = self.state.lock();
        let found = search(&mut state.names);
        self.has_taken.store(state.names.has_taken(), Ordering::Release);
        found
    }

    /// Ends the search. Returns the old names that are still to be removed.
    fn close(&self) -> Vec<OldEntry<A, B>> {
        let mut state = self.state.lock();
        state.stage = Stage::Over;
        state.names.close();
        self.is_matching.store(false, Ordering::Release);
        std::mem::take(&mut state.old)
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
    pub(super) fn set_new_aside(&self, pair: &Arc<Pair<A, B>>, both: Both, node: &Node) -> Option<Both> {
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
            new.sort_by_cached_key(|name| name.pair.path(name.both.a.name.to_bytes()));
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
            state.new.sort_by_cached_key(|name| name.pair.path(name.both.a.name.to_bytes()));
            state.old.sort_by_cached_key(|old| old.pair.path(old.name.name.to_bytes()));
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
        let OldEntry { pair, name } = old;
        if !self.job.should_stop() {
            match pair.b.as_ref().is_some_and(|dir| self.is_taken(dir, &name)) {
                true => pair.touch(),
                false => {
                    self.removed(buffers, &pair, &name);
                }
            }
        }
        self.end_task(buffers, pair);
    }

    /// True for a name of `b` whose file has got another name, or will get it.
    pub(super) fn is_taken(&self, dir: &B::Dir, name: &Name) -> bool {
        self.apart.has_taken.load(Ordering::Acquire)
            && self
                .b
                .node(dir, name)
                .is_ok_and(|node| self.apart.search(|names| names.is_taken(node.meta.id)))
    }

    /// The way to get room in a volume that is full.
    pub(super) fn room(&self) -> impl Fn(&mut Buffers) -> bool + '_ {
        |buffers| {
            let old = self.apart.close();
            let has_some = !old.is_empty();
            old.into_iter().for_each(|old| self.old_name(buffers, old));
            has_some
        }
    }
}
