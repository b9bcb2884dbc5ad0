//! Creation of copies, inside the volume or on the host.

use super::location::Location;
use super::meta::FileMeta;
use super::writer::Writer;
use crate::bytes;
use crate::context::Context;
use crate::failure::{Failure, Outcome, REMOVE_OR_RENAME};
use crate::output_file::OutputFile;
use lanefs::{Code, FileKind, FileSystem, SetAttr, Time};
use rustix::fs::{AtFlags, CWD, Gid, Mode, Timespec, Timestamps, Uid};
use rustix::io::Errno;
use std::fs::{self, OpenOptions};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::Path;

/// A name that the copy creates.
pub(super) struct Sink<'l> {
    location: &'l Location,
    /// True for the name that the user gave. Links are followed there only: the content of a volume must not
    /// redirect the copy to other files of the host.
    given: bool,
}

impl<'l> Sink<'l> {
    /// A copy at `location`; `given` if the user gave this name.
    pub(super) fn new(location: &'l Location, given: bool) -> Self {
        Sink { location, given }
    }

    fn failure(&self, error: &lanefs::Error) -> Failure {
        Failure::volume(&self.location.path, error)
    }

    /// True if the name exists.
    ///
    /// # Errors
    /// The volume could not answer.
    pub(super) fn exists(&self, context: &Context<'_, impl FileSystem>) -> Result<bool, Failure> {
        match self.location.inside {
            true => Ok(context.try_resolve(&self.location.path, false)?.is_ok()),
            false => Ok(fs::symlink_metadata(self.location.host_path()).is_ok()),
        }
    }

    /// Creates a directory, or uses an existing one.
    ///
    /// # Errors
    /// Names the location.
    pub(super) fn directory(
        &self,
        context: &Context<'_, impl FileSystem>,
        meta: &FileMeta,
        preserve: bool,
    ) -> Outcome {
        if self.location.inside {
            return match context.try_resolve(&self.location.path, self.given)? {
                Ok(attr) if attr.kind == FileKind::Directory => Ok(()),
                Ok(_) => Err(self.not_a_directory()),
                Err(Code::NotFound) => {
                    let (dir, name) = context.parent(&self.location.path)?;
                    let made = context.volume.mkdir(dir, name, meta.copy_perm(preserve));
                    made.map(drop).map_err(|e| self.failure(&e))
                }
                Err(code) => Err(Failure::code(&self.location.path, code)),
            };
        }
        let path = self.location.host_path();
        // The owner must be able to fill it; `finish` sets the final permissions.
        match fs::DirBuilder::new().mode(u32::from(meta.perm & 0o777 | 0o700)).create(&path) {
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {
                let there = if self.given { fs::metadata(&path) } else { fs::symlink_metadata(&path) };
                if there.is_ok_and(|there| there.is_dir()) { Ok(()) } else { Err(self.not_a_directory()) }
            }
            other => other.map_err(|error| Failure::host(&path, &error)),
        }
    }

    fn not_a_directory(&self) -> Failure {
        Failure::partial(self.location.argument(), "exists and is not a directory", REMOVE_OR_RENAME)
    }

    /// Creates a symbolic link.
    ///
    /// # Errors
    /// Names the location.
    pub(super) fn symlink(&self, context: &Context<'_, impl FileSystem>, target: &[u8]) -> Outcome {
        if self.location.inside {
            let (dir, name) = context.parent(&self.location.path)?;
            return context.volume.symlink(dir, name, target).map(drop).map_err(|e| self.failure(&e));
        }
        let path = self.location.host_path();
        std::os::unix::fs::symlink(bytes::to_path(target), &path)
            .map_err(|error| Failure::host(&path, &error))
    }

    /// Creates a pipe, socket or device.
    ///
    /// # Errors
    /// Names the location. On the host only root may create devices.
    pub(super) fn special(&self, context: &Context<'_, impl FileSystem>, meta: &FileMeta) -> Outcome {
        if self.location.inside {
            let (dir, name) = context.parent(&self.location.path)?;
            let made = context.volume.mknod(dir, name, meta.kind, meta.perm & 0o777, meta.rdev);
            return made.map(drop).map_err(|e| self.failure(&e));
        }
        let path = self.location.host_path();
        let kind = rustix::fs::FileType::from_raw_mode(u32::from(meta.kind.mode()));
        let mode = Mode::from_raw_mode(u32::from(meta.perm & 0o777));
        rustix::fs::mknodat(CWD, &path, kind, mode, meta.rdev)
            .map_err(|error| Failure::host(&path, &error.into()))
    }

    /// Opens a regular file for writing; creates it if it is missing.
    ///
    /// # Errors
    /// Names the location.
    pub(super) fn file(
        &self,
        context: &Context<'_, impl FileSystem>,
        meta: &FileMeta,
    ) -> Result<Writer, Failure> {
        if self.location.inside {
            let file = OutputFile::open(context, &self.location.path, meta.perm & 0o777)?;
            return Ok(Writer::Inside { file, path: self.location.path.clone() });
        }
        let path = self.location.host_path();
        let mut options = OpenOptions::new();
        options.write(true).mode(u32::from(meta.perm & 0o777 | 0o200));
        let made = options.clone().create_new(true).open(&path);
        match made {
            Ok(file) => Ok(Writer::Host { file, path, created: true }),
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {
                // A pipe without a reader must not block the copy.
                let no_follow = if self.given { 0 } else { rustix::fs::OFlags::NOFOLLOW.bits() };
                options.custom_flags((no_follow | rustix::fs::OFlags::NONBLOCK.bits()) as i32);
                let file = options.open(&path).map_err(|error| Failure::host(&path, &error))?;
                if context.image.is(&file) {
                    let what = "is the image of this volume";
                    return Err(Failure::partial(&self.location.path, what, "choose another target"));
                }
                Ok(Writer::Host { file, path, created: false })
            }
            Err(error) => Err(Failure::host(&path, &error)),
        }
    }

    /// Sets the attributes that must follow the content: with `preserve` owner, permissions and times.
    ///
    /// # Errors
    /// Names the location.
    pub(super) fn finish(
        &self,
        context: &Context<'_, impl FileSystem>,
        meta: &FileMeta,
        preserve: bool,
    ) -> Outcome {
        if self.location.inside {
            return if preserve { self.finish_inside(context, meta) } else { Ok(()) };
        }
        let path = self.location.host_path();
        let outcome = match (preserve, meta.kind) {
            (true, _) => finish_host(&path, meta),
            // The file was created with more permissions than the source has, so that it could be filled.
            (false, FileKind::Directory | FileKind::File) => narrow(&path, meta),
            _ => Ok(()),
        };
        outcome.map_err(|error| Failure::host(&path, &error))
    }

    fn finish_inside(&self, context: &Context<'_, impl FileSystem>, meta: &FileMeta) -> Outcome {
        let ino = context.resolve(&self.location.path, self.given && meta.kind != FileKind::Symlink)?.ino;
        let set = SetAttr {
            perm: (meta.kind != FileKind::Symlink).then_some(meta.perm),
            uid: Some(meta.uid),
            gid: Some(meta.gid),
            size: None,
            atime: Some(meta.atime),
            mtime: Some(meta.mtime),
        };
        context.volume.setattr(ino, set).map(drop).map_err(|e| self.failure(&e))
    }
}

/// Removes the owner's permissions that the source does not have from a new file of the host.
fn narrow(path: &Path, meta: &FileMeta) -> std::io::Result<()> {
    let now = fs::symlink_metadata(path)?;
    let bits = now.permissions().mode() & 0o7777;
    let extra = 0o700 & !u32::from(meta.perm);
    if now.is_symlink() || bits & extra == 0 {
        return Ok(());
    }
    fs::set_permissions(path, fs::Permissions::from_mode(bits & !extra))
}

/// Sets the owner, permissions and times of a file of the host to those of the source, as far as the user
/// may.
fn finish_host(path: &Path, meta: &FileMeta) -> std::io::Result<()> {
    let link = meta.kind == FileKind::Symlink;
    let owner = (Some(Uid::from_raw(meta.uid)), Some(Gid::from_raw(meta.gid)));
    let owned = match rustix::fs::chownat(CWD, path, owner.0, owner.1, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(()) => true,
        // As in cp(1), a user who may not give files away keeps them.
        Err(Errno::PERM | Errno::INVAL) => false,
        Err(error) => return Err(error.into()),
    };
    if !link {
        // Set-id bits would grant the rights of the wrong owner.
        let bits = if owned { meta.perm } else { meta.perm & 0o1777 };
        fs::set_permissions(path, fs::Permissions::from_mode(u32::from(bits)))?;
    }
    let time = |time: Time| Timespec { tv_sec: time.seconds(), tv_nsec: i64::from(time.nanoseconds()) };
    let times = Timestamps { last_access: time(meta.atime), last_modification: time(meta.mtime) };
    Ok(rustix::fs::utimensat(CWD, path, &times, AtFlags::SYMLINK_NOFOLLOW)?)
}
