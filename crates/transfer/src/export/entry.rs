//! Export of one name that is not a directory.

use super::content::{ExportFailure, copy_out};
use super::dir::ExportDir;
use super::exporter::{FirstName, TreeExport};
use super::host_entry::{HostEntryError, NewHostEntry, create_entry};
use crate::on_host::hostdir::FileId;
use crate::on_host::node::{NewNode, make_node};
use crate::running::job::count;
use crate::vocabulary::xattrs::{XattrTarget, remove_inherited_acls};
use lanefs::{Attr, FileKind, Ino};
use rustix::fd::OwnedFd;
use rustix::fs::{AtFlags, Mode, OFlags, fstat, linkat, openat, statat};
use rustix::io::Errno;
use std::ffi::CString;
use std::sync::Arc;

type HostResult<T, E = Errno> = Result<T, E>;

/// A new file on the host.
struct MadeFile {
    /// Descriptor of a regular file. Other files have their attributes already.
    open: Option<OwnedFd>,
    id: FileId,
}

impl TreeExport<'_> {
    /// Exports one name that is not a directory.
    pub(super) fn export_entry(
        &self,
        buffer: &mut [u8],
        dir: &Arc<ExportDir>,
        fd: &OwnedFd,
        ino: Ino,
        name: &[u8],
    ) {
        let attr = match self.volume.getattr(ino) {
            Ok(attr) if attr.kind == FileKind::Directory => {
                let what = "is a directory, but its entry says otherwise (run `lanefs fsck`)";
                return self.damage(dir, name, what);
            }
            Ok(attr) => attr,
            Err(error) => return self.unread(dir, name, &error),
        };
        if attr.links > 1 {
            return self.export_linked(buffer, dir, fd, &attr, name);
        }
        match self.make(dir, fd, &attr, name) {
            Ok(entry) => {
                if let Err(failure) = self.fill(buffer, dir, fd, &attr, &entry) {
                    self.abandon(dir, fd, name, &entry, failure);
                }
            }
            Err(error) => self.entry_refused(dir, name, &error),
        }
    }

    /// Exports one of several names of a file.
    fn export_linked(&self, buffer: &mut [u8], dir: &Arc<ExportDir>, fd: &OwnedFd, attr: &Attr, name: &[u8]) {
        let outcome = self.links.link_or_make(
            attr.ino,
            (dir.clone(), name.to_vec()),
            |first| self.link(first, fd, name),
            || {
                let entry = self.make(dir, fd, attr, name)?;
                let id = entry.made.id;
                let temporary = entry.temporary.clone();
                Ok((FirstName { dir: dir.clone(), name: name.to_vec(), temporary, id }, entry))
            },
        );
        match outcome {
            Err(error) => self.entry_refused(dir, name, &error),
            Ok(Ok(())) => count(&self.job.counters.hard_links),
            Ok(Err(entry)) => {
                let Err(failure) = self.fill(buffer, dir, fd, attr, &entry) else {
                    return self.links.completed(&attr.ino);
                };
                let others = self.links.failed(&attr.ino);
                self.abandon(dir, fd, name, &entry, failure);
                for (dir, name) in others {
                    if let Ok(fd) = dir.host.fd(&self.dirs) {
                        let _ = rustix::fs::unlinkat(&*fd, &name[..], AtFlags::empty());
                    }
                    self.problem(&dir, &name, "is a hard link to a file that could not be exported");
                }
            }
        }
    }

    /// Links `name` to the first name of the file, and checks that it is the same file.
    fn link(&self, first: &FirstName, fd: &OwnedFd, name: &[u8]) -> HostResult<(), HostEntryError> {
        let first_dir = first.dir.host.fd(&self.dirs)?;
        let is_first = |name: &[u8]| -> HostResult<bool> {
            let stat = statat(fd, name, AtFlags::SYMLINK_NOFOLLOW)?;
            Ok(FileId::of(&stat) == first.id)
        };
        if self.options.overwrite && is_first(name).unwrap_or(false) {
            return Ok(());
        }
        let entry = create_entry(fd, name, self.options.replaces(), |name| {
            let old = first.temporary.as_ref().unwrap_or(&first.name);
            match linkat(&*first_dir, &old[..], fd, name, AtFlags::empty()) {
                // The file has got its final name meanwhile.
                Err(Errno::NOENT) => linkat(&*first_dir, &first.name[..], fd, name, AtFlags::empty()),
                other => other,
            }
        })?;
        if !is_first(entry.current())? {
            entry.abandon(fd);
            return Err(HostEntryError::Host(Errno::STALE));
        }
        Ok(entry.finish(fd)?)
    }

    /// Makes the new file: a regular file without content and attributes, any other file with all of them.
    fn make(
        &self,
        dir: &ExportDir,
        fd: &OwnedFd,
        attr: &Attr,
        name: &[u8],
    ) -> HostResult<NewHostEntry<MadeFile>, HostEntryError> {
        let private = Mode::RUSR | Mode::WUSR;
        let replaces = self.options.replaces();
        if attr.kind == FileKind::File {
            let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            return create_entry(fd, name, replaces, |name| {
                let file = openat(fd, name, flags, private)?;
                let stat = fstat(&file)?;
                Ok(MadeFile { open: Some(file), id: FileId::of(&stat) })
            });
        }
        let target = match attr.kind {
            FileKind::Symlink => self.volume.readlink(attr.ino).map_err(HostEntryError::Volume)?,
            _ => Vec::new(),
        };
        let node = match attr.kind {
            FileKind::Symlink => NewNode::Link(&target),
            kind => NewNode::Special { kind, mode: private, rdev: attr.rdev },
        };
        let set = |at: &OwnedFd, name: &[u8]| {
            if !dir.made && attr.kind != FileKind::Symlink {
                remove_inherited_acls(&XattrTarget::Name(at, &CString::new(name).unwrap_or_default()));
            }
            self.set_named(at, name, attr)
        };
        create_entry(fd, name, replaces, |name| {
            make_node(fd, !dir.made, name, node, set).map(|id| MadeFile { open: None, id })
        })
    }

    /// Writes content and attributes of a regular file, then gives the file its final name.
    fn fill(
        &self,
        buffer: &mut [u8],
        dir: &ExportDir,
        fd: &OwnedFd,
        attr: &Attr,
        entry: &NewHostEntry<MadeFile>,
    ) -> HostResult<(), ExportFailure> {
        if let Some(file) = &entry.made.open {
            copy_out(&self.job, self.volume, &self.expansion, buffer, attr, file)?;
            if !dir.made {
                remove_inherited_acls(&XattrTarget::Open(file));
            }
            self.set_open(file, attr, dir.made)?;
        }
        entry.finish(fd)?;
        let counters = &self.job.counters;
        count(match attr.kind {
            FileKind::File => &counters.files,
            FileKind::Symlink => &counters.symlinks,
            _ => &counters.specials,
        });
        Ok(())
    }

    /// Removes an incomplete file and records the reason.
    fn abandon<T>(
        &self,
        dir: &ExportDir,
        fd: &OwnedFd,
        name: &[u8],
        entry: &NewHostEntry<T>,
        failure: ExportFailure,
    ) {
        entry.abandon(fd);
        match failure {
            ExportFailure::Stopped => (),
            ExportFailure::Host(errno) => self.host_refused(dir, name, "cannot write", errno),
            ExportFailure::Volume(error @ lanefs::Error::Expansion { .. }) => {
                self.job.volume_refused(dir.path(self.source, name), "cannot read", error);
            }
            ExportFailure::Volume(error) => self.unread(dir, name, &error),
        }
    }
}
