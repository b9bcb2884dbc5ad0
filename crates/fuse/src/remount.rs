//! Changes of mounts that exist: other options, and a second directory.

use crate::error::{Error, Result};
use crate::find::{self, Found};
use crate::kernel::table::{self, MountEntry};
use crate::kernel::{self, MountHandle, UnmountMode, processes};
use crate::options::Options;
use crate::session;
use lanefs::escape::escape_path;
use rustix::io::Errno;
use std::path::{Path, PathBuf};

/// Attribute that no inode has. Its removal tells whether a volume accepts changes, and changes nothing.
const NO_ATTRIBUTE: &str = "user.lanefs.none";

/// Changes options of the mount on `dir`: `change` gets the present ones. On return the server has adopted
/// them, and everything is durable if the mount has become read-only.
///
/// # Errors
/// [`Error::Directory`]: no volume is mounted on `dir`, another user has mounted it, its server does not
/// reply, or it was opened for reading and cannot become writable. [`Error::Busy`]: it cannot become
/// read-only, because files are open for writing, or have lost their last name while open. [`Error::Host`]:
/// the caller is not root.
pub fn remount(dir: &Path, change: impl FnOnce(&mut Options) -> Result<()>) -> Result<()> {
    let entry = table::lanefs_on(dir)?;
    if !entry.is_own() {
        let why = format!("another user has mounted it ({}); that user's server decides", entry.owner_text());
        return Err(Error::directory(dir, why));
    }
    let handle = MountHandle::open(&entry).ok_or_else(|| find::changed(&entry))?;
    let mut options = shown(&entry);
    change(&mut options)?;
    kernel::remount(&handle.path(), &options).map_err(|errno| match errno {
        Errno::BUSY => Error::Busy { dir: dir.to_owned(), by: processes::inside(&entry.dir).to_string() },
        errno => Error::host(format!("changing the mount on {}", escape_path(dir)), errno),
    })?;
    // The server adopts the state before it replies. Without a server there is no state.
    let writable = !options.read_only;
    let is_refused = find::ask(&entry, &handle, move |mount| {
        let _ = rustix::fs::statfs(mount);
        writable && rustix::fs::removexattr(mount, NO_ATTRIBUTE) == Err(Errno::ROFS)
    })?;
    if is_refused {
        options.read_only = true;
        let _ = kernel::remount(&handle.path(), &options);
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
/// first directory; `None` where root has not mounted the volume, or the caller may not bind.
///
/// The bind is of the mount that was found and no other, and has its flags (`nosuid`, `nodev`, `noexec`,
/// `ro`) or more. Root binds no mount of another user: its server decides what its files are.
///
/// # Errors
/// [`Error::Directory`]: `dir` cannot serve as a mount point; the volume should be writable and its mount is
/// read-only; another user's mount is on the directory that was named in place of the image; those of
/// [`find`](find::find). [`Error::Host`]: the host refuses.
pub fn bind(image_or_dir: &Path, dir: &Path, options: &Options) -> Result<Option<PathBuf>> {
    if !rustix::process::geteuid().is_root() {
        return Ok(None);
    }
    refuse_foreign(image_or_dir)?;
    let Some(Found { volume, entry, handle }) = find::find_held(image_or_dir)? else { return Ok(None) };
    // The process that replies must be root's as well.
    let takes_commands = volume.takes_commands(|| false)?;
    let first = escape_path(&entry.dir);
    if options.no_commands && takes_commands {
        let why =
            format!("the mount on {first} takes commands; unmount it, and mount it with nocommands first");
        return Err(Error::directory(dir, why));
    }
    let dir = session::directory(dir)?;
    if entry.all_read_only && !options.read_only {
        let why = format!("the volume is mounted read-only on {first}; first `mount -o remount,rw {first}`");
        return Err(Error::directory(dir, why));
    }
    match kernel::bind(&handle.path(), &dir) {
        Ok(()) => {}
        // Root in a container may lack the capability.
        Err(Errno::PERM) => return Ok(None),
        Err(errno) => return Err(Error::host(format!("mounting on {}", escape_path(&dir)), errno)),
    }
    restrict(&entry, &dir, options).inspect_err(|_| {
        let _ = kernel::unmount(&dir, UnmountMode::Lazy);
    })?;
    Ok(Some(entry.dir))
}

/// Gives the bind of a mount on `dir` the options. Until then it has the flags of the first mount.
fn restrict(first: &MountEntry, dir: &Path, options: &Options) -> Result<()> {
    let there = table::lanefs_on(dir)?;
    let is_bind = there.device == first.device;
    let handle = MountHandle::open(&there).filter(|_| is_bind).ok_or_else(|| find::changed(&there))?;
    kernel::restrict(&handle.path(), &first.options, options)
        .map_err(|errno| Error::host(format!("mounting on {}", escape_path(dir)), errno))
}

/// Refuses to bind the mount of another user.
fn refuse_foreign(image_or_dir: &Path) -> Result<()> {
    match table::lanefs_on(image_or_dir) {
        Ok(entry) if !entry.is_own() => {
            let owner = entry.owner_text();
            let why = format!(
                "another user has mounted it ({owner}), and serves its files: root's mounts are of its own \
                 servers only; `mount --bind` does it nevertheless"
            );
            Err(Error::directory(&entry.dir, why))
        }
        _ => Ok(()),
    }
}
