//! The versions of a volume that a service has.
//!
//! Most services have one. A mount that follows the tag of a publication moves to further ones: the root
//! directory is that of the current version, and each other inode that the client knows belongs to the
//! version in which the client found it. So an open file keeps its content, whatever is published. An older
//! version ends when the client has returned all its inodes.

mod numbers;

use crate::errno::{Errno, Reply};
use lanefs::{Attr, Caller, Ino, Volume};
use numbers::VERSIONS;
use parking_lot::{MappedRwLockReadGuard, Mutex, MutexGuard, RwLock, RwLockReadGuard};
use std::collections::BTreeSet;
use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};

pub(crate) use numbers::InodeNumbers;
pub use numbers::{Entry, Lookup, NodeId};

/// Most names that do not exist and are noted. Others keep their version until the client needs memory.
const MAX_MISSING: usize = 1 << 16;

/// A version of the volume.
pub(crate) struct Version {
    /// Taken out when the service ends; later requests fail with `ENOTCONN`.
    volume: RwLock<Option<Arc<Volume>>>,
    numbers: InodeNumbers,
    /// Number of references to inodes that replies have given to the client and that it has not returned. The
    /// client has the root without a reference, and never returns it.
    references: AtomicU64,
    /// True once the service has moved on.
    is_older: AtomicBool,
    /// Names that the client looked for since then, and that do not exist: directory and name.
    missing: Mutex<BTreeSet<(Ino, Vec<u8>)>>,
}

impl Version {
    fn new(volume: Arc<Volume>, number: u8) -> Arc<Self> {
        let numbers = InodeNumbers { root: volume.root(), version: number };
        let (volume, references) = (RwLock::new(Some(volume)), AtomicU64::new(0));
        let (is_older, missing) = Default::default();
        Arc::new(Version { volume, numbers, references, is_older, missing })
    }

    /// Opens the version for one request, or for the commands of one client. The end of the service waits
    /// until the value is dropped.
    ///
    /// # Errors
    /// `ENOTCONN`: the service has ended.
    pub(crate) fn open(&self) -> Reply<OpenVersion<'_>> {
        let volume = RwLockReadGuard::try_map(self.volume.read(), Option::as_ref);
        let volume = volume.map_err(|_| Errno::ENOTCONN)?;
        Ok(OpenVersion { numbers: self.numbers, version: self, volume })
    }

    /// Number of the version, which tells it from the others of the service.
    pub(crate) fn number(&self) -> u8 {
        self.numbers.version
    }

    /// Takes the volume out, once no request uses it.
    fn end(&self) -> Option<Arc<Volume>> {
        self.volume.write().take()
    }
}

/// A version in use: its volume, and what the client knows of it.
pub(crate) struct OpenVersion<'v> {
    pub(crate) numbers: InodeNumbers,
    version: &'v Version,
    volume: MappedRwLockReadGuard<'v, Arc<Volume>>,
}

impl Deref for OpenVersion<'_> {
    type Target = Volume;

    fn deref(&self) -> &Volume {
        &self.volume
    }
}

impl OpenVersion<'_> {
    /// The volume, for somebody who uses it beside the service.
    pub(crate) fn share(&self) -> Arc<Volume> {
        Arc::clone(&self.volume)
    }

    /// Notes that the client learns that a name does not exist, where that keeps an older version.
    pub(crate) fn note_missing(&self, dir: Ino, name: &[u8]) {
        if self.version.is_older.load(SeqCst) {
            let mut missing = self.version.missing.lock();
            if missing.len() < MAX_MISSING {
                missing.insert((dir, name.to_vec()));
            }
        }
    }

    /// Takes the names that were [noted](Self::note_missing).
    pub(crate) fn take_missing(&self) -> BTreeSet<(Ino, Vec<u8>)> {
        std::mem::take(&mut self.version.missing.lock())
    }

    /// Looks up a name and gives the client a reference to its inode.
    pub(crate) fn give_named(&self, dir: Ino, name: &[u8]) -> lanefs::Result<Attr> {
        let attr = self.volume.lookup_held(&Caller::OWNER, dir, name)?;
        self.given(attr.ino)?;
        Ok(attr)
    }

    /// Gives the client a reference to an inode.
    pub(crate) fn give(&self, ino: Ino) -> lanefs::Result<Attr> {
        let attr = self.volume.hold(ino)?;
        self.given(ino)?;
        Ok(attr)
    }

    /// Takes back `count` references that the client returns, or that a reply could not take.
    pub(crate) fn take_back(&self, ino: Ino, count: u64) -> lanefs::Result<()> {
        if ino == self.numbers.root {
            return Ok(());
        }
        let before = self.version.references.fetch_sub(count, SeqCst);
        debug_assert!(before >= count, "the client returns {count} references and has {before}");
        self.volume.release(ino, count)
    }

    /// Counts a reference to an inode that is held. The root needs neither: it is never freed, and the client
    /// returns references to it to the version that is current then.
    fn given(&self, ino: Ino) -> lanefs::Result<()> {
        if ino == self.numbers.root {
            return self.volume.release(ino, 1);
        }
        self.version.references.fetch_add(1, SeqCst);
        Ok(())
    }
}

struct State {
    current: Arc<Version>,
    /// Versions of which the client has inodes.
    older: Vec<Arc<Version>>,
}

/// All versions of a service.
pub(crate) struct Versions {
    state: RwLock<State>,
    /// Locked while the service moves to another version.
    moving: Mutex<()>,
}

impl Versions {
    pub(crate) fn new(volume: Arc<Volume>) -> Self {
        let state = State { current: Version::new(volume, 0), older: Vec::new() };
        Versions { state: RwLock::new(state), moving: Mutex::new(()) }
    }

    /// Returns the version that new lookups see.
    pub(crate) fn current(&self) -> Arc<Version> {
        Arc::clone(&self.state.read().current)
    }

    /// Returns the version to which an inode of the client belongs.
    ///
    /// # Errors
    /// `ESTALE`: there is none, which only a handle of a network file system can ask for.
    pub(crate) fn of(&self, node: NodeId) -> Reply<Arc<Version>> {
        match node {
            NodeId::ROOT => Ok(self.current()),
            node => self.numbered(InodeNumbers::version(node)).ok_or(Errno::ESTALE),
        }
    }

    /// Returns the version with a number.
    pub(crate) fn numbered(&self, number: u8) -> Option<Arc<Version>> {
        let state = self.state.read();
        if state.current.number() == number {
            return Some(Arc::clone(&state.current));
        }
        state.older.iter().find(|version| version.number() == number).cloned()
    }

    /// Keeps other threads from moving the service.
    pub(crate) fn moving(&self) -> MutexGuard<'_, ()> {
        self.moving.lock()
    }

    /// Makes `volume` the current version.
    ///
    /// # Errors
    /// The volume, where all numbers of versions are in use.
    pub(crate) fn replace(&self, volume: Arc<Volume>) -> Result<(), Arc<Volume>> {
        let mut state = self.state.write();
        state.retire();
        let last = state.current.number();
        let in_use = |number: u8| state.older.iter().any(|version| version.number() == number);
        let free = (1..VERSIONS).map(|step| last.wrapping_add(step as u8)).find(|number| !in_use(*number));
        let Some(number) = free else { return Err(volume) };
        let before = std::mem::replace(&mut state.current, Version::new(volume, number));
        before.is_older.store(true, SeqCst);
        state.older.push(before);
        state.retire();
        Ok(())
    }

    /// Returns the older versions.
    pub(crate) fn older(&self) -> Vec<Arc<Version>> {
        self.state.read().older.clone()
    }

    /// Ends the older versions that the client knows nothing of any more.
    pub(crate) fn retire(&self) {
        if !self.state.read().older.is_empty() {
            self.state.write().retire();
        }
    }

    /// Number of versions, the current one included.
    pub(crate) fn count(&self) -> usize {
        self.state.read().older.len() + 1
    }

    /// Takes all volumes out, the current one first, once no request uses them.
    pub(crate) fn end(&self) -> Vec<Arc<Volume>> {
        // Requests need the state while their end is waited for.
        let versions: Vec<_> = {
            let state = self.state.read();
            std::iter::once(&state.current).chain(&state.older).cloned().collect()
        };
        versions.iter().filter_map(|version| version.end()).collect()
    }
}

impl State {
    /// A version is found here only. So one that nobody else has now, and of which the client has no
    /// inode, is not asked for again.
    fn retire(&mut self) {
        self.older.retain(|version| Arc::strong_count(version) > 1 || version.references.load(SeqCst) > 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use lanefs::CreateOptions;

    fn volume() -> Arc<Volume> {
        let options = CreateOptions { size: 32 << 20, ..CreateOptions::default() };
        let volume = Volume::create_memory(&options).expect("a volume");
        volume.write_file("/f", b"text").expect("a file");
        Arc::new(volume)
    }

    /// Gives the client the file of a version; returns its number.
    fn given(version: &Version) -> NodeId {
        let open = version.open().expect("serving");
        let attr = open.give_named(open.numbers.root, b"f").expect("found");
        open.numbers.node(attr.ino)
    }

    fn take_back(versions: &Versions, node: NodeId) {
        let version = versions.of(node).expect("a version");
        let open = version.open().expect("serving");
        open.take_back(open.numbers.ino(node), 1).expect("taken back");
    }

    #[test]
    fn a_version_ends_when_the_client_has_returned_its_inodes_and_no_request_uses_it() {
        let versions = Versions::new(volume());
        let first = given(&versions.current());
        let in_use = versions.current();
        assert!(versions.replace(volume()).is_ok());
        let second = given(&versions.current());
        assert_ne!(first, second, "the numbers tell the versions");
        assert_eq!(versions.of(NodeId::ROOT).map(|version| version.number()), Ok(1));
        take_back(&versions, first);
        versions.retire();
        assert_eq!(versions.count(), 2, "a request uses it");
        // Such a request may give the client an inode still.
        assert_eq!(given(&in_use), first);
        drop(in_use);
        versions.retire();
        assert_eq!(versions.count(), 2, "the client has an inode of it");
        take_back(&versions, first);
        versions.retire();
        assert_eq!((versions.count(), versions.of(first).err()), (1, Some(Errno::ESTALE)));
        take_back(&versions, second);
        versions.retire();
        assert_eq!(versions.count(), 1, "the current one stays");
    }

    #[test]
    fn the_root_belongs_to_the_current_version_and_is_not_counted() {
        let versions = Versions::new(volume());
        let current = versions.current();
        let open = current.open().expect("serving");
        let root = open.give(open.numbers.root).expect("held");
        assert_eq!(open.numbers.node(root.ino), NodeId::ROOT);
        open.take_back(root.ino, 1).expect("taken back");
        open.take_back(root.ino, 1).expect("a reference that another version gave");
        assert!(!open.is_held(root.ino));
    }

    #[test]
    fn a_service_has_as_many_versions_as_numbers() {
        let versions = Versions::new(volume());
        let mut given_numbers = vec![given(&versions.current())];
        for _ in 1..VERSIONS {
            assert!(versions.replace(volume()).is_ok());
            given_numbers.push(given(&versions.current()));
        }
        given_numbers.sort_unstable_by_key(|number| number.0);
        given_numbers.dedup();
        assert_eq!((given_numbers.len(), versions.count()), (VERSIONS, VERSIONS));
        assert!(versions.replace(volume()).is_err(), "all numbers are in use");
        let third = given_numbers[2];
        take_back(&versions, third);
        assert!(versions.replace(volume()).is_ok());
        assert_eq!(given(&versions.current()), third, "the number that is free");
        let volumes = versions.end();
        assert_eq!(volumes.len(), VERSIONS);
        assert_eq!(versions.current().open().err(), Some(Errno::ENOTCONN));
    }
}
