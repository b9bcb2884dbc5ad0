//! Moving a mount to another version of its volume.
//!
//! All inodes but the root belong to one version, so the kernel's caches of them stay true. Only the root
//! changes: its attributes, its listing, and what its names mean. The kernel drops everything that it has
//! cached below a name of the root together with the name, except what is in use. That becomes cache again
//! when it is closed, out of reach of any path; so it has to be dropped by name once more.

use crate::served::{Served, serves_the_kernel};
use crate::versions::OpenVersion;
use crate::{Error, Result};
use fuser::{INodeNo, Notifier};
use lanefs::{Caller, DirEntry, FileKind, Ino, Volume};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::sync::{Arc, Weak};

/// Entries of a directory that are read at a time.
const ENTRIES: usize = 1024;

/// Handle that moves a mount to other versions of its volume.
pub struct Mover {
    served: Weak<Served>,
    notifier: Notifier,
}

impl Mover {
    pub(crate) fn new(served: &Arc<Served>, notifier: Notifier) -> Self {
        Mover { served: Arc::downgrade(served), notifier }
    }

    /// Serves `volume` instead of the present one. On return every new lookup sees it. Files that are open,
    /// and directories in use, stay those of the version in which they were opened; that version ends with
    /// the last of them.
    ///
    /// # Errors
    /// [`Error::Move`]: the mount has ended; the mount or `volume` can be changed; files of 255 older
    /// versions are in use. [`Error::Volume`]: a root cannot be listed. The mount stays as it is, and
    /// `volume` closes.
    pub fn move_to(&mut self, volume: impl Into<Arc<Volume>>) -> Result<()> {
        let volume = volume.into();
        debug_assert!(!serves_the_kernel(), "a notification waits for threads that serve the kernel");
        let refused = |why| Err(Error::Move(why));
        let Some(served) = self.served.upgrade() else { return refused("the mount has ended") };
        if !volume.is_read_only() {
            return refused("the new version is open for writing");
        }
        let _moving = served.versions.moving();
        // Names, each with a NUL behind it. They are read before anything changes, because a store may fail.
        let mut names = Vec::new();
        {
            let current = served.versions.current();
            let Ok(before) = current.open() else { return refused("the mount has ended") };
            if !before.is_read_only() {
                return refused("its volume is open for writing");
            }
            names_in_root(&before, &mut names)?;
        }
        names_in_root(&volume, &mut names)?;
        if served.versions.replace(volume).is_err() {
            return refused("files of too many older versions are in use; close some");
        }
        // The kernel refuses those that it does not know. It also caches that a name does not exist.
        for name in names.split(|byte| *byte == 0).filter(|name| !name.is_empty()) {
            let _ = self.notifier.inval_entry(INodeNo::ROOT, OsStr::from_bytes(name));
        }
        let _ = self.notifier.inval_inode(INodeNo::ROOT, 0, 0);
        served.versions.retire();
        Ok(())
    }

    /// Makes the kernel drop what it has of older versions and does not use, and ends the versions of which
    /// it has nothing more. Costs a listing of each directory of an older version that the kernel knows.
    pub fn end_unused(&self) {
        let Some(served) = self.served.upgrade() else { return };
        for version in served.versions.older() {
            let Ok(volume) = version.open() else { return };
            for (dir, name) in volume.take_missing() {
                self.drop_name(&volume, dir, &name);
            }
            for dir in volume.held() {
                // A directory that cannot be read keeps its version a while longer.
                let _ = self.drop_names(&volume, dir);
            }
        }
        served.versions.retire();
    }

    /// Makes the kernel drop the names that it has of a directory; of any other inode it has none.
    fn drop_names(&self, volume: &OpenVersion<'_>, dir: Ino) -> Result<()> {
        if volume.getattr(dir)?.kind != FileKind::Directory {
            return Ok(());
        }
        for_each_entry(volume, dir, |entry| {
            if volume.is_held(entry.ino) {
                self.drop_name(volume, dir, &entry.name);
            }
        })
    }

    /// Makes the kernel drop a name. It refuses one that it does not know.
    fn drop_name(&self, volume: &OpenVersion<'_>, dir: Ino, name: &[u8]) {
        let _ = self.notifier.inval_entry(volume.numbers.number(dir), OsStr::from_bytes(name));
    }
}

/// Adds the names in the root directory.
fn names_in_root(volume: &Volume, names: &mut Vec<u8>) -> Result<()> {
    for_each_entry(volume, volume.root(), |entry| {
        names.extend_from_slice(&entry.name);
        names.push(0);
    })
}

fn for_each_entry(volume: &Volume, dir: Ino, mut take: impl FnMut(&DirEntry)) -> Result<()> {
    let mut cookie = 0;
    loop {
        let entries = volume.readdir(&Caller::OWNER, dir, cookie, ENTRIES)?;
        let Some(last) = entries.last() else { return Ok(()) };
        cookie = last.cookie;
        entries.iter().for_each(&mut take);
    }
}
