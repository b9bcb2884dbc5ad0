//! Requests of the kernel: each is passed to the service, and its answer is the reply.

use super::buffer::with_buffer;
use super::convert::{errno, from_system, node, requester};
use super::replies::{Answer, Entries, Names, answer_sized};
use super::state::MountState;
use crate::kernel::MAX_WRITE_BYTES;
use fuser::{
    BsdFileFlags, CopyFileRangeFlags, FileHandle, Filesystem, FopenFlags, INodeNo, InitFlags, IoctlFlags,
    KernelConfig, LockOwner, OpenFlags, PollEvents, PollFlags, PollNotifier, RenameFlags, ReplyAttr,
    ReplyCreate, ReplyData, ReplyDirectory, ReplyDirectoryPlus, ReplyEmpty, ReplyEntry, ReplyIoctl,
    ReplyLseek, ReplyOpen, ReplyPoll, ReplyStatfs, ReplyWrite, ReplyXattr, Request, TimeOrNow, WriteFlags,
};
use lanefs::{SetAttr, Time};
use lanefs_serve::{Errno, NewMode, Served};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
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
    state: Arc<MountState>,
    /// True for a mount that began with a change of the time of access by each reading: the kernel tells of
    /// opens, which it never does again once the server has refused one.
    hears_of_opens: bool,
    /// True where the kernel opens and closes files without a request: a handle has no state.
    no_open: bool,
    /// True to use rings where the kernel has them.
    wants_rings: bool,
    agreed: Arc<Agreed>,
}

/// The agreement of the kernel and a server at the start of their connection.
#[derive(Debug, Default)]
pub(crate) struct Agreed {
    /// True where the kernel opens and closes files without a request.
    pub(crate) no_open: AtomicBool,
    /// True where requests come through rings.
    pub(crate) rings: AtomicBool,
}

impl Server {
    pub(crate) fn new(
        served: Arc<Served>,
        state: Arc<MountState>,
        hears_of_opens: bool,
        wants_rings: bool,
    ) -> Self {
        let agreed = Arc::default();
        Server { served, state, hears_of_opens, no_open: false, wants_rings, agreed }
    }

    /// Returns the agreement with the kernel, which holds from the start of the session on.
    pub(crate) fn agreed(&self) -> Arc<Agreed> {
        Arc::clone(&self.agreed)
    }

    /// Replies to an open. "Not implemented" makes the kernel open files without a request from now on, and
    /// keep its caches.
    fn reply_open(&self, reply: ReplyOpen, flags: FopenFlags) {
        if self.no_open {
            reply.error(errno(Errno::ENOSYS));
        } else {
            reply.opened(FileHandle(0), flags);
        }
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
        self.no_open = config.capabilities().contains(no_open) && !self.hears_of_opens;
        let has_rings = config.capabilities().contains(InitFlags::FUSE_OVER_IO_URING);
        if self.wants_rings && has_rings && config.add_capabilities(InitFlags::FUSE_OVER_IO_URING).is_ok() {
            self.agreed.rings.store(true, Relaxed);
        }
        self.agreed.no_open.store(self.no_open, Relaxed);
        // The library reduces each value to a possible one, and nothing depends on it.
        let _ = config.set_max_write(MAX_WRITE_BYTES);
        let _ = config.set_max_background(MAX_BACKGROUND);
        if let Err(largest) = config.set_max_readahead(MAX_WRITE_BYTES) {
            let _ = config.set_max_readahead(largest);
        }
        Ok(())
    }

    fn lookup(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        reply.answer(self.served.lookup(node(parent), name.as_bytes()));
    }

    fn forget(&self, _: &Request, ino: INodeNo, times: u64) {
        // The request has no reply; the log has the error.
        let _ = self.served.forget(node(ino), times);
    }

    fn getattr(&self, _: &Request, ino: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        reply.answer(self.served.getattr(node(ino)));
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
        reply.answer(self.served.setattr(&requester(request), node(ino), &set));
    }

    fn readlink(&self, _: &Request, ino: INodeNo, reply: ReplyData) {
        reply.answer(self.served.readlink(node(ino)));
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
        let (by, mode) = (requester(request), NewMode { mode, umask });
        reply.answer(self.served.mknod(&by, node(parent), name.as_bytes(), mode, rdev));
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
        let (by, mode) = (requester(request), NewMode { mode, umask });
        reply.answer(self.served.mkdir(&by, node(parent), name.as_bytes(), mode));
    }

    fn symlink(&self, request: &Request, parent: INodeNo, name: &OsStr, target: &Path, reply: ReplyEntry) {
        let target = target.as_os_str().as_bytes();
        reply.answer(self.served.symlink(&requester(request), node(parent), name.as_bytes(), target));
    }

    fn link(&self, _: &Request, ino: INodeNo, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        reply.answer(self.served.link(node(ino), node(parent), name.as_bytes()));
    }

    fn unlink(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        reply.answer(self.served.unlink(node(parent), name.as_bytes()));
    }

    fn rmdir(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        reply.answer(self.served.rmdir(node(parent), name.as_bytes()));
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
        let (from, to) = ((node(parent), name.as_bytes()), (node(new_parent), new_name.as_bytes()));
        reply.answer(self.served.rename(from, to, flags.bits()));
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
        let (by, mode) = (requester(request), NewMode { mode, umask });
        reply.answer(self.served.create(&by, node(parent), name.as_bytes(), mode, flags));
    }

    fn open(&self, _: &Request, ino: INodeNo, flags: OpenFlags, reply: ReplyOpen) {
        self.served.file_opened(node(ino), lanefs_serve::OpenFlags(flags.0));
        self.reply_open(reply, FopenFlags::FOPEN_KEEP_CACHE);
    }

    fn opendir(&self, _: &Request, ino: INodeNo, flags: OpenFlags, reply: ReplyOpen) {
        self.served.directory_opened(node(ino), lanefs_serve::OpenFlags(flags.0));
        self.reply_open(reply, FopenFlags::FOPEN_KEEP_CACHE | FopenFlags::FOPEN_CACHE_DIR);
    }

    /// Refuses the request: closing has nothing to write. The kernel sends no further ones.
    fn flush(&self, _: &Request, _: INodeNo, _: FileHandle, _: LockOwner, reply: ReplyEmpty) {
        reply.error(errno(Errno::ENOSYS));
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
        with_buffer(size, |buffer| {
            match self.served.read(node(ino), offset, buffer, lanefs_serve::OpenFlags(flags.0)) {
                Ok(bytes) => reply.data(buffer.get(..bytes).unwrap_or_default()),
                Err(error) => reply.error(errno(error)),
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
        let kills = flags.contains(WriteFlags::FUSE_WRITE_KILL_SUIDGID);
        reply.answer(self.served.write(&requester(request), node(ino), offset, data, kills));
    }

    fn fsync(&self, _: &Request, ino: INodeNo, _: FileHandle, data_only: bool, reply: ReplyEmpty) {
        reply.answer(self.served.fsync(node(ino), data_only));
    }

    fn fsyncdir(&self, _: &Request, ino: INodeNo, _: FileHandle, data_only: bool, reply: ReplyEmpty) {
        reply.answer(self.served.fsync(node(ino), data_only));
    }

    fn readdir(&self, _: &Request, ino: INodeNo, _: FileHandle, offset: u64, reply: ReplyDirectory) {
        let mut reply = Names(reply);
        let listed = self.served.list(node(ino), offset, &mut reply);
        reply.0.answer(listed);
    }

    fn readdirplus(&self, _: &Request, ino: INodeNo, _: FileHandle, offset: u64, reply: ReplyDirectoryPlus) {
        let mut reply = Entries(reply);
        let listed = self.served.list_entries(node(ino), offset, &mut reply);
        reply.0.answer(listed);
    }

    /// Also adopts the state of the mount: `remount` waits for that with statfs(2).
    fn statfs(&self, _: &Request, _: INodeNo, reply: ReplyStatfs) {
        self.state.adopt();
        reply.answer(self.served.statfs());
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
        reply.answer(self.served.setxattr(&requester(request), node(ino), name.as_bytes(), value, flags));
    }

    fn getxattr(&self, request: &Request, ino: INodeNo, name: &OsStr, size: u32, reply: ReplyXattr) {
        answer_sized(reply, size, self.served.getxattr(&requester(request), node(ino), name.as_bytes()));
    }

    fn listxattr(&self, request: &Request, ino: INodeNo, size: u32, reply: ReplyXattr) {
        answer_sized(reply, size, self.served.listxattr(&requester(request), node(ino)));
    }

    fn removexattr(&self, _: &Request, ino: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        reply.answer(self.served.removexattr(node(ino), name.as_bytes()));
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
        reply.answer(self.served.fallocate(&requester(request), node(ino), (offset, length), mode));
    }

    fn lseek(&self, _: &Request, ino: INodeNo, _: FileHandle, offset: i64, whence: i32, reply: ReplyLseek) {
        reply.answer(self.served.seek(node(ino), offset, whence));
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
        let (from, to) = ((node(from), from_offset), (node(to), to_offset));
        reply.answer(self.served.copy_range(&requester(request), from, to, len));
    }

    /// "Not implemented" for a control that the service does not have would reach the caller.
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
        reply.answer(self.served.control(node(ino), control, data));
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
        reply.error(errno(Errno::ENOSYS));
    }
}
