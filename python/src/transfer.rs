//! Import and export of trees of the host.

use crate::engine::OpenVolume;
use crate::error;
use crate::signals::Signals;
use crate::volume::Volume;
use lanefs_transfer::{
    Control, Counts, Error, ExportOptions, FileId, ImportOptions, Progress, ProgressState, Report,
    export_tree, import_tree,
};
use pyo3::prelude::*;
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Files, directories, symbolic links, hard links, special files, bytes.
type CountNumbers = [u64; 6];

/// Counts, problems (a path and the failure), notes and seconds.
type ReportParts = (CountNumbers, Vec<(OsString, String)>, Vec<String>, f64);

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
    transfer(py, volume, progress, |open, control| {
        import_tree(open.volume(), &source, dest, &options, control)
    })
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
    transfer(py, volume, progress, |open, control| {
        export_tree(open.volume(), source, &dest, &options, control)
    })
}

/// Runs a transfer. An exception of a signal or of the callback stops it; files so far are complete.
fn transfer(
    py: Python<'_>,
    volume: &Bound<'_, Volume>,
    callback: Option<Py<PyAny>>,
    work: impl FnOnce(&OpenVolume, Control<'_>) -> Result<Report, Error> + Send,
) -> PyResult<ReportParts> {
    let outcome = volume.get().with_signals(py, None, |open, signals| {
        let progress = Caller { callback, signals };
        Ok(work(open, Control { interrupt: &|| signals.is_raised(), progress: &progress }))
    })?;
    let report = outcome.map_err(|error| error::of_transfer(&error))?;
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
