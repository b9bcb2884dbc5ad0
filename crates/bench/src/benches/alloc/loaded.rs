//! Check that the expected allocator serves this process.

use crate::error::{Error, Result};
use std::ffi::{CStr, OsStr, c_void};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// A loaded library.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Object {
    path: PathBuf,
    base: usize,
}

/// Checks that the library with `malloc` and `free` of this process is `expected` (`None`: the C library),
/// and returns it.
///
/// # Errors
/// [`Error::Library`] if it is another one: after a failed preload the loader prints a message, and the
/// program runs without.
pub(super) fn check_loaded(expected: Option<&Path>) -> Result<PathBuf> {
    let malloc = object_of(libc::malloc as *const c_void)?;
    let free = object_of(libc::free as *const c_void)?;
    let right = match expected {
        Some(path) => same_file(&malloc.path, path),
        None => malloc == object_of(libc::getpid as *const c_void)?,
    };
    if right && malloc == free {
        return Ok(malloc.path);
    }
    let wanted = expected.map_or("the C library".into(), |path| path.display().to_string());
    Err(Error::Library(format!(
        "malloc is that of {}, free that of {}, and not those of {wanted}: it was not preloaded, or does not have them",
        malloc.path.display(),
        free.path.display()
    )))
}

/// Finds the library that contains an address.
fn object_of(address: *const c_void) -> Result<Object> {
    let mut info = std::mem::MaybeUninit::<libc::Dl_info>::zeroed();
    // SAFETY: the call only compares the address, and `info` has room for the result.
    let found = unsafe { libc::dladdr(address, info.as_mut_ptr()) };
    // SAFETY: all bits zero are a value of this structure, and the call writes only valid values.
    let info = unsafe { info.assume_init() };
    if found == 0 || info.dli_fname.is_null() {
        return Err(Error::Library("the loader does not know which library has malloc".into()));
    }
    // SAFETY: the loader's name of a library ends with a NUL and lives as long as the library is loaded; none
    // is unloaded here.
    let name = unsafe { CStr::from_ptr(info.dli_fname) };
    let path = PathBuf::from(OsStr::from_bytes(name.to_bytes()));
    Ok(Object { path, base: info.dli_fbase as usize })
}

fn same_file(one: &Path, other: &Path) -> bool {
    matches!((one.canonicalize(), other.canonicalize()), (Ok(one), Ok(other)) if one == other)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_c_library_is_known_and_another_one_refused() {
        let library = check_loaded(None).unwrap();
        assert!(library.display().to_string().contains("libc"), "{library:?}");
        assert_eq!(check_loaded(Some(&library)).unwrap(), library);
        let refused = check_loaded(Some(&std::env::current_exe().unwrap())).unwrap_err();
        assert!(refused.to_string().contains("not preloaded"), "{refused}");
        assert!(check_loaded(Some(Path::new("/no/such/library.so"))).is_err());
    }
}
