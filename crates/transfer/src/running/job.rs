//! State that the threads of one transfer share: counters, problems, and the request to stop.

use super::report::{Counts, Problem, Report};
use crate::on_host::host::HostMeta;
use crate::on_host::hostdir::FileId;
use crate::vocabulary::error::{Error, ends_transfer};
use crate::vocabulary::name::shown;
use lanefs::{FileSystem, Ino, XattrMode};
use lanefs_sync::lock::Mutex;
use rustix::io::Errno;
use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// Longest time between two progress reports of a transfer.
pub(crate) const PROGRESS_INTERVAL: Duration = Duration::from_millis(100);

/// Progress of a transfer.
#[derive(Clone, Copy, Debug)]
pub struct ProgressState {
    /// Names and bytes transferred so far.
    pub counts: Counts,
    /// Names that a sync or a comparison has compared so far; 0 for any other transfer.
    pub compared: u64,
    /// Names that a sync or a comparison will have compared at its end, about, where a whole volume takes
    /// part and its number of inodes tells; `None` where nothing does.
    pub expected: Option<u64>,
    /// Time since the start.
    pub elapsed: Duration,
    /// True once all is written and is being made durable.
    pub syncing: bool,
}

/// Receiver of a transfer's progress. The thread that started the transfer calls it about ten times a second.
pub trait Progress: Sync {
    /// Receives the progress so far.
    fn update(&self, now: &ProgressState);
}

/// A receiver that ignores the progress.
#[derive(Clone, Copy, Debug, Default)]
pub struct Silent;

impl Progress for Silent {
    fn update(&self, _now: &ProgressState) {}
}

/// The caller's control over a transfer.
#[derive(Clone, Copy)]
pub struct Control<'a> {
    /// Returns true once the transfer is to stop, after a signal for example. All threads call it often; the
    /// transfer then stops cleanly and soon.
    pub interrupt: &'a (dyn Fn() -> bool + Sync),
    /// Receiver of the progress.
    pub progress: &'a dyn Progress,
}

/// One counter per field of [`Counts`], and others for names that were compared and attributes that were
/// refused. All threads add to them.
#[derive(Default)]
pub(crate) struct Counters {
    pub(crate) files: AtomicU64,
    pub(crate) directories: AtomicU64,
    pub(crate) symlinks: AtomicU64,
    pub(crate) hard_links: AtomicU64,
    pub(crate) specials: AtomicU64,
    pub(crate) bytes: AtomicU64,
    pub(crate) xattrs: AtomicU64,
    /// Names that were compared with those of another tree.
    pub(crate) compared: AtomicU64,
    /// Extended attributes that the source did not return or the destination refused.
    pub(crate) xattrs_refused: AtomicU64,
    /// Access control lists of an archive that are damaged, or have names without a number.
    pub(crate) lists_refused: AtomicU64,
    /// Files whose owner could not be set.
    pub(crate) owners_refused: AtomicU64,
}

/// Adds one to a counter.
pub(crate) fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Relaxed);
}

/// Shared state of one import, export or comparison.
pub(crate) struct TransferJob<'a> {
    pub(crate) counters: Counters,
    control: Control<'a>,
    /// Names that will be compared, about; 0 where that is not known.
    expected: AtomicU64,
    started: Instant,
    problems: Mutex<Vec<Problem>>,
    damaged: AtomicBool,
    notes: Mutex<Vec<String>>,
    /// Files with a time that no volume holds.
    far_times: Mutex<HashSet<FileId>>,
    stopped: Mutex<Option<Error>>,
    /// Set after `stopped`, so that threads can check it without the lock.
    halt: AtomicBool,
    interrupted: AtomicBool,
}

impl<'a> TransferJob<'a> {
    pub(crate) fn new(control: Control<'a>) -> Self {
        TransferJob {
            counters: Counters::default(),
            control,
            expected: AtomicU64::new(0),
            started: Instant::now(),
            problems: Mutex::default(),
            damaged: AtomicBool::new(false),
            notes: Mutex::default(),
            far_times: Mutex::default(),
            stopped: Mutex::default(),
            halt: AtomicBool::new(false),
            interrupted: AtomicBool::new(false),
        }
    }

    /// True once the transfer is to stop: the caller interrupts it, or every further file would fail as well.
    pub(crate) fn should_stop(&self) -> bool {
        if (self.control.interrupt)() {
            self.interrupted.store(true, Relaxed);
            return true;
        }
        self.halt.load(Relaxed)
    }

    /// Records a failure about `path`.
    pub(crate) fn problem(&self, path: Vec<u8>, what: impl Into<String>) {
        self.problems.lock().push(Problem { path, what: what.into() });
    }

    /// Records damage of the volume at `path`.
    pub(crate) fn damage(&self, path: Vec<u8>, what: impl Into<String>) {
        self.damaged.store(true, Relaxed);
        self.problem(path, what);
    }

    /// Records that the volume could not read `path`.
    pub(crate) fn unread(&self, path: Vec<u8>, what: impl Into<String>, error: &lanefs::Error) {
        if error.is_damage() { self.damage(path, what) } else { self.problem(path, what) }
    }

    /// Records a remark that is not a failure.
    pub(crate) fn note(&self, text: String) {
        self.notes.lock().push(text);
    }

    /// Notes a file with a time that no volume holds, once, whatever names it has.
    pub(crate) fn note_far_time(&self, meta: &HostMeta, path: impl FnOnce() -> Vec<u8>) {
        if meta.has_far_time && self.far_times.lock().insert(meta.id) {
            self.note_far_time_of(&path());
        }
    }

    /// Notes a path with a time that no volume holds.
    pub(crate) fn note_far_time_of(&self, path: &[u8]) {
        let path = shown(path);
        self.note(format!("{path}: a time before 1678 or after 2262 is not kept, but the nearest one"));
    }

    /// Returns whether a file has such a time.
    pub(crate) fn has_far_times(&self) -> bool {
        !self.far_times.lock().is_empty()
    }

    /// Stops the transfer. The first reason is kept. A wait that the caller's interruption ended is not
    /// another reason.
    pub(crate) fn stop(&self, error: Error) {
        if error.errno() == Errno::INTR.raw_os_error() && (self.control.interrupt)() {
            self.interrupted.store(true, Relaxed);
            return;
        }
        self.stopped.lock().get_or_insert(error);
        self.halt.store(true, Relaxed);
    }

    /// Handles an error of the volume about `path`: stops the transfer, or records a problem of that path
    /// alone.
    pub(crate) fn volume_refused(&self, path: Vec<u8>, doing: &str, error: lanefs::Error) {
        if ends_transfer(&error) {
            self.stop(Error::volume(format!("{doing} '{}'", shown(&path)), error));
        } else {
            let what = format!("{doing}: {error}");
            self.unread(path, what, &error);
        }
    }

    /// Gives a file of the volume an extended attribute. One that the volume refuses is a problem of `path`.
    pub(crate) fn set_xattr(
        &self,
        volume: &dyn FileSystem,
        ino: Ino,
        name: &[u8],
        value: &[u8],
        path: impl FnOnce() -> Vec<u8>,
    ) {
        match volume.setxattr(ino, name, value, XattrMode::Set) {
            Ok(()) => count(&self.counters.xattrs),
            Err(error) => {
                let doing = format!("cannot keep the attribute {}", shown(name));
                self.volume_refused(path(), &doing, error);
            }
        }
    }

    /// Sets the number of names that will be compared, about.
    pub(crate) fn expect(&self, names: u64) {
        self.expected.store(names, Relaxed);
    }

    /// Reports the progress to the caller.
    pub(crate) fn report_progress(&self, syncing: bool) {
        let compared = self.counters.compared.load(Relaxed);
        let expected = Some(self.expected.load(Relaxed)).filter(|expected| *expected > compared);
        let elapsed = self.started.elapsed();
        let now = ProgressState { counts: self.counts(), compared, expected, elapsed, syncing };
        self.control.progress.update(&now);
    }

    pub(crate) fn counts(&self) -> Counts {
        let c = &self.counters;
        Counts {
            files: c.files.load(Relaxed),
            directories: c.directories.load(Relaxed),
            symlinks: c.symlinks.load(Relaxed),
            hard_links: c.hard_links.load(Relaxed),
            specials: c.specials.load(Relaxed),
            bytes: c.bytes.load(Relaxed),
            xattrs: c.xattrs.load(Relaxed),
        }
    }

    /// Ends the transfer and returns its outcome; `refuser` names the side that refuses attributes.
    pub(crate) fn report(self, refuser: &str) -> Report {
        let mut notes = std::mem::take(&mut *self.notes.lock());
        debug_assert_eq!(
            self.stopped.lock().is_some(),
            self.halt.load(Relaxed),
            "a transfer halts exactly when it has a reason"
        );
        let refused = self.counters.xattrs_refused.load(Relaxed);
        if refused > 0 {
            let attributes = if refused == 1 { "attribute" } else { "attributes" };
            notes.push(format!("{refused} extended {attributes} not kept: {refuser} refuses them"));
        }
        let lists = self.counters.lists_refused.load(Relaxed);
        if lists > 0 {
            let them = if lists == 1 { "list not kept: it is" } else { "lists not kept: they are" };
            notes.push(format!(
                "{lists} access control {them} damaged, of another kind, or with users or groups that are not \
                 known here"
            ));
        }
        let owners = self.counters.owners_refused.load(Relaxed);
        if owners > 0 {
            let files = if owners == 1 { "file" } else { "files" };
            notes.push(format!("owner or group of {owners} {files} not kept: only root may give files away"));
        }
        Report {
            counts: self.counts(),
            lost: Counts::default(),
            notes,
            damaged: self.damaged.into_inner(),
            interrupted: self.interrupted.into_inner(),
            stopped: self.stopped.into_inner(),
            problems: self.problems.into_inner(),
            elapsed: self.started.elapsed(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_that_an_interruption_ended_is_no_failure() {
        let ended = |interrupted: bool, errno: Errno| {
            let interrupt = || interrupted;
            let job = TransferJob::new(Control { progress: &Silent, interrupt: &interrupt });
            let source = std::io::Error::from_raw_os_error(errno.raw_os_error());
            let source = lanefs::Error::Io { what: "waiting for the volume".into(), source };
            job.stop(Error::volume("cannot write into the volume 'a'", source));
            let report = job.report("the volume");
            (report.interrupted, report.stopped.is_some())
        };
        assert_eq!(ended(true, Errno::INTR), (true, false));
        assert_eq!(ended(false, Errno::INTR), (false, true));
        assert_eq!(ended(true, Errno::IO), (false, true));
    }
}
