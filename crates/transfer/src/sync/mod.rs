//! Sync of a tree into a volume, and the comparison of two trees: one engine for both.
//!
//! The engine compares the tree that is followed with the tree that follows, directory by directory, and
//! passes each difference to an effect: for a comparison none, for a sync a change of the volume. So a dry
//! run finds what a sync would do. A file is unchanged if type, size, time of modification (to the
//! nanosecond), mode, owner, group, target of a link, number of a device, extended attributes and the other
//! names of the file are the same; content is read where the caller wants that, and where the same content
//! would get another owner, a set-id bit or capabilities: a file of somebody else may have its size and time.
//!
//! Each change is whole: a file is replaced by a rename, and a directory gets its times when all in it is
//! done. So a sync that ends early leaves a tree between the old and the new one, and the next one finishes
//! the work.
//!
//! | module | what it knows |
//! |---|---|
//! | `difference`, `node`, `filter`, `scope`, `unequal_links` | words of both sides, and of callers |
//! | `fingerprint`, `walked`, `last_sync`, `terms` | the record of the last sync, by which directories are passed over |
//! | `options`, `report` | what callers say and hear |
//! | `watch` | the parts of a directory of the host that change |
//! | `failure`, `tree`; `host_tree`, `volume_tree`, `archive_tree` | the interface of a side; a directory of the host, of a volume; an archive |
//! | `content`, `links`, `listing`, `old_names`, `pair`, `walk_order`, `effect` | parts of the comparison |
//! | `engine` | the comparison |
//! | `into_volume` | the effect of a sync |

mod archive_tree;
mod content;
mod difference;
mod effect;
mod engine;
mod failure;
#[cfg(test)]
mod fault_tests;
mod filter;
mod fingerprint;
mod host_tree;
mod into_volume;
mod last_sync;
mod links;
mod listing;
mod node;
mod old_names;
mod options;
mod pair;
mod report;
mod scope;
mod terms;
mod tree;
mod unequal_links;
mod volume_tree;
mod walk_order;
mod walked;
mod watch;

use crate::in_volume::volume::destination;
use crate::on_host::host_top::HostTop;
use crate::running::commits::Commits;
use crate::running::job::{Control, TransferJob};
use crate::vocabulary::error::{Error, Result};
use effect::{Effect, NoEffect};
use engine::{Apart, ChangedDirs, Engine, Receiver, Recording};
use host_tree::HostTree;
use into_volume::IntoVolume;
use lanefs::FileSystem;
use lanefs_sync::lock::Mutex;
use links::Links;
use node::{InSeconds, Node};
use pair::{Pair, Sides};
use report::Tally;
use scope::ComparedPart;
use std::path::Path;
use std::sync::atomic::Ordering::Relaxed;
use tree::{Source, Tree};
use volume_tree::VolumeTree;

pub use archive_tree::{UnpackedArchive, unpack_archive};
pub use difference::{Aspects, Change, Difference, Letters};
pub use filter::Filter;
pub use last_sync::{ImageState, LastSync};
pub use options::SyncOptions;
pub use report::{SyncCounts, SyncReport};
pub use scope::{Depth, Scope};
pub use unequal_links::UnequalLinks;
pub use watch::{TreeWatch, WatchOutcome};

/// Makes the directory `dest` of the volume the same as the directory `source` of the host or of another
/// volume: its attributes, and all that is below it. `dest` is made with its parents where it is missing.
///
/// Each difference goes to `receiver`, from several threads and in no order: those that were found by a dry
/// run, those that were applied otherwise. On return all that the report counts is durable.
///
/// # Errors
///
/// The sync cannot start: `source` is not a directory or cannot be read, `dest` is in the way or cannot be
/// made. All other failures are in the [`SyncReport`].
pub fn sync_tree(
    volume: &dyn FileSystem,
    source: Side<'_>,
    dest: &[u8],
    options: &SyncOptions,
    receiver: &(dyn Fn(&Difference) + Sync),
    control: Control<'_>,
) -> Result<SyncReport> {
    let job = TransferJob::new(control);
    let follower = Follower { volume, dest, options, receiver };
    match source.open("cannot sync")? {
        OpenSide::Host(a) => follower.follow(job, &a, a.top()),
        OpenSide::Volume(a) => {
            let top = there(&a)?;
            follower.follow(job, &a, top)
        }
    }
}

/// The side of a sync that follows.
struct Follower<'s> {
    volume: &'s dyn FileSystem,
    dest: &'s [u8],
    options: &'s SyncOptions,
    receiver: &'s Receiver<'s>,
}

impl Follower<'_> {
    fn follow<A: Source>(&self, job: TransferJob<'_>, a: &A, top: (A::Dir, Node)) -> Result<SyncReport> {
        let Follower { volume, dest, options, receiver } = *self;
        let tally = Tally::default();
        let comparison =
            TreeComparison { job: &job, options, finds_removed: options.delete, receiver, tally: &tally };
        let before = VolumeTree::find(volume, dest)?;
        if options.dry_run {
            let recording = self.recording(a, &top.1, before.top());
            let counts = comparison.run((a, top), (&before, before.top().unzip()), &NoEffect, recording);
            return Ok(SyncReport { report: job.report("the source"), ..counts });
        }
        destination(volume, dest)?;
        let b = VolumeTree::find(volume, dest)?;
        let commits = Commits::new(volume, options.commit).counting(&tally);
        let effect = IntoVolume { job: &job, volume, a, commits: &commits };
        // A new directory has no names, and gets all attributes.
        let old = before.top().map(|(_, node)| node);
        let recording = self.recording(a, &top.1, b.top());
        let counts = comparison.run((a, top), (&b, (b.top().map(|(dir, _)| dir), old)), &effect, recording);
        job.counters.xattrs_refused.fetch_add(a.refused(), Relaxed);
        let (compared, has_far_times) = (counts.counts.compared, job.has_far_times());
        let report = commits.finish(job, "the source or the volume");
        let is_same = report.problems.is_empty() && report.stopped.is_none() && !report.interrupted;
        if let Some(recording) = recording.filter(|_| is_same && a.refused() == 0 && !has_far_times) {
            recording.last.complete();
        }
        Ok(SyncReport { report, counts: tally.durable_counts(compared), ..counts })
    }

    /// The use of the record of the last sync; `None` where there is none, or this one is not recorded.
    fn recording<A: Source>(
        &self,
        a: &A,
        top: &Node,
        dest: Option<(volume_tree::VolumeDir, Node)>,
    ) -> Option<Recording<'_>> {
        let SyncOptions { delete, checksum, dry_run, one_file_system, filter, scope, .. } = self.options;
        let last = self.options.last_sync.as_deref()?;
        // A filter leaves names out by their paths, which no record has.
        if !filter.is_empty() || !scope.is_whole() {
            return None;
        }
        let rules = [u8::from(*delete), u8::from(*one_file_system)];
        let dest = dest.map_or(0, |(dir, _)| dir.ino.0).to_le_bytes();
        let of_source = a.terms()?;
        let mut terms: Vec<&[u8]> = of_source.iter().map(Vec::as_slice).collect();
        terms.extend([&rules[..], &dest[..]]);
        let terms = last.hash(&terms);
        if !dry_run {
            last.begin(terms);
        }
        let is_used = !checksum && last.has_terms(terms);
        Some(Recording { last, dev: top.meta.id.dev, is_used, is_made: !dry_run })
    }
}

/// A tree to compare or to follow.
#[derive(Clone, Copy)]
pub enum Side<'s> {
    /// A directory of the host.
    Host(&'s Path),
    /// A directory of the host that is open: no other one takes its place meanwhile.
    Open(&'s HostTop),
    /// A directory of a volume.
    Volume(&'s dyn FileSystem, &'s [u8]),
    /// An archive. A directory without a member of its own has no attributes: it is the same as any, and one
    /// that is made gets those of a new directory. A time without a fraction is any of its second.
    Archive(&'s UnpackedArchive),
}

/// A side that can be read.
enum OpenSide<'s> {
    Host(HostTree),
    Volume(VolumeTree<'s>),
}

impl<'s> Side<'s> {
    /// Opens the side; `doing` begins the message of an error of the host.
    fn open(self, doing: &str) -> Result<OpenSide<'s>> {
        Ok(match self {
            Side::Host(path) => OpenSide::Host(HostTree::open(path, doing)?),
            Side::Open(top) => OpenSide::Host(HostTree::new(top, doing)?),
            Side::Volume(volume, path) => OpenSide::Volume(VolumeTree::find(volume, path)?),
            Side::Archive(archive) => {
                OpenSide::Volume(VolumeTree::of_archive(&archive.volume, &archive.directories)?)
            }
        })
    }
}

/// Finds the differences by which `to` would become the same as `from`: those that a sync of `from` into `to`
/// with [`SyncOptions::delete`] would find. Each goes to `receiver`, from several threads and in no order.
///
/// # Errors
///
/// A side is not a directory, or cannot be read. All other failures are in the [`SyncReport`].
pub fn diff_trees(
    from: Side<'_>,
    to: Side<'_>,
    options: &SyncOptions,
    receiver: &(dyn Fn(&Difference) + Sync),
    control: Control<'_>,
) -> Result<SyncReport> {
    let job = TransferJob::new(control);
    let tally = Tally::default();
    let comparison = TreeComparison { job: &job, options, finds_removed: true, receiver, tally: &tally };
    let doing = "cannot compare";
    let counts = match (from.open(doing)?, to.open(doing)?) {
        (OpenSide::Host(a), OpenSide::Host(b)) => {
            comparison.run((&a, a.top()), (&b, Some(b.top()).unzip()), &NoEffect, None)
        }
        (OpenSide::Host(a), OpenSide::Volume(b)) => {
            comparison.run((&a, a.top()), (&b, Some(there(&b)?).unzip()), &NoEffect, None)
        }
        (OpenSide::Volume(a), OpenSide::Host(b)) => {
            comparison.run((&a, there(&a)?), (&b, Some(b.top()).unzip()), &NoEffect, None)
        }
        (OpenSide::Volume(a), OpenSide::Volume(b)) => {
            comparison.run((&a, there(&a)?), (&b, Some(there(&b)?).unzip()), &NoEffect, None)
        }
    };
    Ok(SyncReport { report: job.report("the host"), ..counts })
}

/// The top of a tree that has to exist.
fn there(tree: &VolumeTree<'_>) -> Result<(volume_tree::VolumeDir, Node)> {
    tree.top().ok_or_else(|| {
        let what =
            format!("cannot compare '{}' of the volume", crate::vocabulary::name::shown(&tree.path(b"")));
        Error::volume(what, lanefs::Code::NotFound.into())
    })
}

/// A comparison, before it is known of which trees.
struct TreeComparison<'c> {
    job: &'c TransferJob<'c>,
    options: &'c SyncOptions,
    finds_removed: bool,
    receiver: &'c Receiver<'c>,
    tally: &'c Tally,
}

impl TreeComparison<'_> {
    fn run<A: Tree, B: Tree, E: Effect<A, B>>(
        &self,
        (a, top_a): (&A, (A::Dir, Node)),
        (b, (top_b, old)): (&B, (Option<B::Dir>, Option<Node>)),
        effect: &E,
        recording: Option<Recording<'_>>,
    ) -> SyncReport {
        let TreeComparison { job, options, finds_removed, receiver, tally } = *self;
        if let Some(expected) = a.expected().or_else(|| b.expected()) {
            job.expect(expected);
        }
        if let Some(unequal) = options.unequal_links.as_ref().filter(|_| options.scope.is_whole()) {
            unequal.clear();
        }
        let links = Links::default();
        let (waiting, apart, gathered) = (Mutex::default(), Apart::default(), ChangedDirs::default());
        let in_seconds = InSeconds { a: a.is_in_seconds(), b: b.is_in_seconds() };
        let engine = Engine {
            job,
            a,
            b,
            effect,
            options,
            finds_removed,
            in_seconds,
            receiver,
            links,
            tally,
            waiting,
            apart,
            gathered,
            recording,
        };
        let made = old.is_none().then_some(Change::Added);
        let part = if made.is_some() { ComparedPart::All } else { options.scope.part(b"") };
        engine.run(Pair::new(None, Sides { a: top_a, b: top_b, old, made, moved: None }, part));
        let counts = engine.tally.counts(job.counters.compared.load(Relaxed));
        let needs_whole = !options.scope.is_whole() && engine.tally.has_links();
        SyncReport { counts, needs_whole, ..SyncReport::default() }
    }
}
