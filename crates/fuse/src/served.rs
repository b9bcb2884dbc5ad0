//! The volume of a mount, and the state that all request handlers share.
//!
//! The theme modules implement the requests on [`Served`]; this module knows none of them.

use crate::convert::InodeNumbers;
use crate::errno::{Errno, FuseResult};
use crate::statistics::{Operation, Statistics};
use lanefs::{Attr, Caller, Ino, Volume};
use parking_lot::{MappedRwLockReadGuard, RwLock, RwLockReadGuard};
use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

std::thread_local! {
    static SERVES_THE_KERNEL: Cell<bool> = const { Cell::new(false) };
}

/// True in a thread that serves the kernel: the kernel already knows what such a thread changes.
pub(crate) fn serves_the_kernel() -> bool {
    SERVES_THE_KERNEL.get()
}

/// Number of references to inodes that replies have given to the kernel and that it has not returned. Only
/// builds with debug assertions count.
#[derive(Default)]
struct KernelReferences(AtomicU64);

impl KernelReferences {
    fn add(&self) {
        if cfg!(debug_assertions) {
            self.0.fetch_add(1, Relaxed);
        }
    }

    fn remove(&self, count: u64) {
        if cfg!(debug_assertions) {
            let before = self.0.fetch_sub(count, Relaxed);
            assert!(before >= count, "the kernel returns {count} references and has {before}");
        }
    }
}

/// A volume that is served. The mount takes the volume out when it ends; later requests fail with `ENOTCONN`.
pub(crate) struct Served {
    pub(crate) volume: RwLock<Option<Volume>>,
    pub(crate) numbers: InodeNumbers,
    /// True where reading changes times of access.
    pub(crate) keeps_access_times: bool,
    /// True where SELinux labels mean something to this host.
    pub(crate) host_has_labels: bool,
    pub(crate) statistics: Statistics,
    references: KernelReferences,
}

impl Served {
    pub(crate) fn new(volume: Volume, keeps_access_times: bool) -> Self {
        let numbers = InodeNumbers { root: volume.root() };
        Served {
            volume: RwLock::new(Some(volume)),
            numbers,
            keeps_access_times,
            host_has_labels: std::fs::exists("/sys/fs/selinux/enforce").unwrap_or(false),
            statistics: Statistics::default(),
            references: KernelReferences::default(),
        }
    }

    fn volume(&self) -> FuseResult<MappedRwLockReadGuard<'_, Volume>> {
        RwLockReadGuard::try_map(self.volume.read(), Option::as_ref).map_err(|_| Errno::ENOTCONN)
    }

    /// Does something with the volume for the kernel, and counts it.
    pub(crate) fn with<T>(
        &self,
        operation: Operation,
        work: impl FnOnce(&Volume) -> FuseResult<T>,
    ) -> FuseResult<T> {
        SERVES_THE_KERNEL.set(true);
        self.statistics.count(operation, || work(&*self.volume()?))
    }

    /// Looks up a name and holds its inode for the kernel.
    pub(crate) fn lookup_held(&self, volume: &Volume, dir: Ino, name: &[u8]) -> lanefs::Result<Attr> {
        let attr = volume.lookup_held(&Caller::OWNER, dir, name)?;
        self.references.add();
        Ok(attr)
    }

    /// Holds an inode for the kernel.
    pub(crate) fn hold(&self, volume: &Volume, ino: Ino) -> lanefs::Result<Attr> {
        let attr = volume.hold(ino)?;
        self.references.add();
        Ok(attr)
    }

    /// Releases `count` holds of an inode, which the kernel has forgotten or a reply could not take.
    pub(crate) fn release(&self, volume: &Volume, ino: Ino, count: u64) -> lanefs::Result<()> {
        self.references.remove(count);
        volume.release(ino, count)
    }
}
