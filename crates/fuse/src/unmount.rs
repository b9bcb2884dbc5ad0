//! Taking a mount away, and waiting until its volume is closed.

use crate::kernel::{self, Force};
use crate::table::Entry;
use crate::{Error, Result, table, users};
use lanefs::format::BLOCK;
use lanefs::format::superblock::Superblock;
use rustix::fs::FlockOperation;
use rustix::io::Errno;
use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::time::Duration;

/// How often it is looked whether the volume is closed.
const STEP: Duration = Duration::from_millis(10);

/// Unmounts the volume on `dir`, and returns when everything is durable. A mount whose server has ended is taken away. `give_up` is
/// asked now and then, and ends the waiting.
///
/// # Errors
/// [`Error::Directory`] where no volume is mounted there, or it could not be closed well; [`Error::Busy`].
pub fn unmount(dir: &Path, give_up: &dyn Fn() -> bool) -> Result<()> {
    let entry = mounted(dir)?;
    let dead = table::is_dead(&entry.dir);
    let force = if dead { Force::Lazy } else { Force::None };
    match kernel::unmount(&entry.dir, force) {
        Ok(()) => {}
        Err(Errno::BUSY) => {
            return Err(Error::Busy { dir: dir.to_owned(), by: users::inside(&entry.dir).to_string() });
        }
        Err(errno) => return Err(Error::host(format!("unmounting {}", dir.display()), errno)),
    }
    // The kernel does not wait for the server, which closes the volume only now.
    if dead || entry.read_only || !entry.source.is_absolute() {
        return Ok(());
    }
    wait_closed(dir, &entry.source, give_up)
}

/// Takes the volume on `dir` from sight at once; it is closed when nothing is in use any more, and not waited for.
///
/// # Errors
/// As [`unmount`], save [`Error::Busy`].
pub fn detach(dir: &Path) -> Result<()> {
    let entry = mounted(dir)?;
    kernel::unmount(&entry.dir, Force::Lazy)
        .map_err(|errno| Error::host(format!("unmounting {}", dir.display()), errno))
}

/// The mount of LaneFS on `dir`.
fn mounted(dir: &Path) -> Result<Entry> {
    let entry = table::find(dir).map_err(|error| Error::io(dir.display().to_string(), &error))?;
    let Some(entry) = entry else { return Err(Error::directory(dir, "nothing is mounted there")) };
    if !entry.is_lanefs() {
        return Err(Error::directory(dir, format!("not a mount of LaneFS ({})", entry.kind)));
    }
    Ok(entry)
}

/// Waits for the lock on the image, which goes when the volume is closed.
fn wait_closed(dir: &Path, image: &Path, give_up: &dyn Fn() -> bool) -> Result<()> {
    // Who may not read the image has unmounted by the helper, and cannot wait.
    let Ok(mut file) = File::open(image) else { return Ok(()) };
    while rustix::fs::flock(&file, FlockOperation::NonBlockingLockShared) == Err(Errno::WOULDBLOCK) {
        if give_up() {
            return Err(Error::directory(dir, "unmounted, but its volume is not closed yet"));
        }
        std::thread::sleep(STEP);
    }
    let mut block = vec![0; BLOCK as usize];
    let superblock = file.read_exact(&mut block).ok().and_then(|()| Superblock::decode(&block).ok());
    if superblock.is_some_and(|superblock| !superblock.clean) {
        let why = "unmounted, but its volume could not be closed; what was not synced is lost (see its log)";
        return Err(Error::directory(dir, why));
    }
    Ok(())
}
