//! A directory of the host as an engine: the second oracle.
//!
//! The kernel resolves paths below the directory (`openat2` with `RESOLVE_IN_ROOT`, so that absolute links
//! and `..` stay inside). Handles are `O_PATH` descriptors. As root, callers other than the owner act with
//! their own identity, set for the calling thread alone, so that the kernel itself decides about permissions.
//!
//! Known differences, and how they are treated:
//!
//! * Each file system defines the sizes of directories for itself: [`Stat`] leaves them out.
//! * Some file systems (btrfs) count no links of directories: their number is reported as unknown.
//! * Paths start at the root only: from elsewhere the kernel would follow links out of the directory.
//! * `protected_hardlinks` and `protected_symlinks` make Linux stricter than POSIX: where they are on, users
//!   make no links to others' files, and no directory is sticky.
//! * No creation time is compared.
//! * Device nodes, `trusted.` attributes, ownership and callers need root: [`Host::limits`] says which of
//!   them work.
//! * overlayfs leaves no whiteouts of its users; [`Host::limits`] tries it.
//! * tmpfs has no `ZERO_RANGE`; [`Host::limits`] tries it.

mod calls;
pub(crate) mod identity;

use crate::engine::{EngineError, EngineResult, Handle, Stat};
use crate::ops::Limits;
use identity::As;
use lanefs::Caller;
use lanefs_format::{Code, FileKind};
use rustix::fs::{AtFlags, FallocateFlags, Mode, OFlags, ResolveFlags};
use rustix::io::Errno;
use std::collections::HashMap;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::Path;

const ROOT: Handle = 1;

/// A directory of the host.
pub struct Host {
    _dir: tempfile::TempDir,
    open: HashMap<Handle, OwnedFd>,
    next: Handle,
    counts_directories: bool,
    listing: Listing,
}

/// Names and kinds of a directory, sorted, as they were when its listing began.
#[derive(Default)]
struct Listing {
    dir: Handle,
    entries: Vec<(Vec<u8>, FileKind)>,
}

fn error(errno: Errno) -> EngineError {
    errno.into()
}

impl Host {
    /// Creates a directory in `parent`.
    ///
    /// # Errors
    /// Those of the host.
    pub fn new(parent: &Path) -> EngineResult<Host> {
        // Modes must be exactly as requested; the mask is the process's, so all tests with a host share it.
        rustix::process::umask(Mode::empty());
        let io =
            |error: std::io::Error| EngineError { text: error.to_string(), broken: true, ..Code::Io.into() };
        let dir = tempfile::Builder::new().prefix("lanefs-testkit-").tempdir_in(parent).map_err(io)?;
        let top = dir.path().join("root");
        std::fs::create_dir(&top).map_err(io)?;
        // Every user must be able to reach the directory that serves as the root.
        rustix::fs::chmod(dir.path(), Mode::from_raw_mode(0o755)).map_err(error)?;
        rustix::fs::chmod(&top, Mode::from_raw_mode(0o755)).map_err(error)?;
        let root = rustix::fs::open(&top, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())
            .map_err(error)?;
        let links = rustix::fs::fstat(&root).map_err(error)?.st_nlink;
        let open = HashMap::from([(ROOT, root)]);
        let listing = Listing::default();
        Ok(Host { _dir: dir, open, next: ROOT + 1, counts_directories: links >= 2, listing })
    }

    /// Returns the abilities of a directory in `parent` for this process; a volume has more.
    pub fn limits(parent: &Path) -> Limits {
        let root = rustix::process::geteuid().is_root();
        let probe = tempfile::NamedTempFile::new_in(parent).ok();
        let path = |probe: &tempfile::NamedTempFile| format!("/proc/self/fd/{}", probe.as_raw_fd());
        let flags = rustix::fs::XattrFlags::empty();
        Limits {
            // Every file system of the host has files of 1 GiB; attributes of an inode share one block on
            // ext4.
            most_offset: 1 << 30,
            most_value: 150,
            devices: root && probe.as_ref().is_some_and(|p| can_make_devices(p.path())),
            whiteouts: probe.as_ref().is_some_and(|p| can_leave_whiteouts(p.path())),
            trusted: root
                && probe
                    .as_ref()
                    .is_some_and(|p| rustix::fs::setxattr(path(p), "trusted.t", b"1", flags).is_ok()),
            users: root,
            zero_range: probe.as_ref().is_some_and(|p| {
                rustix::fs::fallocate(p.as_file(), FallocateFlags::ZERO_RANGE, 0, 4096).is_ok()
            }),
            shift_range: probe.as_ref().is_some_and(|p| {
                let collapse =
                    |len| rustix::fs::fallocate(p.as_file(), FallocateFlags::COLLAPSE_RANGE, 0, len);
                // Blocks of 4 KiB, as LaneFS has them.
                p.as_file().set_len(16_384).is_ok() && collapse(4096).is_ok() && collapse(2048).is_err()
            }),
            xattrs: probe
                .as_ref()
                .is_some_and(|p| rustix::fs::setxattr(path(p), "user.t", b"1", flags).is_ok()),
            // From any other directory the kernel would follow absolute links and ".." out of the test's
            // directory.
            bases: false,
            whole_files: false,
            stable_cookies: false,
            user_links: unprotected("hardlinks"),
            sticky: unprotected("symlinks"),
        }
    }

    fn fd(&self, handle: Handle) -> EngineResult<BorrowedFd<'_>> {
        self.open.get(&handle).map(AsFd::as_fd).ok_or_else(|| Code::StaleInode.into())
    }

    /// A path to the inode itself, whatever its names.
    fn magic(&self, handle: Handle) -> EngineResult<String> {
        Ok(format!("/proc/self/fd/{}", self.fd(handle)?.as_raw_fd()))
    }

    /// Reads a directory.
    fn entries(&self, caller: &Caller, dir: Handle) -> EngineResult<Vec<(Vec<u8>, FileKind)>> {
        let noatime = if caller.user.is_none() && rustix::process::geteuid().is_root() {
            OFlags::NOATIME
        } else {
            OFlags::empty()
        };
        let opened = {
            let _as = As::caller(caller)?;
            let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC | noatime;
            rustix::fs::open(self.magic(dir)?, flags, Mode::empty()).map_err(error)?
        };
        let mut entries = Vec::new();
        for entry in rustix::fs::Dir::read_from(opened).map_err(error)? {
            let entry = entry.map_err(error)?;
            let name = entry.file_name().to_bytes().to_vec();
            let kind =
                FileKind::from_mode(entry.file_type().as_raw_mode() as u16).ok_or(Code::Unsupported)?;
            if name != b"." && name != b".." {
                entries.push((name, kind));
            }
        }
        entries.sort();
        Ok(entries)
    }

    fn is_root(&self, handle: Handle) -> EngineResult<bool> {
        let [a, b] = [self.stat_of(self.fd(handle)?)?, self.stat_of(self.fd(ROOT)?)?];
        Ok(a.id == b.id)
    }

    fn keep(&mut self, fd: OwnedFd) -> Handle {
        self.next += 1;
        self.open.insert(self.next, fd);
        self.next
    }

    fn at(&self, path: &[u8], follow: bool) -> rustix::io::Result<OwnedFd> {
        let base = self.fd(ROOT).map_err(|_| Errno::BADF)?;
        let flags = OFlags::PATH | OFlags::CLOEXEC | if follow { OFlags::empty() } else { OFlags::NOFOLLOW };
        loop {
            // The kernel returns EAGAIN when any rename on the machine happened meanwhile.
            match rustix::fs::openat2(base, path, flags, Mode::empty(), ResolveFlags::IN_ROOT) {
                Err(Errno::AGAIN) => {}
                other => return other,
            }
        }
    }

    fn kind(&self, handle: Handle) -> EngineResult<FileKind> {
        let mode = rustix::fs::fstat(self.fd(handle)?).map_err(error)?.st_mode;
        FileKind::from_mode(mode as u16).ok_or_else(|| Code::Unsupported.into())
    }

    /// Opens a regular file for its content. Other inodes get the codes that the model returns.
    fn content(&self, caller: &Caller, handle: Handle, flags: OFlags) -> EngineResult<OwnedFd> {
        match self.kind(handle)? {
            FileKind::File => {}
            FileKind::Directory => return Err(Code::IsDirectory.into()),
            _ => return Err(Code::Invalid.into()),
        }
        let _as = As::caller(caller)?;
        rustix::fs::open(self.magic(handle)?, flags | OFlags::CLOEXEC, Mode::empty()).map_err(error)
    }

    fn stat_of(&self, fd: BorrowedFd<'_>) -> EngineResult<Stat> {
        let s = rustix::fs::statat(fd, "", AtFlags::EMPTY_PATH).map_err(error)?;
        let stat = Stat::of_host(&s).ok_or(Code::Unsupported)?;
        let counts = stat.kind != FileKind::Directory || self.counts_directories;
        Ok(Stat { links: if counts { stat.links } else { u32::MAX }, ..stat })
    }

    fn named(&self, dir: Handle, name: &[u8]) -> EngineResult<Stat> {
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let fd = rustix::fs::openat(self.fd(dir)?, name, flags, Mode::empty()).map_err(error)?;
        self.stat_of(fd.as_fd())
    }
}

/// Linux can be set to be stricter than POSIX with links that others made.
fn unprotected(what: &str) -> bool {
    let setting = std::fs::read_to_string(format!("/proc/sys/fs/protected_{what}"));
    setting.is_ok_and(|text| text.trim() == "0")
}

/// Containers often forbid device nodes even to root.
fn can_leave_whiteouts(beside: &Path) -> bool {
    use rustix::fs::{CWD, FileType, RenameFlags};
    let (old, new) = (beside.with_extension("old"), beside.with_extension("new"));
    let made = rustix::fs::mknodat(CWD, &old, FileType::RegularFile, Mode::RUSR, 0)
        .and_then(|()| rustix::fs::renameat_with(CWD, &old, CWD, &new, RenameFlags::WHITEOUT));
    for path in [&old, &new] {
        let _ = rustix::fs::unlink(path);
    }
    made.is_ok()
}

fn can_make_devices(beside: &Path) -> bool {
    let path = beside.with_extension("device");
    let made = rustix::fs::mknodat(
        rustix::fs::CWD,
        &path,
        rustix::fs::FileType::CharacterDevice,
        Mode::from_raw_mode(0o600),
        0x801,
    );
    let _ = rustix::fs::unlink(&path);
    made.is_ok()
}
