//! Opening of files and directories. An open file has no state, so a client need not say that it opens one,
//! unless each reading is to change the time of access: reads from its cache reach no server, but opens do.

use crate::served::Served;
use crate::statistics::Operation;
use crate::versions::NodeId;
use lanefs::{AccessTimes, Ino, Volume};

/// Flags of `open(2)`, as Linux has them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OpenFlags(pub i32);

/// The bits of the access mode, and the mode without reading.
const O_ACCMODE: i32 = 3;
const O_WRONLY: i32 = 1;
/// Reading does not change the time of access.
const O_NOATIME: i32 = 0o1_000_000;

impl OpenFlags {
    /// True where reading a file that was opened with these flags leaves its time of access.
    pub(crate) fn keeps_access_time(self) -> bool {
        self.0 & O_NOATIME != 0
    }

    /// True for an open that lets its file be read, and counts as access.
    fn is_access(self) -> bool {
        self.0 & O_ACCMODE != O_WRONLY && !self.keeps_access_time()
    }
}

impl Served {
    /// Updates the time of access of a file that is opened, if each reading changes it.
    pub fn file_opened(&self, node: NodeId, flags: OpenFlags) {
        let is_due = flags.is_access() && self.file_access_times() == AccessTimes::Always;
        self.opened(node, is_due, Served::file_accessed);
    }

    /// [`file_opened`](Self::file_opened) for a directory.
    pub fn directory_opened(&self, node: NodeId, flags: OpenFlags) {
        let is_due = flags.is_access() && self.directory_access_times() == AccessTimes::Always;
        self.opened(node, is_due, Served::directory_accessed);
    }

    fn opened(&self, node: NodeId, is_due: bool, access: fn(&Served, &Volume, Ino)) {
        if !is_due {
            return;
        }
        // The open succeeds whatever becomes of the time; the log has the error.
        let _ = self.with(Operation::Open, node, |volume| {
            access(self, volume, volume.numbers.ino(node));
            Ok(())
        });
        // Unlike a read, an open leaves the attributes in the client's cache.
        if let Some(observer) = self.observer() {
            observer.times_changed(node);
        }
    }
}
