//! The group table and the chunk tables, before anything is walked.

use crate::check::outcome::invariants as iv;
use crate::check::outcome::journal_state::JournalState;
use crate::check::pass::inode_table::{InodeBlock, Inodes};
use crate::check::pass::{Claim, Pass};
use crate::lifecycle::mkfs;
use crate::space::{self, Reserved};
use crate::vocabulary::error::Outcome;
use crate::vocabulary::extent::Extent;
use lanefs_format::superblock::Superblock;
use lanefs_format::{
    BLOCK, BLOCKS_PER_CHUNK, BlockKind, CHUNK, CHUNK_HEADER_BLOCKS, CHUNKS_PER_GROUP, FileKind, GROUP,
    SUMS_PER_GROUP, chunk_entry, group as g, inode as f,
};
use std::sync::Arc;

/// Metadata chunks in a batch.
const CHUNKS: usize = 16;

/// Returns true for kinds of blocks that lie in metadata chunks, after the tables.
fn is_in_chunks(kind: BlockKind) -> bool {
    use BlockKind::{Index, Inodes, Leaf, Pointers, Tree, Xattr};
    matches!(kind, Inodes | Pointers | Leaf | Tree | Index | Xattr)
}

impl Pass<'_, '_> {
    /// The blocks that no file gets.
    pub(in crate::check) fn reserved(&self) -> Reserved {
        let (groups, group_count) = (self.core.groups(), self.core.group_count());
        // A damaged journal yields to everything else.
        let sound = self.journal == JournalState::Sound;
        let journal_blocks = if sound { self.superblock.journal_blocks } else { 0 };
        mkfs::reserved(&Superblock { groups, group_count, journal_blocks, ..self.superblock.clone() })
    }

    /// Reads the group table, and takes over the masks of metadata chunks as far as they are credible.
    pub(in crate::check) fn read_groups(&mut self) -> Outcome<()> {
        let mut readable = 0;
        let mut masks = vec![0; self.core.group_count() as usize];
        for number in 0..self.core.group_count() {
            let at = self.core.groups() + number * BLOCK;
            let view = self.group_block(number)?;
            let said = view.as_ref().map_or(0, |view| view.get(g::METADATA));
            match &view {
                None => self.findings.add(at, &iv::GROUP_CHECKSUM, format!("group {number}")),
                Some(view) if view.get(g::OWNER) != number => {
                    let owner = view.get(g::OWNER);
                    self.findings.add(at, &iv::GROUP_OWNER, format!("group {number} says {owner}"));
                }
                Some(_) => readable += 1,
            }
            let mut mask = 0u64;
            for chunk in 0..CHUNKS_PER_GROUP {
                let chunk_at = number * GROUP + chunk * CHUNK;
                let suspect = self.suspects.contains(&chunk_at);
                if (said >> chunk & 1 != 0 || view.is_none() || suspect) && self.may_hold_metadata(chunk_at) {
                    let table = self.has_table(chunk_at)?;
                    let believed =
                        if said >> chunk & 1 != 0 { table || self.holds_metadata(chunk_at)? } else { table };
                    mask |= u64::from(believed) << chunk;
                }
            }
            if mask != 0 {
                // Zeros that nobody writes take no memory.
                masks[number as usize] = mask;
            }
            if view.is_some() && said != mask {
                self.findings.add(
                    at,
                    &iv::GROUP_METADATA,
                    format!("group {number} says {said:#x} instead of {mask:#x}"),
                );
            }
        }
        self.masks = Arc::new(masks);
        if readable == 0 && self.masks.iter().all(|mask| *mask == 0) {
            return Err(lanefs_store::Fault::damaged(
                self.core.groups(),
                "neither the group table nor any metadata chunk is readable; this is too damaged to mend",
            ));
        }
        Ok(())
    }

    /// Claims structures at fixed positions, chunk tables, and blocks of checksums and of inodes.
    pub(in crate::check) fn claim_fixed(&self) {
        for extent in self.reserved().fixed {
            self.claimed.set_all(extent.first, extent.count);
        }
        for chunk in self.metadata_chunks() {
            let sums = if self.is_for_sums(chunk) { SUMS_PER_GROUP } else { 0 };
            self.claimed.set_all(chunk / BLOCK, CHUNK_HEADER_BLOCKS + sums);
        }
        for block in &self.inodes.blocks {
            self.claimed.set(block.at() / BLOCK);
        }
    }

    /// Returns true for a chunk that lies wholly inside the volume and has no fixed structure in it.
    pub(in crate::check) fn may_hold_metadata(&self, chunk: u64) -> bool {
        let end = chunk + CHUNK;
        let overlaps =
            |extent: &Extent| extent.first * BLOCK < end && extent.end() * BLOCK > chunk && extent.count > 0;
        end <= self.core.store.bytes() && !self.reserved().fixed.iter().any(overlaps)
    }

    /// True where a chunk without a readable table holds a block that verifies as metadata.
    fn holds_metadata(&self, chunk: u64) -> Outcome<bool> {
        for index in CHUNK_HEADER_BLOCKS..BLOCKS_PER_CHUNK {
            if self.guess(chunk + index * BLOCK)?.is_some() {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// The kind as which a block of a metadata chunk verifies, whatever the chunk's table says. Blocks of
    /// pointers have no checksum of their own; those are never guessed.
    pub(in crate::check) fn guess(&self, at: u64) -> Outcome<Option<BlockKind>> {
        let mut bytes = [0; BLOCK as usize];
        if self.core.store.is_memory() {
            return Ok(None);
        }
        self.core.store.read_raw(at, &mut bytes)?;
        let size = self.core.store.inode_size().bytes() as usize;
        for kind in [BlockKind::Leaf, BlockKind::Tree, BlockKind::Index, BlockKind::Xattr] {
            if bytes[0] == kind as u8 && self.sums.verify(kind, at, &bytes, size, &[]) {
                return Ok(Some(kind));
            }
        }
        let verifies = |(i, one): (usize, &[u8])| {
            let sum = self.sums.of(at + (i * size) as u64, one, Some(f::CHECKSUM));
            f::MODE.read(one).and_then(FileKind::from_mode).is_some() && f::CHECKSUM.read(one) == Some(sum)
        };
        let is_inodes = bytes.chunks_exact(size).enumerate().any(verifies);
        Ok(is_inodes.then_some(BlockKind::Inodes))
    }

    /// Positions of the metadata chunks.
    pub(in crate::check) fn metadata_chunks(&self) -> Vec<u64> {
        let of_group = |(number, mask): (usize, &u64)| {
            let mask = *mask;
            (0..CHUNKS_PER_GROUP)
                .filter(move |chunk| mask >> chunk & 1 != 0)
                .map(move |chunk| number as u64 * GROUP + chunk * CHUNK)
        };
        self.masks.iter().enumerate().flat_map(of_group).collect()
    }

    /// Reads the chunk tables and finds all blocks of inodes. Tables that do not verify are rebuilt from
    /// blocks that do.
    pub(in crate::check) fn read_chunks(&mut self) -> Outcome<()> {
        let chunks = self.metadata_chunks();
        let found = self.in_batches(chunks.len(), CHUNKS, |pass, range| {
            let mut found = Vec::new();
            for chunk in &chunks[range] {
                pass.read_chunk(*chunk, &mut found)?;
            }
            Ok(found)
        })?;
        self.inodes = Arc::new(Inodes::new(self.core.store.inode_size(), found.concat()));
        self.claim_fixed();
        Ok(())
    }

    fn read_chunk(&mut self, chunk: u64, found: &mut Vec<InodeBlock>) -> Outcome<()> {
        let mut late = self.suspects.contains(&chunk);
        let mut good = true;
        for block in 0..CHUNK_HEADER_BLOCKS {
            good &= self.load(chunk + block * BLOCK, BlockKind::ChunkHeader)?.is_some();
        }
        if !good {
            self.findings.add(chunk, &iv::CHUNK_CHECKSUM, "");
            late = true;
            self.salvage_table(chunk)?;
        }
        for index in CHUNK_HEADER_BLOCKS..BLOCKS_PER_CHUNK {
            let at = chunk + index * BLOCK;
            if !self.is_sums_block(at) && self.read_chunk_entry(at, good)? {
                found.push(InodeBlock::new(at, late));
            }
        }
        Ok(())
    }

    /// True for a block of inodes.
    fn read_chunk_entry(&mut self, at: u64, good: bool) -> Outcome<bool> {
        let entry = if good { self.table_entry(at)? } else { None };
        let (word, rest) = entry.map_or((0, true), |entry| {
            let rest = u64::from(entry.get(chunk_entry::USED)) | u64::from(entry.get(chunk_entry::CHECKSUM));
            (entry.get(chunk_entry::KIND), rest | entry.get(chunk_entry::OWNER) != 0)
        });
        let known = BlockKind::from_number(word).filter(|kind| is_in_chunks(*kind));
        let is_inodes = match known {
            Some(BlockKind::Inodes) if self.load(at, BlockKind::Inodes)?.is_some() => true,
            Some(BlockKind::Inodes) => {
                let (bytes, bad) = self.read_inodes(at)?;
                let size = self.core.store.inode_size().bytes();
                let used = bytes.chunks_exact(size as usize).any(|one| f::MODE.read(one) != Some(0));
                if bad != 0 {
                    let lost = bad.count_ones().min((BLOCK / size) as u32);
                    self.findings.add(at, &iv::INODE_CHECKSUM, format!("{lost} inodes of the block"));
                    if used {
                        self.salvage_inodes(at, &bytes)?;
                    }
                }
                used || bad == 0
            }
            Some(kind) => {
                let other = self.load(at, kind)?.is_none() && self.guess(at)? == Some(BlockKind::Inodes);
                if other {
                    self.findings.add(at, &iv::CHUNK_ENTRY_KIND, "a block of inodes");
                }
                other
            }
            None if word != 0 => {
                self.findings.add(at, &iv::CHUNK_ENTRY_KIND, format!("kind {word}"));
                self.guess(at)? == Some(BlockKind::Inodes)
            }
            None if rest => {
                if good {
                    self.findings.add(at, &iv::CHUNK_ENTRY_KIND, "a free block with an owner or a checksum");
                }
                self.guess(at)? == Some(BlockKind::Inodes)
            }
            None => false,
        };
        if is_inodes && self.mends() {
            // Guessed blocks, too, may contain bad inodes.
            let (bytes, bad) = self.read_inodes(at)?;
            if bad != 0 {
                self.salvage_inodes(at, &bytes)?;
            }
            self.claims.push(Claim { at, kind: BlockKind::Inodes, owner: 0 });
        }
        Ok(is_inodes)
    }

    /// Rebuilds a chunk's table. Its entries follow from the blocks in use. Only the checksums of pointer
    /// blocks are stored nowhere else, so a block of valid pointers is accepted as one.
    fn salvage_table(&mut self, chunk: u64) -> Outcome<()> {
        let mut sums = Vec::new();
        if self.mends() && !self.core.store.is_memory() {
            for index in CHUNK_HEADER_BLOCKS..BLOCKS_PER_CHUNK {
                let at = chunk + index * BLOCK;
                let mut bytes = [0; BLOCK as usize];
                self.core.store.read_raw(at, &mut bytes)?;
                let words = bytes.as_chunks::<8>().0.iter().map(|word| u64::from_le_bytes(*word));
                let valid = words.clone().all(|word| lanefs_format::Pointer::decode(word).is_ok());
                if valid && words.into_iter().any(|word| word != 0) {
                    sums.push((at, self.sums.of(at, &bytes, None)));
                }
            }
        }
        self.mend(|edit| {
            for block in 0..CHUNK_HEADER_BLOCKS {
                let at = chunk + block * BLOCK;
                edit.tx.vacate(at);
                let view = edit.tx.fresh(at, BlockKind::ChunkHeader, 0)?;
                edit.tx.set(
                    view,
                    lanefs_format::chunk_header::KIND,
                    if block == 0 { BlockKind::ChunkHeader as u8 } else { 0 },
                );
                edit.tx.set(view, lanefs_format::chunk_header::OWNER, if block == 0 { chunk } else { 0 });
            }
            for (at, sum) in &sums {
                let entry = space::table_entry(edit.core, *at)?;
                edit.tx.set(entry, chunk_entry::CHECKSUM, *sum);
            }
            Ok(())
        })?;
        Ok(())
    }

    /// Keeps a block of inodes without those that do not verify.
    fn salvage_inodes(&mut self, at: u64, bytes: &[u8]) -> Outcome<()> {
        self.mend(|edit| {
            edit.tx.vacate(at);
            let view = edit.tx.fresh(at, BlockKind::Inodes, 0)?;
            edit.tx.init(view, 0, bytes);
            Ok(())
        })?;
        Ok(())
    }
}
