//! Owner, extended attributes, mode and times of exported files.

use super::exporter::TreeExport;
use crate::host::timestamps;
use crate::job::count;
use crate::xattrs::{self, XattrTarget};
use lanefs::{Attr, FileKind};
use rustix::fd::{AsRawFd, OwnedFd};
use rustix::fs::{
    AtFlags, CWD, FileType, Gid, Mode, OFlags, Uid, chmodat, chownat, fchmod, fchown, fstat, futimens,
    openat, utimensat,
};
use rustix::io::Errno;
use std::ffi::CString;

type Result<T, E = Errno> = std::result::Result<T, E>;

impl TreeExport<'_> {
    /// Sets owner, extended attributes, mode and times of an open file or directory, in an order in which no
    /// step undoes another: a change of owner removes set-id bits and capabilities, and all steps but the
    /// last change times. `in_own_directory`: the export made the file, in a directory that it made, so this
    /// process owns the file.
    pub(super) fn set_open(&self, fd: &OwnedFd, attr: &Attr, in_own_directory: bool) -> Result<(), Errno> {
        let is_own = in_own_directory && attr.uid == self.uid && attr.gid == self.gid;
        let owned = is_own || self.owner_result(fchown(fd, Some(uid(attr)), Some(gid(attr))), attr)?;
        self.set_xattrs(&XattrTarget::Open(fd), attr);
        fchmod(fd, mode(attr, owned))?;
        futimens(fd, &timestamps(attr))
    }

    /// Does the same for a file that cannot be opened: `name` in `dir`.
    pub(super) fn set_named(&self, dir: &OwnedFd, name: &[u8], attr: &Attr) -> Result<(), Errno> {
        let chown = chownat(dir, name, Some(uid(attr)), Some(gid(attr)), AtFlags::SYMLINK_NOFOLLOW);
        let owned = self.owner_result(chown, attr)?;
        if let Ok(c_name) = CString::new(name) {
            self.set_xattrs(&XattrTarget::Name(dir, &c_name), attr);
        }
        if attr.kind != FileKind::Symlink {
            // Not every kernel has a chmod that refuses to follow links, so this one takes a descriptor that
            // only names the file.
            let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            let file = openat(dir, name, flags, Mode::empty())?;
            if FileType::from_raw_mode(fstat(&file)?.st_mode) == FileType::Symlink {
                return Err(Errno::LOOP);
            }
            let path = format!("/proc/self/fd/{}", file.as_raw_fd());
            chmodat(CWD, &path[..], mode(attr, owned), AtFlags::empty())?;
        }
        utimensat(dir, name, &timestamps(attr), AtFlags::SYMLINK_NOFOLLOW)
    }

    /// True where the file now has the owner of the volume's file. Without root the caller stays the owner,
    /// which is no failure.
    fn owner_result(&self, chown: Result<(), Errno>, attr: &Attr) -> Result<bool, Errno> {
        match chown {
            Ok(()) => Ok(true),
            Err(Errno::PERM) if !self.is_root => {
                count(&self.job.counters.owners_refused);
                Ok(attr.uid == self.uid && attr.gid == self.gid)
            }
            // Root of a user namespace cannot set owners outside it either.
            Err(Errno::INVAL | Errno::PERM) => {
                count(&self.job.counters.owners_refused);
                Ok(false)
            }
            Err(errno) => Err(errno),
        }
    }

    fn set_xattrs(&self, target: &XattrTarget<'_>, attr: &Attr) {
        let names = self.volume.listxattr(attr.ino).unwrap_or_default();
        for name in names {
            let value = self.volume.getxattr(attr.ino, &name);
            match value.map(|value| xattrs::set(target, &name, &value)) {
                Ok(Ok(())) => count(&self.job.counters.xattrs),
                _ => count(&self.job.counters.xattrs_refused),
            }
        }
    }
}

fn uid(attr: &Attr) -> Uid {
    Uid::from_raw(attr.uid)
}

fn gid(attr: &Attr) -> Gid {
    Gid::from_raw(attr.gid)
}

/// Returns the mode. Without the right owner it has no set-id bits, which would lend the rights of another
/// user.
fn mode(attr: &Attr, owned: bool) -> Mode {
    let perm = if owned { attr.perm } else { attr.perm & !0o6000 };
    Mode::from_raw_mode(perm.into())
}
