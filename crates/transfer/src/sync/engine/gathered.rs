//! Directories of which files have changed since the last sync. Some are compared together: what the volume
//! has of all their changed names comes in one batch, and not block by block.

use super::{Engine, Task};
use crate::running::queue::Queue;
use crate::sync::effect::Effect;
use crate::sync::pair::Pair;
use crate::sync::tree::{Buffers, Tree};
use crate::sync::walked::WalkedNames;
use lanefs::FileKind;
use lanefs_sync::lock::Mutex;
use std::sync::Arc;

/// Most directories that are compared together, and names in them from which on no further one joins: some
/// 600 KiB.
const MOST_DIRECTORIES: usize = 32;
const ENOUGH_NAMES: usize = 4096;

/// A directory of which files have changed, with the names that a walk has read.
pub(in crate::sync) struct ChangedDir<A: Tree, B: Tree> {
    pair: Arc<Pair<A, B>>,
    walked: WalkedNames,
}

/// The directories that are compared together next.
pub(in crate::sync) struct ChangedDirs<A: Tree, B: Tree>(Mutex<DirsTogether<A, B>>);

struct DirsTogether<A: Tree, B: Tree> {
    dirs: Vec<ChangedDir<A, B>>,
    names: usize,
    /// A task waits that compares them when the others are done.
    has_task: bool,
}

impl<A: Tree, B: Tree> Default for ChangedDirs<A, B> {
    fn default() -> Self {
        ChangedDirs(Mutex::new(DirsTogether { dirs: Vec::new(), names: 0, has_task: false }))
    }
}

impl<A: Tree, B: Tree> DirsTogether<A, B> {
    fn take(&mut self) -> Vec<ChangedDir<A, B>> {
        self.names = 0;
        std::mem::take(&mut self.dirs)
    }
}

impl<A: Tree, B: Tree, E: Effect<A, B>> Engine<'_, A, B, E> {
    /// Puts a directory aside that a walk has read, to be compared with others; false where it has to be
    /// compared by itself.
    pub(super) fn gather(
        &self,
        queue: &Queue<Task<A, B>>,
        buffers: &mut Buffers,
        pair: &Arc<Pair<A, B>>,
    ) -> bool {
        let walked = &buffers.walked;
        if !walked.is_of(pair.a.1.meta.id) || walked.changed().is_none() || pair.b.is_none() {
            return false;
        }
        pair.tasks.add();
        let walked = std::mem::take(&mut buffers.walked);
        let mut gathering = self.gathered.0.lock();
        gathering.names += walked.len();
        gathering.dirs.push(ChangedDir { pair: pair.clone(), walked });
        let is_full = gathering.dirs.len() >= MOST_DIRECTORIES || gathering.names >= ENOUGH_NAMES;
        let needs_task = !is_full && !std::mem::replace(&mut gathering.has_task, true);
        let dirs = if is_full { gathering.take() } else { Vec::new() };
        drop(gathering);
        if needs_task {
            queue.push_below(Task::Gathered);
        }
        self.bring_together(queue, dirs);
        true
    }

    /// Compares the directories that are left when all others are done.
    pub(super) fn compare_gathered(&self, queue: &Queue<Task<A, B>>) {
        let mut gathering = self.gathered.0.lock();
        gathering.has_task = false;
        let dirs = gathering.take();
        drop(gathering);
        self.bring_together(queue, dirs);
    }

    /// Prepares to find the changed names of some directories, and makes each a task.
    fn bring_together(&self, queue: &Queue<Task<A, B>>, dirs: Vec<ChangedDir<A, B>>) {
        let mut names = Vec::new();
        for ChangedDir { pair, walked } in &dirs {
            if let (Some(b), Some(changed)) = (&pair.b, walked.changed()) {
                let files = walked.iter().filter(|(_, node)| node.meta.kind != FileKind::Directory);
                let files = files.filter(|(name, _)| changed.has(name.to_bytes()));
                names.extend(files.map(|(name, _)| (b, name)));
            }
        }
        if !names.is_empty() && !self.job.should_stop() {
            self.b.bring(&names);
        }
        drop(names);
        dirs.into_iter().rev().for_each(|dir| queue.push(Task::Changed(Box::new(dir))));
    }

    /// Compares a directory whose names are prepared.
    pub(super) fn changed_directory(
        &self,
        queue: &Queue<Task<A, B>>,
        buffers: &mut Buffers,
        ChangedDir { pair, walked }: ChangedDir<A, B>,
    ) {
        if !self.job.should_stop() {
            buffers.walked = walked;
            self.compare_walked(queue, buffers, &pair);
        }
        self.end_task(buffers, pair);
    }
}
