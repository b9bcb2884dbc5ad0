//! An image under mutation: a copy-on-write view of a base, whose checksums can be made valid again.

use super::image::{Image, MetadataBlock, seal_inodes};
use super::medium::ImageDevice;
use crate::seeded::Seeded;
use lanefs_format::superblock::fields;
use lanefs_format::{BLOCK, BlockKind, CHUNK, Checksummer, chunk_entry, chunk_header};
use std::collections::BTreeMap;

/// An image under mutation.
#[derive(Clone, Debug)]
pub struct Editor<'i> {
    base: &'i Image,
    changed: BTreeMap<u64, Vec<u8>>,
    size: u64,
}

impl<'i> Editor<'i> {
    /// Starts from `base`, unchanged.
    pub fn new(base: &'i Image) -> Self {
        Editor { base, changed: BTreeMap::new(), size: base.size }
    }

    /// Returns the original image.
    pub fn base(&self) -> &'i Image {
        self.base
    }

    /// Returns the current content of a block.
    pub fn block(&self, at: u64) -> &[u8] {
        match self.changed.get(&(at / BLOCK)) {
            Some(block) => block,
            None => self.base.block(at),
        }
    }

    /// Returns a block for changing.
    pub fn edit(&mut self, at: u64) -> &mut [u8] {
        let base = self.base;
        self.changed.entry(at / BLOCK).or_insert_with(|| base.block(at).to_vec())
    }

    /// Changes the length of the image.
    pub fn resize(&mut self, size: u64) {
        self.size = size;
    }

    /// Makes the checksums of all changed metadata valid again.
    pub fn seal(&mut self) {
        let sums = self.base.superblock.sums();
        let inode_size = self.base.superblock.inode_size.bytes() as usize;
        let touched: Vec<MetadataBlock> = self
            .base
            .metadata
            .iter()
            .filter(|m| self.changed.contains_key(&(m.at / BLOCK)))
            .copied()
            .collect();
        let mut tables: Vec<u64> = Vec::new();
        for MetadataBlock { at, kind, entry, home } in touched {
            match kind {
                // The checksums of these copies are in other copies.
                BlockKind::Pointers | BlockKind::ChunkHeader if at != home => {}
                BlockKind::Pointers => {
                    let sum = sums.of(at, self.block(at), None);
                    let offset = (entry % BLOCK) as usize;
                    chunk_entry::CHECKSUM
                        .write(&mut self.edit(entry)[offset..offset + chunk_entry::SIZE], sum);
                    tables.push(entry / CHUNK * CHUNK);
                }
                BlockKind::ChunkHeader => tables.push(at / CHUNK * CHUNK),
                // Both copies of the superblock are summed as if they lay at the start, with their own seed.
                BlockKind::Superblock => {
                    let block = self.edit(at);
                    let seed = fields::CHECKSUM_SEED.read(block).unwrap_or(0);
                    Checksummer::new(seed).seal(kind, 0, block, inode_size);
                }
                BlockKind::Inodes => seal_inodes(&sums, home, self.edit(at), inode_size),
                _ => drop(sums.seal(kind, home, self.edit(at), inode_size)),
            }
        }
        self.seal_commits(&sums);
        tables.sort_unstable();
        tables.dedup();
        for table in tables {
            let second = sums.of(table + BLOCK, self.block(table + BLOCK), None);
            chunk_header::CHECKSUM2.write(self.edit(table), second);
            let first = sums.of(table, self.block(table), Some(chunk_header::CHECKSUM));
            chunk_header::CHECKSUM.write(self.edit(table), first);
        }
    }

    /// Corrects the records of commits whose blocks have changed.
    fn seal_commits(&mut self, sums: &Checksummer) {
        let base = self.base;
        let changed = |at: &u64| self.changed.contains_key(&(at / BLOCK));
        let commits: Vec<_> = base.log.commits.iter().filter(|c| c.blocks.iter().any(changed)).collect();
        for commit in commits {
            let content = commit.content(|at| self.block(at));
            commit.seal(sums, self.edit(commit.record), content);
        }
    }

    /// Returns a sealed block that differs from the base: sealing an untouched copy must change nothing.
    pub fn differs(&self) -> Option<u64> {
        self.changed
            .iter()
            .find(|(i, block)| self.base.block(*i * BLOCK) != &block[..])
            .map(|(i, _)| i * BLOCK)
    }

    /// Returns the bytes. An image that was made longer ends in noise or zeros.
    pub fn into_bytes(self, numbers: &mut Seeded) -> Vec<u8> {
        let mut bytes = self.base.bytes();
        for (index, block) in &self.changed {
            let start = (index * BLOCK) as usize;
            if let Some(target) = bytes.get_mut(start..start + block.len()) {
                target.copy_from_slice(block);
            }
        }
        if self.size != self.base.size {
            bytes.resize(self.size as usize, if numbers.chance(50) { 0 } else { 0xff });
        }
        bytes
    }

    /// Returns a device with the bytes that [`into_bytes`](Self::into_bytes) returns for the same numbers.
    pub fn into_device(self, numbers: &mut Seeded) -> ImageDevice {
        let beyond = if self.size == self.base.size || numbers.chance(50) { 0 } else { 0xff };
        ImageDevice::new(self.base, self.changed, self.size, beyond)
    }
}
