//! Adding, removing and replacing an entry of a directory.

use super::entry::{Dentry, Name};
use super::root::root;
use super::{region, small};
use crate::attempt::edit::Edit;
use crate::files::inode::Inode;
use crate::mounted::moves::MoveCause;
use crate::vocabulary::error::Outcome;
use lanefs_format::{DirRoot, FileKind};

/// Adds a name that is not there.
///
/// # Errors
/// No space, a full tree, or a damaged directory.
pub(crate) fn insert(
    edit: &mut Edit<'_>,
    node: Inode<'_>,
    name: Name<'_>,
    ino: u64,
    kind: FileKind,
) -> Outcome<()> {
    if root(&node)? == DirRoot::Empty {
        small::begin(edit, node)?;
    }
    if let DirRoot::Small(leaf) = root(&node)? {
        if small::insert(edit, node, leaf, name, ino, kind)? {
            return Ok(());
        }
        region::from_small(edit, node, leaf)?;
    }
    region::insert(edit, node, name, ino, kind)
}

/// Removes an entry that [`find`](super::find) returned. Frees the space that it used.
pub(crate) fn remove(edit: &mut Edit<'_>, node: Inode<'_>, entry: Dentry<'_>) -> Outcome<()> {
    edit.lose_name(entry.ino(), entry.kind(), MoveCause::Remove);
    match root(&node)? {
        DirRoot::Small(leaf) => small::remove(edit, node, leaf, entry),
        _ => region::remove(edit, node, entry),
    }
}

/// Makes an entry name another inode (rename onto an existing name, exchange).
pub(crate) fn replace(edit: &mut Edit<'_>, entry: Dentry<'_>, ino: u64, kind: FileKind) {
    use lanefs_format::dir::entry as e;
    edit.lose_name(entry.ino(), entry.kind(), MoveCause::Replace);
    edit.tx.put(entry.view, e::INODE, ino);
    edit.tx.put(entry.view, e::KIND, kind as u8);
}
