//! A service that gathers lookups of single paths into batches.
//!
//! Many threads or tasks that look up a path each cost a call of the engine each, and an engine is at its
//! best with thousands of paths a call. A [`LookupService`] takes paths one by one and gives a [`Lookup`]
//! for each, which is a future and can be waited for as well. A batch begins with its first path. It goes
//! to an engine when it has as many paths as the options say, or when the first one has waited as long as
//! they say.
//!
//! ```text
//!  tasks    lookup(path) ─► open batch ── full, or old enough ──► a server: an engine ───────► answers
//!             ▲                                                                                 │
//!             └───────────────────────────── wake ──────────────────────────────────────────────┘
//! ```
//!
//! The service has no thread of its own: any thread serves it with an engine of its choice
//! ([`LookupService::serve`]), several at a time if they like. While all of them are busy, the next batch
//! grows, so that a service under load needs no time limit.

mod answers;
mod planted;
mod running;
#[cfg(all(test, feature = "_shuttle"))]
mod schedules;
#[cfg(all(test, not(feature = "_shuttle")))]
mod tests;

pub use answers::Lookup;
pub use running::RunningService;

use super::engine::Engine;
use crate::vocabulary::as_path::AsPath;
use crate::vocabulary::columns::Resolutions;
use crate::vocabulary::error::{Error, Result};
use crate::vocabulary::path_set::{PathSet, Paths};
use crate::vocabulary::types::{Resolution, ResolveOptions};
use answers::Answers;
use lanefs_format::Code;
use lanefs_sync::{Condvar, Mutex, is_past, is_planted};
use planted::PlantedBug;
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How a [`LookupService`] forms batches, and how their paths are resolved.
#[derive(Clone, Debug)]
pub struct ServiceOptions {
    /// Options of all lookups, the caller's identity among them.
    pub resolve: ResolveOptions,
    /// Paths with which a batch does not wait any longer; at least 1.
    pub enough: usize,
    /// Longest time that a path waits for others while a server is idle.
    pub patience: Duration,
}

impl Default for ServiceOptions {
    /// 4,096 paths, 50 microseconds.
    fn default() -> Self {
        let patience = Duration::from_micros(50);
        ServiceOptions { resolve: ResolveOptions::default(), enough: 4096, patience }
    }
}

/// Gathers lookups of single paths into batches. Any number of threads may use it.
///
/// ```
/// use lanefs::{CreateOptions, LookupService, ServiceOptions, Volume};
///
/// # fn main() -> lanefs::Result<()> {
/// let volume = Volume::create_memory(&CreateOptions { size: 64 << 20, ..CreateOptions::default() })?;
/// volume.write_file("/a", b"")?;
/// let service = LookupService::new(ServiceOptions::default());
/// std::thread::scope(|scope| {
///     scope.spawn(|| service.serve(&volume));
///     let (there, absent) = (service.lookup("/a"), service.lookup("/b"));
///     assert!(there.wait()?.ino.is_some() && absent.wait()?.ino.is_none());
///     service.close();
///     Ok(())
/// })
/// # }
/// ```
pub struct LookupService {
    options: ServiceOptions,
    state: Mutex<ServiceState>,
    /// Servers wait here for a batch.
    to_servers: Condvar,
}

#[derive(Default)]
struct ServiceState {
    open: Option<GatheredBatch>,
    /// Memory of a batch that was answered.
    spare: PathSet,
    servers: usize,
    is_closed: bool,
}

/// Paths, and the answers to come. A batch that is dropped without answers fails its lookups.
struct GatheredBatch {
    paths: PathSet,
    begun: Instant,
    answers: Arc<Answers>,
}

impl LookupService {
    /// Returns a service without a server.
    pub fn new(options: ServiceOptions) -> Self {
        LookupService { options, state: Mutex::new(ServiceState::default()), to_servers: Condvar::new() }
    }

    /// Begins a lookup, which fails where the service is closed. Its answer comes when a thread
    /// [serves](Self::serve).
    pub fn lookup(&self, path: impl AsPath) -> Lookup {
        let mut state = self.state.lock();
        if state.is_closed {
            return Lookup::failed(closed());
        }
        let ServiceState { open, spare, .. } = &mut *state;
        let batch = open.get_or_insert_with(|| GatheredBatch {
            paths: std::mem::take(spare),
            begun: Instant::now(),
            answers: Arc::default(),
        });
        let number = batch.paths.len();
        batch.paths.push(path);
        let lookup = Lookup::new(&batch.answers, number);
        drop(state);
        // The first path starts the clock, and the last one ends the wait.
        if (number == 0 || number + 1 == self.enough()) && !is_planted(PlantedBug::UnwokenServer) {
            self.to_servers.notify_one();
        }
        lookup
    }

    /// Answers lookups by an engine until the service is closed and all of them have their answers.
    pub fn serve(&self, engine: &(impl Engine + ?Sized)) {
        self.state.lock().servers += 1;
        let _serving = Serving(self);
        let mut answers = Vec::new();
        while let Some(mut batch) = self.next_batch() {
            match self.ask(engine, batch.paths.view(), &mut answers) {
                Ok(()) => batch.answers.finish(answers.iter().map(|answer| Ok(*answer))),
                Err(error) => self.answer_singly(engine, &batch, error),
            }
            let mut paths = std::mem::take(&mut batch.paths);
            paths.clear();
            self.state.lock().spare = paths;
        }
    }

    /// Answers a batch that failed path by path: one path may be to blame. An error of the device or the
    /// network is that of all paths that have no answer yet. Each of them would meet it again, one after the
    /// other, and only when the device has tried as long as it does.
    fn answer_singly(&self, engine: &(impl Engine + ?Sized), batch: &GatheredBatch, error: Error) {
        let mut failure = Some(error).filter(is_of_all_paths);
        batch.answers.finish(batch.paths.view().iter().map(|path| {
            if let Some(error) = &failure {
                return Err(same_error(error));
            }
            let paths: PathSet = [path].into_iter().collect();
            let mut answer = Vec::new();
            let outcome = self.ask(engine, paths.view(), &mut answer).map(|()| answer[0]);
            failure = outcome.as_ref().err().filter(|error| is_of_all_paths(error)).map(same_error);
            outcome
        }));
    }

    fn ask(
        &self,
        engine: &(impl Engine + ?Sized),
        paths: Paths<'_>,
        answers: &mut Vec<Resolution>,
    ) -> Result<()> {
        answers.clear();
        answers.resize(paths.len(), Resolution::failed(Code::NotResident));
        let options = &self.options.resolve;
        let mut rows = Resolutions { list: answers, attributes: options.attributes };
        engine.resolve_rows(options, paths, &mut rows).map(drop)
    }

    /// Ends the service: lookups from now on fail, and those before are answered if a thread serves.
    pub fn close(&self) {
        let mut state = self.state.lock();
        state.is_closed = true;
        let left = if state.servers == 0 { state.open.take() } else { None };
        drop(state);
        drop(left);
        if !is_planted(PlantedBug::SilentClose) {
            self.to_servers.notify_all();
        }
    }

    fn enough(&self) -> usize {
        self.options.enough.max(1)
    }

    /// Waits for a batch that is due; returns `None` at the end.
    fn next_batch(&self) -> Option<GatheredBatch> {
        let mut state = self.state.lock();
        loop {
            let is_closed = state.is_closed;
            let Some(batch) = &state.open else {
                if is_closed {
                    return None;
                }
                self.to_servers.wait(&mut state);
                continue;
            };
            let due = batch.begun.checked_add(self.options.patience);
            if is_closed || batch.paths.len() >= self.enough() || due.is_some_and(is_past) {
                return state.open.take();
            }
            let is_over = match due {
                Some(due) => self.to_servers.wait_until(&mut state, due).timed_out(),
                None => {
                    self.to_servers.wait(&mut state);
                    false
                }
            };
            if !is_over && is_planted(PlantedBug::LostWakeUp) {
                self.to_servers.wait(&mut state);
            }
            if is_over && is_planted(PlantedBug::TakenBatch) {
                return Some(state.open.take().expect("planted"));
            }
            // Another server may have taken the batch meanwhile, and the one that is open now may be younger:
            // it is taken a little early.
            if is_over && state.open.is_some() {
                return state.open.take();
            }
        }
    }
}

impl Drop for GatheredBatch {
    fn drop(&mut self) {
        // Does nothing after the answers.
        self.answers.finish((0..self.paths.len()).map(|_| Err(closed())));
    }
}

/// A thread that serves. The last one that ends, in a panic too, leaves no lookup without an answer.
struct Serving<'s>(&'s LookupService);

impl Drop for Serving<'_> {
    fn drop(&mut self) {
        let mut state = self.0.state.lock();
        state.servers -= 1;
        if std::thread::panicking() {
            state.is_closed = true;
        }
        let left = if state.is_closed && state.servers == 0 { state.open.take() } else { None };
        drop(state);
        drop(left);
        // After a panic the other servers end as well.
        self.0.to_servers.notify_all();
    }
}

/// Tells whether an error says nothing about a path: the device or the host failed.
fn is_of_all_paths(error: &Error) -> bool {
    matches!(error, Error::Io { .. })
}

/// Returns an error of the device once more, for another path.
fn same_error(error: &Error) -> Error {
    match error {
        Error::Io { what, source } => {
            let source = match source.raw_os_error() {
                Some(errno) => io::Error::from_raw_os_error(errno),
                None => io::Error::new(source.kind(), source.to_string()),
            };
            Error::Io { what: what.clone(), source }
        }
        other => Error::Code(other.code()),
    }
}

fn closed() -> Error {
    Error::Io { what: "the lookup service".into(), source: io::Error::other("it was closed") }
}
