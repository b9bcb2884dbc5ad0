//! The root of a directory's lookups, which is a word in its inode.

use crate::attempt::edit::Edit;
use crate::files::inode::Inode;
use crate::vocabulary::error::Outcome;
use lanefs_format::{DirRoot, InodeSize};
use lanefs_store::View;

/// Decodes the root of a directory's lookups.
#[inline(always)]
pub(crate) fn root(node: &Inode<'_>) -> Outcome<DirRoot> {
    root_in(node.view)
}

/// Decodes as [`root`] does, for an inode that is known to be a directory's.
#[inline(always)]
pub(crate) fn root_in(inode: View<'_>) -> Outcome<DirRoot> {
    // The length of the view is the size of the inode.
    let size = if inode.len() == InodeSize::B128 as usize { InodeSize::B128 } else { InodeSize::B256 };
    Ok(DirRoot::decode(inode.get(size.dir_root()))?)
}

pub(super) fn set_root(edit: &mut Edit<'_>, node: Inode<'_>, root: DirRoot) {
    edit.tx.put(node.view, edit.store().inode_size().dir_root(), root.word());
}

/// True for a directory without entries.
pub(crate) fn is_empty(node: &Inode<'_>) -> Outcome<bool> {
    Ok(root(node)? == DirRoot::Empty)
}
