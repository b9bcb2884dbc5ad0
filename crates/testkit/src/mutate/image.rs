//! A small volume as its blocks that are not zero, and the positions of its metadata.

use super::log::JournalLog;
use lanefs_format::superblock::{Superblock, fields};
use lanefs_format::{
    BLOCK, BLOCKS_PER_CHUNK, BlockKind, CHUNK, CHUNK_HEADER_BLOCKS, CHUNKS_PER_GROUP, Checksummer, GROUP,
    SUPERBLOCK_COPY, chunk_entry, group, inode,
};
use std::collections::BTreeMap;
use std::sync::Arc;

/// A block of zeros.
pub(super) const ZERO_BLOCK: [u8; BLOCK as usize] = [0; BLOCK as usize];

/// A block of metadata.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MetadataBlock {
    /// Byte position.
    pub at: u64,
    /// Its kind.
    pub kind: BlockKind,
    /// Byte position of its entry in the chunk's table; 0 for blocks outside of metadata chunks and for
    /// tables.
    pub entry: u64,
    /// The position that its checksum covers: its own, except for a copy in the journal.
    pub home: u64,
}

/// An image. Blocks of zeros are not kept: a copy costs only the blocks in use.
#[derive(Clone, Debug)]
pub struct Image {
    /// Size in bytes.
    pub size: u64,
    /// Blocks by number.
    pub blocks: Arc<BTreeMap<u64, Vec<u8>>>,
    /// Its metadata, in order of position.
    pub metadata: Vec<MetadataBlock>,
    /// The superblock.
    pub superblock: Superblock,
    /// The content of the journal.
    pub log: JournalLog,
}

impl Image {
    /// Reads the bytes of a sound volume.
    ///
    /// # Errors
    /// Bytes of no sound volume.
    pub fn new(bytes: &[u8]) -> Result<Self, String> {
        let superblock = Superblock::decode(bytes).map_err(|error| format!("no superblock: {error:?}"))?;
        let blocks: BTreeMap<u64, Vec<u8>> = bytes
            .chunks(BLOCK as usize)
            .enumerate()
            .filter(|(_, block)| block.iter().any(|byte| *byte != 0))
            .map(|(index, block)| (index as u64, block.to_vec()))
            .collect();
        let mut image = Image {
            size: bytes.len() as u64,
            blocks: Arc::new(blocks),
            metadata: Vec::new(),
            superblock,
            log: JournalLog::default(),
        };
        image.find_metadata();
        image.find_log();
        image.normalise();
        image.seal_log();
        Ok(image)
    }

    /// Returns a block; zeros where there is none.
    pub fn block(&self, at: u64) -> &[u8] {
        self.blocks.get(&(at / BLOCK)).map_or(&ZERO_BLOCK, |block| block)
    }

    /// Returns all bytes.
    pub fn bytes(&self) -> Vec<u8> {
        // Zeroed memory comes from the system untouched: only written blocks cost anything.
        let mut bytes = vec![0; self.size as usize];
        for (index, block) in &*self.blocks {
            let start = (index * BLOCK) as usize;
            bytes[start..start + block.len()].copy_from_slice(block);
        }
        bytes
    }

    fn find_metadata(&mut self) {
        let plain = |at, kind| MetadataBlock { at, kind, entry: 0, home: at };
        let mut found = vec![plain(0, BlockKind::Superblock), plain(SUPERBLOCK_COPY, BlockKind::Superblock)];
        for number in 0..self.superblock.group_count {
            let at = self.superblock.groups + number * BLOCK;
            found.push(plain(at, BlockKind::Group));
            let chunks = group::METADATA.read(self.block(at)).unwrap_or(0);
            for chunk in (0..CHUNKS_PER_GROUP).filter(|chunk| chunks >> chunk & 1 == 1) {
                let start = number * GROUP + chunk * CHUNK;
                for index in 0..CHUNK_HEADER_BLOCKS {
                    found.push(plain(start + index * BLOCK, BlockKind::ChunkHeader));
                }
                for index in CHUNK_HEADER_BLOCKS..BLOCKS_PER_CHUNK {
                    let entry = start + index * chunk_entry::SIZE as u64;
                    let offset = (entry % BLOCK) as usize;
                    let kind = BlockKind::from_number(self.block(entry)[offset]);
                    let at = start + index * BLOCK;
                    found.extend(kind.map(|kind| MetadataBlock { at, kind, entry, home: at }));
                }
            }
        }
        self.metadata = found;
    }

    fn find_log(&mut self) {
        let log = JournalLog::read(&self.superblock, |at| self.block(at));
        let kinds: BTreeMap<u64, BlockKind> = self.metadata.iter().map(|m| (m.at, m.kind)).collect();
        let own = log.own.iter().map(|at| (*at, *at, BlockKind::Journal));
        let copies = log.copies.iter().filter_map(|(at, home)| Some((*at, *home, *kinds.get(home)?)));
        let blocks = own.chain(copies).map(|(at, home, kind)| MetadataBlock { at, kind, entry: 0, home });
        self.metadata.extend(blocks);
        self.log = log;
    }

    fn seal_log(&mut self) {
        let sums = self.superblock.sums();
        for commit in self.log.commits.clone() {
            let content = commit.content(|at| self.block(at));
            if let Some(record) = Arc::make_mut(&mut self.blocks).get_mut(&(commit.record / BLOCK)) {
                commit.seal(&sums, record, content);
            }
        }
    }

    /// Makes all times constant, so that an image is the same each time.
    fn normalise(&mut self) {
        let size = self.superblock.inode_size.bytes() as usize;
        let sums = self.superblock.sums();
        self.superblock.created = 0;
        let blocks = Arc::make_mut(&mut self.blocks);
        for MetadataBlock { at, kind, home, .. } in self.metadata.clone() {
            let Some(block) = blocks.get_mut(&(at / BLOCK)) else { continue };
            match kind {
                BlockKind::Inodes => {
                    for one in block.chunks_exact_mut(size).filter(|one| inode::MODE.read(one) != Some(0)) {
                        for field in [inode::MTIME, inode::CTIME, inode::ATIME, inode::BTIME] {
                            field.write(one, 1_000_000_000);
                        }
                    }
                    seal_inodes(&sums, home, block, size);
                }
                BlockKind::Superblock => {
                    fields::CREATED.write(block, 0);
                    sums.seal(kind, 0, block, size);
                }
                _ => {}
            }
        }
    }
}

/// Makes the checksums of a block's inodes valid. Free ones keep what they have.
pub(super) fn seal_inodes(sums: &Checksummer, home: u64, block: &mut [u8], inode_size: usize) {
    for (i, one) in block.chunks_exact_mut(inode_size).enumerate() {
        if inode::MODE.read(one) != Some(0) {
            let sum = sums.of(home + (i * inode_size) as u64, one, Some(inode::CHECKSUM));
            inode::CHECKSUM.write(one, sum);
        }
    }
}
