//! Random batches of changes on the directories that a memory has: tasks of every kind, whose new entries
//! and blocks lie past the end of the volume.

use crate::twin::Memory;
use lanefs::bulk::{Added, Batch, Head, Source, Task};
use lanefs::format::dir::{
    BUCKET_SLOTS, BUCKETS, LEAF_HEADER_UNITS, MAX_TREE_LEVEL, REGION_MAX, Slot, TREE_MAX, entry, entry_units,
    index, leaf, tree,
};
use lanefs::format::{BLOCK, DirRoot, InodeSize, UNIT, UNITS_PER_LEAF};

/// Positions of invented leaf blocks, entries and index blocks: past the end of any volume that a test
/// mirrors.
const LEAVES: u64 = 1 << 45;
const ENTRIES: u64 = 2 << 45;
const INDEXES: u64 = 3 << 45;

/// Entries of an invented leaf block, with names of up to 16 bytes.
const IN_LEAF: u64 = (UNITS_PER_LEAF - LEAF_HEADER_UNITS as u64) / 3;

/// Regions of a directory at most.
const REGIONS: usize = 1000;

/// A region of a directory.
#[derive(Clone, Debug)]
pub struct ExistingRegion {
    /// Position and form of its index.
    pub source: Source,
    /// Position of its dummy.
    pub dummy: u64,
    /// Its hashes: the lowest and the last.
    pub hashes: (u32, u32),
    /// Its entries, in the order of the index.
    pub entries: Vec<Added>,
}

/// Returns the regions of a directory, as far as its structures make sense.
pub fn regions<M: Memory>(memory: &M, size: InodeSize, inode: u64) -> Option<Vec<ExistingRegion>> {
    let root = memory.quad(inode + size.dir_root().offset as u64)?;
    let mut regions = Vec::new();
    match DirRoot::decode(root).ok()? {
        DirRoot::Empty => {}
        DirRoot::Small(leaf) => {
            let byte = |i: usize| {
                let at = size.small_units() + i;
                Some(memory.word(inode + (at as u64 & !3))? >> (at % 4 * 8) & 0xff)
            };
            let units: Option<Vec<u32>> = (0..size.small_entries()).map(byte).collect();
            let units = units?.into_iter().filter(|unit| *unit != 0);
            let entries = units.map(|unit| leaf + u64::from(unit) * UNIT).collect();
            let dummy = leaf + LEAF_HEADER_UNITS as u64 * UNIT;
            regions.extend(region(memory, Source::Small(leaf), dummy, entries));
        }
        DirRoot::Region(index) => regions.extend(region_of(memory, index)),
        DirRoot::Tree(block) => walk(memory, block, MAX_TREE_LEVEL, &mut regions)?,
    }
    for i in 1..regions.len() {
        regions[i - 1].hashes.1 = regions[i].hashes.0.saturating_sub(1);
    }
    Some(regions)
}

fn walk<M: Memory>(memory: &M, block: u64, levels: u8, regions: &mut Vec<ExistingRegion>) -> Option<()> {
    let head = memory.word(block)?;
    let (level, count) = (head >> 8 & 0xff, (head >> 16).min(TREE_MAX as u32));
    for i in 0..u64::from(count) {
        let child = memory.quad(block + tree::POSITIONS.offset as u64 + i * 8)?;
        match levels.checked_sub(1) {
            _ if regions.len() >= REGIONS => {}
            Some(levels) if level > 1 => walk(memory, child, levels, regions)?,
            _ => regions.extend(region_of(memory, child)),
        }
    }
    Some(())
}

fn region_of<M: Memory>(memory: &M, index: u64) -> Option<ExistingRegion> {
    let slot = |i: u64| memory.quad(index.wrapping_add(index::SLOTS.offset as u64 + i * 8));
    let slots: Option<Vec<u64>> = (0..(BUCKETS * BUCKET_SLOTS) as u64).map(slot).collect();
    let entries = slots?.into_iter().map(|slot| Slot(slot).position()).filter(|at| *at != 0).collect();
    let dummy = memory.quad(index + index::DUMMY.offset as u64)?;
    region(memory, Source::Region(index), dummy, entries)
}

fn region<M: Memory>(memory: &M, source: Source, dummy: u64, entries: Vec<u64>) -> Option<ExistingRegion> {
    let hash = |at: u64| memory.word(at.checked_add(entry::HASH.offset as u64)?);
    let entries = entries.into_iter().take(REGION_MAX);
    let entries = entries.map(|at| Some(Added { hash: hash(at)?, at })).collect::<Option<_>>()?;
    Some(ExistingRegion { source, dummy, hashes: (hash(dummy)?, u32::MAX), entries })
}

/// Maker of random batches.
pub struct Maker<'m, M> {
    memory: &'m M,
    size: InodeSize,
    /// State of the random numbers.
    number: u64,
    /// Leaf blocks and index blocks invented so far.
    leaves: u64,
    indexes: u64,
    /// Entries in the last of these leaves.
    in_leaf: u64,
    batch: Batch,
}

impl<'m, M: Memory> Maker<'m, M> {
    /// Makes batches on a memory with inodes of this size.
    pub fn new(memory: &'m M, size: InodeSize, seed: u64) -> Self {
        let number = seed.wrapping_mul(2) + 1;
        Maker { memory, size, number, leaves: 0, indexes: 0, in_leaf: 0, batch: Batch::default() }
    }

    /// Returns the batch so far, and begins a new one.
    pub fn batch(&mut self) -> Batch {
        std::mem::take(&mut self.batch)
    }

    /// Tells whether the batch has no task.
    pub fn is_empty(&self) -> bool {
        self.batch.tasks.is_empty()
    }

    fn below(&mut self, limit: u64) -> u64 {
        self.number = self.number.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
        (self.number >> 24) % limit.max(1)
    }

    /// Adds tasks on the directory with its inode at this position; none where its structures make no
    /// sense.
    pub fn add(&mut self, inode: u64) {
        let Some(regions) = regions(self.memory, self.size, inode) else { return };
        if regions.is_empty() {
            self.task(inode, &[], true);
        }
        let mut rest = &regions[..];
        while !rest.is_empty() {
            let count = if self.below(3) == 0 { 1 + self.below(3) as usize } else { 1 };
            let (some, others) = rest.split_at(count.min(rest.len()));
            rest = others;
            if self.below(5) != 0 {
                self.task(inode, some, some.len() == regions.len());
            }
        }
    }

    /// Adds a task on neighbouring regions, which may be all regions of the directory.
    fn task(&mut self, inode: u64, regions: &[ExistingRegion], is_all: bool) {
        let part = self.below(4);
        let (mut stay, mut removed) = (Vec::new(), Vec::new());
        for entry in regions.iter().flat_map(|region| &region.entries) {
            let goes = match part {
                0 => false,
                1 => self.below(4) == 0,
                2 => self.below(12) != 0,
                _ => true,
            };
            if goes || regions.len() > 1 && stay.len() >= REGION_MAX {
                removed.push(entry.at);
            } else {
                stay.push(*entry);
            }
        }
        removed.extend(regions.iter().skip(1).map(|region| region.dummy));
        removed.sort_unstable();
        let hashes = match regions {
            [] => (0, u32::MAX),
            [first, .., last] => (first.hashes.0, last.hashes.1),
            [one] => one.hashes,
        };
        let most = match self.below(4) {
            0 => 1,
            1 => 6,
            2 => 100,
            _ => 700,
        };
        let room = if regions.len() > 1 { (REGION_MAX - stay.len()) as u64 } else { u64::MAX };
        let count = self.below(most).min(room) as usize;
        let total = stay.len() + count;
        let is_one = regions.len() > 1 || total <= REGION_MAX && self.below(4) != 0 || total < 8;
        let heads = if is_one { 1 } else { total / 160 + 2 };
        let dummy = match regions.first() {
            Some(first) => first.dummy,
            None => self.new_leaf() + LEAF_HEADER_UNITS as u64 * UNIT,
        };
        let leaf = dummy - dummy % BLOCK;
        let free = if regions.is_empty() { new_units() } else { self.free_units(leaf) };
        let is_small = is_one
            && is_all
            && total <= self.size.small_entries()
            && count <= free.len()
            && stay.iter().all(|entry| entry.at - entry.at % BLOCK == leaf);
        let mut added: Vec<Added> = (0..count)
            .map(|i| Added {
                hash: self.hash(hashes),
                at: if is_small { leaf + free[i] * UNIT } else { self.new_entry() },
            })
            .collect();
        added.sort_unstable();
        self.push(inode, regions, (removed, added), (heads, dummy, is_small), (stay.len(), hashes.0));
    }

    fn push(
        &mut self,
        inode: u64,
        regions: &[ExistingRegion],
        (removed, added): (Vec<u64>, Vec<Added>),
        (heads, dummy, is_small): (usize, u64, bool),
        (stay, lowest): (usize, u32),
    ) {
        fn extend<T>(list: &mut Vec<T>, more: impl IntoIterator<Item = T>) -> (u32, u32) {
            let from = list.len() as u32;
            list.extend(more);
            (from, list.len() as u32)
        }
        let task = self.batch.tasks.len() as u32;
        let kept = match regions.first() {
            Some(ExistingRegion { source: Source::Region(index), .. }) => Some(*index),
            _ => None,
        };
        let heads: Vec<Head> = (0..heads as u32)
            .map(|number| {
                let kept = kept.filter(|_| number == 0 && self.below(3) != 0);
                let dummy = if number == 0 { dummy } else { self.new_entry() };
                let index = if is_small { 0 } else { kept.unwrap_or_else(|| self.new_index()) };
                Head { task, number, dummy, index, is_new: kept.is_none() && !is_small }
            })
            .collect();
        let batch = &mut self.batch;
        let task = Task {
            inode,
            sources: extend(&mut batch.sources, regions.iter().map(|region| region.source)),
            removed: extend(&mut batch.removed, removed),
            added: extend(&mut batch.added, added),
            heads: extend(&mut batch.heads, heads),
            stay: stay as u32,
            lowest,
        };
        batch.tasks.push(task);
    }

    /// Returns a hash of a region; some hashes are frequent.
    fn hash(&mut self, (lowest, last): (u32, u32)) -> u32 {
        let span = u64::from(last.saturating_sub(lowest)) + 1;
        let by = match self.below(3) {
            0 => self.below(8) << 16,
            _ => self.below(u64::MAX),
        };
        lowest.saturating_add((by % span) as u32)
    }

    fn new_leaf(&mut self) -> u64 {
        (self.leaves, self.in_leaf) = (self.leaves + 1, 0);
        LEAVES + self.leaves * BLOCK
    }

    fn new_entry(&mut self) -> u64 {
        if self.leaves == 0 || self.in_leaf == IN_LEAF {
            self.new_leaf();
        }
        self.in_leaf += 1;
        ENTRIES + self.leaves * BLOCK + (LEAF_HEADER_UNITS as u64 + 3 * (self.in_leaf - 1)) * UNIT
    }

    fn new_index(&mut self) -> u64 {
        self.indexes += 1;
        INDEXES + self.indexes * BLOCK
    }

    /// Returns the free units of a leaf block.
    fn free_units(&self, leaf: u64) -> Vec<u64> {
        let is_free = |unit: &u64| {
            let word = self.memory.word(leaf + leaf::UNITS.offset as u64 + unit / 32 * 4);
            word.is_some_and(|word| word >> (unit % 32) & 1 == 0)
        };
        (LEAF_HEADER_UNITS as u64..UNITS_PER_LEAF - 1).filter(is_free).collect()
    }
}

/// Returns the units of a new leaf block, after its dummy.
fn new_units() -> Vec<u64> {
    (LEAF_HEADER_UNITS as u64 + entry_units(0) as u64..UNITS_PER_LEAF - 3).step_by(3).collect()
}
