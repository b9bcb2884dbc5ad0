//! System calls that mount and unmount, and the helper program that makes them for users without the
//! privilege.

use crate::error::{Error, Result};
use crate::options::Options;
use lanefs::AccessTimes;
use lanefs::escape::escape_path;
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::mount::{MountFlags, UnmountFlags};
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SocketFlags, SocketType,
};
use std::ffi::{CString, OsString};
use std::io::IoSliceMut;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::Path;
use std::process::{Command, Stdio};

/// Bytes of the largest write and read that the kernel may request.
pub(crate) const MAX_WRITE_BYTES: u32 = 1 << 20;
/// Type of file system in the table of mounts.
pub(crate) const FILE_SYSTEM_TYPE: &str = "fuse.lanefs";
/// Program that mounts for users; it is in the package fuse3.
const HELPER: &str = "fusermount3";
const DEVICE: &str = "/dev/fuse";

/// Mounts on `dir` and returns the connection to the kernel.
pub(crate) fn mount(dir: &Path, options: &Options) -> Result<OwnedFd> {
    if rustix::process::geteuid().is_root() {
        match mount_directly(dir, options) {
            // Root in a container may lack the capability, which the helper may have.
            Err(Error::Host { errno: Errno::PERM, .. }) => {}
            result => return result,
        }
    }
    mount_by_helper(dir, options)
}

/// Returns a further connection to the kernel's side of a mount: one that has a queue of replies of its own.
///
/// # Errors
/// The host's.
#[allow(unsafe_code, reason = "a control of the device, with a number as its argument")]
pub(crate) fn clone_connection(connection: BorrowedFd<'_>) -> std::io::Result<OwnedFd> {
    const FUSE_DEV_IOC_CLONE: rustix::ioctl::Opcode = rustix::ioctl::opcode::read::<u32>(229, 0);
    let further = rustix::fs::open(DEVICE, OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())?;
    let number = connection.as_raw_fd() as u32;
    // SAFETY: the control reads a number of four bytes, that of an open descriptor, and changes no memory of
    // this process.
    unsafe { rustix::ioctl::ioctl(&further, rustix::ioctl::Setter::<FUSE_DEV_IOC_CLONE, u32>::new(number))? };
    Ok(further)
}

/// Mounts by system calls.
fn mount_directly(dir: &Path, options: &Options) -> Result<OwnedFd> {
    let flags = OFlags::RDWR | OFlags::CLOEXEC;
    let device = rustix::fs::open(DEVICE, flags, Mode::empty()).map_err(|errno| match errno {
        Errno::NOENT | Errno::NODEV => {
            Error::Helper(format!("no {DEVICE}: load the kernel's module with `modprobe fuse`"))
        }
        errno => Error::host(format!("opening {DEVICE}"), errno),
    })?;
    let (uid, gid) = (rustix::process::getuid().as_raw(), rustix::process::getgid().as_raw());
    // All users may use a mount of root, as with any file system.
    let data = format!(
        "fd={},rootmode=40000,user_id={uid},group_id={gid},default_permissions,allow_other,max_read={MAX_WRITE_BYTES}",
        device.as_raw_fd()
    );
    let data = CString::new(data).unwrap_or_default();
    rustix::mount::mount(options.source.as_path(), dir, FILE_SYSTEM_TYPE, flags_of(options), data.as_c_str())
        .map_err(|errno| Error::host(format!("mounting on {}", escape_path(dir)), errno))?;
    Ok(device)
}

/// Returns the flags of mount(2) for options.
fn flags_of(options: &Options) -> MountFlags {
    let chosen = [
        (options.read_only, MountFlags::RDONLY),
        (!options.devices, MountFlags::NODEV),
        (!options.set_id, MountFlags::NOSUID),
        (!options.execute, MountFlags::NOEXEC),
        (options.access_times == AccessTimes::Never, MountFlags::NOATIME),
        (options.access_times == AccessTimes::Relative, MountFlags::RELATIME),
        (options.access_times == AccessTimes::Always, MountFlags::STRICTATIME),
        (!options.directory_access_times, MountFlags::NODIRATIME),
    ];
    chosen.into_iter().filter(|(wanted, _)| *wanted).map(|(_, flag)| flag).collect()
}

/// Changes the flags of a mount and of its file system.
///
/// # Errors
/// [`Errno::BUSY`]: the mount cannot become read-only, because a file is open for writing or has lost its
/// last name while open.
pub(crate) fn remount(dir: &Path, options: &Options) -> rustix::io::Result<()> {
    rustix::mount::mount_remount(dir, flags_of(options), c"")
}

/// Mounts the volume of the mount on `first` on `dir`, too, with the flags of that mount.
pub(crate) fn bind(first: &Path, dir: &Path) -> rustix::io::Result<()> {
    rustix::mount::mount_bind(first, dir)
}

/// Changes the flags of one mount of a file system: those that `kept` has, a list of the kernel's table,
/// stay, and the options can only add to them.
pub(crate) fn restrict(mount: &Path, kept: &str, options: &Options) -> rustix::io::Result<()> {
    let kept: MountFlags = kept.split(',').filter_map(restriction).collect();
    rustix::mount::mount_remount(mount, MountFlags::BIND | kept | flags_of(options), c"")
}

/// The flag of an option that takes something from the users of a mount.
fn restriction(option: &str) -> Option<MountFlags> {
    Some(match option {
        "ro" => MountFlags::RDONLY,
        "nodev" => MountFlags::NODEV,
        "nosuid" => MountFlags::NOSUID,
        "noexec" => MountFlags::NOEXEC,
        "nosymfollow" => MountFlags::NOSYMFOLLOW,
        _ => return None,
    })
}

/// Readahead of the kernel in KiB: two of the largest requests, so that the server handles one while the
/// reader uses the other.
const READAHEAD_KIB: u32 = 2 * (MAX_WRITE_BYTES >> 10);

/// Raises the kernel's readahead above the default of 128 KiB for FUSE file systems. Only root may do this;
/// without it, sequential reads are slower.
pub(crate) fn raise_readahead(device: u64) {
    let (major, minor) = (rustix::fs::major(device), rustix::fs::minor(device));
    let setting = format!("/sys/class/bdi/{major}:{minor}/read_ahead_kb");
    if let Err(error) = std::fs::write(&setting, READAHEAD_KIB.to_string()) {
        log::debug!("{setting}: {error}");
    }
}

/// Mounts by the helper, which returns the connection through a socket that it inherits.
fn mount_by_helper(dir: &Path, options: &Options) -> Result<OwnedFd> {
    let socket = |errno| Error::host("making a pair of sockets", errno);
    // Without CLOEXEC, so that the helper inherits its end.
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
        None => Err(helper_error(&output.stderr)),
    }
}

/// Builds the error for a helper that cannot be started.
fn no_helper(error: &std::io::Error) -> Error {
    if error.kind() == std::io::ErrorKind::NotFound {
        let why = "only root may mount without it; install the package fuse3, or mount as root";
        return Error::Helper(format!("{HELPER}: not found; {why}"));
    }
    Error::io(HELPER, error)
}

/// Converts the helper's message to an error, with advice for the likely causes.
fn helper_error(stderr: &[u8]) -> Error {
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

/// Returns the options for the helper's command line.
fn helper_options(options: &Options) -> OsString {
    let mut list = b"fsname=".to_vec();
    for byte in options.source.as_os_str().as_bytes() {
        if matches!(byte, b',' | b'\\') {
            list.push(b'\\');
        }
        list.push(*byte);
    }
    list.extend_from_slice(
        format!(",subtype=lanefs,default_permissions,max_read={MAX_WRITE_BYTES}").as_bytes(),
    );
    for (wanted, text) in [
        (options.read_only, ",ro"),
        (options.allow_other, ",allow_other"),
        (!options.execute, ",noexec"),
        (options.access_times == AccessTimes::Never, ",noatime"),
        (options.access_times == AccessTimes::Always, ",strictatime"),
        (!options.directory_access_times, ",nodiratime"),
    ] {
        if wanted {
            list.extend_from_slice(text.as_bytes());
        }
    }
    OsString::from_vec(list)
}

/// Receives the connection from the socket; `None` where the helper closes it without one.
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

/// Way to unmount.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum UnmountMode {
    /// Fails while the mount is in use.
    Normal,
    /// Detaches the mount at once; it ends when it is no longer in use.
    Lazy,
}

/// Unmounts `dir`.
///
/// # Errors
/// [`Errno::BUSY`]: the mount is in use.
pub(crate) fn unmount(dir: &Path, mode: UnmountMode) -> std::result::Result<(), Errno> {
    let flags = match mode {
        UnmountMode::Normal => UnmountFlags::NOFOLLOW,
        UnmountMode::Lazy => UnmountFlags::NOFOLLOW | UnmountFlags::DETACH,
    };
    match rustix::mount::unmount(dir, flags) {
        Err(Errno::PERM) => unmount_by_helper(dir, mode),
        result => result,
    }
}

/// Unmounts by the helper, for users who mounted by it.
fn unmount_by_helper(dir: &Path, mode: UnmountMode) -> std::result::Result<(), Errno> {
    let mut command = Command::new(HELPER);
    command.arg("-u");
    if mode == UnmountMode::Lazy {
        command.arg("-z");
    }
    let output = command.arg("--").arg(dir).stdin(Stdio::null()).output().map_err(|_| Errno::PERM)?;
    if output.status.success() {
        return Ok(());
    }
    // The helper reports its error as text only.
    let busy = String::from_utf8_lossy(&output.stderr).to_lowercase().contains("busy");
    Err(if busy { Errno::BUSY } else { Errno::PERM })
}
