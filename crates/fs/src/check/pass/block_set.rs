//! The set of blocks that belong to some structure, which the threads of a pass share.
//!
//! Its memory goes with the extents in it, not with the volume and not with the length of the extents: a
//! group without a block in the set takes none, one with few extents takes some bytes for each, and one with
//! many a bit for each of its blocks. So an image that claims terabytes takes as much as the pointers that
//! it has.

use lanefs_format::BLOCKS_PER_GROUP;
use lanefs_sync::lock::RwLock;
use std::collections::HashMap;
use std::ops::Range;

/// Words of a group.
pub(in crate::check) const WORDS: usize = (BLOCKS_PER_GROUP / 64) as usize;

/// Most extents of a group that are kept as such: a quarter of the bitmap's memory.
const MOST_EXTENTS: usize = WORDS * size_of::<u64>() / size_of::<(u16, u16)>() / 4;

/// Groups whose numbers differ by a multiple of this share a lock.
const SHARDS: u64 = 64;

const _: () = assert!(BLOCKS_PER_GROUP <= u16::MAX as u64 && BLOCKS_PER_GROUP.is_multiple_of(64));

/// The blocks of one group in the set.
#[derive(Clone)]
enum Part {
    /// First block and end of each extent, in order; a free block lies between two.
    Extents(Vec<(u16, u16)>),
    Words(Box<[u64; WORDS]>),
}

impl Part {
    fn word(&self, i: usize) -> u64 {
        match self {
            Part::Words(words) => words.get(i).copied().unwrap_or(0),
            Part::Extents(extents) => {
                let (base, next) = (i as u64 * 64, (i as u64 + 1) * 64);
                let first = extents.partition_point(|(_, end)| u64::from(*end) <= base);
                let near = extents[first..].iter().take_while(|(start, _)| u64::from(*start) < next);
                near.fold(0, |word, (start, end)| {
                    let (low, high) = (u64::from(*start).max(base), u64::from(*end).min(next));
                    word | (u64::MAX >> (64 - (high - low))) << (low - base)
                })
            }
        }
    }

    /// True where a block of the range is in the set.
    fn any(&self, range: Range<u16>) -> bool {
        match self {
            Part::Extents(extents) => {
                let first = extents.partition_point(|(_, end)| *end <= range.start);
                extents.get(first).is_some_and(|(start, _)| *start < range.end)
            }
            Part::Words(words) => masks(range).any(|(i, mask)| words[i] & mask != 0),
        }
    }

    /// Adds a range that is not empty.
    fn add(&mut self, range: Range<u16>) {
        match self {
            Part::Words(words) => masks(range).for_each(|(i, mask)| words[i] |= mask),
            Part::Extents(extents) => {
                // Extents that touch the range become one with it.
                let first = extents.partition_point(|(_, end)| *end < range.start);
                let end = extents.partition_point(|(start, _)| *start <= range.end);
                let joined = extents[first..end]
                    .iter()
                    .fold((range.start, range.end), |all, one| (all.0.min(one.0), all.1.max(one.1)));
                extents.splice(first..end, [joined]);
                if extents.len() > MOST_EXTENTS {
                    self.widen();
                }
            }
        }
    }

    fn remove(&mut self, block: u16) {
        match self {
            Part::Words(words) => words[usize::from(block / 64)] &= !(1 << (block % 64)),
            Part::Extents(extents) => {
                let at = extents.partition_point(|(_, end)| *end <= block);
                let Some((start, end)) = extents.get(at).copied().filter(|(start, _)| *start <= block) else {
                    return;
                };
                let rest = [(start, block), (block + 1, end)];
                extents.splice(at..=at, rest.into_iter().filter(|(start, end)| start < end));
                if extents.len() > MOST_EXTENTS {
                    self.widen();
                }
            }
        }
    }

    /// Turns extents into a bitmap.
    fn widen(&mut self) {
        let mut words = Box::new([0; WORDS]);
        words.iter_mut().enumerate().for_each(|(i, word)| *word = self.word(i));
        *self = Part::Words(words);
    }
}

/// A set of blocks by number.
pub(in crate::check) struct BlockSet {
    len: u64,
    /// By number of the group, modulo [`SHARDS`].
    shards: Box<[RwLock<HashMap<u64, Part>>]>,
}

impl BlockSet {
    /// An empty set of blocks below `len`.
    pub(in crate::check) fn new(len: u64) -> Self {
        BlockSet { len, shards: (0..SHARDS).map(|_| RwLock::default()).collect() }
    }

    fn shard(&self, group: u64) -> &RwLock<HashMap<u64, Part>> {
        &self.shards[(group % SHARDS) as usize]
    }

    /// Blocks past the end are not in the set.
    pub(in crate::check) fn get(&self, block: u64) -> bool {
        self.any(block, 1)
    }

    /// The bits of a group's blocks; `None` where none is in the set.
    pub(in crate::check) fn words(&self, group: u64) -> Option<Box<[u64; WORDS]>> {
        let part = self.shard(group).read().get(&group).cloned();
        part.map(|mut part| {
            if matches!(part, Part::Extents(_)) {
                part.widen();
            }
            match part {
                Part::Words(words) => words,
                Part::Extents(_) => Box::new([0; WORDS]),
            }
        })
    }

    /// Adds a block; false where it was in the set (or is past the end).
    pub(in crate::check) fn set(&self, block: u64) -> bool {
        block < self.len && self.set_all(block, 1)
    }

    pub(in crate::check) fn clear(&self, block: u64) {
        if let Some(part) = self.shard(block / BLOCKS_PER_GROUP).write().get_mut(&(block / BLOCKS_PER_GROUP))
        {
            part.remove((block % BLOCKS_PER_GROUP) as u16);
        }
    }

    /// True where one of `count` blocks from `first` on is in the set.
    pub(in crate::check) fn any(&self, first: u64, count: u64) -> bool {
        self.pieces(first, count)
            .any(|(group, range)| self.shard(group).read().get(&group).is_some_and(|part| part.any(range)))
    }

    /// Adds `count` blocks from `first` on; false where one of them was in the set.
    pub(in crate::check) fn set_all(&self, first: u64, count: u64) -> bool {
        let mut is_new = true;
        for (group, range) in self.pieces(first, count) {
            let mut shard = self.shard(group).write();
            let part = shard.entry(group).or_insert_with(|| Part::Extents(Vec::with_capacity(1)));
            is_new &= !part.any(range.clone());
            part.add(range);
        }
        is_new
    }

    /// The groups that a range of blocks touches, each with the range inside it.
    fn pieces(&self, first: u64, count: u64) -> impl Iterator<Item = (u64, Range<u16>)> + use<> {
        let end = first.saturating_add(count).min(self.len);
        let groups =
            if first < end { first / BLOCKS_PER_GROUP..end.div_ceil(BLOCKS_PER_GROUP) } else { 0..0 };
        groups.map(move |group| {
            let base = group * BLOCKS_PER_GROUP;
            let inside = |block: u64| (block.clamp(base, base + BLOCKS_PER_GROUP) - base) as u16;
            (group, inside(first)..inside(end))
        })
    }

    /// Bytes that the set takes, without those of its tables.
    #[cfg(test)]
    fn bytes(&self) -> usize {
        let of = |part: &Part| match part {
            Part::Extents(extents) => extents.capacity() * size_of::<(u16, u16)>(),
            Part::Words(_) => WORDS * size_of::<u64>(),
        };
        self.shards.iter().map(|shard| shard.read().values().map(of).sum::<usize>()).sum()
    }
}

/// The words that a range of bits touches, each with the mask of its bits.
fn masks(range: Range<u16>) -> impl Iterator<Item = (usize, u64)> {
    let (first, end) = (u64::from(range.start), u64::from(range.end));
    (first / 64..end.div_ceil(64)).map(move |i| {
        let (low, high) = (first.max(i * 64), end.min((i + 1) * 64));
        (i as usize, if low < high { (u64::MAX >> (64 - (high - low))) << (low % 64) } else { 0 })
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    const LEN: u64 = 3 * BLOCKS_PER_GROUP - 100;

    fn next(state: &mut u64) -> u64 {
        *state ^= *state << 13;
        *state ^= *state >> 7;
        *state ^= *state << 17;
        *state
    }

    /// The members, by every way to ask.
    fn members(set: &BlockSet) -> BTreeSet<u64> {
        let of_group = |group| set.words(group).map_or([0; WORDS], |words| *words);
        let bits = |group: u64| {
            let words = of_group(group);
            (0..BLOCKS_PER_GROUP).filter(move |bit| words[(bit / 64) as usize] >> (bit % 64) & 1 != 0)
        };
        let all: BTreeSet<u64> =
            (0..3).flat_map(|group| bits(group).map(move |bit| group * BLOCKS_PER_GROUP + bit)).collect();
        assert!((0..3 * BLOCKS_PER_GROUP).all(|block| set.get(block) == all.contains(&block)));
        all
    }

    #[test]
    fn a_set_has_what_was_added_and_not_removed() {
        for seed in 1..6 {
            let (set, mut wanted, mut state) = (BlockSet::new(LEN), BTreeSet::new(), seed * 0x9e37_79b9);
            // Few long extents at first, many short ones at last.
            for round in 0..3000 {
                let first = next(&mut state) % (LEN + 50);
                let count = match next(&mut state) % 8 {
                    0 if round < 20 => next(&mut state) % (2 * BLOCKS_PER_GROUP),
                    1 => next(&mut state) % 200,
                    _ => 1,
                };
                let range = first..first.saturating_add(count).min(LEN).max(first);
                assert_eq!(set.any(first, count), wanted.range(range.clone()).next().is_some());
                if next(&mut state).is_multiple_of(3) {
                    set.clear(first);
                    wanted.remove(&first);
                } else if count == 1 {
                    assert_eq!(set.set(first), first < LEN && !wanted.contains(&first));
                    wanted.extend(range);
                } else {
                    let is_new = wanted.range(range.clone()).next().is_none();
                    assert_eq!(set.set_all(first, count), is_new);
                    wanted.extend(range);
                }
            }
            assert_eq!(members(&set), wanted, "seed {seed}");
        }
    }

    #[test]
    fn ranges_touch_what_they_say_and_nothing_else() {
        for (first, count) in [(0, 1), (5, 0), (3, 61), (3, 62), (63, 2), (64, 64), (10, 180)] {
            // The second one begins a bit before the end of a group.
            for base in [0, BLOCKS_PER_GROUP - 100] {
                let (first, set) = (base + first, BlockSet::new(base + 256));
                assert!(set.set_all(first, count));
                let found: Vec<u64> = (0..base + 256).filter(|block| set.get(*block)).collect();
                assert_eq!(found, (first..first + count).collect::<Vec<_>>());
                assert!(!set.any(0, first) && !set.any(first + count, 256));
                assert_eq!(set.any(first, 256), count > 0);
                assert_eq!(set.set_all(first, count), count == 0, "all were set already");
            }
        }
    }

    #[test]
    fn past_the_end_nothing_happens() {
        let set = BlockSet::new(64);
        assert!(set.set(63) && !set.set(63) && !set.get(1 << 40) && !set.set(1 << 40));
        set.clear(63);
        set.clear(1 << 40);
        assert!(set.set(63) && !set.set(64) && !set.get(64));
    }

    #[test]
    fn memory_goes_with_the_extents_and_not_with_their_length() {
        let set = BlockSet::new(BLOCKS_PER_GROUP << 15);
        assert!(set.set_all(5, (BLOCKS_PER_GROUP << 15) - 10), "4 TiB");
        assert!(set.bytes() < 1 << 20, "{} bytes", set.bytes());
        let set = BlockSet::new(BLOCKS_PER_GROUP);
        (0..BLOCKS_PER_GROUP / 2).for_each(|i| assert!(set.set(2 * i)));
        assert_eq!(set.bytes(), WORDS * size_of::<u64>(), "a bit for each block at most");
    }
}
