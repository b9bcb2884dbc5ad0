//! The source of a copy: a file or a tree, inside the volume or on the host.

use super::location::Location;
use super::meta::FileMeta;
use super::reader::Reader;
use crate::common::walk::{Visit, Walk, WalkOptions};
use crate::session::context::Context;
use crate::terminal::failure::Failure;
use crate::text::bytes;
use lanefs::{FileKind, FileSystem, path};
use lanefs_transfer::FileId;
use lanefs_transfer::by_descriptor::{HostDir, OpenDirs};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{AtFlags, CWD, Dir, FileType, Mode, OFlags, Stat, fstat, openat, readlinkat, statat};
use rustix::io::Errno;
use std::ffi::CString;
use std::fs::File;
use std::sync::Arc;

/// One step of the walk through the source.
pub(super) struct SourceStep {
    /// Before or after a directory's entries.
    pub(super) visit: Visit,
    /// Attributes.
    pub(super) meta: FileMeta,
    /// Location.
    pub(super) from: Location,
    /// Path below the start: empty, or `/a/b`.
    pub(super) below: Vec<u8>,
    /// The place of a file of the host.
    place: Option<HostPlace>,
}

/// A walk through the source: a file or a tree.
pub(super) struct CopySource<'v> {
    start: Location,
    follow: bool,
    meta: FileMeta,
    walk: SourceWalk<'v>,
}

enum SourceWalk<'v> {
    Inside(Box<Walk<'v>>),
    Host(Box<HostWalk>),
}

impl<'v> CopySource<'v> {
    /// Opens the source at `start`; `follow` follows a symbolic link there.
    ///
    /// # Errors
    /// Names the location.
    pub(super) fn open(
        context: &Context<'v, impl FileSystem>,
        start: &Location,
        follow: bool,
    ) -> Result<Self, Failure> {
        let (meta, walk) = if start.inside {
            let attr = context.resolve(&start.path, follow)?;
            let walk = Walk::new(context.volume, &start.path, attr.ino, attr.kind, WalkOptions::default());
            (FileMeta::inside(&attr), SourceWalk::Inside(Box::new(walk)))
        } else {
            let flags = if follow { AtFlags::empty() } else { AtFlags::SYMLINK_NOFOLLOW };
            let stat = statat(CWD, &start.path[..], flags).map_err(|errno| failed(&start.path, errno))?;
            let (meta, dirs) = (FileMeta::host(start, &stat)?, OpenDirs::new());
            let walk = HostWalk { start: Some(meta), dirs, pending: None, open: Vec::new() };
            (meta, SourceWalk::Host(Box::new(walk)))
        };
        Ok(CopySource { start: start.clone(), follow, meta, walk })
    }

    /// Attributes of the start.
    pub(super) fn meta(&self) -> &FileMeta {
        &self.meta
    }

    /// Does not enter the directory of the last step.
    pub(super) fn skip(&mut self) {
        match &mut self.walk {
            SourceWalk::Inside(walk) => walk.skip(),
            SourceWalk::Host(walk) => walk.pending = None,
        }
    }

    /// Returns the next step.
    pub(super) fn next(
        &mut self,
        context: &Context<'_, impl FileSystem>,
    ) -> Option<Result<SourceStep, Failure>> {
        match &mut self.walk {
            SourceWalk::Inside(walk) => {
                let step = match walk.next()? {
                    Ok(step) => step,
                    Err(failure) => return Some(Err(failure)),
                };
                let path = walk.path();
                let from = Location { inside: true, path: path.to_vec() };
                let below = below(&self.start.path, path);
                let meta = context.attr(path, step.ino).map(|attr| FileMeta::inside(&attr));
                if meta.is_err() {
                    walk.skip();
                }
                Some(meta.map(|meta| SourceStep { visit: step.visit, meta, from, below, place: None }))
            }
            SourceWalk::Host(walk) => walk.next(&self.start, self.follow),
        }
    }
}

/// The part of a path below the start, with one slash before it; empty for the start itself.
fn below(start: &[u8], path: &[u8]) -> Vec<u8> {
    let rest = path.get(start.len()..).unwrap_or_default();
    match rest {
        [] | [b'/', ..] => rest.to_vec(),
        rest => [b"/", rest].concat(),
    }
}

/// A walk of a tree of the host, without recursion. Each directory is opened in the one above it, without
/// following links, so nobody who changes names meanwhile leads the walk elsewhere.
struct HostWalk {
    start: Option<FileMeta>,
    dirs: OpenDirs,
    pending: Option<(HostPlace, Vec<u8>, FileMeta)>,
    open: Vec<HostDirectory>,
}

/// A directory that the walk is inside.
struct HostDirectory {
    host: Arc<HostDir>,
    path: Vec<u8>,
    meta: FileMeta,
    names: std::vec::IntoIter<CString>,
}

/// The place of a file on the host: a name in an open directory, or the path that the user gave.
#[derive(Clone)]
struct HostPlace {
    dir: Option<Arc<OwnedFd>>,
    name: CString,
    /// A link of that name is followed.
    follow: bool,
}

impl HostPlace {
    fn dir(&self) -> BorrowedFd<'_> {
        self.dir.as_deref().map_or(CWD, |dir| dir.as_fd())
    }

    fn stat(&self) -> Result<Stat, Errno> {
        let flags = if self.follow { AtFlags::empty() } else { AtFlags::SYMLINK_NOFOLLOW };
        statat(self.dir(), &*self.name, flags)
    }

    /// Opens the file. A pipe does not wait for a writer.
    fn open(&self, flags: OFlags) -> Result<OwnedFd, Errno> {
        let flags = flags | OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        let flags = if self.follow { flags } else { flags | OFlags::NOFOLLOW };
        openat(self.dir(), &*self.name, flags, Mode::empty())
    }
}

impl HostWalk {
    fn next(&mut self, start: &Location, follow: bool) -> Option<Result<SourceStep, Failure>> {
        let step = |visit, place, path: Vec<u8>, meta| SourceStep {
            visit,
            meta,
            place,
            below: below(&start.path, &path),
            from: Location { inside: false, path },
        };
        if let Some(meta) = self.start.take() {
            let place = match CString::new(start.path.clone()) {
                Ok(name) => HostPlace { dir: None, name, follow },
                Err(_) => return Some(Err(failed(&start.path, Errno::INVAL))),
            };
            self.enter(&place, &start.path, meta);
            return Some(Ok(step(Visit::Enter, Some(place), start.path.clone(), meta)));
        }
        if let Some((place, path, meta)) = self.pending.take()
            && let Err(errno) = self.open(&place, &path, meta)
        {
            return Some(Err(failed(&path, errno)));
        }
        let dir = self.open.last_mut()?;
        let Some(name) = dir.names.next() else {
            let dir = self.open.pop()?;
            return Some(Ok(step(Visit::Leave, None, dir.path, dir.meta)));
        };
        let path = path::join(&dir.path, name.as_bytes());
        let found = dir.host.fd(&self.dirs).and_then(|fd| {
            let place = HostPlace { dir: Some(fd), name, follow: false };
            place.stat().map(|stat| (place, stat))
        });
        let location = Location { inside: false, path };
        let found = found.map_err(|errno| failed(&location.path, errno));
        Some(found.and_then(|(place, stat)| {
            let meta = FileMeta::host(&location, &stat)?;
            self.enter(&place, &location.path, meta);
            Ok(step(Visit::Enter, Some(place), location.path, meta))
        }))
    }

    fn enter(&mut self, place: &HostPlace, path: &[u8], meta: FileMeta) {
        if meta.kind == FileKind::Directory {
            self.pending = Some((place.clone(), path.to_vec(), meta));
        }
    }

    /// Opens a directory and lists its names.
    fn open(&mut self, place: &HostPlace, path: &[u8], meta: FileMeta) -> Result<(), Errno> {
        let fd = place.open(OFlags::DIRECTORY)?;
        let mut names = Vec::new();
        for entry in Dir::read_from(&fd)? {
            let entry = entry?;
            if !matches!(entry.file_name().to_bytes(), b"." | b"..") {
                names.push(entry.file_name().to_owned());
            }
        }
        let host = match self.open.last() {
            Some(parent) => {
                let stat = fstat(&fd)?;
                let id = FileId::of(&stat);
                HostDir::below(&self.dirs, &parent.host, place.name.clone(), id, fd.into())
            }
            None => HostDir::top(place.name.clone(), fd)?,
        };
        self.open.push(HostDirectory { host, path: path.to_vec(), meta, names: names.into_iter() });
        Ok(())
    }
}

fn failed(path: &[u8], errno: Errno) -> Failure {
    Failure::host(&bytes::to_path(path), &errno.into())
}

impl SourceStep {
    /// Reads the target of a symbolic link.
    ///
    /// # Errors
    /// Names the link.
    pub(super) fn target(&self, context: &Context<'_, impl FileSystem>) -> Result<Vec<u8>, Failure> {
        match (&self.place, self.meta.ino) {
            (_, Some(ino)) => context.volume.readlink(ino).map_err(|e| Failure::volume(&self.from.path, &e)),
            (Some(place), None) => {
                let target = readlinkat(place.dir(), &*place.name, Vec::new());
                target.map(CString::into_bytes).map_err(|errno| failed(&self.from.path, errno))
            }
            (None, None) => Err(failed(&self.from.path, Errno::NOENT)),
        }
    }

    /// Opens a regular file.
    ///
    /// # Errors
    /// Names the file.
    pub(super) fn reader(&self, context: &Context<'_, impl FileSystem>) -> Result<Reader, Failure> {
        let from = self.from.path.clone();
        let place = match (&self.place, self.meta.ino) {
            (_, Some(ino)) => return Ok(Reader::Inside { ino, path: from }),
            (Some(place), None) => place,
            (None, None) => return Err(failed(&from, Errno::NOENT)),
        };
        let file = place.open(OFlags::empty()).map_err(|errno| failed(&from, errno))?;
        let stat = fstat(&file).map_err(|errno| failed(&from, errno))?;
        if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
            let what = "was exchanged with a file of another type during the copy";
            return Err(Failure::partial(&from, what, "copy it again"));
        }
        let file = File::from(file);
        if context.image.is(&file) {
            let what = "is the image of this volume and was left out";
            return Err(Failure::partial(&from, what, "copy it while it is not in use"));
        }
        Ok(Reader::Host { file, path: bytes::to_path(&from) })
    }
}
