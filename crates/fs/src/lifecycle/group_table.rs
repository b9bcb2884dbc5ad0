//! The group table of a volume that is made or grows. It may be larger than memory (32 GiB for 1 PiB), so it
//! is written piece by piece; until the superblock names it, each piece can be the last.

use crate::mounted::shared::Shared;
use crate::mounted::writer::Writer;
use crate::space::Reserved;
use crate::vocabulary::error::Outcome;
use crate::vocabulary::extent::Extent;
use lanefs_format::{BLOCK, BlockKind};
use lanefs_store::{Closed, Fault};

/// Blocks of the table that are made and written at a time: 1 MiB.
const AT_ONCE_BLOCKS: u64 = 256;

impl Shared {
    /// Writes a group table to `table`, which is free. Its first `kept` blocks are those of the present
    /// table; nothing is used of the other groups but what is reserved. Returns how many of their blocks are
    /// free, which nobody has counted yet.
    ///
    /// # Errors
    /// The device's; damage of a block that is kept; the [interruption](crate::Volume::interrupt_waits_by) of
    /// this thread. Then the caller [forgets](Self::forget_table) the table.
    pub(crate) fn write_table(
        &self,
        closed: &mut Closed<'_, Writer>,
        table: Extent,
        kept: u64,
        reserved: &Reserved,
    ) -> Outcome<u64> {
        let (store, mut free) = (&self.state.store, 0);
        for first in (0..table.count).step_by(AT_ONCE_BLOCKS as usize) {
            let (at, count) = ((table.first + first) * BLOCK, AT_ONCE_BLOCKS.min(table.count - first));
            store.check_interrupt(at)?;
            let mut free_here = 0;
            let fill = |i: u64, block: &mut [u8]| {
                match first + i {
                    number if number < kept => self.copy_group(number, block)?,
                    number => free_here += reserved.fill_group(number, block),
                }
                Ok(())
            };
            match store.is_memory() {
                true => self.keep_table(closed, at, first..first + count, fill)?,
                false => store.write_unnamed(at, BlockKind::Group, count, fill)?,
            }
            free += free_here;
        }
        Ok(free)
    }

    /// Makes these blocks of a table at `at`, where they stay: in a volume in memory.
    fn keep_table(
        &self,
        closed: &mut Closed<'_, Writer>,
        at: u64,
        numbers: std::ops::Range<u64>,
        mut fill: impl FnMut(u64, &mut [u8]) -> Outcome<()>,
    ) -> Outcome<()> {
        let first = numbers.start;
        self.change_exclusive(closed, &mut |edit| {
            for number in numbers.clone() {
                let mut block = [0; BLOCK as usize];
                fill(number - first, &mut block)?;
                let view = edit.tx.fresh(at + (number - first) * BLOCK, BlockKind::Group, number)?;
                edit.tx.fill(view, 0, &block);
            }
            Ok(())
        })
    }

    /// Copies block `number` of the present table, without a place in the cache.
    fn copy_group(&self, number: u64, out: &mut [u8]) -> Outcome<()> {
        let at = self.state.groups() + number * BLOCK;
        let is_whole = match out.first_chunk_mut() {
            Some(block) => self.state.store.examine(at, BlockKind::Group, block)?,
            None => false,
        };
        is_whole.then_some(()).ok_or(Fault::damaged(at, "no block of the group table"))
    }

    /// Forgets what memory has of a table that nothing names, so that its blocks are free.
    pub(crate) fn forget_table(&self, closed: &mut Closed<'_, Writer>, table: Extent) -> Outcome<()> {
        self.change_exclusive(closed, &mut |edit| {
            edit.vacate(table);
            Ok(())
        })
    }
}
