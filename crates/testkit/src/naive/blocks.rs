//! A volume's blocks: read, and verified by kind and owner.

use super::bytes::Words;
use super::claims::Claims;
use super::data_sums::{SumPlace, first_sums};
use super::journal::{Copies, replay};
use super::sums::{checksum, verifies};
use super::superblock::{COPY, Superblock, best};
use super::{BLOCK, CHUNK_BLOCKS, CHUNK_TABLE_BLOCKS, GROUP_BLOCKS, Read, ensure, wrong};
use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::rc::Rc;

/// The bytes of a volume.
pub trait Source {
    /// Reads the block at a position; `None` past the end.
    fn block(&self, at: u64) -> Option<Vec<u8>>;
}

impl Source for &[u8] {
    fn block(&self, at: u64) -> Option<Vec<u8>> {
        Some(self.get(at as usize..(at + BLOCK) as usize)?.to_vec())
    }
}

impl Source for File {
    fn block(&self, at: u64) -> Option<Vec<u8>> {
        let mut block = vec![0; BLOCK as usize];
        self.read_exact_at(&mut block, at).ok()?;
        Some(block)
    }
}

/// Kind of a block of checksums of file data, of which each group has some.
pub(super) const SUMS_IN_GROUP: u8 = 11;
/// Blocks of checksums in a group.
const SUMS_BLOCKS: u64 = 32;

/// A block's kind and bytes.
type Verified = (u8, Rc<[u8]>);

/// A volume that the second reader has open.
pub struct Naive<'s> {
    source: &'s dyn Source,
    /// Newer blocks, from the journal.
    copies: Copies,
    pub(super) superblock: Superblock,
    /// False for a volume whose file data may be damaged.
    verifies_data: bool,
    /// True for a volume that no crash and no lack of space has left bytes past the ends of files.
    pub(super) has_clear_ends: bool,
    /// Metadata blocks that verified, with their kinds, by position.
    verified: RefCell<HashMap<u64, Verified>>,
    /// Tables of metadata chunks that verified, by position.
    tables: RefCell<HashMap<u64, Rc<[u8]>>>,
    pub(super) claims: Claims,
    /// Inodes that have a name or are listed, and the number of their names.
    pub(super) visited: RefCell<BTreeMap<u64, u64>>,
}

impl<'s> Naive<'s> {
    /// Opens a volume for reading. The log of one that was not closed is applied in memory.
    ///
    /// # Errors
    /// A superblock or a journal that contradicts the document.
    pub fn open(source: &'s dyn Source) -> Result<Self, String> {
        let superblock = best(&[source.block(0), source.block(COPY)])?;
        let copies = replay(&superblock, &|at| source.block(at))?;
        Ok(Naive {
            source,
            copies,
            superblock,
            verifies_data: true,
            has_clear_ends: false,
            verified: RefCell::default(),
            tables: RefCell::default(),
            claims: Claims::default(),
            visited: RefCell::default(),
        })
    }

    /// Reads file data without a look at their checksums: a repair keeps data that do not verify.
    pub fn with_damaged_data(self) -> Self {
        Naive { verifies_data: false, ..self }
    }

    /// Demands zeros past the ends of files, which a crash and a full volume may leave otherwise.
    pub fn with_clear_ends(self) -> Self {
        Naive { has_clear_ends: true, ..self }
    }

    /// The newest bytes of a block.
    fn newest(&self, at: u64) -> Read<Vec<u8>> {
        let inside = at.is_multiple_of(BLOCK) && at < self.superblock.bytes;
        ensure(inside, || format!("position {at:#x}"))?;
        match self.copies.get(&at) {
            Some(copy) => Ok(copy.clone()),
            None => self.source.block(at).ok_or_else(|| format!("block {at:#x} is outside the image")),
        }
    }

    /// A block of file data that has been written.
    pub(super) fn data(&self, at: u64) -> Read<Vec<u8>> {
        let block = self.newest(at)?;
        if self.verifies_data {
            ensure(self.matches_sum(at, &block)?, || format!("data block {at:#x} does not verify"))?;
        }
        Ok(block)
    }

    /// Returns true for the position of a block of file data that verifies, or has no checksum.
    pub(super) fn is_sound_data(&self, at: u64) -> Read<bool> {
        self.matches_sum(at, &self.newest(at)?)
    }

    fn matches_sum(&self, at: u64, block: &[u8]) -> Read<bool> {
        if !self.superblock.data_checksums {
            return Ok(true);
        }
        let recorded = self.recorded_sum(at)?;
        Ok(recorded == 0 || recorded == checksum(self.superblock.checksum_seed, at, block, None).max(1))
    }

    /// The recorded checksum of a block of file data.
    fn recorded_sum(&self, at: u64) -> Read<u32> {
        let place = SumPlace::of(at);
        let (group, number) = (place.group, place.number);
        let sums = self.metadata(place.block(), SUMS_IN_GROUP, group)?;
        ensure(sums.u64(16) == number, || format!("block of checksums {number} of group {group}"))?;
        Ok(sums.u32(place.offset))
    }

    /// Returns true for the position of a block of checksums of a group.
    pub(super) fn sums_block_of(&self, group: u64, at: u64) -> bool {
        let first = first_sums(group);
        self.superblock.data_checksums && (first..first + SUMS_BLOCKS * BLOCK).contains(&at)
    }

    /// Returns true for a block of a group's chunk of checksums, and of a group that has no room for one.
    pub(super) fn is_reserved_for_sums(&self, group: u64, block: u64) -> bool {
        let first = first_sums(group) / BLOCK - 2;
        let end = first + CHUNK_BLOCKS;
        self.superblock.data_checksums
            && (end * BLOCK > self.superblock.bytes || (first..end).contains(&block))
    }

    /// A block of the group table.
    pub(super) fn group(&self, number: u64) -> Read<Rc<[u8]>> {
        let at = self.superblock.groups + number * BLOCK;
        let block = self.verified(at, 2, |block| verifies(self.superblock.checksum_seed, at, block, 4))?;
        ensure(block.u64(8) == number, || format!("group {number} is group {}", block.u64(8)))?;
        Ok(block)
    }

    /// Returns true where a position lies in a metadata chunk.
    fn in_metadata_chunk(&self, at: u64) -> Read<bool> {
        let block = at / BLOCK;
        let group = self.group(block / GROUP_BLOCKS)?;
        Ok(group.u64(24) >> (block % GROUP_BLOCKS / CHUNK_BLOCKS) & 1 != 0)
    }

    /// The table of a metadata chunk: 512 entries of 16 bytes.
    pub(super) fn chunk_table(&self, chunk: u64) -> Read<Rc<[u8]>> {
        if let Some(table) = self.tables.borrow().get(&chunk) {
            return Ok(table.clone());
        }
        let seed = self.superblock.checksum_seed;
        let first = self.verified(chunk, 3, |block| verifies(seed, chunk, block, 4))?;
        ensure(first.u64(8) == chunk, || format!("the table of chunk {chunk:#x} is of another"))?;
        let second = self.newest(chunk + BLOCK)?;
        ensure(first.u32(20) == checksum(seed, chunk + BLOCK, &second, None), || {
            format!("the second block of the table of chunk {chunk:#x} does not verify")
        })?;
        let table: Rc<[u8]> = [&first, &second[..]].concat().into();
        self.tables.borrow_mut().insert(chunk, table.clone());
        Ok(table)
    }

    /// A block of a metadata chunk, of this kind and with this owner.
    pub(super) fn metadata(&self, at: u64, kind: u8, owner: u64) -> Read<Rc<[u8]>> {
        let inside = at.is_multiple_of(BLOCK) && at < self.superblock.bytes;
        ensure(inside && self.in_metadata_chunk(at)?, || format!("metadata at {at:#x}"))?;
        if let Some((known, block)) = self.verified.borrow().get(&at)
            && *known == kind
            && (kind <= 5 || block.u64(8) == owner)
        {
            return Ok(block.clone());
        }
        let chunk = at / (CHUNK_BLOCKS * BLOCK) * (CHUNK_BLOCKS * BLOCK);
        let b = (at - chunk) / BLOCK;
        ensure(b >= CHUNK_TABLE_BLOCKS, || format!("a chunk's table is used as a block, at {at:#x}"))?;
        let table = self.chunk_table(chunk)?;
        let entry = &table[b as usize * 16..b as usize * 16 + 16];
        ensure(entry.u8(0) == kind && entry.u64(8) == owner, || {
            format!("{at:#x}: kind {} of {}, not {kind} of {owner}", entry.u8(0), entry.u64(8))
        })?;
        let seed = self.superblock.checksum_seed;
        let size = self.superblock.inode_bytes as usize;
        let block = self.verified(at, kind, |block| match kind {
            4 => block
                .chunks(size)
                .enumerate()
                .all(|(i, inode)| inode.u16(0) == 0 || verifies(seed, at + (i * size) as u64, inode, 84)),
            5 => entry.u32(4) == checksum(seed, at, block, None),
            _ => block.u64(8) == owner && verifies(seed, at, block, 4),
        })?;
        Ok(block)
    }

    fn verified(&self, at: u64, kind: u8, is_good: impl Fn(&[u8]) -> bool) -> Read<Rc<[u8]>> {
        if let Some((known, block)) = self.verified.borrow().get(&at)
            && *known == kind
        {
            return Ok(block.clone());
        }
        let block: Rc<[u8]> = self.newest(at)?.into();
        let has_header = !matches!(kind, 4 | 5);
        if has_header && block.u8(0) != kind || !is_good(&block) {
            return wrong(format!("block {at:#x} does not verify as kind {kind}"));
        }
        self.verified.borrow_mut().insert(at, (kind, block.clone()));
        Ok(block)
    }
}
