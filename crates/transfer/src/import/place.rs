//! How a new name comes into a directory of the volume, and what happens where the name is taken.

use super::OWNER;
use crate::error::errno_text;
use lanefs::{Code, FileKind, Ino, RenameMode, Volume};
use rustix::io::Errno;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Why a name was not given.
#[derive(Debug)]
pub(crate) enum Refusal {
    /// A file stands there and is not to be replaced.
    Taken,
    /// A directory stands there; directories are never replaced by files.
    TakenByDirectory,
    /// The host did not give what the inode needs.
    Host(Errno),
    /// The volume refused.
    Volume(lanefs::Error),
}

impl From<lanefs::Error> for Refusal {
    fn from(error: lanefs::Error) -> Self {
        Refusal::Volume(error)
    }
}

impl Refusal {
    /// What a person is told where the volume itself did not refuse.
    pub(crate) fn text(&self) -> String {
        match self {
            Refusal::Taken => "exists already in the volume (--overwrite replaces it)".into(),
            Refusal::TakenByDirectory => "a directory of that name is in the way in the volume".into(),
            Refusal::Host(errno) => format!("cannot be read: {}", errno_text(*errno)),
            Refusal::Volume(error) => error.to_string(),
        }
    }
}

/// A new inode under its name, or beside the file that it is to replace.
#[derive(Debug)]
pub(crate) struct Placed {
    pub(crate) ino: Ino,
    dir: Ino,
    name: Vec<u8>,
    /// Name that it has until it replaces the old file.
    temporary: Option<Vec<u8>>,
}

impl Placed {
    /// The new file is whole: it takes its name.
    pub(crate) fn finish(&self, volume: &Volume) -> lanefs::Result<()> {
        match &self.temporary {
            None => Ok(()),
            Some(temporary) => {
                volume.rename(&OWNER, self.dir, temporary, self.dir, &self.name, RenameMode::Replace)
            }
        }
    }

    /// The new file failed: it goes, and what it was to replace stays.
    pub(crate) fn abandon(&self, volume: &Volume) {
        // Nothing more can be done where even this fails; the volume is consistent with the file too.
        let _ = volume.unlink(&OWNER, self.dir, self.temporary.as_deref().unwrap_or(&self.name));
    }
}

/// Makes a new inode as `name` in `dir` with `make(name)`; where the name is taken and may be replaced, under a
/// temporary name first.
pub(crate) fn place(
    volume: &Volume,
    dir: Ino,
    name: &[u8],
    overwrite: bool,
    make: impl Fn(&[u8]) -> lanefs::Result<lanefs::Attr>,
) -> Result<Placed, Refusal> {
    match make(name) {
        Ok(attr) => return Ok(Placed { ino: attr.ino, dir, name: name.to_vec(), temporary: None }),
        Err(error) if error.code() == Code::Exists => (),
        Err(error) => return Err(error.into()),
    }
    if volume.lookup(&OWNER, dir, name)?.1 == FileKind::Directory {
        return Err(Refusal::TakenByDirectory);
    }
    if !overwrite {
        return Err(Refusal::Taken);
    }
    loop {
        let temporary = temporary_name();
        match make(&temporary) {
            Ok(attr) => {
                return Ok(Placed { ino: attr.ino, dir, name: name.to_vec(), temporary: Some(temporary) });
            }
            Err(error) if error.code() == Code::Exists => (),
            Err(error) => return Err(error.into()),
        }
    }
}

/// Links `name` in `dir` to `ino`, replacing what is there where that is allowed.
pub(crate) fn place_link(
    volume: &Volume,
    ino: Ino,
    dir: Ino,
    name: &[u8],
    overwrite: bool,
) -> Result<(), Refusal> {
    if overwrite && matches!(volume.lookup(&OWNER, dir, name), Ok((there, _)) if there == ino) {
        return Ok(());
    }
    place(volume, dir, name, overwrite, |name| volume.link(&OWNER, ino, dir, name))?
        .finish(volume)
        .map_err(Refusal::Volume)
}

/// The directory `name` in `dir`: made, or the one that is there. True where it was made.
pub(crate) fn place_directory(
    volume: &Volume,
    dir: Ino,
    name: &[u8],
    overwrite: bool,
) -> Result<(Ino, bool), Refusal> {
    // Closed to others until it gets its own mode, when its content is whole.
    const UNFINISHED: u16 = 0o700;
    match volume.mkdir(&OWNER, dir, name, UNFINISHED) {
        Ok(attr) => return Ok((attr.ino, true)),
        Err(error) if error.code() == Code::Exists => (),
        Err(error) => return Err(error.into()),
    }
    match volume.lookup(&OWNER, dir, name)? {
        (ino, FileKind::Directory) => Ok((ino, false)),
        _ if overwrite => {
            volume.unlink(&OWNER, dir, name)?;
            Ok((volume.mkdir(&OWNER, dir, name, UNFINISHED)?.ino, true))
        }
        _ => Err(Refusal::Taken),
    }
}

/// A name that nobody else uses.
pub(crate) fn temporary_name() -> Vec<u8> {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    format!(".lanefs-{}-{}.tmp", rustix::process::getpid(), NEXT.fetch_add(1, Relaxed)).into_bytes()
}
