//! Import of one name that is not a directory.

use super::content::{ImportFailure, copy_in};
use super::dir::ImportDir;
use super::importer::{ThreadBuffers, TreeImport};
use crate::in_volume::volume_entry::{NewVolumeEntry, VolumeEntryError, create_entry, link_entry};
use crate::on_host::host::HostMeta;
use crate::running::job::count;
use crate::vocabulary::xattrs::XattrTarget;
use lanefs::{FileKind, Ino};
use rustix::fd::OwnedFd;
use rustix::fs::readlinkat;
use std::ffi::CStr;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

/// A name of the host that is not a directory.
pub(super) struct SourceName<'a> {
    pub(super) dir: &'a Arc<ImportDir>,
    /// Descriptor of the directory.
    pub(super) fd: &'a OwnedFd,
    pub(super) name: &'a CStr,
    /// Descriptor of a regular file.
    pub(super) file: Option<&'a OwnedFd>,
    pub(super) meta: &'a HostMeta,
}

impl SourceName<'_> {
    fn path(&self) -> Vec<u8> {
        self.dir.host.path(self.name.to_bytes())
    }
}

impl TreeImport<'_> {
    /// Imports a name that is the only one of its inode. `new_name` is its name in the volume.
    pub(super) fn import_unlinked(
        &self,
        buffers: &mut ThreadBuffers,
        source: &SourceName<'_>,
        new_name: &[u8],
    ) {
        match self.make(source, new_name) {
            Ok(entry) => {
                if let Err(failure) = self.fill(buffers, source, &entry) {
                    self.abandon(source, &entry, failure);
                }
            }
            Err(error) => self.entry_refused(source.dir, source.name.to_bytes(), error),
        }
    }

    /// Imports one of several names of a file.
    pub(super) fn import_linked(
        &self,
        buffers: &mut ThreadBuffers,
        source: &SourceName<'_>,
        new_name: &[u8],
    ) {
        let dir = source.dir.target.ino;
        let key = source.meta.id;
        let outcome = self.links.link_or_make(
            key,
            (dir, new_name.to_vec(), source.path()),
            |first| link_entry(self.volume, *first, dir, new_name, self.options.overwrite),
            || self.make(source, new_name).map(|entry| (entry.ino, entry)),
        );
        match outcome {
            Err(error) => self.entry_refused(source.dir, source.name.to_bytes(), error),
            Ok(Ok(())) => count(&self.job.counters.hard_links),
            Ok(Err(entry)) => {
                let Err(failure) = self.fill(buffers, source, &entry) else {
                    return self.links.completed(&key);
                };
                let others = self.links.failed(&key);
                self.abandon(source, &entry, failure);
                for (dir, name, path) in others {
                    let _ = self.volume.unlink(dir, &name);
                    self.job.problem(path, "is a hard link to a file that could not be imported");
                }
            }
        }
    }

    /// Makes the new inode, without content and attributes.
    fn make(&self, source: &SourceName<'_>, new_name: &[u8]) -> Result<NewVolumeEntry, VolumeEntryError> {
        let (volume, target, perm) = (self.volume, source.dir.target, source.meta.perm);
        let link = if source.meta.kind == FileKind::Symlink {
            readlinkat(source.fd, source.name, Vec::new()).map_err(VolumeEntryError::Host)?.into_bytes()
        } else {
            Vec::new()
        };
        let dir = target.ino;
        create_entry(volume, target, new_name, self.options.overwrite, |name| match source.meta.kind {
            FileKind::File => volume.create_file(dir, name, perm),
            FileKind::Symlink => volume.symlink(dir, name, &link),
            kind => volume.mknod(dir, name, kind, perm, source.meta.rdev),
        })
    }

    /// Copies content, extended attributes and attributes, then gives the inode its final name.
    fn fill(
        &self,
        buffers: &mut ThreadBuffers,
        source: &SourceName<'_>,
        entry: &NewVolumeEntry,
    ) -> Result<(), ImportFailure> {
        let counter = self.fill_inode(buffers, source, entry.ino)?;
        entry.finish(self.volume)?;
        count(counter);
        Ok(())
    }

    fn fill_inode(
        &self,
        buffers: &mut ThreadBuffers,
        source: &SourceName<'_>,
        ino: Ino,
    ) -> Result<&AtomicU64, ImportFailure> {
        let mut set = source.meta.set_attr();
        let counter = match (source.meta.kind, source.file) {
            (FileKind::File, Some(file)) => {
                let copied = copy_in(&self.job, self.volume, &mut buffers.content, file, source.meta, ino)?;
                set.size = copied.size;
                if copied.changed {
                    self.job.problem(source.path(), "changed while it was read; the volume has it as read");
                }
                self.copy_xattrs(buffers, &XattrTarget::Open(file), ino, || source.path());
                &self.job.counters.files
            }
            (kind, _) => {
                self.copy_xattrs(buffers, &XattrTarget::Name(source.fd, source.name), ino, || source.path());
                if kind == FileKind::Symlink {
                    // Links have no permissions of their own on Linux.
                    set.perm = None;
                    &self.job.counters.symlinks
                } else {
                    &self.job.counters.specials
                }
            }
        };
        self.volume.setattr(ino, set)?;
        Ok(counter)
    }

    /// Removes an incomplete file and records the reason.
    fn abandon(&self, source: &SourceName<'_>, entry: &NewVolumeEntry, failure: ImportFailure) {
        entry.abandon(self.volume);
        match failure {
            ImportFailure::Stopped => (),
            ImportFailure::Volume(error) => {
                self.job.volume_refused(source.path(), "cannot write into the volume", error);
            }
            ImportFailure::Host(_) => self.job.problem(source.path(), failure.text()),
        }
    }
}
