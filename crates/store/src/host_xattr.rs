//! Names of extended attributes of a name in an open directory.
//!
//! `llistxattr(2)` takes a path, and a path to a name in an open directory leads through `/proc/self/fd`:
//! five components, which take twice as long as the list itself. Linux has a call for that since 6.13, which
//! neither rustix nor the C library has yet.

use rustix::fd::{AsRawFd, BorrowedFd};
use rustix::io::Errno;
use std::ffi::CStr;

/// Number of the call, the same for all architectures that number calls as newer ones do.
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
const SYS_LISTXATTRAT: libc::c_long = 465;

/// Lists the extended attributes of `name` in `dir`, a link itself and not its target: each name and a NUL.
/// Returns the number of bytes.
///
/// # Errors
/// The host's; `ERANGE` where `list` is too short, `ENOSYS` where the kernel or this program has no such
/// call.
pub fn list_at(dir: BorrowedFd<'_>, name: &CStr, list: &mut [u8]) -> Result<usize, Errno> {
    // Without room the kernel would tell the length of the list.
    if list.is_empty() {
        return Err(Errno::RANGE);
    }
    call(dir, name, list)
}

#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
fn call(dir: BorrowedFd<'_>, name: &CStr, list: &mut [u8]) -> Result<usize, Errno> {
    // SAFETY: the kernel reads `name` up to its NUL, and writes no more than `list.len()` bytes to `list`,
    // which this function has for itself. Both are there until the call returns. The descriptor is open.
    let len = unsafe {
        libc::syscall(
            SYS_LISTXATTRAT,
            dir.as_raw_fd(),
            name.as_ptr(),
            libc::AT_SYMLINK_NOFOLLOW,
            list.as_mut_ptr(),
            list.len(),
        )
    };
    usize::try_from(len).map_err(|_| {
        let errno = std::io::Error::last_os_error().raw_os_error();
        errno.map_or(Errno::IO, Errno::from_raw_os_error)
    })
}

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
fn call(_: BorrowedFd<'_>, _: &CStr, _: &mut [u8]) -> Result<usize, Errno> {
    Err(Errno::NOSYS)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::{XattrFlags, lsetxattr};
    use std::os::fd::AsFd;

    #[test]
    fn a_list_is_that_of_the_name_or_there_is_no_such_call() {
        let temp = tempfile::tempdir().unwrap();
        std::fs::write(temp.path().join("f"), "x").unwrap();
        std::os::unix::fs::symlink("f", temp.path().join("link")).unwrap();
        let dir = std::fs::File::open(temp.path()).unwrap();
        let mut list = [0; 64];
        if list_at(dir.as_fd(), c"f", &mut list) == Err(Errno::NOSYS) {
            eprintln!("SKIPPED: the kernel has no listxattrat");
            return;
        }
        assert_eq!(list_at(dir.as_fd(), c"none", &mut list), Err(Errno::NOENT));
        if lsetxattr(temp.path().join("f"), "user.lane", b"value", XattrFlags::empty()).is_err() {
            eprintln!("SKIPPED: the temporary directory's file system has no extended attributes");
            return;
        }
        let len = list_at(dir.as_fd(), c"f", &mut list).unwrap();
        // The host may have attributes of its own, as of its security module.
        assert!(list[..len].split(|byte| *byte == 0).any(|name| name == b"user.lane"));
        let len = list_at(dir.as_fd(), c"link", &mut list).unwrap_or(0);
        assert!(!list[..len].split(|byte| *byte == 0).any(|name| name == b"user.lane"));
        assert_eq!(list_at(dir.as_fd(), c"f", &mut list[..4]), Err(Errno::RANGE));
        assert_eq!(list_at(dir.as_fd(), c"f", &mut []), Err(Errno::RANGE));
    }
}
