//! Tree blocks: from a hash to the index block of its region.

use super::root::{root, set_root};
use crate::attempt::Core;
use crate::attempt::edit::Edit;
use crate::files::inode::{Inode, add_blocks};
use crate::space;
use crate::vocabulary::error::Outcome;
use lanefs_format::dir::{MAX_TREE_LEVEL, TREE_MAX, TREE_MERGED, tree as t};
use lanefs_format::{BlockKind, Code, DirRoot};
use lanefs_store::{Fault, View};

/// A tree block with fewer children looks for a neighbour to merge with.
const TREE_LOW: usize = 64;

// A merged block has room, and is not merged again at once.
const _: () =
    assert!(2 * TREE_LOW <= TREE_MERGED && TREE_MERGED <= TREE_MAX && TREE_MAX <= u8::MAX as usize + 1);

/// Form of a child that is a region.
pub(crate) const REGION: u32 = 2;
/// Form of a child that is a tree block.
pub(crate) const TREE: u32 = 3;

/// A child, as its tree block describes it.
#[derive(Clone, Copy)]
pub(crate) struct Child {
    pub(crate) lowest: u32,
    pub(crate) form: u32,
    pub(crate) at: u64,
}

/// A tree block and one of its children.
#[derive(Clone, Copy)]
pub(super) struct TreeStep {
    pub(super) block: u64,
    pub(super) child: usize,
}

/// The path from the root to a region: at most [`MAX_TREE_LEVEL`] steps.
#[derive(Clone, Copy)]
pub(super) struct TreePath {
    steps: [TreeStep; MAX_TREE_LEVEL as usize],
    len: usize,
}

impl TreePath {
    pub(super) const EMPTY: TreePath =
        TreePath { steps: [TreeStep { block: 0, child: 0 }; MAX_TREE_LEVEL as usize], len: 0 };

    fn push(&mut self, step: TreeStep) {
        debug_assert!(self.len < self.steps.len(), "a tree of more than {MAX_TREE_LEVEL} levels");
        self.steps[self.len] = step;
        self.len += 1;
    }

    pub(super) fn last(&self) -> Option<TreeStep> {
        self.len.checked_sub(1).map(|i| self.steps[i])
    }

    fn parent(mut self) -> TreePath {
        self.len -= 1;
        self
    }
}

/// Loads a tree block of the given level (`None`: of any level), and checks its number of children.
#[inline(always)]
pub(crate) fn tree_block<'a>(core: &Core<'a>, at: u64, level: Option<u8>) -> Outcome<(View<'a>, usize)> {
    let view = core.store.block(at, BlockKind::Tree)?;
    let count = usize::from(view.get(t::COUNT));
    let there = view.get(t::LEVEL);
    if !(1..=MAX_TREE_LEVEL).contains(&there)
        || level.is_some_and(|l| l != there)
        || !(1..=TREE_MAX).contains(&count)
    {
        return Err(Fault::damaged(at, "a tree block with an impossible level or count"));
    }
    Ok((view, count))
}

pub(crate) fn child(view: View<'_>, i: usize) -> Child {
    Child {
        lowest: view.get(t::HASHES.index(i)),
        form: view.get(t::FORMS.index(i)),
        at: view.get(t::POSITIONS.index(i)),
    }
}

/// Finds the child to which `hash` belongs: the last whose lowest hash is not above it.
///
/// Hashes are evenly distributed, so a proportional guess is a few children off at most.
#[inline(always)]
pub(crate) fn child_of(view: View<'_>, count: usize, hash: u32) -> usize {
    let lowest = |i: usize| view.get(t::HASHES.index(i));
    let (first, last) = (lowest(0), lowest(count - 1));
    let mut i = if hash <= first || last <= first {
        0
    } else {
        let guess = u64::from(hash - first) * (count as u64 - 1) / u64::from(last - first);
        (guess as usize).min(count - 1)
    };
    while i > 0 && lowest(i) > hash {
        i -= 1;
    }
    while i + 1 < count && lowest(i + 1) <= hash {
        i += 1;
    }
    i
}

/// Finds the index block of the region of `hash`.
pub(crate) fn descend(core: &Core, root: u64, hash: u32) -> Outcome<u64> {
    let (mut view, mut count) = tree_block(core, root, None)?;
    loop {
        let next = child(view, child_of(view, count, hash));
        match next.form {
            REGION => return Ok(next.at),
            TREE => (view, count) = tree_block(core, next.at, view.get(t::LEVEL).checked_sub(1))?,
            _ => return Err(Fault::damaged(view.at(), "a tree block with a child of unknown form")),
        }
    }
}

/// Finds the path to the region of `hash`, and its index block.
pub(super) fn locate(core: &Core, node: &Inode<'_>, hash: u32) -> Outcome<(TreePath, u64)> {
    let mut path = TreePath::EMPTY;
    let mut at = match root(node)? {
        DirRoot::Region(index) => return Ok((path, index)),
        DirRoot::Tree(at) => at,
        _ => return Err(Fault::damaged(node.view.at(), "a directory without a region")),
    };
    let mut level = None;
    loop {
        let (view, count) = tree_block(core, at, level)?;
        let i = child_of(view, count, hash);
        path.push(TreeStep { block: at, child: i });
        let next = child(view, i);
        match next.form {
            REGION => return Ok((path, next.at)),
            TREE => level = view.get(t::LEVEL).checked_sub(1),
            _ => return Err(Fault::damaged(view.at(), "a tree block with a child of unknown form")),
        }
        at = next.at;
    }
}

fn put(edit: &mut Edit<'_>, view: View<'_>, i: usize, c: Child) {
    edit.tx.put(view, t::HASHES.index(i), c.lowest);
    edit.tx.put(view, t::FORMS.index(i), c.form);
    edit.tx.put(view, t::POSITIONS.index(i), c.at);
}

fn new_block<'v>(edit: &mut Edit<'v>, node: Inode<'_>, level: u8) -> Outcome<View<'v>> {
    if level > MAX_TREE_LEVEL {
        return Err(Code::TreeFull.into());
    }
    let view = space::alloc_block(edit, BlockKind::Tree, node.ino)?;
    add_blocks(edit, node, 1)?;
    edit.tx.set(view, t::LEVEL, level);
    Ok(view)
}

fn free_block(edit: &mut Edit<'_>, node: Inode<'_>, at: u64) -> Outcome<()> {
    space::free_block(edit, at, BlockKind::Tree)?;
    add_blocks(edit, node, -1)
}

/// Replaces the index block of the region where `path` ends.
pub(super) fn set_position(edit: &mut Edit<'_>, node: Inode<'_>, path: TreePath, index: u64) -> Outcome<()> {
    match path.last() {
        None => set_root(edit, node, DirRoot::Region(index)),
        Some(step) => {
            let (view, _) = tree_block(edit.core, step.block, None)?;
            edit.tx.put(view, t::POSITIONS.index(step.child), index);
        }
    }
    Ok(())
}

/// Adds a child directly after the one where `path` ends; `left` is the present value of that one.
///
/// # Errors
/// [`Code::TreeFull`] where the tree would exceed [`MAX_TREE_LEVEL`] levels.
pub(super) fn insert(
    edit: &mut Edit<'_>,
    node: Inode<'_>,
    path: TreePath,
    left: Child,
    new: Child,
) -> Outcome<()> {
    let Some(step) = path.last() else {
        let level = match left.form {
            REGION => 1,
            _ => tree_block(edit.core, left.at, None)?.0.get(t::LEVEL) + 1,
        };
        let view = new_block(edit, node, level)?;
        put(edit, view, 0, left);
        put(edit, view, 1, new);
        edit.tx.put(view, t::COUNT, 2);
        set_root(edit, node, DirRoot::Tree(view.at()));
        return store_root_shape(edit, node);
    };
    let (view, count) = tree_block(edit.core, step.block, None)?;
    if count < TREE_MAX {
        insert_at(edit, view, step.child + 1, new);
        return if path.parent().last().is_none() { store_root_shape(edit, node) } else { Ok(()) };
    }
    let half = count / 2;
    let right = new_block(edit, node, view.get(t::LEVEL))?;
    for i in half..count {
        put(edit, right, i - half, child(view, i));
    }
    edit.tx.put(right, t::COUNT, (count - half) as u16);
    edit.tx.put(view, t::COUNT, half as u16);
    if step.child < half {
        insert_at(edit, view, step.child + 1, new);
    } else {
        insert_at(edit, right, step.child + 1 - half, new);
    }
    let left = Child { lowest: child(view, 0).lowest, form: TREE, at: view.at() };
    let right = Child { lowest: child(right, 0).lowest, form: TREE, at: right.at() };
    insert(edit, node, path.parent(), left, right)
}

fn insert_at(edit: &mut Edit<'_>, view: View<'_>, at: usize, new: Child) {
    let count = usize::from(view.get(t::COUNT));
    debug_assert!(at <= count && count < TREE_MAX, "child {at} of {count}");
    for i in (at..count).rev() {
        put(edit, view, i + 1, child(view, i));
    }
    put(edit, view, at, new);
    edit.tx.put(view, t::COUNT, count as u16 + 1);
}

/// Removes child `gone` of the block where `path` ends, which has another one. Blocks with few children
/// merge, and the only child of a root replaces it.
pub(super) fn remove(edit: &mut Edit<'_>, node: Inode<'_>, path: TreePath, gone: usize) -> Outcome<()> {
    let Some(step) = path.last() else { return Ok(()) };
    let (view, count) = tree_block(edit.core, step.block, None)?;
    if count < 2 || gone >= count {
        return Err(Fault::damaged(step.block, "a tree block has too few children"));
    }
    for i in gone + 1..count {
        put(edit, view, i - 1, child(view, i));
    }
    edit.tx.put(view, t::COUNT, count as u16 - 1);
    let parent = path.parent();
    match parent.last() {
        None => lower_root(edit, node),
        Some(up) if count - 1 < TREE_LOW => merge(edit, node, parent, up),
        Some(_) => Ok(()),
    }
}

/// Removes the region where `path` ends, with the blocks that lead to nothing else; without another region
/// the directory is empty. True where the next region now begins where this one did.
pub(super) fn cut(edit: &mut Edit<'_>, node: Inode<'_>, mut path: TreePath) -> Outcome<bool> {
    while let Some(step) = path.last() {
        let (view, count) = tree_block(edit.core, step.block, None)?;
        if count > 1 {
            let is_first = step.child == 0;
            if is_first {
                widen(edit, view)?;
            }
            remove(edit, node, path, step.child)?;
            return Ok(is_first);
        }
        free_block(edit, node, step.block)?;
        path = path.parent();
    }
    set_root(edit, node, DirRoot::Empty);
    Ok(false)
}

/// Lets the second child of a block begin where the first one does, in all blocks down to its first region.
fn widen<'v>(edit: &mut Edit<'v>, mut view: View<'v>) -> Outcome<()> {
    let lowest = child(view, 0).lowest;
    let mut slot = 1;
    loop {
        edit.tx.put(view, t::HASHES.index(slot), lowest);
        let next = child(view, slot);
        if next.form != TREE {
            return Ok(());
        }
        view = tree_block(edit.core, next.at, view.get(t::LEVEL).checked_sub(1))?.0;
        slot = 0;
    }
}

/// Replaces a root with a single child by that child, as often as necessary.
fn lower_root(edit: &mut Edit<'_>, node: Inode<'_>) -> Outcome<()> {
    while let DirRoot::Tree(at) = root(&node)? {
        let (view, count) = tree_block(edit.core, at, None)?;
        if count > 1 {
            break;
        }
        let only = child(view, 0);
        let root = if only.form == REGION { DirRoot::Region(only.at) } else { DirRoot::Tree(only.at) };
        set_root(edit, node, root);
        free_block(edit, node, at)?;
    }
    store_root_shape(edit, node)
}

/// Stores level and number of children of the root block in the inode, after a change.
fn store_root_shape(edit: &mut Edit<'_>, node: Inode<'_>) -> Outcome<()> {
    if let DirRoot::Tree(at) = root(&node)? {
        let (view, count) = tree_block(edit.core, at, None)?;
        let word = DirRoot::tree_word(at, view.get(t::LEVEL), count as u8);
        edit.tx.put(node.view, edit.store().inode_size().dir_root(), word);
    }
    Ok(())
}

/// Merges the child at `up` with a neighbour when both together are few enough.
fn merge(edit: &mut Edit<'_>, node: Inode<'_>, parent: TreePath, up: TreeStep) -> Outcome<()> {
    let (view, count) = tree_block(edit.core, up.block, None)?;
    for (left, right) in [(up.child.wrapping_sub(1), up.child), (up.child, up.child + 1)] {
        if left >= count || right >= count {
            continue;
        }
        let (a, first) = tree_block(edit.core, child(view, left).at, None)?;
        let (b, second) = tree_block(edit.core, child(view, right).at, None)?;
        if first + second > TREE_MERGED || a.get(t::LEVEL) != b.get(t::LEVEL) {
            continue;
        }
        for i in 0..second {
            put(edit, a, first + i, child(b, i));
        }
        edit.tx.put(a, t::COUNT, (first + second) as u16);
        free_block(edit, node, b.at())?;
        return remove(edit, node, parent, right);
    }
    Ok(())
}
