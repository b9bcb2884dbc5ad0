//! Calls of the volume that all transfers share.

use crate::error::{Error, Result};
use crate::name::shown;
use lanefs::{Attr, FileSystem, MkdirAll};

/// Returns the directory `dest` of the volume; makes it and its parents where they do not exist.
pub(crate) fn destination(volume: &dyn FileSystem, dest: &[u8]) -> Result<Attr> {
    volume.mkdir_all(MkdirAll::default(), dest).map_err(|source| {
        Error::volume(format!("cannot make the directory '{}' in the volume", shown(dest)), source)
    })
}
