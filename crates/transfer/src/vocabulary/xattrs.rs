//! Extended attributes of the host's files.

use lanefs::host_xattr::list_at;
use rustix::fd::{AsFd, AsRawFd, OwnedFd};
use rustix::fs::{
    XattrFlags, fgetxattr, flistxattr, fremovexattr, fsetxattr, lgetxattr, llistxattr, lremovexattr,
    lsetxattr,
};
use rustix::io::Errno;
use std::ffi::{CStr, CString};

/// Size of the largest list and of the largest value in Linux, in bytes.
const MAX_BYTES: usize = 64 << 10;
/// Size of the list of most files that have attributes, in bytes.
const FEW_BYTES: usize = 256;

/// A file of the host, for calls on its extended attributes.
pub(crate) enum XattrTarget<'a> {
    /// An open file or directory.
    Open(&'a OwnedFd),
    /// A name in an open directory, for files that cannot be opened (symbolic links, fifos, sockets,
    /// devices). No call follows it where it is a link.
    Name(&'a OwnedFd, &'a CStr),
}

/// Returns a path of a name in an open directory, for calls that take no directory descriptor.
fn by_path(dir: &OwnedFd, name: &CStr) -> CString {
    let mut path = format!("/proc/self/fd/{}/", dir.as_fd().as_raw_fd()).into_bytes();
    path.extend_from_slice(name.to_bytes());
    // Neither part can hold a NUL.
    CString::new(path).unwrap_or_default()
}

/// The access control list of a file or directory.
pub(crate) const ACCESS_LIST: &[u8] = b"system.posix_acl_access";
/// The access control list that new files of a directory get. A transfer sets it once the directory is
/// complete, so that the files get the lists that they have, and no other.
pub(crate) const DEFAULT_LIST: &[u8] = b"system.posix_acl_default";

/// The capabilities of a program, which are those of whoever executes it.
pub(crate) const CAPABILITIES: &[u8] = b"security.capability";

/// True for attributes that transfers keep: `user.`, `security.`, `trusted.` and the POSIX ACLs (as raw
/// bytes). Others belong to the host's file system.
pub(crate) fn is_kept(name: &[u8]) -> bool {
    [&b"user."[..], b"security.", b"trusted."].iter().any(|prefix| name.starts_with(prefix))
        || name == ACCESS_LIST
        || name == DEFAULT_LIST
}

/// Buffers for a list and a value, reused from file to file.
pub(crate) struct XattrBuffers {
    list: Vec<u8>,
    value: Vec<u8>,
    /// The host lists attributes of a name in an open directory, without a path.
    lists_at: bool,
}

impl XattrBuffers {
    pub(crate) fn new() -> Self {
        XattrBuffers { list: vec![0; MAX_BYTES], value: vec![0; MAX_BYTES], lists_at: true }
    }

    /// True where `target` has attributes, or the host refuses the list.
    pub(crate) fn has_any(&mut self, target: &XattrTarget<'_>) -> bool {
        self.list(target) != Ok(0)
    }

    /// Reads the list of names and returns its length.
    ///
    /// # Errors
    /// The host refuses the list.
    fn list(&mut self, target: &XattrTarget<'_>) -> Result<usize, Errno> {
        // Most files have none or few. The kernel allocates the whole room for each list.
        let listed = match self.list_into(target, FEW_BYTES) {
            Err(Errno::RANGE) => self.list_into(target, MAX_BYTES),
            few => few,
        };
        match listed {
            // The file system has no attributes, or /proc is missing for a special file: there is nothing to
            // keep.
            Err(Errno::OPNOTSUPP | Errno::NOSYS | Errno::NOENT | Errno::PERM) => Ok(0),
            listed => listed,
        }
    }

    fn list_into(&mut self, target: &XattrTarget<'_>, room: usize) -> Result<usize, Errno> {
        let list = &mut self.list[..room];
        match target {
            XattrTarget::Open(fd) => flistxattr(fd, list),
            XattrTarget::Name(dir, name) if self.lists_at => match list_at(dir.as_fd(), name, list) {
                // An older kernel, or a filter of system calls that does not know this one.
                Err(Errno::NOSYS | Errno::PERM) => {
                    self.lists_at = false;
                    llistxattr(by_path(dir, name), list)
                }
                listed => listed,
            },
            XattrTarget::Name(dir, name) => llistxattr(by_path(dir, name), list),
        }
    }

    /// Passes each attribute of `target` to `take`. Returns the number of attributes that the host refused or
    /// that transfers do not keep.
    pub(crate) fn each(&mut self, target: &XattrTarget<'_>, mut take: impl FnMut(&[u8], &[u8])) -> u64 {
        let Ok(len) = self.list(target) else { return 1 };
        if len == 0 {
            return 0;
        }
        let path = match target {
            XattrTarget::Open(_) => None,
            XattrTarget::Name(dir, name) => Some(by_path(dir, name)),
        };
        let mut refused = 0;
        for name in self.list[..len].split(|byte| *byte == 0).filter(|name| !name.is_empty()) {
            let value = if is_kept(name) {
                match (target, &path) {
                    (XattrTarget::Open(fd), _) => fgetxattr(fd, name, &mut self.value[..]),
                    (_, Some(path)) => lgetxattr(path, name, &mut self.value[..]),
                    (_, None) => Err(Errno::NODATA),
                }
            } else {
                Err(Errno::OPNOTSUPP)
            };
            match value {
                Ok(len) => take(name, &self.value[..len]),
                Err(_) => refused += 1,
            }
        }
        refused
    }
}

/// Sets an attribute of a file of the host.
pub(crate) fn set(target: &XattrTarget<'_>, name: &[u8], value: &[u8]) -> Result<(), Errno> {
    match target {
        XattrTarget::Open(fd) => fsetxattr(fd, name, value, XattrFlags::empty()),
        XattrTarget::Name(dir, file) => lsetxattr(by_path(dir, file), name, value, XattrFlags::empty()),
    }
}

/// Removes the access control lists that a new file inherited from its directory's default. Most files have
/// none, which the errors report.
pub(crate) fn remove_inherited_acls(target: &XattrTarget<'_>) {
    for name in ["system.posix_acl_access", "system.posix_acl_default"] {
        let _ = match target {
            XattrTarget::Open(fd) => fremovexattr(fd, name),
            XattrTarget::Name(dir, file) => lremovexattr(by_path(dir, file), name),
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_known_namespaces_are_kept() {
        for name in ["user.a", "security.selinux", "trusted.x", "system.posix_acl_access"] {
            assert!(is_kept(name.as_bytes()), "{name}");
        }
        for name in ["system.nfs4_acl", "btrfs.compression", "userx", ""] {
            assert!(!is_kept(name.as_bytes()), "{name}");
        }
    }

    #[test]
    fn a_name_is_reached_through_its_directory() {
        let temp = tempfile::tempdir().unwrap();
        let dir = OwnedFd::from(std::fs::File::open(temp.path()).unwrap());
        std::fs::write(temp.path().join("f"), "x").unwrap();
        let target = XattrTarget::Name(&dir, c"f");
        if set(&target, b"user.lane", b"value").is_err() {
            eprintln!("SKIPPED: the temporary directory's file system has no extended attributes");
            return;
        }
        let of_path = || XattrBuffers { lists_at: false, ..XattrBuffers::new() };
        for mut buffers in [XattrBuffers::new(), of_path()] {
            let mut seen = Vec::new();
            let refused = buffers.each(&target, |name, value| seen.push((name.to_vec(), value.to_vec())));
            assert_eq!(refused, 0);
            assert_eq!(seen, [(b"user.lane".to_vec(), b"value".to_vec())]);
        }
        // A list that is longer than most.
        for number in 0..5 {
            let name = format!("user.{number}{}", "n".repeat(100));
            set(&target, name.as_bytes(), b"v").unwrap();
        }
        for mut buffers in [XattrBuffers::new(), of_path()] {
            let mut count = 0;
            assert_eq!(buffers.each(&target, |_, _| count += 1), 0);
            assert_eq!(count, 6);
        }
    }
}
