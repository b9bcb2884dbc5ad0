//! An archive as a tree: it is unpacked into a volume for the time of the command.

use super::transfer;
use crate::session::users::HostNames;
use crate::terminal::failure::Failure;
use crate::terminal::progress::TransferProgress;
use crate::terminal::{exit, interrupt};
use crate::text::bytes;
use crate::text::escape::escape;
use crate::text::size::human;
use lanefs::{Access, CreateOptions, ErrorKind, OpenOptions, Volume, host_text};
use lanefs_transfer::{
    ArchiveSource, Control, Error, ImportOptions, Problem, Side, UnpackedArchive, unpack_archive,
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

/// Remedy where the directory for temporary files has no room.
const OTHER_DIRECTORY: &str = "set TMPDIR to a directory with room for the content of the archive";

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
        let host = |error| no_directory(&std::env::temp_dir(), &error);
        let dir = tempfile::Builder::new().prefix("lanefs-archive-").tempdir().map_err(host)?;
        let file_bytes = path.metadata().map_or(0, |about| about.len());
        let bytes = match &source {
            ArchiveSource::File(_) => file_bytes.saturating_mul(EXPANSION).max(LEAST_VOLUME_BYTES),
            ArchiveSource::StandardInput(_) => PIPE_VOLUME_BYTES,
        };
        let bytes = bytes.min(PIPE_VOLUME_BYTES);
        let volume = volume(&dir.path().join(VOLUME), bytes)
            .map_err(|error| no_room(path, &std::env::temp_dir(), bytes, &error))?;
        let dir = without_names(dir);
        let names = HostNames::of_caller();
        let options = ImportOptions { names: Some(&names), ..ImportOptions::default() };
        let progress = TransferProgress::new("unpacking");
        let interrupt = interrupt::flag();
        let control = Control { interrupt: &interrupt, progress: &progress };
        let archive = unpack_archive(volume, source, &options, control);
        progress.clear();
        let archive = archive.map_err(|error| match &error {
            Error::Volume { source, .. } if is_of_directory(source) => {
                no_room(path, &std::env::temp_dir(), bytes, source)
            }
            error => transfer::failure(error),
        })?;
        Ok(UnpackedTree { archive, _dir: dir })
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

/// A directory for temporary files that takes none.
fn no_directory(dir: &Path, error: &std::io::Error) -> Failure {
    let what = format!("takes no temporary files: {}", host_text(error));
    Failure::new(exit::HOST, bytes::of_path(dir), &what, OTHER_DIRECTORY)
}

/// True for an error of the volume that the directory for temporary files, or the size of the volume, is the
/// reason of. (After a write in the background that finds no room the volume takes no further ones.)
fn is_of_directory(error: &lanefs::Error) -> bool {
    let is_of_room = error.kind() == ErrorKind::NoSpace;
    is_of_room || matches!(error, lanefs::Error::Io { .. } | lanefs::Error::WriteFailed { .. })
}

/// An archive that could not be unpacked: the directory for temporary files, or the volume of `size` bytes in
/// it, has no room. That volume is nobody's, so the message names none.
fn no_room(archive: &Path, dir: &Path, size: u64, error: &lanefs::Error) -> Failure {
    let name = if archive == Path::new("-") { &b"standard input"[..] } else { bytes::of_path(archive) };
    let why = match error {
        lanefs::Error::Io { source, .. } | lanefs::Error::WriteFailed { source, .. } => host_text(source),
        error if error.kind() == ErrorKind::NoSpace => {
            let what = format!("has more content than the {}B that a comparison unpacks of it", human(size));
            return Failure::new(
                exit::HOST,
                name,
                &what,
                "`lanefs import` unpacks it into a volume of any size",
            );
        }
        error => return Failure::volume(name, error),
    };
    let what = format!("cannot be unpacked in '{}': {why}", escape(bytes::of_path(dir)));
    Failure::new(exit::HOST, name, &what, OTHER_DIRECTORY)
}

/// Makes an empty volume in a file.
fn volume(path: &Path, size: u64) -> lanefs::Result<Volume> {
    let create = CreateOptions { size, data_checksums: false, ..CreateOptions::default() };
    Volume::create(path, &create).and_then(Volume::close)?;
    // Nothing has to last.
    let (cache, commit_every) = (Some(CACHE_BYTES), Duration::MAX);
    Volume::open(path, OpenOptions { cache, commit_every, ..OpenOptions::from(Access::Write) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bound_of_the_content_is_named() {
        let full = lanefs::Error::from(lanefs::Code::NoSpace);
        let failure = no_room(Path::new("a.tar"), Path::new("/tmp"), 4 << 30, &full);
        let Failure::Message { exit: exit::HOST, text, .. } = failure else { panic!("{failure:?}") };
        assert!(text.starts_with("a.tar: has more content than the 4.0GB that"), "{text}");
    }
}
