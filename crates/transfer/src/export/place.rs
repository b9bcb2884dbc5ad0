//! How a new name comes into a directory of the host, and what happens where the name is taken.

use crate::import::temporary_name;
use rustix::fd::OwnedFd;
use rustix::fs::{AtFlags, FileType, renameat, statat, unlinkat};
use rustix::io::Errno;

/// Why a name was not given.
#[derive(Debug)]
pub(crate) enum Refusal {
    /// A file stands there and is not to be replaced.
    Taken,
    /// A directory stands there; directories are never replaced by files.
    TakenByDirectory,
    /// A symbolic link or other file stands where a directory belongs.
    NoDirectory,
    /// The host refused.
    Host(Errno),
}

impl From<Errno> for Refusal {
    fn from(errno: Errno) -> Self {
        Refusal::Host(errno)
    }
}

impl Refusal {
    /// What a person is told.
    pub(crate) fn text(&self) -> String {
        match self {
            Refusal::Taken => "exists already on the host (--overwrite replaces it)".into(),
            Refusal::TakenByDirectory => "a directory of that name is in the way on the host".into(),
            Refusal::NoDirectory => {
                "a link or file of the host is where the directory belongs; it is not followed".into()
            }
            Refusal::Host(errno) => crate::error::errno_text(*errno),
        }
    }
}

/// A new file under its name, or beside the one that it is to replace.
#[derive(Debug)]
pub(crate) struct Placed<T> {
    /// What making it gave: its descriptor, or nothing.
    pub(crate) made: T,
    name: Vec<u8>,
    /// Name that it has until it replaces the old file.
    pub(crate) temporary: Option<Vec<u8>>,
}

impl<T> Placed<T> {
    /// The name under which it can be reached now.
    pub(crate) fn current(&self) -> &[u8] {
        self.temporary.as_deref().unwrap_or(&self.name)
    }

    /// The new file is whole: it takes its name.
    pub(crate) fn finish(&self, dir: &OwnedFd) -> Result<(), Errno> {
        match &self.temporary {
            None => Ok(()),
            Some(temporary) => renameat(dir, &temporary[..], dir, &self.name[..]),
        }
    }

    /// The new file failed: it goes, and what it was to replace stays.
    pub(crate) fn abandon(&self, dir: &OwnedFd) {
        // Nothing more can be done where even this fails.
        let _ = unlinkat(dir, self.current(), AtFlags::empty());
    }
}

/// Makes a new file as `name` in `dir` with `make(name)`, which must fail with `EEXIST` where the name is taken; if
/// what is there may be replaced, under a temporary name first.
pub(crate) fn place<T>(
    dir: &OwnedFd,
    name: &[u8],
    overwrite: bool,
    make: impl Fn(&[u8]) -> Result<T, Errno>,
) -> Result<Placed<T>, Refusal> {
    match make(name) {
        Ok(made) => return Ok(Placed { made, name: name.to_vec(), temporary: None }),
        Err(Errno::EXIST) => (),
        Err(errno) => return Err(errno.into()),
    }
    let there = statat(dir, name, AtFlags::SYMLINK_NOFOLLOW)?;
    if FileType::from_raw_mode(there.st_mode) == FileType::Directory {
        return Err(Refusal::TakenByDirectory);
    }
    if !overwrite {
        return Err(Refusal::Taken);
    }
    loop {
        let temporary = temporary_name();
        match make(&temporary) {
            Ok(made) => return Ok(Placed { made, name: name.to_vec(), temporary: Some(temporary) }),
            Err(Errno::EXIST) => (),
            Err(errno) => return Err(errno.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::{Mode, OFlags, openat, symlinkat};

    #[test]
    fn what_is_there_stays_until_its_successor_is_whole() {
        let temp = tempfile::tempdir().unwrap();
        let dir = OwnedFd::from(std::fs::File::open(temp.path()).unwrap());
        std::fs::write(temp.path().join("f"), "old").unwrap();
        std::fs::create_dir(temp.path().join("d")).unwrap();
        symlinkat("f", &dir, "l").unwrap();
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW;
        let make = |name: &[u8]| openat(&dir, name, flags, Mode::RUSR);
        assert!(matches!(place(&dir, b"f", false, make), Err(Refusal::Taken)));
        assert!(matches!(place(&dir, b"l", false, make), Err(Refusal::Taken)));
        assert!(matches!(place(&dir, b"d", true, make), Err(Refusal::TakenByDirectory)));

        let placed = place(&dir, b"f", true, make).unwrap();
        placed.abandon(&dir);
        assert_eq!(std::fs::read(temp.path().join("f")).unwrap(), b"old");

        place(&dir, b"l", true, make).unwrap().finish(&dir).unwrap();
        assert!(temp.path().join("l").symlink_metadata().unwrap().is_file());
        assert_eq!(std::fs::read(temp.path().join("f")).unwrap(), b"old", "not written through the link");
        assert_eq!(std::fs::read_dir(temp.path()).unwrap().count(), 3, "no temporary file is left");
    }
}
