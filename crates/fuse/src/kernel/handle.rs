//! A mount that a descriptor holds: what the kernel said of it stays true of what is done with it, whatever
//! others mount, unmount and rename meanwhile.

use super::table::MountEntry;
use rustix::fd::{AsRawFd, OwnedFd};
use rustix::fs::{Mode, OFlags};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::time::Duration;

/// A mount that is held: it counts as in use until this value is dropped.
pub(crate) struct MountHandle(OwnedFd);

impl MountHandle {
    /// Opens the mount of an entry, without a request to its server; `None` where its directory leads to
    /// another mount by now.
    pub(crate) fn open(entry: &MountEntry) -> Option<Arc<MountHandle>> {
        let flags = OFlags::PATH | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        let handle = MountHandle(rustix::fs::open(&entry.dir, flags, Mode::empty()).ok()?);
        (handle.number()? == entry.number).then(|| Arc::new(handle))
    }

    /// The number of the mount, which the kernel tells without a request to its server.
    fn number(&self) -> Option<u64> {
        let facts = std::fs::read_to_string(format!("/proc/self/fdinfo/{}", self.0.as_raw_fd())).ok()?;
        facts.lines().find_map(|line| line.strip_prefix("mnt_id:")?.trim().parse().ok())
    }

    /// A path that leads to this mount and to no other one.
    pub(crate) fn path(&self) -> PathBuf {
        format!("/proc/self/fd/{}", self.0.as_raw_fd()).into()
    }

    /// Asks the server through the mount, in a thread of its own; `None` where it does not reply in time.
    /// Only the end of the process ends a request that gets no reply.
    pub(crate) fn ask<T: Send + 'static>(
        self: &Arc<Self>,
        time: Duration,
        question: impl FnOnce(&Path) -> T + Send + 'static,
    ) -> Option<T> {
        let (sender, answer) = channel();
        let handle = Arc::clone(self);
        let ask = move || {
            let answer = question(&handle.path());
            // The mount is free again before the caller goes on.
            drop(handle);
            let _ = sender.send(answer);
        };
        std::thread::Builder::new().name("lanefs-question".to_owned()).spawn(ask).ok()?;
        answer.recv_timeout(time).ok()
    }
}
