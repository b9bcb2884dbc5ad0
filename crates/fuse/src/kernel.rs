//! The system calls that mount and unmount, or the helper that may make them for a user.

use crate::{Error, Options, Result};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::mount::{MountFlags, UnmountFlags};
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SocketFlags, SocketType,
};
use std::ffi::{CString, OsString};
use std::io::IoSliceMut;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::Path;
use std::process::{Command, Stdio};

/// The largest write, and read, that the kernel may ask for at once.
pub(crate) const MAX_WRITE: u32 = 1 << 20;
/// The type of file system that the table of mounts shows.
pub(crate) const TYPE: &str = "fuse.lanefs";
/// The program that mounts for users, and the package that has it.
const HELPER: &str = "fusermount3";
const DEVICE: &str = "/dev/fuse";

/// Mounts on `dir` and returns the connection to the kernel.
pub(crate) fn mount(dir: &Path, options: &Options) -> Result<OwnedFd> {
    if rustix::process::geteuid().is_root() {
        match directly(dir, options) {
            // Root without the capability, as in a container: the helper may have it.
            Err(Error::Host { errno: Errno::PERM, .. }) => {}
            done => return done,
        }
    }
    by_helper(dir, options)
}

fn directly(dir: &Path, options: &Options) -> Result<OwnedFd> {
    let flags = OFlags::RDWR | OFlags::CLOEXEC;
    let device = rustix::fs::open(DEVICE, flags, Mode::empty()).map_err(|errno| match errno {
        Errno::NOENT | Errno::NODEV => {
            Error::Helper(format!("no {DEVICE}: load the kernel's module with `modprobe fuse`"))
        }
        errno => Error::host(format!("opening {DEVICE}"), errno),
    })?;
    let (uid, gid) = (rustix::process::getuid().as_raw(), rustix::process::getgid().as_raw());
    // What root mounts is for everybody, as with any file system.
    let data = format!(
        "fd={},rootmode=40000,user_id={uid},group_id={gid},default_permissions,allow_other,max_read={MAX_WRITE}",
        device.as_raw_fd()
    );
    let data = CString::new(data).unwrap_or_default();
    let mut flags = MountFlags::empty();
    for (wanted, flag) in [
        (options.read_only, MountFlags::RDONLY),
        (!options.devices, MountFlags::NODEV),
        (!options.set_id, MountFlags::NOSUID),
        (!options.execute, MountFlags::NOEXEC),
        (!options.access_times, MountFlags::NOATIME),
        (options.access_times, MountFlags::RELATIME),
    ] {
        if wanted {
            flags |= flag;
        }
    }
    rustix::mount::mount(options.source.as_path(), dir, TYPE, flags, data.as_c_str())
        .map_err(|errno| Error::host(format!("mounting on {}", dir.display()), errno))?;
    Ok(device)
}

/// KiB that the kernel reads ahead of who reads a file in order: two of the largest requests, so that one is answered while the other is used.
const READ_AHEAD: u32 = 2 * (MAX_WRITE >> 10);

/// Has the kernel read further ahead than the 128 KiB that it offers every FUSE file system. Root alone may; without it reading is
/// slower, no more.
pub(crate) fn read_far_ahead(device: u64) {
    let (major, minor) = (rustix::fs::major(device), rustix::fs::minor(device));
    let setting = format!("/sys/class/bdi/{major}:{minor}/read_ahead_kb");
    if let Err(error) = std::fs::write(&setting, READ_AHEAD.to_string()) {
        log::debug!("{setting}: {error}");
    }
}

/// The helper mounts and sends the connection through a socket, whose number it is told.
fn by_helper(dir: &Path, options: &Options) -> Result<OwnedFd> {
    let socket = |errno| Error::host("making a pair of sockets", errno);
    // Without CLOEXEC: the helper inherits its end.
    let (ours, theirs) =
        rustix::net::socketpair(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::empty(), None)
            .map_err(socket)?;
    rustix::io::fcntl_setfd(&ours, rustix::io::FdFlags::CLOEXEC).map_err(socket)?;
    let child = Command::new(HELPER)
        .arg("-o")
        .arg(helper_options(options))
        .arg("--")
        .arg(dir)
        .env("_FUSE_COMMFD", theirs.as_raw_fd().to_string())
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|error| no_helper(&error))?;
    drop(theirs);
    let connection = receive(&ours);
    let output = child.wait_with_output().map_err(|error| Error::io(HELPER, &error))?;
    match connection {
        Some(connection) => Ok(connection),
        None => Err(said(&output.stderr)),
    }
}

fn no_helper(error: &std::io::Error) -> Error {
    if error.kind() == std::io::ErrorKind::NotFound {
        let why = "only root may mount without it; install the package fuse3, or mount as root";
        return Error::Helper(format!("{HELPER}: not found; {why}"));
    }
    Error::io(HELPER, error)
}

/// The helper's complaint, with what to do about the one that is most likely.
fn said(stderr: &[u8]) -> Error {
    let text = String::from_utf8_lossy(stderr);
    let text = text.trim();
    if text.contains("user_allow_other") {
        return Error::Helper(format!("{text} (root adds that line there; or leave allow_other out)"));
    }
    if text.contains("/dev/fuse") {
        return Error::Helper(format!(
            "{text} (users need it readable and writable: mode 0666, which udev sets)"
        ));
    }
    Error::Helper(if text.is_empty() { format!("{HELPER} failed") } else { text.to_owned() })
}

fn helper_options(options: &Options) -> OsString {
    let mut list = b"fsname=".to_vec();
    for byte in options.source.as_os_str().as_bytes() {
        if matches!(byte, b',' | b'\\') {
            list.push(b'\\');
        }
        list.push(*byte);
    }
    list.extend_from_slice(format!(",subtype=lanefs,default_permissions,max_read={MAX_WRITE}").as_bytes());
    for (wanted, text) in [
        (options.read_only, ",ro"),
        (options.allow_other, ",allow_other"),
        (!options.execute, ",noexec"),
        (!options.access_times, ",noatime"),
    ] {
        if wanted {
            list.extend_from_slice(text.as_bytes());
        }
    }
    OsString::from_vec(list)
}

/// The connection that comes through the socket; `None` where it is closed without one.
fn receive(socket: &OwnedFd) -> Option<OwnedFd> {
    let mut byte = [0];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    loop {
        let mut parts = [IoSliceMut::new(&mut byte)];
        match rustix::net::recvmsg(socket, &mut parts, &mut control, RecvFlags::CMSG_CLOEXEC) {
            Err(Errno::INTR) => {}
            Err(_) => return None,
            Ok(_) => break,
        }
    }
    control.drain().find_map(|message| match message {
        RecvAncillaryMessage::ScmRights(mut descriptors) => descriptors.next(),
        _ => None,
    })
}

/// How much force an unmount uses.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Force {
    /// Refused while anything is in use.
    None,
    /// Gone from sight at once; it ends when nothing is in use any more.
    Lazy,
}

/// Takes a mount away.
///
/// # Errors
/// [`Errno::BUSY`] where it is in use.
pub(crate) fn unmount(dir: &Path, force: Force) -> std::result::Result<(), Errno> {
    let flags = match force {
        Force::None => UnmountFlags::NOFOLLOW,
        Force::Lazy => UnmountFlags::NOFOLLOW | UnmountFlags::DETACH,
    };
    match rustix::mount::unmount(dir, flags) {
        Err(Errno::PERM) => unmount_by_helper(dir, force),
        done => done,
    }
}

fn unmount_by_helper(dir: &Path, force: Force) -> std::result::Result<(), Errno> {
    let mut command = Command::new(HELPER);
    command.arg("-u");
    if force == Force::Lazy {
        command.arg("-z");
    }
    let output = command.arg("--").arg(dir).stdin(Stdio::null()).output().map_err(|_| Errno::PERM)?;
    if output.status.success() {
        return Ok(());
    }
    // It has words only.
    let busy = String::from_utf8_lossy(&output.stderr).to_lowercase().contains("busy");
    Err(if busy { Errno::BUSY } else { Errno::PERM })
}
