//! Servers that end: the mount is gone, and the server has the image open until it has closed the volume.
//!
//! umount(8) returns before that. A server cannot say at that moment that it ends: the kernel ends the mount
//! without a request. So it shows beforehand which mount it serves, by a [mark](lanefs::ImageUse) on the
//! image, and whoever finds the image in use looks for that mount in the kernel's tables: those of its own
//! and of the server's name space.

use super::table::{self, MountEntry};
use lanefs::ImageUse;
use lanefs::format::Checksummer;
use rustix::fs::{Mode, OFlags};
use std::fs::File;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// State of an image that cannot be opened because it is in use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ImageState {
    /// No process has the volume open any more.
    Free,
    /// Only servers whose mounts are gone have the volume open.
    Ending,
    /// Some other process has it open, or may have it.
    InUse,
}

/// Returns the state of an image. Asks no server: it follows from the image's locks and from the kernel's
/// tables of mounts. A user who may open the image can pretend that it is [`Ending`](ImageState::Ending), so
/// a wait for its end needs a limit.
pub fn state(image: &Path) -> ImageState {
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let file = rustix::fs::open(image, flags, Mode::empty()).map(File::from);
    let Some(used) = file.ok().and_then(|file| ImageUse::of(&file).ok()) else { return ImageState::InUse };
    let are_gone = || used.marks.iter().all(|mark| !is_mounted(*mark, &used.processes));
    match used.marks.len() {
        _ if !used.is_open => ImageState::Free,
        // A process without a mark is not a server, or still starts. One that the host hides may have its
        // mount in a name space that it hides as well.
        marks if marks > 0 && marks == used.processes.len() && are_gone() => ImageState::Ending,
        _ => ImageState::InUse,
    }
}

/// The mark of a mount: the number of its device, which the kernel soon gives to another file system, and a
/// checksum of its source.
pub(crate) fn mark_of(entry: &MountEntry) -> u64 {
    let source = Checksummer::append(0, entry.source.as_os_str().as_bytes());
    (entry.device & 0xff_ffff) << 32 | u64::from(source)
}

/// True where a mount with this mark is in this process's table, or in that of one of the processes.
pub(crate) fn is_mounted(mark: u64, processes: &[u32]) -> bool {
    let is_in =
        |mounts: Vec<MountEntry>| mounts.iter().any(|entry| entry.is_lanefs() && mark_of(entry) == mark);
    // The table of a process that has just ended has no mount.
    let others = processes.iter().flat_map(|process| table::mounts_of(*process));
    table::mounts().map_or(true, is_in) || others.into_iter().any(is_in)
}
