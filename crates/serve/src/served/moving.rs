//! Moving a service to another version of its volume.
//!
//! All inodes but the root belong to one version, so the caches of a client stay true. Only the root changes:
//! its attributes, its listing, and what its names mean. Linux drops everything that it has cached below a
//! name of the root together with the name, except what is in use. That becomes cache again when it is
//! closed, out of reach of any path; so it has to be dropped by name once more.

use crate::error::{Error, Result};
use crate::served::Served;
use crate::served::observer::answers_requests;
use crate::versions::NodeId;
use crate::versions::OpenVersion;
use lanefs::{Caller, DirEntry, FileKind, Ino, Volume};
use std::sync::Arc;

/// Entries of a directory that are read at a time.
const ENTRIES: usize = 1024;

impl Served {
    /// Serves `volume` instead of the present one. On return every new lookup sees it. Files that are open,
    /// and directories in use, stay those of the version in which they were opened; that version ends with
    /// the last of them. No thread that answers requests may call it.
    ///
    /// # Errors
    /// [`Error::Ended`]: the service has ended. [`Error::Move`]: the present volume or `volume` can be
    /// changed; files of 255 older versions are in use. [`Error::Volume`]: a root cannot be listed. The
    /// service stays as it is, and `volume` closes.
    pub fn move_to(&self, volume: Arc<Volume>) -> Result<()> {
        debug_assert!(!answers_requests(), "a notification waits for threads that answer requests");
        if !volume.is_read_only() {
            return Err(Error::Move("the new version is open for writing"));
        }
        let _moving = self.versions.moving();
        // Names, each with a NUL after it. They are read before anything changes, because a store may fail.
        let mut names = Vec::new();
        {
            let current = self.versions.current();
            let before = current.open().map_err(|_| Error::Ended)?;
            if !before.is_read_only() {
                return Err(Error::Move("its volume is open for writing"));
            }
            names_in_root(&before, &mut names)?;
        }
        names_in_root(&volume, &mut names)?;
        if self.versions.replace(volume).is_err() {
            return Err(Error::Move("files of too many older versions are in use; close some"));
        }
        if let Some(observer) = self.observer() {
            // The client also caches that a name does not exist.
            for name in names.split(|byte| *byte == 0).filter(|name| !name.is_empty()) {
                observer.name_changed(NodeId::ROOT, name);
            }
            observer.node_changed(NodeId::ROOT);
        }
        self.versions.retire();
        Ok(())
    }

    /// Makes the client drop what it has of older versions and does not use, and ends the versions of which
    /// it has nothing more. Costs a listing of each directory of an older version that the client knows, and
    /// memory for the names of one version that the client knows there.
    pub fn end_unused(&self) {
        for version in self.versions.older() {
            let names = {
                let Ok(volume) = version.open() else { return };
                names_of_client(&volume)
            };
            // The version is not in use here. The end of the service waits for its users, requests wait for
            // that end, and the client may wait for a request before it drops a name.
            if let Some(observer) = self.observer() {
                names.iter().for_each(|(dir, name)| observer.name_changed(*dir, name));
            }
        }
        self.versions.retire();
    }
}

/// Returns the names that the client has of a version, each with its directory.
fn names_of_client(volume: &OpenVersion<'_>) -> Vec<(NodeId, Vec<u8>)> {
    let missing = volume.take_missing();
    let mut names: Vec<_> = missing.into_iter().map(|(dir, name)| (volume.numbers.node(dir), name)).collect();
    for dir in volume.held() {
        // A directory that cannot be read keeps its version a while longer.
        let _ = held_names(volume, dir, &mut names);
    }
    names
}

/// Adds the names that the client has of a directory; of any other inode it has none.
fn held_names(volume: &OpenVersion<'_>, dir: Ino, names: &mut Vec<(NodeId, Vec<u8>)>) -> lanefs::Result<()> {
    if volume.getattr(dir)?.kind != FileKind::Directory {
        return Ok(());
    }
    for_each_entry(volume, dir, |entry| {
        if volume.is_held(entry.ino) {
            names.push((volume.numbers.node(dir), entry.name.clone()));
        }
    })
}

/// Adds the names in the root directory.
fn names_in_root(volume: &Volume, names: &mut Vec<u8>) -> lanefs::Result<()> {
    for_each_entry(volume, volume.root(), |entry| {
        names.extend_from_slice(&entry.name);
        names.push(0);
    })
}

fn for_each_entry(volume: &Volume, dir: Ino, mut take: impl FnMut(&DirEntry)) -> lanefs::Result<()> {
    let mut cookie = 0;
    loop {
        let entries = volume.readdir(&Caller::OWNER, dir, cookie, ENTRIES)?;
        let Some(last) = entries.last() else { return Ok(()) };
        cookie = last.cookie;
        entries.iter().for_each(&mut take);
    }
}
