//! A file system of the host as a system under measurement, through system calls relative to open
//! directories.

use super::mount_guard::MountGuard;
use super::probe::{FileSystem, probe};
use super::remove::remove_tree;
use crate::error::{Error, Result, check};
use crate::measure::stop::{STRIDE, Stop};
use crate::measure::threads::in_threads;
use crate::systems::system::{Create, Expect, Named, System};
use crate::systems::workload::{CHAIN_NAME, Strings, Tree, chain_path};
use rustix::fs::{self as sys, AtFlags, CWD, FileType, Mode, OFlags, RawDir};
use rustix::io::Errno;
use std::ffi::{CStr, CString};
use std::hint::black_box;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

const DIRECTORY: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);
/// Flags of a descriptor that only names a directory, the cheapest way to walk a path in steps.
const DIRECTORY_NAME_ONLY: OFlags = OFlags::PATH.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);
const NEW_FILE: OFlags = OFlags::WRONLY.union(OFlags::CREATE).union(OFlags::EXCL).union(OFlags::CLOEXEC);
const FILE_MODE: Mode = Mode::from_bits_retain(0o644);
const DIRECTORY_MODE: Mode = Mode::from_bits_retain(0o755);

/// Buffer of one `getdents64` in bytes, as in the C library's `readdir`.
const LISTING_BYTES: usize = 32 << 10;

/// Components of a chain in one system call: `a/` is two bytes, and a path ends at 4,096 with its NUL.
const CHAIN_STEP: usize = 2_000;

/// ext4 or tmpfs, in a mount or a directory of its own.
pub struct Host {
    name: String,
    // Declared before the keeper, so that it is closed before an unmount.
    root: OwnedFd,
    path: PathBuf,
    about: FileSystem,
    /// Whether its data is in memory; `None` in a given directory.
    in_memory: Option<bool>,
    _keeper: Keeper,
}

/// Guard that removes the file system at the end.
enum Keeper {
    Mount { _mount: MountGuard },
    Directory { _directory: OwnDirectory },
}

/// A directory that is removed with its contents, chains included.
struct OwnDirectory(PathBuf);

impl Drop for OwnDirectory {
    fn drop(&mut self) {
        let removed = CString::new(self.0.as_os_str().as_bytes()).map(|name| remove_tree(CWD, &name));
        if !matches!(removed, Ok(Ok(()) | Err(Errno::NOENT))) {
            eprintln!("{} could not be removed; please remove it", self.0.display());
        }
    }
}

impl Host {
    pub(super) fn on_mount(
        name: &str,
        path: &Path,
        about: FileSystem,
        in_memory: bool,
        mount: MountGuard,
    ) -> Result<Self> {
        let host = Host::open(name, path, about, Keeper::Mount { _mount: mount })?;
        Ok(Host { in_memory: Some(in_memory), ..host })
    }

    /// Makes a new directory in `directory`, which is removed at the end.
    pub fn in_directory(name: &str, directory: &Path) -> Result<Self> {
        let about = probe(directory)?;
        let made = tempfile::Builder::new().prefix("lanefs-bench-").tempdir_in(directory);
        let path = made.map_err(Error::host(directory.display().to_string()))?.keep();
        let keeper = Keeper::Directory { _directory: OwnDirectory(path.clone()) };
        Host::open(name, &path, about, keeper)
    }

    fn open(name: &str, path: &Path, about: FileSystem, keeper: Keeper) -> Result<Self> {
        let root =
            sys::open(path, DIRECTORY, Mode::empty()).map_err(Error::host(path.display().to_string()))?;
        Ok(Host { name: name.into(), root, path: path.into(), about, in_memory: None, _keeper: keeper })
    }

    /// Returns whether it is an ext4 with a journal; `None` if unknown, or for another file system.
    pub fn journal(&self) -> Option<bool> {
        self.about.journal
    }

    /// Returns whether its data is in memory, so that no disk is measured; `None` if unknown.
    pub fn in_memory(&self) -> Option<bool> {
        self.in_memory
    }

    /// Returns whether it is an ext4.
    pub(crate) fn about_ext4(&self) -> bool {
        self.about.journal.is_some()
    }

    /// Renames a directory of the root; returns the time.
    pub(crate) fn rename(&self, from: &CStr, to: &CStr) -> Result<Duration> {
        let start = Instant::now();
        sys::renameat(&self.root, from, &self.root, to).map_err(self.error("rename"))?;
        Ok(start.elapsed())
    }

    /// Returns the path of its root directory.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns a descriptor of its root directory.
    pub(crate) fn root(&self) -> BorrowedFd<'_> {
        self.root.as_fd()
    }

    /// For `map_err`: makes the error of a system call in the action `what`.
    pub(crate) fn error(&self, what: &str) -> impl FnOnce(Errno) -> Error {
        Error::host(format!("{}: {what}", self.name))
    }

    /// Opens a directory of the root.
    pub(crate) fn directory(&self, name: &CStr) -> Result<OwnedFd> {
        sys::openat(&self.root, name, DIRECTORY, Mode::empty()).map_err(self.error(&name.to_string_lossy()))
    }

    /// Applies one operation to every name; returns the time of all.
    pub(crate) fn timed(
        &self,
        names: &Strings,
        stop: &Stop,
        what: &str,
        mut operation: impl FnMut(&CStr) -> rustix::io::Result<()>,
    ) -> Result<Duration> {
        let names: Vec<&CStr> = names.iter().collect();
        let start = Instant::now();
        for part in names.chunks(STRIDE) {
            stop.check()?;
            for name in part {
                operation(name).map_err(|e| self.error(&format!("{what} {}", name.to_string_lossy()))(e))?;
            }
        }
        Ok(start.elapsed())
    }

    /// Opens the deepest directory of a chain below `top`, in as few steps as the length of a path allows.
    fn chain_end(&self, top: &OwnedFd, depth: usize) -> Result<OwnedFd> {
        let mut here =
            sys::openat(top, c".", DIRECTORY_NAME_ONLY, Mode::empty()).map_err(self.error("a chain"))?;
        let mut left = depth;
        while left > 0 {
            let step = left.min(CHAIN_STEP);
            let path = chain_path(step);
            here = sys::openat(&here, path.as_slice(), DIRECTORY_NAME_ONLY, Mode::empty())
                .map_err(self.error("a chain"))?;
            left -= step;
        }
        Ok(here)
    }
}

/// Calls `fstatat` on every path; returns the number of right answers.
fn stat_all(root: BorrowedFd<'_>, paths: &[&CStr], expect: Expect, stop: &Stop) -> Result<u64> {
    let (mut good, mut sum) = (0u64, 0u64);
    for part in paths.chunks(STRIDE) {
        stop.check()?;
        for path in part {
            match (expect, sys::statat(root, *path, AtFlags::SYMLINK_NOFOLLOW)) {
                (Expect::Found, Ok(stat)) => {
                    sum = sum.wrapping_add(stat.st_ino).wrapping_add(stat.st_size as u64);
                    good += 1;
                }
                (Expect::Absent, Err(Errno::NOENT)) => good += 1,
                _ => (),
            }
        }
    }
    black_box(sum);
    Ok(good)
}

impl Named for Host {
    fn name(&self) -> &str {
        &self.name
    }
}

impl System for Host {
    fn make_tree(&self, tree: &Tree, stop: &Stop) -> Result<()> {
        let root = &self.root;
        self.timed(&tree.directories, stop, "mkdir", |path| sys::mkdirat(root, path, DIRECTORY_MODE))?;
        let make = |path: &CStr| sys::mknodat(root, path, FileType::RegularFile, FILE_MODE, 0);
        self.timed(&tree.files, stop, "mknod", make).map(drop)
    }

    fn resolve(
        &self,
        directory: Option<&CStr>,
        requests: &Strings,
        threads: usize,
        expect: Expect,
        stop: &Stop,
    ) -> Result<Duration> {
        let base = directory.map(|name| self.directory(name)).transpose()?;
        let base = base.as_ref().unwrap_or(&self.root).as_fd();
        let paths: Vec<&CStr> = requests.iter().collect();
        let (elapsed, good) = in_threads(&paths, threads, |share| stat_all(base, share, expect, stop))?;
        check(&self.name, "lookups", good, requests.len())?;
        Ok(elapsed)
    }

    fn make_directory(&self, name: &CStr) -> Result<()> {
        sys::mkdirat(&self.root, name, DIRECTORY_MODE).map_err(self.error("mkdir"))
    }

    fn remove_directory(&self, name: &CStr) -> Result<()> {
        sys::unlinkat(&self.root, name, AtFlags::REMOVEDIR).map_err(self.error("rmdir"))
    }

    fn create_files(&self, directory: &CStr, names: &Strings, how: Create, stop: &Stop) -> Result<Duration> {
        let dir = self.directory(directory)?;
        self.timed(names, stop, "creating", |name| match how {
            // Dropping the descriptor closes it.
            Create::Open => sys::openat(&dir, name, NEW_FILE, FILE_MODE).map(drop),
            Create::Node => sys::mknodat(&dir, name, FileType::RegularFile, FILE_MODE, 0),
        })
    }

    fn unlink_files(&self, directory: &CStr, names: &Strings, stop: &Stop) -> Result<Duration> {
        let dir = self.directory(directory)?;
        self.timed(names, stop, "unlinking", |name| sys::unlinkat(&dir, name, AtFlags::empty()))
    }

    fn make_subdirectories(&self, directory: &CStr, names: &Strings, stop: &Stop) -> Result<Duration> {
        let dir = self.directory(directory)?;
        self.timed(names, stop, "mkdir", |name| sys::mkdirat(&dir, name, DIRECTORY_MODE))
    }

    fn remove_subdirectories(&self, directory: &CStr, names: &Strings, stop: &Stop) -> Result<()> {
        let dir = self.directory(directory)?;
        self.timed(names, stop, "rmdir", |name| sys::unlinkat(&dir, name, AtFlags::REMOVEDIR)).map(drop)
    }

    fn make_chain(&self, directory: &CStr, depth: usize, stop: &Stop) -> Result<Duration> {
        let mut here = self.directory(directory)?;
        let start = Instant::now();
        for _ in 0..depth {
            sys::mkdirat(&here, CHAIN_NAME, DIRECTORY_MODE).map_err(self.error("mkdir"))?;
            here = sys::openat(&here, CHAIN_NAME, DIRECTORY_NAME_ONLY, Mode::empty())
                .map_err(self.error("a chain"))?;
        }
        let elapsed = start.elapsed();
        stop.check()?;
        Ok(elapsed)
    }

    fn resolve_chain(&self, directory: &CStr, depth: usize, times: usize, stop: &Stop) -> Result<Duration> {
        let top = self.directory(directory)?;
        // All steps but the last open a directory; the last one reads the attributes.
        let last = (depth.max(1) - 1) % CHAIN_STEP + 1;
        let steps = (depth - last) / CHAIN_STEP;
        let c_string = |path: Vec<u8>| CString::new(path).unwrap_or_default();
        let (step_path, last_path) = (c_string(chain_path(CHAIN_STEP)), c_string(chain_path(last)));
        let (mut found, mut sum) = (0, 0u64);
        let start = Instant::now();
        for _ in 0..times {
            let mut here: Option<OwnedFd> = None;
            for _ in 0..steps {
                let from = here.as_ref().unwrap_or(&top);
                let opened = sys::openat(from, step_path.as_c_str(), DIRECTORY_NAME_ONLY, Mode::empty());
                here = Some(opened.map_err(self.error("a chain"))?);
            }
            let from = here.as_ref().unwrap_or(&top);
            let stat = sys::statat(from, last_path.as_c_str(), AtFlags::SYMLINK_NOFOLLOW);
            sum = sum.wrapping_add(stat.map_err(self.error("a chain"))?.st_ino);
            found += 1;
        }
        let elapsed = start.elapsed();
        black_box(sum);
        stop.check()?;
        check(&self.name, "chain lookups", found, times)?;
        Ok(elapsed)
    }

    fn remove_chain(&self, directory: &CStr, depth: usize, stop: &Stop) -> Result<()> {
        let mut here = self.chain_end(&self.directory(directory)?, depth)?;
        stop.check()?;
        for _ in 0..depth {
            here = sys::openat(&here, c"..", DIRECTORY_NAME_ONLY, Mode::empty())
                .map_err(self.error("a chain"))?;
            sys::unlinkat(&here, CHAIN_NAME, AtFlags::REMOVEDIR).map_err(self.error("rmdir"))?;
        }
        Ok(())
    }

    fn list_and_stat(&self, directory: &CStr, expected: usize, stop: &Stop) -> Result<Duration> {
        // A new descriptor each time: a listing begins at the directory's start.
        let dir = self.directory(directory)?;
        let mut buffer = vec![MaybeUninit::uninit(); LISTING_BYTES];
        let (mut found, mut sum) = (0u64, 0u64);
        let start = Instant::now();
        let mut entries = RawDir::new(&dir, &mut buffer);
        while let Some(entry) = entries.next() {
            let entry = entry.map_err(self.error("listing"))?;
            let name = entry.file_name();
            if name == c"." || name == c".." {
                continue;
            }
            let stat =
                sys::statat(&dir, name, AtFlags::SYMLINK_NOFOLLOW).map_err(self.error("a listed file"))?;
            sum = sum.wrapping_add(stat.st_ino).wrapping_add(stat.st_size as u64);
            found += 1;
        }
        let elapsed = start.elapsed();
        black_box(sum);
        stop.check()?;
        check(&self.name, "a listing", found, expected)?;
        Ok(elapsed)
    }

    fn used_bytes(&self) -> Result<Option<u64>> {
        if self.about.inode_bytes == 0 {
            return Ok(None);
        }
        let space = sys::fstatvfs(&self.root).map_err(self.error("statvfs"))?;
        let blocks = space.f_blocks.saturating_sub(space.f_bfree) * space.f_frsize;
        let inodes = space.f_files.saturating_sub(space.f_ffree) * self.about.inode_bytes;
        Ok(Some(blocks + inodes))
    }

    fn settle(&self) -> Result<()> {
        sys::syncfs(&self.root).map_err(self.error("syncfs"))
    }
}
