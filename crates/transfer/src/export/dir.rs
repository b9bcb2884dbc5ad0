//! Directories of which a part is still to be exported.

use crate::on_host::hostdir::HostDir;
use crate::running::pending_tasks::PendingTasks;
use lanefs::path::join;
use lanefs::{Attr, Ino};
use std::sync::Arc;

/// A directory of which a part is still to be exported.
pub(super) struct ExportDir {
    pub(super) parent: Option<Arc<ExportDir>>,
    pub(super) host: Arc<HostDir>,
    /// Attributes in the volume.
    pub(super) attr: Attr,
    pub(super) name: Vec<u8>,
    /// True where the export made the directory, so that nobody else has a file in it.
    pub(super) made: bool,
    /// Tasks that will still add to the directory; at 0 it gets its attributes.
    pub(super) tasks: PendingTasks,
}

impl ExportDir {
    /// Creates a directory for which one task is pending.
    pub(super) fn new(
        parent: Option<Arc<ExportDir>>,
        host: Arc<HostDir>,
        attr: Attr,
        name: Vec<u8>,
        made: bool,
    ) -> Self {
        ExportDir { parent, host, attr, name, made, tasks: PendingTasks::one() }
    }

    /// Returns the path of `name` in the volume. `top` is the path of the top directory.
    pub(super) fn path(&self, top: &[u8], name: &[u8]) -> Vec<u8> {
        let mut parts = vec![name];
        let mut current = Some(self);
        while let Some(dir) = current {
            parts.push(&dir.name);
            current = dir.parent.as_deref();
        }
        let mut path = top.to_vec();
        for part in parts.into_iter().rev().filter(|part| !part.is_empty()) {
            path = join(&path, part);
        }
        path
    }
}

/// Entries of a directory that are not directories.
pub(super) struct NamesOf {
    pub(super) dir: Arc<ExportDir>,
    pub(super) names: Vec<(Ino, Vec<u8>)>,
}

impl Drop for ExportDir {
    fn drop(&mut self) {
        // As in `HostDir`: a deep chain is dropped without recursion.
        let mut parent = self.parent.take();
        while let Some(mut dir) = parent.and_then(Arc::into_inner) {
            parent = dir.parent.take();
        }
    }
}
