//! Calls that only tests and measurements need (feature `_testing`).

use crate::attempt::Core;
use crate::by_inode::ops;
use crate::mounted::writer::Writer;
use crate::names::lookup;
use crate::names::resolve::{self, Start};
use crate::running::volume::Volume;
use crate::vocabulary::error::{Outcome, Result};
use crate::vocabulary::types::{Attr, Caller, DirEntry, Ino, StatFs};
use lanefs_format::FileKind;
use lanefs_store::Closed;

/// Reads without concurrency control, as in a program of one thread: no read set is tracked or validated.
/// Changes wait while this value lives, so its thread must not change the volume.
pub struct Unchecked<'v> {
    volume: &'v Volume,
    closed: Closed<'v, Writer>,
}

impl Volume {
    /// Evicts all clean blocks, for measurements that begin with a cold cache. Returns their number.
    ///
    /// # Errors
    /// The device's, because changes are made durable first.
    pub fn drop_caches(&self) -> Result<u64> {
        self.shared.commit()?;
        Ok(self.shared.state.store.drop_clean())
    }

    /// Stops all changes, and gives reads without concurrency control.
    pub fn unchecked(&self) -> Unchecked<'_> {
        let shared = &self.shared;
        Unchecked { volume: self, closed: shared.state.gate.close(&shared.state.store) }
    }
}

/// Each method is the call of [`Volume`] with the same name.
#[expect(missing_docs, clippy::missing_errors_doc, reason = "described there")]
impl Unchecked<'_> {
    #[inline(always)]
    fn run<T>(&self, operation: impl FnMut(&Core<'_>) -> Outcome<T>) -> Result<T> {
        self.volume.shared.view_exclusive(&self.closed, operation)
    }

    pub fn lookup(&self, caller: &Caller, dir: Ino, name: &[u8]) -> Result<(Ino, FileKind)> {
        self.run(|core| lookup::lookup(core, caller, dir.0, name)).map(|(ino, kind)| (Ino(ino), kind))
    }

    pub fn getattr(&self, ino: Ino) -> Result<Attr> {
        self.run(|core| ops::getattr(core, ino))
    }

    pub fn readdir(&self, caller: &Caller, dir: Ino, cookie: u64, max: usize) -> Result<Vec<DirEntry>> {
        self.run(|core| ops::readdir(core, caller, dir, cookie, max))
    }

    pub fn readlink(&self, ino: Ino) -> Result<Vec<u8>> {
        self.run(|core| lookup::readlink(core, ino.0))
    }

    pub fn read(&self, caller: &Caller, ino: Ino, offset: u64, buffer: &mut [u8]) -> Result<usize> {
        self.run(|core| ops::read(core, caller, ino, offset, buffer))
    }

    pub fn getxattr(&self, caller: &Caller, ino: Ino, name: &[u8]) -> Result<Vec<u8>> {
        self.run(|core| ops::getxattr(core, caller, ino, name))
    }

    pub fn resolve(&self, path: &[u8]) -> Result<Attr> {
        let root = self.volume.root().0;
        let start = Start { root, base: root, follow: true, caller: &Caller::OWNER };
        self.run(|core| ops::getattr(core, Ino(resolve::resolve(core, &start, path)?.0)))
    }

    pub fn statfs(&self) -> Result<StatFs> {
        self.volume.statfs()
    }
}
