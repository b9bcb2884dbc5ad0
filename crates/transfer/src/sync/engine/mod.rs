//! The comparison of two trees by several threads, and the use of each difference as soon as it is found.
//!
//! A task is a directory, or some names of one. A directory's names are listed on both sides and matched;
//! those of the tree that is followed are then looked at one by one. So the memory goes with the names of the
//! directories in progress, as many as there are threads, and not with the tree. A name takes some 40 bytes
//! until it is its task's turn.

mod directory;
mod file;
mod gathered;
mod recorded;
mod removal;
mod renames;
mod set_aside;
mod slices;

use super::difference::{Aspects, Change, Difference};
use super::effect::{Effect, Found};
use super::failure::{self, Failure, WhichTree};
use super::links::Links;
use super::listing::Segment;
use super::node::{InSeconds, Name, Node, attributes, extended, gains_rights};
use super::old_names::OldNames;
use super::options::SyncOptions;
use super::pair::Pair;
use super::report::Tally;
use super::tree::{Buffers, Tree};
use super::walk_order::sort_by_path;
use super::{content, effect};
use crate::running::job::TransferJob;
use crate::running::queue::{default_threads, run_tasks};
use lanefs::FileKind;
use lanefs_sync::lock::Mutex;
use rustix::io::Errno;
use std::ffi::CStr;
use std::ops::Range;
use std::sync::Arc;

use gathered::ChangedDir;
use recorded::Below;
use slices::WalkSlice;

pub(super) use gathered::ChangedDirs;
pub(super) use recorded::Recording;
pub(super) use set_aside::Apart;

/// The old names of a comparison.
type OldNamesOf<A, B> = OldNames<<B as Tree>::Dir, Arc<Pair<A, B>>>;

/// Receiver of the differences. Several threads call it, each for one difference at a time.
pub(super) type Receiver<'r> = dyn Fn(&Difference) + Sync + 'r;

/// A comparison of the tree `a`, which is followed, with the tree `b`, and its effect on `b`.
pub(super) struct Engine<'e, A: Tree, B: Tree, E> {
    pub(super) job: &'e TransferJob<'e>,
    pub(super) a: &'e A,
    pub(super) b: &'e B,
    pub(super) effect: &'e E,
    pub(super) options: &'e SyncOptions,
    /// Names that only `b` has are differences.
    pub(super) finds_removed: bool,
    /// The sides whose times without a fraction are any of their second.
    pub(super) in_seconds: InSeconds,
    pub(super) receiver: &'e Receiver<'e>,
    pub(super) links: Links,
    pub(super) tally: &'e Tally,
    /// Names that wait for all others ([`SyncOptions::in_order`]).
    pub(super) waiting: Mutex<Vec<Waiting<A, B>>>,
    pub(super) apart: Apart<A, B>,
    pub(super) gathered: ChangedDirs<A, B>,
    /// `None` for trees of which no sync is recorded.
    pub(super) recording: Option<Recording<'e>>,
}

/// A name that waits for others.
pub(super) struct Waiting<A: Tree, B: Tree> {
    pair: Arc<Pair<A, B>>,
    both: Both<A>,
    node: Node,
}

impl<A: Tree, B: Tree> Waiting<A, B> {
    fn place(&self) -> (&Pair<A, B>, &[u8]) {
        (&self.pair, self.both.a.name.to_bytes())
    }
}

/// A name that only `b` has, in a directory of both trees.
pub(super) struct OldEntry<A: Tree, B: Tree> {
    pair: Arc<Pair<A, B>>,
    name: Name,
}

impl<A: Tree, B: Tree> OldEntry<A, B> {
    fn place(&self) -> (&Pair<A, B>, &[u8]) {
        (&self.pair, self.name.name.to_bytes())
    }
}

/// A name of `a`, and the same of `b`. There are as many at a time as a task has names.
pub(super) struct Both<A: Tree> {
    a: Name,
    b: Option<Name>,
    /// The file of `a`, where a walk has read it already.
    node: Option<Box<Node>>,
    /// The file of `a` where it is open already, until the name is done.
    open: Option<A::File>,
    /// The file of `b`, once it is known.
    old: Option<Box<Node>>,
}

/// A part of the work.
pub(super) enum Task<A: Tree, B: Tree> {
    Directory(Arc<Pair<A, B>>),
    Names(Arc<Pair<A, B>>, Arc<Segment>, Range<usize>),
    Waiting(Vec<Waiting<A, B>>),
    /// Names that only `a` has.
    New(Vec<Waiting<A, B>>),
    /// Names that only `b` has.
    Old(Vec<OldEntry<A, B>>),
    Several(Vec<Task<A, B>>),
    /// A directory in one that is as the last sync has found it.
    Below(Box<Below<A, B>>),
    /// Some names of a directory, which are walked for its fingerprint.
    Slice(WalkSlice<A, B>),
    /// A directory of which files have changed since the last sync.
    Changed(Box<ChangedDir<A, B>>),
    /// The directories of which files have changed that no task has yet.
    Gathered,
}

impl<A: Tree, B: Tree, E: Effect<A, B>> Engine<'_, A, B, E> {
    /// Compares the directories of `top` with all that is below them.
    pub(super) fn run(&self, top: Arc<Pair<A, B>>) {
        let threads = self.options.threads.unwrap_or_else(default_threads);
        self.run_task(threads, Task::Directory(top));
        self.names_apart(threads);
        self.run_waiting();
    }

    /// Compares the names that wait for all others so far.
    fn run_waiting(&self) {
        let mut waiting = std::mem::take(&mut *self.waiting.lock());
        if !waiting.is_empty() {
            sort_by_path(&mut waiting, Waiting::place);
            self.run_task(1, Task::Waiting(waiting));
        }
    }

    fn run_task(&self, threads: usize, first: Task<A, B>) {
        run_tasks(
            threads,
            first,
            Buffers::new,
            |queue, buffers, task| match task {
                Task::Directory(pair) => {
                    if !self.job.should_stop() {
                        self.directory(queue, buffers, &pair);
                    }
                    self.end_task(buffers, pair);
                }
                Task::Names(pair, segment, range) => {
                    self.names(queue, buffers, &pair, &segment, range);
                    self.end_task(buffers, pair);
                }
                Task::Below(below) => {
                    let above = below.above();
                    let pair = (!self.job.should_stop()).then(|| self.enter_below(*below)).flatten();
                    if let Some(pair) = &pair {
                        self.directory(queue, buffers, pair);
                    }
                    // The directory above waits for this one.
                    self.end_task(buffers, pair.unwrap_or(above));
                }
                Task::Slice(slice) => {
                    self.slice(queue, buffers, &slice);
                    self.end_task(buffers, slice.pair());
                }
                Task::Changed(dir) => self.changed_directory(queue, buffers, *dir),
                Task::Gathered => self.compare_gathered(queue),
                Task::Waiting(names) => names.into_iter().for_each(|name| self.waited(buffers, name)),
                Task::New(names) => names.into_iter().for_each(|name| self.new_name(queue, buffers, name)),
                Task::Old(names) => names.into_iter().for_each(|name| self.old_name(buffers, name)),
                // The last one that is pushed is the next that a thread takes.
                Task::Several(tasks) => tasks.into_iter().rev().for_each(|task| queue.push(task)),
            },
            || self.job.report_progress(false),
        );
    }

    /// Compares a name after all others.
    fn waited(&self, buffers: &mut Buffers, name: Waiting<A, B>) {
        let Waiting { pair, both, node } = name;
        if !self.job.should_stop() {
            self.file(buffers, &pair, &both, &node);
            self.effect.between();
        }
        self.end_task(buffers, pair);
    }

    /// Ends a task of a directory. The last one completes the directory, which ends a task of its parent.
    fn end_task(&self, buffers: &mut Buffers, pair: Arc<Pair<A, B>>) {
        let mut current = Some(pair);
        while let Some(pair) = current {
            if !pair.tasks.end() {
                return;
            }
            self.complete(buffers, &pair);
            current = pair.parent.clone();
        }
    }

    fn complete(&self, buffers: &mut Buffers, pair: &Pair<A, B>) {
        // An end of the sync is to come soon, however deep the directory is. The next one completes it.
        if self.job.should_stop() {
            return;
        }
        let aspects = pair.aspects.get().copied().unwrap_or_default();
        let path = || self.a.path(&pair.path(b""));
        let done = pair.b.as_ref().is_none_or(|b| {
            let (a, b) = ((&pair.a.0, &pair.a.1), (b, pair.old.as_ref()));
            let dir = effect::Complete { a, b, aspects, is_touched: pair.is_touched(), path: &path };
            self.effect.complete(buffers, &dir)
        });
        if !done {
            return;
        }
        self.record(pair);
        if let Some(old) = &pair.moved {
            return self.moved(buffers, pair, old, aspects);
        }
        let change = pair.made.or((!aspects.is_empty()).then_some(Change::Attributes(aspects)));
        if let Some(change) = change {
            self.differs(pair.path(b""), FileKind::Directory, change);
        }
    }

    /// Passes a difference on.
    fn differs(&self, path: Vec<u8>, kind: FileKind, change: Change) {
        self.is_different(Difference { path, kind, change, from: None });
    }

    fn is_different(&self, difference: Difference) {
        self.tally.count(difference.change);
        (self.receiver)(&difference);
    }

    /// [`differs`](Self::differs) for a name that is not a directory.
    fn file_differs(&self, path: Vec<u8>, node: &Node, change: Change) {
        if node.meta.links > 1 {
            self.tally.meet_links();
        }
        self.differs(path, node.meta.kind, change);
    }

    /// True for a path below the top that is left out.
    fn leaves_out(&self, path: &[u8], is_dir: bool) -> bool {
        !self.options.filter.is_empty() && self.options.filter.leaves_out(path, is_dir)
    }

    /// The aspects in which two files of the same type differ. `dirs`, `names`: both directories, and the
    /// name in each; without names the directories themselves. `reads_content`: size and time do not tell
    /// that the content is the same.
    fn compare(
        &self,
        buffers: &mut Buffers,
        dirs: (&A::Dir, &B::Dir),
        names: Option<(&CStr, &CStr)>,
        nodes: (&Node, &Node),
        reads_content: bool,
    ) -> Result<Aspects, (WhichTree, Failure)> {
        let ((dir_a, dir_b), (a, b)) = (dirs, nodes);
        let in_a = |failure| (WhichTree::A, failure);
        let in_b = |failure| (WhichTree::B, failure);
        let mut aspects = attributes(&a.meta, &b.meta, self.in_seconds);
        let (name_a, name_b) = names.unzip();
        let xattrs = self.a.xattrs(buffers, dir_a, name_a, a).map_err(in_a)?;
        let other_xattrs = self.b.xattrs(buffers, dir_b, name_b, b).map_err(in_b)?;
        let other_xattrs = self.links.xattrs_before(b.meta.id).unwrap_or(other_xattrs);
        aspects |= extended(&xattrs, &other_xattrs);
        let gains_rights = gains_rights((&a.meta, &xattrs), (&b.meta, &other_xattrs));
        match (a.meta.kind, names) {
            // Another size is another content.
            (FileKind::File, Some(_)) if self.options.checksum && aspects.has(Aspects::SIZE) => {
                aspects |= Aspects::CONTENT;
            }
            (FileKind::Symlink, Some((name_a, name_b))) => {
                let target = self.a.link_target(dir_a, name_a, a).map_err(in_a)?;
                let other = self.b.link_target(dir_b, name_b, b).map_err(in_b)?;
                aspects |= Aspects::CONTENT.when(target != other);
            }
            (FileKind::File, Some((name_a, name_b)))
                if (self.options.checksum || gains_rights || reads_content) && a.meta.size == b.meta.size =>
            {
                let (file_a, now) = self.a.open(dir_a, name_a, a).map_err(in_a)?;
                // The attributes are those of the file that was there before: another one's content says
                // nothing of them.
                if now.meta.id != a.meta.id {
                    return Err(in_a(Errno::STALE.into()));
                }
                let (file_b, _) = self.b.open(dir_b, name_b, b).map_err(in_b)?;
                let (a_file, b_file) = ((self.a, &file_a), (self.b, &file_b));
                let same = content::is_same(self.job, buffers, a_file, b_file, a.meta.size);
                aspects |= Aspects::CONTENT.when(!same?);
            }
            _ => {}
        }
        Ok(aspects)
    }

    /// True where a file has to be copied because of these differences.
    fn needs_copy(&self, kind: FileKind, aspects: Aspects) -> bool {
        let by_time = kind == FileKind::File && !self.options.checksum && aspects.has(Aspects::MTIME);
        by_time || aspects.has(Aspects::CONTENT | Aspects::SIZE | Aspects::LINKS)
    }

    /// Reports that a side did not answer about a path below the top.
    fn failed(&self, path: &[u8], side: WhichTree, failure: Failure) {
        let path = match side {
            WhichTree::A => self.a.path(path),
            WhichTree::B => self.b.path(path),
        };
        failure::report(self.job, path, "cannot read the volume, at", failure);
    }

    /// A name of `a` for the effect.
    fn found<'f>(
        &self,
        dir: &'f A::Dir,
        name: &'f Name,
        node: &'f Node,
        path: &'f dyn Fn() -> Vec<u8>,
    ) -> Found<'f, A> {
        Found { dir, name: &name.name, node, file: None, path }
    }
}
