//! An archive as a tree: it is unpacked into a volume for the time of the command.

use super::transfer;
use crate::session::users::HostNames;
use crate::terminal::failure::Failure;
use crate::terminal::interrupt;
use crate::terminal::progress::TransferProgress;
use lanefs::{Access, CreateOptions, OpenOptions, Volume};
use lanefs_transfer::{
    ArchiveSource, Control, ImportOptions, Problem, Side, UnpackedArchive, unpack_archive,
};
use std::io::IsTerminal;
use std::path::Path;
use std::time::Duration;
use tempfile::TempDir;

/// Sizes of the volume in bytes: that for a pipe, the least one, and in multiples of a file's size. Its file
/// has holes: only the content of the archive takes room.
const PIPE_VOLUME_BYTES: u64 = 1 << 40;
const LEAST_VOLUME_BYTES: u64 = 4 << 30;
const EXPANSION: u64 = 64;
/// Cache of the volume in bytes.
const CACHE_BYTES: u64 = 16 << 20;

/// Name of the volume in a directory of its own.
const VOLUME: &str = "archive.lane";

/// An archive that was unpacked. Its volume goes with it.
pub struct UnpackedTree {
    archive: UnpackedArchive,
    /// The directory of the volume, where it could not be removed at once.
    _dir: Option<TempDir>,
}

impl UnpackedTree {
    /// Unpacks an archive of the host; `-` is standard input.
    ///
    /// # Errors
    /// The archive cannot be read; the directory for temporary files has no room for it.
    pub fn new(path: &Path) -> Result<Self, Failure> {
        let source = match path == Path::new("-") {
            true if std::io::stdin().is_terminal() => {
                let advice = "redirect it, or name a file (./- for one of this name)";
                return Err(Failure::usage("standard input", "no archive comes from a terminal", advice));
            }
            true => ArchiveSource::StandardInput(Box::new(std::io::stdin())),
            false => ArchiveSource::File(path),
        };
        // A request that ended the process from here on would leave the directory.
        interrupt::wait_for_commands();
        let host = |error| Failure::host(&std::env::temp_dir(), &error);
        let dir = tempfile::Builder::new().prefix("lanefs-archive-").tempdir().map_err(host)?;
        let file_bytes = path.metadata().map_or(0, |about| about.len());
        let bytes = match &source {
            ArchiveSource::File(_) => file_bytes.saturating_mul(EXPANSION).max(LEAST_VOLUME_BYTES),
            ArchiveSource::StandardInput(_) => PIPE_VOLUME_BYTES,
        };
        let volume = volume(&dir.path().join(VOLUME), bytes.min(PIPE_VOLUME_BYTES))?;
        let dir = without_names(dir);
        let names = HostNames::of_caller();
        let options = ImportOptions { names: Some(&names), ..ImportOptions::default() };
        let progress = TransferProgress::new("unpacking");
        let interrupt = interrupt::flag();
        let control = Control { interrupt: &interrupt, progress: &progress };
        let archive = unpack_archive(volume, source, &options, control);
        progress.clear();
        Ok(UnpackedTree { archive: archive.map_err(|error| transfer::failure(&error))?, _dir: dir })
    }

    /// The tree for a comparison or a sync.
    pub fn side(&self) -> Side<'_> {
        Side::Archive(&self.archive)
    }

    /// Takes the problems that the archive had.
    pub fn problems(&mut self) -> Vec<Problem> {
        std::mem::take(&mut self.archive.report.problems)
    }

    /// Takes the notes of the unpacking: what a volume cannot keep of the archive.
    pub fn notes(&mut self) -> Vec<String> {
        std::mem::take(&mut self.archive.report.notes)
    }
}

/// Removes a directory and the volume in it, which is open, and which nobody opens by its path again. So
/// nothing is left of it, however the process ends. Returns the directory where the file system keeps the
/// name of an open file, as NFS does.
fn without_names(dir: TempDir) -> Option<TempDir> {
    let removed = std::fs::remove_file(dir.path().join(VOLUME));
    match removed.and_then(|()| std::fs::remove_dir(dir.path())) {
        Ok(()) => {
            let _ = dir.keep();
            None
        }
        Err(_) => Some(dir),
    }
}

/// Makes an empty volume in a file.
fn volume(path: &Path, size: u64) -> Result<Volume, Failure> {
    let failed = |error: lanefs::Error| Failure::volume(path.as_os_str().as_encoded_bytes(), &error);
    let create = CreateOptions { size, data_checksums: false, ..CreateOptions::default() };
    Volume::create(path, &create).and_then(Volume::close).map_err(failed)?;
    // Nothing has to last.
    let (cache, commit_every) = (Some(CACHE_BYTES), Duration::MAX);
    Volume::open(path, OpenOptions { cache, commit_every, ..OpenOptions::from(Access::Write) })
        .map_err(failed)
}
