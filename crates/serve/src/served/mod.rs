//! A volume that is served, and the state that all requests share.
//!
//! The theme modules implement the requests on [`Served`]; this module knows none of them.

mod moving;
mod observer;
mod root_attributes;

use crate::errno::{Errno, Reply};
use crate::error::{Error, Result};
use crate::statistics::{Operation, Statistics};
use crate::trace::Trace;
use crate::versions::{Entry, NodeId};
use crate::versions::{OpenVersion, Versions};
use lanefs::{AccessTimes, Attr, Ino, Volume};
use observer::Notifications;
use parking_lot::Mutex;
use root_attributes::{ADDRESS, IMAGE, image_text};
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

pub use observer::Observer;
pub(crate) use root_attributes::{ADDRESS as ADDRESS_ATTRIBUTE, IMAGE as IMAGE_ATTRIBUTE, parse_image};

/// Time for which a client that learns of every change may cache replies. A year stands for no limit.
const NO_LIMIT: Duration = Duration::from_secs(365 * 86_400);

/// Choices for a service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServeOptions {
    /// Rule by which reading changes times of access.
    pub access_times: AccessTimes,
    /// True where that rule holds for directories, too; otherwise their times of access stay.
    pub directory_access_times: bool,
    /// False for a service whose socket gives counters only.
    pub takes_commands: bool,
}

impl Default for ServeOptions {
    fn default() -> Self {
        ServeOptions {
            access_times: AccessTimes::Relative,
            directory_access_times: true,
            takes_commands: true,
        }
    }
}

/// The rules for times of access, which requests read and [`Served::set_access_times`] changes.
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

/// A volume that is served: its methods are the requests of a POSIX file system, for any number of threads.
///
/// The client has checked the permissions of the requester, as the kernel does for a mount. A lookup, and
/// each request that makes a name, gives the client a reference to the inode, which it returns by
/// [`forget`](Self::forget). A node is valid as long as the client has a reference to it.
pub struct Served {
    pub(crate) versions: Versions,
    /// Rules for times of access of files and of directories.
    access_times: AccessRules,
    /// True where SELinux labels mean something to this host.
    pub(crate) host_has_labels: bool,
    pub(crate) statistics: Statistics,
    /// False where the socket gives counters only.
    pub(crate) takes_commands: bool,
    /// The client that caches replies, once there is one.
    observer: OnceLock<Arc<dyn Observer>>,
    /// The notifications that the observer gets, until the service ends.
    notifications: Mutex<Option<Notifications>>,
    /// Text of the address of the socket for commands, if there is one.
    address: OnceLock<String>,
    /// The trace of what the client reads, if one is wanted.
    trace: OnceLock<Arc<Trace>>,
    /// A request for a change has got the reason why a write to the device failed.
    has_told_failure: AtomicBool,
}

impl Served {
    /// Serves a volume. From then on the log has the reason when a write to its device fails.
    pub fn new(volume: Arc<Volume>, options: &ServeOptions) -> Self {
        volume.on_write_failure(|error| log::error!("{error}"));
        Served {
            versions: Versions::new(volume),
            access_times: AccessRules::new(options.access_times, options.directory_access_times),
            host_has_labels: std::fs::exists("/sys/fs/selinux/enforce").unwrap_or(false),
            statistics: Statistics::default(),
            takes_commands: options.takes_commands,
            observer: OnceLock::new(),
            notifications: Mutex::new(None),
            address: OnceLock::new(),
            trace: OnceLock::new(),
            has_told_failure: AtomicBool::new(false),
        }
    }

    /// Lets `observer` learn of all changes that no request makes. From then on replies may be cached. A
    /// volume that can be changed has one version as long as it is served.
    ///
    /// # Errors
    /// [`Error::Observed`]: the volume has an observer already. [`Error::Ended`]: the service has ended. The
    /// host's: no thread.
    pub fn observe(self: &Arc<Self>, observer: Arc<dyn Observer>) -> Result<()> {
        let served = Arc::downgrade(self);
        // Weak, because the volume has the sender of the queue.
        let is_held = move |ino| {
            let served = served.upgrade();
            served.is_some_and(|one| one.versions.current().open().is_ok_and(|volume| volume.is_held(ino)))
        };
        let current = self.versions.current();
        let volume = current.open().map_err(|_| Error::Ended)?;
        let started = Notifications::start(&volume, Arc::clone(&observer), is_held)
            .map_err(|error| Error::io("starting a thread", &error))?;
        *self.notifications.lock() = Some(started.ok_or(Error::Observed)?);
        let is_first = self.observer.set(observer).is_ok();
        debug_assert!(is_first, "a service has one observer");
        Ok(())
    }

    /// Has `trace` learn of the files that the client reads. Only the first call counts.
    pub fn record(&self, trace: Arc<Trace>) {
        let _ = self.trace.set(trace);
    }

    pub(crate) fn trace(&self) -> Option<&Trace> {
        self.trace.get().map(|trace| &**trace)
    }

    /// Returns when the observer has been notified of all changes of this thread.
    pub fn flush_notifications(&self) {
        let notifications = self.notifications.lock().clone();
        if let Some(notifications) = notifications {
            notifications.flush();
        }
    }

    pub(crate) fn observer(&self) -> Option<&dyn Observer> {
        self.observer.get().map(|observer| &**observer)
    }

    /// Returns the time for which the client may cache a reply, or that a name does not exist: without limit
    /// where an observer learns of all changes, and not at all elsewhere.
    pub fn validity(&self) -> Duration {
        if self.observer.get().is_some() { NO_LIMIT } else { Duration::ZERO }
    }

    /// The reply with attributes of an inode.
    pub(crate) fn entry(&self, volume: &OpenVersion<'_>, attr: Attr) -> Entry {
        Entry { node: volume.numbers.node(attr.ino), attr, validity: self.validity() }
    }

    /// Makes the text of an address of the socket for commands known through the root directory.
    pub(crate) fn publish(&self, address: String) {
        let is_first = self.address.set(address).is_ok();
        debug_assert!(is_first, "a service has one socket");
    }

    /// Returns what the service tells its user by an attribute of the root: the address of the socket, or the
    /// image; `None` for any other attribute. Nobody else is told, by whichever way another user can reach
    /// the service.
    pub(crate) fn told(&self, uid: u32, node: NodeId, name: &[u8]) -> Option<Reply<Vec<u8>>> {
        if node != NodeId::ROOT {
            return None;
        }
        let text = match name {
            name if name == ADDRESS.as_bytes() => Ok(self.address.get()?.clone()),
            name if name == IMAGE.as_bytes() => {
                self.versions.current().open().map(|volume| image_text(volume.file_id()))
            }
            _ => return None,
        };
        let is_owner = rustix::process::geteuid().as_raw() == uid;
        Some(if is_owner { text.map(String::into_bytes) } else { Err(Errno::EPERM) })
    }

    /// Does something for a request with the version to which an inode belongs, and counts it.
    pub(crate) fn with<T>(
        &self,
        operation: Operation,
        node: NodeId,
        work: impl FnOnce(&OpenVersion<'_>) -> Reply<T>,
    ) -> Reply<T> {
        observer::begin_to_answer();
        self.statistics.count(operation, || {
            let version = self.versions.of(node)?;
            let volume = version.open()?;
            work(&volume).map_err(|errno| self.after_failure(&volume, operation, errno))
        })
    }

    /// Returns the error of a request for a change after a failed write to the device: of the first such
    /// request the reason of the failure, which a thread of the volume may have met, and of each later one
    /// `EROFS`. Other errors, and those of `fsync`, stay.
    #[cold]
    fn after_failure(&self, volume: &Volume, operation: Operation, errno: Errno) -> Errno {
        let failure = if operation.is_change() { volume.write_failure() } else { None };
        let is_it = failure.is_some_and(|failure| Errno::from(failure) == errno);
        if is_it && self.has_told_failure.swap(true, Relaxed) { Errno::EROFS } else { errno }
    }

    /// [`with`](Self::with), for work whose reply has the attributes that it returns.
    pub(crate) fn with_entry(
        &self,
        operation: Operation,
        node: NodeId,
        work: impl FnOnce(&OpenVersion<'_>) -> Reply<Attr>,
    ) -> Reply<Entry> {
        self.with(operation, node, |volume| work(volume).map(|attr| self.entry(volume, attr)))
    }

    /// Returns the volume, of a service with several versions the current one, for use beside the service. At
    /// the end of the service such a volume stays open.
    ///
    /// # Errors
    /// `ENOTCONN`: the service has ended.
    pub fn volume(&self) -> Reply<Arc<Volume>> {
        Ok(self.versions.current().open()?.share())
    }

    /// Returns the number of versions: the current one, and older ones of which the client has inodes.
    pub fn version_count(&self) -> usize {
        self.versions.count()
    }

    /// Returns the counters of requests.
    pub fn statistics(&self) -> &Statistics {
        &self.statistics
    }

    /// Ends the service: waits for requests in progress, and later ones fail with `ENOTCONN`. Returns the
    /// volumes of all versions, the current one first.
    pub fn end(&self) -> Vec<Arc<Volume>> {
        *self.notifications.lock() = None;
        let volumes = self.versions.end();
        // A volume without an observer here may have one elsewhere.
        if self.observer.get().is_some() {
            volumes.iter().for_each(|volume| Notifications::end(volume));
        }
        volumes
    }

    /// Makes the volume read-only, which makes everything durable, or takes that back.
    ///
    /// # Errors
    /// Those of [`Volume::set_read_only`].
    pub fn set_read_only(&self, read_only: bool) -> lanefs::Result<()> {
        let current = self.versions.current();
        match current.open() {
            Ok(volume) if volume.is_read_only() != read_only => volume.set_read_only(read_only),
            _ => Ok(()),
        }
    }

    /// Changes the rules for times of access, as [`ServeOptions`] has them.
    pub fn set_access_times(&self, times: AccessTimes, directories: bool) {
        self.access_times.set(times, directories);
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
