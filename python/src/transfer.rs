//! Import, export and sync of trees of the host.

use crate::engine::OpenVolume;
use crate::error;
use crate::signals::Signals;
use crate::volume::Volume;
use lanefs_transfer::{
    Control, Counts, Difference, Error, ExportOptions, FileId, Filter, ImportOptions, Progress,
    ProgressState, Report, Side, SyncCounts, SyncOptions, SyncReport, export_tree, import_tree, sync_tree,
};
use parking_lot::Mutex;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Files, directories, symbolic links, hard links, special files, bytes.
type CountNumbers = [u64; 6];

/// Counts, problems (a path and the failure), notes and seconds.
type ReportParts = (CountNumbers, Vec<(OsString, String)>, Vec<String>, f64);

/// Names that were compared, added, replaced, got other attributes, linked, removed, renamed.
type SyncNumbers = [u64; 7];

/// A path, a change, the number of the file's type, the aspects that differ, and the path that it had before.
type DifferenceParts = (OsString, &'static str, u8, Vec<&'static str>, Option<OsString>);

/// Imports a directory's content, or a file.
#[pyfunction]
#[expect(clippy::too_many_arguments, reason = "one for each argument of the call in Python")]
pub(crate) fn import_host_tree(
    py: Python<'_>,
    volume: &Bound<'_, Volume>,
    source: PathBuf,
    dest: &[u8],
    overwrite: bool,
    one_file_system: bool,
    threads: Option<usize>,
    progress: Option<Py<PyAny>>,
) -> PyResult<ReportParts> {
    let skip = volume.get().image().map_or_else(Vec::new, image_file);
    let options = ImportOptions { overwrite, one_file_system, threads, skip, ..ImportOptions::default() };
    volume.get().with(py, None, |open| open.check_writes())?;
    let report = transfer(py, volume, progress, |open, control| {
        import_tree(open.volume(), &source, dest, &options, control)
    })?;
    parts(report)
}

/// Exports a directory's content, or a file.
#[pyfunction]
pub(crate) fn export_host_tree(
    py: Python<'_>,
    volume: &Bound<'_, Volume>,
    source: &[u8],
    dest: PathBuf,
    overwrite: bool,
    threads: Option<usize>,
    progress: Option<Py<PyAny>>,
) -> PyResult<ReportParts> {
    let keep = volume.get().image().map_or_else(Vec::new, image_file);
    let options = ExportOptions { overwrite, keep, threads, ..ExportOptions::default() };
    let report = transfer(py, volume, progress, |open, control| {
        export_tree(open.volume(), source, &dest, &options, control)
    })?;
    parts(report)
}

/// Makes a directory the same as one of the host. `[delete, checksum, dry_run, one_file_system, lists]`:
/// options, and whether the differences are returned.
#[pyfunction]
#[expect(clippy::too_many_arguments, reason = "one for each argument of the call in Python")]
pub(crate) fn sync_host_tree(
    py: Python<'_>,
    volume: &Bound<'_, Volume>,
    source: PathBuf,
    dest: &[u8],
    flags: [bool; 5],
    patterns: Vec<String>,
    threads: Option<usize>,
    progress: Option<Py<PyAny>>,
) -> PyResult<(ReportParts, SyncNumbers, Vec<DifferenceParts>)> {
    let [delete, checksum, dry_run, one_file_system, lists] = flags;
    let filter = Filter::new(patterns.iter().map(String::as_str))
        .map_err(|error| PyValueError::new_err(error.to_string()))?;
    let skip = volume.get().image().map_or_else(Vec::new, image_file);
    let options = SyncOptions {
        delete,
        checksum,
        dry_run,
        one_file_system,
        filter,
        in_order: lists,
        threads,
        skip,
        ..SyncOptions::default()
    };
    if !dry_run {
        volume.get().with(py, None, |open| open.check_writes())?;
    }
    let found = Mutex::new(Vec::new());
    let receiver = |difference: &Difference| {
        if lists {
            found.lock().push(difference.clone());
        }
    };
    let SyncReport { report, counts, .. } = transfer(py, volume, progress, |open, control| {
        sync_tree(open.volume(), Side::Host(&source), dest, &options, &receiver, control)
    })?;
    let mut found = found.into_inner();
    found.sort_by(Difference::by_path);
    let SyncCounts { compared, added, replaced, attributes, linked, removed, renamed, .. } = counts;
    let numbers = [compared, added, replaced, attributes, linked, removed, renamed];
    Ok((parts(report)?, numbers, found.into_iter().map(difference_parts).collect()))
}

fn difference_parts(difference: Difference) -> DifferenceParts {
    let Difference { path, kind, change, from } = difference;
    let aspects = change.aspects().names().collect();
    (OsString::from_vec(path), change.word(), kind as u8, aspects, from.map(OsString::from_vec))
}

/// Runs a transfer. An exception of a signal or of the callback stops it; files so far are complete.
fn transfer<T: Send>(
    py: Python<'_>,
    volume: &Bound<'_, Volume>,
    callback: Option<Py<PyAny>>,
    work: impl FnOnce(&OpenVolume, Control<'_>) -> Result<T, Error> + Send,
) -> PyResult<T> {
    let outcome = volume.get().with_signals(py, None, |open, signals| {
        let progress = Caller { callback, signals };
        Ok(work(open, Control { interrupt: &|| signals.is_raised(), progress: &progress }))
    })?;
    outcome.map_err(|error| error::of_transfer(&error))
}

/// Converts a report. An error that stopped the transfer is an exception.
fn parts(report: Report) -> PyResult<ReportParts> {
    if let Some(error) = &report.stopped {
        return Err(error::of_transfer(error));
    }
    let problems =
        report.problems.into_iter().map(|problem| (OsString::from_vec(problem.path), problem.what));
    Ok((numbers(&report.counts), problems.collect(), report.notes, report.elapsed.as_secs_f64()))
}

/// The function of a Python program that receives the progress.
struct Caller<'s> {
    callback: Option<Py<PyAny>>,
    signals: &'s Signals,
}

impl Progress for Caller<'_> {
    fn update(&self, now: &ProgressState) {
        if let Some(callback) = &self.callback {
            let numbers = numbers(&now.counts);
            self.signals.keep(Python::attach(|py| callback.call1(py, (numbers,)).map(drop)));
        }
        self.signals.raised();
    }
}

fn numbers(counts: &Counts) -> CountNumbers {
    [counts.files, counts.directories, counts.symlinks, counts.hard_links, counts.specials, counts.bytes]
}

/// The image's file, which a transfer neither reads nor replaces.
fn image_file(image: &Path) -> Vec<FileId> {
    let meta = std::fs::metadata(image);
    meta.map_or_else(|_| Vec::new(), |meta| vec![FileId { dev: meta.dev(), ino: meta.ino() }])
}
