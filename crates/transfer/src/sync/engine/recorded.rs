//! Directories that are as the last sync has found them, and the record for the next one.

use super::{Engine, Task, WhichTree};
use crate::running::job::count;
use crate::running::queue::Queue;
use crate::sync::effect::Effect;
use crate::sync::last_sync::{LastSync, SyncedDir};
use crate::sync::node::{Name, Node};
use crate::sync::pair::{Pair, Sides};
use crate::sync::scope::ComparedPart;
use crate::sync::tree::{Buffers, Tree};
use lanefs::{FileKind, Ino};
use std::ffi::{CStr, CString};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

/// Most directories in one that is passed over, some 300 bytes each. One with more is compared.
const MOST_BELOW: usize = 1 << 14;

/// The use of the record of the last sync.
#[derive(Clone, Copy)]
pub(in crate::sync) struct Recording<'r> {
    pub(in crate::sync) last: &'r LastSync,
    /// The device of the tree that is followed. Directories on another one are not recorded.
    pub(in crate::sync) dev: u64,
    /// Directories that are as they were are not compared.
    pub(in crate::sync) is_used: bool,
    /// Directories are recorded for the next sync.
    pub(in crate::sync) is_made: bool,
}

/// A directory in one that is as the last sync has found it: the names of both are the same.
pub(in crate::sync) struct Below<A: Tree, B: Tree> {
    above: Arc<Pair<A, B>>,
    name: Name,
    node: Node,
    old: Node,
}

impl<A: Tree, B: Tree> Below<A, B> {
    /// The directory above, which waits for this one.
    pub(super) fn above(&self) -> Arc<Pair<A, B>> {
        self.above.clone()
    }
}

/// The findings of a walk over the names of a directory.
#[derive(Default)]
pub(super) struct NamesInWalk {
    /// Number of those that are not directories.
    files: u64,
    directories: Vec<(CString, Node)>,
    has_too_many: bool,
}

impl NamesInWalk {
    /// Adds what a walk over other names of the directory has found.
    pub(super) fn join(&mut self, more: NamesInWalk) {
        self.files += more.files;
        self.directories.extend(more.directories);
        self.has_too_many |= more.has_too_many || self.directories.len() > MOST_BELOW;
    }

    pub(super) fn add(&mut self, name: &CStr, node: &Node) {
        if node.meta.kind != FileKind::Directory {
            self.files += 1;
        } else if self.directories.len() < MOST_BELOW {
            self.directories.push((name.to_owned(), *node));
        } else {
            self.has_too_many = true;
        }
    }
}

impl<A: Tree, B: Tree, E: Effect<A, B>> Engine<'_, A, B, E> {
    /// Passes over a directory that is as the last sync has found it, and goes on with those in it; false
    /// where it has to be compared.
    pub(super) fn is_as_synced(
        &self,
        queue: &Queue<Task<A, B>>,
        buffers: &mut Buffers,
        pair: &Arc<Pair<A, B>>,
    ) -> bool {
        let Some((recording, known)) = self.recorded(pair) else { return false };
        let last = recording.last;
        let (mut fingerprint, mut names) = (last.fingerprint(&pair.a.1.meta), NamesInWalk::default());
        let mut walked = std::mem::take(&mut buffers.walked);
        walked.begin(pair.a.1.meta.id);
        let outcome = self.a.each_node(self.job, buffers, &pair.a.0, &mut |name, node| {
            last.add_name(&mut fingerprint, name.to_bytes(), &node.meta);
            names.add(name, node);
            walked.push(name, node);
        });
        if outcome.is_err() {
            return false;
        }
        let passes = self.passes_over(queue, pair, (recording, known), fingerprint.value(), names);
        if passes {
            walked.clear();
        } else {
            // It is compared by what the walk has read.
            let changed = fingerprint.changed_parts(last.parts(known));
            walked.end(fingerprint, changed);
        }
        buffers.walked = walked;
        passes
    }

    /// Passes over a directory whose names have this fingerprint; false where it has to be compared.
    pub(super) fn passes_over(
        &self,
        queue: &Queue<Task<A, B>>,
        pair: &Arc<Pair<A, B>>,
        (recording, known): (Recording<'_>, SyncedDir),
        fingerprint: u128,
        names: NamesInWalk,
    ) -> bool {
        let last = recording.last;
        if names.has_too_many || fingerprint != known.fingerprint || fingerprint == 0 {
            return false;
        }
        let Some(below) = self.directories_below(last, pair, names.directories) else { return false };
        self.job.counters.compared.fetch_add(names.files, Relaxed);
        self.tally.pass_over(names.files + 1);
        if recording.is_made {
            last.keep(known);
        }
        for below in below {
            pair.tasks.add();
            queue.push(Task::Below(Box::new(below)));
        }
        true
    }

    /// The record of a directory, if it counts.
    pub(super) fn recorded(&self, pair: &Pair<A, B>) -> Option<(Recording<'_>, SyncedDir)> {
        let recording = self.recording.filter(|recording| recording.is_used)?;
        let (meta, b) = (&pair.a.1.meta, pair.b.as_ref()?);
        // One that had another name is compared with its content.
        let is_whole = pair.part == ComparedPart::All && !pair.reads_content;
        pair.old.filter(|_| is_whole && meta.id.dev == recording.dev)?;
        let known = recording.last.find(meta.id.ino)?;
        let is_told = known.fingerprint != 0 || !recording.last.parts(known).is_empty();
        let is_known = known.volume == self.b.number(b) && is_told;
        is_known.then_some((recording, known))
    }

    /// The directories of a directory with those of `b`, which the record names; `None` where it lacks one.
    fn directories_below(
        &self,
        last: &LastSync,
        pair: &Arc<Pair<A, B>>,
        names: Vec<(CString, Node)>,
    ) -> Option<Vec<Below<A, B>>> {
        let dir = pair.b.as_ref()?;
        let there = |(name, node): &(CString, Node)| {
            let Ino(ino) = last.find(node.meta.id.ino)?.volume;
            Some(Name { name: name.clone(), kind: FileKind::Directory, ino })
        };
        let there: Vec<Name> = names.iter().map(there).collect::<Option<_>>()?;
        let nodes = self.b.nodes(dir, &there.iter().collect::<Vec<_>>()).ok()?;
        let is_dir = |old: &Node| old.meta.kind == FileKind::Directory;
        let below = there.into_iter().zip(names).zip(nodes).map(|((name, (_, node)), old)| {
            let old = old.filter(is_dir)?;
            Some(Below { above: pair.clone(), name, node, old })
        });
        below.collect()
    }

    /// Goes on with a directory in one that was passed over. `None` where it is gone by now, or another one;
    /// that is reported.
    pub(super) fn enter_below(&self, below: Below<A, B>) -> Option<Arc<Pair<A, B>>> {
        let Below { above, name, node, old } = below;
        let dir = above.b.as_ref()?;
        let a = self.a.enter(&above.a.0, &name, &node).map_err(|failure| (WhichTree::A, failure));
        let enter_b = |a| match self.b.enter(dir, &name, &old) {
            Ok(b) => Ok((a, b)),
            Err(failure) => Err((WhichTree::B, failure)),
        };
        match a.and_then(enter_b) {
            Ok((a, b)) => {
                let sides = Sides { a: (a, node), b: Some(b), old: Some(old), made: None, moved: None };
                let name = name.name.to_bytes().to_vec();
                Some(Pair::new(Some((above, name)), sides, ComparedPart::All))
            }
            Err((side, failure)) => {
                self.failed(&above.path(name.name.to_bytes()), side, failure);
                None
            }
        }
    }

    /// Begins the fingerprint of a directory that is compared.
    fn begin_fingerprint(&self, buffers: &mut Buffers, pair: &Pair<A, B>) {
        if let Some(recording) = self.recording.filter(|recording| recording.is_made)
            && pair.b.is_some()
            && pair.part == ComparedPart::All
            && pair.a.1.meta.id.dev == recording.dev
        {
            let of_walk = buffers.walked.take_fingerprint(pair.a.1.meta.id);
            pair.begin_fingerprint(of_walk.unwrap_or_else(|| recording.last.fingerprint(&pair.a.1.meta)));
        }
    }

    /// Adds a name to the fingerprint of its directory.
    pub(super) fn add_to_fingerprint(&self, pair: &Pair<A, B>, name: &CStr, node: &Node) {
        if let Some(recording) = &self.recording {
            pair.with_fingerprint(|fingerprint| {
                recording.last.add_name(fingerprint, name.to_bytes(), &node.meta);
            });
        }
    }

    /// Records a directory that is the same in both trees.
    pub(super) fn record(&self, pair: &Pair<A, B>) {
        if let (Some(recording), Some(b)) = (&self.recording, &pair.b) {
            let (host, volume) = (pair.a.1.meta.id.ino, self.b.number(b));
            pair.with_fingerprint(|fingerprint| {
                let dir = SyncedDir { host, volume, fingerprint: fingerprint.value() };
                recording.last.add(dir, &fingerprint.parts());
            });
        }
    }

    /// Counts a directory as compared, and compares it unless it is as the last sync has found it.
    pub(super) fn directory(&self, queue: &Queue<Task<A, B>>, buffers: &mut Buffers, pair: &Arc<Pair<A, B>>) {
        count(&self.job.counters.compared);
        buffers.walked.clear();
        if !self.is_walked_in_slices(queue, buffers, pair)
            && !self.is_as_synced(queue, buffers, pair)
            && !self.gather(queue, buffers, pair)
        {
            self.compare_walked(queue, buffers, pair);
        }
    }

    /// Compares a directory that is not as the last sync has found it.
    pub(super) fn compare_walked(
        &self,
        queue: &Queue<Task<A, B>>,
        buffers: &mut Buffers,
        pair: &Arc<Pair<A, B>>,
    ) {
        self.begin_fingerprint(buffers, pair);
        self.compared_directory(queue, buffers, pair);
    }
}
