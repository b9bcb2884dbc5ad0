//! A new file of the host, under a temporary name beside its own until it is complete.
//!
//! The directory is open from the start: nobody who changes names meanwhile leads the file elsewhere.

use crate::vocabulary::name::temporary_name;
use lanefs::host_path::{self, HostName};
use rustix::fd::OwnedFd;
use rustix::fs::{
    AtFlags, FileType, Mode, OFlags, RenameFlags, Stat, fcntl_getfl, fcntl_setfl, fstat, openat,
    renameat_with, unlinkat,
};
use rustix::io::Errno;
use std::path::Path;

/// The place of a file that a program is about to write.
pub struct FilePlace(HostName);

impl FilePlace {
    /// Finds the place that a path names. For a link it is that of its target.
    ///
    /// # Errors
    /// The host's; `EACCES` for a link of another user in a sticky directory that all may write; `EISDIR` for
    /// a path that ends in a slash.
    pub fn find(path: &Path) -> Result<Self, Errno> {
        host_path::find(path).map(FilePlace)
    }

    /// The place of a name in an open directory. A link of that name is replaced.
    #[must_use]
    pub fn in_dir(dir: OwnedFd, name: &[u8]) -> Self {
        FilePlace(HostName { dir, name: name.to_vec(), existing: None, is_magic: false })
    }

    /// The file that is there.
    #[must_use]
    pub fn existing(&self) -> Option<&Stat> {
        self.0.existing.as_ref()
    }

    /// The type of the file that is there.
    #[must_use]
    pub fn kind(&self) -> Option<FileType> {
        self.existing().map(|stat| FileType::from_raw_mode(stat.st_mode))
    }

    /// Opens the file that is there for writing, with `O_NONBLOCK`.
    ///
    /// # Errors
    /// The host's; `ENOENT`; `ENXIO` for a pipe that nobody reads.
    pub fn open(&self) -> Result<OwnedFd, Errno> {
        let flags = OFlags::WRONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        let flags = if self.0.is_magic { flags } else { flags | OFlags::NOFOLLOW };
        openat(&self.0.dir, &self.0.name[..], flags, Mode::empty())
    }

    /// Opens the pipe or device that is there, which nothing may replace.
    ///
    /// # Errors
    /// The host's; `ENXIO` for a pipe that nobody reads; `ESTALE` where another file has taken its place.
    pub fn open_special(&self) -> Result<OwnedFd, Errno> {
        let file = self.open()?;
        if FileType::from_raw_mode(fstat(&file)?.st_mode) == FileType::RegularFile {
            return Err(Errno::STALE);
        }
        fcntl_setfl(&file, fcntl_getfl(&file)?.difference(OFlags::NONBLOCK))?;
        Ok(file)
    }

    /// Opens the regular file or character device that is there, to append to it, or makes a file.
    ///
    /// # Errors
    /// The host's; `ESTALE` where another file has taken its place.
    pub fn append(&self, mode: u16) -> Result<OwnedFd, Errno> {
        if self.kind().is_some_and(|kind| kind != FileType::RegularFile) {
            return self.open_special();
        }
        let flags = OFlags::WRONLY | OFlags::APPEND | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let new = if self.existing().is_none() { OFlags::CREATE | OFlags::EXCL } else { OFlags::empty() };
        let file = openat(&self.0.dir, &self.0.name[..], flags | new, Mode::from_raw_mode(mode.into()))?;
        match FileType::from_raw_mode(fstat(&file)?.st_mode) {
            FileType::RegularFile => Ok(file),
            _ => Err(Errno::STALE),
        }
    }

    /// Makes the new file. Permissions are those of `mode` without the umask's, or those of this user's file
    /// that is there, without set-id bits.
    ///
    /// # Errors
    /// The host's.
    pub fn create(self, mode: u16) -> Result<NewFile, Errno> {
        let own = rustix::process::geteuid().as_raw();
        let HostName { dir, name, existing, .. } = self.0;
        let kept = existing.filter(|stat| stat.st_uid == own).map(|stat| stat.st_mode & 0o777);
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        loop {
            let temporary = temporary_name();
            match openat(&dir, &temporary[..], flags, Mode::from_raw_mode(mode.into())) {
                Err(Errno::EXIST) => {}
                Err(errno) => return Err(errno),
                Ok(file) => {
                    let new = NewFile { file, dir, name, temporary: Some(temporary) };
                    if let Some(kept) = kept {
                        rustix::fs::fchmod(&new.file, Mode::from_raw_mode(kept))?;
                    }
                    return Ok(new);
                }
            }
        }
    }
}

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
