//! Unmounting, and waiting until the volume is closed.

use crate::kernel::{self, UnmountMode};
use crate::{Error, Result, processes, table};
use lanefs::format::BLOCK;
use lanefs::format::superblock::Superblock;
use rustix::fs::FlockOperation;
use rustix::io::Errno;
use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::time::Duration;

/// Interval at which the lock of the image is polled.
const POLL_INTERVAL: Duration = Duration::from_millis(10);

/// Unmounts the volume on `dir`, and returns when everything is durable. Also removes a mount whose server
/// has ended. Polls `give_up`, and stops waiting when that returns true.
///
/// # Errors
/// [`Error::Directory`]: no volume is mounted on `dir`, or it could not be closed. [`Error::Busy`]: the mount
/// is in use.
pub fn unmount(dir: &Path, give_up: &dyn Fn() -> bool) -> Result<()> {
    let entry = table::lanefs_on(dir)?;
    let dead = table::is_dead(&entry.dir);
    let mode = if dead { UnmountMode::Lazy } else { UnmountMode::Normal };
    match kernel::unmount(&entry.dir, mode) {
        Ok(()) => {}
        Err(Errno::BUSY) => {
            return Err(Error::Busy { dir: dir.to_owned(), by: processes::inside(&entry.dir).to_string() });
        }
        Err(errno) => return Err(Error::host(format!("unmounting {}", dir.display()), errno)),
    }
    // The kernel does not wait for the server, which closes the volume from now on, unless the volume is
    // mounted on another directory, too.
    if dead || entry.all_read_only || !entry.source.is_absolute() || table::has_device(entry.device) {
        return Ok(());
    }
    wait_closed(dir, &entry.source, give_up)
}

/// Detaches the volume on `dir` at once. The volume is closed when no file is in use any more; this function
/// does not wait for that.
///
/// # Errors
/// As for [`unmount`], without [`Error::Busy`].
pub fn detach(dir: &Path) -> Result<()> {
    let entry = table::lanefs_on(dir)?;
    kernel::unmount(&entry.dir, UnmountMode::Lazy)
        .map_err(|errno| Error::host(format!("unmounting {}", dir.display()), errno))
}

/// Waits for the lock on the image, which the server releases when the volume is closed.
fn wait_closed(dir: &Path, image: &Path, give_up: &dyn Fn() -> bool) -> Result<()> {
    // A user who may not read the image can unmount by the helper, but cannot wait.
    let Ok(mut file) = File::open(image) else { return Ok(()) };
    while rustix::fs::flock(&file, FlockOperation::NonBlockingLockShared) == Err(Errno::WOULDBLOCK) {
        if give_up() {
            return Err(Error::directory(dir, "unmounted, but its volume is not closed yet"));
        }
        std::thread::sleep(POLL_INTERVAL);
    }
    let mut block = vec![0; BLOCK as usize];
    let superblock = file.read_exact(&mut block).ok().and_then(|()| Superblock::decode(&block).ok());
    if superblock.is_some_and(|superblock| !superblock.clean) {
        let why = "unmounted, but its volume could not be closed; changes that were not synced are lost (see its log)";
        return Err(Error::directory(dir, why));
    }
    Ok(())
}
