//! Where copies go: inside the volume or on the host.

use super::source::Meta;
use super::{Place, perm};
use crate::bytes;
use crate::commands::write::Target;
use crate::context::{Context, OWNER};
use crate::exit::{self, Failure, Outcome};
use lanefs::{Code, FileKind, SetAttr, Time};
use rustix::fs::{AtFlags, CWD, Gid, Mode, Timespec, Timestamps, Uid};
use rustix::io::Errno;
use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::{DirBuilderExt, FileExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// One name that is about to be made.
pub(super) struct Sink<'p> {
    place: &'p Place,
    /// True for the name that the user gave; links there are followed. Below it none is: a volume must not lead its
    /// reader to other places of the host.
    given: bool,
}

/// True where `place` is a directory, or a link to one.
///
/// # Errors
/// Where the volume could not answer.
pub(super) fn is_directory(context: &Context<'_>, place: &Place) -> Result<bool, Failure> {
    if place.inside {
        return crate::commands::mv::is_directory(context, &place.path);
    }
    Ok(bytes::to_path(&place.path).is_dir())
}

impl<'p> Sink<'p> {
    /// The name `place`; `given` where the user gave it.
    pub(super) fn new(place: &'p Place, given: bool) -> Self {
        Sink { place, given }
    }

    fn host(&self) -> PathBuf {
        bytes::to_path(&self.place.path)
    }

    fn failure(&self, error: &lanefs::Error) -> Failure {
        Failure::volume(&self.place.path, error)
    }

    /// True where something has the name.
    ///
    /// # Errors
    /// Where the volume could not answer.
    pub(super) fn exists(&self, context: &Context<'_>) -> Result<bool, Failure> {
        match self.place.inside {
            true => Ok(context.try_resolve(&self.place.path, false)?.is_ok()),
            false => Ok(fs::symlink_metadata(self.host()).is_ok()),
        }
    }

    /// Makes a directory, or finds it there.
    ///
    /// # Errors
    /// Name the place.
    pub(super) fn directory(&self, context: &Context<'_>, meta: &Meta, preserve: bool) -> Outcome {
        if self.place.inside {
            return match context.try_resolve(&self.place.path, self.given)? {
                Ok(attr) if attr.kind == FileKind::Directory => Ok(()),
                Ok(_) => Err(self.in_the_way()),
                Err(Code::NotFound) => {
                    let (dir, name) = context.parent(&self.place.path)?;
                    let made = context.volume.mkdir(&OWNER, dir, name, perm(meta, preserve));
                    made.map(drop).map_err(|e| self.failure(&e))
                }
                Err(code) => Err(Failure::code(&self.place.path, code)),
            };
        }
        let path = self.host();
        // Its owner must be able to fill it; the final permissions come when it is left.
        match fs::DirBuilder::new().mode(u32::from(meta.perm & 0o777 | 0o700)).create(&path) {
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {
                let there = if self.given { fs::metadata(&path) } else { fs::symlink_metadata(&path) };
                if there.is_ok_and(|there| there.is_dir()) { Ok(()) } else { Err(self.in_the_way()) }
            }
            other => other.map_err(|error| Failure::host(&path, &error)),
        }
    }

    fn in_the_way(&self) -> Failure {
        let what = "something that is no directory is in the way";
        Failure::new(exit::PARTIAL, self.place.shown(), what, "remove it first or choose another name")
    }

    /// Makes a symbolic link.
    ///
    /// # Errors
    /// Name the place.
    pub(super) fn symlink(&self, context: &Context<'_>, target: &[u8]) -> Outcome {
        if self.place.inside {
            let (dir, name) = context.parent(&self.place.path)?;
            return context.volume.symlink(&OWNER, dir, name, target).map(drop).map_err(|e| self.failure(&e));
        }
        let path = self.host();
        std::os::unix::fs::symlink(bytes::to_path(target), &path)
            .map_err(|error| Failure::host(&path, &error))
    }

    /// Makes a pipe, socket or device.
    ///
    /// # Errors
    /// Name the place. On the host only root may make devices.
    pub(super) fn special(&self, context: &Context<'_>, meta: &Meta) -> Outcome {
        if self.place.inside {
            let (dir, name) = context.parent(&self.place.path)?;
            let made = context.volume.mknod(&OWNER, dir, name, meta.kind, meta.perm & 0o777, meta.rdev);
            return made.map(drop).map_err(|e| self.failure(&e));
        }
        let path = self.host();
        let kind = rustix::fs::FileType::from_raw_mode(u32::from(meta.kind.mode()));
        let mode = Mode::from_raw_mode(u32::from(meta.perm & 0o777));
        rustix::fs::mknodat(CWD, &path, kind, mode, meta.rdev)
            .map_err(|error| Failure::host(&path, &error.into()))
    }

    /// Opens a regular file for writing, making it where there is none.
    ///
    /// # Errors
    /// Name the place.
    pub(super) fn file(&self, context: &Context<'_>, meta: &Meta) -> Result<Writer, Failure> {
        if self.place.inside {
            let target = Target::open(context, &self.place.path, meta.perm & 0o777)?;
            return Ok(Writer::Inside { target, path: self.place.path.clone() });
        }
        let path = self.host();
        let mut options = OpenOptions::new();
        options.write(true).mode(u32::from(meta.perm & 0o777 | 0o200));
        let made = options.clone().create_new(true).open(&path);
        match made {
            Ok(file) => Ok(Writer::Host { file, path, made: true }),
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {
                // A pipe without a reader must not keep the copy waiting.
                let no_follow = if self.given { 0 } else { rustix::fs::OFlags::NOFOLLOW.bits() };
                options.custom_flags((no_follow | rustix::fs::OFlags::NONBLOCK.bits()) as i32);
                let file = options.open(&path).map_err(|error| Failure::host(&path, &error))?;
                if context.image.is(&file) {
                    let what = "is the image of this volume";
                    return Err(Failure::new(exit::PARTIAL, &self.place.path, what, "choose another target"));
                }
                Ok(Writer::Host { file, path, made: false })
            }
            Err(error) => Err(Failure::host(&path, &error)),
        }
    }

    /// Sets what can only be set once the content is there: with `preserve` owner, permissions and times.
    ///
    /// # Errors
    /// Name the place.
    pub(super) fn finish(&self, context: &Context<'_>, meta: &Meta, preserve: bool) -> Outcome {
        if self.place.inside {
            return if preserve { self.finish_inside(context, meta) } else { Ok(()) };
        }
        let path = self.host();
        let outcome = match (preserve, meta.kind) {
            (true, _) => finish_host(&path, meta),
            // Made with more than the source allows, so that it could be filled.
            (false, FileKind::Directory | FileKind::File) => narrow(&path, meta),
            _ => Ok(()),
        };
        outcome.map_err(|error| Failure::host(&path, &error))
    }

    fn finish_inside(&self, context: &Context<'_>, meta: &Meta) -> Outcome {
        let ino = context.resolve(&self.place.path, self.given && meta.kind != FileKind::Symlink)?.ino;
        let set = SetAttr {
            perm: (meta.kind != FileKind::Symlink).then_some(meta.perm),
            uid: Some(meta.uid),
            gid: Some(meta.gid),
            size: None,
            atime: Some(meta.atime),
            mtime: Some(meta.mtime),
        };
        context.volume.setattr(&OWNER, ino, &set).map(drop).map_err(|e| self.failure(&e))
    }
}

/// Takes from a new file of the host what the source does not allow its owner.
fn narrow(path: &Path, meta: &Meta) -> std::io::Result<()> {
    let now = fs::symlink_metadata(path)?;
    let bits = now.permissions().mode() & 0o7777;
    let extra = 0o700 & !u32::from(meta.perm);
    if now.is_symlink() || bits & extra == 0 {
        return Ok(());
    }
    fs::set_permissions(path, fs::Permissions::from_mode(bits & !extra))
}

/// Gives a file of the host the owner, permissions and times of the source, as far as the user may.
fn finish_host(path: &Path, meta: &Meta) -> std::io::Result<()> {
    let link = meta.kind == FileKind::Symlink;
    let owner = (Some(Uid::from_raw(meta.uid)), Some(Gid::from_raw(meta.gid)));
    let owned = match rustix::fs::chownat(CWD, path, owner.0, owner.1, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(()) => true,
        // As cp(1): a user who may not give files away keeps them.
        Err(Errno::PERM | Errno::INVAL) => false,
        Err(error) => return Err(error.into()),
    };
    if !link {
        // Set-id bits of another owner would lend the wrong rights.
        let bits = if owned { meta.perm } else { meta.perm & 0o1777 };
        fs::set_permissions(path, fs::Permissions::from_mode(u32::from(bits)))?;
    }
    let time = |time: Time| Timespec { tv_sec: time.seconds(), tv_nsec: i64::from(time.nanoseconds()) };
    let times = Timestamps { last_access: time(meta.atime), last_modification: time(meta.mtime) };
    Ok(rustix::fs::utimensat(CWD, path, &times, AtFlags::SYMLINK_NOFOLLOW)?)
}

/// A regular file that is being written.
pub(super) enum Writer {
    /// Inside the volume.
    Inside {
        /// The file.
        target: Target,
        /// Its path, for messages.
        path: Vec<u8>,
    },
    /// On the host.
    Host {
        /// The open file.
        file: File,
        /// Its path, for messages.
        path: PathBuf,
        /// True where it did not exist before.
        made: bool,
    },
}

impl Writer {
    /// Drops the old content.
    ///
    /// # Errors
    /// Name the file.
    pub(super) fn cut(&mut self, context: &Context<'_>) -> Outcome {
        match self {
            Writer::Inside { target, path } => target.prepare(context, path, 0),
            Writer::Host { made: true, .. } => Ok(()),
            Writer::Host { file, path, .. } => file.set_len(0).map_err(|error| Failure::host(path, &error)),
        }
    }

    /// Writes all of `data`.
    ///
    /// # Errors
    /// Name the file.
    pub(super) fn write(&mut self, context: &Context<'_>, offset: u64, data: &[u8]) -> Outcome {
        match self {
            Writer::Inside { target, path } => {
                let written = context.volume.write(&OWNER, target.attr.ino, offset, data);
                written.map(drop).map_err(|e| Failure::volume(path, &e))
            }
            Writer::Host { file, path, .. } => {
                file.write_all_at(data, offset).map_err(|error| Failure::host(path, &error))
            }
        }
    }

    /// The content is complete: `size` bytes, the last of them perhaps a hole.
    ///
    /// # Errors
    /// Name the file.
    pub(super) fn end(&mut self, context: &Context<'_>, size: u64) -> Outcome {
        match self {
            Writer::Inside { target, path } => {
                if context.attr(path, target.attr.ino)?.size == size {
                    return Ok(());
                }
                let set = SetAttr { size: Some(size), ..SetAttr::default() };
                let done = context.volume.setattr(&OWNER, target.attr.ino, &set);
                done.map(drop).map_err(|e| Failure::volume(path, &e))
            }
            Writer::Host { file, path, .. } => {
                let there = file.metadata().map_err(|error| Failure::host(path, &error))?;
                // Devices and pipes have no size that could be set.
                if !there.is_file() || there.len() == size {
                    return Ok(());
                }
                file.set_len(size).map_err(|error| Failure::host(path, &error))
            }
        }
    }

    /// After a failure: removes a file that was made.
    pub(super) fn abandon(&self, context: &Context<'_>) {
        match self {
            Writer::Inside { target, .. } => target.abandon(context),
            Writer::Host { path, made: true, .. } => {
                // The failure before this one is the one to tell.
                let _ = fs::remove_file(path);
            }
            Writer::Host { .. } => {}
        }
    }
}
