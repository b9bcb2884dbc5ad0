//! Creation of copies, inside the volume or on the host.

use super::host_target::{HostName, HostTarget};
use super::meta::FileMeta;
use super::writer::Writer;
use crate::common::output_file::OutputFile;
use crate::session::context::{Context, Place};
use crate::terminal::failure::{Failure, Outcome, REMOVE_OR_RENAME};
use crate::text::bytes;
use lanefs::{Code, FileKind, FileSystem, Ino, SetAttr};

/// A name that the copy creates.
pub(super) enum Sink<'l> {
    /// Inside the volume.
    Inside {
        /// Its place: a name in the directory that the copy is inside, or the user's path.
        at: Place<'l>,
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
            Sink::Inside { at, .. } => Ok(context.try_resolve_place(*at, false)?.is_ok()),
            Sink::Host(name) => Ok(name.exists()),
        }
    }

    /// Creates a directory, or uses an existing one; on the host the copy enters it. Returns the inode of one
    /// inside the volume.
    ///
    /// # Errors
    /// Names the location.
    pub(super) fn directory(
        &self,
        context: &Context<'_, impl FileSystem>,
        host: Option<&mut HostTarget>,
        meta: &FileMeta,
        preserve: bool,
    ) -> Result<Option<Ino>, Failure> {
        let (at, given) = match self {
            Sink::Inside { at, given } => (*at, *given),
            Sink::Host(name) => return host.map_or(Ok(()), |host| host.enter(name)).map(|()| None),
        };
        match context.try_resolve_place(at, given)? {
            Ok(attr) if attr.kind == FileKind::Directory => Ok(Some(attr.ino)),
            Ok(_) => {
                let argument = [b":", at.shown].concat();
                Err(Failure::partial(argument, "exists and is not a directory", REMOVE_OR_RENAME))
            }
            Err(Code::NotFound) => {
                let (dir, name) = context.parent_of_place(at)?;
                let made = context.volume.mkdir(dir, name, meta.copy_perm(preserve));
                made.map(|attr| Some(attr.ino)).map_err(|e| Failure::volume(at.shown, &e))
            }
            Err(code) => Err(Failure::code(at.shown, code)),
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
        let at = match self {
            Sink::Inside { at, .. } => *at,
            Sink::Host(name) => return name.node(meta, target, preserve),
        };
        let (dir, name) = context.parent_of_place(at)?;
        let made = match meta.kind {
            FileKind::Symlink => context.volume.symlink(dir, name, target),
            kind => context.volume.mknod(dir, name, kind, meta.perm & 0o777, meta.rdev),
        };
        made.map(drop).map_err(|e| Failure::volume(at.shown, &e))
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
            Sink::Inside { at, .. } => {
                let file = OutputFile::open(context, *at, meta.perm & 0o777)?;
                return Ok(Writer::Inside { file });
            }
            Sink::Host(name) => name,
        };
        let file = name.file(meta, preserve)?;
        if !file.is_made() && context.image.is(file.file()) {
            let what = "is the image of this volume";
            return Err(Failure::partial(bytes::of_path(name.path()), what, "choose another target"));
        }
        Ok(Writer::Host { file, name })
    }

    /// Sets the attributes inside the volume that must follow the content: owner, permissions and times.
    ///
    /// # Errors
    /// Names the location.
    pub(super) fn finish_inside(&self, context: &Context<'_, impl FileSystem>, meta: &FileMeta) -> Outcome {
        let Sink::Inside { at, given } = self else { return Ok(()) };
        let found = context.try_resolve_place(*at, *given && meta.kind != FileKind::Symlink)?;
        let ino = found.map_err(|code| Failure::code(at.shown, code))?.ino;
        let set = SetAttr {
            perm: (meta.kind != FileKind::Symlink).then_some(meta.perm),
            uid: Some(meta.uid),
            gid: Some(meta.gid),
            size: None,
            atime: Some(meta.atime),
            mtime: Some(meta.mtime),
        };
        context.volume.setattr(ino, set).map(drop).map_err(|e| Failure::volume(at.shown, &e))
    }
}
