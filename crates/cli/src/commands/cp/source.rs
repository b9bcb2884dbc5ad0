//! What is copied: a file or a tree, inside the volume or on the host.

use super::Place;
use super::sink::Writer;
use crate::bytes;
use crate::context::{Context, OWNER, join};
use crate::exit::{self, Failure};
use crate::walk::{Visit, Walk, WalkOptions};
use lanefs::{Attr, Code, FileKind, Ino, Seek, Time};
use std::fs::{self, File, Metadata, ReadDir};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::PathBuf;

/// What is known of a file on either side.
#[derive(Clone, Copy, Debug)]
pub(super) struct Meta {
    /// Type.
    pub(super) kind: FileKind,
    /// Low 12 bits of the mode.
    pub(super) perm: u16,
    /// Owner.
    pub(super) uid: u32,
    /// Group.
    pub(super) gid: u32,
    /// Device number of a special file.
    pub(super) rdev: u64,
    /// Last access.
    pub(super) atime: Time,
    /// Last change of content.
    pub(super) mtime: Time,
    /// Inode number, inside the volume.
    pub(super) ino: Option<Ino>,
}

impl Meta {
    fn inside(attr: &Attr) -> Self {
        Meta {
            kind: attr.kind,
            perm: attr.perm,
            uid: attr.uid,
            gid: attr.gid,
            rdev: attr.rdev,
            atime: attr.atime,
            mtime: attr.mtime,
            ino: Some(attr.ino),
        }
    }

    fn host(place: &Place, meta: &Metadata) -> Result<Self, Failure> {
        let time =
            |seconds, nanoseconds: i64| Time::from_parts(seconds, u32::try_from(nanoseconds).unwrap_or(0));
        let mode = (meta.mode() & 0xffff) as u16;
        let kind = FileKind::from_mode(mode).ok_or_else(|| {
            Failure::new(exit::PARTIAL, place.shown(), "has a type that no volume knows", "leave it out")
        })?;
        Ok(Meta {
            kind,
            perm: mode & 0o7777,
            uid: meta.uid(),
            gid: meta.gid(),
            rdev: meta.rdev(),
            atime: time(meta.atime(), meta.atime_nsec()),
            mtime: time(meta.mtime(), meta.mtime_nsec()),
            ino: None,
        })
    }
}

/// One step through the source.
pub(super) struct Found {
    /// Before or after a directory's entries.
    pub(super) visit: Visit,
    /// What it is.
    pub(super) meta: Meta,
    /// Where it is.
    pub(super) from: Place,
    /// Its path behind that of the start: empty, or `/a/b`.
    pub(super) below: Vec<u8>,
}

/// A walk through the source.
pub(super) struct Source<'v> {
    start: Place,
    meta: Meta,
    steps: Steps<'v>,
}

enum Steps<'v> {
    Inside(Box<Walk<'v>>),
    Host(HostWalk),
}

impl<'v> Source<'v> {
    /// Looks at the start; `follow` is about a symbolic link there.
    ///
    /// # Errors
    /// Name the place.
    pub(super) fn open(context: &Context<'v>, place: &Place, follow: bool) -> Result<Self, Failure> {
        let (meta, steps) = if place.inside {
            let attr = context.resolve(&place.path, follow)?;
            let walk = Walk::new(context.volume, &place.path, attr.ino, attr.kind, WalkOptions::default());
            (Meta::inside(&attr), Steps::Inside(Box::new(walk)))
        } else {
            let path = bytes::to_path(&place.path);
            let found = if follow { fs::metadata(&path) } else { fs::symlink_metadata(&path) };
            let meta = Meta::host(place, &found.map_err(|error| Failure::host(&path, &error))?)?;
            (meta, Steps::Host(HostWalk { start: Some(meta), pending: None, frames: Vec::new() }))
        };
        Ok(Source { start: place.clone(), meta, steps })
    }

    /// The start.
    pub(super) fn meta(&self) -> &Meta {
        &self.meta
    }

    /// Does not enter the directory that was found last.
    pub(super) fn skip(&mut self) {
        match &mut self.steps {
            Steps::Inside(walk) => walk.skip(),
            Steps::Host(walk) => walk.pending = None,
        }
    }

    /// The next step.
    pub(super) fn next(&mut self, context: &Context<'_>) -> Option<Result<Found, Failure>> {
        match &mut self.steps {
            Steps::Inside(walk) => {
                let step = match walk.next()? {
                    Ok(step) => step,
                    Err(failure) => return Some(Err(failure)),
                };
                let path = walk.path();
                let from = Place { inside: true, path: path.to_vec() };
                let below = below(&self.start.path, path);
                let meta = context.attr(path, step.ino).map(|attr| Meta::inside(&attr));
                if meta.is_err() {
                    walk.skip();
                }
                Some(meta.map(|meta| Found { visit: step.visit, meta, from, below }))
            }
            Steps::Host(walk) => walk.next(&self.start),
        }
    }
}

/// The part of a path behind the start, with one slash before it; empty for the start itself.
fn below(start: &[u8], path: &[u8]) -> Vec<u8> {
    let rest = path.get(start.len()..).unwrap_or_default();
    match rest {
        [] | [b'/', ..] => rest.to_vec(),
        rest => [b"/", rest].concat(),
    }
}

/// A walk through directories of the host, without recursion.
struct HostWalk {
    start: Option<Meta>,
    pending: Option<(Vec<u8>, Meta)>,
    frames: Vec<HostFrame>,
}

struct HostFrame {
    path: Vec<u8>,
    meta: Meta,
    entries: ReadDir,
}

impl HostWalk {
    fn next(&mut self, start: &Place) -> Option<Result<Found, Failure>> {
        let found = |visit, path: Vec<u8>, meta| Found {
            visit,
            meta,
            below: below(&start.path, &path),
            from: Place { inside: false, path },
        };
        if let Some(meta) = self.start.take() {
            self.enter(&start.path, meta);
            return Some(Ok(found(Visit::Enter, start.path.clone(), meta)));
        }
        if let Some((path, meta)) = self.pending.take() {
            let host = bytes::to_path(&path);
            match fs::read_dir(&host) {
                Ok(entries) => self.frames.push(HostFrame { path, meta, entries }),
                Err(error) => return Some(Err(Failure::host(&host, &error))),
            }
        }
        let frame = self.frames.last_mut()?;
        let entry = match frame.entries.next() {
            Some(Ok(entry)) => entry,
            Some(Err(error)) => {
                let host = bytes::to_path(&frame.path);
                return Some(Err(Failure::host(&host, &error)));
            }
            None => {
                let frame = self.frames.pop()?;
                return Some(Ok(found(Visit::Leave, frame.path, frame.meta)));
            }
        };
        let path = join(&frame.path, bytes::of(&entry.file_name()));
        let host = bytes::to_path(&path);
        let place = Place { inside: false, path };
        let meta = entry.metadata().map_err(|error| Failure::host(&host, &error));
        Some(meta.and_then(|meta| Meta::host(&place, &meta)).map(|meta| {
            self.enter(&place.path, meta);
            found(Visit::Enter, place.path, meta)
        }))
    }

    fn enter(&mut self, path: &[u8], meta: Meta) {
        if meta.kind == FileKind::Directory {
            self.pending = Some((path.to_vec(), meta));
        }
    }
}

impl Found {
    /// Where a symbolic link leads.
    ///
    /// # Errors
    /// Name the link.
    pub(super) fn target(&self, context: &Context<'_>) -> Result<Vec<u8>, Failure> {
        match self.meta.ino {
            Some(ino) => context.volume.readlink(ino).map_err(|e| Failure::volume(&self.from.path, &e)),
            None => {
                let path = bytes::to_path(&self.from.path);
                let target = fs::read_link(&path).map_err(|error| Failure::host(&path, &error))?;
                Ok(bytes::of_path(&target).to_vec())
            }
        }
    }

    /// Opens a regular file.
    ///
    /// # Errors
    /// Name the file.
    pub(super) fn reader(&self, context: &Context<'_>) -> Result<Reader, Failure> {
        let from = self.from.path.clone();
        match self.meta.ino {
            Some(ino) => Ok(Reader::Inside { ino, path: from }),
            None => {
                let path = bytes::to_path(&from);
                let file = File::open(&path).map_err(|error| Failure::host(&path, &error))?;
                if context.image.is(&file) {
                    let what = "is the image of this volume and was left out";
                    return Err(Failure::new(exit::PARTIAL, &from, what, "copy it while it is not in use"));
                }
                Ok(Reader::Host { file, path })
            }
        }
    }
}

/// The content of a regular file.
pub(super) enum Reader {
    /// Of the volume.
    Inside {
        /// Its inode.
        ino: Ino,
        /// Its path, for messages.
        path: Vec<u8>,
    },
    /// Of the host.
    Host {
        /// The open file.
        file: File,
        /// Its path, for messages.
        path: PathBuf,
    },
}

impl Reader {
    /// The first range of data at or behind `offset`: start and end. `None` where only a hole or nothing follows.
    ///
    /// # Errors
    /// Name the file.
    pub(super) fn data(&self, context: &Context<'_>, offset: u64) -> Result<Option<(u64, u64)>, Failure> {
        match self {
            Reader::Inside { ino, path } => {
                let seek = |offset, what| match context.volume.seek(*ino, offset, what) {
                    Ok(at) => Ok(Some(at)),
                    Err(error) if error.code() == Code::NoSuchRange => Ok(None),
                    Err(error) => Err(Failure::volume(path, &error)),
                };
                let Some(start) = seek(offset, Seek::Data)? else { return Ok(None) };
                Ok(seek(start, Seek::Hole)?.map(|end| (start, end)))
            }
            Reader::Host { file, path } => {
                use rustix::fs::SeekFrom;
                use rustix::io::Errno;
                let start = match rustix::fs::seek(file, SeekFrom::Data(offset)) {
                    Ok(start) => start,
                    Err(Errno::NXIO) => return Ok(None),
                    // No holes are known here, and in /proc not even the size: what can be read is there.
                    Err(Errno::INVAL | Errno::OPNOTSUPP) => return Ok(Some((offset, u64::MAX))),
                    Err(error) => return Err(Failure::host(path, &error.into())),
                };
                let end = rustix::fs::seek(file, SeekFrom::Hole(start));
                end.map(|end| Some((start, end))).map_err(|error| Failure::host(path, &error.into()))
            }
        }
    }

    /// Reads at `offset`; 0 at the end.
    ///
    /// # Errors
    /// Name the file.
    pub(super) fn read(
        &self,
        context: &Context<'_>,
        offset: u64,
        buffer: &mut [u8],
    ) -> Result<usize, Failure> {
        match self {
            Reader::Inside { ino, path } => {
                context.volume.read(&OWNER, *ino, offset, buffer).map_err(|e| Failure::volume(path, &e))
            }
            Reader::Host { file, path } => {
                file.read_at(buffer, offset).map_err(|error| Failure::host(path, &error))
            }
        }
    }

    /// Size in bytes.
    ///
    /// # Errors
    /// Name the file.
    pub(super) fn size(&self, context: &Context<'_>) -> Result<u64, Failure> {
        match self {
            Reader::Inside { ino, path } => Ok(context.attr(path, *ino)?.size),
            Reader::Host { file, path } => {
                file.metadata().map(|meta| meta.len()).map_err(|error| Failure::host(path, &error))
            }
        }
    }

    /// True where source and target are one file.
    pub(super) fn same_file(&self, writer: &Writer) -> bool {
        match (self, writer) {
            (Reader::Inside { ino, .. }, Writer::Inside { target, .. }) => *ino == target.attr.ino,
            _ => false,
        }
    }
}
