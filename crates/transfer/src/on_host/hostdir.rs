//! Directories of the host, walked by descriptor and never by path.
//!
//! Two limits do not apply. Paths may be longer than `PATH_MAX`, because every step is one `openat`. A tree
//! may have more levels than a process may have descriptors: the directory opened first is closed first, and
//! opened again through its ancestors when a thread needs it. No step follows a symbolic link, and a
//! directory that is opened again must be the same one.

use lanefs_sync::lock::Mutex;
use rustix::fd::OwnedFd;
use rustix::fs::{CWD, Dir, Mode, OFlags, Stat, fstat, mkdirat, openat};
use rustix::io::Errno;
use std::collections::VecDeque;
use std::ffi::CString;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::{Arc, Weak};

/// Identity of a file on the host: device and inode number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FileId {
    /// Device that holds the file.
    pub dev: u64,
    /// Inode number on that device.
    pub ino: u64,
}

impl FileId {
    /// The identity of a file of which the caller has the attributes.
    pub fn of(stat: &Stat) -> Self {
        FileId { dev: stat.st_dev, ino: stat.st_ino }
    }
}

/// Flags with which directories are opened.
pub(crate) const OPEN_DIR: OFlags =
    OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// A directory of the host, with the path to it.
pub struct HostDir {
    parent: Option<Arc<HostDir>>,
    /// Name in the parent. For the top directory: its path as the caller gave it, for messages.
    name: CString,
    id: FileId,
    fd: Mutex<Option<Arc<OwnedFd>>>,
}

/// Bound on the number of open directories: the one opened first is closed first.
pub struct OpenDirs {
    limit: usize,
    open: Mutex<VecDeque<Weak<HostDir>>>,
}

impl Default for OpenDirs {
    fn default() -> Self {
        Self::new()
    }
}

impl OpenDirs {
    /// Allows a quarter of the descriptors that this process may have, at most 512.
    #[must_use]
    pub fn new() -> Self {
        let allowed = rustix::process::getrlimit(rustix::process::Resource::Nofile).current.unwrap_or(4096);
        Self::with_limit(usize::try_from(allowed / 4).unwrap_or(512).clamp(8, 512))
    }

    pub(crate) fn with_limit(limit: usize) -> Self {
        OpenDirs { limit, open: Mutex::default() }
    }

    fn opened(&self, dir: &Arc<HostDir>) {
        let mut open = self.open.lock();
        open.push_back(Arc::downgrade(dir));
        debug_assert!(
            open.len() <= self.limit + 1,
            "one directory is closed for each one opened beyond the limit"
        );
        if open.len() > self.limit {
            let oldest = open.pop_front();
            drop(open);
            // Threads that use the descriptor now have their own references to it.
            if let Some(oldest) = oldest.and_then(|weak| weak.upgrade()) {
                oldest.fd.lock().take();
            }
        }
    }
}

impl HostDir {
    /// Creates the top directory of a walk, which stays open. `path` is for messages.
    ///
    /// # Errors
    /// The host's.
    pub fn top(path: CString, fd: OwnedFd) -> Result<Arc<Self>, Errno> {
        let id = identity(&fd)?;
        Ok(Arc::new(HostDir { parent: None, name: path, id, fd: Mutex::new(Some(Arc::new(fd))) }))
    }

    /// [`top`](Self::top) for a path of the host.
    pub(crate) fn named(path: &Path, fd: OwnedFd) -> Result<Arc<Self>, Errno> {
        Self::top(CString::new(path.as_os_str().as_bytes()).map_err(|_| Errno::INVAL)?, fd)
    }

    /// Creates a directory that was just opened as `name` of `parent`.
    pub fn below(
        dirs: &OpenDirs,
        parent: &Arc<HostDir>,
        name: CString,
        id: FileId,
        fd: Arc<OwnedFd>,
    ) -> Arc<Self> {
        let dir = Arc::new(HostDir { parent: Some(parent.clone()), name, id, fd: Mutex::new(Some(fd)) });
        dirs.opened(&dir);
        dir
    }

    /// Returns the identity of the directory.
    pub(crate) fn id(&self) -> FileId {
        self.id
    }

    /// Returns the descriptor; opens the directory again where it was closed.
    ///
    /// # Errors
    /// The host's; `ESTALE` where the name now belongs to another directory.
    pub fn fd(self: &Arc<Self>, dirs: &OpenDirs) -> Result<Arc<OwnedFd>, Errno> {
        // The closed directories up to the next open ancestor, this one first.
        let mut closed = Vec::new();
        let mut at = self;
        let mut fd = loop {
            if let Some(fd) = at.fd.lock().clone() {
                break fd;
            }
            closed.push(at);
            at = at.parent.as_ref().ok_or(Errno::BADF)?;
        };
        while let Some(dir) = closed.pop() {
            fd = Arc::new(openat(&*fd, &*dir.name, OPEN_DIR, Mode::empty())?);
            if identity(&fd)? != dir.id {
                return Err(Errno::STALE);
            }
            *dir.fd.lock() = Some(fd.clone());
            dirs.opened(dir);
        }
        Ok(fd)
    }

    /// Returns the path of `name` in this directory, relative to the top directory.
    pub(crate) fn path_below_top(&self, name: &[u8]) -> Vec<u8> {
        let mut parts = vec![name];
        let mut at = self;
        while let Some(parent) = at.parent.as_deref() {
            parts.push(at.name.as_bytes());
            at = parent;
        }
        parts.reverse();
        parts.join(&b'/')
    }

    /// Returns the path of `name` in this directory, or of the directory where `name` is empty. The path
    /// begins with the path of the top directory.
    pub(crate) fn path(&self, name: &[u8]) -> Vec<u8> {
        let mut parts = vec![name];
        let mut at = Some(self);
        while let Some(dir) = at {
            parts.push(dir.name.as_bytes());
            at = dir.parent.as_deref();
        }
        joined(&parts)
    }
}

/// Returns the path of some names, the innermost one first. Empty ones are left out. The outermost one may be
/// a path that ends with a slash.
pub(crate) fn joined(parts: &[&[u8]]) -> Vec<u8> {
    // In one pass: a chain of directories may be thousands of names deep.
    let mut path = Vec::with_capacity(parts.iter().map(|part| part.len() + 1).sum());
    for part in parts.iter().rev().filter(|part| !part.is_empty()) {
        if path.last().is_some_and(|last| *last != b'/') {
            path.push(b'/');
        }
        path.extend_from_slice(part);
    }
    path
}

impl Drop for HostDir {
    fn drop(&mut self) {
        drop_chain(self.parent.take(), |dir| dir.parent.take());
    }
}

/// Drops a directory and those above it without recursion: the chain may be a million long. `above` takes the
/// next one out of a directory.
pub(crate) fn drop_chain<D>(mut chain: Option<Arc<D>>, above: impl Fn(&mut D) -> Option<Arc<D>>) {
    while let Some(mut dir) = chain.and_then(Arc::into_inner) {
        chain = above(&mut dir);
    }
}

/// Opens the directory that a caller names. Its path may be a link to it.
///
/// # Errors
/// The host's.
pub(crate) fn open_named(path: &Path) -> Result<OwnedFd, Errno> {
    openat(CWD, path, OPEN_DIR.difference(OFlags::NOFOLLOW), Mode::empty())
}

/// A directory that was made or was there.
pub struct OpenedDir {
    /// The directory.
    pub fd: OwnedFd,
    /// True where it was made.
    pub made: bool,
}

/// Makes a directory that only this user may enter, or opens the one that has the name. Follows no link.
/// `others`: somebody else may change the names of `parent`, so the directory that is found under the name
/// may be another one.
///
/// # Errors
/// The host's; `ESTALE` where the directory that was made is not the one that has the name.
pub fn make_or_open(parent: &OwnedFd, name: &[u8], others: bool) -> Result<OpenedDir, Errno> {
    let made = match mkdirat(parent, name, Mode::RWXU) {
        Ok(()) => true,
        Err(Errno::EXIST) => false,
        Err(errno) => return Err(errno),
    };
    let fd = openat(parent, name, OPEN_DIR, Mode::empty())?;
    if made && others && !is_new(&fd)? {
        return Err(Errno::STALE);
    }
    Ok(OpenedDir { fd, made })
}

/// True for an empty directory of this user that nobody else may enter: nobody can tell it from a new one.
pub(crate) fn is_new(dir: &OwnedFd) -> Result<bool, Errno> {
    let stat = fstat(dir)?;
    if stat.st_uid != rustix::process::geteuid().as_raw() || stat.st_mode & 0o077 != 0 {
        return Ok(false);
    }
    for entry in Dir::read_from(dir)? {
        if !matches!(entry?.file_name().to_bytes(), b"." | b"..") {
            return Ok(false);
        }
    }
    Ok(true)
}

fn identity(fd: &OwnedFd) -> Result<FileId, Errno> {
    fstat(fd).map(|stat| FileId::of(&stat))
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::{mkdirat, open};

    fn open_below(dirs: &OpenDirs, parent: &Arc<HostDir>, name: &str) -> Arc<HostDir> {
        let fd = openat(&*parent.fd(dirs).unwrap(), name, OPEN_DIR, Mode::empty()).unwrap();
        let id = identity(&fd).unwrap();
        HostDir::below(dirs, parent, CString::new(name).unwrap(), id, Arc::new(fd))
    }

    #[test]
    fn closed_directories_open_again_and_another_in_their_place_is_refused() {
        let temp = tempfile::tempdir().unwrap();
        let top = open(temp.path(), OPEN_DIR, Mode::empty()).unwrap();
        let dirs = OpenDirs::with_limit(2);
        let mut chain = vec![HostDir::top(c"top".to_owned(), top).unwrap()];
        for _ in 0..20 {
            let last = chain.last().unwrap();
            mkdirat(&*last.fd(&dirs).unwrap(), "d", Mode::RWXU).unwrap();
            chain.push(open_below(&dirs, chain.last().unwrap(), "d"));
        }
        assert!(chain[5].fd.lock().is_none(), "only two stay open");
        assert_eq!(identity(&chain[5].fd(&dirs).unwrap()).unwrap(), chain[5].id());
        assert_eq!(chain[2].path(b"x"), b"top/d/d/x");

        let moved = temp.path().join("d/d");
        std::fs::rename(&moved, temp.path().join("elsewhere")).unwrap();
        mkdirat(CWD, &moved, Mode::RWXU).unwrap();
        chain[2].fd.lock().take();
        assert_eq!(chain[2].fd(&dirs).unwrap_err(), Errno::STALE);
    }

    /// The last directory of a chain below `top`.
    fn chain(top: &str, levels: usize) -> Arc<HostDir> {
        let temp = tempfile::tempdir().unwrap();
        let dirs = OpenDirs::with_limit(2);
        let fd = Arc::new(open(temp.path(), OPEN_DIR, Mode::empty()).unwrap());
        let id = identity(&fd).unwrap();
        let top_fd = open(temp.path(), OPEN_DIR, Mode::empty()).unwrap();
        let mut at = HostDir::top(CString::new(top).unwrap(), top_fd).unwrap();
        for _ in 0..levels {
            at = HostDir::below(&dirs, &at, c"d".to_owned(), id, fd.clone());
        }
        at
    }

    #[test]
    fn a_long_chain_is_dropped_without_recursion() {
        drop(chain("t", 300_000));
    }

    #[test]
    fn a_path_is_made_in_one_pass() {
        for (top, begin) in [("t", "t/"), ("/", "/"), ("t/", "t/"), ("", "")] {
            let text = |path: Vec<u8>| String::from_utf8(path).unwrap();
            assert_eq!(text(chain(top, 2).path(b"x")), format!("{begin}d/d/x"));
            assert_eq!(text(chain(top, 1).path(b"")), format!("{begin}d"));
            assert_eq!(text(chain(top, 0).path(b"")), top);
        }
        // A pass for each name would take hours.
        let deep = chain("t", 300_000);
        assert!((0..50).all(|_| deep.path(b"x").len() == 600_003));
    }
}
