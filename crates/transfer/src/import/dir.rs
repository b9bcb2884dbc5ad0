//! Directories of which a part is still to be imported.

use crate::in_volume::volume::TargetDir;
use crate::on_host::hostdir::{HostDir, drop_chain};
use crate::running::pending_tasks::PendingTasks;
use lanefs::SetAttr;
use std::sync::{Arc, OnceLock};

/// A directory of which a part is still to be imported.
pub(super) struct ImportDir {
    pub(super) parent: Option<Arc<ImportDir>>,
    pub(super) host: Arc<HostDir>,
    /// The directory in the volume.
    pub(super) target: TargetDir,
    /// Attributes, set once the content is complete.
    pub(super) attr: SetAttr,
    /// Access control list for new files, set once the content is complete.
    pub(super) default_list: OnceLock<Vec<u8>>,
    /// Tasks that will still add to the directory.
    pub(super) tasks: PendingTasks,
}

impl ImportDir {
    /// Creates a directory for which one task is pending.
    pub(super) fn new(
        parent: Option<Arc<ImportDir>>,
        host: Arc<HostDir>,
        target: TargetDir,
        attr: SetAttr,
    ) -> Self {
        ImportDir { parent, host, target, attr, default_list: OnceLock::new(), tasks: PendingTasks::one() }
    }
}

impl Drop for ImportDir {
    fn drop(&mut self) {
        drop_chain(self.parent.take(), |dir| dir.parent.take());
    }
}
