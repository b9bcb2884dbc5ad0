//! Opening of files and directories. An open file has no state, so the kernel opens without a request, unless
//! each reading is to change the time of access: reads from its cache reach no server, but opens do.

use crate::served::Served;
use crate::statistics::Operation;
use fuser::{INodeNo, OpenAccMode, OpenFlags};
use lanefs::AccessTimes;

/// `O_NOATIME` of `open(2)`: reading does not change the time of access.
const O_NOATIME: i32 = 0o1_000_000;

/// True where reading a file that was opened with these flags leaves its time of access.
pub(crate) fn keeps_access_time(flags: OpenFlags) -> bool {
    flags.0 & O_NOATIME != 0
}

/// True for an open that lets its file be read, and counts as access.
fn is_access(flags: OpenFlags) -> bool {
    flags.acc_mode() != OpenAccMode::O_WRONLY && !keeps_access_time(flags)
}

impl Served {
    /// Updates the time of access of a file that is opened, if each reading changes it.
    pub(crate) fn file_opened(&self, node: INodeNo, flags: OpenFlags) {
        let is_due = is_access(flags) && self.file_access_times() == AccessTimes::Always;
        self.opened(node, is_due, Served::file_accessed);
    }

    /// [`file_opened`](Self::file_opened) for a directory.
    pub(crate) fn directory_opened(&self, node: INodeNo, flags: OpenFlags) {
        let is_due = is_access(flags) && self.directory_access_times() == AccessTimes::Always;
        self.opened(node, is_due, Served::directory_accessed);
    }

    fn opened(&self, node: INodeNo, is_due: bool, access: fn(&Served, &lanefs::Volume, lanefs::Ino)) {
        if !is_due {
            return;
        }
        // The open succeeds whatever becomes of the time; the log has the error.
        let _ = self.with(Operation::Open, node, |volume| {
            access(self, volume, volume.numbers.ino(node));
            Ok(())
        });
        // Unlike a read, an open leaves the attributes in the kernel's cache. The notification of attributes
        // alone takes no lock that a request of this inode holds.
        if let Some(notifier) = self.notifier.get() {
            let _ = notifier.inval_inode(node, ATTRIBUTES_ONLY, 0);
        }
    }
}

/// Offset of a notification that leaves the content in the kernel's cache.
const ATTRIBUTES_ONLY: i64 = -1;
