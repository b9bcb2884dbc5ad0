//! Extended attributes of the host's files.

use rustix::fd::{AsFd, AsRawFd, OwnedFd};
use rustix::fs::{
    XattrFlags, fgetxattr, flistxattr, fremovexattr, fsetxattr, lgetxattr, llistxattr, lremovexattr,
    lsetxattr,
};
use rustix::io::Errno;
use std::ffi::{CStr, CString};

/// The largest list and the largest value that Linux gives out.
const LIMIT: usize = 64 << 10;

/// A file whose attributes are meant.
pub(crate) enum Target<'a> {
    /// An open file or directory.
    Open(&'a OwnedFd),
    /// A name in an open directory: for what cannot be opened (symbolic links, fifos, sockets, devices). Never
    /// followed where it is a link.
    Name(&'a OwnedFd, &'a CStr),
}

/// Path by which a name in an open directory reaches calls that know no directory descriptor.
fn by_path(dir: &OwnedFd, name: &CStr) -> CString {
    let mut path = format!("/proc/self/fd/{}/", dir.as_fd().as_raw_fd()).into_bytes();
    path.extend_from_slice(name.to_bytes());
    // Neither part can hold a NUL.
    CString::new(path).unwrap_or_default()
}

/// True for what is kept: `user.`, `security.`, `trusted.` and the POSIX ACLs (as raw bytes). Others belong to the
/// host's file system.
pub(crate) fn is_kept(name: &[u8]) -> bool {
    [&b"user."[..], b"security.", b"trusted."].iter().any(|prefix| name.starts_with(prefix))
        || name == b"system.posix_acl_access"
        || name == b"system.posix_acl_default"
}

/// Room for a list and a value, reused from file to file.
pub(crate) struct XattrBuffers {
    list: Vec<u8>,
    value: Vec<u8>,
}

impl XattrBuffers {
    pub(crate) fn new() -> Self {
        XattrBuffers { list: vec![0; LIMIT], value: vec![0; LIMIT] }
    }

    /// Has `target` attributes, or does the host not tell?
    pub(crate) fn has_any(&mut self, target: &Target<'_>) -> bool {
        self.list(target) != Ok(0)
    }

    /// Fills in the list of names: its length.
    ///
    /// # Errors
    /// The host does not tell it.
    fn list(&mut self, target: &Target<'_>) -> Result<usize, Errno> {
        let listed = match target {
            Target::Open(fd) => flistxattr(fd, &mut self.list[..]),
            Target::Name(dir, name) => llistxattr(by_path(dir, name), &mut self.list[..]),
        };
        match listed {
            // A file system without attributes, or no /proc to reach a special file by: nothing to be kept.
            Err(Errno::OPNOTSUPP | Errno::NOSYS | Errno::NOENT | Errno::PERM) => Ok(0),
            listed => listed,
        }
    }

    /// Gives each attribute of `target` to `take`, and returns how many the host did not give out or that are not
    /// kept.
    pub(crate) fn each(&mut self, target: &Target<'_>, mut take: impl FnMut(&[u8], &[u8])) -> u64 {
        let path = match target {
            Target::Open(_) => None,
            Target::Name(dir, name) => Some(by_path(dir, name)),
        };
        let Ok(len) = self.list(target) else { return 1 };
        let mut refused = 0;
        for name in self.list[..len].split(|byte| *byte == 0).filter(|name| !name.is_empty()) {
            let value = if is_kept(name) {
                match (target, &path) {
                    (Target::Open(fd), _) => fgetxattr(fd, name, &mut self.value[..]),
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
pub(crate) fn set(target: &Target<'_>, name: &[u8], value: &[u8]) -> Result<(), Errno> {
    match target {
        Target::Open(fd) => fsetxattr(fd, name, value, XattrFlags::empty()),
        Target::Name(dir, file) => lsetxattr(by_path(dir, file), name, value, XattrFlags::empty()),
    }
}

/// Takes back the access control lists that a new file got from its directory's default. Most have none, which is what
/// the errors say.
pub(crate) fn shed_inherited(target: &Target<'_>) {
    for name in ["system.posix_acl_access", "system.posix_acl_default"] {
        let _ = match target {
            Target::Open(fd) => fremovexattr(fd, name),
            Target::Name(dir, file) => lremovexattr(by_path(dir, file), name),
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
        let target = Target::Name(&dir, c"f");
        if set(&target, b"user.lane", b"value").is_err() {
            eprintln!("SKIPPED: the temporary directory's file system has no extended attributes");
            return;
        }
        let mut seen = Vec::new();
        let refused =
            XattrBuffers::new().each(&target, |name, value| seen.push((name.to_vec(), value.to_vec())));
        assert_eq!(refused, 0);
        assert_eq!(seen, [(b"user.lane".to_vec(), b"value".to_vec())]);
    }
}
