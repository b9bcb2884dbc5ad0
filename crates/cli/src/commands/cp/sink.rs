//! Creation of copies, inside the volume or on the host.

use super::host_target::{HostName, HostTarget};
use super::meta::FileMeta;
use super::writer::Writer;
use crate::context::Context;
use crate::failure::{Failure, Outcome, REMOVE_OR_RENAME};
use crate::output_file::OutputFile;
use lanefs::{Code, FileKind, FileSystem, SetAttr};

/// A name that the copy creates.
pub(super) enum Sink<'l> {
    /// Inside the volume.
    Inside {
        /// Its path.
        path: &'l [u8],
        /// True for the name that the user gave: links are followed there only.
        given: bool,
    },
    /// On the host.
    Host(HostName),
}

impl Sink<'_> {
    /// Returns whether the name exists.
    ///
    /// # Errors
    /// The volume could not answer.
    pub(super) fn exists(&self, context: &Context<'_, impl FileSystem>) -> Result<bool, Failure> {
        match self {
            Sink::Inside { path, .. } => Ok(context.try_resolve(path, false)?.is_ok()),
            Sink::Host(name) => Ok(name.exists()),
        }
    }

    /// Creates a directory, or uses an existing one; on the host the copy enters it.
    ///
    /// # Errors
    /// Names the location.
    pub(super) fn directory(
        &self,
        context: &Context<'_, impl FileSystem>,
        host: Option<&mut HostTarget>,
        meta: &FileMeta,
        preserve: bool,
    ) -> Outcome {
        let (path, given) = match self {
            Sink::Inside { path, given } => (*path, *given),
            Sink::Host(name) => return host.map_or(Ok(()), |host| host.enter(name)),
        };
        match context.try_resolve(path, given)? {
            Ok(attr) if attr.kind == FileKind::Directory => Ok(()),
            Ok(_) => {
                let argument = [b":", path].concat();
                Err(Failure::partial(argument, "exists and is not a directory", REMOVE_OR_RENAME))
            }
            Err(Code::NotFound) => {
                let (dir, name) = context.parent(path)?;
                let made = context.volume.mkdir(dir, name, meta.copy_perm(preserve));
                made.map(drop).map_err(|e| Failure::volume(path, &e))
            }
            Err(code) => Err(Failure::code(path, code)),
        }
    }

    /// Creates a symbolic link to `target`, a pipe, socket or device. On the host it has its attributes then.
    ///
    /// # Errors
    /// Names the location. On the host only root may create devices.
    pub(super) fn node(
        &self,
        context: &Context<'_, impl FileSystem>,
        meta: &FileMeta,
        target: &[u8],
        preserve: bool,
    ) -> Outcome {
        let path = match self {
            Sink::Inside { path, .. } => *path,
            Sink::Host(name) => return name.node(meta, target, preserve),
        };
        let (dir, name) = context.parent(path)?;
        let made = match meta.kind {
            FileKind::Symlink => context.volume.symlink(dir, name, target),
            kind => context.volume.mknod(dir, name, kind, meta.perm & 0o777, meta.rdev),
        };
        made.map(drop).map_err(|e| Failure::volume(path, &e))
    }

    /// Opens a file for writing; creates a regular one if it is missing.
    ///
    /// # Errors
    /// Names the location.
    pub(super) fn file<'s>(
        &'s self,
        context: &Context<'_, impl FileSystem>,
        meta: &FileMeta,
        preserve: bool,
    ) -> Result<Writer<'s>, Failure> {
        let name = match self {
            Sink::Inside { path, .. } => {
                let file = OutputFile::open(context, path, meta.perm & 0o777)?;
                return Ok(Writer::Inside { file });
            }
            Sink::Host(name) => name,
        };
        let file = name.file(meta, preserve)?;
        if !file.is_made() && context.image.is(file.file()) {
            let what = "is the image of this volume";
            return Err(Failure::partial(crate::bytes::of_path(name.path()), what, "choose another target"));
        }
        Ok(Writer::Host { file, name })
    }

    /// Sets the attributes inside the volume that must follow the content: owner, permissions and times.
    ///
    /// # Errors
    /// Names the location.
    pub(super) fn finish_inside(&self, context: &Context<'_, impl FileSystem>, meta: &FileMeta) -> Outcome {
        let Sink::Inside { path, given } = self else { return Ok(()) };
        let ino = context.resolve(path, *given && meta.kind != FileKind::Symlink)?.ino;
        let set = SetAttr {
            perm: (meta.kind != FileKind::Symlink).then_some(meta.perm),
            uid: Some(meta.uid),
            gid: Some(meta.gid),
            size: None,
            atime: Some(meta.atime),
            mtime: Some(meta.mtime),
        };
        context.volume.setattr(ino, set).map(drop).map_err(|e| Failure::volume(path, &e))
    }
}
