//! New names in directories of the host, also where the name is taken.

use super::options::Replaces;
use crate::on_host::hostdir::FileId;
use crate::vocabulary::error::OVERWRITE_HINT;
use crate::vocabulary::error::errno_text;
use crate::vocabulary::name::temporary_name;
use rustix::fd::OwnedFd;
use rustix::fs::{AtFlags, FileType, renameat, statat, unlinkat};
use rustix::io::Errno;

/// The problem of a file that would take the place of one that stays.
pub(crate) const KEPT: &str = "is the image of this volume on the host, and stays";

/// Reason why a name was not made on the host.
#[derive(Debug)]
pub(crate) enum HostEntryError {
    /// A file has the name and must not be replaced.
    Taken,
    /// The volume's own image, or another file that nothing replaces, has the name.
    Kept,
    /// A directory has the name; a file never replaces a directory.
    TakenByDirectory,
    /// A symbolic link or other file has the name of a directory.
    NoDirectory,
    /// The host refused.
    Host(Errno),
    /// The volume could not read the target of a link.
    Volume(lanefs::Error),
}

impl From<Errno> for HostEntryError {
    fn from(errno: Errno) -> Self {
        HostEntryError::Host(errno)
    }
}

impl HostEntryError {
    /// Describes the reason, for a problem of the file.
    pub(crate) fn text(&self) -> String {
        match self {
            HostEntryError::Taken => format!("exists already on the host {OVERWRITE_HINT}"),
            HostEntryError::Kept => KEPT.into(),
            HostEntryError::TakenByDirectory => "a directory of that name is in the way on the host".into(),
            HostEntryError::NoDirectory => {
                "a link or file of the host has the directory's name; links are not followed".into()
            }
            HostEntryError::Host(errno) => errno_text(*errno),
            HostEntryError::Volume(error) => format!("cannot be read from the volume: {error}"),
        }
    }
}

/// A new file under its name, or under a temporary name beside the file that it replaces.
#[derive(Debug)]
pub(crate) struct NewHostEntry<T> {
    /// Result of making the file: its descriptor, or nothing.
    pub(crate) made: T,
    name: Vec<u8>,
    /// Name of the file until it replaces the old one.
    pub(crate) temporary: Option<Vec<u8>>,
}

impl<T> NewHostEntry<T> {
    /// Returns the present name of the file.
    pub(crate) fn current(&self) -> &[u8] {
        self.temporary.as_deref().unwrap_or(&self.name)
    }

    /// Gives the new file its final name. Call it when the file is complete.
    pub(crate) fn finish(&self, dir: &OwnedFd) -> Result<(), Errno> {
        match &self.temporary {
            None => Ok(()),
            Some(temporary) => renameat(dir, &temporary[..], dir, &self.name[..]),
        }
    }

    /// Removes the new file, which failed; the old file stays.
    pub(crate) fn abandon(&self, dir: &OwnedFd) {
        // An error leaves an incomplete file, and nothing more can be done.
        let _ = unlinkat(dir, self.current(), AtFlags::empty());
    }
}

/// Makes a new file as `name` in `dir` with `make(name)`, which must fail with `EEXIST` where the name is
/// taken. If the old file may be replaced, the new one gets a temporary name first.
pub(crate) fn create_entry<T>(
    dir: &OwnedFd,
    name: &[u8],
    replaces: Replaces<'_>,
    make: impl Fn(&[u8]) -> Result<T, Errno>,
) -> Result<NewHostEntry<T>, HostEntryError> {
    match make(name) {
        Ok(made) => return Ok(NewHostEntry { made, name: name.to_vec(), temporary: None }),
        Err(Errno::EXIST) => (),
        Err(errno) => return Err(errno.into()),
    }
    let existing = statat(dir, name, AtFlags::SYMLINK_NOFOLLOW)?;
    if FileType::from_raw_mode(existing.st_mode) == FileType::Directory {
        return Err(HostEntryError::TakenByDirectory);
    }
    match replaces {
        Replaces::None => return Err(HostEntryError::Taken),
        Replaces::AllBut(kept) if kept.contains(&FileId::of(&existing)) => return Err(HostEntryError::Kept),
        Replaces::AllBut(_) => {}
    }
    loop {
        let temporary = temporary_name();
        match make(&temporary) {
            Ok(made) => return Ok(NewHostEntry { made, name: name.to_vec(), temporary: Some(temporary) }),
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
        let all = Replaces::AllBut(&[]);
        assert!(matches!(create_entry(&dir, b"f", Replaces::None, make), Err(HostEntryError::Taken)));
        assert!(matches!(create_entry(&dir, b"l", Replaces::None, make), Err(HostEntryError::Taken)));
        assert!(matches!(create_entry(&dir, b"d", all, make), Err(HostEntryError::TakenByDirectory)));

        let entry = create_entry(&dir, b"f", all, make).unwrap();
        entry.abandon(&dir);
        assert_eq!(std::fs::read(temp.path().join("f")).unwrap(), b"old");

        create_entry(&dir, b"l", all, make).unwrap().finish(&dir).unwrap();
        assert!(temp.path().join("l").symlink_metadata().unwrap().is_file());
        assert_eq!(std::fs::read(temp.path().join("f")).unwrap(), b"old", "not written through the link");
        assert_eq!(std::fs::read_dir(temp.path()).unwrap().count(), 3, "no temporary file is left");
    }
}
