//! Resolution of one path, component by component.

use super::lookup;
use crate::attempt::Core;
use crate::files::inode::Inode;
use crate::files::perm::{SEARCH, access};
use crate::vocabulary::error::Outcome;
use crate::vocabulary::path::{split_first, split_last};
use crate::vocabulary::types::Caller;
use lanefs_format::{Code, FileKind, MAX_SYMLINKS_FOLLOWED};
use std::borrow::Cow;

/// Start of a resolution, and its treatment of a symbolic link in the last component.
pub(crate) struct Start<'a> {
    pub(crate) root: u64,
    pub(crate) base: u64,
    pub(crate) follow: bool,
    pub(crate) caller: &'a Caller,
}

/// Resolves a path from left to right. Symbolic links before the last component are always followed.
///
/// # Errors
/// [`Code::NotFound`] where the last component is missing, [`Code::ComponentNotFound`] for one before it,
/// [`Code::NotDirectory`], [`Code::SymlinkLoop`], [`Code::NameTooLong`], [`Code::AccessDenied`].
pub(crate) fn resolve(core: &Core, start: &Start<'_>, path: &[u8]) -> Outcome<(u64, FileKind)> {
    locate(core, start, path, |_, _, _| ())
}

/// Resolves as [`resolve`], and calls `last` with the directory of the last component, its name, and whether
/// a slash follows it, also where only that component is missing. A symbolic link that is followed is not the
/// last component; its target's is.
///
/// # Errors
/// Those of [`resolve`].
pub(crate) fn locate(
    core: &Core,
    start: &Start<'_>,
    path: &[u8],
    mut last: impl FnMut(u64, &[u8], bool),
) -> Outcome<(u64, FileKind)> {
    if path.is_empty() {
        return Err(Code::NotFound.into());
    }
    let mut text = Cow::Borrowed(path);
    let mut at = 0;
    let mut followed = 0;
    let from = |text: &[u8], here: u64| if text.first() == Some(&b'/') { start.root } else { here };
    let mut dir = from(path, start.base);
    let mut kind = Inode::load(core, dir)?.kind()?;
    while let Some((name, rest)) = split_first(&text[at..]) {
        if kind != FileKind::Directory {
            return Err(Code::NotDirectory.into());
        }
        let is_last = split_first(rest).is_none();
        let (ino, found) = match lookup::lookup(core, start.caller, dir, name) {
            Ok(found) => found,
            Err(lanefs_store::Fault::Code(Code::NotFound)) if !is_last => {
                return Err(Code::ComponentNotFound.into());
            }
            Err(fault) => {
                last(dir, name, !rest.is_empty());
                return Err(fault);
            }
        };
        let must_be_dir = !rest.is_empty();
        if found == FileKind::Symlink && (start.follow || must_be_dir) {
            followed += 1;
            if followed > MAX_SYMLINKS_FOLLOWED {
                return Err(Code::SymlinkLoop.into());
            }
            let mut target = lookup::readlink(core, ino)?;
            dir = from(&target, dir);
            kind = FileKind::Directory;
            target.extend_from_slice(rest);
            (text, at) = (Cow::Owned(target), 0);
            continue;
        }
        if is_last {
            last(dir, name, must_be_dir);
        }
        (dir, kind) = (ino, found);
        at = text.len() - rest.len();
    }
    // A slash at the end requires a directory.
    if kind != FileKind::Directory && text.last() == Some(&b'/') {
        return Err(Code::NotDirectory.into());
    }
    if start.caller.user.is_some() && text.ends_with(b"/.") {
        access(core, start.caller, &Inode::directory(core, dir)?, SEARCH)?;
    }
    Ok((dir, kind))
}

/// Returns the directory of a path's last component, and that component. The root directory has none, and is
/// refused with `code`.
///
/// # Errors
/// Those of [`resolve`] for the directory; a component that is missing is one before the last.
pub(crate) fn parent_of<'p>(
    core: &Core,
    start: &Start<'_>,
    path: &'p [u8],
    code: Code,
) -> Outcome<(u64, &'p [u8])> {
    if path.is_empty() {
        return Err(Code::NotFound.into());
    }
    let (dir, name) = split_last(path).ok_or(code)?;
    if dir.is_empty() {
        return Ok((start.base, name));
    }
    match resolve(core, start, dir) {
        Ok((ino, FileKind::Directory)) => Ok((ino, name)),
        Ok(_) => Err(Code::NotDirectory.into()),
        Err(lanefs_store::Fault::Code(Code::NotFound)) => Err(Code::ComponentNotFound.into()),
        Err(fault) => Err(fault),
    }
}
