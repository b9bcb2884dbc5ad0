//! Requests of the kernel: each is counted, passed to the module that implements it, and replied to.

use crate::attributes::Control;
use crate::convert::{CACHE_TIMEOUT, Entry, from_system, no_entry};
use crate::data::with_buffer;
use crate::errno::{Errno, FuseResult};
use crate::kernel::MAX_WRITE;
use crate::listing::ListReply;
use crate::names::NewMode;
use crate::opening;
use crate::served::Served;
use crate::statistics::Operation;
use crate::versions::OpenVersion;
use fuser::{
    BsdFileFlags, CopyFileRangeFlags, FileHandle, Filesystem, FopenFlags, Generation, INodeNo, InitFlags,
    IoctlFlags, KernelConfig, LockOwner, OpenFlags, PollEvents, PollFlags, PollNotifier, RenameFlags,
    ReplyAttr, ReplyCreate, ReplyData, ReplyDirectory, ReplyDirectoryPlus, ReplyEmpty, ReplyEntry,
    ReplyIoctl, ReplyLseek, ReplyOpen, ReplyPoll, ReplyStatfs, ReplyWrite, ReplyXattr, Request, TimeOrNow,
    WriteFlags,
};
use lanefs::{Attr, SetAttr, Time};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;
use std::time::SystemTime;

/// Most requests in progress for which no process waits, mostly readahead.
const MAX_BACKGROUND: u16 = 64;

/// Capabilities requested of the kernel. `FUSE_ASYNC_DIO` is not among them: with it the kernel does not drop
/// cached pages after an asynchronous direct write, and a page that was read meanwhile would keep its old
/// bytes (docs/mount.md, "Direct writes").
const CAPABILITIES: [InitFlags; 10] = [
    // Lookups and listings of one directory run in parallel.
    InitFlags::FUSE_PARALLEL_DIROPS,
    InitFlags::FUSE_DO_READDIRPLUS,
    // Listings have attributes as long as processes read them.
    InitFlags::FUSE_READDIRPLUS_AUTO,
    InitFlags::FUSE_CACHE_SYMLINKS,
    // Cached pages stay valid whatever the times are: the kernel is notified of all changes.
    InitFlags::FUSE_EXPLICIT_INVAL_DATA,
    // Without it the kernel requests an extended attribute before each write.
    InitFlags::FUSE_HANDLE_KILLPRIV_V2,
    InitFlags::FUSE_EXPORT_SUPPORT,
    InitFlags::FUSE_MAX_PAGES,
    // The kernel checks access control lists, and leaves the umask to the server.
    InitFlags::FUSE_POSIX_ACL,
    InitFlags::FUSE_DONT_MASK,
];

/// Request handler of one mount, which the library calls.
pub(crate) struct Server {
    served: Arc<Served>,
    /// True where the kernel opens and closes files without a request: a handle has no state.
    no_open: bool,
}

impl Server {
    pub(crate) fn new(served: Arc<Served>) -> Self {
        Server { served, no_open: false }
    }

    /// Does something with the version to which an inode belongs, and returns the attributes that the kernel
    /// gets.
    fn entry(
        &self,
        operation: Operation,
        node: INodeNo,
        work: impl FnOnce(&OpenVersion<'_>) -> FuseResult<Attr>,
    ) -> FuseResult<Entry> {
        self.served.with(operation, node, |volume| work(volume).map(|attr| volume.entry(&attr)))
    }

    /// Replies to an open. "Not implemented" makes the kernel open files without a request from now on, and
    /// keep its caches.
    fn reply_open(&self, reply: ReplyOpen, flags: FopenFlags) {
        if self.no_open {
            reply.error(Errno::ENOSYS.into());
        } else {
            reply.opened(FileHandle(0), flags);
        }
    }
}

/// Replies with an inode to which the kernel has a reference now.
fn reply_entry(result: FuseResult<Entry>, reply: ReplyEntry) {
    match result {
        Ok(Entry { attr, generation }) => reply.entry(&CACHE_TIMEOUT, &attr, generation),
        Err(errno) => reply.error(errno.into()),
    }
}

/// Replies with attributes.
fn reply_attr(result: FuseResult<Entry>, reply: ReplyAttr) {
    match result {
        Ok(entry) => reply.attr(&CACHE_TIMEOUT, &entry.attr),
        Err(errno) => reply.error(errno.into()),
    }
}

/// Replies without data.
fn reply_empty(result: FuseResult<()>, reply: ReplyEmpty) {
    match result {
        Ok(()) => reply.ok(),
        Err(errno) => reply.error(errno.into()),
    }
}

/// Replies with a number of bytes.
fn reply_written(result: FuseResult<u32>, reply: ReplyWrite) {
    match result {
        Ok(bytes) => reply.written(bytes),
        Err(errno) => reply.error(errno.into()),
    }
}

/// Replies with a value, or with its size where the kernel requests only that.
fn reply_xattr(result: FuseResult<Vec<u8>>, size: u32, reply: ReplyXattr) {
    match result {
        Ok(value) if size == 0 => reply.size(value.len() as u32),
        Ok(value) if value.len() > size as usize => reply.error(Errno::ERANGE.into()),
        Ok(value) => reply.data(&value),
        Err(errno) => reply.error(errno.into()),
    }
}

impl Filesystem for Server {
    fn init(&mut self, _: &Request, config: &mut KernelConfig) -> std::io::Result<()> {
        for wanted in CAPABILITIES {
            if config.add_capabilities(wanted).is_err() {
                log::info!("the kernel lacks {wanted:?}");
            }
        }
        let no_open = InitFlags::FUSE_NO_OPEN_SUPPORT | InitFlags::FUSE_NO_OPENDIR_SUPPORT;
        self.no_open = config.capabilities().contains(no_open) && !self.served.hears_of_opens;
        // The library reduces each value to a possible one, and nothing depends on it.
        let _ = config.set_max_write(MAX_WRITE);
        let _ = config.set_max_background(MAX_BACKGROUND);
        if let Err(largest) = config.set_max_readahead(MAX_WRITE) {
            let _ = config.set_max_readahead(largest);
        }
        Ok(())
    }

    fn lookup(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let served = &self.served;
        let found =
            served.with(Operation::Lookup, parent, |volume| served.lookup(volume, parent, name.as_bytes()));
        // Inode 0 means that the name does not exist, which the kernel may cache.
        let none = Entry { attr: no_entry(), generation: Generation(0) };
        reply_entry(found.map(|entry| entry.unwrap_or(none)), reply);
    }

    fn forget(&self, _: &Request, ino: INodeNo, times: u64) {
        // The request has no reply; the log has the error.
        let _ = self
            .served
            .with(Operation::Forget, ino, |volume| Ok(volume.take_back(volume.numbers.ino(ino), times)?));
        self.served.versions.retire();
    }

    fn getattr(&self, _: &Request, ino: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        let attr = self.entry(Operation::Getattr, ino, |volume| Ok(volume.getattr(volume.numbers.ino(ino))?));
        reply_attr(attr, reply);
    }

    fn setattr(
        &self,
        request: &Request,
        ino: INodeNo,
        mode: Option<u32>,
        uid: Option<u32>,
        gid: Option<u32>,
        size: Option<u64>,
        atime: Option<TimeOrNow>,
        mtime: Option<TimeOrNow>,
        // Set only with a cache of dirty pages in the kernel, which this server does not request; the volume
        // stamps the time.
        _ctime: Option<SystemTime>,
        _: Option<FileHandle>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        let now = Time::now();
        let set = SetAttr {
            perm: mode.map(|mode| (mode & 0o7777) as u16),
            uid,
            gid,
            size,
            atime: atime.map(|time| from_system(time, now)),
            mtime: mtime.map(|time| from_system(time, now)),
        };
        let served = &self.served;
        let changed =
            self.entry(Operation::Setattr, ino, |volume| served.setattr(volume, request, ino, &set));
        reply_attr(changed, reply);
    }

    fn readlink(&self, _: &Request, ino: INodeNo, reply: ReplyData) {
        let target = self
            .served
            .with(Operation::Readlink, ino, |volume| Ok(volume.readlink(volume.numbers.ino(ino))?));
        match target {
            Ok(target) => reply.data(&target),
            Err(errno) => reply.error(errno.into()),
        }
    }

    fn mknod(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        umask: u32,
        rdev: u32,
        reply: ReplyEntry,
    ) {
        let served = &self.served;
        let created = self.entry(Operation::Mknod, parent, |volume| {
            served.mknod(volume, request, parent, name.as_bytes(), NewMode { mode, umask }, rdev)
        });
        reply_entry(created, reply);
    }

    fn mkdir(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        umask: u32,
        reply: ReplyEntry,
    ) {
        let served = &self.served;
        let created = self.entry(Operation::Mkdir, parent, |volume| {
            served.mkdir(volume, request, parent, name.as_bytes(), NewMode { mode, umask })
        });
        reply_entry(created, reply);
    }

    fn symlink(&self, request: &Request, parent: INodeNo, name: &OsStr, target: &Path, reply: ReplyEntry) {
        let served = &self.served;
        let target = target.as_os_str().as_bytes();
        let created = self.entry(Operation::Symlink, parent, |volume| {
            served.symlink(volume, request, parent, name.as_bytes(), target)
        });
        reply_entry(created, reply);
    }

    fn link(&self, _: &Request, ino: INodeNo, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let served = &self.served;
        let created =
            self.entry(Operation::Link, parent, |volume| served.link(volume, ino, parent, name.as_bytes()));
        reply_entry(created, reply);
    }

    fn unlink(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        let served = &self.served;
        reply_empty(
            served.with(Operation::Unlink, parent, |volume| served.unlink(volume, parent, name.as_bytes())),
            reply,
        );
    }

    fn rmdir(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        let served = &self.served;
        reply_empty(
            served.with(Operation::Rmdir, parent, |volume| served.rmdir(volume, parent, name.as_bytes())),
            reply,
        );
    }

    fn rename(
        &self,
        _: &Request,
        parent: INodeNo,
        name: &OsStr,
        new_parent: INodeNo,
        new_name: &OsStr,
        flags: RenameFlags,
        reply: ReplyEmpty,
    ) {
        let served = &self.served;
        let (from, to) = ((parent, name.as_bytes()), (new_parent, new_name.as_bytes()));
        reply_empty(
            served.with(Operation::Rename, parent, |volume| served.rename(volume, from, to, flags)),
            reply,
        );
    }

    fn create(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        umask: u32,
        flags: i32,
        reply: ReplyCreate,
    ) {
        let served = &self.served;
        let created = self.entry(Operation::Create, parent, |volume| {
            served.create(volume, request, parent, name.as_bytes(), NewMode { mode, umask }, flags)
        });
        match created {
            Ok(Entry { attr, generation }) => {
                reply.created(&CACHE_TIMEOUT, &attr, generation, FileHandle(0), FopenFlags::FOPEN_KEEP_CACHE);
            }
            Err(errno) => reply.error(errno.into()),
        }
    }

    fn open(&self, _: &Request, ino: INodeNo, flags: OpenFlags, reply: ReplyOpen) {
        self.served.file_opened(ino, flags);
        self.reply_open(reply, FopenFlags::FOPEN_KEEP_CACHE);
    }

    fn opendir(&self, _: &Request, ino: INodeNo, flags: OpenFlags, reply: ReplyOpen) {
        self.served.directory_opened(ino, flags);
        self.reply_open(reply, FopenFlags::FOPEN_KEEP_CACHE | FopenFlags::FOPEN_CACHE_DIR);
    }

    /// Refuses the request: closing has nothing to write. The kernel sends no further ones.
    fn flush(&self, _: &Request, _: INodeNo, _: FileHandle, _: LockOwner, reply: ReplyEmpty) {
        reply.error(Errno::ENOSYS.into());
    }

    fn read(
        &self,
        _: &Request,
        ino: INodeNo,
        _: FileHandle,
        offset: u64,
        size: u32,
        flags: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyData,
    ) {
        let served = &self.served;
        let keeps_access_time = opening::keeps_access_time(flags);
        with_buffer(size, |buffer| {
            let read = |volume: &OpenVersion<'_>| served.read(volume, ino, offset, buffer, keeps_access_time);
            match served.with(Operation::Read, ino, read) {
                Ok(bytes) => reply.data(buffer.get(..bytes).unwrap_or_default()),
                Err(errno) => reply.error(errno.into()),
            }
        });
    }

    fn write(
        &self,
        request: &Request,
        ino: INodeNo,
        _: FileHandle,
        offset: u64,
        data: &[u8],
        flags: WriteFlags,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        let served = &self.served;
        let kills = flags.contains(WriteFlags::FUSE_WRITE_KILL_SUIDGID);
        reply_written(
            served.with(Operation::Write, ino, |volume| {
                served.write(volume, request, ino, offset, data, kills)
            }),
            reply,
        );
    }

    fn fsync(&self, _: &Request, ino: INodeNo, _: FileHandle, data_only: bool, reply: ReplyEmpty) {
        let synced = self
            .served
            .with(Operation::Fsync, ino, |volume| Ok(volume.fsync(volume.numbers.ino(ino), data_only)?));
        reply_empty(synced, reply);
    }

    fn fsyncdir(
        &self,
        request: &Request,
        ino: INodeNo,
        handle: FileHandle,
        data_only: bool,
        reply: ReplyEmpty,
    ) {
        self.fsync(request, ino, handle, data_only, reply);
    }

    fn readdir(&self, _: &Request, ino: INodeNo, _: FileHandle, offset: u64, mut reply: ReplyDirectory) {
        let served = &self.served;
        let listed = served.with(Operation::Readdir, ino, |volume| {
            served.list(volume, ino, offset, &mut ListReply::Names(&mut reply))
        });
        match listed {
            Ok(()) => reply.ok(),
            Err(errno) => reply.error(errno.into()),
        }
    }

    fn readdirplus(
        &self,
        _: &Request,
        ino: INodeNo,
        _: FileHandle,
        offset: u64,
        mut reply: ReplyDirectoryPlus,
    ) {
        let served = &self.served;
        let listed = served.with(Operation::Readdir, ino, |volume| {
            served.list(volume, ino, offset, &mut ListReply::Entries(&mut reply))
        });
        match listed {
            Ok(()) => reply.ok(),
            Err(errno) => reply.error(errno.into()),
        }
    }

    /// Also adopts the state of the mount: `remount` waits for that with statfs(2).
    fn statfs(&self, _: &Request, _: INodeNo, reply: ReplyStatfs) {
        self.served.adopt_state();
        match self.served.with(Operation::Statfs, INodeNo::ROOT, |volume| Ok(volume.statfs()?)) {
            Ok(s) => {
                let (free, inodes) = (s.free_blocks, s.inodes.saturating_add(s.free_inodes));
                let size = s.block_size as u32;
                reply.statfs(s.blocks, free, free, inodes, s.free_inodes, size, s.max_name, size);
            }
            Err(errno) => reply.error(errno.into()),
        }
    }

    fn setxattr(
        &self,
        request: &Request,
        ino: INodeNo,
        name: &OsStr,
        value: &[u8],
        flags: i32,
        _: u32,
        reply: ReplyEmpty,
    ) {
        let served = &self.served;
        let name = name.as_bytes();
        reply_empty(
            served.with(Operation::Setxattr, ino, |volume| {
                served.setxattr(volume, request, ino, name, value, flags)
            }),
            reply,
        );
    }

    fn getxattr(&self, request: &Request, ino: INodeNo, name: &OsStr, size: u32, reply: ReplyXattr) {
        let served = &self.served;
        let name = name.as_bytes();
        if let Some(told) = served.told(request.uid(), ino, name) {
            return reply_xattr(told, size, reply);
        }
        reply_xattr(
            served.with(Operation::Getxattr, ino, |volume| served.getxattr(volume, ino, name)),
            size,
            reply,
        );
    }

    fn listxattr(&self, request: &Request, ino: INodeNo, size: u32, reply: ReplyXattr) {
        let served = &self.served;
        reply_xattr(
            served.with(Operation::Listxattr, ino, |volume| served.listxattr(volume, request, ino)),
            size,
            reply,
        );
    }

    fn removexattr(&self, _: &Request, ino: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        let served = &self.served;
        let name = name.as_bytes();
        reply_empty(
            served.with(Operation::Removexattr, ino, |volume| served.removexattr(volume, ino, name)),
            reply,
        );
    }

    fn fallocate(
        &self,
        request: &Request,
        ino: INodeNo,
        _: FileHandle,
        offset: u64,
        length: u64,
        mode: i32,
        reply: ReplyEmpty,
    ) {
        let served = &self.served;
        let range = (offset, length);
        reply_empty(
            served.with(Operation::Fallocate, ino, |volume| {
                served.fallocate(volume, request, ino, range, mode)
            }),
            reply,
        );
    }

    fn lseek(&self, _: &Request, ino: INodeNo, _: FileHandle, offset: i64, whence: i32, reply: ReplyLseek) {
        let served = &self.served;
        match served.with(Operation::Seek, ino, |volume| served.seek(volume, ino, offset, whence)) {
            Ok(offset) => reply.offset(offset),
            Err(errno) => reply.error(errno.into()),
        }
    }

    fn copy_file_range(
        &self,
        request: &Request,
        from: INodeNo,
        _: FileHandle,
        from_offset: u64,
        to: INodeNo,
        _: FileHandle,
        to_offset: u64,
        len: u64,
        _: CopyFileRangeFlags,
        reply: ReplyWrite,
    ) {
        let served = &self.served;
        let (from, to) = ((from, from_offset), (to, to_offset));
        let copied = served
            .with(Operation::CopyRange, from.0, |volume| served.copy_range(volume, request, from, to, len));
        reply_written(copied, reply);
    }

    /// Serves chattr(1) and lsattr(1), which know checksums of file data as copy on write, and refuses all
    /// other controls; "not implemented" would reach the caller.
    fn ioctl(
        &self,
        _: &Request,
        ino: INodeNo,
        _: FileHandle,
        _: IoctlFlags,
        control: u32,
        data: &[u8],
        _: u32,
        reply: ReplyIoctl,
    ) {
        let served = &self.served;
        let done = match Control::decode(control, data) {
            Some(Control::Set(flags)) => {
                let control = Control::Set(flags);
                served.with(Operation::Setattr, ino, |volume| served.control(volume, ino, &control))
            }
            Some(control) => {
                served.with(Operation::Getattr, ino, |volume| served.control(volume, ino, &control))
            }
            None => Err(Errno::ENOTTY),
        };
        match done {
            Ok(answer) => reply.ioctl(0, &answer),
            Err(error) => reply.error(error.into()),
        }
    }

    /// Refuses the request: files are always ready. The kernel sends no further ones.
    fn poll(
        &self,
        _: &Request,
        _: INodeNo,
        _: FileHandle,
        _: PollNotifier,
        _: PollEvents,
        _: PollFlags,
        reply: ReplyPoll,
    ) {
        reply.error(Errno::ENOSYS.into());
    }
}
