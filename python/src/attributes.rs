//! Owners, extended attributes, hard links, sizes, copies and the space of a volume: one function each.

use crate::volume::{OWNER, Volume};
use lanefs::{Replacement, SetAttr};
use pyo3::prelude::*;
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;

/// Bytes that a copy moves at a time.
const PIECE_BYTES: usize = 1 << 20;

/// Gives the inode of a path a further name.
#[pyfunction]
pub(crate) fn hard_link(
    py: Python<'_>,
    volume: &Bound<'_, Volume>,
    original: &[u8],
    link: &[u8],
) -> PyResult<()> {
    volume.get().change(py, original, |volume| volume.hard_link(original, link))
}

/// Sets the owner and the group, unless they are `None`.
#[pyfunction]
pub(crate) fn chown(
    py: Python<'_>,
    volume: &Bound<'_, Volume>,
    path: &[u8],
    uid: Option<u32>,
    gid: Option<u32>,
) -> PyResult<()> {
    let set = SetAttr { uid, gid, ..SetAttr::default() };
    volume.get().change(py, path, |volume| volume.set_attributes(path, &set))
}

/// Cuts a file to this size, or extends it by a hole.
#[pyfunction]
pub(crate) fn truncate(py: Python<'_>, volume: &Bound<'_, Volume>, path: &[u8], size: u64) -> PyResult<()> {
    let set = SetAttr { size: Some(size), ..SetAttr::default() };
    volume.get().change(py, path, |volume| volume.set_attributes(path, &set))
}

/// Returns the value of an extended attribute.
#[pyfunction]
pub(crate) fn getxattr<'py>(
    py: Python<'py>,
    volume: &Bound<'py, Volume>,
    path: &[u8],
    name: &[u8],
) -> PyResult<Vec<u8>> {
    volume.get().with(py, Some(path), |open| open.volume().xattr(path, name))
}

/// Sets an extended attribute.
#[pyfunction]
pub(crate) fn setxattr(
    py: Python<'_>,
    volume: &Bound<'_, Volume>,
    path: &[u8],
    name: &[u8],
    value: &[u8],
) -> PyResult<()> {
    volume.get().change(py, path, |volume| volume.set_xattr(path, name, value))
}

/// Removes an extended attribute.
#[pyfunction]
pub(crate) fn removexattr(
    py: Python<'_>,
    volume: &Bound<'_, Volume>,
    path: &[u8],
    name: &[u8],
) -> PyResult<()> {
    volume.get().change(py, path, |volume| volume.remove_xattr(path, name))
}

/// Lists the names of the extended attributes.
#[pyfunction]
pub(crate) fn listxattr(py: Python<'_>, volume: &Bound<'_, Volume>, path: &[u8]) -> PyResult<Vec<OsString>> {
    let names = volume.get().with(py, Some(path), |open| open.volume().xattrs(path))?;
    Ok(names.into_iter().map(OsString::from_vec).collect())
}

/// Copies the content and the permissions of a file; the target changes as a whole. Returns false, and
/// changes nothing, where both are one file.
#[pyfunction]
pub(crate) fn copy_file(
    py: Python<'_>,
    volume: &Bound<'_, Volume>,
    source: &[u8],
    target: &[u8],
) -> PyResult<bool> {
    volume.get().with_signals(py, Some(source), |open, signals| {
        open.check_writes()?;
        let from = open.volume().resolve(source)?;
        if open.volume().resolve(target).is_ok_and(|to| to.ino == from.ino) {
            return Ok(false);
        }
        let (mut new, mut at) = (Replacement::begin(open.shared(), target)?, 0);
        let mut piece = vec![0; PIECE_BYTES];
        loop {
            let got = open.volume().read(OWNER, from.ino, at, &mut piece)?;
            if got == 0 {
                break;
            }
            if signals.raised() {
                return Ok(true);
            }
            // Zeros are a hole of the copy.
            if piece[..got].iter().any(|byte| *byte != 0) {
                new.write_at(at, &piece[..got])?;
            }
            at += got as u64;
        }
        new.set_len(at)?;
        let perm = SetAttr { perm: Some(from.perm), ..SetAttr::default() };
        open.volume().setattr(OWNER, new.finish()?.ino, &perm)?;
        Ok(true)
    })
}

/// Returns the size of a block, blocks, free blocks, inodes, free inodes, and the longest name.
#[pyfunction]
pub(crate) fn statvfs(py: Python<'_>, volume: &Bound<'_, Volume>) -> PyResult<[u64; 6]> {
    let space = volume.get().with(py, None, |open| open.volume().statfs())?;
    let longest = u64::from(space.max_name);
    Ok([space.block_size, space.blocks, space.free_blocks, space.inodes, space.free_inodes, longest])
}
