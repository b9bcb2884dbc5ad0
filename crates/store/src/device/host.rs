//! System calls on files and raw devices that move no bytes.

use super::{FileId, lock};
use crate::host_path;
use rustix::fs::{FallocateFlags, FileType, Mode, OFlags};
use rustix::io::Errno;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileTypeExt;
use std::path::Path;

/// Returns true for a block device.
pub(super) fn is_raw(path: &Path) -> bool {
    std::fs::metadata(path).is_ok_and(|m| m.file_type().is_block_device())
}

/// A file or a raw device, open twice.
pub(super) struct Opened {
    /// The file that is read and written.
    pub(super) file: File,
    /// The file that has the lock. No ring gets it: the kernel ends the rings of a killed process shortly
    /// after the process, and the lock would last as long.
    pub(super) lock: File,
    /// True for a raw device.
    pub(super) raw: bool,
}

/// Opens a file or a raw device. Never waits: a FIFO, a terminal or a device that must be waited for is
/// looked at first, and refused.
///
/// # Errors
/// `InvalidInput`: neither a file nor a raw device; the host's.
pub(super) fn open(path: &Path, flags: OFlags) -> io::Result<File> {
    open_or_make(path, flags, Mode::empty())
}

/// [`open`], or with `O_CREAT` in `flags` makes a file of this mode: there no link of another user is
/// followed in a directory that all may write ([`host_path`]).
fn open_or_make(path: &Path, flags: OFlags, mode: Mode) -> io::Result<File> {
    let flags = flags | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
    let file = if flags.contains(OFlags::CREATE) {
        let place = host_path::find(path)?;
        // With O_EXCL any link is in the way, as for the kernel.
        let is_link = || {
            rustix::fs::lstat(path)
                .is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode) == FileType::Symlink)
        };
        if flags.contains(OFlags::EXCL) && is_link() {
            return Err(Errno::EXIST.into());
        }
        rustix::fs::openat(&place.dir, &place.name[..], flags | OFlags::NOFOLLOW, mode)?
    } else {
        rustix::fs::open(path, flags, mode)?
    };
    let file = File::from(file);
    let kind = file.metadata()?.file_type();
    if kind.is_dir() {
        return Err(io::Error::from(io::ErrorKind::IsADirectory));
    }
    if !kind.is_file() && !kind.is_block_device() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "neither a file nor a block device"));
    }
    // Reads and writes wait as always; io_uring would return early from a file with this flag.
    rustix::fs::fcntl_setfl(&file, rustix::fs::fcntl_getfl(&file)? - OFlags::NONBLOCK)?;
    Ok(file)
}

/// Opens a file or a raw device and locks it. `mode`: that of a file which is made.
pub(super) fn open_locked(path: &Path, flags: OFlags, write: bool, mode: Mode) -> io::Result<Opened> {
    // On a block device O_EXCL without O_CREAT claims it, so that a mounted one is refused.
    let flags = if is_raw(path) && write { flags | OFlags::EXCL } else { flags };
    let file = open_or_make(path, flags, mode)?;
    lock::lock(&file, write)?;
    let second = open(path, if write { OFlags::RDWR } else { OFlags::RDONLY })?;
    let id = FileId::of(&file)?;
    if FileId::of(&second)? != id {
        return Err(io::Error::other("another file replaced it while it was opened"));
    }
    Ok(Opened { file: second, lock: file, raw: matches!(id, Some(FileId::Raw(_))) })
}

/// Frees the space of a range of a file. Nothing happens where that is not possible.
pub(super) fn punch_hole(file: &File, at: u64, len: u64) -> io::Result<()> {
    tolerate(rustix::fs::fallocate(file, FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE, at, len))
}

/// `BLKDISCARD` of `linux/fs.h`: a call of group 0x12, number 119, whose argument is two 64-bit numbers.
const BLKDISCARD: rustix::ioctl::Opcode = rustix::ioctl::opcode::none(0x12, 119);

/// Discards a range (in whole sectors) of a raw device. Nothing happens where the device cannot.
pub(super) fn discard_raw(file: &File, at: u64, len: u64) -> io::Result<()> {
    // SAFETY: this call reads two 64-bit numbers, position and length in bytes, and writes no memory.
    tolerate(unsafe {
        rustix::ioctl::ioctl(file, rustix::ioctl::Setter::<BLKDISCARD, [u64; 2]>::new([at, len]))
    })
}

fn tolerate(result: rustix::io::Result<()>) -> io::Result<()> {
    match result {
        Ok(()) | Err(Errno::OPNOTSUPP | Errno::NOSYS | Errno::NOTTY) => Ok(()),
        Err(e) => Err(e.into()),
    }
}

/// Returns the size of a raw device's sectors in bytes.
pub(super) fn sector(file: &File) -> io::Result<u64> {
    Ok(u64::from(rustix::fs::ioctl_blksszget(file)?.max(1)))
}
