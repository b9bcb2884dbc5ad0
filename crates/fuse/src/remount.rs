//! Changes of mounts that exist: other options, and a second directory.

use crate::table::{self, MountEntry};
use crate::{Error, Options, Result, client, kernel, processes, session};
use rustix::io::Errno;
use std::path::{Path, PathBuf};

/// Attribute that no inode has. Its removal tells whether a volume accepts changes, and changes nothing.
const NO_ATTRIBUTE: &str = "user.lanefs.none";

/// Changes options of the mount on `dir`: `change` gets the present ones. On return the server has adopted
/// them, and everything is durable if the mount has become read-only.
///
/// # Errors
/// [`Error::Directory`]: no volume is mounted on `dir`, or it was opened for reading and cannot become
/// writable. [`Error::Busy`]: it cannot become read-only, because files are open for writing, or have lost
/// their last name while open. [`Error::Host`]: the caller is not root.
pub fn remount(dir: &Path, change: impl FnOnce(&mut Options) -> Result<()>) -> Result<()> {
    let entry = table::lanefs_on(dir)?;
    let mut options = shown(&entry);
    change(&mut options)?;
    kernel::remount(&entry.dir, &options).map_err(|errno| match errno {
        Errno::BUSY => Error::Busy { dir: dir.to_owned(), by: processes::inside(&entry.dir).to_string() },
        errno => Error::host(format!("changing the mount on {}", dir.display()), errno),
    })?;
    // The server adopts the state before it replies. Without a server there is no state.
    let _ = rustix::fs::statfs(&entry.dir);
    if !options.read_only && rustix::fs::removexattr(&entry.dir, NO_ATTRIBUTE) == Err(Errno::ROFS) {
        options.read_only = true;
        let _ = kernel::remount(&entry.dir, &options);
        let why = "its volume was opened for reading only; unmount it, and mount it again with rw";
        return Err(Error::directory(dir, why));
    }
    Ok(())
}

/// The options of a mount that a remount can change, as the table shows them.
fn shown(entry: &MountEntry) -> Options {
    let mut options = Options { access_times: entry.access_times(), ..Options::default() };
    for option in entry.options.split(',') {
        // The kernel has options that this crate does not know, such as `nosymfollow`.
        let _ = options.apply(option);
    }
    options.read_only = entry.read_only;
    options
}

/// Mounts a volume that is mounted already on one more directory, by a bind of the first mount. Returns the
/// first directory; `None` where the volume is not mounted, or the caller may not bind.
///
/// # Errors
/// [`Error::Directory`]: `dir` cannot serve as a mount point; the volume should be writable and its mount is
/// read-only. [`Error::Host`]: the host refuses.
pub fn bind(image_or_dir: &Path, dir: &Path, options: &Options) -> Result<Option<PathBuf>> {
    if !rustix::process::geteuid().is_root() {
        return Ok(None);
    }
    let Some(first) = client::find(image_or_dir) else { return Ok(None) };
    let Ok(entry) = table::lanefs_on(&first.dir) else { return Ok(None) };
    let dir = session::directory(dir)?;
    if entry.all_read_only && !options.read_only {
        let first = first.dir.display();
        let why = format!("the volume is mounted read-only on {first}; first `mount -o remount,rw {first}`");
        return Err(Error::directory(dir, why));
    }
    match kernel::bind(&first.dir, &dir, options) {
        Ok(()) => Ok(Some(first.dir)),
        // Root in a container may lack the capability.
        Err(Errno::PERM) => Ok(None),
        Err(errno) => Err(Error::host(format!("mounting on {}", dir.display()), errno)),
    }
}
