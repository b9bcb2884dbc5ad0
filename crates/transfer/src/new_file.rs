//! A new file of the host, under a temporary name beside its own until it is complete.
//!
//! The directory is open from the start: nobody who changes names meanwhile leads the file elsewhere. A link
//! of the file's name is followed by the kernel, whose rules for links in sticky directories hold.

use crate::name::temporary_name;
use rustix::fd::{AsRawFd, OwnedFd};
use rustix::fs::{
    AtFlags, CWD, FileType, Mode, OFlags, RenameFlags, Stat, fcntl_getfl, fcntl_setfl, fstat, openat,
    readlinkat, renameat_with, unlinkat,
};
use rustix::io::Errno;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// The place of a file that a program is about to write.
pub struct FilePlace {
    dir: OwnedFd,
    name: Vec<u8>,
    path: PathBuf,
    existing: Option<Stat>,
}

impl FilePlace {
    /// Finds the place that a path names. For a link it is that of its target, if there is one.
    ///
    /// # Errors
    /// The host's.
    pub fn find(path: &Path) -> Result<Self, Errno> {
        let (mut path, existing) = (path.to_owned(), openat(CWD, path, NAME_ONLY, Mode::empty()));
        let existing = match existing {
            Ok(file) => {
                if path.is_symlink() {
                    let link = readlinkat(CWD, format!("/proc/self/fd/{}", file.as_raw_fd()), Vec::new())?;
                    path = PathBuf::from(std::ffi::OsStr::from_bytes(link.as_bytes()));
                }
                Some(fstat(&file)?)
            }
            Err(Errno::NOENT) => None,
            Err(errno) => return Err(errno),
        };
        let Some(name) = path.file_name() else { return Err(Errno::ISDIR) };
        let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
        let flags = OFlags::DIRECTORY | OFlags::PATH | OFlags::CLOEXEC;
        let dir = openat(CWD, parent.unwrap_or(Path::new(".")), flags, Mode::empty())?;
        Ok(FilePlace { dir, name: name.as_bytes().to_vec(), path, existing })
    }

    /// The file that is there.
    #[must_use]
    pub fn existing(&self) -> Option<&Stat> {
        self.existing.as_ref()
    }

    /// The type of the file that is there.
    #[must_use]
    pub fn kind(&self) -> Option<FileType> {
        self.existing.as_ref().map(|stat| FileType::from_raw_mode(stat.st_mode))
    }

    /// Opens the pipe or device that is there, which nothing may replace.
    ///
    /// # Errors
    /// The host's; `ENXIO` for a pipe that nobody reads; `ESTALE` where another file has taken its place.
    pub fn open_special(&self) -> Result<OwnedFd, Errno> {
        let flags = OFlags::WRONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        let file = openat(CWD, &self.path, flags, Mode::empty())?;
        if FileType::from_raw_mode(fstat(&file)?.st_mode) == FileType::RegularFile {
            return Err(Errno::STALE);
        }
        fcntl_setfl(&file, fcntl_getfl(&file)?.difference(OFlags::NONBLOCK))?;
        Ok(file)
    }

    /// Makes the new file. Permissions are those of `mode` without the umask's, or those of this user's file
    /// that is there, without set-id bits.
    ///
    /// # Errors
    /// The host's.
    pub fn create(self, mode: u16) -> Result<NewFile, Errno> {
        let own = rustix::process::geteuid().as_raw();
        let kept = self.existing.as_ref().filter(|stat| stat.st_uid == own).map(|stat| stat.st_mode & 0o777);
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        loop {
            let temporary = temporary_name();
            match openat(&self.dir, &temporary[..], flags, Mode::from_raw_mode(mode.into())) {
                Err(Errno::EXIST) => {}
                Err(errno) => return Err(errno),
                Ok(file) => {
                    let new = NewFile { file, dir: self.dir, name: self.name, temporary: Some(temporary) };
                    if let Some(kept) = kept {
                        rustix::fs::fchmod(&new.file, Mode::from_raw_mode(kept))?;
                    }
                    return Ok(new);
                }
            }
        }
    }
}

/// Flags of a descriptor that only names a file.
const NAME_ONLY: OFlags = OFlags::PATH.union(OFlags::CLOEXEC);

/// A file that is not complete. It is removed when it is dropped.
pub struct NewFile {
    file: OwnedFd,
    dir: OwnedFd,
    name: Vec<u8>,
    /// `None` once it has its name.
    temporary: Option<Vec<u8>>,
}

impl NewFile {
    /// The file.
    #[must_use]
    pub fn file(&self) -> &OwnedFd {
        &self.file
    }

    /// Gives the file its name; with `replaces` in place of a file that is there.
    ///
    /// # Errors
    /// The host's; `EEXIST`.
    pub fn finish(mut self, replaces: bool) -> Result<(), Errno> {
        let Some(temporary) = &self.temporary else { return Ok(()) };
        let flags = if replaces { RenameFlags::empty() } else { RenameFlags::NOREPLACE };
        renameat_with(&self.dir, &temporary[..], &self.dir, &self.name[..], flags)?;
        self.temporary = None;
        Ok(())
    }
}

impl Drop for NewFile {
    fn drop(&mut self) {
        if let Some(temporary) = &self.temporary {
            let _ = unlinkat(&self.dir, &temporary[..], AtFlags::empty());
        }
    }
}
