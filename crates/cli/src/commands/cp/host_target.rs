//! The host's side of a copy out of the volume: directories that the copy is inside, by descriptor.
//!
//! Somebody else may change the names of the directory that the user named, and of those that were there
//! before. So each name below it is opened or made in an open directory without following links, and
//! attributes are set on what was opened.

use super::host_file::HostFile;
use super::meta::FileMeta;
use crate::terminal::failure::{Failure, Outcome, REMOVE_OR_RENAME};
use crate::text::bytes;
use lanefs::FileKind;
use lanefs_transfer::FileId;
use lanefs_transfer::by_descriptor::{
    FilePlace, HostDir, NewNode, OpenDirs, make_node, make_or_open, open_dir, set_mode_and_times,
    set_mode_and_times_of, set_owner, set_owner_of, set_times,
};
use rustix::fd::OwnedFd;
use rustix::fs::{AtFlags, FileType, Mode, OFlags, Stat, fchmod, fstat, openat, statat, unlinkat};
use rustix::io::Errno;
use std::ffi::CString;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Flags with which a directory is opened that the user named.
const NAMED: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);
/// Flags with which a file is opened that the copy fills. A pipe without a reader does not block the copy.
const WRITE: OFlags = OFlags::WRONLY.union(OFlags::CLOEXEC).union(OFlags::NONBLOCK).union(OFlags::NOCTTY);

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
        let dir = open_dir(parent).map_err(failed)?;
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
                let dir = open_dir(&name.path).and_then(|dir| openat(&dir, ".", NAMED, Mode::empty()));
                dir.map(|fd| (fd, false))
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
                let id = FileId::of(&stat);
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
            FileKind::Symlink => NewNode::Link(target),
            kind => {
                let perm = if preserve { 0o600 } else { meta.perm & 0o777 };
                NewNode::Special { kind, mode: Mode::from_raw_mode(perm.into()), rdev: meta.rdev }
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

    /// Makes a regular file, or opens the one that has the name. A new one is private until it gets its
    /// attributes, if they are kept. Only where the user gave this very name may it be a pipe or device.
    ///
    /// # Errors
    /// Names the path.
    pub(super) fn file(&self, meta: &FileMeta, preserve: bool) -> Result<HostFile, Failure> {
        let perm = if preserve { 0o600 } else { meta.perm & 0o777 | 0o200 };
        let new = WRITE | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW;
        match openat(&*self.dir, &self.name[..], new, Mode::from_raw_mode(perm.into())) {
            Ok(file) => Ok(HostFile::made(file)),
            Err(Errno::EXIST) => self.old_file(),
            Err(errno) => Err(self.failed(errno)),
        }
    }

    /// Opens the file that has the name.
    fn old_file(&self) -> Result<HostFile, Failure> {
        let failed = |errno| self.failed(errno);
        if !self.follow {
            // The opening of some devices has effects of its own.
            let stat = statat(&*self.dir, &self.name[..], AtFlags::SYMLINK_NOFOLLOW).map_err(failed)?;
            self.check_regular(&stat)?;
        }
        let opened = match openat(&*self.dir, &self.name[..], WRITE | OFlags::NOFOLLOW, Mode::empty()) {
            Err(Errno::LOOP) if self.follow => FilePlace::find(&self.path).and_then(|place| place.open()),
            opened => opened,
        };
        let file = opened.map_err(|errno| match errno {
            Errno::NXIO if self.follow => {
                let what = "is a socket, or a pipe that nobody reads";
                Failure::partial(bytes::of_path(&self.path), what, "start its reader first")
            }
            errno => failed(errno),
        })?;
        let stat = fstat(&file).map_err(failed)?;
        if !self.follow {
            self.check_regular(&stat)?;
        }
        Ok(HostFile::found(file, &stat))
    }

    /// Refuses to write to a pipe or device that somebody else may have put under the name.
    fn check_regular(&self, stat: &Stat) -> Outcome {
        let word = match FileType::from_raw_mode(stat.st_mode) {
            FileType::RegularFile => return Ok(()),
            FileType::Directory => return Err(self.failed(Errno::ISDIR)),
            FileType::Symlink => return Err(self.failed(Errno::LOOP)),
            FileType::Fifo => "pipe",
            FileType::Socket => "socket",
            _ => "device",
        };
        let what = format!("exists and is a {word}");
        Err(Failure::partial(bytes::of_path(&self.path), &what, REMOVE_OR_RENAME))
    }

    fn failed(&self, errno: Errno) -> Failure {
        Failure::host(&self.path, &errno.into())
    }

    /// Removes a file that the copy made and could not fill.
    pub(super) fn remove(&self) {
        // The user needs the first failure, not one of this call.
        let _ = unlinkat(&*self.dir, &self.name[..], AtFlags::empty());
    }
}
