//! Search: lines that match, files of the same content, paths by fuzzy names.

use crate::device;
use crate::error;
use crate::signals::Signals;
use crate::volume::{OWNER, Volume};
use lanefs::{DirEntry, FileKind, Ino, path};
use lanefs_search::fuzzy::{
    Finder, GatherOptions, MAX_QUERY_CHARS, Names, Query, Start, UnreadReason, highlights,
};
use lanefs_search::{
    Binary, Candidate, Case, ContentHash, CpuHash, Error, FileError, Form, OutputOptions, QueryOptions,
    Selection, SelectionOptions, duplicates_by,
};
use lanefs_sync::lock::Mutex;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use self_cell::self_cell;
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::thread;

/// Entries in one read of a directory.
const PAGE_ENTRIES: usize = 4096;
/// Files that one call of [`Grep::more`] searches at most, and the bytes from which on it searches no further
/// one.
const MAX_FILES: usize = 4096;
const MAX_BYTES: u64 = 64 << 20;
/// `EIO` and `EFBIG`, for files that have no error of the volume.
const IO: i32 = 5;
const TOO_LARGE: i32 = 27;

/// The exceptions of files that could not be searched.
type Failures = Vec<PyErr>;

/// Size and hash of some equal files, and the paths of each.
type EqualFiles = (u64, Vec<u8>, Vec<Vec<OsString>>);

/// A path, its score, and the indexes of the characters that match.
type Scored = (OsString, u32, Vec<u32>);

fn value_error(error: &Error) -> PyErr {
    PyValueError::new_err(error.to_string())
}

/// Threads of a search; 0 means as many as processors.
fn thread_count(wanted: usize) -> usize {
    match wanted {
        0 => thread::available_parallelism().map_or(1, usize::from),
        wanted => wanted,
    }
}

/// A question whether to stop, for all threads of a search. Only the thread that made it looks for signals.
fn stops(signals: &Signals) -> impl Fn() -> bool + Sync + '_ {
    let caller = thread::current().id();
    move || if thread::current().id() == caller { signals.raised() } else { signals.is_raised() }
}

fn file_failure(path: &[u8], error: &FileError) -> PyErr {
    match error {
        FileError::Volume(error) => error::of(error, Some(path)),
        error => error::with_errno(TOO_LARGE, error.to_string(), Some(path)),
    }
}

/// Finds the regular files below `top`, or `top` itself, in the order of their paths. Directories that cannot
/// be read are failures.
fn candidates(
    py: Python<'_>,
    volume: &Volume,
    top: &[u8],
    selection: &Selection,
    failures: &mut Failures,
) -> PyResult<Vec<Candidate>> {
    let found = volume.with_signals(py, Some(top), |open, signals| {
        let volume = open.volume();
        let start = volume.getattr(volume.resolve(top)?.ino)?;
        let file = |path: Vec<u8>, ino, size, is_named| Candidate { path, shown: None, ino, size, is_named };
        let (mut files, mut unread) = (Vec::new(), Vec::new());
        if start.kind == FileKind::File {
            files.push(file(top.to_vec(), start.ino, start.size, true));
        }
        let mut waiting = Vec::new();
        if start.kind == FileKind::Directory {
            waiting.push((top.to_vec(), start.ino, FileKind::Directory));
        }
        while let Some((path, ino, kind)) = waiting.pop() {
            if signals.raised() {
                break;
            }
            if kind == FileKind::File {
                match volume.getattr(ino) {
                    Ok(attr) => files.push(file(path, ino, attr.size, false)),
                    Err(error) => unread.push((path, error)),
                }
                continue;
            }
            let mut below = match entries(volume, ino) {
                Ok(below) => below,
                Err(error) => {
                    unread.push((path, error));
                    continue;
                }
            };
            // The last one is taken first.
            below.sort_unstable_by(|a, b| b.name.cmp(&a.name));
            for entry in below {
                let path = path::join(&path, &entry.name);
                let taken = match entry.kind {
                    FileKind::Directory => selection.enters(&path),
                    FileKind::File => selection.takes(&path),
                    _ => false,
                };
                if taken {
                    waiting.push((path, entry.ino, entry.kind));
                }
            }
        }
        Ok((files, unread))
    });
    let (files, unread) = found?;
    failures.extend(unread.iter().map(|(path, error)| error::of(error, Some(path))));
    Ok(files)
}

/// The entries of a directory, without `.` and `..`.
fn entries(volume: &lanefs::Volume, dir: Ino) -> lanefs::Result<Vec<DirEntry>> {
    let (mut all, mut cookie) = (Vec::new(), 0);
    loop {
        let page = volume.readdir(OWNER, dir, cookie, PAGE_ENTRIES)?;
        let Some(last) = page.last() else { return Ok(all) };
        cookie = last.cookie;
        all.extend(page.into_iter().filter(|entry| !matches!(&entry.name[..], b"." | b"..")));
    }
}

/// A search for lines, which goes on file by file.
#[pyclass(frozen, module = "lanefs._lanefs")]
pub(crate) struct Grep {
    search: lanefs_search::Grep,
    left: Mutex<std::vec::IntoIter<Candidate>>,
}

#[pymethods]
impl Grep {
    /// Prepares a search below `top`. Returns also the failures so far.
    #[staticmethod]
    #[expect(clippy::too_many_arguments, reason = "one for each argument of the call in Python")]
    fn new(
        py: Python<'_>,
        volume: &Bound<'_, Volume>,
        top: &[u8],
        patterns: Vec<String>,
        flags: [bool; 5],
        types: Vec<String>,
        globs: Vec<String>,
        max_count: Option<u64>,
        threads: usize,
    ) -> PyResult<(Self, Failures)> {
        let [is_fixed, ignores_case, words, inverts, is_text] = flags;
        let query = QueryOptions {
            patterns,
            is_fixed,
            case: if ignores_case { Case::Insensitive } else { Case::Sensitive },
            words,
            lines: false,
            inverts,
            binary: if is_text { Binary::Text } else { Binary::Detect },
            max_count,
        };
        let output = OutputOptions { form: Form::Json, paths: true, nul: false, colors: false };
        let search = lanefs_search::Grep::new(query.clone(), output, thread_count(threads));
        let mut search = search.map_err(|error| value_error(&error))?;
        if let Some(device) = volume.get().with(py, None, |open| Ok(device::searcher(open, &query)))? {
            search = search.with_prefilter(device);
        }
        let selection = SelectionOptions { types, globs, ..SelectionOptions::default() };
        let selection = Selection::new(&selection).map_err(|error| value_error(&error))?;
        let mut failures = Vec::new();
        let left = candidates(py, volume.get(), top, &selection, &mut failures)?.into_iter();
        Ok((Grep { search, left: Mutex::new(left) }, failures))
    }

    /// Searches some more files. Returns the messages of ripgrep's JSON on them, and the failures; `None`
    /// once all files are searched.
    fn more<'py>(
        &self,
        py: Python<'py>,
        volume: &Bound<'py, Volume>,
    ) -> PyResult<Option<(Bound<'py, PyBytes>, Failures)>> {
        let mut files = Vec::new();
        let mut bytes = 0_u64;
        {
            let mut left = self.left.lock();
            while files.len() < MAX_FILES && bytes < MAX_BYTES {
                let Some(file) = left.next() else { break };
                bytes = bytes.saturating_add(file.size);
                files.push(file);
            }
        }
        if files.is_empty() {
            return Ok(None);
        }
        let mut failed = Vec::new();
        let output = volume.get().with_signals(py, None, |open, signals| {
            let (mut output, mut files) = (Vec::new(), files.into_iter());
            let mut fail = |path: &[u8], error| {
                failed.push((path.to_vec(), error));
                true
            };
            let searched =
                self.search.search(open.volume(), || files.next(), &mut output, &mut fail, &stops(signals));
            // An interruption is the exception of the signal.
            Ok(searched.map(|_| output).unwrap_or_default())
        })?;
        let failures = failed.iter().map(|(path, error)| file_failure(path, error)).collect();
        Ok(Some((PyBytes::new(py, &output), failures)))
    }
}

/// Finds the files of the same content below `top`.
#[pyfunction]
pub(crate) fn duplicates(
    py: Python<'_>,
    volume: &Bound<'_, Volume>,
    top: &[u8],
    min_size: u64,
    globs: Vec<String>,
    threads: usize,
    progress: Option<Py<PyAny>>,
) -> PyResult<(Vec<EqualFiles>, Failures)> {
    let selection = SelectionOptions { globs, ..SelectionOptions::default() };
    let selection = Selection::new(&selection).map_err(|error| value_error(&error))?;
    let mut failures = Vec::new();
    let mut files = candidates(py, volume.get(), top, &selection, &mut failures)?;
    files.retain(|file| file.size >= min_size);
    let mut failed = Vec::new();
    let found = volume.get().with_signals(py, None, |open, signals| {
        let mut fail = |path: &[u8], error| {
            failed.push((path.to_vec(), error));
            true
        };
        let tell = |done: u64, all: u64| {
            if let Some(progress) = &progress {
                signals.keep(Python::attach(|py| progress.call1(py, (done, all)).map(drop)));
            }
        };
        let stops = stops(signals);
        let (volume, threads, device) = (open.volume(), thread_count(threads), device::hasher(open));
        let hasher = device.as_ref().map_or(&CpuHash as &dyn ContentHash, |device| device);
        let found = duplicates_by(hasher, volume, files, threads, &mut fail, &tell, &stops);
        Ok(found.unwrap_or_default())
    })?;
    failures.extend(failed.iter().map(|(path, error)| file_failure(path, error)));
    let paths = |paths: Vec<Vec<u8>>| paths.into_iter().map(OsString::from_vec).collect();
    let groups = found
        .groups
        .into_iter()
        .map(|group| (group.size, group.hash.to_vec(), group.files.into_iter().map(paths).collect()));
    Ok((groups.collect(), failures))
}

self_cell!(
    struct NamesAndFinder {
        owner: Names,
        #[covariant]
        dependent: Finder,
    }
);

/// The names below a directory, for fuzzy queries.
#[pyclass(frozen, module = "lanefs._lanefs")]
pub(crate) struct FuzzyNames(Mutex<NamesAndFinder>);

#[pymethods]
impl FuzzyNames {
    /// Reads the names below `top`. Returns also the failures.
    #[staticmethod]
    fn gather(
        py: Python<'_>,
        volume: &Bound<'_, Volume>,
        top: &[u8],
        threads: usize,
    ) -> PyResult<(Self, Failures)> {
        let threads = thread_count(threads);
        let (names, unread, ranker) = volume.get().with_signals(py, Some(top), |open, signals| {
            let volume = open.volume();
            let attr = volume.getattr(volume.resolve(top)?.ino)?;
            let starts = [Start { path: top.to_vec(), ino: attr.ino, kind: attr.kind }];
            let options = GatherOptions { threads, with_starts: false, max_depth: None };
            let (names, unread) = Names::gather(volume, &starts, &options, &stops(signals));
            let ranker = device::ranker(open, &names);
            Ok((names, unread, ranker))
        })?;
        let failures = unread.iter().map(|unread| {
            let damaged = |why: &str| error::with_errno(IO, why.into(), Some(&unread.path));
            match &unread.why {
                UnreadReason::Volume(error) => error::of(error, Some(&unread.path)),
                UnreadReason::ImpossibleName => damaged("an impossible name: the volume is damaged"),
                UnreadReason::SecondName => damaged("a second name of a directory: the volume is damaged"),
                UnreadReason::TooMany => {
                    error::with_errno(TOO_LARGE, "more names than a search takes".into(), Some(&unread.path))
                }
            }
        });
        let failures = failures.collect();
        let finder = NamesAndFinder::new(names, |names| {
            let finder = Finder::new(names, threads);
            match ranker {
                Some(ranker) => finder.with_ranker(ranker),
                None => finder,
            }
        });
        Ok((FuzzyNames(Mutex::new(finder)), failures))
    }

    fn __len__(&self, py: Python<'_>) -> usize {
        py.detach(|| self.0.lock().borrow_owner().len())
    }

    /// The best matches of a query, and the number of all.
    fn search(&self, py: Python<'_>, query: &str, limit: usize) -> PyResult<(Vec<Scored>, usize)> {
        if query.chars().count() > MAX_QUERY_CHARS {
            let why = format!("query has more than {MAX_QUERY_CHARS} characters; give a shorter one");
            return Err(PyValueError::new_err(why));
        }
        let signals = Signals::new();
        let found = py.detach(|| {
            let (query, stops) = (Query::parse(query), stops(&signals));
            self.0.lock().with_dependent_mut(|names, finder| {
                let (best, count) = finder.search_until(&query, limit, &stops)?;
                let scored = best.into_iter().take_while(|_| !stops()).map(|found| {
                    let path = names.path(found.id);
                    let indexes = highlights(&query, &path);
                    (OsString::from_vec(path), found.score, indexes)
                });
                Some((scored.collect(), count))
            })
        });
        // A search that was stopped raises the exception of the signal.
        signals.finish()?;
        Ok(found.unwrap_or_default())
    }
}
