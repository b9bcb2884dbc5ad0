//! A directory of the host that is open, as the top of a tree.

use super::hostdir::{FileId, OPEN_DIR};
use crate::vocabulary::error::{Error, Result};
use crate::vocabulary::name::shown_path;
use rustix::fd::{AsFd, AsRawFd, OwnedFd};
use rustix::fs::{CWD, Mode, OFlags, fstat, openat};
use rustix::io::Errno;
use std::path::{Path, PathBuf};

/// Most levels above a directory that are looked at.
const MOST_LEVELS: usize = 4096;

/// A directory of the host that is open: whatever has its name by now, it stays the same one.
#[derive(Debug)]
pub struct HostTop {
    path: PathBuf,
    fd: OwnedFd,
    id: FileId,
}

impl HostTop {
    /// Opens the directory `path`, which may be a link to it. `doing` begins the message of an error.
    ///
    /// # Errors
    /// The host's.
    pub fn open(path: &Path, doing: &str) -> Result<Self> {
        let cannot = |errno| Error::host(format!("{doing} '{}'", shown_path(path)), errno);
        let fd = openat(CWD, path, OPEN_DIR.difference(OFlags::NOFOLLOW), Mode::empty()).map_err(cannot)?;
        let id = FileId::of(&fstat(&fd).map_err(cannot)?);
        Ok(HostTop { path: path.to_owned(), fd, id })
    }

    /// The path by which the directory was opened.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The identity of the directory.
    #[must_use]
    pub fn id(&self) -> FileId {
        self.id
    }

    /// True where the open directory `dir` is this one, or below it.
    ///
    /// # Errors
    /// The host's; `ELOOP` for a directory that is too deep.
    pub fn holds(&self, dir: impl AsFd) -> std::result::Result<bool, Errno> {
        let mut id = FileId::of(&fstat(&dir)?);
        let flags = OPEN_DIR.union(OFlags::PATH);
        let mut above = openat(&dir, c"..", flags, Mode::empty())?;
        for _ in 0..MOST_LEVELS {
            if id == self.id {
                return Ok(true);
            }
            let next = FileId::of(&fstat(&above)?);
            if next == id {
                // The root is its own parent.
                return Ok(false);
            }
            id = next;
            above = openat(&above, c"..", flags, Mode::empty())?;
        }
        Err(Errno::LOOP)
    }

    /// Opens the directory once more: several walks of it do not share a position.
    pub(crate) fn fd_of_its_own(&self) -> std::result::Result<OwnedFd, Errno> {
        // The path `.` would take the right to search the directory, which a listing does not.
        let again = format!("/proc/self/fd/{}", self.fd.as_raw_fd());
        openat(CWD, again, OPEN_DIR.difference(OFlags::NOFOLLOW), Mode::empty())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::{File, create_dir, create_dir_all, rename};

    #[test]
    fn a_directory_that_is_open_stays_the_same_one() {
        let temp = tempfile::tempdir().expect("a directory");
        let [one, other, away] = ["one", "other", "away"].map(|name| temp.path().join(name));
        create_dir(&one).expect("a directory");
        create_dir(&other).expect("a directory");
        let top = HostTop::open(&one, "test").expect("open");
        let id = FileId::of(&fstat(File::open(&one).expect("open")).expect("attributes"));
        rename(&one, &away).expect("another name");
        rename(&other, &one).expect("another directory under the name");
        let again = top.fd_of_its_own().expect("open");
        assert_eq!([top.id(), FileId::of(&fstat(&again).expect("attributes"))], [id, id]);
        assert_eq!(top.path(), one);
        assert!(HostTop::open(&other, "test").expect_err("gone").to_string().starts_with("test '"));
    }

    #[test]
    fn a_directory_holds_itself_and_what_is_below() {
        let temp = tempfile::tempdir().expect("a directory");
        create_dir_all(temp.path().join("a/b/c")).expect("directories");
        create_dir(temp.path().join("d")).expect("a directory");
        let holds = |top: &str, dir: &str| {
            let top = HostTop::open(&temp.path().join(top), "test").expect("open");
            top.holds(File::open(temp.path().join(dir)).expect("open")).expect("attributes")
        };
        assert!(holds("a", "a") && holds("a", "a/b/c") && holds(".", "d") && holds("/", "a/b"));
        assert!(!holds("d", "a/b/c") && !holds("a/b/c", "a/b") && !holds("a", "/"));
    }
}
