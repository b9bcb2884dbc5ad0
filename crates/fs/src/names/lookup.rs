//! Reading of names: lookup, and the targets of symbolic links.

use super::dir::{self, Name};
use crate::attempt::Core;
use crate::files::data;
use crate::files::inode::Inode;
use crate::files::perm::{SEARCH, access};
use crate::vocabulary::error::Outcome;
use crate::vocabulary::types::Caller;
use lanefs_format::{Code, FileKind, MAX_NAME, MAX_SYMLINK};
use lanefs_store::Fault;

/// Checks that a directory can hold a name.
///
/// # Errors
/// [`Code::NameTooLong`]; [`Code::NotFound`] for an empty name; [`Code::Invalid`] for one with a slash or a
/// NUL.
#[inline]
pub(crate) fn check_name(name: &[u8]) -> Outcome<()> {
    if name.len() > MAX_NAME {
        return Err(Code::NameTooLong.into());
    }
    if name.is_empty() {
        return Err(Code::NotFound.into());
    }
    if memchr::memchr2(b'/', 0, name).is_some() {
        return Err(Code::Invalid.into());
    }
    Ok(())
}

/// Looks up the inode and type of a name, including `.` and `..`.
#[inline]
pub(crate) fn lookup(core: &Core, caller: &Caller, dir: u64, name: &[u8]) -> Outcome<(u64, FileKind)> {
    let node = Inode::directory(core, dir)?;
    access(core, caller, &node, SEARCH)?;
    match name {
        b"." => return Ok((dir, FileKind::Directory)),
        b".." => return Ok((node.parent(), FileKind::Directory)),
        _ => check_name(name)?,
    }
    let entry = dir::find(core, &node, Name::new(core.seed, name))?.ok_or(Code::NotFound)?;
    Ok((entry.ino(), entry.kind()?))
}

/// Returns the target of a symbolic link.
pub(crate) fn readlink(core: &Core, ino: u64) -> Outcome<Vec<u8>> {
    let node = Inode::load(core, ino)?;
    if node.kind()? != FileKind::Symlink {
        return Err(Code::Invalid.into());
    }
    let size = node.size();
    if size > MAX_SYMLINK as u64 {
        return Err(Fault::damaged(node.view.at(), "a symbolic link that is too long"));
    }
    let mut target = vec![0; size as usize];
    data::read(core, node, 0, &mut target)?;
    Ok(target)
}
