//! Paths of the host that the user gave, walked by descriptor.
//!
//! In a directory like `/tmp` (sticky, and all may write) everybody can put a link under a name that somebody
//! else is about to use. Linux can refuse to follow such links (`fs.protected_symlinks`), but not every host
//! is set up so. This walk follows the rule by itself: a link in such a directory is followed only if it
//! belongs to this user or to the owner of the directory.

use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{
    AtFlags, CWD, FileType, Mode, OFlags, PROC_SUPER_MAGIC, Stat, fstat, fstatfs, mkdirat, openat,
    readlinkat, statat,
};
use rustix::io::Errno;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Links on one path at most, as for the kernel.
const MAX_LINKS: u32 = 40;
/// Flags of a descriptor that only names a directory.
const NAME_DIR: OFlags = OFlags::PATH.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);
/// Flags of a descriptor that only names a file, also a link.
const NAME_ANY: OFlags = OFlags::PATH.union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// The file that a path names: a name in an open directory.
pub struct HostName {
    /// The directory, as a descriptor that only names it.
    pub dir: OwnedFd,
    /// The name in it.
    pub name: Vec<u8>,
    /// The file that is there.
    pub existing: Option<Stat>,
    /// The name is a link of procfs to a pipe or device, such as that of `/dev/stdout`.
    pub is_magic: bool,
}

/// Opens a directory, as a descriptor that only names it, and makes it with all its parents where they are
/// missing, with the permissions that the umask leaves.
///
/// # Errors
/// The host's; `EACCES` for a link of another user in a sticky directory that all may write.
pub fn make_dirs(path: &Path) -> Result<OwnedFd, Errno> {
    PathWalk::new(path)?.finish(true)
}

/// Opens a directory that is there, as a descriptor that only names it.
///
/// # Errors
/// As [`make_dirs`].
pub fn open_dir(path: &Path) -> Result<OwnedFd, Errno> {
    PathWalk::new(path)?.finish(false)
}

/// Returns the directory of the last name of a path: `.` for a name alone, and for a path without one.
pub fn parent_dir(path: &Path) -> &Path {
    path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// Returns the directory of the user's cache: `$XDG_CACHE_HOME/lanefs`, or `~/.cache/lanefs`. Only the user's
/// own home directory has one: another user's (as with sudo) would get files that its owner cannot use.
///
/// # Errors
/// `Other` where there is none.
pub fn user_cache() -> io::Result<PathBuf> {
    let base = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from).filter(|path| path.is_absolute());
    if let Some(base) = base {
        return Ok(base.join("lanefs"));
    }
    let is_own = |path: &Path| {
        path.metadata().is_ok_and(|metadata| metadata.uid() == rustix::process::geteuid().as_raw())
    };
    match std::env::home_dir().filter(|home| is_own(home)) {
        Some(home) => Ok(home.join(".cache").join("lanefs")),
        None => Err(io::Error::other("the home directory is missing, or belongs to another user")),
    }
}

/// Opens a directory for files that this user alone may read and write, and makes it where it is missing.
///
/// # Errors
/// The host's; `PermissionDenied` for a directory of another user, or one that others may use.
pub fn private_dir(path: &Path) -> io::Result<OwnedFd> {
    let Some(name) = path.file_name() else {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "names no directory of its own"));
    };
    private_dir_in(make_dirs(parent_dir(path))?, name)
}

/// As [`private_dir`], for a name in an open directory.
///
/// # Errors
/// As [`private_dir`].
pub fn private_dir_in(parent: impl AsFd, name: impl rustix::path::Arg + Copy) -> io::Result<OwnedFd> {
    match mkdirat(&parent, name, Mode::RWXU) {
        Ok(()) | Err(Errno::EXIST) => {}
        Err(errno) => return Err(errno.into()),
    }
    let flags = OFlags::DIRECTORY | OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let dir = openat(&parent, name, flags, Mode::empty())?;
    let stat = fstat(&dir)?;
    let refused = |why| Err(io::Error::new(io::ErrorKind::PermissionDenied, why));
    if stat.st_uid != rustix::process::geteuid().as_raw() {
        return refused("the cache belongs to another user");
    }
    if stat.st_mode & 0o077 != 0 {
        return refused("others may use the directory of the cache; make it private (chmod 700)");
    }
    Ok(dir)
}

/// Finds the file that a path names. Links are followed, also one whose target is missing.
///
/// # Errors
/// The host's; `EACCES` as for [`make_dirs`]; `EISDIR` for a path that ends in `.`, `..` or a slash.
pub fn find(path: &Path) -> Result<HostName, Errno> {
    let is_of_dir = |path: &[u8]| path.ends_with(b"/") || path.ends_with(b"/.");
    let mut must_be_dir = is_of_dir(path.as_os_str().as_bytes());
    let mut walk = PathWalk::new(path)?;
    while let Some(name) = walk.rest.pop() {
        if !walk.rest.is_empty() {
            walk.enter(&name, false)?;
            continue;
        }
        if name == b".." || must_be_dir {
            return Err(Errno::ISDIR);
        }
        let existing = match statat(&walk.dir, &name[..], AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) => Some(stat),
            Err(Errno::NOENT) => None,
            Err(errno) => return Err(errno),
        };
        if existing.is_none_or(|stat| FileType::from_raw_mode(stat.st_mode) != FileType::Symlink) {
            return Ok(HostName { dir: walk.dir, name, existing, is_magic: false });
        }
        let link = openat(&walk.dir, &name[..], NAME_ANY, Mode::empty())?;
        if is_on_procfs(&link)? {
            let target = statat(&walk.dir, &name[..], AtFlags::empty())?;
            if FileType::from_raw_mode(target.st_mode) != FileType::RegularFile {
                return Ok(HostName { dir: walk.dir, name, existing: Some(target), is_magic: true });
            }
        }
        must_be_dir = is_of_dir(&walk.follow(&link)?);
    }
    Err(Errno::ISDIR)
}

/// A walk along a path.
struct PathWalk {
    dir: OwnedFd,
    /// Names that follow, the next one last.
    rest: Vec<Vec<u8>>,
    links: u32,
}

impl PathWalk {
    fn new(path: &Path) -> Result<Self, Errno> {
        let path = path.as_os_str().as_bytes();
        if path.is_empty() {
            return Err(Errno::NOENT);
        }
        let dir = openat(CWD, ".", NAME_DIR, Mode::empty())?;
        let mut walk = PathWalk { dir, rest: Vec::new(), links: 0 };
        walk.push(path)?;
        Ok(walk)
    }

    /// Goes on with the components of `path`, and after them with the rest.
    fn push(&mut self, path: &[u8]) -> Result<(), Errno> {
        if path.starts_with(b"/") {
            self.dir = openat(CWD, "/", NAME_DIR, Mode::empty())?;
        }
        let names = path.split(|byte| *byte == b'/').filter(|name| !matches!(*name, b"" | b"."));
        self.rest.extend(names.rev().map(<[u8]>::to_vec));
        Ok(())
    }

    fn finish(mut self, makes: bool) -> Result<OwnedFd, Errno> {
        while let Some(name) = self.rest.pop() {
            self.enter(&name, makes)?;
        }
        Ok(self.dir)
    }

    /// Enters a directory, or goes on with the target of a link. `makes`: makes a directory that is missing.
    fn enter(&mut self, name: &[u8], makes: bool) -> Result<(), Errno> {
        match openat(&self.dir, name, NAME_DIR | OFlags::NOFOLLOW, Mode::empty()) {
            Ok(dir) => self.dir = dir,
            Err(Errno::NOENT) if makes => self.dir = make(&self.dir, name)?,
            Err(Errno::NOTDIR | Errno::LOOP) => {
                let link = openat(&self.dir, name, NAME_ANY, Mode::empty())?;
                if FileType::from_raw_mode(fstat(&link)?.st_mode) != FileType::Symlink {
                    return Err(Errno::NOTDIR);
                }
                if is_on_procfs(&link)? {
                    // The text of such a link may be no path; the kernel knows its target.
                    self.dir = openat(&self.dir, name, NAME_DIR, Mode::empty())?;
                } else {
                    self.follow(&link)?;
                }
            }
            Err(errno) => return Err(errno),
        }
        Ok(())
    }

    /// Goes on with the target of a link in the directory, if it may be followed. Returns the target.
    fn follow(&mut self, link: &OwnedFd) -> Result<Vec<u8>, Errno> {
        self.links += 1;
        if self.links > MAX_LINKS {
            return Err(Errno::LOOP);
        }
        if !may_follow(&fstat(&self.dir)?, &fstat(link)?) {
            return Err(Errno::ACCESS);
        }
        let target = readlinkat(link, "", Vec::new())?.into_bytes();
        self.push(&target)?;
        Ok(target)
    }
}

/// Makes a directory as mkdir(1) does.
fn make(parent: &OwnedFd, name: &[u8]) -> Result<OwnedFd, Errno> {
    match mkdirat(parent, name, Mode::from_raw_mode(0o777)) {
        // Somebody else was faster; his directory is as good as one that was there.
        Ok(()) | Err(Errno::EXIST) => openat(parent, name, NAME_DIR | OFlags::NOFOLLOW, Mode::empty()),
        Err(errno) => Err(errno),
    }
}

/// The rule of `fs.protected_symlinks`.
fn may_follow(dir: &Stat, link: &Stat) -> bool {
    let is_open_to_all = dir.st_mode & 0o1002 == 0o1002;
    !is_open_to_all || link.st_uid == dir.st_uid || link.st_uid == rustix::process::geteuid().as_raw()
}

fn is_on_procfs(file: impl AsFd) -> Result<bool, Errno> {
    Ok(fstatfs(file)?.f_type == PROC_SUPER_MAGIC)
}
