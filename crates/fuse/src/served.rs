//! The volume of a mount, and the state that all request handlers share.
//!
//! The theme modules implement the requests on [`Served`]; this module knows none of them.

use crate::Options;
use crate::address::{ATTRIBUTE, Address, IMAGE_ATTRIBUTE, image_text};
use crate::errno::{Errno, FuseResult};
use crate::statistics::{Operation, Statistics};
use crate::table::{self, MountEntry};
use crate::versions::{OpenVersion, Versions};
use fuser::{INodeNo, Notifier};
use lanefs::escape::escape_path;
use lanefs::{AccessTimes, Ino, Volume};
use parking_lot::Mutex;
use std::cell::Cell;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU8, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};

std::thread_local! {
    static SERVES_THE_KERNEL: Cell<bool> = const { Cell::new(false) };
}

/// True in a thread that serves the kernel: the kernel already knows what such a thread changes.
pub(crate) fn serves_the_kernel() -> bool {
    SERVES_THE_KERNEL.get()
}

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

/// The rules for times of access, which requests read and a remount changes.
struct AccessRules {
    files: AtomicU8,
    directories: AtomicU8,
}

impl AccessRules {
    fn new(times: AccessTimes, directories: bool) -> Self {
        let rules = AccessRules { files: AtomicU8::new(0), directories: AtomicU8::new(0) };
        rules.set(times, directories);
        rules
    }

    fn set(&self, times: AccessTimes, directories: bool) {
        self.files.store(times as u8, Relaxed);
        self.directories.store(if directories { times } else { AccessTimes::Never } as u8, Relaxed);
    }

    fn decode(rule: &AtomicU8) -> AccessTimes {
        const RULES: [AccessTimes; 3] = [AccessTimes::Never, AccessTimes::Relative, AccessTimes::Always];
        let rule = rule.load(Relaxed);
        RULES.into_iter().find(|one| *one as u8 == rule).unwrap_or_default()
    }
}

/// A volume that is served.
pub(crate) struct Served {
    pub(crate) versions: Versions,
    /// Rules for times of access of files and of directories.
    access_times: AccessRules,
    /// The mount as the kernel's table has it, once it is there. Locked while the mount adopts the state
    /// that the table shows.
    mount_point: Mutex<Option<MountPoint>>,
    /// True where SELinux labels mean something to this host.
    pub(crate) host_has_labels: bool,
    pub(crate) statistics: Statistics,
    /// False for a mount whose socket gives counters only.
    pub(crate) takes_commands: bool,
    /// True for a mount that began with a change of the time of access by each reading: the kernel tells of
    /// opens, which it never does again once the server has refused one.
    pub(crate) hears_of_opens: bool,
    /// Sends notifications to the kernel, once there is a connection.
    pub(crate) notifier: OnceLock<Notifier>,
    /// Address of the socket for commands, if the mount has one.
    commands: OnceLock<Address>,
}

impl Served {
    pub(crate) fn new(volume: Arc<Volume>, options: &Options) -> Self {
        Served {
            versions: Versions::new(volume),
            access_times: AccessRules::new(options.access_times, options.directory_access_times),
            mount_point: Mutex::new(None),
            host_has_labels: std::fs::exists("/sys/fs/selinux/enforce").unwrap_or(false),
            statistics: Statistics::default(),
            takes_commands: !options.no_commands,
            hears_of_opens: options.access_times == AccessTimes::Always,
            notifier: OnceLock::new(),
            commands: OnceLock::new(),
        }
    }

    /// Makes the address of the socket for commands known through the mount.
    pub(crate) fn publish(&self, address: Address) {
        let is_first = self.commands.set(address).is_ok();
        debug_assert!(is_first, "a mount has one socket");
    }

    /// Returns what the mount tells its user by an attribute: the address of the socket, or the image; `None`
    /// for any other attribute. Nobody else is told, by whichever way another user can reach the mount.
    pub(crate) fn told(&self, uid: u32, ino: INodeNo, name: &[u8]) -> Option<FuseResult<Vec<u8>>> {
        if ino != INodeNo::ROOT {
            return None;
        }
        let text = match name {
            name if name == ATTRIBUTE.as_bytes() => Ok(self.commands.get()?.text()),
            name if name == IMAGE_ATTRIBUTE.as_bytes() => {
                self.versions.current().open().map(|volume| image_text(volume.file_id()))
            }
            _ => return None,
        };
        let is_owner = rustix::process::geteuid().as_raw() == uid;
        Some(if is_owner { text.map(String::into_bytes) } else { Err(Errno::EPERM) })
    }

    /// Does something for the kernel with the version to which an inode belongs, and counts it.
    pub(crate) fn with<T>(
        &self,
        operation: Operation,
        node: INodeNo,
        work: impl FnOnce(&OpenVersion<'_>) -> FuseResult<T>,
    ) -> FuseResult<T> {
        SERVES_THE_KERNEL.set(true);
        self.statistics.count(operation, || work(&self.versions.of(node)?.open()?))
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
    pub(crate) fn adopt_state(&self) {
        // The lock keeps an earlier reading of the table from overwriting a later one.
        let mount_point = self.mount_point.lock();
        let Some(entry) = mount_point.as_ref().and_then(MountPoint::find) else { return };
        self.access_times.set(entry.access_times(), entry.directory_access_times());
        let current = self.versions.current();
        if let Ok(volume) = current.open()
            && volume.is_read_only() != entry.all_read_only
            && let Err(error) = volume.set_read_only(entry.all_read_only)
        {
            let state = if entry.all_read_only { "read-only" } else { "writable" };
            log::error!("{}: the volume cannot become {state}: {error}", escape_path(&entry.dir));
        }
    }

    /// The rule for times of access of files.
    pub(crate) fn file_access_times(&self) -> AccessTimes {
        AccessRules::decode(&self.access_times.files)
    }

    /// The rule for times of access of directories.
    pub(crate) fn directory_access_times(&self) -> AccessTimes {
        AccessRules::decode(&self.access_times.directories)
    }

    /// Updates the time of access of a file that was read. An error is only logged, because the read itself
    /// succeeded.
    pub(crate) fn file_accessed(&self, volume: &Volume, ino: Ino) {
        accessed(volume, ino, self.file_access_times());
    }

    /// Updates the time of access of a directory that was listed.
    pub(crate) fn directory_accessed(&self, volume: &Volume, ino: Ino) {
        accessed(volume, ino, self.directory_access_times());
    }
}

fn accessed(volume: &Volume, ino: Ino, rule: AccessTimes) {
    if rule != AccessTimes::Never
        && !volume.is_read_only()
        && let Err(error) = volume.accessed(ino, rule)
    {
        log::debug!("time of access of inode {ino}: {error}");
    }
}
