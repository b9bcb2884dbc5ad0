//! The host's system calls under the trait that every engine implements.

use super::identity::As;
use super::{Host, Listing, ROOT, error};
use crate::engine::{Engine, EngineResult, Handle, Page, Stat};
use lanefs::{Allocate, Caller, RenameMode, Seek, SetAttr, Time, XattrMode};
use lanefs_format::{Code, FileKind, MAX_NAME};
use rustix::fs::{
    AtFlags, CWD, FallocateFlags, FileType, Mode, OFlags, RenameFlags, SeekFrom, Timespec, Timestamps,
    XattrFlags,
};
use rustix::io::Errno;
use rustix::process::{Gid, Uid};

fn mode(perm: u16) -> Mode {
    Mode::from_raw_mode(perm.into())
}

fn timespec(time: Option<Time>) -> Timespec {
    const OMIT: i64 = (1 << 30) - 2;
    match time {
        Some(time) => Timespec { tv_sec: time.seconds(), tv_nsec: time.nanoseconds().into() },
        None => Timespec { tv_sec: 0, tv_nsec: OMIT as _ },
    }
}

impl Engine for Host {
    fn begin(&mut self) {
        self.open.retain(|handle, _| *handle == ROOT);
    }

    fn forget(&mut self, handle: Handle) {
        if handle != ROOT {
            self.open.remove(&handle);
        }
    }

    fn root(&mut self) -> Handle {
        ROOT
    }

    fn resolve(
        &mut self,
        caller: &Caller,
        base: Option<Handle>,
        path: &[u8],
        follow: bool,
    ) -> EngineResult<Handle> {
        if base.is_some() && !path.starts_with(b"/") {
            return Err(Code::Unsupported.into());
        }
        let found = {
            let _as = As::caller(caller)?;
            self.at(path, follow)
        };
        Ok(self.keep(found.map_err(error)?))
    }

    fn lookup(&mut self, caller: &Caller, dir: Handle, name: &[u8]) -> EngineResult<Handle> {
        // The directory that serves as the root is its own parent.
        let name: &[u8] = if name == b".." && self.is_root(dir)? { b"." } else { name };
        let found = {
            let _as = As::caller(caller)?;
            let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            rustix::fs::openat(self.fd(dir)?, name, flags, Mode::empty())
        };
        Ok(self.keep(found.map_err(error)?))
    }

    fn stat(&mut self, handle: Handle) -> EngineResult<Stat> {
        self.stat_of(self.fd(handle)?)
    }

    fn set(&mut self, caller: &Caller, handle: Handle, set: &SetAttr) -> EngineResult<Stat> {
        if let Some(size) = set.size {
            let file = self.content(caller, handle, OFlags::WRONLY)?;
            let _as = As::caller(caller)?;
            rustix::fs::ftruncate(file, size).map_err(error)?;
        }
        let fd = self.fd(handle)?;
        let _as = As::caller(caller)?;
        if set.uid.is_some() || set.gid.is_some() {
            let (uid, gid) = (set.uid.map(Uid::from_raw), set.gid.map(Gid::from_raw));
            rustix::fs::chownat(fd, "", uid, gid, AtFlags::EMPTY_PATH).map_err(error)?;
        }
        if let Some(perm) = set.perm {
            rustix::fs::chmodat(CWD, self.magic(handle)?, mode(perm), AtFlags::empty()).map_err(error)?;
        }
        if set.atime.is_some() || set.mtime.is_some() {
            let times =
                Timestamps { last_access: timespec(set.atime), last_modification: timespec(set.mtime) };
            rustix::fs::utimensat(fd, "", &times, AtFlags::EMPTY_PATH).map_err(error)?;
        }
        self.stat_of(fd)
    }

    fn create(&mut self, caller: &Caller, dir: Handle, name: &[u8], perm: u16) -> EngineResult<Stat> {
        self.mknod(caller, dir, name, FileKind::File, perm, 0)
    }

    fn mknod(
        &mut self,
        caller: &Caller,
        dir: Handle,
        name: &[u8],
        kind: FileKind,
        perm: u16,
        rdev: u64,
    ) -> EngineResult<Stat> {
        let kind = match kind {
            FileKind::File => FileType::RegularFile,
            FileKind::Fifo => FileType::Fifo,
            FileKind::Socket => FileType::Socket,
            FileKind::CharDevice => FileType::CharacterDevice,
            FileKind::BlockDevice => FileType::BlockDevice,
            FileKind::Directory | FileKind::Symlink => return Err(Code::Invalid.into()),
        };
        {
            let _as = As::caller(caller)?;
            rustix::fs::mknodat(self.fd(dir)?, name, kind, mode(perm), rdev).map_err(error)?;
        }
        self.named(dir, name)
    }

    fn mkdir(&mut self, caller: &Caller, dir: Handle, name: &[u8], perm: u16) -> EngineResult<Stat> {
        {
            let _as = As::caller(caller)?;
            rustix::fs::mkdirat(self.fd(dir)?, name, mode(perm)).map_err(error)?;
        }
        self.named(dir, name)
    }

    fn symlink(&mut self, caller: &Caller, dir: Handle, name: &[u8], target: &[u8]) -> EngineResult<Stat> {
        {
            let _as = As::caller(caller)?;
            rustix::fs::symlinkat(target, self.fd(dir)?, name).map_err(error)?;
        }
        self.named(dir, name)
    }

    fn readlink(&mut self, handle: Handle) -> EngineResult<Vec<u8>> {
        if self.kind(handle)? != FileKind::Symlink {
            return Err(Code::Invalid.into());
        }
        Ok(rustix::fs::readlinkat(self.fd(handle)?, "", Vec::new()).map_err(error)?.into_bytes())
    }

    fn link(&mut self, caller: &Caller, handle: Handle, dir: Handle, name: &[u8]) -> EngineResult<Stat> {
        {
            let _as = As::caller(caller)?;
            let (old, dir) = (self.magic(handle)?, self.fd(dir)?);
            rustix::fs::linkat(CWD, old, dir, name, AtFlags::SYMLINK_FOLLOW).map_err(error)?;
        }
        self.stat(handle)
    }

    fn unlink(&mut self, caller: &Caller, dir: Handle, name: &[u8]) -> EngineResult<()> {
        let _as = As::caller(caller)?;
        rustix::fs::unlinkat(self.fd(dir)?, name, AtFlags::empty()).map_err(error)
    }

    fn rmdir(&mut self, caller: &Caller, dir: Handle, name: &[u8]) -> EngineResult<()> {
        let _as = As::caller(caller)?;
        rustix::fs::unlinkat(self.fd(dir)?, name, AtFlags::REMOVEDIR).map_err(error)
    }

    fn rename(
        &mut self,
        caller: &Caller,
        from: (Handle, &[u8]),
        to: (Handle, &[u8]),
        mode: RenameMode,
    ) -> EngineResult<()> {
        let flags = match mode {
            RenameMode::Replace => RenameFlags::empty(),
            RenameMode::NoReplace => RenameFlags::NOREPLACE,
            RenameMode::Exchange => RenameFlags::EXCHANGE,
            RenameMode::Whiteout => RenameFlags::WHITEOUT,
            RenameMode::NoReplaceWhiteout => RenameFlags::NOREPLACE | RenameFlags::WHITEOUT,
        };
        let _as = As::caller(caller)?;
        rustix::fs::renameat_with(self.fd(from.0)?, from.1, self.fd(to.0)?, to.1, flags).map_err(error)
    }

    /// The host's cookies are not returned: the names are sorted and numbered, so a listing must not be mixed
    /// with changes. The directory is read with the first page, and the others come from what was read.
    fn list(&mut self, caller: &Caller, dir: Handle, cookie: u64, max: usize) -> EngineResult<Page> {
        if cookie == 0 || self.listing.dir != dir {
            self.listing = Listing { dir, entries: self.entries(caller, dir)? };
        }
        let entries = self.listing.entries.iter();
        let numbered = entries.enumerate().skip(cookie as usize).take(max);
        Ok(numbered.map(|(rank, (name, kind))| (name.clone(), *kind, rank as u64 + 1)).collect())
    }

    fn read(
        &mut self,
        caller: &Caller,
        handle: Handle,
        offset: u64,
        buffer: &mut [u8],
    ) -> EngineResult<usize> {
        let noatime = if caller.user.is_none() && rustix::process::geteuid().is_root() {
            OFlags::NOATIME
        } else {
            OFlags::empty()
        };
        let file = self.content(caller, handle, OFlags::RDONLY | noatime)?;
        let mut done = 0;
        while done < buffer.len() {
            match rustix::io::pread(&file, &mut buffer[done..], offset + done as u64).map_err(error)? {
                0 => break,
                n => done += n,
            }
        }
        Ok(done)
    }

    fn write(&mut self, caller: &Caller, handle: Handle, offset: u64, data: &[u8]) -> EngineResult<usize> {
        let file = self.content(caller, handle, OFlags::WRONLY)?;
        let _as = As::caller(caller)?;
        let mut done = 0;
        while done < data.len() {
            done += rustix::io::pwrite(&file, &data[done..], offset + done as u64).map_err(error)?;
        }
        Ok(done)
    }

    fn fallocate(
        &mut self,
        caller: &Caller,
        handle: Handle,
        mode: Allocate,
        offset: u64,
        len: u64,
    ) -> EngineResult<()> {
        let file = self.content(caller, handle, OFlags::WRONLY)?;
        let flags = match mode {
            Allocate::Extend => FallocateFlags::empty(),
            Allocate::KeepSize => FallocateFlags::KEEP_SIZE,
            Allocate::PunchHole => FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE,
            Allocate::ZeroRange => FallocateFlags::ZERO_RANGE,
            Allocate::CollapseRange => FallocateFlags::COLLAPSE_RANGE,
            Allocate::InsertRange => FallocateFlags::INSERT_RANGE,
        };
        let _as = As::caller(caller)?;
        rustix::fs::fallocate(file, flags, offset, len).map_err(error)
    }

    fn seek(&mut self, handle: Handle, offset: u64, what: Seek) -> EngineResult<u64> {
        let file = self.content(&Caller::OWNER, handle, OFlags::RDONLY)?;
        let from = match what {
            Seek::Data => SeekFrom::Data(offset),
            Seek::Hole => SeekFrom::Hole(offset),
        };
        rustix::fs::seek(file, from).map_err(error)
    }

    fn getxattr(&mut self, caller: &Caller, handle: Handle, name: &[u8]) -> EngineResult<Vec<u8>> {
        let mut value = vec![0; 65_536];
        let _as = As::caller(caller)?;
        let n = rustix::fs::getxattr(self.magic(handle)?, name, &mut value[..]).map_err(error)?;
        value.truncate(n);
        Ok(value)
    }

    fn setxattr(
        &mut self,
        caller: &Caller,
        handle: Handle,
        name: &[u8],
        value: &[u8],
        mode: XattrMode,
    ) -> EngineResult<()> {
        let flags = match mode {
            XattrMode::Set => XattrFlags::empty(),
            XattrMode::Create => XattrFlags::CREATE,
            XattrMode::Replace => XattrFlags::REPLACE,
        };
        let _as = As::caller(caller)?;
        rustix::fs::setxattr(self.magic(handle)?, name, value, flags).map_err(error)
    }

    fn listxattr(&mut self, handle: Handle) -> EngineResult<Vec<Vec<u8>>> {
        let mut list = vec![0; 65_536];
        match rustix::fs::listxattr(self.magic(handle)?, &mut list[..]) {
            Ok(n) => list.truncate(n),
            // This kind of file supports no attributes of any kind.
            Err(Errno::OPNOTSUPP) => list.clear(),
            Err(errno) => return Err(error(errno)),
        }
        let names = list
            .split(|byte| *byte == 0)
            .filter(|name| name.starts_with(b"user.") || name.starts_with(b"trusted."));
        Ok(names.map(<[u8]>::to_vec).collect())
    }

    fn removexattr(&mut self, caller: &Caller, handle: Handle, name: &[u8]) -> EngineResult<()> {
        let _as = As::caller(caller)?;
        rustix::fs::removexattr(self.magic(handle)?, name).map_err(error)
    }

    /// `mkdir -p`, component by component; where one of them cannot be made, none is.
    fn mkdir_all(&mut self, path: &[u8], perm: u16) -> EngineResult<Stat> {
        let mut made = Vec::new();
        let done = self.make_each(path, perm, &mut made);
        if done.is_err() {
            for (dir, name) in made.into_iter().rev() {
                self.rmdir(&Caller::OWNER, dir, name)?;
            }
        }
        done
    }

    fn remove_all(&mut self, caller: &Caller, dir: Handle, name: &[u8]) -> EngineResult<()> {
        if name == b"." || name == b".." {
            return Err(Code::Invalid.into());
        }
        let top = self.lookup(caller, dir, name)?;
        if self.kind(top)? == FileKind::Directory {
            for (below, _, _) in self.list(caller, top, 0, usize::MAX)? {
                self.remove_all(caller, top, &below)?;
            }
            return self.rmdir(caller, dir, name);
        }
        self.unlink(caller, dir, name)
    }
}

impl Host {
    /// Makes the missing directories of a path one by one. `made` gets the parent and the name of each.
    fn make_each<'p>(
        &mut self,
        path: &'p [u8],
        perm: u16,
        made: &mut Vec<(Handle, &'p [u8])>,
    ) -> EngineResult<Stat> {
        let mut so_far = b"/".to_vec();
        let mut at = ROOT;
        let names = path.split(|byte| *byte == b'/').filter(|name| !name.is_empty());
        for (number, name) in names.clone().enumerate() {
            so_far.extend(name);
            match self.resolve(&Caller::OWNER, None, &so_far, true) {
                Err(missing) if missing.code == Code::NotFound => {
                    if names.clone().skip(number).any(|name| name.len() > MAX_NAME) {
                        return Err(Code::NameTooLong.into());
                    }
                    self.mkdir(&Caller::OWNER, at, name, perm)?;
                    made.push((at, name));
                    at = self.resolve(&Caller::OWNER, None, &so_far, true)?;
                }
                other => at = other?,
            }
            if self.kind(at)? != FileKind::Directory {
                return Err(Code::NotDirectory.into());
            }
            so_far.push(b'/');
        }
        self.stat(at)
    }
}
