//! The mirror's memory on the host, for twins, and a memory that counts their reads.

use super::cache::{BUCKET_WORDS, Cache};
use super::memory::Memory;
use lanefs::format::{BLOCK, BLOCKS_PER_CHUNK, CHUNK};
use lanefs::{Volume, Watched};
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};

/// A copy of a volume's metadata, as a mirror has it.
pub struct HostCopy {
    chunks: BTreeMap<u64, Vec<u8>>,
    /// Chunks of the volume.
    count: u64,
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
        HostCopy { chunks: BTreeMap::new(), count: volume.superblock().volume_bytes.div_ceil(CHUNK) }
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

    /// Makes an empty directory cache beside the copy.
    pub fn empty_cache(&self, buckets: u32) -> Snapshot {
        let copies: BTreeMap<u64, u32> = self.chunks.keys().copied().zip(0..).collect();
        let words = vec![0; buckets as usize * BUCKET_WORDS as usize];
        let versions = vec![1; copies.len() * BLOCKS_PER_CHUNK as usize];
        Snapshot { cache: Cache { words, claim: 1 }, versions, copies }
    }
}

impl Memory for HostCopy {
    fn word(&self, at: u64) -> Option<u32> {
        if at / CHUNK >= self.count {
            return None;
        }
        let offset = (at % CHUNK) as usize;
        let four = self.chunks.get(&(at / CHUNK))?.get(offset..offset + 4)?;
        four.try_into().ok().map(u32::from_le_bytes)
    }
}

/// A directory cache, with the versions that it depends on.
#[derive(Clone, Debug)]
pub struct Snapshot {
    /// The cache.
    pub cache: Cache,
    /// The versions of the mirror's blocks.
    pub versions: Vec<u32>,
    /// Number of the copy of each chunk that has one.
    pub copies: BTreeMap<u64, u32>,
}

/// The mirror's memory with a directory cache.
pub struct WithCache<'m> {
    /// The volume.
    pub memory: &'m HostCopy,
    /// The cache.
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

    fn version(&self, block: u32) -> Option<u32> {
        self.snapshot.versions.get(block as usize).copied()
    }
}

/// A memory that counts the sectors of 32 bytes read: of the volume, of the cache, of versions.
pub struct Counting<'m> {
    memory: WithCache<'m>,
    sectors: RefCell<BTreeSet<(char, u64)>>,
}

impl<'m> Counting<'m> {
    /// Makes a memory that has counted none.
    pub fn new(memory: WithCache<'m>) -> Self {
        Counting { memory, sectors: RefCell::default() }
    }

    /// Returns the number of sectors.
    pub fn sectors(&self) -> usize {
        self.sectors.borrow().len()
    }

    fn count(&self, what: char, byte: u64) {
        self.sectors.borrow_mut().insert((what, byte / 32));
    }
}

impl Memory for Counting<'_> {
    fn word(&self, at: u64) -> Option<u32> {
        self.count('v', at);
        self.memory.word(at)
    }

    fn buckets(&self) -> u32 {
        self.memory.buckets()
    }

    fn cache(&self, word: u64) -> u32 {
        self.count('c', word * 4);
        self.memory.cache(word)
    }

    fn version(&self, block: u32) -> Option<u32> {
        self.count('b', u64::from(block) * 4);
        self.memory.version(block)
    }
}
