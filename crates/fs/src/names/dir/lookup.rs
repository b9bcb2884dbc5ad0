//! Lookup of a name in a directory, and prefetching of the memory that a change of it touches.

use super::entry::{Dentry, Name};
use super::root::root;
use super::{index, small, tree, unindexed};
use crate::attempt::Core;
use crate::files::inode::Inode;
use crate::vocabulary::error::Outcome;
use lanefs_format::{BLOCK, BlockKind, DirRoot};
use lanefs_store::Store;

/// Finds a name.
pub(crate) fn find<'a>(core: &Core<'a>, node: &Inode<'a>, name: Name<'_>) -> Outcome<Option<Dentry<'a>>> {
    match root(node)? {
        DirRoot::Empty => Ok(None),
        DirRoot::Small(leaf) => small::find(core, node, leaf, name),
        DirRoot::Region(index) => in_region(core, index, name),
        DirRoot::Tree(block) => in_region(core, tree::descend(core, block, name.hash)?, name),
    }
}

/// Finds a name in the region of the index block at `at`.
fn in_region<'a>(core: &Core<'a>, at: u64, name: Name<'_>) -> Outcome<Option<Dentry<'a>>> {
    let index = core.store.block(at, BlockKind::Index)?;
    match index::find(core, index, name)? {
        None if unindexed::may_have(index, name.hash) => unindexed::find(core, index, name),
        found => Ok(found),
    }
}

/// The region of a name, and the memory that a change of it touches.
///
/// A change waits for a chain of cache lines: the index block of the region, the dummy entry that its header
/// names, the entry after the dummy. Each call prefetches the next of them, as early as its position is
/// known; all are hints.
#[derive(Clone, Copy)]
pub(crate) struct Region {
    index: Option<u64>,
}

impl Region {
    /// Finds the region and prefetches its header.
    pub(crate) fn of(core: &Core, node: &Inode<'_>, name: Name<'_>) -> Outcome<Region> {
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
        node: &Inode<'a>,
        name: Name<'_>,
    ) -> Outcome<Option<Dentry<'a>>> {
        match self.index {
            Some(index) => in_region(core, index, name),
            None => find(core, node, name),
        }
    }

    fn dummy(self, core: &Core) -> Option<u64> {
        let view = core.store.block(self.index?, BlockKind::Index).ok()?;
        Some(view.get(lanefs_format::dir::index::DUMMY))
    }

    /// Prefetches the dummy entry of the region.
    pub(crate) fn prefetch_dummy(self, core: &Core) {
        core.store.prefetch(self.dummy(core).unwrap_or(0));
    }

    /// Prefetches the entry after the dummy.
    pub(crate) fn prefetch_first(self, core: &Core) {
        let first = self.dummy(core).and_then(|at| Dentry::at(core, at).ok()).map(|dummy| dummy.next());
        core.store.prefetch(first.unwrap_or(0));
    }
}

/// Prefetches the lines that the removal of an entry and of its inode touches.
pub(crate) fn prefetch_removal(core: &Core, entry: &Dentry<'_>) {
    use lanefs_format::dir::entry as e;
    let at = entry.view.at();
    let inode = entry.ino().wrapping_mul(core.store.inode_size().bytes());
    let (table, offset) = Store::table_entry(inode & !(BLOCK - 1));
    let neighbours = [entry.view.get(e::NEXT), entry.view.get(e::PREVIOUS)];
    let leaf = at & !(BLOCK - 1);
    for line in neighbours.into_iter().chain([leaf, leaf + 64, inode, inode + 64, table + offset as u64]) {
        core.store.prefetch(line);
    }
}
