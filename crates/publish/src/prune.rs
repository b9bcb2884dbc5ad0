//! Removal of what no tag needs, in two phases with a grace period between them.
//!
//! The first phase condemns objects that are not needed and older than the grace period. The second one,
//! after the grace period, takes a new census and deletes the condemned objects that are still not needed and
//! were not written again. [`condemned`] tells why no publisher loses anything.

use crate::condemned::{self, Condemned, ListState, NAME, OBJECT};
use crate::error::{Error, Result, StoreError};
use crate::format::hash::Hash;
use crate::format::layout::{MAX_CONDEMNED, MAX_ROOT_BYTES};
use crate::format::{packs, root};
use crate::objects::Objects;
use crate::publication::ReadOptions;
use crate::publish::OnProgress;
use crate::reading::fetch::Fetcher;
use crate::reading::manifest::Manifest;
use crate::reading::threads;
use crate::store::{Listed, Stamp, Store};
use crate::versions::{add_packs, read_tags};
use lanefs_sync::lock::Mutex;
use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

/// Object whose time is the store's clock.
const CLOCK: &str = "clock";
/// Time after which a prune renews its list before it deletes more.
const RENEW: Duration = Duration::from_secs(60);
/// Deletions after which it does so.
const BATCH_DELETIONS: usize = 256;
/// Deletions, and reads of roots, at the same time.
const REQUESTS: usize = 16;
/// Seconds after which another prune may go on with a marked list that nobody renews: more than [`RENEW`] and
/// the longest request.
const LEASE_SECONDS: u64 = 15 * 60;

/// Grace period by default, in seconds: two weeks.
pub const DEFAULT_GRACE: u64 = 14 * 24 * 3600;

/// Shortest grace period in seconds, but for 0: the time for which a prune that was cut off holds others up.
pub const MIN_GRACE: u64 = LEASE_SECONDS;

/// Options of [`prune`].
#[derive(Clone, Copy, Debug)]
pub struct PruneOptions {
    /// Grace period in seconds: [`MIN_GRACE`] at least, or 0, which deletes at once: nobody else may publish,
    /// or read a version without a tag.
    pub grace: u64,
    /// Newest versions of each volume that are kept without a tag.
    pub keep: usize,
    /// Writes and deletes nothing.
    pub dry_run: bool,
}

impl Default for PruneOptions {
    fn default() -> Self {
        PruneOptions { grace: DEFAULT_GRACE, keep: 0, dry_run: false }
    }
}

/// Some objects of a store.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Versions.
    pub versions: u64,
    /// Packs.
    pub packs: u64,
    /// Bytes of both.
    pub bytes: u64,
}

/// Result of [`prune`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PruneReport {
    /// Objects that were deleted.
    pub deleted: Tally,
    /// Objects that are condemned now.
    pub condemned: Tally,
    /// All other objects.
    pub kept: Tally,
    /// Time from which on the condemned objects may be deleted, in seconds since 1970 by the store's clock.
    pub due: Option<i64>,
}

/// Removes what no tag needs: condemns it or, after the grace period, deletes it. A version without a tag is
/// kept while it is younger than the grace period.
///
/// # Errors
/// [`Error::ShortGrace`]; [`Error::PruneRuns`]; [`Error::Interrupted`]: the next prune goes on at once; a
/// version with a tag that cannot be read, so that what it needs is not known; the store's.
pub fn prune(store: Arc<dyn Store>, options: &PruneOptions, progress: OnProgress<'_>) -> Result<PruneReport> {
    if (1..MIN_GRACE).contains(&options.grace) {
        return Err(Error::ShortGrace(options.grace));
    }
    let objects = Objects { store };
    let now = if options.dry_run { host_clock() } else { store_clock(&objects)? };
    let fetcher = Fetcher::new(objects.clone(), None, ReadOptions::MEMORY_BYTES);
    let writer = uuid::Uuid::new_v4().into_bytes();
    PruneJob { objects, fetcher, options, progress, now, writer, gone: Mutex::default() }.run()
}

fn host_clock() -> i64 {
    let since = std::time::SystemTime::UNIX_EPOCH.elapsed().unwrap_or_default();
    i64::try_from(since.as_secs()).unwrap_or(i64::MAX)
}

/// Reads the store's clock, in seconds since 1970.
fn store_clock(objects: &Objects) -> Result<i64> {
    let object = format!("{}/{CLOCK}", condemned::FOLDER);
    objects.store.write(&object, b"\n".to_vec()).map_err(|error| objects.failed(&object, error))?;
    let modified = modified(objects, CLOCK)?;
    modified.ok_or_else(|| objects.failed(&object, StoreError::Missing))
}

/// Time of an object of prunes.
fn modified(objects: &Objects, name: &str) -> Result<Option<i64>> {
    let listed = objects.list(condemned::FOLDER)?;
    Ok(listed.iter().find(|object| object.name == name).map(|object| object.modified))
}

/// The objects of a folder that are named by their hashes.
fn list(objects: &Objects, folder: &str) -> Result<HashMap<Hash, Listed>> {
    let listed = objects.list(folder)?.into_iter();
    Ok(listed.filter_map(|object| Some((Hash::parse(&object.name)?, object))).collect())
}

struct PruneJob<'j> {
    objects: Objects,
    fetcher: Fetcher,
    options: &'j PruneOptions,
    progress: OnProgress<'j>,
    /// The store's clock when the job began.
    now: i64,
    /// Random number of this prune.
    writer: [u8; 16],
    /// Objects that a dry run would have deleted.
    gone: Mutex<HashSet<Hash>>,
}

/// The objects that are there, and those that are needed.
struct Census {
    versions: HashMap<Hash, Listed>,
    packs: HashMap<Hash, Listed>,
    needed_versions: HashSet<Hash>,
    needed_packs: HashSet<Hash>,
}

impl Census {
    /// Versions and packs that are older than a time and not needed.
    fn unneeded(&self, before: i64) -> (BTreeSet<Hash>, BTreeSet<Hash>) {
        let of = |there: &HashMap<Hash, Listed>, needed: &HashSet<Hash>| {
            let old = there.iter().filter(|(_, object)| object.modified < before);
            old.map(|(name, _)| *name).filter(|name| !needed.contains(name)).collect()
        };
        (of(&self.versions, &self.needed_versions), of(&self.packs, &self.needed_packs))
    }

    fn tally(&self, versions: &BTreeSet<Hash>, packs: &BTreeSet<Hash>) -> Tally {
        let bytes = |there: &HashMap<Hash, Listed>, names: &BTreeSet<Hash>| -> u64 {
            names.iter().filter_map(|name| there.get(name)).map(|object| object.bytes).sum()
        };
        Tally {
            versions: versions.len() as u64,
            packs: packs.len() as u64,
            bytes: bytes(&self.versions, versions) + bytes(&self.packs, packs),
        }
    }

    fn all(&self) -> Tally {
        let bytes = self.versions.values().chain(self.packs.values()).map(|object| object.bytes).sum();
        Tally { versions: self.versions.len() as u64, packs: self.packs.len() as u64, bytes }
    }
}

impl PruneJob<'_> {
    fn run(&self) -> Result<PruneReport> {
        let mut report = PruneReport::default();
        let mut found = condemned::read(&self.objects)?;
        if let Some((list, stamp)) = &found
            && list.state != ListState::Done
            && self.may_delete(list)?
        {
            found = self.delete(list, stamp, &mut report)?;
        }
        match &found {
            // A list with a longer grace period gives way, so that a shorter one counts from now on.
            Some((list, _)) if list.state == ListState::Waiting && self.options.grace >= list.grace => {
                let census = self.census(self.young())?;
                report.condemned = census.tally(&list.versions, &list.packs);
                report.due = Some(list.due());
                report.kept = rest(census.all(), &[report.condemned]);
            }
            _ => self.condemn(found, &mut report)?,
        }
        Ok(report)
    }

    /// True where the objects of a list may be deleted now.
    fn may_delete(&self, list: &Condemned) -> Result<bool> {
        if list.state == ListState::Waiting {
            return Ok(self.now >= list.due());
        }
        // Marked: the prune that did it was cut off, or runs.
        let renewed = modified(&self.objects, NAME)?.unwrap_or(self.now);
        let lease = if list.grace == 0 { 0 } else { LEASE_SECONDS };
        if self.now >= renewed.saturating_add_unsigned(lease) {
            return Ok(true);
        }
        Err(Error::PruneRuns(self.objects.store.name()))
    }

    /// Condemns what is not needed; with a grace period of 0, deletes it at once.
    fn condemn(&self, before: Option<(Condemned, Stamp)>, report: &mut PruneReport) -> Result<()> {
        let census = self.census(self.young())?;
        let old = self.now.saturating_sub_unsigned(self.options.grace);
        let (mut versions, mut packs) = census.unneeded(if self.options.grace == 0 { i64::MAX } else { old });
        // The next prune condemns what is too much for one list.
        while versions.len() > MAX_CONDEMNED / 2 {
            versions.pop_last();
        }
        while versions.len() + packs.len() > MAX_CONDEMNED {
            packs.pop_last();
        }
        let tally = census.tally(&versions, &packs);
        report.kept = rest(census.all(), &[tally]);
        let sequence = before.as_ref().map_or(1, |(list, _)| list.sequence.saturating_add(1));
        let grace = self.options.grace;
        let (state, since, writer) = (ListState::Waiting, self.now, self.writer);
        let list = Condemned { state, sequence, since, grace, writer, versions, packs };
        if list.len() == 0 {
            return Ok(());
        }
        if self.options.dry_run {
            report.condemned = tally;
            report.due = Some(list.due());
            return Ok(());
        }
        let stamp = self.replace(before.as_ref().map(|(_, stamp)| stamp), &list)?;
        if grace == 0 {
            self.delete(&list, &stamp, report)?;
        } else {
            report.condemned = tally;
            report.due = Some(list.due());
        }
        Ok(())
    }

    /// Replaces the list, and returns the stamp of the new one.
    fn replace(&self, before: Option<&Stamp>, list: &Condemned) -> Result<Stamp> {
        let failure = match self.objects.store.replace(OBJECT, before, list.encode()) {
            Ok(()) | Err(StoreError::Changed) => Error::PruneRuns(self.objects.store.name()),
            Err(error) => self.objects.failed(OBJECT, error),
        };
        // The answer to an attempt that succeeded may have been lost.
        match condemned::read(&self.objects)? {
            Some((present, stamp)) if present == *list => Ok(stamp),
            _ => Err(failure),
        }
    }

    /// Deletes what a list condemns and nobody needs. Returns the list as it is then.
    fn delete(
        &self,
        list: &Condemned,
        stamp: &Stamp,
        report: &mut PruneReport,
    ) -> Result<Option<(Condemned, Stamp)>> {
        let mut list = Condemned { state: ListState::Deleting, writer: self.writer, ..list.clone() };
        let mut stamp = self.renew(&mut list, stamp)?;
        // After the mark: now every version that is made needed is seen here, or its maker sees the mark.
        // At a time of whole seconds, what was written in the second of the list counts as written later.
        let since = (list.grace > 0).then_some(list.since);
        // A version that stays because it was written since keeps its packs, which its publisher may have
        // found before they were condemned: whatever its age, the list was no notice to its readers.
        let young = self.young().into_iter().chain(since).min();
        let census = match self.census(young) {
            Ok(census) => census,
            Err(error) => {
                self.unmark(&mut list, &stamp);
                return Err(error);
            }
        };
        let (versions, packs) = census.unneeded(since.unwrap_or(i64::MAX));
        let of = |unneeded: &BTreeSet<Hash>, condemned: &BTreeSet<Hash>| -> BTreeSet<Hash> {
            unneeded.intersection(condemned).copied().collect()
        };
        let (versions, packs) = (of(&versions, &list.versions), of(&packs, &list.packs));
        report.deleted = census.tally(&versions, &packs);
        report.kept = rest(census.all(), &[report.deleted]);
        if self.options.dry_run {
            self.gone.lock().extend(versions.iter().chain(&packs).copied());
        } else if let Err(error) = self.delete_all(&mut list, &mut stamp, &versions, &packs) {
            // After any other failure a deletion may still be under way.
            if let Error::Interrupted = error {
                self.unmark(&mut list, &stamp);
            }
            return Err(error);
        }
        let none = BTreeSet::new;
        list = Condemned { state: ListState::Done, versions: none(), packs: none(), ..list };
        stamp = self.renew(&mut list, &stamp)?;
        Ok(Some((list, stamp)))
    }

    /// Puts a marked list back, of which nothing is being deleted. So the next prune need not wait until the
    /// mark is old. Where that fails, it waits.
    fn unmark(&self, list: &mut Condemned, stamp: &Stamp) {
        list.state = ListState::Waiting;
        let _ = self.renew(list, stamp);
    }

    /// Writes the list with the next number, which fails where another prune goes on with it.
    fn renew(&self, list: &mut Condemned, stamp: &Stamp) -> Result<Stamp> {
        list.sequence = list.sequence.saturating_add(1);
        match self.options.dry_run {
            true => Ok(stamp.clone()),
            false => self.replace(Some(stamp), list),
        }
    }

    /// Deletes objects, many at the same time: versions first, so that no version lacks a pack.
    fn delete_all(
        &self,
        list: &mut Condemned,
        stamp: &mut Stamp,
        versions: &BTreeSet<Hash>,
        packs: &BTreeSet<Hash>,
    ) -> Result<()> {
        let all = (versions.len() + packs.len()) as u64;
        let mut done = 0;
        for mut left in
            [versions.iter().map(root::object).collect::<Vec<_>>(), packs.iter().map(packs::object).collect()]
        {
            while !left.is_empty() {
                if !(self.progress)(done, all) {
                    return Err(Error::Interrupted);
                }
                // Also before the first: the census may have taken longer than others wait.
                *stamp = self.renew(list, stamp)?;
                let renewed = since_boot();
                let batch = left.drain(..left.len().min(BATCH_DELETIONS)).collect();
                let objects = &self.objects;
                for late in threads::map(REQUESTS, batch, |object| delete(objects, renewed, object)) {
                    let late = late?;
                    done += u64::from(late.is_none());
                    left.extend(late);
                }
            }
        }
        Ok(())
    }

    /// Time from which on a version counts as young; `None` without a grace period.
    fn young(&self) -> Option<i64> {
        (self.options.grace > 0).then(|| self.now.saturating_sub_unsigned(self.options.grace))
    }

    /// Finds out what is needed: all that versions with tags, young versions (written at `young` or later)
    /// and the newest ones name.
    fn census(&self, young: Option<i64>) -> Result<Census> {
        let mut census = Census {
            versions: list(&self.objects, root::FOLDER)?,
            packs: list(&self.objects, packs::FOLDER)?,
            needed_versions: HashSet::new(),
            needed_packs: HashSet::new(),
        };
        let gone = self.gone.lock();
        census.versions.retain(|name, _| !gone.contains(name));
        census.packs.retain(|name, _| !gone.contains(name));
        drop(gone);
        let mut tagged: HashMap<Hash, String> = HashMap::new();
        for (name, tag) in read_tags(&self.objects)? {
            let tag = tag.map_err(|error| self.needed_by(&name, error))?;
            tagged.insert(tag.version, name);
        }
        let mut wanted = self.newest(&census.versions)?;
        if let Some(young) = young {
            let young = census.versions.iter().filter(|(_, object)| object.modified >= young);
            wanted.extend(young.map(|(name, _)| *name));
        }
        // Those with tags, which come from the end, and their shards come first: in them damage is an error.
        wanted.extend(tagged.keys());
        while let Some(version) = wanted.pop() {
            if !census.needed_versions.insert(version) {
                continue;
            }
            let (done, all) = (census.needed_versions.len() as u64, census.versions.len() as u64);
            let goes_on = || (self.progress)(done.min(all), all);
            if !goes_on() {
                return Err(Error::Interrupted);
            }
            let packs = &mut census.needed_packs;
            let added = Manifest::open(&self.fetcher, version, MAX_ROOT_BYTES).and_then(|(manifest, _)| {
                // A join needs its shards, as the tag does that names it.
                for shard in manifest.root.join.iter().flat_map(|join| &join.shards) {
                    wanted.push(shard.version);
                    if let Some(name) = tagged.get(&version).cloned() {
                        tagged.entry(shard.version).or_insert(name);
                    }
                }
                add_packs(&self.fetcher, &manifest, packs, &goes_on)
            });
            match added {
                // A version that nobody can read needs nothing; with a tag it is one to be mended first.
                Err(error) if error.is_broken_object() => {
                    if let Some(name) = tagged.get(&version) {
                        return Err(self.needed_by(name, error));
                    }
                }
                added => added?,
            }
        }
        Ok(census)
    }

    /// The error for a damaged tag, or for a damaged version with a tag.
    fn needed_by(&self, tag: &str, source: Error) -> Error {
        Error::BrokenTag { tag: format!("{}#{tag}", self.objects.store.name()), source: Arc::new(source) }
    }

    /// The newest versions of each volume.
    fn newest(&self, versions: &HashMap<Hash, Listed>) -> Result<Vec<Hash>> {
        if self.options.keep == 0 {
            return Ok(Vec::new());
        }
        let mut by_age: Vec<(&Hash, &Listed)> = versions.iter().collect();
        by_age.sort_by_key(|(name, object)| (-object.modified, **name));
        let (mut newest, mut counts) = (Vec::new(), HashMap::new());
        let (fetcher, all) = (&self.fetcher, by_age.len() as u64);
        for (done, versions) in by_age.chunks(REQUESTS).enumerate() {
            if !(self.progress)((done * REQUESTS) as u64, all) {
                return Err(Error::Interrupted);
            }
            let versions: Vec<Hash> = versions.iter().map(|(version, _)| **version).collect();
            let read = threads::map(REQUESTS, versions, |version| {
                let opened = Manifest::open(fetcher, version, MAX_ROOT_BYTES);
                (version, opened.map(|(manifest, _)| manifest.root.facts.uuid))
            });
            for (version, uuid) in read {
                match uuid {
                    Ok(uuid) => {
                        let count: &mut usize = counts.entry(uuid).or_default();
                        *count += 1;
                        newest.extend((*count <= self.options.keep).then_some(version));
                    }
                    Err(error) if error.is_broken_object() => {}
                    Err(error) => return Err(error),
                }
            }
        }
        Ok(newest)
    }
}

/// Deletes an object, or returns it where the list must be renewed first.
fn delete(objects: &Objects, renewed: Duration, object: String) -> Result<Option<String>> {
    if since_boot().saturating_sub(renewed) > RENEW {
        return Ok(Some(object));
    }
    objects.store.delete(&object).map_err(|error| objects.failed(&object, error))?;
    Ok(None)
}

/// Time since this machine was started, with the time in which it slept: others do not sleep meanwhile.
fn since_boot() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
    Duration::new(time.tv_sec.unsigned_abs(), u32::try_from(time.tv_nsec).unwrap_or(0))
}

/// Some objects without others.
fn rest(all: Tally, others: &[Tally]) -> Tally {
    others.iter().fold(all, |rest, other| Tally {
        versions: rest.versions.saturating_sub(other.versions),
        packs: rest.packs.saturating_sub(other.packs),
        bytes: rest.bytes.saturating_sub(other.bytes),
    })
}
