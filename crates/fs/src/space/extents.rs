//! Extents of data blocks: allocation and release.
//!
//! The kind of request decides where to allocate, so that short-lived files do not fragment the space for
//! large ones:
//!
//! * a file grows after its last block, where that block is free or preallocated by its writer;
//! * a new file gets blocks from ranges near the start of the volume, which fill holes before new ground;
//! * a growing file gets a range of its own, and a large request is met from the bitmaps directly. Both go
//!   where they fit best: into the shortest free extent that is long enough for the file's expected size,
//!   else into the longest;
//! * a file that is filled before its end, in any order, does not grow: each of its blocks would begin a
//!   range, of which nothing else is used. It fills holes as a new file does.

use super::groups::{clear_bits, next, peek, seem_used};
use super::search::{Kind, is_full, likely, walk};
use super::take::mark_used;
use crate::attempt::Core;
use crate::attempt::edit::Edit;
use crate::mounted::prealloc::SMALL;
use crate::vocabulary::error::Outcome;
use crate::vocabulary::extent::Extent;
use lanefs_format::{BLOCKS_PER_CHUNK, BLOCKS_PER_GROUP, Code, group as f};
use lanefs_store::Fault;

/// Blocks (256 KiB) from which on a request is met from the bitmaps directly.
const LARGE_BLOCKS: u64 = 64;

/// Blocks (64 KiB) from which on a file that grows in small steps gets ranges of its own, as long as the file
/// itself.
const GROWN_BLOCKS: u64 = 16;

/// Expected final size of a growing file, as a multiple of its present size.
const EXPECTED_GROWTH: u64 = 4;

/// A free extent that exceeds the expected size by this factor is spared while there are others.
const SPARED: u64 = 16;

/// Divisor of the free space that gives the size of one carve, which is a chunk (2 MiB) at most.
const CARVED_PART: u64 = 64;

/// Shorter holes (in blocks) are carved only when there are no others.
const GOOD_HOLE: u64 = 16;

/// Freed extents up to this number of blocks return to the writer's preallocation, block by block.
const FEW_BLOCKS: u64 = 8;

/// Groups that are searched for a fitting extent, and for a better one once there is one.
const FAR: usize = 256;
const NEAR: usize = 16;

/// Searches of bitmaps that other writers change meanwhile; then the transaction asks for exclusive access.
const MAX_ATTEMPTS: usize = 8;

const _: () = assert!(
    FEW_BLOCKS < GROWN_BLOCKS && GROWN_BLOCKS < LARGE_BLOCKS,
    "files grow through each way to allocate in turn"
);
const _: () = assert!(
    GOOD_HOLE <= BLOCKS_PER_CHUNK && LARGE_BLOCKS <= BLOCKS_PER_CHUNK,
    "an empty chunk has an extent that is long enough"
);
const _: () = assert!(NEAR < FAR, "the search for a better extent ends before the search for any");

/// The file that needs blocks.
#[derive(Clone, Copy)]
pub(crate) struct Growth {
    /// The block that follows the one before them.
    pub(crate) goal: Option<u64>,
    /// Blocks that the file has.
    pub(crate) blocks: u64,
    /// They are for the file's end, where more will follow.
    pub(crate) at_end: bool,
}

/// Allocates up to `want` consecutive blocks.
///
/// # Errors
/// [`Code::NoSpace`].
pub(crate) fn alloc_extent(edit: &mut Edit<'_>, file: Growth, want: u64) -> Outcome<Extent> {
    let (Growth { goal, blocks, at_end }, want) = (file, want.max(1));
    let extent = match goal.and_then(|goal| edit.prealloc.at(goal, want)) {
        Some(extent) => extent,
        None if want >= LARGE_BLOCKS => return alloc_direct(edit, goal, blocks, want),
        None if blocks >= GROWN_BLOCKS && (at_end || goal.is_some()) => from_growing(edit, file, want)?,
        None => from_small(edit, goal, want)?,
    };
    assert!((1..=want).contains(&extent.count), "{extent:?} for {want} blocks");
    edit.counts.free_blocks -= extent.count as i64;
    Ok(extent)
}

/// Allocates as [`alloc_extent`] does, but from the bitmaps directly: at `goal` where that block is free,
/// else where the file fits best.
///
/// # Errors
/// [`Code::NoSpace`].
fn alloc_direct(edit: &mut Edit<'_>, goal: Option<u64>, grown: u64, want: u64) -> Outcome<Extent> {
    let request =
        ExtentRequest { least: want.max(grown), expected: want.max(grown.saturating_mul(EXPECTED_GROWTH)) };
    alloc_fitting(edit, goal, &request, want)
}

/// Finds `count` consecutive free blocks, and leaves them free; `None` where no extent is long enough.
pub(crate) fn find_extent(edit: &mut Edit<'_>, count: u64) -> Outcome<Option<Extent>> {
    let request = ExtentRequest { least: count, expected: count.saturating_mul(EXPECTED_GROWTH) };
    let best = best_fit(edit, &request)?.filter(|extent| extent.count >= count);
    Ok(best.map(|extent| Extent::new(extent.first, count)))
}

/// Allocates up to `want` blocks at `goal` where that block is free, else where the request fits best.
fn alloc_fitting(
    edit: &mut Edit<'_>,
    goal: Option<u64>,
    request: &ExtentRequest,
    want: u64,
) -> Outcome<Extent> {
    for _ in 0..MAX_ATTEMPTS {
        let first = match goal {
            Some(goal) if is_free(edit.core, goal)? => goal,
            _ => best_fit(edit, request)?.ok_or(Code::NoSpace)?.first,
        };
        let count = mark_used(edit, first, want)?;
        if count > 0 {
            return Ok(Extent::new(first, count));
        }
    }
    Err(Fault::ReadSetTooLarge)
}

/// Allocates from a new range for this file.
fn from_growing(edit: &mut Edit<'_>, file: Growth, want: u64) -> Outcome<Extent> {
    let Growth { goal, blocks, at_end } = file;
    let most = blocks.min(carve_limit(edit)).max(want);
    let range = if at_end {
        alloc_direct(edit, goal, blocks, most)?
    } else {
        // The rest of an earlier range of such a file serves, too.
        alloc_fitting(edit, goal, &ExtentRequest { least: want, expected: most }, most)?
    };
    edit.counts.free_blocks += range.count as i64;
    if let Some(displaced) = edit.prealloc.add_growing(range) {
        put_back(edit, displaced)?;
    }
    // The range has just been added.
    Ok(edit.prealloc.at(range.first, want).ok_or(Code::NoSpace)?)
}

/// Allocates from the ranges for new files, or takes a single block.
fn from_small(edit: &mut Edit<'_>, goal: Option<u64>, want: u64) -> Outcome<Extent> {
    // Only a first block may be anywhere: a second one is better placed after the first.
    if want == 1
        && goal.is_none()
        && let Some(block) = edit.prealloc.single()
    {
        return Ok(Extent::new(block, 1));
    }
    if let Some(extent) = edit.prealloc.small(want) {
        return Ok(extent);
    }
    carve(edit, want)?;
    let extent = edit.prealloc.small(want).or_else(|| edit.prealloc.rest(want));
    let single = extent.or_else(|| Some(Extent::new(edit.prealloc.single()?, 1)));
    Ok(single.ok_or(Code::NoSpace)?)
}

/// Fills the ranges for new files in one pass over the bitmap of one group: the first group, from the last
/// successful one on, that has holes of `want` blocks. Carves nothing where nothing is free.
fn carve(edit: &mut Edit<'_>, want: u64) -> Outcome<()> {
    if is_full(edit) {
        return Ok(());
    }
    let (home, limit) = (edit.hints.data_group, carve_limit(edit).max(want));
    let good = want.max(GOOD_HOLE);
    for number in likely(edit.core, home)? {
        if carve_group(edit, number, good, limit)? {
            edit.core.state.cursors.move_frontier_to(number);
            edit.hints.data_group = number;
            return Ok(());
        }
    }
    for (kind, least) in [(Kind::GoodHoles, good), (Kind::AnyHole, 1)] {
        let found = walk(edit, kind, least, home, |edit, number| {
            Ok(carve_group(edit, number, least, limit)?.then_some(number))
        })?;
        if let Some(number) = found {
            edit.hints.data_group = number;
            return Ok(());
        }
    }
    Ok(())
}

/// Carves as [`carve`] does, in group `number`. False where the group has no such hole.
fn carve_group(edit: &mut Edit<'_>, number: u64, least: u64, limit: u64) -> Outcome<bool> {
    let view = peek(edit.core, number)?;
    if view.get(f::FREE) < least {
        return Ok(false);
    }
    let (mut at, mut left, mut ranges) = (0, limit.max(least), 0);
    while left >= least && ranges < SMALL {
        let first = next(view, at, BLOCKS_PER_GROUP, false);
        if first >= BLOCKS_PER_GROUP {
            break;
        }
        // A range ends with its chunk, so that the whole chunk can become free again.
        let chunk_end = (first / BLOCKS_PER_CHUNK + 1) * BLOCKS_PER_CHUNK;
        at = next(view, first, chunk_end.min(first + left), true);
        if at - first < least {
            continue;
        }
        let first = number * BLOCKS_PER_GROUP + first;
        let count = mark_used(edit, first, number * BLOCKS_PER_GROUP + at - first)?;
        if count == 0 {
            // Another writer was faster.
            continue;
        }
        edit.counts.free_blocks += count as i64;
        if let Some(displaced) = edit.prealloc.add_small(Extent::new(first, count)) {
            put_back(edit, displaced)?;
        }
        (left, ranges) = (left.saturating_sub(count), ranges + 1);
    }
    Ok(ranges > 0)
}

/// Blocks of one carve.
fn carve_limit(edit: &Edit<'_>) -> u64 {
    let free = edit.core.state.counts.sum().free_blocks.max(0) as u64;
    (free / CARVED_PART).clamp(1, BLOCKS_PER_CHUNK)
}

/// True where a block is probably free.
fn is_free(core: &Core<'_>, block: u64) -> Outcome<bool> {
    let (number, bit) = (block / BLOCKS_PER_GROUP, block % BLOCKS_PER_GROUP);
    Ok(number < core.group_count() && next(peek(core, number)?, bit, bit + 1, true) > bit)
}

/// The extent that a file asks for, in blocks.
struct ExtentRequest {
    /// The present size of the file: with smaller steps it would get too many extents.
    least: u64,
    /// The expected size of the file.
    expected: u64,
}

/// The best candidates among the free extents.
#[derive(Default)]
struct BestFit {
    /// The shortest of the extents that are long enough.
    fitting: Option<Extent>,
    /// The longest of the others.
    shorter: Option<Extent>,
}

impl BestFit {
    fn offer(&mut self, extent: Extent, request: &ExtentRequest) {
        if extent.count == 0 {
            return;
        }
        if extent.count >= request.expected {
            self.fitting = self.fitting.filter(|best| best.count <= extent.count).or(Some(extent));
        } else {
            self.shorter = self.shorter.filter(|best| best.count >= extent.count).or(Some(extent));
        }
    }

    /// The extent to use. One that is far too long is left for a file that needs it, where a shorter one
    /// serves.
    fn best(&self, request: &ExtentRequest) -> Option<Extent> {
        let enough = self.shorter.filter(|extent| extent.count >= request.least);
        let fitting =
            self.fitting.filter(|extent| enough.is_none() || extent.count / SPARED < request.expected);
        fitting.or(enough).or(self.shorter)
    }
}

/// The free extent that probably fits a request best: among those of the groups with free blocks that come
/// first, and of the first ones at the frontier; else any.
fn best_fit(edit: &mut Edit<'_>, request: &ExtentRequest) -> Outcome<Option<Extent>> {
    if is_full(edit) {
        return Ok(None);
    }
    let core = edit.core;
    let cursors = &core.state.cursors;
    let home = cursors.extents.get();
    let mut candidates = BestFit::default();
    search_extents(core, likely(core, home)?, request, &mut candidates)?;
    let is_long = |extent: Extent| extent.count >= request.least;
    if !candidates.best(request).is_some_and(is_long) {
        let least = request.least.min(BLOCKS_PER_CHUNK);
        let mut from = None;
        for (kind, least) in [(Kind::Extents, least), (Kind::AnyHole, 1)] {
            if from.is_none() {
                let find = |edit: &mut Edit<'_>, number| {
                    Ok((peek(edit.core, number)?.get(f::FREE) >= least).then_some(number))
                };
                from = walk(edit, kind, least, home, find)?;
            }
        }
        if let Some(number) = from {
            search_extents(core, likely(core, number)?, request, &mut candidates)?;
            cursors.extents.move_to(number);
        }
    }
    let best = candidates.best(request);
    if let Some(extent) = best {
        cursors.move_frontier_to(extent.first / BLOCKS_PER_GROUP);
    }
    Ok(best)
}

fn search_extents(
    core: &Core<'_>,
    groups: impl Iterator<Item = u64>,
    request: &ExtentRequest,
    candidates: &mut BestFit,
) -> Outcome<()> {
    let (mut open, mut groups_left) = (Extent::default(), FAR);
    for number in groups {
        let (view, base) = (peek(core, number)?, number * BLOCKS_PER_GROUP);
        if view.get(f::FREE) == 0 {
            continue;
        }
        if groups_left == 0 {
            break;
        }
        let mut at = 0;
        while at < BLOCKS_PER_GROUP {
            let first = next(view, at, BLOCKS_PER_GROUP, false);
            at = next(view, first, BLOCKS_PER_GROUP, true);
            if first >= at {
                break;
            }
            // An extent may continue in the next group.
            if open.end() == base + first {
                open.count += at - first;
            } else {
                candidates.offer(open, request);
                open = Extent::new(base + first, at - first);
            }
        }
        let found = candidates.fitting.is_some() || open.count >= request.expected;
        groups_left = (groups_left - 1).min(if found { NEAR } else { FAR });
    }
    candidates.offer(open, request);
    Ok(())
}

/// Releases blocks of a file. On a volume in memory, where they are free at once, a few of them go to the
/// writer's preallocation.
pub(super) fn free_data(edit: &mut Edit<'_>, extent: Extent) -> Outcome<()> {
    let Extent { first, count } = extent;
    edit.hints.data_group = edit.hints.data_group.min(first / BLOCKS_PER_GROUP);
    if !edit.store().is_memory() || count > FEW_BLOCKS || !seem_used(edit.core, extent)? {
        return clear_bits(edit, extent);
    }
    for block in first..first + count {
        if !edit.prealloc.put(block) {
            for old in edit.prealloc.make_room() {
                put_back(edit, Extent::new(old, 1))?;
            }
            if !edit.prealloc.put(block) {
                clear_bits(edit, Extent::new(block, 1))?;
                continue;
            }
        }
        edit.counts.free_blocks += 1;
    }
    Ok(())
}

/// Returns preallocated blocks to the bitmaps. They count as free already.
pub(crate) fn put_back(edit: &mut Edit<'_>, extent: Extent) -> Outcome<()> {
    clear_bits(edit, extent)?;
    edit.counts.free_blocks -= extent.count as i64;
    Ok(())
}
