//! A volume that is mounted for a test, and the helpers of all tests.

use lanefs::{Caller, CreateOptions, Volume};
use lanefs_fuse::{Ended, Mount, Operation, Options};
use rustix::process::{Gid, Uid};
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// A mount of a volume in memory, on a directory of its own.
pub(crate) struct Mounted {
    pub(crate) mount: Option<Mount>,
    pub(crate) dir: tempfile::TempDir,
}

impl Mounted {
    pub(crate) fn new() -> Self {
        Self::with(256 << 20, &crate::mount_options())
    }

    pub(crate) fn with(size: u64, options: &Options) -> Self {
        let volume = Volume::create_memory(&CreateOptions { size, ..CreateOptions::default() }).unwrap();
        Self::of(volume, options)
    }

    pub(crate) fn of(volume: Volume, options: &Options) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let user = rustix::process::getuid().as_raw();
        let set = lanefs::SetAttr { uid: Some(user), ..lanefs::SetAttr::default() };
        if volume.access() != lanefs::Access::Read {
            volume.setattr(&Caller::OWNER, volume.root(), &set).unwrap();
        }
        let mut mount = Mount::start(volume, dir.path(), options).unwrap_or_else(|error| {
            panic!("this test needs /dev/fuse, and root or fusermount3 (package fuse3): {error}")
        });
        // The tests stop a mount or end its use; none depends on the speed of the machine.
        mount.set_stop_timeout(Duration::from_secs(3600));
        Mounted { mount: Some(mount), dir }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    pub(crate) fn mount(&self) -> &Mount {
        self.mount.as_ref().unwrap()
    }

    /// The number of requests of a kind so far.
    pub(crate) fn requests(&self, operation: Operation) -> u64 {
        let all = self.mount().statistics().snapshot();
        all.iter().find(|counts| counts.operation == operation).unwrap().count
    }

    /// Stops the mount, of which no file is open any more.
    pub(crate) fn end(mut self) {
        assert_eq!(self.mount.take().unwrap().stop().unwrap(), Ended::Stopped);
    }
}

pub(crate) fn names(dir: &Path) -> BTreeSet<String> {
    fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
}

pub(crate) fn pattern(len: usize, seed: u64) -> Vec<u8> {
    let mut state = seed | 1;
    let mut next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 56) as u8
    };
    (0..len).map(|_| next()).collect()
}

/// Calls `work` as another user, in a thread of its own, so that the test keeps its identity.
pub(crate) fn as_user<T: Send>(uid: u32, gid: u32, groups: &[u32], work: impl FnOnce() -> T + Send) -> T {
    let groups: Vec<Gid> = groups.iter().map(|gid| Gid::from_raw(*gid)).collect();
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            rustix::thread::set_thread_groups(&groups).expect("this test needs root");
            rustix::thread::set_thread_res_gid(Gid::from_raw(gid), Gid::from_raw(gid), Gid::from_raw(gid))
                .unwrap();
            rustix::thread::set_thread_res_uid(Uid::from_raw(uid), Uid::from_raw(uid), Uid::from_raw(uid))
                .unwrap();
            work()
        });
        thread.join().unwrap()
    })
}

/// Calls `work` as a user who may, or may not, keep set-id bits of files that are not his (`CAP_FSETID`), and
/// is in no group. Root has all other capabilities, too.
pub(crate) fn as_keeper<T: Send>(uid: u32, keeps: bool, work: impl FnOnce() -> T + Send) -> T {
    use rustix::thread::{CapabilitySet, capabilities, set_capabilities, set_keep_capabilities};
    as_user(0, 0, &[], || {
        set_keep_capabilities(true).unwrap();
        let mut sets = capabilities(None).unwrap();
        let (gid, uid) = (Gid::from_raw(uid), Uid::from_raw(uid));
        rustix::thread::set_thread_res_gid(gid, gid, gid).unwrap();
        rustix::thread::set_thread_res_uid(uid, uid, uid).unwrap();
        sets.permitted &= if uid.is_root() { CapabilitySet::all() } else { CapabilitySet::FSETID };
        if !keeps {
            sets.permitted -= CapabilitySet::FSETID;
        }
        sets.effective = sets.permitted;
        sets.inheritable = CapabilitySet::empty();
        set_capabilities(None, sets).unwrap();
        work()
    })
}

/// Waits until the kernel's coarse clock, from which it takes times of files, has advanced.
pub(crate) fn wait_for_clock() {
    let now = || rustix::time::clock_gettime(rustix::time::ClockId::RealtimeCoarse);
    let begin = now();
    while now() == begin {
        std::thread::yield_now();
    }
}

/// Returns a directory of the host's file system: that of the build, because the one for temporary files may
/// be in memory, where less is possible.
pub(crate) fn host_directory() -> tempfile::TempDir {
    tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap()
}
