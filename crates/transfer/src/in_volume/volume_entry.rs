//! New names in directories of the volume, also where the name is taken.

use super::volume::TargetDir;
use crate::vocabulary::error::OVERWRITE_HINT;
use crate::vocabulary::error::errno_text;
use crate::vocabulary::name::temporary_name;
use lanefs::{Attr, Code, FileKind, FileSystem, Ino, RenameMode};
use rustix::io::Errno;

/// Reason why a name was not made in the volume.
#[derive(Debug)]
pub(crate) enum VolumeEntryError {
    /// A file has the name and must not be replaced.
    Taken,
    /// A directory has the name; a file never replaces a directory.
    TakenByDirectory,
    /// The host refused data that the inode needs.
    Host(Errno),
    /// The volume refused.
    Volume(lanefs::Error),
}

impl From<lanefs::Error> for VolumeEntryError {
    fn from(error: lanefs::Error) -> Self {
        VolumeEntryError::Volume(error)
    }
}

impl VolumeEntryError {
    /// Describes the reason, for a problem of the file.
    pub(crate) fn text(&self) -> String {
        match self {
            VolumeEntryError::Taken => {
                format!("exists already in the volume {OVERWRITE_HINT}")
            }
            VolumeEntryError::TakenByDirectory => {
                "a directory of that name is in the way in the volume".into()
            }
            VolumeEntryError::Host(errno) => format!("cannot be read: {}", errno_text(*errno)),
            VolumeEntryError::Volume(error) => error.to_string(),
        }
    }
}

/// A new inode under its name, or under a temporary name beside the file that it replaces.
#[derive(Debug)]
pub(crate) struct NewVolumeEntry {
    pub(crate) ino: Ino,
    dir: Ino,
    name: Vec<u8>,
    /// Name of the inode until it replaces the old file.
    temporary: Option<Vec<u8>>,
}

impl NewVolumeEntry {
    /// Gives the new file its final name. Call it when the file is complete.
    pub(crate) fn finish(&self, volume: &dyn FileSystem) -> lanefs::Result<()> {
        match &self.temporary {
            None => Ok(()),
            Some(temporary) => volume.rename(self.dir, temporary, self.dir, &self.name, RenameMode::Replace),
        }
    }

    /// Removes the new file, which failed; the old file stays.
    pub(crate) fn abandon(&self, volume: &dyn FileSystem) {
        // An error leaves an incomplete file in a consistent volume, and nothing more can be done.
        let _ = volume.unlink(self.dir, self.temporary.as_deref().unwrap_or(&self.name));
    }
}

/// Makes a new inode as `name` in `dir` with `make(name)`. Where the name is taken and may be replaced, the
/// inode gets a temporary name first. It inherits no access control list.
pub(crate) fn create_entry(
    volume: &dyn FileSystem,
    dir: TargetDir,
    name: &[u8],
    overwrite: bool,
    make: impl Fn(&[u8]) -> lanefs::Result<Attr>,
) -> Result<NewVolumeEntry, VolumeEntryError> {
    let entry = |attr: &Attr, temporary| {
        let entry = NewVolumeEntry { ino: attr.ino, dir: dir.ino, name: name.to_vec(), temporary };
        dir.take_inherited(volume, attr.ino, attr.kind).inspect_err(|_| entry.abandon(volume))?;
        Ok(entry)
    };
    match make(name) {
        Ok(attr) => return entry(&attr, None),
        Err(error) if error.code() == Code::Exists => (),
        Err(error) => return Err(error.into()),
    }
    if volume.lookup(dir.ino, name)?.1 == FileKind::Directory {
        return Err(VolumeEntryError::TakenByDirectory);
    }
    if !overwrite {
        return Err(VolumeEntryError::Taken);
    }
    loop {
        let temporary = temporary_name();
        match make(&temporary) {
            Ok(attr) => return entry(&attr, Some(temporary)),
            Err(error) if error.code() == Code::Exists => (),
            Err(error) => return Err(error.into()),
        }
    }
}

/// Links `name` in `dir` to `ino`; replaces the old file where that is allowed.
pub(crate) fn link_entry(
    volume: &dyn FileSystem,
    ino: Ino,
    dir: Ino,
    name: &[u8],
    overwrite: bool,
) -> Result<(), VolumeEntryError> {
    if overwrite && matches!(volume.lookup(dir, name), Ok((there, _)) if there == ino) {
        return Ok(());
    }
    let target = TargetDir::plain(dir);
    create_entry(volume, target, name, overwrite, |name| volume.link(ino, dir, name))?
        .finish(volume)
        .map_err(VolumeEntryError::Volume)
}

/// Makes the directory `name` in `dir`, or returns the existing one. A new one inherits no access control
/// list.
pub(crate) fn make_directory(
    volume: &dyn FileSystem,
    dir: TargetDir,
    name: &[u8],
    overwrite: bool,
) -> Result<TargetDir, VolumeEntryError> {
    // Closed to other users until its content is complete; then it gets its own mode.
    const UNFINISHED: u16 = 0o700;
    let make = || {
        let attr = volume.mkdir(dir.ino, name, UNFINISHED)?;
        dir.take_inherited(volume, attr.ino, attr.kind)?;
        Ok::<_, lanefs::Error>(TargetDir::plain(attr.ino))
    };
    match make() {
        Ok(made) => return Ok(made),
        Err(error) if error.code() == Code::Exists => (),
        Err(error) => return Err(error.into()),
    }
    match volume.lookup(dir.ino, name)? {
        (ino, FileKind::Directory) => Ok(TargetDir::existing(volume, ino)?),
        _ if overwrite => {
            volume.unlink(dir.ino, name)?;
            Ok(make()?)
        }
        _ => Err(VolumeEntryError::Taken),
    }
}
