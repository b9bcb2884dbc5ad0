//! The mount of a volume, found by its image or its directory.
//!
//! The owner of a mount chooses the names that the table of mounts shows: type, source and directory. So a
//! name only finds a candidate. The kernel must say that this process's user has made the mount; then the
//! mount's server says which image it has open. The server of another user is never asked.

use crate::error::{Error, Result};
use crate::kernel::MountHandle;
use crate::kernel::table::{self, MountEntry};
use lanefs::FileId;
use lanefs::escape::escape_path;
use lanefs_serve::command::client::MountedVolume;
use lanefs_serve::command::{TIMEOUT, address_of_mount, image_of_mount};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A mount of this process's user that has been found, and is held.
pub(crate) struct Found {
    pub(crate) volume: MountedVolume,
    pub(crate) entry: MountEntry,
    pub(crate) handle: Arc<MountHandle>,
}

/// Returns the mount of an image, or on a directory; `None` where this user has none. Waits for the reply of
/// a server for some seconds.
///
/// # Errors
/// [`Error::Directory`]: another user's mount is on the directory; the mount's server has ended, does not
/// reply, takes no commands, or is of another version.
pub fn find(image_or_dir: &Path) -> Result<Option<MountedVolume>> {
    Ok(find_held(image_or_dir)?.map(|found| found.volume))
}

/// True for a path on which a volume is mounted. Asks no server, as to open the path would.
pub fn is_mount_point(path: &Path) -> bool {
    table::lanefs_on(path).is_ok()
}

/// [`find`], with the mount itself.
pub(crate) fn find_held(image_or_dir: &Path) -> Result<Option<Found>> {
    let (Ok(path), Ok(mounts)) = (table::absolute(image_or_dir), table::mounts()) else { return Ok(None) };
    match table::topmost(mounts.clone(), &path) {
        Some(entry) if entry.is_own() => on_dir(entry).map(Some),
        Some(entry) if entry.is_lanefs() => Err(other_user(&entry)),
        _ => of_image(&path, mounts),
    }
}

fn other_user(entry: &MountEntry) -> Error {
    let owner = entry.owner_text();
    let why = format!("another user has mounted it ({owner}); run the command as that user");
    Error::directory(&entry.dir, why)
}

fn on_dir(entry: MountEntry) -> Result<Found> {
    let handle = MountHandle::open(&entry).ok_or_else(|| changed(&entry))?;
    let address = ask(&entry, &handle, address_of_mount)?;
    found(entry, handle, address)
}

/// Finds the mount whose server has an image open. The names of mounts only tell whom to ask.
fn of_image(path: &Path, mounts: Vec<MountEntry>) -> Result<Option<Found>> {
    let Some(image) = image_at(path) else { return Ok(None) };
    let mut first_error = None;
    for entry in mounts.into_iter().filter(|entry| entry.is_own() && entry.source == path) {
        let Some(handle) = MountHandle::open(&entry) else { continue };
        match ask(&entry, &handle, image_of_mount) {
            Ok(Ok(open)) if open == Some(image) => {
                let address = ask(&entry, &handle, address_of_mount)?;
                return found(entry, handle, address).map(Some);
            }
            // Another image of that name, or a mount whose server has ended and uses none.
            Ok(Ok(_) | Err(Errno::NOTCONN)) => {}
            Ok(Err(errno)) => {
                first_error.get_or_insert_with(|| refused(&entry, errno));
            }
            Err(silent) => {
                first_error.get_or_insert(silent);
            }
        }
    }
    first_error.map_or(Ok(None), Err)
}

/// The file or device that a path names, which is looked at and not opened.
fn image_at(path: &Path) -> Option<FileId> {
    let file = rustix::fs::open(path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty()).ok()?;
    FileId::of(file).ok().flatten()
}

/// Asks the server of a mount.
pub(crate) fn ask<T: Send + 'static>(
    entry: &MountEntry,
    handle: &Arc<MountHandle>,
    question: impl FnOnce(&Path) -> T + Send + 'static,
) -> Result<T> {
    let silent = "its server does not reply: it may be stopped, or wait for its image";
    handle.ask(TIMEOUT, question).ok_or_else(|| Error::directory(&entry.dir, silent))
}

fn found(entry: MountEntry, handle: Arc<MountHandle>, address: rustix::io::Result<Vec<u8>>) -> Result<Found> {
    let address = address.map_err(|errno| refused(&entry, errno))?;
    let volume = MountedVolume::new(entry.dir.clone(), entry.source.clone(), &address)?;
    Ok(Found { volume, entry, handle })
}

/// The error of a server that does not tell what was asked.
pub(crate) fn refused(entry: &MountEntry, errno: Errno) -> Error {
    let dir = &entry.dir;
    match errno {
        Errno::NOTCONN => {
            Error::directory(dir, "the server of this mount has ended; remove the mount with `lanefs umount`")
        }
        Errno::ACCESS | Errno::PERM => other_user(entry),
        Errno::OPNOTSUPP | Errno::NODATA => Error::directory(
            dir,
            "its server takes no commands of this program; use the program that mounted it, or unmount and \
             mount again",
        ),
        errno => Error::host(format!("the volume mounted at {}", escape_path(dir)), errno),
    }
}

/// The error of a directory on which another mount is by now.
pub(crate) fn changed(entry: &MountEntry) -> Error {
    Error::directory(&entry.dir, "another mount came there meanwhile; try again")
}

/// A mount of another user whose source is the name of an image. Names prove nothing: it is for messages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claim {
    owner: String,
    dir: PathBuf,
}

impl fmt::Display for Claim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (owner, dir) = (&self.owner, escape_path(&self.dir));
        write!(f, "another user has mounted it, by the table of mounts: {owner}, on {dir}")
    }
}

/// Returns the newest mount of another user that says it is of this image. Asks no server.
pub fn claim(image: &Path) -> Option<Claim> {
    let (path, mounts) = (table::absolute(image).ok()?, table::mounts().ok()?);
    let claims = |entry: &&MountEntry| entry.is_lanefs() && !entry.is_own() && entry.source == path;
    let entry = mounts.iter().rev().find(claims)?;
    Some(Claim { owner: entry.owner_text(), dir: entry.dir.clone() })
}
