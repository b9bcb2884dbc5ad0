//! Unmounting, and waiting until the volume is closed.

use crate::error::{Error, Result};
use crate::find;
use crate::kernel::table::{self, MountEntry};
use crate::kernel::{self, MountHandle, UnmountMode, ending, processes};
use lanefs::escape::escape_path;
use lanefs::format::BLOCK;
use lanefs::format::superblock::Superblock;
use lanefs::{FileId, ImageUse};
use lanefs_serve::command::image_of_mount;
use rustix::fd::AsRawFd;
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::time::{Duration, Instant};

/// Interval at which the locks of the image are polled.
const POLL_INTERVAL: Duration = Duration::from_millis(10);

/// Longest wait for the server of a mount that was read-only.
const READ_ONLY_LIMIT: Duration = Duration::from_secs(10);

/// Outcome of unmounting.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unmounted {
    /// Everything is durable, or the volume goes on by another mount.
    Done,
    /// The volume was not waited for; the reason.
    NotAwaited(String),
}

/// Unmounts the volume on `dir`, and returns when everything is durable. Also removes a mount whose server
/// has ended. Polls `give_up`, and stops waiting when that returns true.
///
/// Waits for the image that the server of the caller's own mount says it has open. Of another user's mount
/// nothing is believed and nothing is opened.
///
/// # Errors
/// [`Error::Directory`]: no volume is mounted on `dir`, its server does not reply, or it could not be closed.
/// [`Error::Busy`]: the mount is in use.
pub fn unmount(dir: &Path, give_up: &dyn Fn() -> bool) -> Result<Unmounted> {
    let entry = table::lanefs_on(dir)?;
    let server = KnownServer::of(&entry)?;
    let mode = if server == KnownServer::Dead { UnmountMode::Lazy } else { UnmountMode::Normal };
    let mark = ending::mark_of(&entry);
    let image = server.image(&entry).map(|image| image.map(|file| Awaited::new(file, mark)));
    match kernel::unmount(&entry.dir, mode) {
        Ok(()) => {}
        Err(Errno::BUSY) => {
            return Err(Error::Busy { dir: dir.to_owned(), by: processes::inside(&entry.dir).to_string() });
        }
        Err(errno) => return Err(Error::host(format!("unmounting {}", escape_path(dir)), errno)),
    }
    // The kernel does not wait for the server, which closes the volume from now on, unless the volume is
    // mounted on another directory, too.
    if ending::is_mounted(mark, &[]) {
        return Ok(Unmounted::Done);
    }
    match image {
        Ok(Some(image)) => image.wait_closed(dir, &entry, give_up),
        Ok(None) => Ok(Unmounted::Done),
        Err(_) if entry.all_read_only => Ok(Unmounted::Done),
        Err(why) => Ok(Unmounted::NotAwaited(why)),
    }
}

/// Knowledge of the server of a mount.
#[derive(Clone, Debug, PartialEq, Eq)]
enum KnownServer {
    /// It has ended.
    Dead,
    /// It has this image open; `None` for a volume that no file of the host has.
    Has(Option<FileId>),
    /// It was not asked, or does not tell; the reason.
    Unknown(String),
}

impl KnownServer {
    /// Asks the server of the caller's own mount.
    fn of(entry: &MountEntry) -> Result<KnownServer> {
        if !entry.is_own() {
            return Ok(KnownServer::Unknown(format!("it belongs to {}", entry.owner_text())));
        }
        let handle = MountHandle::open(entry).ok_or_else(|| find::changed(entry))?;
        Ok(match find::ask(entry, &handle, image_of_mount)? {
            Ok(image) => KnownServer::Has(image),
            Err(Errno::NOTCONN) => KnownServer::Dead,
            Err(_) => KnownServer::Unknown("its server does not tell its image".to_owned()),
        })
    }

    /// Opens the image, to wait for it: the file that the server has open, and no other one of that name.
    fn image(&self, entry: &MountEntry) -> std::result::Result<Option<File>, String> {
        match self {
            KnownServer::Dead | KnownServer::Has(None) => Ok(None),
            KnownServer::Has(Some(id)) => open_image(&entry.source, *id)
                .map(Some)
                .ok_or_else(|| format!("{} cannot be read", escape_path(&entry.source))),
            KnownServer::Unknown(why) => Err(why.clone()),
        }
    }
}

/// Opens the file `id`, which has this name. Any other file of the name is looked at only.
fn open_image(name: &Path, id: FileId) -> Option<File> {
    let seen = rustix::fs::open(name, OFlags::PATH | OFlags::CLOEXEC, Mode::empty()).ok()?;
    if FileId::of(&seen).ok()? != Some(id) {
        return None;
    }
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let opened = rustix::fs::open(format!("/proc/self/fd/{}", seen.as_raw_fd()), flags, Mode::empty());
    opened.ok().map(File::from)
}

/// Detaches the volume on `dir` at once. The volume is closed when no file is in use any more; this function
/// does not wait for that, and asks no server.
///
/// # Errors
/// As for [`unmount`], without [`Error::Busy`].
pub fn detach(dir: &Path) -> Result<()> {
    let entry = table::lanefs_on(dir)?;
    kernel::unmount(&entry.dir, UnmountMode::Lazy)
        .map_err(|errno| Error::host(format!("unmounting {}", escape_path(dir)), errno))
}

/// The image of a mount that ends.
struct Awaited {
    file: File,
    /// The mark of the mount; `None` where its server shows none.
    mark: Option<Mark>,
}

/// The mark of a mount, and whether its server has the volume open for writing.
#[derive(Clone, Copy)]
struct Mark {
    number: u64,
    is_of_writer: bool,
}

impl Mark {
    /// True while the server shows the mark. All who may read the image can lock the same byte afterwards,
    /// but not as a writer; and the next mount of the image may have the same number, but is in the table.
    fn is_shown(self, file: &File) -> bool {
        let is_in =
            |used: ImageUse| used.has_writer == self.is_of_writer && used.marks.contains(&self.number);
        ImageUse::of(file).is_ok_and(is_in) && !ending::is_mounted(self.number, &[])
    }
}

impl Awaited {
    /// Looks for the mark of a mount that is in the table still.
    fn new(file: File, number: u64) -> Self {
        let used = ImageUse::of(&file).ok().filter(|used| used.marks.contains(&number));
        let mark = used.map(|used| Mark { number, is_of_writer: used.has_writer });
        Awaited { file, mark }
    }

    /// True until the server has closed the volume. The lock of a volume is as well that of the process that
    /// opens it next, so it tells less than the mark.
    fn is_open(&self, entry: &MountEntry) -> bool {
        match self.mark {
            Some(mark) => mark.is_shown(&self.file),
            None if entry.all_read_only => false,
            None => lanefs::has_writer(&self.file).is_ok_and(|has_writer| has_writer),
        }
    }

    /// Waits until the server has closed the volume. For a mount that was read-only the wait has a limit:
    /// everything is durable already, and whoever may read the image can show the mark of such a server.
    fn wait_closed(
        mut self,
        dir: &Path,
        entry: &MountEntry,
        give_up: &dyn Fn() -> bool,
    ) -> Result<Unmounted> {
        let begin = Instant::now();
        while self.is_open(entry) {
            if give_up() {
                return Err(Error::directory(dir, "unmounted, but its volume is not closed yet"));
            }
            if entry.all_read_only && begin.elapsed() >= READ_ONLY_LIMIT {
                return Ok(Unmounted::NotAwaited("its server has not ended for ten seconds".to_owned()));
            }
            std::thread::sleep(POLL_INTERVAL);
        }
        if entry.all_read_only {
            return Ok(Unmounted::Done);
        }
        let mut block = vec![0; BLOCK as usize];
        let superblock = self.file.read_exact(&mut block).ok().and_then(|()| Superblock::decode(&block).ok());
        let is_dirty = superblock.is_some_and(|superblock| !superblock.clean);
        // A process that has opened it since marks it as open.
        if is_dirty && lanefs::has_writer(&self.file).is_ok_and(|has_writer| !has_writer) {
            let why = "unmounted, but its volume could not be closed; changes that were not synced are lost (see its log)";
            return Err(Error::directory(dir, why));
        }
        Ok(Unmounted::Done)
    }
}
