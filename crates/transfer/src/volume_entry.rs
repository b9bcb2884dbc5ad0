//! New names in directories of the volume, also where the name is taken.

use crate::error::errno_text;
use crate::name::temporary_name;
use lanefs::{Code, FileKind, FileSystem, Ino, RenameMode};
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
            VolumeEntryError::Taken => "exists already in the volume (--overwrite replaces it)".into(),
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
/// inode gets a temporary name first.
pub(crate) fn create_entry(
    volume: &dyn FileSystem,
    dir: Ino,
    name: &[u8],
    overwrite: bool,
    make: impl Fn(&[u8]) -> lanefs::Result<lanefs::Attr>,
) -> Result<NewVolumeEntry, VolumeEntryError> {
    match make(name) {
        Ok(attr) => return Ok(NewVolumeEntry { ino: attr.ino, dir, name: name.to_vec(), temporary: None }),
        Err(error) if error.code() == Code::Exists => (),
        Err(error) => return Err(error.into()),
    }
    if volume.lookup(dir, name)?.1 == FileKind::Directory {
        return Err(VolumeEntryError::TakenByDirectory);
    }
    if !overwrite {
        return Err(VolumeEntryError::Taken);
    }
    loop {
        let temporary = temporary_name();
        match make(&temporary) {
            Ok(attr) => {
                return Ok(NewVolumeEntry {
                    ino: attr.ino,
                    dir,
                    name: name.to_vec(),
                    temporary: Some(temporary),
                });
            }
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
    create_entry(volume, dir, name, overwrite, |name| volume.link(ino, dir, name))?
        .finish(volume)
        .map_err(VolumeEntryError::Volume)
}

/// Makes the directory `name` in `dir`, or returns the existing one. True where it was made.
pub(crate) fn make_directory(
    volume: &dyn FileSystem,
    dir: Ino,
    name: &[u8],
    overwrite: bool,
) -> Result<(Ino, bool), VolumeEntryError> {
    // Closed to other users until its content is complete; then it gets its own mode.
    const UNFINISHED: u16 = 0o700;
    match volume.mkdir(dir, name, UNFINISHED) {
        Ok(attr) => return Ok((attr.ino, true)),
        Err(error) if error.code() == Code::Exists => (),
        Err(error) => return Err(error.into()),
    }
    match volume.lookup(dir, name)? {
        (ino, FileKind::Directory) => Ok((ino, false)),
        _ if overwrite => {
            volume.unlink(dir, name)?;
            Ok((volume.mkdir(dir, name, UNFINISHED)?.ino, true))
        }
        _ => Err(VolumeEntryError::Taken),
    }
}
