//! What the threads of one transfer share: counters, problems, and the wish to stop.

use crate::{Counts, Error, Problem, Report};
use parking_lot::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// How far a transfer has come.
#[derive(Clone, Copy, Debug)]
pub struct Snapshot {
    /// What is done.
    pub counts: Counts,
    /// Since the start.
    pub elapsed: Duration,
    /// All is written, and the last of it is being made durable.
    pub syncing: bool,
}

/// Is told how far a transfer has come, about ten times a second, from the thread that called the transfer.
pub trait Progress: Sync {
    /// Called with the state so far.
    fn update(&self, now: &Snapshot);
}

/// Tells nobody.
#[derive(Clone, Copy, Debug, Default)]
pub struct Silent;

impl Progress for Silent {
    fn update(&self, _now: &Snapshot) {}
}

/// The caller's hold on a transfer that runs.
#[derive(Clone, Copy)]
pub struct Control<'a> {
    /// Asked often, from all threads; once true (a signal came, say) the transfer stops cleanly, soon.
    pub interrupt: &'a (dyn Fn() -> bool + Sync),
    /// Who is told.
    pub progress: &'a dyn Progress,
}

/// One per kind of [`Counts`], added to by all threads.
#[derive(Default)]
pub(crate) struct Counters {
    pub(crate) files: AtomicU64,
    pub(crate) directories: AtomicU64,
    pub(crate) symlinks: AtomicU64,
    pub(crate) hard_links: AtomicU64,
    pub(crate) specials: AtomicU64,
    pub(crate) bytes: AtomicU64,
    pub(crate) xattrs: AtomicU64,
    /// Extended attributes that the source did not show or the destination did not take.
    pub(crate) xattrs_refused: AtomicU64,
    /// Files whose owner could not be kept.
    pub(crate) owners_refused: AtomicU64,
}

/// Adds one.
pub(crate) fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Relaxed);
}

/// The shared state of a transfer.
pub(crate) struct Run<'a> {
    pub(crate) counters: Counters,
    control: Control<'a>,
    started: Instant,
    problems: Mutex<Vec<Problem>>,
    notes: Mutex<Vec<String>>,
    stopped: Mutex<Option<Error>>,
    halt: AtomicBool,
    interrupted: AtomicBool,
}

impl<'a> Run<'a> {
    pub(crate) fn new(control: Control<'a>) -> Self {
        Run {
            counters: Counters::default(),
            control,
            started: Instant::now(),
            problems: Mutex::default(),
            notes: Mutex::default(),
            stopped: Mutex::default(),
            halt: AtomicBool::new(false),
            interrupted: AtomicBool::new(false),
        }
    }

    /// True once the transfer shall end: by the caller's wish or because going on is pointless.
    pub(crate) fn ends(&self) -> bool {
        if (self.control.interrupt)() {
            self.interrupted.store(true, Relaxed);
            return true;
        }
        self.halt.load(Relaxed)
    }

    /// Notes what could not be done.
    pub(crate) fn problem(&self, path: Vec<u8>, what: impl Into<String>) {
        self.problems.lock().push(Problem { path, what: what.into() });
    }

    /// Notes what is worth saying and no failure.
    pub(crate) fn note(&self, text: String) {
        self.notes.lock().push(text);
    }

    /// Ends the transfer; the first reason counts.
    pub(crate) fn stop(&self, error: Error) {
        self.stopped.lock().get_or_insert(error);
        self.halt.store(true, Relaxed);
    }

    /// A refusal of the volume about `path`: ends everything, or is a problem of that path alone.
    pub(crate) fn volume_refused(&self, path: Vec<u8>, doing: &str, error: lanefs::Error) {
        if crate::error::ends_everything(&error) {
            self.stop(Error::volume(format!("{doing} '{}'", crate::name::shown(&path)), error));
        } else {
            self.problem(path, format!("{doing}: {error}"));
        }
    }

    /// Tells the caller how far it is.
    pub(crate) fn tick(&self, syncing: bool) {
        let now = Snapshot { counts: self.counts(), elapsed: self.started.elapsed(), syncing };
        self.control.progress.update(&now);
    }

    fn counts(&self) -> Counts {
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

    /// The outcome; `refuser` names who refuses attributes.
    pub(crate) fn report(self, refuser: &str) -> Report {
        let mut notes = std::mem::take(&mut *self.notes.lock());
        let refused = self.counters.xattrs_refused.load(Relaxed);
        if refused > 0 {
            notes.push(format!("{refused} extended attributes not kept: {refuser} refuses them"));
        }
        let owners = self.counters.owners_refused.load(Relaxed);
        if owners > 0 {
            notes.push(format!("owner or group of {owners} files not kept: only root may give files away"));
        }
        Report {
            counts: self.counts(),
            notes,
            interrupted: self.interrupted.into_inner(),
            stopped: self.stopped.into_inner(),
            problems: self.problems.into_inner(),
            elapsed: self.started.elapsed(),
        }
    }
}
