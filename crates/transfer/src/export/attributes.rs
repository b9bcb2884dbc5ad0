//! Owner, extended attributes, mode and times of exported files.

use super::exporter::TreeExport;
use crate::on_host::host::Attributes;
use crate::on_host::host_attributes::{set_mode_and_times, set_mode_and_times_of, set_owner, set_owner_of};
use crate::running::job::count;
use crate::vocabulary::xattrs::{self, XattrTarget};
use lanefs::Attr;
use rustix::fd::OwnedFd;
use rustix::io::Errno;
use std::ffi::CString;

impl TreeExport<'_> {
    /// Sets owner, extended attributes, mode and times of an open file or directory, in an order in which no
    /// step undoes another: a change of owner removes set-id bits and capabilities, and all steps but the
    /// last change times. `in_own_directory`: the export made the file, in a directory that it made, so this
    /// process owns the file.
    pub(super) fn set_open(&self, fd: &OwnedFd, attr: &Attr, in_own_directory: bool) -> Result<(), Errno> {
        let attributes = Attributes::from(attr);
        let is_own = in_own_directory && attr.uid == self.uid && attr.gid == self.gid;
        let owned = is_own || self.counted(set_owner(fd, &attributes)?);
        self.set_xattrs(&XattrTarget::Open(fd), attr);
        set_mode_and_times(fd, &attributes, owned)
    }

    /// Does the same for a file that cannot be opened: `name` in `dir`, of which nobody else can change the
    /// names.
    pub(super) fn set_named(&self, dir: &OwnedFd, name: &[u8], attr: &Attr) -> Result<(), Errno> {
        let attributes = Attributes::from(attr);
        let owned = self.counted(set_owner_of(dir, name, &attributes)?);
        if let Ok(c_name) = CString::new(name) {
            self.set_xattrs(&XattrTarget::Name(dir, &c_name), attr);
        }
        set_mode_and_times_of(dir, name, &attributes, owned)
    }

    /// Counts an owner that was refused.
    fn counted(&self, owned: bool) -> bool {
        if !owned {
            count(&self.job.counters.owners_refused);
        }
        owned
    }

    fn set_xattrs(&self, target: &XattrTarget<'_>, attr: &Attr) {
        let unread = |error: lanefs::Error| match error.is_damage() {
            true => {
                let what = format!("its extended attributes cannot be read from the volume: {error}");
                self.job.damage(format!("inode {}", attr.ino.0).into_bytes(), what);
            }
            false => count(&self.job.counters.xattrs_refused),
        };
        let names = self.volume.listxattr(attr.ino).unwrap_or_else(|error| {
            unread(error);
            Vec::new()
        });
        for name in names {
            match self.volume.getxattr(attr.ino, &name) {
                Ok(value) if xattrs::set(target, &name, &value).is_ok() => count(&self.job.counters.xattrs),
                Ok(_) => count(&self.job.counters.xattrs_refused),
                Err(error) => unread(error),
            }
        }
    }
}
