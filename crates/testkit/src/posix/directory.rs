//! A directory of the host, which the kernel serves.

use super::{PosixFs, User};
use crate::engine::Stat;
use crate::host::identity::As;
use lanefs::{SetAttr, Time};
use lanefs_format::{Code, FileKind};
use rustix::fd::OwnedFd;
use rustix::fs::{
    AtFlags, CWD, FallocateFlags, FileType, Mode, OFlags, RenameFlags, SeekFrom, Timespec, Timestamps,
    XattrFlags,
};
use rustix::io::{Errno, Result};
use rustix::process::{Gid, Uid};
use std::path::{Path, PathBuf};

/// A directory, whose calls are system calls. Callers other than root need root.
pub struct TestDirectory(PathBuf);

/// Buffer for listings: small, so that a listing of a few hundred names has several pieces.
const LIST_BYTES: usize = 1024;

impl TestDirectory {
    /// The directory at a path.
    pub fn new(path: &Path) -> TestDirectory {
        TestDirectory(path.to_owned())
    }

    fn at(&self, path: &str) -> PathBuf {
        self.0.join(path)
    }
}

fn stat(s: &rustix::fs::Stat) -> Result<Stat> {
    Stat::of_host(s).ok_or(Errno::from_raw_os_error(Code::Unsupported.errno()))
}

fn timespec(time: Time) -> Timespec {
    Timespec { tv_sec: time.seconds(), tv_nsec: time.nanoseconds().into() }
}

impl PosixFs for TestDirectory {
    type File = OwnedFd;

    fn open(&self, by: &User, path: &str, flags: OFlags, mode: u32) -> Result<OwnedFd> {
        let _as = As::caller(&by.caller())?;
        rustix::fs::open(self.at(path), flags | OFlags::CLOEXEC, Mode::from_raw_mode(mode))
    }

    fn read(&self, file: &OwnedFd, offset: u64, len: usize) -> Result<Vec<u8>> {
        let mut bytes = vec![0; len];
        let read = rustix::io::pread(file, &mut bytes[..], offset)?;
        bytes.truncate(read);
        Ok(bytes)
    }

    fn write(&self, by: &User, file: &OwnedFd, offset: u64, data: &[u8]) -> Result<usize> {
        let _as = As::caller(&by.caller())?;
        rustix::io::pwrite(file, data, offset)
    }

    fn append(&self, by: &User, file: &OwnedFd, data: &[u8]) -> Result<usize> {
        let _as = As::caller(&by.caller())?;
        rustix::io::write(file, data)
    }

    fn fstat(&self, file: &OwnedFd) -> Result<Stat> {
        stat(&rustix::fs::fstat(file)?)
    }

    fn fallocate(
        &self,
        by: &User,
        file: &OwnedFd,
        flags: FallocateFlags,
        offset: u64,
        len: u64,
    ) -> Result<()> {
        let _as = As::caller(&by.caller())?;
        rustix::fs::fallocate(file, flags, offset, len)
    }

    fn seek(&self, file: &OwnedFd, from: SeekFrom) -> Result<u64> {
        rustix::fs::seek(file, from)
    }

    fn copy_range(
        &self,
        by: &User,
        (from, mut from_offset): (&OwnedFd, u64),
        (to, mut to_offset): (&OwnedFd, u64),
        len: usize,
    ) -> Result<usize> {
        let _as = As::caller(&by.caller())?;
        rustix::fs::copy_file_range(from, Some(&mut from_offset), to, Some(&mut to_offset), len)
    }

    fn stat(&self, path: &str) -> Result<Stat> {
        stat(&rustix::fs::lstat(self.at(path))?)
    }

    fn set(&self, by: &User, path: &str, set: &SetAttr) -> Result<()> {
        let (path, _as) = (self.at(path), As::caller(&by.caller())?);
        if let Some(perm) = set.perm {
            rustix::fs::chmod(&path, Mode::from_raw_mode(perm.into()))?;
        }
        if set.uid.is_some() || set.gid.is_some() {
            let (uid, gid) = (set.uid.map(Uid::from_raw), set.gid.map(Gid::from_raw));
            rustix::fs::chownat(CWD, &path, uid, gid, AtFlags::SYMLINK_NOFOLLOW)?;
        }
        if let Some(size) = set.size {
            let file = rustix::fs::open(&path, OFlags::WRONLY | OFlags::CLOEXEC, Mode::empty())?;
            rustix::fs::ftruncate(file, size)?;
        }
        if let (Some(atime), Some(mtime)) = (set.atime, set.mtime) {
            let times = Timestamps { last_access: timespec(atime), last_modification: timespec(mtime) };
            rustix::fs::utimensat(CWD, &path, &times, AtFlags::SYMLINK_NOFOLLOW)?;
        }
        Ok(())
    }

    fn mkdir(&self, by: &User, path: &str, mode: u32) -> Result<()> {
        let _as = As::caller(&by.caller())?;
        rustix::fs::mkdir(self.at(path), Mode::from_raw_mode(mode))
    }

    fn mknod(&self, by: &User, path: &str, kind: FileKind, mode: u32, rdev: u64) -> Result<()> {
        let _as = As::caller(&by.caller())?;
        let kind = FileType::from_raw_mode(kind.mode().into());
        rustix::fs::mknodat(CWD, self.at(path), kind, Mode::from_raw_mode(mode), rdev)
    }

    fn symlink(&self, by: &User, target: &str, path: &str) -> Result<()> {
        let _as = As::caller(&by.caller())?;
        rustix::fs::symlink(target, self.at(path))
    }

    fn readlink(&self, path: &str) -> Result<Vec<u8>> {
        Ok(rustix::fs::readlink(self.at(path), Vec::new())?.into_bytes())
    }

    fn link(&self, from: &str, to: &str) -> Result<()> {
        rustix::fs::link(self.at(from), self.at(to))
    }

    fn unlink(&self, path: &str) -> Result<()> {
        rustix::fs::unlink(self.at(path))
    }

    fn rmdir(&self, path: &str) -> Result<()> {
        rustix::fs::rmdir(self.at(path))
    }

    fn rename(&self, from: &str, to: &str, flags: RenameFlags) -> Result<()> {
        rustix::fs::renameat_with(CWD, self.at(from), CWD, self.at(to), flags)
    }

    fn setxattr(&self, by: &User, path: &str, name: &str, value: &[u8], flags: XattrFlags) -> Result<()> {
        let _as = As::caller(&by.caller())?;
        rustix::fs::lsetxattr(self.at(path), name, value, flags)
    }

    fn getxattr(&self, by: &User, path: &str, name: &str) -> Result<Vec<u8>> {
        let _as = As::caller(&by.caller())?;
        let mut value = vec![0; 1 << 16];
        let len = rustix::fs::lgetxattr(self.at(path), name, &mut value[..])?;
        value.truncate(len);
        Ok(value)
    }

    fn listxattr(&self, by: &User, path: &str) -> Result<Vec<String>> {
        let _as = As::caller(&by.caller())?;
        let mut list = vec![0; 1 << 16];
        let len = rustix::fs::llistxattr(self.at(path), &mut list[..])?;
        let names = list[..len].split(|byte| *byte == 0).filter(|name| !name.is_empty());
        Ok(names.map(|name| String::from_utf8_lossy(name).into_owned()).collect())
    }

    fn removexattr(&self, path: &str, name: &str) -> Result<()> {
        rustix::fs::lremovexattr(self.at(path), name)
    }

    fn list(&self, path: &str, each: &mut dyn FnMut(&str)) -> Result<()> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let dir = rustix::fs::open(self.at(path), flags, Mode::empty())?;
        let mut space = Vec::with_capacity(LIST_BYTES);
        let mut entries = rustix::fs::RawDir::new(dir, space.spare_capacity_mut());
        while let Some(entry) = entries.next() {
            let name = entry?.file_name().to_string_lossy().into_owned();
            if name != "." && name != ".." {
                each(&name);
            }
        }
        Ok(())
    }

    fn free_bytes(&self) -> Result<u64> {
        let stat = rustix::fs::statvfs(&self.0)?;
        Ok(stat.f_bfree * stat.f_frsize)
    }
}
