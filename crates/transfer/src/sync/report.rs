//! The outcome of a sync or of a comparison.

use super::difference::Change;
use crate::running::commits::CountedBeside;
use crate::running::report::Report;
use lanefs_sync::lock::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

/// Numbers of names.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SyncCounts {
    /// Names of the source that were compared, including the top directory.
    pub compared: u64,
    /// Those of them whose directories are as the last sync has found them, so that they were not looked up
    /// in the tree that follows.
    pub passed_over: u64,
    /// Names that were added.
    pub added: u64,
    /// Names whose file was replaced, because its content or its type differed.
    pub replaced: u64,
    /// Names of which only attributes were set.
    pub attributes: u64,
    /// Names that became further ones of another file.
    pub linked: u64,
    /// Names that were removed.
    pub removed: u64,
    /// Names of files and directories that had another name.
    pub renamed: u64,
}

impl SyncCounts {
    /// Names that differ.
    #[must_use]
    pub fn differences(&self) -> u64 {
        self.added + self.replaced + self.attributes + self.linked + self.removed + self.renamed
    }
}

/// The outcome of a sync or of a comparison.
#[derive(Debug, Default)]
pub struct SyncReport {
    /// Files that were copied into the volume, problems, and the end. A dry run and a comparison copy
    /// nothing, so their counts are 0.
    pub report: Report,
    /// The differences that were found; of a sync those that were applied and are durable.
    pub counts: SyncCounts,
    /// A file that differs has several names, and the [scope](super::Scope) was limited: some of its names may
    /// be outside. Only a sync of the whole tree finds them.
    pub needs_whole: bool,
}

/// A counter for each kind of difference.
#[derive(Default)]
pub(super) struct Tally {
    passed_over: AtomicU64,
    added: AtomicU64,
    replaced: AtomicU64,
    attributes: AtomicU64,
    linked: AtomicU64,
    removed: AtomicU64,
    renamed: AtomicU64,
    /// A file that differs has several names.
    has_links: AtomicBool,
    /// The counts when the last commit began, and those that the last one that succeeded made durable.
    begun: Mutex<SyncCounts>,
    durable: Mutex<SyncCounts>,
}

/// A difference is counted once it is applied, so a commit that begins then has it.
impl CountedBeside for Tally {
    fn begin_commit(&self) {
        *self.begun.lock() = self.counts(0);
    }

    fn end_commit(&self) {
        *self.durable.lock() = *self.begun.lock();
    }
}

impl Tally {
    pub(super) fn meet_links(&self) {
        self.has_links.store(true, Relaxed);
    }

    pub(super) fn has_links(&self) -> bool {
        self.has_links.load(Relaxed)
    }

    pub(super) fn pass_over(&self, names: u64) {
        self.passed_over.fetch_add(names, Relaxed);
    }

    pub(super) fn count(&self, change: Change) {
        let counter = match change {
            Change::Added => &self.added,
            Change::Removed => &self.removed,
            Change::Type | Change::Replaced(_) => &self.replaced,
            Change::Attributes(_) => &self.attributes,
            Change::Linked(_) => &self.linked,
            Change::Renamed(_) => &self.renamed,
        };
        counter.fetch_add(1, Relaxed);
    }

    /// The numbers of a sync, of which all changes so far are to be durable: those that are.
    pub(super) fn durable_counts(&self, compared: u64) -> SyncCounts {
        SyncCounts { compared, passed_over: self.passed_over.load(Relaxed), ..*self.durable.lock() }
    }

    pub(super) fn counts(&self, compared: u64) -> SyncCounts {
        SyncCounts {
            compared,
            passed_over: self.passed_over.load(Relaxed),
            added: self.added.load(Relaxed),
            replaced: self.replaced.load(Relaxed),
            attributes: self.attributes.load(Relaxed),
            linked: self.linked.load(Relaxed),
            removed: self.removed.load(Relaxed),
            renamed: self.renamed.load(Relaxed),
        }
    }
}
