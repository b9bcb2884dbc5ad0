//! The use of a block group: how many of its blocks are metadata, file data and free.

use crate::attempt::Core;
use crate::lifecycle::mkfs;
use crate::running::volume::Volume;
use crate::space::{self, Reserved};
use crate::vocabulary::error::{Error, Outcome, Result};
use lanefs_format::{BLOCK, BLOCKS_PER_CHUNK, BLOCKS_PER_GROUP, Code, group as g};

/// Bits of a word of a bitmap.
const WORD: u64 = u64::BITS as u64;

/// The use of the blocks of one block group. Each block of the volume counts in exactly one of
/// `metadata_blocks`, `reserved_blocks`, `data_blocks` and `free_blocks`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GroupUse {
    /// Byte position of the group's first block.
    pub position: u64,
    /// Blocks of the volume in the group. The last group may have fewer than the others.
    pub blocks: u64,
    /// Metadata chunks.
    pub metadata_chunks: u64,
    /// Blocks in metadata chunks, unused ones included: no file gets them.
    pub metadata_blocks: u64,
    /// Other blocks that no file gets: superblocks, group table, journal, chunks for checksums of data that
    /// are not set up.
    pub reserved_blocks: u64,
    /// Blocks of file data, and those that writers have preallocated.
    pub data_blocks: u64,
    /// Free blocks.
    pub free_blocks: u64,
    /// Extents of free blocks. One that continues in the next group counts in both.
    pub free_extents: u64,
    /// Blocks of the longest free extent.
    pub longest_free_blocks: u64,
}

/// # Use of groups
impl Volume {
    /// Counts the blocks of a group by their use. Other threads may change the volume meanwhile.
    ///
    /// # Errors
    /// [`Code::Invalid`] for a group that the volume does not have;
    /// [`Error::Damaged`](crate::Error::Damaged) for a damaged one; the device's.
    pub fn group_use(&self, group: u64) -> Result<GroupUse> {
        if group >= self.group_count() {
            return Err(Error::from(Code::Invalid).at(format!("group {group}")));
        }
        let reserved = mkfs::reserved(&self.superblock());
        self.view(|core| group_use(core, group, &reserved))
    }
}

fn group_use(core: &Core<'_>, group: u64, reserved: &Reserved) -> Outcome<GroupUse> {
    let view = space::group(core, group)?;
    let first = group * BLOCKS_PER_GROUP;
    let blocks = reserved.blocks.saturating_sub(first).min(BLOCKS_PER_GROUP);
    let chunks = view.get(g::METADATA);
    let mut found = GroupUse { position: first * BLOCK, blocks, ..GroupUse::default() };
    let mut free = FreeExtents::default();
    for i in 0..g::BITMAP.len as u64 {
        let inside = match blocks.saturating_sub(i * WORD) {
            0 => break,
            bits @ 1..WORD => u64::MAX >> (WORD - bits),
            _ => u64::MAX,
        };
        let is_metadata = chunks >> (i * WORD / BLOCKS_PER_CHUNK) & 1 != 0;
        let metadata = if is_metadata { inside } else { 0 };
        let fixed = reserved.word(group, i) & inside & !metadata;
        let others = inside & !metadata & !fixed;
        let data = view.get(g::BITMAP.index(i as usize)) & others;
        found.metadata_chunks += u64::from(is_metadata && (i * WORD).is_multiple_of(BLOCKS_PER_CHUNK));
        found.metadata_blocks += u64::from(metadata.count_ones());
        found.reserved_blocks += u64::from(fixed.count_ones());
        found.data_blocks += u64::from(data.count_ones());
        found.free_blocks += u64::from((others & !data).count_ones());
        free.add(others & !data);
    }
    (found.free_extents, found.longest_free_blocks) = (free.count, free.longest);
    Ok(found)
}

/// The runs of set bits in consecutive words.
#[derive(Default)]
struct FreeExtents {
    count: u64,
    longest: u64,
    /// Length of the run that the next bit continues.
    open: u64,
}

impl FreeExtents {
    fn add(&mut self, word: u64) {
        let mut at = 0;
        while at < u64::BITS {
            let rest = word >> at;
            if rest & 1 == 0 {
                self.open = 0;
                at += rest.trailing_zeros().max(1);
                continue;
            }
            let run = rest.trailing_ones();
            self.count += u64::from(self.open == 0);
            self.open += u64::from(run);
            self.longest = self.longest.max(self.open);
            at += run;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Pseudo-random words with long and short runs.
    fn words(seed: u64) -> Vec<u64> {
        let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
        let mut next = || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state
        };
        let word = |kind: u64, bits: u64| match kind % 6 {
            0 => 0,
            1 => u64::MAX,
            2 => 1,
            3 => 1 << 63,
            4 => u64::MAX << (bits % 64),
            _ => bits,
        };
        (0..seed % 9).map(|_| word(next(), next())).collect()
    }

    #[test]
    fn runs_are_counted_as_bit_by_bit() {
        for seed in 0..10_000 {
            let words = words(seed);
            let mut found = FreeExtents::default();
            words.iter().for_each(|word| found.add(*word));
            let bits = words.iter().flat_map(|word| (0..64).map(move |i| word >> i & 1 != 0));
            let (mut count, mut longest, mut open) = (0, 0, 0);
            for bit in bits {
                count += u64::from(bit && open == 0);
                open = if bit { open + 1 } else { 0 };
                longest = longest.max(open);
            }
            assert_eq!((found.count, found.longest), (count, longest), "{words:x?}");
        }
    }
}
