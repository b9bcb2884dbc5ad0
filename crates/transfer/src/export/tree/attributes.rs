//! Owner, extended attributes, mode and times of what was exported.

use super::Export;
use crate::host::timestamps;
use crate::import::OWNER;
use crate::run::count;
use crate::xattrs::{self, Target};
use lanefs::{Attr, FileKind};
use rustix::fd::{AsRawFd, OwnedFd};
use rustix::fs::{
    AtFlags, CWD, FileType, Gid, Mode, OFlags, Uid, chmodat, chownat, fchmod, fchown, fstat, futimens,
    openat, utimensat,
};
use rustix::io::Errno;
use std::ffi::CString;

type Result<T, E = Errno> = std::result::Result<T, E>;

impl Export<'_> {
    /// Owner, extended attributes, mode and times of an open file or directory, in the order in which none undoes
    /// another: a change of owner takes set-id bits and capabilities away, and all but the last change times.
    /// `in_own_directory`: it was made by us in a directory made by us, so it is ours already.
    pub(super) fn set_open(&self, fd: &OwnedFd, attr: &Attr, in_own_directory: bool) -> Result<(), Errno> {
        let ours = in_own_directory && attr.uid == self.uid && attr.gid == self.gid;
        let owned = ours || self.owner_result(fchown(fd, Some(uid(attr)), Some(gid(attr))), attr)?;
        self.set_xattrs(&Target::Open(fd), attr);
        fchmod(fd, mode(attr, owned))?;
        futimens(fd, &timestamps(attr))
    }

    /// The same for what cannot be opened: `name` in `dir`.
    pub(super) fn set_named(&self, dir: &OwnedFd, name: &[u8], attr: &Attr) -> Result<(), Errno> {
        let chown = chownat(dir, name, Some(uid(attr)), Some(gid(attr)), AtFlags::SYMLINK_NOFOLLOW);
        let owned = self.owner_result(chown, attr)?;
        if let Ok(c_name) = CString::new(name) {
            self.set_xattrs(&Target::Name(dir, &c_name), attr);
        }
        if attr.kind != FileKind::Symlink {
            // No chmod refuses to follow links on all kernels, so it goes by a descriptor that only names the file.
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

    /// True where the owner is the volume's now. Without root the files stay one's own, and that is no failure.
    fn owner_result(&self, chown: Result<(), Errno>, attr: &Attr) -> Result<bool, Errno> {
        match chown {
            Ok(()) => Ok(true),
            Err(Errno::PERM) if !self.is_root => {
                count(&self.run.counters.owners_refused);
                Ok(attr.uid == self.uid && attr.gid == self.gid)
            }
            // Owners outside a user namespace cannot be set by its root either.
            Err(Errno::INVAL | Errno::PERM) => {
                count(&self.run.counters.owners_refused);
                Ok(false)
            }
            Err(errno) => Err(errno),
        }
    }

    fn set_xattrs(&self, target: &Target<'_>, attr: &Attr) {
        let names = self.volume.listxattr(attr.ino).unwrap_or_default();
        for name in names {
            let value = self.volume.getxattr(&OWNER, attr.ino, &name);
            match value.map(|value| xattrs::set(target, &name, &value)) {
                Ok(Ok(())) => count(&self.run.counters.xattrs),
                _ => count(&self.run.counters.xattrs_refused),
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

/// The mode; without set-id bits where the owner is another, who would lend his rights.
fn mode(attr: &Attr, owned: bool) -> Mode {
    let perm = if owned { attr.perm } else { attr.perm & !0o6000 };
    Mode::from_raw_mode(perm.into())
}
