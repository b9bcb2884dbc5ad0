//! Directories of which a part is still to be exported.

use crate::on_host::hostdir::{HostDir, drop_chain, joined};
use crate::running::pending_tasks::PendingTasks;
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
        parts.push(top);
        joined(&parts)
    }
}

/// Entries of a directory that are not directories.
pub(super) struct NamesOf {
    pub(super) dir: Arc<ExportDir>,
    pub(super) names: Vec<(Ino, Vec<u8>)>,
}

impl Drop for ExportDir {
    fn drop(&mut self) {
        drop_chain(self.parent.take(), |dir| dir.parent.take());
    }
}
