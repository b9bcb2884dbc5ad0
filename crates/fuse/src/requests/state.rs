//! The state of a mount that `mount -o remount` changes.
//!
//! The kernel changes it without a request: only its table of mounts shows it. So a thread waits for changes
//! of the table, and the mount [adopts](MountState::adopt) the state that is there.

use crate::kernel::table::{self, MountEntry};
use lanefs::escape::escape_path;
use lanefs_serve::Served;
use parking_lot::Mutex;
use rustix::event::{EventfdFlags, PollFd, PollFlags};
use rustix::fd::OwnedFd;
use std::fs::File;
use std::path::PathBuf;
use std::sync::{Arc, Weak};

/// The directory and the device of a mount, by which its entry in the kernel's table is found.
pub(crate) struct MountPoint {
    pub(crate) dir: PathBuf,
    pub(crate) device: u64,
}

impl MountPoint {
    /// Finds all entries of the file system, the newest last.
    fn all(&self) -> Vec<MountEntry> {
        let mut mounts = table::mounts().unwrap_or_default();
        mounts.retain(|entry| entry.device == self.device);
        mounts
    }

    /// Finds the entry. The mount may have been moved, or bound to another directory.
    fn find(&self) -> Option<MountEntry> {
        let mut mounts = self.all();
        let own = mounts.iter().rposition(|entry| entry.dir == self.dir);
        own.map(|index| mounts.swap_remove(index)).or_else(|| mounts.pop())
    }
}

/// A volume that is served to the kernel, and its mount as the kernel's table has it.
pub(crate) struct MountState {
    served: Arc<Served>,
    /// The mount, once it is there. Locked while the state that the table shows is adopted.
    mount_point: Mutex<Option<MountPoint>>,
}

impl MountState {
    pub(crate) fn new(served: Arc<Served>) -> Self {
        MountState { served, mount_point: Mutex::new(None) }
    }

    /// Sets the directory and the device of the mount, once the kernel's table has it.
    pub(crate) fn set_mount_point(&self, mount_point: MountPoint) {
        *self.mount_point.lock() = Some(mount_point);
    }

    /// Returns the entry of the mount in the kernel's table.
    pub(crate) fn entry(&self) -> Option<MountEntry> {
        self.mount_point.lock().as_ref().and_then(MountPoint::find)
    }

    /// Returns all directories on which the file system is mounted, the newest first.
    pub(crate) fn mounted_on(&self) -> Vec<PathBuf> {
        let entries = self.mount_point.lock().as_ref().map(MountPoint::all).unwrap_or_default();
        entries.into_iter().rev().map(|entry| entry.dir).collect()
    }

    /// Adopts the state that the kernel's table of mounts shows: the kernel changes it without a request
    /// (`mount -o remount`). On return the volume is read-only where the table says so, and everything is
    /// durable then.
    pub(crate) fn adopt(&self) {
        // The lock keeps an earlier reading of the table from overwriting a later one.
        let mount_point = self.mount_point.lock();
        let Some(entry) = mount_point.as_ref().and_then(MountPoint::find) else { return };
        self.served.set_access_times(entry.access_times(), entry.directory_access_times());
        if let Err(error) = self.served.set_read_only(entry.all_read_only) {
            let state = if entry.all_read_only { "read-only" } else { "writable" };
            log::error!("{}: the volume cannot become {state}: {error}", escape_path(&entry.dir));
        }
    }
}

/// Watch over the table of mounts, which ends with this value.
pub(crate) struct StateWatch {
    end: Arc<OwnedFd>,
}

impl StateWatch {
    /// Starts the thread.
    ///
    /// # Errors
    /// The host's: `/proc` is missing, or a thread or descriptor cannot be had.
    pub(crate) fn start(state: &Arc<MountState>) -> std::io::Result<StateWatch> {
        let table = File::open("/proc/self/mountinfo")?;
        let end = Arc::new(rustix::event::eventfd(0, EventfdFlags::CLOEXEC)?);
        let watch = StateWatch { end: Arc::clone(&end) };
        let state = Arc::downgrade(state);
        std::thread::Builder::new().name("lanefs-state".to_owned()).spawn(move || {
            // Changes before the first wait are adopted at once, later ones end a wait.
            while adopt(&state) && wait(&table, &end) {}
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

fn adopt(state: &Weak<MountState>) -> bool {
    state.upgrade().map(|state| state.adopt()).is_some()
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
