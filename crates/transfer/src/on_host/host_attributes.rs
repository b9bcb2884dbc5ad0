//! Owner, mode and times of files of the host, in an order in which no step undoes another: a change of owner
//! removes set-id bits, and all steps but the last change times.
//!
//! Files that can be opened are changed through their descriptor. A name is used only in a directory of which
//! nobody else can change the names.

use super::host::{Attributes, timestamps};
use rustix::fd::{AsFd, AsRawFd, OwnedFd};
use rustix::fs::{
    AtFlags, CWD, FileType, Gid, Mode, OFlags, Uid, chmodat, chownat, fchmod, fchown, fstat, futimens,
    openat, utimensat,
};
use rustix::io::Errno;

/// Sets owner and group of an open file. Returns whether it has them: this user may not be allowed to give
/// files away.
///
/// # Errors
/// The host's.
pub fn set_owner(fd: impl AsFd, attributes: &Attributes) -> Result<bool, Errno> {
    let (uid, gid) = owner(attributes);
    owner_result(fchown(fd, Some(uid), Some(gid)), attributes)
}

/// As [`set_owner`], of a name in a directory of which nobody else can change the names.
///
/// # Errors
/// The host's.
pub fn set_owner_of(dir: &OwnedFd, name: &[u8], attributes: &Attributes) -> Result<bool, Errno> {
    let (uid, gid) = owner(attributes);
    owner_result(chownat(dir, name, Some(uid), Some(gid), AtFlags::SYMLINK_NOFOLLOW), attributes)
}

fn owner(attributes: &Attributes) -> (Uid, Gid) {
    (Uid::from_raw(attributes.uid), Gid::from_raw(attributes.gid))
}

/// True where the file has the owner. A user without root stays the owner, as with cp(1), and root of a user
/// namespace cannot set owners outside it; neither is a failure.
fn owner_result(chown: Result<(), Errno>, attributes: &Attributes) -> Result<bool, Errno> {
    match chown {
        Ok(()) => Ok(true),
        Err(Errno::PERM | Errno::INVAL) => Ok(attributes.uid == rustix::process::geteuid().as_raw()
            && attributes.gid == rustix::process::getegid().as_raw()),
        Err(errno) => Err(errno),
    }
}

/// Sets mode and times of an open file. `owned`: it has the owner that the attributes name; it gets no set-id
/// bits otherwise.
///
/// # Errors
/// The host's.
pub fn set_mode_and_times(fd: impl AsFd, attributes: &Attributes, owned: bool) -> Result<(), Errno> {
    fchmod(&fd, mode(attributes, owned))?;
    set_times(fd, attributes)
}

/// Sets the times of an open file.
///
/// # Errors
/// The host's.
pub fn set_times(fd: impl AsFd, attributes: &Attributes) -> Result<(), Errno> {
    futimens(fd, &timestamps(attributes))
}

/// As [`set_mode_and_times`], of a name in a directory of which nobody else can change the names. A symbolic
/// link has no mode.
///
/// # Errors
/// The host's.
pub fn set_mode_and_times_of(
    dir: &OwnedFd,
    name: &[u8],
    attributes: &Attributes,
    owned: bool,
) -> Result<(), Errno> {
    // Not every kernel has a chmod that refuses to follow links, so this one takes a descriptor that only
    // names the file.
    let file = openat(dir, name, OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty())?;
    if FileType::from_raw_mode(fstat(&file)?.st_mode) != FileType::Symlink {
        let path = format!("/proc/self/fd/{}", file.as_raw_fd());
        chmodat(CWD, &path[..], mode(attributes, owned), AtFlags::empty())?;
    }
    utimensat(dir, name, &timestamps(attributes), AtFlags::SYMLINK_NOFOLLOW)
}

/// Returns the mode. Without the right owner it has no set-id bits, which would lend the rights of another
/// user.
fn mode(attributes: &Attributes, owned: bool) -> Mode {
    let perm = if owned { attributes.perm } else { attributes.perm & !0o6000 };
    Mode::from_raw_mode(perm.into())
}
