//! Runs of blocks for file data: where they come from, and where they go.
//!
//! Who asks decides where to look, so that files which come and go do not scatter what is free for large ones:
//!
//! * a file goes on behind its last block, where that is free or in its writer's stock;
//! * a file that begins gets its blocks from ranges near the volume's start, in holes before new ground;
//! * a file that grows gets a range of its own, and large requests are met straight from the bitmaps, both where they fit best:
//!   in the shortest run that is long enough for what the file may come to, else in the longest.

use super::groups::{clear_run, glance, next, seem_used, seize};
use crate::attempt::Core;
use crate::edit::Edit;
use crate::error::Outcome;
use crate::prealloc::{Run, SMALL};
use lanefs_format::{BLOCKS_PER_CHUNK, BLOCKS_PER_GROUP, Code, group as f};
use lanefs_store::Fault;

/// A request from this size on (256 KiB) is met straight from the bitmaps.
const LARGE: u64 = 64;

/// A file of this size (64 KiB) that grows in small steps gets ranges of its own, as long as it is itself.
const GROWN: u64 = 16;

/// A file that grows is expected to come to so many times its size.
const HOPE: u64 = 4;

/// A run that is so many times longer than what a file may come to is left alone as long as there are others.
const SPARED: u64 = 16;

/// A carve takes this part of what is free, and a chunk of 2 MiB at most.
const CARVED_PART: u64 = 64;

/// Holes that are shorter are carved only when there are no others.
const GOOD_HOLE: u64 = 16;

/// Runs of so few blocks go back into a writer's stock, block by block.
const FEW: u64 = 8;

/// Groups in which a fitting run is looked for, and in which a better one is once there is one.
const FAR: usize = 256;
const NEAR: usize = 16;

/// Looks at bitmaps that others change meanwhile, before they are held off.
const TRIES: usize = 8;

/// Allocates up to `want` consecutive blocks for a file that has `grown` blocks and whose last one before them is followed by
/// block `goal`.
///
/// # Errors
/// [`Code::NoSpace`].
pub(crate) fn alloc_run(edit: &mut Edit<'_>, goal: Option<u64>, grown: u64, want: u64) -> Outcome<Run> {
    let want = want.max(1);
    let run = match goal.and_then(|goal| edit.stock.at(goal, want)) {
        Some(run) => run,
        None if want >= LARGE => return alloc_straight(edit, goal, grown, want),
        None if grown >= GROWN => from_growing(edit, goal, grown, want)?,
        None => from_small(edit, goal, want)?,
    };
    edit.counts.free_blocks -= run.1 as i64;
    Ok(run)
}

/// As [`alloc_run`], straight from the bitmaps: at `goal` where that is free, else where the file fits best.
///
/// # Errors
/// [`Code::NoSpace`].
pub(crate) fn alloc_straight(edit: &mut Edit<'_>, goal: Option<u64>, grown: u64, want: u64) -> Outcome<Run> {
    let wish = Wish { least: want.max(grown), hope: want.max(grown.saturating_mul(HOPE)) };
    for _ in 0..TRIES {
        let first = match goal {
            Some(goal) if is_free(edit.core, goal)? => goal,
            _ => best_fit(edit.core, &wish)?.ok_or(Code::NoSpace)?.0,
        };
        let got = seize(edit, first, want)?;
        if got > 0 {
            return Ok((first, got));
        }
    }
    Err(Fault::Crowd)
}

/// From a range of the file's own, which is carved.
fn from_growing(edit: &mut Edit<'_>, goal: Option<u64>, grown: u64, want: u64) -> Outcome<Run> {
    let most = grown.min(carve_limit(edit)).max(want);
    let run = alloc_straight(edit, goal, grown, most)?;
    edit.counts.free_blocks += run.1 as i64;
    if let Some(displaced) = edit.stock.add_growing(run) {
        put_back(edit, displaced)?;
    }
    // Just put there.
    Ok(edit.stock.at(run.0, want).ok_or(Code::NoSpace)?)
}

/// From the ranges for files that begin, or a block that came back.
fn from_small(edit: &mut Edit<'_>, goal: Option<u64>, want: u64) -> Outcome<Run> {
    // A second block lies behind the first one rather than anywhere.
    if want == 1
        && goal.is_none()
        && let Some(block) = edit.stock.single()
    {
        return Ok((block, 1));
    }
    if let Some(run) = edit.stock.small(want) {
        return Ok(run);
    }
    carve(edit, want)?;
    let run = edit.stock.small(want).or_else(|| edit.stock.rest(want));
    let single = run.or_else(|| Some((edit.stock.single()?, 1)));
    Ok(single.ok_or(Code::NoSpace)?)
}

/// Fills the ranges for files that begin, in one pass over one group's bitmap: the first group, from where the last was found,
/// with holes of `want` blocks. Finds nothing where nothing is free.
fn carve(edit: &mut Edit<'_>, want: u64) -> Outcome<()> {
    let (groups, limit) = (edit.core.group_count(), carve_limit(edit).max(want));
    for least in [want.max(GOOD_HOLE), 1] {
        let home = edit.hints.data_group.min(groups);
        for number in (home..groups).chain(0..home) {
            if carve_group(edit, number, least, limit)? {
                edit.hints.data_group = number;
                return Ok(());
            }
        }
    }
    Ok(())
}

/// As [`carve`], in group `number`. False where it has no such hole.
fn carve_group(edit: &mut Edit<'_>, number: u64, least: u64, limit: u64) -> Outcome<bool> {
    let view = glance(edit.core, number)?;
    if view.get(f::FREE) < least {
        return Ok(false);
    }
    let (mut at, mut left, mut ranges) = (0, limit.max(least), 0);
    while left >= least && ranges < SMALL {
        let first = next(view, at, BLOCKS_PER_GROUP, false);
        if first >= BLOCKS_PER_GROUP {
            break;
        }
        // Ranges end with their chunk, which may so become free as a whole again.
        let chunk_end = (first / BLOCKS_PER_CHUNK + 1) * BLOCKS_PER_CHUNK;
        at = next(view, first, chunk_end.min(first + left), true);
        if at - first < least {
            continue;
        }
        let first = number * BLOCKS_PER_GROUP + first;
        let got = seize(edit, first, number * BLOCKS_PER_GROUP + at - first)?;
        if got == 0 {
            // Another writer was here.
            continue;
        }
        edit.counts.free_blocks += got as i64;
        if let Some(displaced) = edit.stock.add_small((first, got)) {
            put_back(edit, displaced)?;
        }
        (left, ranges) = (left.saturating_sub(got), ranges + 1);
    }
    Ok(ranges > 0)
}

/// Blocks of one carve.
fn carve_limit(edit: &Edit<'_>) -> u64 {
    let free = edit.core.state.counts.sum().free_blocks.max(0) as u64;
    (free / CARVED_PART).clamp(1, BLOCKS_PER_CHUNK)
}

/// True where a block is free, as it seems.
fn is_free(core: &Core<'_>, block: u64) -> Outcome<bool> {
    let (number, bit) = (block / BLOCKS_PER_GROUP, block % BLOCKS_PER_GROUP);
    Ok(number < core.group_count() && next(glance(core, number)?, bit, bit + 1, true) > bit)
}

/// What a file asks for, in blocks.
struct Wish {
    /// As many as it has: with less at a time its runs would become too many.
    least: u64,
    /// What it may come to.
    hope: u64,
}

/// The free runs that may be taken, by what is wished for.
#[derive(Default)]
struct Choice {
    /// The shortest of those that are long enough.
    fitting: Option<Run>,
    /// The longest of the others.
    shorter: Option<Run>,
}

impl Choice {
    fn offer(&mut self, run: Run, wish: &Wish) {
        if run.1 == 0 {
            return;
        }
        if run.1 >= wish.hope {
            self.fitting = self.fitting.filter(|best| best.1 <= run.1).or(Some(run));
        } else {
            self.shorter = self.shorter.filter(|best| best.1 >= run.1).or(Some(run));
        }
    }

    /// One that is far longer than what is wished for is left for a file that needs it, where another one does.
    fn best(&self, wish: &Wish) -> Option<Run> {
        let enough = self.shorter.filter(|run| run.1 >= wish.least);
        let fitting = self.fitting.filter(|run| enough.is_none() || run.1 / SPARED < wish.hope);
        fitting.or(enough).or(self.shorter)
    }
}

/// The free run in which what is wished for fits best, as it seems.
fn best_fit(core: &Core<'_>, wish: &Wish) -> Outcome<Option<Run>> {
    let mut choice = Choice::default();
    let (mut open, mut patience): (Run, usize) = ((0, 0), FAR);
    for number in 0..core.group_count() {
        let (view, base) = (glance(core, number)?, number * BLOCKS_PER_GROUP);
        if view.get(f::FREE) == 0 {
            continue;
        }
        if patience == 0 {
            break;
        }
        let mut at = 0;
        while at < BLOCKS_PER_GROUP {
            let first = next(view, at, BLOCKS_PER_GROUP, false);
            at = next(view, first, BLOCKS_PER_GROUP, true);
            if first >= at {
                break;
            }
            // A run may go on in the next group.
            if open.0 + open.1 == base + first {
                open.1 += at - first;
            } else {
                choice.offer(open, wish);
                open = (base + first, at - first);
            }
        }
        let found = choice.fitting.is_some() || open.1 >= wish.hope;
        patience = (patience - 1).min(if found { NEAR } else { FAR });
    }
    choice.offer(open, wish);
    Ok(choice.best(wish))
}

/// Blocks of a file are free again. In memory, where they are so at once, a few of them go into the writer's stock.
pub(super) fn free_data(edit: &mut Edit<'_>, run: Run) -> Outcome<()> {
    let (first, count) = run;
    edit.hints.data_group = edit.hints.data_group.min(first / BLOCKS_PER_GROUP);
    if !edit.store().is_memory() || count > FEW || !seem_used(edit.core, run)? {
        return clear_run(edit, first, count);
    }
    for block in first..first + count {
        if !edit.stock.put(block) {
            for old in edit.stock.make_room() {
                put_back(edit, (old, 1))?;
            }
            if !edit.stock.put(block) {
                clear_run(edit, block, 1)?;
                continue;
            }
        }
        edit.counts.free_blocks += 1;
    }
    Ok(())
}

/// Blocks from stock, which count as free, are so in the bitmaps again.
pub(crate) fn put_back(edit: &mut Edit<'_>, (first, count): Run) -> Outcome<()> {
    clear_run(edit, first, count)?;
    edit.counts.free_blocks -= count as i64;
    Ok(())
}
