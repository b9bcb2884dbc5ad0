//! The use of a volume's block groups, several in one cell where there are many.

use crate::session::context::Context;
use crate::terminal::failure::{Failure, check_interrupt};
use crate::terminal::progress::Progress;
use lanefs::GroupUse;

/// Cells of the map at most.
const MAX_CELLS: u64 = 1024;
/// Damaged groups that are named. All others are counted.
const MAX_NAMED: u64 = 8;

/// Consecutive groups.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Cell {
    /// The first group.
    pub(super) first: u64,
    /// Number of groups.
    pub(super) groups: u64,
    /// Groups of them that cannot be read. Nothing else counts these.
    pub(super) unread: u64,
    /// The sums of all others; the position is that of the first one, the longest free extent the longest of
    /// all.
    pub(super) sum: GroupUse,
}

impl Cell {
    fn add(&mut self, group: &GroupUse) {
        let sum = &mut self.sum;
        if self.groups == self.unread {
            sum.position = group.position;
        }
        self.groups += 1;
        sum.blocks += group.blocks;
        sum.metadata_chunks += group.metadata_chunks;
        sum.metadata_blocks += group.metadata_blocks;
        sum.reserved_blocks += group.reserved_blocks;
        sum.data_blocks += group.data_blocks;
        sum.free_blocks += group.free_blocks;
        sum.free_extents += group.free_extents;
        sum.longest_free_blocks = sum.longest_free_blocks.max(group.longest_free_blocks);
    }
}

/// Reads all groups of the volume. Those that cannot be read are reported to the context.
///
/// # Errors
/// As [`Context::go_on`].
pub(super) fn read(context: &mut Context<'_>) -> Result<Vec<Cell>, Failure> {
    let count = context.volume.group_count();
    let per_cell = count.div_ceil(MAX_CELLS).max(1);
    let mut progress = Progress::new("block groups");
    let (mut cells, mut unread): (Vec<Cell>, u64) = (Vec::new(), 0);
    for group in 0..count {
        check_interrupt()?;
        progress.tick();
        if group.is_multiple_of(per_cell) {
            cells.push(Cell { first: group, ..Cell::default() });
        }
        let Some(cell) = cells.last_mut() else { break };
        match context.volume.group_use(group) {
            Ok(found) => cell.add(&found),
            Err(error) => {
                cell.groups += 1;
                cell.unread += 1;
                unread += 1;
                if unread <= MAX_NAMED {
                    context.go_on(Err(Failure::volume(format!("block group {group}"), &error)))?;
                }
            }
        }
    }
    if unread > MAX_NAMED {
        let what = format!("{} more cannot be read", unread - MAX_NAMED);
        context.go_on(Err(Failure::damage("block groups", &what)))?;
    }
    Ok(cells)
}

/// The sum of all cells.
pub(super) fn total(cells: &[Cell]) -> Cell {
    let mut total = Cell::default();
    for cell in cells {
        total.add(&cell.sum);
        total.groups += cell.groups - 1;
        total.unread += cell.unread;
    }
    total
}
