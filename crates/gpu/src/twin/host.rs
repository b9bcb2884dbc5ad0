//! The mirror's memory on the host, for twins, and a memory that counts their reads.

use crate::shared::exported::{MirrorHeader, MirrorPlan, TableSizes};
use crate::shared::layout::DIR_UNIT_WORDS;
use crate::shared::query::LookupQuery;
use crate::twin::headers::cache::{BUCKET_WORDS, Cache};
use crate::twin::headers::dir_table::DirTable;
use crate::twin::headers::memory::Memory;
use lanefs::format::{BLOCK, BLOCKS_PER_CHUNK, CHUNK};
use lanefs::{Volume, Watched};
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};

/// A copy of a volume's metadata, as a mirror has it.
pub struct HostCopy {
    chunks: BTreeMap<u64, Vec<u8>>,
    /// Bytes of the volume.
    volume_bytes: u64,
}

impl HostCopy {
    /// # Errors
    /// Another engine watches the volume (`Busy`); an error of the volume.
    pub fn of(volume: &Volume) -> lanefs::Result<HostCopy> {
        let mut copy = HostCopy::empty(volume);
        let mut watch = volume.watch()?.ok_or_else(|| lanefs::Error::from(lanefs::Code::Busy))?;
        watch.changes(&mut |block| copy.update(&block));
        Ok(copy)
    }

    /// Makes a copy without any block.
    pub fn empty(volume: &Volume) -> HostCopy {
        HostCopy { chunks: BTreeMap::new(), volume_bytes: volume.superblock().volume_bytes }
    }

    /// Copies a block as it is now.
    pub fn update(&mut self, block: &Watched<'_>) {
        let number = block.at / CHUNK;
        if block.kind.is_none() && !self.chunks.contains_key(&number) {
            return;
        }
        let chunk = self.chunks.entry(number).or_insert_with(|| vec![0xff; CHUNK as usize]);
        let offset = (block.at % CHUNK) as usize;
        if let Some(bytes) = chunk.get_mut(offset..offset + BLOCK as usize) {
            match block.kind {
                Some(_) => bytes.copy_from_slice(block.bytes),
                None => bytes.fill(0xff),
            }
        }
    }

    /// Writes 8 bytes, where the copy has their chunk.
    pub fn put(&mut self, at: u64, value: u64) {
        let offset = (at % CHUNK) as usize;
        let chunk = self.chunks.get_mut(&(at / CHUNK));
        if let Some(bytes) = chunk.and_then(|chunk| chunk.get_mut(offset..offset + 8)) {
            bytes.copy_from_slice(&value.to_le_bytes());
        }
    }

    /// Returns the positions of all blocks.
    pub fn blocks(&self) -> impl Iterator<Item = u64> {
        self.chunks
            .keys()
            .flat_map(|chunk| (0..BLOCKS_PER_CHUNK).map(move |block| chunk * CHUNK + block * BLOCK))
    }

    /// Returns the copy as a mirror is exported, with the directory cache and the directory-path table of a
    /// snapshot.
    pub fn exported(&self, query: &LookupQuery, snapshot: Option<&Snapshot>) -> Vec<u8> {
        let sizes = snapshot.map_or_else(TableSizes::default, |snapshot| TableSizes {
            buckets: snapshot.cache.buckets(),
            versions: snapshot.versions.len() as u32,
            dir_buckets: snapshot.directories.buckets(),
            dir_units: (snapshot.directories.records.len() / DIR_UNIT_WORDS) as u32,
            epoch: snapshot.directories.epoch,
        });
        let plan = MirrorPlan::new(query, (self.volume_bytes, 1), self.chunks.keys().copied(), &sizes);
        let mut bytes = plan.head();
        bytes.resize(plan.header.bytes as usize, 0);
        for ((_, offset), chunk) in plan.copies.iter().zip(self.chunks.values()) {
            bytes[*offset as usize..][..chunk.len()].copy_from_slice(chunk);
        }
        if let Some(Snapshot { cache, directories, versions, .. }) = snapshot {
            let MirrorHeader { versions: at_versions, cache: at_cache, dir_table, dir_records, .. } =
                plan.header;
            for (at, words) in [
                (at_versions, versions),
                (at_cache, &cache.words),
                (dir_table, &directories.buckets),
                (dir_records, &directories.records),
            ] {
                for (to, word) in bytes[at as usize..].chunks_exact_mut(4).zip(words) {
                    to.copy_from_slice(&word.to_le_bytes());
                }
            }
        }
        bytes
    }

    /// Makes an empty directory cache beside the copy, and no directory-path table.
    pub fn empty_cache(&self, buckets: u32) -> Snapshot {
        let copies: BTreeMap<u64, u32> = self.chunks.keys().copied().zip(0..).collect();
        let words = vec![0; buckets as usize * BUCKET_WORDS as usize];
        let versions = vec![1; copies.len() * BLOCKS_PER_CHUNK as usize];
        Snapshot { cache: Cache { words, claim: 1 }, directories: DirTable::default(), versions, copies }
    }
}

impl Memory for HostCopy {
    fn word(&self, at: u64) -> Option<u32> {
        if at / CHUNK >= self.volume_bytes.div_ceil(CHUNK) {
            return None;
        }
        let offset = (at % CHUNK) as usize;
        let four = self.chunks.get(&(at / CHUNK))?.get(offset..offset + 4)?;
        four.try_into().ok().map(u32::from_le_bytes)
    }
}

/// A directory cache with the versions that it depends on, and a directory-path table.
#[derive(Clone, Debug)]
pub struct Snapshot {
    /// The cache.
    pub cache: Cache,
    /// The table.
    pub directories: DirTable,
    /// The versions of the mirror's blocks.
    pub versions: Vec<u32>,
    /// Number of the copy of each chunk that has one.
    pub copies: BTreeMap<u64, u32>,
}

/// The mirror's memory with a directory cache and a directory-path table.
pub struct WithCache<'m> {
    /// The volume.
    pub memory: &'m HostCopy,
    /// The cache and the table.
    pub snapshot: &'m Snapshot,
}

impl Memory for WithCache<'_> {
    fn word(&self, at: u64) -> Option<u32> {
        self.memory.word(at)
    }

    fn block_number(&self, at: u64) -> u32 {
        let copy = self.snapshot.copies.get(&(at / CHUNK)).copied().unwrap_or(0);
        copy * BLOCKS_PER_CHUNK as u32 + (at % CHUNK / BLOCK) as u32
    }

    fn buckets(&self) -> u32 {
        self.snapshot.cache.buckets()
    }

    fn cache(&self, word: u64) -> u32 {
        self.snapshot.cache.words.get(word as usize).copied().unwrap_or(0)
    }

    fn dir_buckets(&self) -> u32 {
        self.snapshot.directories.buckets()
    }

    fn dir_bucket(&self, word: u64) -> u32 {
        self.snapshot.directories.buckets.get(word as usize).copied().unwrap_or(0)
    }

    fn dir_record(&self, word: u64) -> u32 {
        self.snapshot.directories.records.get(word as usize).copied().unwrap_or(0)
    }

    fn epoch(&self) -> u32 {
        self.snapshot.directories.epoch
    }

    fn version(&self, block: u32) -> Option<u32> {
        self.snapshot.versions.get(block as usize).copied()
    }
}

/// Bytes of a sector, the least that a device moves.
pub const SECTOR: u64 = 32;

/// The memory that a kernel has read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reads {
    /// Sectors, each counted once.
    pub sectors: usize,
    /// Loads of 4, 8 or 16 bytes. Each moves one sector, unless the device still has it.
    pub loads: u64,
    /// Bytes of these loads.
    pub bytes: u64,
}

/// Parts of a kernel's memory.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Part {
    /// The volume's metadata.
    Volume,
    /// The table that leads from positions to the copies of chunks.
    Table,
    /// The directory cache.
    Cache,
    /// The versions of blocks.
    Versions,
    /// The buckets of the directory-path table.
    Directories,
    /// The records of the directory-path table.
    Records,
}

/// A memory that counts the reads of a kernel.
pub struct Counting<'m> {
    memory: WithCache<'m>,
    sectors: RefCell<BTreeSet<(Part, u64)>>,
    /// The parts of buckets and records, 16 bytes each, that the kernel has in registers.
    quarters: RefCell<BTreeSet<(Part, u64)>>,
    loads: Cell<u64>,
    bytes: Cell<u64>,
}

impl<'m> Counting<'m> {
    /// Makes a memory that has counted nothing.
    pub fn new(memory: WithCache<'m>) -> Self {
        Counting {
            memory,
            sectors: RefCell::default(),
            quarters: RefCell::default(),
            loads: Cell::new(0),
            bytes: Cell::new(0),
        }
    }

    /// Returns the number of sectors of the volume, the directory cache and the versions. The table of
    /// chunks is small, and a device keeps it near.
    pub fn sectors(&self) -> usize {
        self.sectors.borrow().iter().filter(|(part, _)| *part != Part::Table).count()
    }

    /// Returns all reads, those of the table of chunks included.
    pub fn reads(&self) -> Reads {
        let sectors = self.sectors.borrow().len();
        Reads { sectors, loads: self.loads.get(), bytes: self.bytes.get() }
    }

    fn count(&self, part: Part, byte: u64, bytes: u64) {
        self.sectors.borrow_mut().insert((part, byte / SECTOR));
        self.loads.update(|loads| loads + 1);
        self.bytes.update(|sum| sum + bytes);
    }

    /// Counts a read of a bucket or a record. The kernel reads them 16 bytes at a time.
    fn count_quarter(&self, part: Part, word: u64) {
        if self.quarters.borrow_mut().insert((part, word / 4)) {
            self.count(part, word * 4, 16);
        }
    }

    /// Counts a read of the volume, whose position passes the table of chunks (8 bytes each).
    fn count_volume(&self, at: u64, bytes: u64) {
        self.count(Part::Table, at / CHUNK * 8, 8);
        self.count(Part::Volume, at, bytes);
    }
}

impl Memory for Counting<'_> {
    fn word(&self, at: u64) -> Option<u32> {
        self.count_volume(at, 4);
        self.memory.word(at)
    }

    fn quad(&self, at: u64) -> Option<u64> {
        self.count_volume(at, 8);
        self.memory.quad(at)
    }

    fn buckets(&self) -> u32 {
        self.memory.buckets()
    }

    fn cache(&self, word: u64) -> u32 {
        self.count_quarter(Part::Cache, word);
        self.memory.cache(word)
    }

    fn dir_buckets(&self) -> u32 {
        self.memory.dir_buckets()
    }

    fn dir_bucket(&self, word: u64) -> u32 {
        self.count_quarter(Part::Directories, word);
        self.memory.dir_bucket(word)
    }

    fn dir_record(&self, word: u64) -> u32 {
        self.count_quarter(Part::Records, word);
        self.memory.dir_record(word)
    }

    fn epoch(&self) -> u32 {
        self.memory.epoch()
    }

    fn version(&self, block: u32) -> Option<u32> {
        self.count(Part::Versions, u64::from(block) * 4, 4);
        self.memory.version(block)
    }
}
