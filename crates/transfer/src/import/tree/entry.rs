//! One name of the host's tree that is no directory, and what both kinds of names need.

use super::{Dir, Import, Kind, Local};
use crate::error::errno_text;
use crate::host::Meta;
use crate::import::file::{Copied, Fault, copy_in};
use crate::import::place::place_link;
use crate::import::{OWNER, Placed, Refusal, place};
use crate::name::shown;
use crate::run::count;
use crate::xattrs::Target;
use lanefs::{FileKind, Ino, XattrMode};
use rustix::fd::OwnedFd;
use rustix::fs::{AtFlags, FileType, Mode, OFlags, Stat, fstat, openat, readlinkat, statat};
use rustix::io::Errno;
use std::ffi::CStr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

type Result<T, E = Errno> = std::result::Result<T, E>;

impl Import<'_> {
    /// One name that is no directory. `new_name`: its name in the volume.
    pub(super) fn entry(
        &self,
        local: &mut Local,
        dir: &Arc<Dir>,
        fd: &OwnedFd,
        name: &CStr,
        kind: Option<Kind>,
        new_name: &[u8],
    ) {
        // What is known to be a file is opened at once; the stat follows on the descriptor.
        let (file, stat) = if kind == Some(Kind::File) {
            match self.open_file(fd, name) {
                Ok((file, stat)) => (Some(file), stat),
                Err(errno) => return self.host_problem(dir, name.to_bytes(), errno),
            }
        } else {
            match statat(fd, name, AtFlags::SYMLINK_NOFOLLOW) {
                Err(errno) => return self.host_problem(dir, name.to_bytes(), errno),
                Ok(stat) if FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile => {
                    match self.open_file(fd, name) {
                        Ok((file, stat)) => (Some(file), stat),
                        Err(errno) => return self.host_problem(dir, name.to_bytes(), errno),
                    }
                }
                Ok(stat) => (None, stat),
            }
        };
        let Some(meta) = Meta::new(&stat).filter(|meta| meta.kind != FileKind::Directory) else {
            return self.run.problem(dir.host.path(name.to_bytes()), "changed its type while being imported");
        };
        if self.options.skip.contains(&meta.id) {
            let path = shown(&dir.host.path(name.to_bytes()));
            return self.run.note(format!("{path}: left out, as it is the volume itself"));
        }
        let source = Source { dir, fd, name, file: file.as_ref(), meta: &meta };
        if meta.links > 1 {
            self.linked(local, &source, new_name);
        } else if !self.put_into_batch(local, &source) {
            self.one(local, &source, new_name);
        }
    }

    /// A name that is its inode's only one.
    pub(super) fn one(&self, local: &mut Local, source: &Source<'_>, new_name: &[u8]) {
        match self.make(source, new_name) {
            Ok(placed) => {
                if let Err(fault) = self.fill(local, source, &placed) {
                    self.failed(source, &placed, fault);
                }
            }
            Err(refusal) => self.refused(source.dir, source.name.to_bytes(), refusal),
        }
    }

    /// One of several names of a file.
    fn linked(&self, local: &mut Local, source: &Source<'_>, new_name: &[u8]) {
        let dir = source.dir.ino;
        let key = source.meta.id;
        let answer = self.links.link_or_make(
            key,
            (dir, new_name.to_vec(), source.path()),
            |first| place_link(self.volume, *first, dir, new_name, self.options.overwrite),
            || self.make(source, new_name).map(|placed| (placed.ino, placed)),
        );
        match answer {
            Err(refusal) => self.refused(source.dir, source.name.to_bytes(), refusal),
            Ok(Ok(())) => count(&self.run.counters.hard_links),
            Ok(Err(placed)) => {
                let Err(fault) = self.fill(local, source, &placed) else {
                    return self.links.whole(&key);
                };
                let others = self.links.failed(&key);
                self.failed(source, &placed, fault);
                for (dir, name, path) in others {
                    let _ = self.volume.unlink(&OWNER, dir, &name);
                    self.run.problem(path, "another name of a file that could not be imported");
                }
            }
        }
    }

    /// The new inode, still without content and attributes.
    fn make(&self, source: &Source<'_>, new_name: &[u8]) -> Result<Placed, Refusal> {
        let (volume, dir, perm) = (self.volume, source.dir.ino, source.meta.perm);
        let target = if source.meta.kind == FileKind::Symlink {
            readlinkat(source.fd, source.name, Vec::new()).map_err(Refusal::Host)?.into_bytes()
        } else {
            Vec::new()
        };
        place(volume, dir, new_name, self.options.overwrite, |name| match source.meta.kind {
            FileKind::File => volume.create_file(&OWNER, dir, name, perm),
            FileKind::Symlink => volume.symlink(&OWNER, dir, name, &target),
            kind => volume.mknod(&OWNER, dir, name, kind, perm, source.meta.rdev),
        })
    }

    /// Content, extended attributes, attributes, and at last the name.
    fn fill(&self, local: &mut Local, source: &Source<'_>, placed: &Placed) -> Result<(), Fault> {
        let counter = self.fill_inode(local, source, placed.ino)?;
        placed.finish(self.volume)?;
        count(counter);
        Ok(())
    }

    /// Removes what is not whole and tells why.
    fn failed(&self, source: &Source<'_>, placed: &Placed, fault: Fault) {
        placed.abandon(self.volume);
        match fault {
            Fault::Ends => (),
            Fault::Volume(error) => {
                self.run.volume_refused(source.path(), "cannot write into the volume", error);
            }
            fault => self.run.problem(source.path(), fault.text()),
        }
    }

    fn fill_inode(&self, local: &mut Local, source: &Source<'_>, ino: Ino) -> Result<&AtomicU64, Fault> {
        let mut set = source.meta.set_attr();
        let counter = match (source.meta.kind, source.file) {
            (FileKind::File, Some(file)) => {
                let copied: Copied =
                    copy_in(&self.run, self.volume, &mut local.content, file, source.meta, ino)?;
                set.size = copied.size;
                if copied.changed {
                    self.run.problem(source.path(), "changed while being read; kept as it was read");
                }
                self.xattrs(local, &Target::Open(file), ino, || source.path());
                &self.run.counters.files
            }
            (kind, _) => {
                self.xattrs(local, &Target::Name(source.fd, source.name), ino, || source.path());
                if kind == FileKind::Symlink {
                    // Links have no permissions of their own on Linux.
                    set.perm = None;
                    &self.run.counters.symlinks
                } else {
                    &self.run.counters.specials
                }
            }
        };
        self.volume.setattr(&OWNER, ino, &set)?;
        Ok(counter)
    }

    pub(super) fn dir_xattrs(&self, local: &mut Local, fd: &OwnedFd, dir: &Dir, name: &[u8]) {
        self.xattrs(local, &Target::Open(fd), dir.ino, || dir.host.path(name));
    }

    fn xattrs(&self, local: &mut Local, target: &Target<'_>, ino: Ino, path: impl Fn() -> Vec<u8>) {
        let refused = local.xattrs.each(target, |name, value| {
            match self.volume.setxattr(&OWNER, ino, name, value, XattrMode::Set) {
                Ok(()) => count(&self.run.counters.xattrs),
                Err(error) => {
                    let doing = format!("cannot keep the attribute {}", shown(name));
                    self.run.volume_refused(path(), &doing, error);
                }
            }
        });
        self.run.counters.xattrs_refused.fetch_add(refused, Ordering::Relaxed);
    }

    /// Opens for reading, without touching the access time where allowed.
    pub(super) fn open(&self, dir: &OwnedFd, name: &CStr, flags: OFlags) -> Result<OwnedFd, Errno> {
        match openat(dir, name, flags | self.no_atime, Mode::empty()) {
            Err(Errno::PERM) if !self.no_atime.is_empty() => openat(dir, name, flags, Mode::empty()),
            other => other,
        }
    }

    pub(super) fn open_file(&self, dir: &OwnedFd, name: &CStr) -> Result<(OwnedFd, Stat), Errno> {
        // Should a fifo or a terminal have taken the name, it shall neither hang nor take over.
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        let file = self.open(dir, name, flags)?;
        let stat = fstat(&file)?;
        Ok((file, stat))
    }

    pub(super) fn host_problem(&self, dir: &Dir, name: &[u8], errno: Errno) {
        let what = match errno {
            Errno::NOENT => "vanished while being imported".to_string(),
            Errno::LOOP | Errno::NOTDIR | Errno::NXIO => "changed its type while being imported".into(),
            Errno::STALE => "was replaced by another directory while being imported".into(),
            errno => format!("cannot be read: {}", errno_text(errno)),
        };
        self.run.problem(dir.host.path(name), what);
    }

    pub(super) fn refused(&self, dir: &Dir, name: &[u8], refusal: Refusal) {
        match refusal {
            Refusal::Volume(error) => {
                self.run.volume_refused(dir.host.path(name), "cannot write into the volume", error);
            }
            taken => self.run.problem(dir.host.path(name), taken.text()),
        }
    }
}

/// A name of the host that is no directory.
pub(super) struct Source<'a> {
    pub(super) dir: &'a Arc<Dir>,
    /// The directory's descriptor.
    pub(super) fd: &'a OwnedFd,
    pub(super) name: &'a CStr,
    /// Open where it is a regular file.
    pub(super) file: Option<&'a OwnedFd>,
    pub(super) meta: &'a Meta,
}

impl Source<'_> {
    fn path(&self) -> Vec<u8> {
        self.dir.host.path(self.name.to_bytes())
    }
}
