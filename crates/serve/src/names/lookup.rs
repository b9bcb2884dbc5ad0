//! Reading of names, and the references that a client returns.

use crate::errno::Reply;
use crate::served::Served;
use crate::statistics::Operation;
use crate::versions::{Entry, Lookup, NodeId};
use lanefs::{Code, FileKind};

impl Served {
    /// Returns the named inode and gives the client a reference to it.
    ///
    /// # Errors
    /// Those of [`lanefs::Volume::lookup`], except that a missing name is an answer.
    pub fn lookup(&self, dir: NodeId, name: &[u8]) -> Reply<Lookup> {
        let dir_node = dir;
        self.with(Operation::Lookup, dir, |volume| {
            let dir = volume.numbers.ino(dir);
            // NFS looks up `.` in any inode, also in files.
            let found = if name == b"." { volume.give(dir) } else { volume.give_named(dir, name) };
            match found {
                // `..` of an older version leads to the root that all versions share.
                Ok(attr) if attr.ino == volume.numbers.root => self.root().map(Lookup::Found),
                Ok(attr) => {
                    let entry = self.entry(volume, attr);
                    if !matches!(name, b"." | b"..") {
                        self.note_name(dir_node, name, &entry);
                    }
                    Ok(Lookup::Found(entry))
                }
                Err(error) if error.code() == Code::NotFound && name != b"." => {
                    volume.note_missing(dir, name);
                    Ok(Lookup::Missing(self.validity()))
                }
                Err(error) => Err(error.into()),
            }
        })
    }

    /// Tells the trace of a name that the client learns.
    pub(super) fn note_name(&self, dir: NodeId, name: &[u8], entry: &Entry) {
        if let Some(trace) = self.trace() {
            trace.note_name(dir, name, entry.node, entry.attr.kind == FileKind::Directory);
        }
    }

    fn root(&self) -> Reply<Entry> {
        let current = self.versions.current();
        let volume = current.open()?;
        Ok(self.entry(&volume, volume.getattr(volume.numbers.root)?))
    }

    /// Takes back `times` references that the client had to an inode.
    ///
    /// # Errors
    /// Those of [`lanefs::Volume::release`].
    pub fn forget(&self, node: NodeId, times: u64) -> Reply<()> {
        let forgotten = self
            .with(Operation::Forget, node, |volume| Ok(volume.take_back(volume.numbers.ino(node), times)?));
        self.versions.retire();
        forgotten
    }

    /// Returns the target of a symbolic link.
    ///
    /// # Errors
    /// Those of [`lanefs::Volume::readlink`].
    pub fn readlink(&self, node: NodeId) -> Reply<Vec<u8>> {
        self.with(Operation::Readlink, node, |volume| Ok(volume.readlink(volume.numbers.ino(node))?))
    }
}
