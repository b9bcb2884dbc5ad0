//! Host strings and paths as bytes and back, without loss.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

/// The bytes of a command-line argument.
pub fn of(text: &OsStr) -> &[u8] {
    text.as_bytes()
}

/// The bytes of paths inside a volume; where there are none, those of the working directory.
pub fn or_here(paths: &[OsString]) -> Vec<&[u8]> {
    if paths.is_empty() { vec![b"."] } else { paths.iter().map(|path| of(path)).collect() }
}

/// The bytes of a host path.
pub fn of_path(path: &Path) -> &[u8] {
    path.as_os_str().as_bytes()
}

/// Converts bytes to a host path.
pub fn to_path(bytes: &[u8]) -> PathBuf {
    PathBuf::from(OsString::from_vec(bytes.to_vec()))
}
