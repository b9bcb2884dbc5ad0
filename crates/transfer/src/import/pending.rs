//! Small files that wait to be made together.

use super::dir::ImportDir;
use super::options::Maker;
use crate::on_host::host::HostMeta;
use lanefs::Ino;
use lanefs::bulk::Change;
use lanefs_sync::lock::{Mutex, MutexGuard};
use std::ffi::CString;
use std::sync::Arc;

/// Mode of a file whose owner is not set yet: closed to other users.
const UNFINISHED: u16 = 0o600;

/// A file to be made. Its directory counts it as a pending task.
pub(super) struct PendingFile {
    pub(super) dir: Arc<ImportDir>,
    pub(super) name: CString,
    /// Path relative to the top directory of the import.
    pub(super) path: Vec<u8>,
    pub(super) meta: HostMeta,
    pub(super) content: Vec<u8>,
}

impl PendingFile {
    /// Returns the change that makes the file.
    pub(super) fn change(&self) -> Change<'_> {
        Change::Create { path: &self.path, perm: UNFINISHED, data: &self.content }
    }

    /// Returns the path on the host.
    pub(super) fn source(&self) -> Vec<u8> {
        self.dir.host.path(self.name.to_bytes())
    }
}

/// The batch that is being filled.
#[derive(Default)]
struct OpenBatch {
    files: Vec<PendingFile>,
    bytes: usize,
}

/// The batch that is being filled, and the engine that makes batches.
pub(super) struct Batches<'m> {
    pub(super) maker: &'m dyn Maker,
    /// Directory in which paths begin: the top directory of the import.
    pub(super) base: Ino,
    /// Number of files, and bytes of their contents, from which on a batch is full.
    limits: (usize, usize),
    open: Mutex<OpenBatch>,
    /// Locked while a thread makes a batch. One batch is made and one is filled, so memory stays bounded.
    making: Mutex<()>,
}

impl<'m> Batches<'m> {
    pub(super) fn new(maker: &'m dyn Maker, base: Ino) -> Self {
        Batches { maker, base, limits: maker.limits(), open: Mutex::default(), making: Mutex::default() }
    }

    /// Adds a file. Returns the batch where it is full: the caller makes it, and keeps the guard until then.
    pub(super) fn add(&self, file: PendingFile) -> Option<(MutexGuard<'_, ()>, Vec<PendingFile>)> {
        let mut open = self.open.lock();
        open.bytes += file.content.len();
        open.files.push(file);
        let (max_files, max_bytes) = self.limits;
        debug_assert!(open.files.len() <= max_files.max(1), "a full batch is taken at once");
        if open.files.len() < max_files && open.bytes < max_bytes {
            return None;
        }
        // With the open batch locked: other threads wait until a batch may be made.
        let making = self.making.lock();
        Some((making, std::mem::take(&mut *open).files))
    }

    /// Takes the last batch, once all files have been read.
    pub(super) fn take_rest(&self) -> Vec<PendingFile> {
        std::mem::take(&mut *self.open.lock()).files
    }
}
