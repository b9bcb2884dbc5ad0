//! The limit of the kernel's interface: a FUSE file system that forwards each request to a directory of the
//! host, by one system call if one is enough, and keeps only the state that the kernel's interface requires.
//!
//! It implements the calls of the rows. It refuses hard links and renames, because a node is identified by
//! its directory and name.

use crate::error::{Error, Result};
use fuser::{
    BsdFileFlags, Config, Errno, FileAttr, FileHandle, FileType, Filesystem, FopenFlags, Generation, INodeNo,
    InitFlags, KernelConfig, LockOwner, MountOption, OpenFlags, ReplyAttr, ReplyCreate, ReplyData,
    ReplyDirectory, ReplyDirectoryPlus, ReplyEmpty, ReplyEntry, ReplyOpen, ReplyStatfs, ReplyWrite, Request,
    Session, SessionACL, TimeOrNow, WriteFlags,
};
use parking_lot::{Mutex, RwLock};
use rustix::fs::{self as sys, AtFlags, Mode, OFlags, RawDir, Stat};
use std::cell::RefCell;
use std::collections::HashMap;
use std::ffi::{CStr, CString, OsStr};
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Time for which the kernel may cache: all changes go through it.
const FOR_EVER: Duration = Duration::from_secs(365 * 86_400);
/// Maximum bytes of a read or write.
const MOST_BYTES: usize = 1 << 20;
const SHARDS: usize = 64;
const LISTING_BYTES: usize = 64 << 10;

/// Arguments of the hidden command `lanefs-bench mount-passthrough`.
#[derive(Clone, Debug, PartialEq, Eq, clap::Args)]
pub struct PassthroughArgs {
    /// Directory to serve
    #[arg(value_name = "SOURCE")]
    pub source: PathBuf,
    /// Directory to mount on
    #[arg(value_name = "DIR")]
    pub dir: PathBuf,
    /// Threads that serve requests
    #[arg(long, default_value_t = 2)]
    pub threads: usize,
}

/// Serves until the directory is unmounted.
///
/// # Errors
/// A directory that cannot be opened, or a host that refuses the mount.
pub fn run_passthrough(args: &PassthroughArgs) -> Result<()> {
    let shown = args.dir.display().to_string();
    let top = sys::open(&args.source, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())
        .map_err(Error::host(args.source.display().to_string()))?;
    let stat = sys::fstat(&top).map_err(Error::host(args.source.display().to_string()))?;
    let mut config = Config::default();
    config.mount_options = vec![
        MountOption::FSName("passthrough".into()),
        MountOption::DefaultPermissions,
        MountOption::CUSTOM(format!("max_read={MOST_BYTES}")),
    ];
    config.acl = SessionACL::All;
    config.n_threads = Some(args.threads.max(1));
    config.clone_fd = true;
    let session = Session::new(Passthrough::new(top, stat.st_ino), &args.dir, &config)
        .map_err(Error::host(shown.clone()))?;
    session.run().map_err(Error::host(shown))
}

/// Location of a node.
#[derive(Clone)]
struct PassthroughNode {
    dir: Arc<OwnedFd>,
    name: CString,
    /// Descriptor of the node, if it is a directory.
    own: Option<Arc<OwnedFd>>,
    /// Lookup count, as the kernel's `FORGET` returns it.
    lookups: u64,
}

struct Passthrough {
    top: Arc<OwnedFd>,
    top_number: u64,
    nodes: Vec<RwLock<HashMap<u64, PassthroughNode>>>,
    /// Entries of directories that are open for listing, read at once.
    listings: Mutex<HashMap<u64, Arc<Vec<ListedEntry>>>>,
}

struct ListedEntry {
    number: u64,
    kind: FileType,
    name: CString,
}

type FuseResult<T> = std::result::Result<T, Errno>;

fn errno(errno: rustix::io::Errno) -> Errno {
    Errno::from_i32(errno.raw_os_error())
}

fn c_name(name: &OsStr) -> FuseResult<CString> {
    CString::new(name.as_bytes()).map_err(|_| Errno::EINVAL)
}

fn time(seconds: i64, nanoseconds: i64) -> SystemTime {
    UNIX_EPOCH + Duration::new(seconds.max(0) as u64, nanoseconds as u32)
}

fn kind(mode: u32) -> FileType {
    match sys::FileType::from_raw_mode(mode) {
        sys::FileType::Directory => FileType::Directory,
        sys::FileType::Symlink => FileType::Symlink,
        sys::FileType::Fifo => FileType::NamedPipe,
        sys::FileType::Socket => FileType::Socket,
        sys::FileType::CharacterDevice => FileType::CharDevice,
        sys::FileType::BlockDevice => FileType::BlockDevice,
        _ => FileType::RegularFile,
    }
}

impl Passthrough {
    fn new(top: OwnedFd, top_number: u64) -> Self {
        Passthrough {
            top: Arc::new(top),
            top_number,
            nodes: (0..SHARDS).map(|_| RwLock::default()).collect(),
            listings: Mutex::default(),
        }
    }

    fn shard(&self, number: u64) -> &RwLock<HashMap<u64, PassthroughNode>> {
        &self.nodes[(number.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 58) as usize % SHARDS]
    }

    fn node(&self, number: INodeNo) -> FuseResult<PassthroughNode> {
        let nodes = self.shard(number.0).read();
        nodes.get(&number.0).cloned().ok_or(Errno::ESTALE)
    }

    fn dir(&self, number: INodeNo) -> FuseResult<Arc<OwnedFd>> {
        if number == INodeNo::ROOT {
            return Ok(Arc::clone(&self.top));
        }
        let nodes = self.shard(number.0).read();
        nodes.get(&number.0).and_then(|node| node.own.clone()).ok_or(Errno::ENOTDIR)
    }

    fn attr(&self, stat: &Stat) -> FileAttr {
        FileAttr {
            ino: if stat.st_ino == self.top_number { INodeNo::ROOT } else { INodeNo(stat.st_ino) },
            size: stat.st_size as u64,
            blocks: stat.st_blocks as u64,
            atime: time(stat.st_atime, stat.st_atime_nsec),
            mtime: time(stat.st_mtime, stat.st_mtime_nsec),
            ctime: time(stat.st_ctime, stat.st_ctime_nsec),
            crtime: UNIX_EPOCH,
            kind: kind(stat.st_mode),
            perm: stat.st_mode as u16 & 0o7777,
            nlink: stat.st_nlink as u32,
            uid: stat.st_uid,
            gid: stat.st_gid,
            rdev: stat.st_rdev as u32,
            blksize: 4096,
            flags: 0,
        }
    }

    /// Looks up a name and stores its location.
    fn find(&self, dir: &Arc<OwnedFd>, name: &CStr) -> FuseResult<FileAttr> {
        let stat = sys::statat(&**dir, name, AtFlags::SYMLINK_NOFOLLOW).map_err(errno)?;
        self.remember(dir, name, &stat)?;
        Ok(self.attr(&stat))
    }

    fn remember(&self, dir: &Arc<OwnedFd>, name: &CStr, stat: &Stat) -> FuseResult<()> {
        let mut nodes = self.shard(stat.st_ino).write();
        if let Some(node) = nodes.get_mut(&stat.st_ino) {
            node.lookups += 1;
            return Ok(());
        }
        let own = if kind(stat.st_mode) == FileType::Directory {
            let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
            Some(Arc::new(sys::openat(&**dir, name, flags, Mode::empty()).map_err(errno)?))
        } else {
            None
        };
        nodes.insert(
            stat.st_ino,
            PassthroughNode { dir: Arc::clone(dir), name: name.to_owned(), own, lookups: 1 },
        );
        Ok(())
    }

    fn stat(&self, number: INodeNo) -> FuseResult<FileAttr> {
        let stat = if number == INodeNo::ROOT {
            sys::fstat(&*self.top)
        } else {
            let node = self.node(number)?;
            sys::statat(&*node.dir, &node.name, AtFlags::SYMLINK_NOFOLLOW)
        };
        Ok(self.attr(&stat.map_err(errno)?))
    }

    fn list(&self, dir: &OwnedFd) -> FuseResult<Vec<ListedEntry>> {
        // A descriptor of its own: the other one's offset is shared.
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let dir = sys::openat(dir, c".", flags, Mode::empty()).map_err(errno)?;
        let mut buffer = vec![MaybeUninit::uninit(); LISTING_BYTES];
        let mut entries = RawDir::new(&dir, &mut buffer);
        let mut listed = Vec::new();
        while let Some(entry) = entries.next() {
            let entry = entry.map_err(errno)?;
            let kind = kind(entry.file_type().as_raw_mode());
            listed.push(ListedEntry { number: entry.ino(), kind, name: entry.file_name().to_owned() });
        }
        Ok(listed)
    }

    /// Returns the listing of an open directory, which the first request reads.
    fn listing(&self, dir: INodeNo, handle: FileHandle, offset: u64) -> FuseResult<Arc<Vec<ListedEntry>>> {
        if offset > 0
            && let Some(listed) = self.listings.lock().get(&handle.0)
        {
            return Ok(Arc::clone(listed));
        }
        let listed = Arc::new(self.list(&*self.dir(dir)?)?);
        let mut listings = self.listings.lock();
        listings.insert(handle.0, Arc::clone(&listed));
        Ok(listed)
    }
}

fn handle(file: OwnedFd) -> FileHandle {
    use std::os::fd::IntoRawFd;
    FileHandle(file.into_raw_fd() as u64)
}

/// Returns the file of a handle of [`handle`].
fn file(handle: FileHandle) -> std::os::fd::BorrowedFd<'static> {
    #[expect(unsafe_code, reason = "the kernel keeps the number between open and release")]
    // SAFETY: the kernel returns the value that `handle` made, and does not use it after the release; until
    // then nothing closes the descriptor.
    unsafe {
        std::os::fd::BorrowedFd::borrow_raw(handle.0 as i32)
    }
}

fn close(handle: FileHandle) {
    use std::os::fd::FromRawFd;
    #[expect(unsafe_code, reason = "as above")]
    // SAFETY: the kernel releases a handle once, after all other uses, so the descriptor has one owner.
    drop(unsafe { OwnedFd::from_raw_fd(handle.0 as i32) });
}

fn empty(answer: FuseResult<()>, reply: ReplyEmpty) {
    match answer {
        Ok(()) => reply.ok(),
        Err(errno) => reply.error(errno),
    }
}

fn entry(answer: FuseResult<FileAttr>, reply: ReplyEntry) {
    match answer {
        Ok(attr) => reply.entry(&FOR_EVER, &attr, Generation(0)),
        Err(errno) => reply.error(errno),
    }
}

fn attributes(answer: FuseResult<FileAttr>, reply: ReplyAttr) {
    match answer {
        Ok(attr) => reply.attr(&FOR_EVER, &attr),
        Err(errno) => reply.error(errno),
    }
}

/// Buffer of each thread for reads.
fn with_buffer<T>(size: usize, work: impl FnOnce(&mut [u8]) -> T) -> T {
    std::thread_local! {
        static BUFFER: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
    }
    BUFFER.with_borrow_mut(|buffer| {
        if buffer.len() < size {
            buffer.resize(size, 0);
        }
        work(&mut buffer[..size])
    })
}

impl Filesystem for Passthrough {
    fn init(&mut self, _: &Request, config: &mut KernelConfig) -> std::io::Result<()> {
        for wanted in [
            InitFlags::FUSE_PARALLEL_DIROPS,
            InitFlags::FUSE_DO_READDIRPLUS,
            InitFlags::FUSE_READDIRPLUS_AUTO,
            InitFlags::FUSE_HANDLE_KILLPRIV_V2,
            InitFlags::FUSE_MAX_PAGES,
            InitFlags::FUSE_ASYNC_READ,
        ] {
            let _ = config.add_capabilities(wanted);
        }
        let _ = config.set_max_write(MOST_BYTES as u32);
        let _ = config.set_max_background(64);
        if let Err(most) = config.set_max_readahead(MOST_BYTES as u32) {
            let _ = config.set_max_readahead(most);
        }
        Ok(())
    }

    fn lookup(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        entry(self.dir(parent).and_then(|dir| self.find(&dir, &c_name(name)?)), reply);
    }

    fn forget(&self, _: &Request, number: INodeNo, times: u64) {
        let mut nodes = self.shard(number.0).write();
        if let Some(node) = nodes.get_mut(&number.0) {
            node.lookups = node.lookups.saturating_sub(times);
            if node.lookups == 0 {
                nodes.remove(&number.0);
            }
        }
    }

    fn getattr(&self, _: &Request, number: INodeNo, open: Option<FileHandle>, reply: ReplyAttr) {
        let answer = match open {
            Some(open) => sys::fstat(file(open)).map(|stat| self.attr(&stat)).map_err(errno),
            None => self.stat(number),
        };
        attributes(answer, reply);
    }

    fn setattr(
        &self,
        _: &Request,
        number: INodeNo,
        mode: Option<u32>,
        _: Option<u32>,
        _: Option<u32>,
        size: Option<u64>,
        _: Option<TimeOrNow>,
        _: Option<TimeOrNow>,
        _: Option<SystemTime>,
        _: Option<FileHandle>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        let change = || {
            let node = self.node(number)?;
            if let Some(mode) = mode {
                sys::chmodat(&*node.dir, &node.name, Mode::from_raw_mode(mode & 0o7777), AtFlags::empty())
                    .map_err(errno)?;
            }
            if let Some(size) = size {
                let flags = OFlags::WRONLY | OFlags::CLOEXEC;
                let file = sys::openat(&*node.dir, &node.name, flags, Mode::empty()).map_err(errno)?;
                sys::ftruncate(&file, size).map_err(errno)?;
            }
            self.stat(number)
        };
        attributes(change(), reply);
    }

    fn mkdir(&self, _: &Request, parent: INodeNo, name: &OsStr, mode: u32, umask: u32, reply: ReplyEntry) {
        let make = || {
            let (dir, name) = (self.dir(parent)?, c_name(name)?);
            let mode = Mode::from_raw_mode(mode & !umask & 0o7777);
            sys::mkdirat(&*dir, &name, mode).map_err(errno)?;
            self.find(&dir, &name)
        };
        entry(make(), reply);
    }

    fn unlink(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        let remove = || sys::unlinkat(&*self.dir(parent)?, &c_name(name)?, AtFlags::empty()).map_err(errno);
        empty(remove(), reply);
    }

    fn rmdir(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        let remove = || sys::unlinkat(&*self.dir(parent)?, &c_name(name)?, AtFlags::REMOVEDIR).map_err(errno);
        empty(remove(), reply);
    }

    fn create(
        &self,
        _: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        umask: u32,
        flags: i32,
        reply: ReplyCreate,
    ) {
        let make = || {
            let (dir, name) = (self.dir(parent)?, c_name(name)?);
            let flags = OFlags::from_bits_retain(flags as u32) | OFlags::CREATE | OFlags::CLOEXEC;
            let mode = Mode::from_raw_mode(mode & !umask & 0o7777);
            let file = sys::openat(&*dir, &name, flags, mode).map_err(errno)?;
            let stat = sys::fstat(&file).map_err(errno)?;
            self.remember(&dir, &name, &stat)?;
            Ok((self.attr(&stat), file))
        };
        match make() {
            Ok((attr, file)) => {
                reply.created(&FOR_EVER, &attr, Generation(0), handle(file), FopenFlags::empty());
            }
            Err(errno) => reply.error(errno),
        }
    }

    fn open(&self, _: &Request, number: INodeNo, flags: OpenFlags, reply: ReplyOpen) {
        let open = || {
            let node = self.node(number)?;
            let flags = OFlags::from_bits_retain(flags.0 as u32) | OFlags::CLOEXEC;
            sys::openat(&*node.dir, &node.name, flags - OFlags::NOFOLLOW, Mode::empty()).map_err(errno)
        };
        match open() {
            Ok(file) => reply.opened(handle(file), FopenFlags::FOPEN_KEEP_CACHE),
            Err(errno) => reply.error(errno),
        }
    }

    fn read(
        &self,
        _: &Request,
        _: INodeNo,
        open: FileHandle,
        offset: u64,
        size: u32,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyData,
    ) {
        with_buffer(size as usize, |buffer| match rustix::io::pread(file(open), &mut *buffer, offset) {
            Ok(count) => reply.data(&buffer[..count]),
            Err(error) => reply.error(errno(error)),
        });
    }

    fn write(
        &self,
        _: &Request,
        _: INodeNo,
        open: FileHandle,
        offset: u64,
        data: &[u8],
        _: WriteFlags,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        match rustix::io::pwrite(file(open), data, offset) {
            Ok(count) => reply.written(count as u32),
            Err(error) => reply.error(errno(error)),
        }
    }

    fn flush(&self, _: &Request, _: INodeNo, _: FileHandle, _: LockOwner, reply: ReplyEmpty) {
        // The kernel does not repeat this request.
        reply.error(Errno::ENOSYS);
    }

    fn release(
        &self,
        _: &Request,
        _: INodeNo,
        open: FileHandle,
        _: OpenFlags,
        _: Option<LockOwner>,
        _: bool,
        reply: ReplyEmpty,
    ) {
        close(open);
        reply.ok();
    }

    fn fsync(&self, _: &Request, _: INodeNo, open: FileHandle, _: bool, reply: ReplyEmpty) {
        empty(sys::fsync(file(open)).map_err(errno), reply);
    }

    fn opendir(&self, _: &Request, number: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        // A descriptor serves as the number of the listing.
        match self.dir(number).and_then(|dir| rustix::io::dup(&*dir).map_err(errno)) {
            Ok(dir) => reply.opened(handle(dir), FopenFlags::empty()),
            Err(errno) => reply.error(errno),
        }
    }

    fn readdir(
        &self,
        _: &Request,
        number: INodeNo,
        open: FileHandle,
        offset: u64,
        mut reply: ReplyDirectory,
    ) {
        match self.listing(number, open, offset) {
            Ok(listed) => {
                for (at, one) in (offset + 1..).zip(listed.iter().skip(offset as usize)) {
                    if reply.add(INodeNo(one.number), at, one.kind, OsStr::from_bytes(one.name.to_bytes())) {
                        break;
                    }
                }
                reply.ok();
            }
            Err(errno) => reply.error(errno),
        }
    }

    fn readdirplus(
        &self,
        _: &Request,
        number: INodeNo,
        open: FileHandle,
        offset: u64,
        mut reply: ReplyDirectoryPlus,
    ) {
        let (dir, listed) =
            match self.dir(number).and_then(|dir| Ok((dir, self.listing(number, open, offset)?))) {
                Ok(both) => both,
                Err(errno) => return reply.error(errno),
            };
        for (at, one) in (offset + 1..).zip(listed.iter().skip(offset as usize)) {
            let itself = matches!(one.name.to_bytes(), b"." | b"..");
            let Ok(stat) = sys::statat(&*dir, &one.name, AtFlags::SYMLINK_NOFOLLOW) else { continue };
            let attr = self.attr(&stat);
            let name = OsStr::from_bytes(one.name.to_bytes());
            if reply.add(attr.ino, at, name, &FOR_EVER, &attr, Generation(0)) {
                break;
            }
            // The kernel forgets each node that it received.
            if !itself && self.remember(&dir, &one.name, &stat).is_err() {
                break;
            }
        }
        reply.ok();
    }

    fn releasedir(&self, _: &Request, _: INodeNo, open: FileHandle, _: OpenFlags, reply: ReplyEmpty) {
        self.listings.lock().remove(&open.0);
        close(open);
        reply.ok();
    }

    fn statfs(&self, _: &Request, _: INodeNo, reply: ReplyStatfs) {
        match sys::fstatvfs(&*self.top) {
            Ok(s) => reply.statfs(
                s.f_blocks,
                s.f_bfree,
                s.f_bavail,
                s.f_files,
                s.f_ffree,
                s.f_bsize as u32,
                255,
                s.f_frsize as u32,
            ),
            Err(error) => reply.error(errno(error)),
        }
    }
}
