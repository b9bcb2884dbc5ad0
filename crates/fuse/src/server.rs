//! Requests of the kernel: each is counted, passed to the module that implements it, and replied to.

use crate::attributes::Control;
use crate::convert::{CACHE_TIMEOUT, InodeNumbers, from_system, generation};
use crate::data::with_buffer;
use crate::errno::{Errno, FuseResult};
use crate::kernel::MAX_WRITE;
use crate::listing::ListReply;
use crate::names::NewMode;
use crate::served::Served;
use crate::statistics::Operation;
use fuser::{
    BsdFileFlags, CopyFileRangeFlags, FileAttr, FileHandle, Filesystem, FopenFlags, Generation, INodeNo,
    InitFlags, IoctlFlags, KernelConfig, LockOwner, OpenFlags, PollEvents, PollFlags, PollNotifier,
    RenameFlags, ReplyAttr, ReplyCreate, ReplyData, ReplyDirectory, ReplyDirectoryPlus, ReplyEmpty,
    ReplyEntry, ReplyIoctl, ReplyLseek, ReplyOpen, ReplyPoll, ReplyStatfs, ReplyWrite, ReplyXattr, Request,
    TimeOrNow, WriteFlags,
};
use lanefs::{Attr, FileKind, SetAttr, Time, Volume};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;
use std::time::SystemTime;

/// Most requests in progress for which no process waits, mostly readahead.
const MAX_BACKGROUND: u16 = 64;

/// `O_NOATIME` of `open(2)`: reading does not change the time of access.
const O_NOATIME: i32 = 0o1_000_000;

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

    /// Replies with the entry of an inode, which the handler holds for the kernel.
    fn reply_entry(&self, result: FuseResult<Attr>, reply: ReplyEntry) {
        match result {
            Ok(attr) => reply.entry(&CACHE_TIMEOUT, &self.served.numbers.attr(&attr), generation(&attr)),
            Err(errno) => reply.error(errno.into()),
        }
    }

    /// Replies with attributes.
    fn reply_attr(&self, result: FuseResult<Attr>, reply: ReplyAttr) {
        match result {
            Ok(attr) => reply.attr(&CACHE_TIMEOUT, &self.served.numbers.attr(&attr)),
            Err(errno) => reply.error(errno.into()),
        }
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
        self.no_open = config.capabilities().contains(no_open);
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
        match served.with(Operation::Lookup, |volume| served.lookup(volume, parent, name.as_bytes())) {
            // Inode 0 means that the name does not exist, which the kernel may cache.
            Ok(None) => reply.entry(&CACHE_TIMEOUT, &no_entry(), Generation(0)),
            Ok(Some(attr)) => self.reply_entry(Ok(attr), reply),
            Err(errno) => reply.error(errno.into()),
        }
    }

    fn forget(&self, _: &Request, ino: INodeNo, times: u64) {
        let ino = self.served.numbers.ino(ino);
        // The request has no reply; the log has the error.
        let _ = self.served.with(Operation::Forget, |volume| Ok(self.served.release(volume, ino, times)?));
    }

    fn getattr(&self, _: &Request, ino: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        let ino = self.served.numbers.ino(ino);
        self.reply_attr(self.served.with(Operation::Getattr, |volume| Ok(volume.getattr(ino)?)), reply);
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
        self.reply_attr(
            served.with(Operation::Setattr, |volume| served.setattr(volume, request, ino, &set)),
            reply,
        );
    }

    fn readlink(&self, _: &Request, ino: INodeNo, reply: ReplyData) {
        let ino = self.served.numbers.ino(ino);
        match self.served.with(Operation::Readlink, |volume| Ok(volume.readlink(ino)?)) {
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
        let created = served.with(Operation::Mknod, |volume| {
            served.mknod(volume, request, parent, name.as_bytes(), NewMode { mode, umask }, rdev)
        });
        self.reply_entry(created, reply);
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
        let created = served.with(Operation::Mkdir, |volume| {
            served.mkdir(volume, request, parent, name.as_bytes(), NewMode { mode, umask })
        });
        self.reply_entry(created, reply);
    }

    fn symlink(&self, request: &Request, parent: INodeNo, name: &OsStr, target: &Path, reply: ReplyEntry) {
        let served = &self.served;
        let target = target.as_os_str().as_bytes();
        let created = served.with(Operation::Symlink, |volume| {
            served.symlink(volume, request, parent, name.as_bytes(), target)
        });
        self.reply_entry(created, reply);
    }

    fn link(&self, _: &Request, ino: INodeNo, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let served = &self.served;
        let created =
            served.with(Operation::Link, |volume| served.link(volume, ino, parent, name.as_bytes()));
        self.reply_entry(created, reply);
    }

    fn unlink(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        let served = &self.served;
        reply_empty(
            served.with(Operation::Unlink, |volume| served.unlink(volume, parent, name.as_bytes())),
            reply,
        );
    }

    fn rmdir(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        let served = &self.served;
        reply_empty(
            served.with(Operation::Rmdir, |volume| served.rmdir(volume, parent, name.as_bytes())),
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
        reply_empty(served.with(Operation::Rename, |volume| served.rename(volume, from, to, flags)), reply);
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
        let created = served.with(Operation::Create, |volume| {
            served.create(volume, request, parent, name.as_bytes(), NewMode { mode, umask }, flags)
        });
        match created {
            Ok(attr) => {
                let (to, generation) = (served.numbers.attr(&attr), generation(&attr));
                reply.created(&CACHE_TIMEOUT, &to, generation, FileHandle(0), FopenFlags::FOPEN_KEEP_CACHE);
            }
            Err(errno) => reply.error(errno.into()),
        }
    }

    fn open(&self, _: &Request, _: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        self.reply_open(reply, FopenFlags::FOPEN_KEEP_CACHE);
    }

    fn opendir(&self, _: &Request, _: INodeNo, _: OpenFlags, reply: ReplyOpen) {
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
        let keeps_access_time = flags.0 & O_NOATIME != 0;
        with_buffer(size, |buffer| {
            let read = |volume: &Volume| served.read(volume, ino, offset, buffer, keeps_access_time);
            match served.with(Operation::Read, read) {
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
            served.with(Operation::Write, |volume| served.write(volume, request, ino, offset, data, kills)),
            reply,
        );
    }

    fn fsync(&self, _: &Request, ino: INodeNo, _: FileHandle, data_only: bool, reply: ReplyEmpty) {
        let ino = self.served.numbers.ino(ino);
        reply_empty(self.served.with(Operation::Fsync, |volume| Ok(volume.fsync(ino, data_only)?)), reply);
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
        let listed = served.with(Operation::Readdir, |volume| {
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
        let listed = served.with(Operation::Readdir, |volume| {
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
        match self.served.with(Operation::Statfs, |volume| Ok(volume.statfs()?)) {
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
            served.with(Operation::Setxattr, |volume| {
                served.setxattr(volume, request, ino, name, value, flags)
            }),
            reply,
        );
    }

    fn getxattr(&self, request: &Request, ino: INodeNo, name: &OsStr, size: u32, reply: ReplyXattr) {
        let served = &self.served;
        let name = name.as_bytes();
        if let Some(address) = served.commands(request.uid(), ino, name) {
            return reply_xattr(address, size, reply);
        }
        reply_xattr(
            served.with(Operation::Getxattr, |volume| served.getxattr(volume, ino, name)),
            size,
            reply,
        );
    }

    fn listxattr(&self, request: &Request, ino: INodeNo, size: u32, reply: ReplyXattr) {
        let served = &self.served;
        reply_xattr(
            served.with(Operation::Listxattr, |volume| served.listxattr(volume, request, ino)),
            size,
            reply,
        );
    }

    fn removexattr(&self, _: &Request, ino: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        let served = &self.served;
        let name = name.as_bytes();
        reply_empty(
            served.with(Operation::Removexattr, |volume| served.removexattr(volume, ino, name)),
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
            served.with(Operation::Fallocate, |volume| served.fallocate(volume, request, ino, range, mode)),
            reply,
        );
    }

    fn lseek(&self, _: &Request, ino: INodeNo, _: FileHandle, offset: i64, whence: i32, reply: ReplyLseek) {
        let served = &self.served;
        match served.with(Operation::Seek, |volume| served.seek(volume, ino, offset, whence)) {
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
        let copied =
            served.with(Operation::CopyRange, |volume| served.copy_range(volume, request, from, to, len));
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
                served.with(Operation::Setattr, |volume| served.control(volume, ino, &control))
            }
            Some(control) => served.with(Operation::Getattr, |volume| served.control(volume, ino, &control)),
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

/// Returns the attributes for a name that does not exist.
fn no_entry() -> FileAttr {
    let zero = Time::default();
    let attr = Attr {
        ino: lanefs::Ino(0),
        kind: FileKind::File,
        perm: 0,
        links: 0,
        uid: 0,
        gid: 0,
        size: 0,
        blocks: 0,
        rdev: 0,
        mtime: zero,
        ctime: zero,
        atime: zero,
        btime: zero,
        generation: 0,
    };
    InodeNumbers { root: lanefs::Ino(u64::MAX) }.attr(&attr)
}
