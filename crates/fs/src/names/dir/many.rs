//! Changes of many entries of a directory: the tasks for an engine, and the use of its result.
//!
//! An engine sorts, divides and links. This module handles the units of leaf blocks, the index blocks and the
//! tree, which are a few for some hundred entries.

use super::batch::{Added, Batch, Built, Head, Home, Lookup, Source, Task};
use super::entry::{self, Dentry, Name};
use super::lookup::find;
use super::root::{root, set_root};
use super::tree::{self, Child, REGION};
use super::{leaf, region, small, unindexed, update};
use crate::attempt::Core;
use crate::attempt::edit::Edit;
use crate::files::inode::Inode;
use crate::mounted::moves::MoveCause;
use crate::vocabulary::error::Outcome;
use lanefs_format::dir::{
    REGION_LOW, REGION_MAX, REGION_MERGED, entry as e, entry_units, index as x, tree as t,
};
use lanefs_format::{BLOCK, BlockKind, Code, DirRoot, FileKind};
use lanefs_store::Fault;

/// Entries of each region where one becomes several: as many again fit before the next split.
const REGION_FILLED: usize = 160;

const _: () = assert!(
    REGION_FILLED <= REGION_MAX && REGION_FILLED > REGION_LOW,
    "a new region neither divides nor merges at once"
);

/// Looks a name up, as an engine's `seek` does.
pub(crate) fn look(core: &Core<'_>, node: &Inode<'_>, name: Name<'_>) -> Outcome<Lookup> {
    let (home, dummy) = match root(node)? {
        DirRoot::Empty => return Ok(Lookup { hash: name.hash, ..Lookup::default() }),
        DirRoot::Small(leaf) => (Home::Small(leaf), small::head(core, leaf)?),
        DirRoot::Region(_) | DirRoot::Tree(_) => {
            let (_, index) = tree::locate(core, node, name.hash)?;
            let view = core.store.block(index, BlockKind::Index)?;
            (Home::Region(index), entry::dummy(core, view.get(x::DUMMY))?)
        }
    };
    let entry = match find(core, node, name)? {
        Some(entry) => Some((entry.view.at(), entry.ino(), entry.kind()?)),
        None => None,
    };
    Ok(Lookup { hash: name.hash, home, dummy: dummy.view.at(), count: dummy.count() as u32, entry })
}

/// Counts the entries of a directory; it may stop above `limit`.
pub(crate) fn count(core: &Core<'_>, node: &Inode<'_>, limit: u64) -> Outcome<u64> {
    let of_region = |at: u64| -> Outcome<u64> {
        let view = core.store.block(at, BlockKind::Index)?;
        Ok(entry::dummy(core, view.get(x::DUMMY))?.count() as u64 + u64::from(unindexed::count(view)))
    };
    let mut blocks = match root(node)? {
        DirRoot::Empty => return Ok(0),
        DirRoot::Small(leaf) => return Ok(small::head(core, leaf)?.count() as u64),
        DirRoot::Region(index) => return of_region(index),
        DirRoot::Tree(block) => vec![(block, None)],
    };
    // A damaged tree may lead to the same blocks again and again.
    let mut steps = core.store.bytes() / BLOCK;
    let mut sum = 0;
    while let Some((at, level)) = blocks.pop() {
        steps = steps.checked_sub(1).ok_or(Fault::damaged(at, "an endless tree"))?;
        let (view, children) = tree::tree_block(core, at, level)?;
        for i in 0..children {
            let child = tree::child(view, i);
            if child.form == REGION {
                sum += of_region(child.at)?;
            } else {
                blocks.push((child.at, view.get(t::LEVEL).checked_sub(1)));
            }
            if sum > limit {
                return Ok(sum);
            }
        }
    }
    Ok(sum)
}

/// An entry to add or to remove.
pub(crate) struct EntryChange<'n> {
    pub(crate) name: &'n [u8],
    /// The lookup of its name.
    pub(crate) seen: Lookup,
    /// The inode and type of an entry to add; `None` for one to remove.
    pub(crate) names: Option<(u64, FileKind)>,
}

/// Work that remains after an engine's result: with a task, or, for a directory that loses all its entries,
/// without.
pub(crate) struct PendingRebuild {
    /// The directory.
    pub(crate) dir: u64,
    /// Number of the task in the batch.
    task: Option<usize>,
    /// Number of entries afterwards.
    entries: usize,
    /// Positions of the entries to remove, and of the dummy entries of merged regions, with their lowest
    /// hashes.
    removed: Vec<u64>,
    merged: Vec<(u64, u32)>,
    /// An index block that several new ones replace.
    replaced: Option<u64>,
    /// The only leaf of a small directory that loses all its entries.
    emptied: Option<u64>,
}

/// Neighbouring regions and the changes to them.
struct RegionGroup<'w, 'n> {
    wanted: &'w [EntryChange<'n>],
    home: Home,
    dummy: u64,
    count: usize,
    adds: usize,
}

impl<'w, 'n> RegionGroup<'w, 'n> {
    fn new(wanted: &'w [EntryChange<'n>]) -> Self {
        let seen = wanted.first().map(|one| one.seen).unwrap_or_default();
        let adds = wanted.iter().filter(|one| one.names.is_some()).count();
        RegionGroup { wanted, home: seen.home, dummy: seen.dummy, count: seen.count as usize, adds }
    }

    fn removes(&self) -> usize {
        self.wanted.len() - self.adds
    }

    /// Number of entries afterwards.
    fn entries(&self) -> usize {
        (self.count + self.adds).saturating_sub(self.removes())
    }
}

/// Adds the changes of one directory, in ascending order of hash, to a batch. New entries are written to
/// their units here; removed ones stay until [`finish`].
pub(crate) fn prepare(
    edit: &mut Edit<'_>,
    node: Inode<'_>,
    wanted: &[EntryChange<'_>],
    batch: &mut Batch,
    pending: &mut Vec<PendingRebuild>,
) -> Outcome<()> {
    debug_assert!(wanted.is_sorted_by_key(|one| one.seen.hash), "changes out of order");
    let groups: Vec<_> = wanted.chunk_by(|a, b| a.seen.home == b.seen.home).map(RegionGroup::new).collect();
    let mut rest = &groups[..];
    while let Some(first) = rest.first() {
        let (now, later) = match first.home {
            Home::Region(_) => rest.split_at(neighbours(edit.core, &node, rest)?),
            _ => rest.split_at(1),
        };
        rest = later;
        let is_beginning = first.home == Home::Empty;
        if is_beginning && first.entries() <= edit.store().inode_size().small_entries() {
            begin(edit, node, first)?;
            continue;
        }
        pending.push(match first.home {
            Home::Region(_) => in_regions(edit, node, now, batch)?,
            _ => in_small(edit, node, first, batch)?,
        });
    }
    Ok(())
}

/// Adds the first few entries of a directory without an engine, for which the tasks would be more work than
/// the entries.
fn begin(edit: &mut Edit<'_>, node: Inode<'_>, group: &RegionGroup<'_, '_>) -> Outcome<()> {
    let entries: Vec<_> = group
        .wanted
        .iter()
        .filter_map(|one| Some((Name { bytes: one.name, hash: one.seen.hash }, one.names?)))
        .map(|(name, (ino, kind))| (name, ino, kind))
        .collect();
    if !small::fill(edit, node, &entries)? {
        for (name, ino, kind) in entries {
            update::insert(edit, node, name, ino, kind)?;
        }
    }
    Ok(())
}

/// Counts the regions, from the first on, that become one: neighbours below one tree block that are few
/// enough together.
fn neighbours(core: &Core<'_>, node: &Inode<'_>, groups: &[RegionGroup<'_, '_>]) -> Outcome<usize> {
    let slot_of = |group: &RegionGroup<'_, '_>| -> Outcome<Option<(u64, usize)>> {
        let hash = entry::dummy(core, group.dummy)?.hash();
        Ok(tree::locate(core, node, hash)?.0.last().map(|step| (step.block, step.child)))
    };
    let (mut sum, mut taken) = (groups.first().map_or(0, RegionGroup::entries), 1);
    while let [_, next, ..] = &groups[taken - 1..] {
        let more = next.entries();
        if sum + more > REGION_MERGED || sum.min(more) >= REGION_LOW {
            break;
        }
        let (Some(last), Some(behind)) = (slot_of(&groups[taken - 1])?, slot_of(next)?) else { break };
        if behind != (last.0, last.1 + 1) {
            break;
        }
        sum += more;
        taken += 1;
    }
    Ok(taken)
}

/// Makes the task of an empty or a small directory, which may become a large one.
fn in_small(
    edit: &mut Edit<'_>,
    node: Inode<'_>,
    group: &RegionGroup<'_, '_>,
    batch: &mut Batch,
) -> Outcome<PendingRebuild> {
    let entries = group.entries();
    if entries == 0 {
        let emptied = if let Home::Small(leaf) = group.home { Some(leaf) } else { None };
        return Ok(PendingRebuild { emptied, ..PendingRebuild::of(node.ino, group.wanted, None, 0) });
    }
    let source = match group.home {
        Home::Small(leaf) => Some(Source::Small(leaf)),
        _ => {
            small::begin(edit, node)?;
            None
        }
    };
    let DirRoot::Small(leaf) = root(&node)? else {
        return Err(Fault::damaged(node.view.at(), "a directory that is not small"));
    };
    let block = leaf::header(edit.core, leaf)?;
    let dummy = small::head(edit.core, leaf)?;
    let mut is_small = entries <= edit.store().inode_size().small_entries();
    write_added(edit, group.wanted, batch, |edit, units| {
        if is_small {
            if let Some(view) = leaf::alloc_in(edit, node, block, units)? {
                return Ok(view);
            }
            is_small = false;
        }
        leaf::alloc(edit, node, units)
    })?;
    let task = batch.tasks.len();
    let first_head = batch.heads.len() as u32;
    let dummy = dummy.view.at();
    if is_small {
        batch.heads.push(Head { task: task as u32, number: 0, dummy, index: 0, is_new: true });
    } else {
        heads(edit, node, dummy, regions_for(entries), batch)?;
        small::set_index(edit, node, &[]);
        set_root(edit, node, DirRoot::Region(batch.heads[first_head as usize].index));
    }
    PendingRebuild::pushed(batch, node, group.wanted, source, &[], first_head, entries, 0)
}

/// Makes the task for regions of a large directory. Engines know only entries that an index has.
fn in_regions(
    edit: &mut Edit<'_>,
    node: Inode<'_>,
    groups: &[RegionGroup<'_, '_>],
    batch: &mut Batch,
) -> Outcome<PendingRebuild> {
    let [first, others @ ..] = groups else {
        return Err(Fault::damaged(node.view.at(), "no region"));
    };
    let Home::Region(index) = first.home else {
        return Err(Fault::damaged(node.view.at(), "no region"));
    };
    let entries = groups.iter().map(RegionGroup::entries).sum();
    for group in groups {
        if let Home::Region(at) = group.home
            && unindexed::count(edit.store().block(at, BlockKind::Index)?) != 0
        {
            return Err(Code::NotResident.into());
        }
        write_added(edit, group.wanted, batch, |edit, units| leaf::alloc(edit, node, units))?;
    }
    let dummy = entry::dummy(edit.core, first.dummy)?;
    let first_head = batch.heads.len() as u32;
    let count = regions_for(entries);
    let mut replaced = None;
    if count == 1 {
        let task = batch.tasks.len() as u32;
        batch.heads.push(Head { task, number: 0, dummy: first.dummy, index, is_new: false });
    } else {
        heads(edit, node, first.dummy, count, batch)?;
        replaced = Some(index);
    }
    let mut merged = Vec::new();
    for group in others {
        merged.push((group.dummy, entry::dummy(edit.core, group.dummy)?.hash()));
    }
    let wanted = groups.iter().flat_map(|group| group.wanted);
    let sources = groups.iter().map(|group| match group.home {
        Home::Region(at) => Source::Region(at),
        Home::Small(at) => Source::Small(at),
        Home::Empty => Source::Region(0),
    });
    let work =
        PendingRebuild::pushed(batch, node, wanted, sources, &merged, first_head, entries, dummy.hash())?;
    Ok(PendingRebuild { replaced, merged, ..work })
}

/// Number of regions for a number of entries.
fn regions_for(entries: usize) -> usize {
    if entries <= REGION_MAX { 1 } else { entries.div_ceil(REGION_FILLED) }
}

/// Makes index blocks and dummy entries for regions, the first of which has its dummy already.
fn heads(edit: &mut Edit<'_>, node: Inode<'_>, dummy: u64, count: usize, batch: &mut Batch) -> Outcome<()> {
    let task = batch.tasks.len() as u32;
    for number in 0..count as u32 {
        let dummy = if number == 0 {
            dummy
        } else {
            let view = leaf::alloc(edit, node, entry_units(0))?;
            entry::write(edit, view, Name { bytes: b"", hash: 0 }, 0, 0);
            view.at()
        };
        let index = region::new_index(edit, node, dummy)?.at();
        batch.heads.push(Head { task, number, dummy, index, is_new: true });
    }
    Ok(())
}

/// Allocates units for all new entries, and writes the entries there.
fn write_added<'v>(
    edit: &mut Edit<'v>,
    wanted: &[EntryChange<'_>],
    batch: &mut Batch,
    mut units: impl FnMut(&mut Edit<'v>, usize) -> Outcome<lanefs_store::View<'v>>,
) -> Outcome<()> {
    for one in wanted {
        let Some((ino, kind)) = one.names else { continue };
        let view = units(edit, entry_units(one.name.len()))?;
        entry::write(edit, view, Name { bytes: one.name, hash: one.seen.hash }, ino, kind as u8);
        batch.added.push(Added { hash: one.seen.hash, at: view.at() });
    }
    Ok(())
}

impl PendingRebuild {
    fn of<'w, 'n: 'w>(
        dir: u64,
        wanted: impl IntoIterator<Item = &'w EntryChange<'n>>,
        task: Option<usize>,
        entries: usize,
    ) -> Self {
        let gone = |one: &EntryChange<'_>| one.seen.entry.filter(|_| one.names.is_none()).map(|(at, ..)| at);
        let removed = wanted.into_iter().filter_map(gone).collect();
        PendingRebuild { dir, task, entries, removed, merged: Vec::new(), replaced: None, emptied: None }
    }

    /// Adds the task to the batch, which has its heads and its new entries already.
    #[expect(clippy::too_many_arguments, reason = "all that a task is made of")]
    fn pushed<'w, 'n: 'w>(
        batch: &mut Batch,
        node: Inode<'_>,
        wanted: impl IntoIterator<Item = &'w EntryChange<'n>>,
        sources: impl IntoIterator<Item = Source>,
        merged: &[(u64, u32)],
        first_head: u32,
        entries: usize,
        lowest: u32,
    ) -> Outcome<PendingRebuild> {
        let work = PendingRebuild::of(node.ino, wanted, Some(batch.tasks.len()), entries);
        let first_source = batch.sources.len() as u32;
        batch.sources.extend(sources);
        let first_removed = batch.removed.len();
        batch.removed.extend(&work.removed);
        batch.removed.extend(merged.iter().map(|(dummy, _)| *dummy));
        batch.removed[first_removed..].sort_unstable();
        let first_added = batch.tasks.last().map_or(0, |task| task.added.1);
        let added = &mut batch.added[first_added as usize..];
        added.sort_unstable();
        let stay = entries.checked_sub(added.len());
        let stay = stay.ok_or(Fault::damaged(node.view.at(), "a directory with a wrong count of entries"))?;
        debug_assert!(batch.added[first_added as usize..].is_sorted(), "entries out of order");
        debug_assert!(batch.removed[first_removed..].is_sorted(), "positions out of order");
        debug_assert!((first_head as usize) < batch.heads.len(), "a task without a region");
        batch.tasks.push(Task {
            inode: node.view.at(),
            sources: (first_source, batch.sources.len() as u32),
            removed: (first_removed as u32, batch.removed.len() as u32),
            added: (first_added, batch.added.len() as u32),
            heads: (first_head, batch.heads.len() as u32),
            stay: stay as u32,
            lowest,
        });
        Ok(work)
    }
}

/// Applies the result of an engine to one task of [`prepare`]; its words have been written.
///
/// # Errors
/// [`Code::NotResident`] where the result cannot be right.
pub(crate) fn finish(
    edit: &mut Edit<'_>,
    node: Inode<'_>,
    work: &PendingRebuild,
    batch: &Batch,
    built: &[Built],
) -> Outcome<()> {
    if let Some(task) = work.task.and_then(|task| batch.tasks.get(task)) {
        let range = task.heads.0 as usize..task.heads.1 as usize;
        let (Some(heads), Some(built)) = (batch.heads.get(range.clone()), built.get(range)) else {
            return Err(Code::NotResident.into());
        };
        let ascends = built.is_sorted_by(|a, b| a.lowest < b.lowest);
        let sum: usize = built.iter().map(|one| one.count as usize).sum();
        let fits = built.iter().all(|one| one.count as usize <= REGION_MAX);
        if sum != work.entries
            || !ascends
            || !fits
            || built.first().is_none_or(|one| one.lowest != task.lowest)
        {
            return Err(Code::NotResident.into());
        }
        for (head, built) in heads.iter().zip(built) {
            let dummy = entry::dummy(edit.core, head.dummy)?;
            edit.tx.put(dummy.view, e::HASH, built.lowest);
            edit.tx.put(dummy.view, e::COUNT, built.count as u16);
            edit.tx.put(dummy.view, e::INODE, head.index);
        }
        if let Some(first) = heads.first().filter(|first| first.is_new && first.index != 0) {
            let (path, _) = tree::locate(edit.core, &node, task.lowest)?;
            tree::set_position(edit, node, path, first.index)?;
        }
        for (pair, lowest) in heads.windows(2).zip(built.windows(2)) {
            let [left, right] =
                [0, 1].map(|i| Child { lowest: lowest[i].lowest, form: REGION, at: pair[i].index });
            let (path, _) = tree::locate(edit.core, &node, right.lowest)?;
            tree::insert(edit, node, path, left, right)?;
        }
    }
    if let Some(index) = work.replaced {
        region::free_index(edit, node, index)?;
    }
    for at in &work.removed {
        let entry = Dentry::at(edit.core, *at)?;
        edit.lose_name(entry.ino(), entry.kind(), MoveCause::Batch);
        leaf::free(edit, node, entry.view, entry.units())?;
    }
    for (dummy, lowest) in work.merged.iter().rev() {
        let (path, index) = tree::locate(edit.core, &node, *lowest)?;
        let dummy = entry::dummy(edit.core, *dummy)?;
        leaf::free(edit, node, dummy.view, entry_units(0))?;
        region::free_index(edit, node, index)?;
        let gone = path.last().map_or(0, |step| step.child);
        tree::remove(edit, node, path, gone)?;
    }
    if let Some(leaf) = work.emptied {
        let dummy = small::head(edit.core, leaf)?;
        small::set_index(edit, node, &[]);
        set_root(edit, node, DirRoot::Empty);
        return leaf::free(edit, node, dummy.view, entry_units(0));
    }
    if let Some(task) = work.task.and_then(|task| batch.tasks.get(task)).filter(|_| work.entries == 0) {
        region::drop_empty(edit, node, task.lowest)?;
    }
    region::shrink(edit, node)
}
