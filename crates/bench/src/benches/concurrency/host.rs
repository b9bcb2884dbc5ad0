//! Single operations on a file system of the host, by system calls relative to open directories.

use super::files::Files;
use crate::error::{Error, Result};
use crate::systems::peers::Host;
use rustix::fs::{self as sys, AtFlags, FileType, Mode, OFlags, RawDir};
use rustix::io::Errno;
use std::ffi::CStr;
use std::hint::black_box;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

const DIRECTORY: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);
const FILE: OFlags = OFlags::RDWR.union(OFlags::CLOEXEC);
const NEW_FILE: OFlags = FILE.union(OFlags::CREATE).union(OFlags::EXCL);
const DIRECTORY_MODE: Mode = Mode::from_bits_retain(0o755);
const FILE_MODE: Mode = Mode::from_bits_retain(0o644);

/// Buffer of one `getdents64` in bytes, as in the C library's `readdir`.
const LISTING_BYTES: usize = 32 << 10;

impl Host {
    /// For `map_err` on the clock: only a failed call makes the text.
    fn failed<'a>(&'a self, what: &'a str) -> impl FnOnce(Errno) -> Error + 'a {
        move |errno| self.error(what)(errno)
    }

    /// Calls `each` for every entry but `.` and `..`; returns the number of entries.
    fn entries(
        &self,
        dir: BorrowedFd<'_>,
        mut each: impl FnMut(&CStr, FileType) -> Result<()>,
    ) -> Result<u64> {
        let mut buffer = [MaybeUninit::uninit(); LISTING_BYTES];
        let mut entries = RawDir::new(dir, &mut buffer);
        let mut count = 0;
        while let Some(entry) = entries.next() {
            let entry = entry.map_err(self.failed("listing"))?;
            let name = entry.file_name();
            if name == c"." || name == c".." {
                continue;
            }
            each(name, entry.file_type())?;
            count += 1;
        }
        Ok(count)
    }

    fn walk_below(&self, dir: BorrowedFd<'_>) -> Result<u64> {
        let mut below = 0;
        let here = self.entries(dir, |name, kind| {
            let stat = sys::statat(dir, name, AtFlags::SYMLINK_NOFOLLOW);
            black_box(stat.map_err(self.failed("a listed file"))?);
            if kind == FileType::Directory {
                let deeper = sys::openat(dir, name, DIRECTORY, Mode::empty());
                below += self.walk_below(deeper.map_err(self.failed("a listed directory"))?.as_fd())?;
            }
            Ok(())
        })?;
        Ok(here + below)
    }
}

impl Files for Host {
    type Dir = OwnedFd;
    type File = OwnedFd;

    fn top(&self) -> Result<OwnedFd> {
        sys::openat(self.root(), c".", DIRECTORY, Mode::empty()).map_err(self.failed("its root"))
    }

    fn make_dir(&self, dir: &OwnedFd, name: &CStr) -> Result<()> {
        sys::mkdirat(dir, name, DIRECTORY_MODE).map_err(self.failed("mkdir"))
    }

    fn remove_dir(&self, dir: &OwnedFd, name: &CStr) -> Result<()> {
        sys::unlinkat(dir, name, AtFlags::REMOVEDIR).map_err(self.failed("rmdir"))
    }

    fn open_dir(&self, dir: &OwnedFd, name: &CStr) -> Result<OwnedFd> {
        sys::openat(dir, name, DIRECTORY, Mode::empty()).map_err(self.failed("opening a directory"))
    }

    fn create(&self, dir: &OwnedFd, name: &CStr) -> Result<OwnedFd> {
        sys::openat(dir, name, NEW_FILE, FILE_MODE).map_err(self.failed("creating a file"))
    }

    fn open(&self, dir: &OwnedFd, name: &CStr) -> Result<OwnedFd> {
        sys::openat(dir, name, FILE, Mode::empty()).map_err(self.failed("opening a file"))
    }

    fn remove(&self, dir: &OwnedFd, name: &CStr) -> Result<()> {
        sys::unlinkat(dir, name, AtFlags::empty()).map_err(self.failed("unlink"))
    }

    fn read(&self, file: &OwnedFd, offset: u64, buffer: &mut [u8]) -> Result<usize> {
        rustix::io::pread(file, buffer, offset).map_err(self.failed("reading"))
    }

    fn write(&self, file: &OwnedFd, offset: u64, data: &[u8]) -> Result<()> {
        let mut done = 0;
        while done < data.len() {
            let written = rustix::io::pwrite(file, &data[done..], offset + done as u64);
            done += written.map_err(self.failed("writing"))?;
        }
        Ok(())
    }

    fn sync_file(&self, file: &OwnedFd) -> Result<()> {
        sys::fsync(file).map_err(self.failed("fsync"))
    }

    fn stat_name(&self, dir: &OwnedFd, name: &CStr) -> Result<u64> {
        let stat = sys::statat(dir, name, AtFlags::SYMLINK_NOFOLLOW).map_err(self.failed("stat"))?;
        Ok(black_box(stat).st_ino)
    }

    fn stat_path(&self, path: &CStr) -> Result<u64> {
        let stat = sys::statat(self.root(), path, AtFlags::SYMLINK_NOFOLLOW).map_err(self.failed("stat"))?;
        Ok(black_box(stat).st_ino)
    }

    fn list(&self, name: &CStr) -> Result<u64> {
        // A new descriptor each time: a listing begins at the directory's start, and threads share no offset.
        let dir = sys::openat(self.root(), name, DIRECTORY, Mode::empty());
        let dir = dir.map_err(self.failed("opening a directory"))?;
        self.entries(dir.as_fd(), |name, _| {
            black_box(name);
            Ok(())
        })
    }

    fn walk(&self, name: &CStr) -> Result<u64> {
        let dir = sys::openat(self.root(), name, DIRECTORY, Mode::empty());
        self.walk_below(dir.map_err(self.failed("opening a directory"))?.as_fd())
    }
}
