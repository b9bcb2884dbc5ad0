//! The source of a copy: a file or a tree, inside the volume or on the host.

use super::location::Location;
use super::meta::FileMeta;
use super::reader::Reader;
use crate::bytes;
use crate::context::Context;
use crate::failure::Failure;
use crate::walk::{Visit, Walk, WalkOptions};
use lanefs::{FileKind, FileSystem, path};
use std::fs::{self, File, ReadDir};

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
}

/// A walk through the source: a file or a tree.
pub(super) struct CopySource<'v> {
    start: Location,
    meta: FileMeta,
    walk: SourceWalk<'v>,
}

enum SourceWalk<'v> {
    Inside(Box<Walk<'v>>),
    Host(HostWalk),
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
            let path = start.host_path();
            let found = if follow { fs::metadata(&path) } else { fs::symlink_metadata(&path) };
            let meta = FileMeta::host(start, &found.map_err(|error| Failure::host(&path, &error))?)?;
            (meta, SourceWalk::Host(HostWalk { start: Some(meta), pending: None, open: Vec::new() }))
        };
        Ok(CopySource { start: start.clone(), meta, walk })
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
                Some(meta.map(|meta| SourceStep { visit: step.visit, meta, from, below }))
            }
            SourceWalk::Host(walk) => walk.next(&self.start),
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

/// A walk of a tree of the host, without recursion.
struct HostWalk {
    start: Option<FileMeta>,
    pending: Option<(Vec<u8>, FileMeta)>,
    open: Vec<HostDirectory>,
}

/// A directory that the walk is inside.
struct HostDirectory {
    path: Vec<u8>,
    meta: FileMeta,
    entries: ReadDir,
}

impl HostWalk {
    fn next(&mut self, start: &Location) -> Option<Result<SourceStep, Failure>> {
        let step = |visit, path: Vec<u8>, meta| SourceStep {
            visit,
            meta,
            below: below(&start.path, &path),
            from: Location { inside: false, path },
        };
        if let Some(meta) = self.start.take() {
            self.enter(&start.path, meta);
            return Some(Ok(step(Visit::Enter, start.path.clone(), meta)));
        }
        if let Some((path, meta)) = self.pending.take() {
            let host = bytes::to_path(&path);
            match fs::read_dir(&host) {
                Ok(entries) => self.open.push(HostDirectory { path, meta, entries }),
                Err(error) => return Some(Err(Failure::host(&host, &error))),
            }
        }
        let dir = self.open.last_mut()?;
        let entry = match dir.entries.next() {
            Some(Ok(entry)) => entry,
            Some(Err(error)) => {
                let host = bytes::to_path(&dir.path);
                return Some(Err(Failure::host(&host, &error)));
            }
            None => {
                let dir = self.open.pop()?;
                return Some(Ok(step(Visit::Leave, dir.path, dir.meta)));
            }
        };
        let path = path::join(&dir.path, bytes::of(&entry.file_name()));
        let host = bytes::to_path(&path);
        let location = Location { inside: false, path };
        let meta = entry.metadata().map_err(|error| Failure::host(&host, &error));
        Some(meta.and_then(|meta| FileMeta::host(&location, &meta)).map(|meta| {
            self.enter(&location.path, meta);
            step(Visit::Enter, location.path, meta)
        }))
    }

    fn enter(&mut self, path: &[u8], meta: FileMeta) {
        if meta.kind == FileKind::Directory {
            self.pending = Some((path.to_vec(), meta));
        }
    }
}

impl SourceStep {
    /// Reads the target of a symbolic link.
    ///
    /// # Errors
    /// Names the link.
    pub(super) fn target(&self, context: &Context<'_, impl FileSystem>) -> Result<Vec<u8>, Failure> {
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
    /// Names the file.
    pub(super) fn reader(&self, context: &Context<'_, impl FileSystem>) -> Result<Reader, Failure> {
        let from = self.from.path.clone();
        match self.meta.ino {
            Some(ino) => Ok(Reader::Inside { ino, path: from }),
            None => {
                let path = bytes::to_path(&from);
                let file = File::open(&path).map_err(|error| Failure::host(&path, &error))?;
                if context.image.is(&file) {
                    let what = "is the image of this volume and was left out";
                    return Err(Failure::partial(&from, what, "copy it while it is not in use"));
                }
                Ok(Reader::Host { file, path })
            }
        }
    }
}
