//! A batch of changes with checked ranges, and the range of each task's entries among those of all tasks.

use lanefs::bulk::{Added, Batch, Head, Source, Undecided};
use lanefs::format::dir::{REGION_MAX, index};
use lanefs::format::{BLOCK, MAX_VOLUME, UNIT};
use std::ops::Range;

/// A task, with its parts of the batch's lists.
pub(crate) struct TaskView<'b> {
    /// Position of the directory's inode.
    pub(crate) inode: u64,
    pub(crate) sources: &'b [Source],
    pub(crate) removed: &'b [u64],
    pub(crate) added: &'b [Added],
    pub(crate) heads: &'b [Head],
    /// Ranges of the batch's lists, and of the lists that the kernels make.
    pub(crate) ranges: Ranges,
    /// Entries that stay, and lowest hash of the first region.
    pub(crate) stay: u32,
    pub(crate) lowest: u32,
}

/// Ranges of a task in the lists of all tasks: `items` are the entries that stay, `merged` those that stay
/// and are added.
#[derive(Clone, Debug)]
pub(crate) struct Ranges {
    pub(crate) sources: Range<u32>,
    pub(crate) removed: Range<u32>,
    pub(crate) added: Range<u32>,
    pub(crate) heads: Range<u32>,
    pub(crate) items: Range<u32>,
    pub(crate) merged: Range<u32>,
}

/// All tasks of a batch.
pub(crate) struct Tasks<'b> {
    pub(crate) batch: &'b Batch,
    pub(crate) parts: Vec<TaskView<'b>>,
    /// Entries that stay, and entries that stay or are added.
    pub(crate) items: u32,
    pub(crate) merged: u32,
}

impl<'b> Tasks<'b> {
    /// # Errors
    /// [`Undecided`] where a range lies outside its list, a list is out of order, or tasks and heads
    /// contradict one another: no kernel gets a batch that it could only read outside its buffers.
    pub(crate) fn of(batch: &'b Batch) -> Result<Tasks<'b>, Undecided> {
        let mut tasks = Tasks { batch, parts: Vec::with_capacity(batch.tasks.len()), items: 0, merged: 0 };
        for number in 0..batch.tasks.len() {
            let part = tasks.part(number).ok_or(Undecided)?;
            tasks.items = part.ranges.items.end;
            tasks.merged = part.ranges.merged.end;
            tasks.parts.push(part);
        }
        // Each head lies in the range of its task.
        let is_known = |(i, head): (usize, &Head)| {
            let part = tasks.parts.get(head.task as usize);
            part.is_some_and(|part| {
                let heads = &part.ranges.heads;
                heads.contains(&(i as u32)) && heads.start.checked_add(head.number) == Some(i as u32)
            })
        };
        let fits = u32::try_from(batch.heads.len()).is_ok();
        if fits && batch.heads.iter().enumerate().all(is_known) { Ok(tasks) } else { Err(Undecided) }
    }

    /// Returns the most words that the kernels write: links of each entry, of dummies and of their
    /// successors, and all slots.
    pub(crate) fn most_words(&self) -> u64 {
        let entries = u64::from(self.merged) + u64::from(self.items);
        2 * entries + self.batch.heads.len() as u64 * (index::SLOTS.len as u64 + 4)
    }

    /// Checks the next task; `None` where it makes no sense.
    fn part(&self, number: usize) -> Option<TaskView<'b>> {
        fn slice<T>(list: &[T], range: (u32, u32)) -> Option<&[T]> {
            list.get(range.0 as usize..range.1 as usize)
        }
        let batch = self.batch;
        let task = batch.tasks.get(number)?;
        let sources = slice(&batch.sources, task.sources)?;
        let removed = slice(&batch.removed, task.removed)?;
        let added = slice(&batch.added, task.added)?;
        let heads = slice(&batch.heads, task.heads)?;
        let items = self.items..self.items.checked_add(task.stay)?;
        let merged =
            self.merged..self.merged.checked_add(task.stay)?.checked_add(u32::try_from(added.len()).ok()?)?;
        let first = heads.first()?;
        let keeps_block = |head: &Head| {
            head.is_new || head.index != 0 && sources.first() == Some(&Source::Region(head.index))
        };
        let blocks = sources.iter().map(|source| match source {
            Source::Small(at) | Source::Region(at) => *at,
        });
        let mut blocks = blocks.chain(heads.iter().map(|head| head.index));
        let is_ordered = removed.is_sorted() && added.is_sorted();
        let mut positions = added.iter().map(|added| added.at).chain(heads.iter().map(|head| head.dummy));
        let is_one = heads.len() == 1;
        let makes_sense = is_ordered
            && task.inode.is_multiple_of(UNIT)
            && blocks.all(|at| at.is_multiple_of(BLOCK) && at < MAX_VOLUME)
            && positions.all(|at| at != 0 && at.is_multiple_of(UNIT) && at < MAX_VOLUME)
            && task.stay as usize <= REGION_MAX
            && (task.stay == 0 || !sources.is_empty())
            && (is_one || sources.len() <= 1 && heads.iter().all(|head| head.index != 0))
            && (first.index == 0 || keeps_block(first))
            && heads.iter().skip(1).all(|head| head.is_new);
        let range = |(start, end): (u32, u32)| start..end;
        makes_sense.then(|| TaskView {
            inode: task.inode,
            sources,
            removed,
            added,
            heads,
            ranges: Ranges {
                sources: range(task.sources),
                removed: range(task.removed),
                added: range(task.added),
                heads: range(task.heads),
                items,
                merged,
            },
            stay: task.stay,
            lowest: task.lowest,
        })
    }
}
