//! Blocks that no file ever gets: structures at fixed positions, and the chunks of checksums.

use super::groups::{clear_bits, flip, group};
use crate::attempt::edit::Edit;
use crate::vocabulary::error::Outcome;
use crate::vocabulary::extent::Extent;
use lanefs_format::{BLOCK, BLOCKS_PER_CHUNK, BLOCKS_PER_GROUP, BlockKind, group as f, sums_chunk};

/// Bits of a bitmap's word.
const WORD: u64 = u64::BITS as u64;

/// The reserved blocks of a volume.
pub(crate) struct Reserved {
    /// Blocks of the volume.
    pub(crate) blocks: u64,
    /// Superblocks, group table, journal.
    pub(crate) fixed: Vec<Extent>,
    /// The volume has checksums of file data.
    pub(crate) sums: bool,
}

impl Reserved {
    /// True where the checksums of a group have their blocks. Otherwise no block of the group is ever used:
    /// its first chunk is cut off by the volume's end, or the group table lies there.
    fn is_usable(&self, number: u64) -> bool {
        let first = sums_chunk(number) / BLOCK;
        !self.sums
            || first + BLOCKS_PER_CHUNK <= self.blocks
                && !self.fixed.iter().any(|e| e.first < first + BLOCKS_PER_CHUNK && first < e.end())
    }

    /// The reserved blocks among those of word `i` of a group's bitmap, blocks past the volume's end
    /// included.
    pub(crate) fn word(&self, number: u64, i: u64) -> u64 {
        if !self.is_usable(number) {
            return u64::MAX;
        }
        let first = number * BLOCKS_PER_GROUP + i * WORD;
        let sums = Extent::new(sums_chunk(number) / BLOCK, if self.sums { BLOCKS_PER_CHUNK } else { 0 });
        let past = Extent::new(self.blocks, u64::MAX - self.blocks);
        let bits = |extent: &Extent| {
            let low = extent.first.clamp(first, first + WORD) - first;
            let high = extent.end().clamp(first, first + WORD) - first;
            if low < high { u64::MAX >> (WORD - (high - low)) << low } else { 0 }
        };
        self.fixed.iter().chain([&sums, &past]).fold(0, |word, extent| word | bits(extent))
    }

    /// Fills the block of a group of which nothing is used. Returns how many of its blocks are free.
    pub(crate) fn fill_group(&self, number: u64, block: &mut [u8]) -> u64 {
        let mut free = 0;
        for i in 0..f::BITMAP.len {
            let word = self.word(number, i as u64);
            f::BITMAP.index(i).write(block, word);
            free += u64::from(word.count_zeros());
        }
        f::KIND.write(block, BlockKind::Group as u8);
        f::OWNER.write(block, number);
        f::FREE.write(block, free);
        free
    }
}

/// Returns the first block from `from` on at which `count` blocks leave the chunks of checksums free. More
/// blocks than a group has begin after such a chunk, and cover others.
pub(crate) fn clear_of_sums(from: u64, count: u64) -> u64 {
    let number = from / BLOCKS_PER_GROUP;
    let sums = |number: u64| sums_chunk(number) / BLOCK;
    if from + count <= sums(number) {
        return from;
    }
    let behind = from.max(sums(number) + BLOCKS_PER_CHUNK);
    if behind + count <= (number + 1) * BLOCKS_PER_GROUP {
        behind
    } else {
        sums(number + 1) + BLOCKS_PER_CHUNK
    }
}

/// Makes the blocks of a group from its block `from` on free, except reserved ones. None of them is used.
pub(crate) fn lay_out(edit: &mut Edit<'_>, number: u64, from: u64, reserved: &Reserved) -> Outcome<()> {
    let view = group(edit.core, number)?;
    let mut free = 0;
    for i in 0..f::BITMAP.len as u64 {
        let below = match from.saturating_sub(i * WORD) {
            0 => 0,
            bits @ 1..WORD => u64::MAX >> (WORD - bits),
            _ => u64::MAX,
        };
        let field = f::BITMAP.index(i as usize);
        let word = view.get(field) & below | reserved.word(number, i) & !below;
        edit.tx.put(view, field, word);
        free += u64::from(word.count_zeros());
    }
    edit.counts.free_blocks += free as i64 - view.get(f::FREE) as i64;
    edit.tx.put(view, f::FREE, free);
    edit.made_room = true;
    Ok(())
}

/// Marks blocks as used that no file gets: a table at a new position.
pub(crate) fn reserve(edit: &mut Edit<'_>, extent: Extent) -> Outcome<()> {
    let (mut at, end) = (extent.first, extent.end());
    while at < end {
        let number = at / BLOCKS_PER_GROUP;
        let stop = ((number + 1) * BLOCKS_PER_GROUP).min(end);
        flip(edit, number, at % BLOCKS_PER_GROUP, stop - at, true)?;
        at = stop;
    }
    Ok(())
}

/// Frees the blocks of a table that has moved. A group whose checksums had no blocks because of it is usable
/// from now on.
pub(crate) fn free_table(edit: &mut Edit<'_>, table: Extent, reserved: &Reserved) -> Outcome<()> {
    let mut at = table.first;
    while at < table.end() {
        let number = at / BLOCKS_PER_GROUP;
        let end = table.end().min((number + 1) * BLOCKS_PER_GROUP);
        let sums = sums_chunk(number) / BLOCK;
        if reserved.sums && at < sums + BLOCKS_PER_CHUNK && sums < end {
            lay_out(edit, number, 0, reserved)?;
        } else {
            clear_bits(edit, Extent::new(at, end - at))?;
        }
        at = end;
    }
    Ok(())
}
