//! One name of the volume's tree that is no directory.

use super::{Dir, Export, First};
use crate::export::file::{Fault, copy_out};
use crate::export::place::{Placed, Refusal, place};
use crate::hostdir::FileId;
use crate::run::count;
use crate::xattrs::{Target, shed_inherited};
use lanefs::{Attr, FileKind, Ino};
use rustix::fd::OwnedFd;
use rustix::fs::{AtFlags, FileType, Mode, OFlags, linkat, mknodat, openat, statat, symlinkat};
use rustix::io::Errno;
use std::ffi::CString;
use std::sync::Arc;

type Result<T, E = Errno> = std::result::Result<T, E>;

impl Export<'_> {
    /// One name that is no directory.
    pub(super) fn entry(&self, buffer: &mut [u8], dir: &Arc<Dir>, fd: &OwnedFd, ino: Ino, name: &[u8]) {
        let attr = match self.volume.getattr(ino) {
            Ok(attr) if attr.kind == FileKind::Directory => {
                return self.problem(dir, name, "is a directory under a file's name (run `lanefs fsck`)");
            }
            Ok(attr) => attr,
            Err(error) => return self.problem(dir, name, Fault::Volume(error).text()),
        };
        if attr.links > 1 {
            return self.linked(buffer, dir, fd, &attr, name);
        }
        match self.make(fd, &attr, name) {
            Ok(placed) => {
                if let Err(fault) = self.fill(buffer, dir, fd, &attr, &placed) {
                    self.failed(dir, fd, name, &placed, fault);
                }
            }
            Err(refusal) => self.refused(dir, name, &refusal),
        }
    }

    /// One of several names of a file.
    fn linked(&self, buffer: &mut [u8], dir: &Arc<Dir>, fd: &OwnedFd, attr: &Attr, name: &[u8]) {
        let answer = self.links.link_or_make(
            attr.ino,
            (dir.clone(), name.to_vec()),
            |first| self.link(first, fd, name),
            || {
                let placed = self.make(fd, attr, name)?;
                let stat = statat(fd, placed.current(), AtFlags::SYMLINK_NOFOLLOW)?;
                let id = FileId { dev: stat.st_dev, ino: stat.st_ino };
                let temporary = placed.temporary.clone();
                Ok((First { dir: dir.clone(), name: name.to_vec(), temporary, id }, placed))
            },
        );
        match answer {
            Err(refusal) => self.refused(dir, name, &refusal),
            Ok(Ok(())) => count(&self.run.counters.hard_links),
            Ok(Err(placed)) => {
                let Err(fault) = self.fill(buffer, dir, fd, attr, &placed) else {
                    return self.links.whole(&attr.ino);
                };
                let others = self.links.failed(&attr.ino);
                self.failed(dir, fd, name, &placed, fault);
                for (dir, name) in others {
                    if let Ok(fd) = dir.host.fd(&self.dirs) {
                        let _ = rustix::fs::unlinkat(&*fd, &name[..], AtFlags::empty());
                    }
                    self.problem(&dir, &name, "another name of a file that could not be exported");
                }
            }
        }
    }

    /// Links `name` to the file exported first, and sees that it is that file.
    fn link(&self, first: &First, fd: &OwnedFd, name: &[u8]) -> Result<(), Refusal> {
        let at = first.dir.host.fd(&self.dirs)?;
        let is_first = |name: &[u8]| -> Result<bool> {
            let stat = statat(fd, name, AtFlags::SYMLINK_NOFOLLOW)?;
            Ok(FileId { dev: stat.st_dev, ino: stat.st_ino } == first.id)
        };
        if self.options.overwrite && is_first(name).unwrap_or(false) {
            return Ok(());
        }
        let placed = place(fd, name, self.options.overwrite, |name| {
            let old = first.temporary.as_ref().unwrap_or(&first.name);
            match linkat(&*at, &old[..], fd, name, AtFlags::empty()) {
                // It has taken its final name meanwhile.
                Err(Errno::NOENT) => linkat(&*at, &first.name[..], fd, name, AtFlags::empty()),
                other => other,
            }
        })?;
        if !is_first(placed.current())? {
            placed.abandon(fd);
            return Err(Refusal::Host(Errno::STALE));
        }
        Ok(placed.finish(fd)?)
    }

    /// The new file, still without content and attributes.
    fn make(&self, fd: &OwnedFd, attr: &Attr, name: &[u8]) -> Result<Placed<Option<OwnedFd>>, Refusal> {
        let private = Mode::RUSR | Mode::WUSR;
        let target = match attr.kind {
            FileKind::Symlink => self.volume.readlink(attr.ino).map_err(|_| Refusal::Host(Errno::IO))?,
            _ => Vec::new(),
        };
        place(fd, name, self.options.overwrite, |name| match attr.kind {
            FileKind::File => {
                let flags =
                    OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
                openat(fd, name, flags, private).map(Some)
            }
            FileKind::Symlink => symlinkat(&target[..], fd, name).map(|()| None),
            kind => {
                let kind = FileType::from_raw_mode(kind.mode().into());
                mknodat(fd, name, kind, private, attr.rdev as _).map(|()| None)
            }
        })
    }

    /// Content, attributes, and at last the name.
    fn fill(
        &self,
        buffer: &mut [u8],
        dir: &Dir,
        fd: &OwnedFd,
        attr: &Attr,
        placed: &Placed<Option<OwnedFd>>,
    ) -> Result<(), Fault> {
        match &placed.made {
            Some(file) => {
                copy_out(&self.run, self.volume, buffer, attr, file)?;
                if !dir.made {
                    shed_inherited(&Target::Open(file));
                }
                self.set_open(file, attr, dir.made)?;
            }
            None => {
                if !dir.made && attr.kind != FileKind::Symlink {
                    shed_inherited(&Target::Name(fd, &CString::new(placed.current()).unwrap_or_default()));
                }
                self.set_named(fd, placed.current(), attr)?;
            }
        }
        placed.finish(fd)?;
        let counters = &self.run.counters;
        count(match attr.kind {
            FileKind::File => &counters.files,
            FileKind::Symlink => &counters.symlinks,
            _ => &counters.specials,
        });
        Ok(())
    }

    /// Removes what is not whole and tells why.
    fn failed<T>(&self, dir: &Dir, fd: &OwnedFd, name: &[u8], placed: &Placed<T>, fault: Fault) {
        placed.abandon(fd);
        match fault {
            Fault::Ends => (),
            Fault::Host(errno) => self.host_refused(dir, name, "cannot write", errno),
            fault => self.problem(dir, name, fault.text()),
        }
    }
}
