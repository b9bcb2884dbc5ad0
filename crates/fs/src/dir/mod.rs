//! Directories: entries in leaf blocks, in one split-ordered list, found through hash tree and region indexes.
//!
//! | form | when | a name is found through |
//! |---|---|---|
//! | empty | no entry, no block | |
//! | small | up to 28 entries (8 in 128 B inodes) in one leaf | tags in the inode |
//! | region | one hash region | its index block |
//! | tree | several regions | tree blocks, then the region's index block |
//!
//! Entries never move once written, so a place in the leaves is a stable cookie for `readdir`.

mod entry;
mod index;
mod leaf;
mod list;
mod many;
mod region;
mod small;
mod tree;

pub(crate) use entry::{Entry, Name};
pub(crate) use index::{bucket_at, probe_bucket};
pub(crate) use list::{leaf_entries, list};
pub(crate) use many::{Wanted, count, finish, look, prepare};
pub(crate) use small::{candidates, unit_of};
pub(crate) use tree::descend as region_of;

use crate::edit::{Core, Edit, Outcome};
use crate::inode::Node;
use lanefs_format::{BLOCK, BlockKind, DirRoot, FileKind, InodeSize};
use lanefs_store::View;

/// The root of a directory's lookups.
#[inline(always)]
pub(crate) fn root(node: &Node<'_>) -> Outcome<DirRoot> {
    root_in(node.view)
}

/// As [`root`], of an inode that is known to be a directory's.
#[inline(always)]
pub(crate) fn root_in(inode: View<'_>) -> Outcome<DirRoot> {
    // The inode's size is its view's.
    let size = if inode.len() == InodeSize::B128 as usize { InodeSize::B128 } else { InodeSize::B256 };
    Ok(DirRoot::decode(inode.get(size.dir_root()))?)
}

fn set_root(edit: &mut Edit<'_>, node: Node<'_>, root: DirRoot) {
    edit.tx.put(node.view, edit.store().inode_size().dir_root(), root.word());
}

/// True for a directory without entries.
pub(crate) fn is_empty(node: &Node<'_>) -> Outcome<bool> {
    Ok(root(node)? == DirRoot::Empty)
}

/// Finds a name.
pub(crate) fn find<'a>(core: &Core<'a>, node: &Node<'a>, name: Name<'_>) -> Outcome<Option<Entry<'a>>> {
    match root(node)? {
        DirRoot::Empty => Ok(None),
        DirRoot::Small(leaf) => small::find(core, node, leaf, name),
        DirRoot::Region(index) => index::find(core, index, name),
        DirRoot::Tree(block) => index::find(core, tree::descend(core, block, name.hash)?, name),
    }
}

/// The region in which a name belongs, and what is known of the memory that a change of it will touch.
///
/// A change waits for a chain of lines: the region's index block, the dummy that its header names, the entry behind the
/// dummy. Each call asks the processor for the next of them, as early as it can be known; all are hints.
#[derive(Clone, Copy)]
pub(crate) struct Region {
    index: Option<u64>,
}

impl Region {
    /// Finds the region and asks for its header.
    pub(crate) fn of(core: &Core, node: &Node<'_>, name: Name<'_>) -> Outcome<Region> {
        let index = match root(node)? {
            DirRoot::Region(index) => Some(index),
            DirRoot::Tree(block) => Some(tree::descend(core, block, name.hash)?),
            DirRoot::Empty | DirRoot::Small(_) => None,
        };
        core.store.prefetch(index.unwrap_or(0));
        Ok(Region { index })
    }

    /// Finds the name in its region.
    pub(crate) fn find<'a>(
        self,
        core: &Core<'a>,
        node: &Node<'a>,
        name: Name<'_>,
    ) -> Outcome<Option<Entry<'a>>> {
        match self.index {
            Some(index) => index::find(core, index, name),
            None => find(core, node, name),
        }
    }

    fn dummy(self, core: &Core) -> Option<u64> {
        let view = core.store.block(self.index?, BlockKind::Index).ok()?;
        Some(view.get(lanefs_format::dir::index::DUMMY))
    }

    /// Asks for the region's dummy.
    pub(crate) fn await_dummy(self, core: &Core) {
        core.store.prefetch(self.dummy(core).unwrap_or(0));
    }

    /// Asks for the entry behind the dummy.
    pub(crate) fn await_first(self, core: &Core) {
        let first = self.dummy(core).and_then(|at| Entry::at(core, at).ok()).map(|dummy| dummy.next());
        core.store.prefetch(first.unwrap_or(0));
    }
}

/// Asks for the lines that the removal of an entry and of the inode that it names will touch.
pub(crate) fn anticipate_removal(core: &Core, entry: &Entry<'_>) {
    use lanefs_format::dir::entry as e;
    let at = entry.view.at();
    let inode = entry.ino().wrapping_mul(core.store.inode_size().bytes());
    let (table, offset) = lanefs_store::Store::table_entry(inode & !(BLOCK - 1));
    let neighbours = [entry.view.get(e::NEXT), entry.view.get(e::PREVIOUS)];
    let leaf = at & !(BLOCK - 1);
    for line in neighbours.into_iter().chain([leaf, leaf + 64, inode, inode + 64, table + offset as u64]) {
        core.store.prefetch(line);
    }
}

/// Adds a name that is not there.
///
/// # Errors
/// No space, a full tree, too many collisions, or a damaged directory.
pub(crate) fn insert(
    edit: &mut Edit<'_>,
    node: Node<'_>,
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

/// Removes an entry that [`find`] returned. Gives back what it no longer needs.
pub(crate) fn remove(edit: &mut Edit<'_>, node: Node<'_>, entry: Entry<'_>) -> Outcome<()> {
    match root(&node)? {
        DirRoot::Small(leaf) => small::remove(edit, node, leaf, entry),
        _ => region::remove(edit, node, entry),
    }
}

/// Makes an entry name another inode (rename onto an existing name, exchange).
pub(crate) fn replace(edit: &mut Edit<'_>, entry: Entry<'_>, ino: u64, kind: FileKind) {
    use lanefs_format::dir::entry as e;
    edit.tx.put(entry.view, e::INODE, ino);
    edit.tx.put(entry.view, e::KIND, kind as u8);
}
