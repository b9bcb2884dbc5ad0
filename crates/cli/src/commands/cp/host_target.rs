//! The host's side of a copy out of the volume: directories that the copy is inside, by descriptor.
//!
//! Somebody else may change the names of the directory that the user named, and of those that were there
//! before. So each name below it is opened or made in an open directory without following links, and
//! attributes are set on what was opened.

use super::meta::FileMeta;
use crate::bytes;
use crate::failure::{Failure, Outcome, REMOVE_OR_RENAME};
use lanefs::FileKind;
use lanefs_transfer::FileId;
use lanefs_transfer::by_descriptor::{
    HostDir, Node, OpenDirs, make_node, make_or_open, set_mode_and_times, set_mode_and_times_of, set_owner,
    set_owner_of, set_times,
};
use rustix::fd::OwnedFd;
use rustix::fs::{AtFlags, CWD, Mode, OFlags, fchmod, fstat, openat, statat, unlinkat};
use rustix::io::Errno;
use std::ffi::CString;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Flags with which a directory is opened that the user named.
const NAMED: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);

/// The target of a copy on the host.
pub(super) struct HostTarget {
    path: PathBuf,
    /// The user gave this very name: links are followed there, as cp(1) does.
    is_given: bool,
    dirs: OpenDirs,
    /// Directories that the copy is inside, the innermost last.
    open: Vec<TargetDir>,
    /// Permissions that new directories do not get.
    umask: u16,
}

struct TargetDir {
    host: Arc<HostDir>,
    /// The copy made the directory, and nobody else can enter it yet.
    made: bool,
}

/// A name on the host that the copy makes.
pub(super) struct HostName {
    dir: Arc<OwnedFd>,
    name: Vec<u8>,
    /// Somebody else may change the names of the directory.
    others: bool,
    follow: bool,
    /// The path, for messages.
    path: PathBuf,
}

impl HostTarget {
    /// A target at `path`; `is_given` if the user gave this name.
    pub(super) fn new(path: PathBuf, is_given: bool) -> Self {
        // The process has one thread that copies.
        let umask = rustix::process::umask(Mode::empty());
        rustix::process::umask(umask);
        let umask = (umask.bits() & 0o777) as u16;
        HostTarget { path, is_given, dirs: OpenDirs::new(), open: Vec::new(), umask }
    }

    /// The name `below` the target: empty, or `/a/b`, whose directory the copy is inside.
    ///
    /// # Errors
    /// Names the path.
    pub(super) fn name(&self, below: &[u8]) -> Result<HostName, Failure> {
        let path = bytes::to_path(&[bytes::of_path(&self.path), below].concat());
        let failed = |errno: Errno| Failure::host(&path, &errno.into());
        if let (Some(dir), Some(name)) = (self.open.last(), lanefs::path::file_name(below)) {
            let (fd, name) = (dir.host.fd(&self.dirs).map_err(failed)?, name.to_vec());
            return Ok(HostName { dir: fd, name, others: !dir.made, follow: false, path });
        }
        let (parent, name) = match (path.parent(), path.file_name()) {
            (Some(parent), Some(name)) if parent.as_os_str().is_empty() => (Path::new("."), bytes::of(name)),
            (Some(parent), Some(name)) => (parent, bytes::of(name)),
            // `/` and `..` exist.
            _ => (&*path, &b"."[..]),
        };
        let dir = openat(CWD, parent, NAMED, Mode::empty()).map_err(failed)?;
        let (name, follow) = (name.to_vec(), self.is_given);
        Ok(HostName { dir: dir.into(), name, others: true, follow, path })
    }

    /// Makes a directory, or opens the one that is there, and enters it.
    ///
    /// # Errors
    /// Names the path.
    pub(super) fn enter(&mut self, name: &HostName) -> Outcome {
        let failed = |errno: Errno| Failure::host(&name.path, &errno.into());
        let opened = match make_or_open(&name.dir, &name.name, name.others) {
            Ok(opened) => Ok((opened.fd, opened.made)),
            Err(Errno::NOTDIR | Errno::LOOP) if name.follow => {
                openat(&*name.dir, &name.name[..], NAMED, Mode::empty()).map(|fd| (fd, false))
            }
            Err(errno) => Err(errno),
        };
        let (fd, made) = opened.map_err(|errno| match errno {
            Errno::NOTDIR | Errno::LOOP => {
                let path = bytes::of_path(&name.path);
                Failure::partial(path, "exists and is not a directory", REMOVE_OR_RENAME)
            }
            errno => failed(errno),
        })?;
        let c_name = CString::new(name.name.clone()).map_err(|_| failed(Errno::INVAL))?;
        let host = match self.open.last() {
            Some(parent) => {
                let stat = fstat(&fd).map_err(failed)?;
                let id = FileId { dev: stat.st_dev, ino: stat.st_ino };
                HostDir::below(&self.dirs, &parent.host, c_name, id, fd.into())
            }
            None => HostDir::top(c_name, fd).map_err(failed)?,
        };
        self.open.push(TargetDir { host, made });
        Ok(())
    }

    /// Leaves the innermost directory, which is complete. One that was there keeps its owner and mode.
    ///
    /// # Errors
    /// Names the path.
    pub(super) fn leave(&mut self, below: &[u8], meta: &FileMeta, preserve: bool) -> Outcome {
        let Some(TargetDir { host, made }) = self.open.pop() else { return Ok(()) };
        let set = |fd: &OwnedFd| match (made, preserve) {
            (true, true) => {
                let owned = set_owner(fd, &meta.attributes())?;
                set_mode_and_times(fd, &meta.attributes(), owned)
            }
            (true, false) => fchmod(fd, Mode::from_raw_mode(u32::from(meta.perm & 0o777 & !self.umask))),
            (false, true) => set_times(fd, &meta.attributes()),
            (false, false) => Ok(()),
        };
        host.fd(&self.dirs).and_then(|fd| set(&fd)).map_err(|errno| {
            Failure::host(&bytes::to_path(&[bytes::of_path(&self.path), below].concat()), &errno.into())
        })
    }
}

impl HostName {
    /// The path, for messages.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Returns whether a file has the name.
    pub(super) fn exists(&self) -> bool {
        statat(&*self.dir, &self.name[..], AtFlags::SYMLINK_NOFOLLOW).is_ok()
    }

    /// Makes a symbolic link, pipe, socket or device, with its attributes where they are kept.
    ///
    /// # Errors
    /// Names the path. On the host only root may create devices.
    pub(super) fn node(&self, meta: &FileMeta, target: &[u8], preserve: bool) -> Outcome {
        let node = match meta.kind {
            FileKind::Symlink => Node::Link(target),
            kind => {
                let perm = if preserve { 0o600 } else { meta.perm & 0o777 };
                Node::Special { kind, mode: Mode::from_raw_mode(perm.into()), rdev: meta.rdev }
            }
        };
        let set = |dir: &OwnedFd, name: &[u8]| {
            if !preserve {
                return Ok(());
            }
            let owned = set_owner_of(dir, name, &meta.attributes())?;
            set_mode_and_times_of(dir, name, &meta.attributes(), owned)
        };
        let made = make_node(&self.dir, self.others, &self.name, node, set);
        made.map(drop).map_err(|errno| Failure::host(&self.path, &errno.into()))
    }

    /// Opens a regular file for writing; true where it was made. A new one is private until it gets its
    /// attributes, if they are kept.
    ///
    /// # Errors
    /// Names the path.
    pub(super) fn file(&self, meta: &FileMeta, preserve: bool) -> Result<(File, bool), Failure> {
        let perm = if preserve { 0o600 } else { meta.perm & 0o777 | 0o200 };
        // A pipe without a reader must not block the copy.
        let flags = OFlags::WRONLY | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
        let new = flags | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW;
        let made = openat(&*self.dir, &self.name[..], new, Mode::from_raw_mode(perm.into()));
        let opened = match made {
            Ok(file) => Ok((file.into(), true)),
            Err(Errno::EXIST) => {
                let old = if self.follow { flags } else { flags | OFlags::NOFOLLOW };
                openat(&*self.dir, &self.name[..], old, Mode::empty()).map(|file| (file.into(), false))
            }
            Err(errno) => Err(errno),
        };
        opened.map_err(|errno| Failure::host(&self.path, &errno.into()))
    }

    /// Removes a file that the copy made and could not fill.
    pub(super) fn remove(&self) {
        // The user needs the first failure, not one of this call.
        let _ = unlinkat(&*self.dir, &self.name[..], AtFlags::empty());
    }
}

/// Sets the attributes of a regular file that is complete. One that was there gets no set-id bits: somebody
/// else may still have it open.
///
/// # Errors
/// The host's.
pub(super) fn finish_file(file: &File, made: bool, meta: &FileMeta, preserve: bool) -> Result<(), Errno> {
    if preserve {
        let mut attributes = meta.attributes();
        let owned = set_owner(file, &attributes)?;
        if !made {
            attributes.perm &= 0o1777;
        }
        return set_mode_and_times(file, &attributes, owned);
    }
    // The file was made with more permissions than the source has, so that it could be filled.
    let bits = fstat(file)?.st_mode & 0o7777;
    let extra = 0o700 & !u32::from(meta.perm);
    if made && bits & extra != 0 { fchmod(file, Mode::from_raw_mode(bits & !extra)) } else { Ok(()) }
}
