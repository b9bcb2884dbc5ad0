//! The volume of a mount, with the state that all of its request handlers share.
//!
//! The theme modules implement the requests on [`Served`]; this module knows none of them.

use crate::convert::Numbers;
use crate::errno::{Errno, FuseResult};
use crate::statistics::{Operation, Statistics};
use lanefs::Volume;
use parking_lot::{MappedRwLockReadGuard, RwLock, RwLockReadGuard};
use std::cell::Cell;

std::thread_local! {
    static SERVES_THE_KERNEL: Cell<bool> = const { Cell::new(false) };
}

/// True in a thread that serves the kernel: the kernel already knows what such a thread changes.
pub(crate) fn serves_the_kernel() -> bool {
    SERVES_THE_KERNEL.get()
}

/// A volume that is served. The mount takes the volume out when it ends; later requests fail with `ENOTCONN`.
pub(crate) struct Served {
    pub(crate) volume: RwLock<Option<Volume>>,
    pub(crate) numbers: Numbers,
    /// True where reading changes times of access.
    pub(crate) keeps_access_times: bool,
    /// True where SELinux labels mean something to this host.
    pub(crate) host_has_labels: bool,
    pub(crate) statistics: Statistics,
}

impl Served {
    pub(crate) fn new(volume: Volume, keeps_access_times: bool) -> Self {
        let numbers = Numbers { root: volume.root() };
        Served {
            volume: RwLock::new(Some(volume)),
            numbers,
            keeps_access_times,
            host_has_labels: std::fs::exists("/sys/fs/selinux/enforce").unwrap_or(false),
            statistics: Statistics::default(),
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
}
