//! The state of a mount that `mount -o remount` changes.
//!
//! The kernel changes it without a request: only its table of mounts shows it. So a thread waits for changes
//! of the table, and the mount [adopts](Served::adopt_state) the state that is there.

use crate::served::Served;
use rustix::event::{EventfdFlags, PollFd, PollFlags};
use rustix::fd::OwnedFd;
use std::fs::File;
use std::sync::{Arc, Weak};

/// Watch over the table of mounts, which ends with this value.
pub(crate) struct StateWatch {
    end: Arc<OwnedFd>,
}

impl StateWatch {
    /// Starts the thread.
    ///
    /// # Errors
    /// The host's: `/proc` is missing, or a thread or descriptor cannot be had.
    pub(crate) fn start(served: &Arc<Served>) -> std::io::Result<StateWatch> {
        let table = File::open("/proc/self/mountinfo")?;
        let end = Arc::new(rustix::event::eventfd(0, EventfdFlags::CLOEXEC)?);
        let watch = StateWatch { end: Arc::clone(&end) };
        let served = Arc::downgrade(served);
        std::thread::Builder::new().name("lanefs-state".to_owned()).spawn(move || {
            // Changes before the first wait are adopted at once, later ones end a wait.
            while adopt(&served) && wait(&table, &end) {}
        })?;
        Ok(watch)
    }
}

impl Drop for StateWatch {
    fn drop(&mut self) {
        // Fails only where the counter is full, which ends the thread as well.
        let _ = rustix::io::write(&*self.end, &1u64.to_ne_bytes());
    }
}

fn adopt(served: &Weak<Served>) -> bool {
    served.upgrade().map(|served| served.adopt_state()).is_some()
}

/// Waits until the table changes. False once the watch ends.
fn wait(table: &File, end: &OwnedFd) -> bool {
    let mut files = [PollFd::new(table, PollFlags::PRI), PollFd::new(end, PollFlags::IN)];
    loop {
        match rustix::event::poll(&mut files, None) {
            Err(rustix::io::Errno::INTR) => {}
            Err(_) => return false,
            Ok(_) => return files[1].revents().is_empty(),
        }
    }
}
