//! One pass over the volume: its state, and its access to blocks.

pub(super) mod batches;
pub(super) mod block_set;
pub(super) mod group_block;
pub(super) mod inode_table;
pub(super) mod owners;

use crate::attempt::Core;
use crate::attempt::edit::Edit;
use crate::check::outcome::findings::{Findings, Tally};
use crate::check::outcome::invariants as iv;
use crate::check::outcome::journal_state::JournalState;
use crate::check::outcome::obstacles::Obstacles;
use crate::files::transaction::run;
use crate::mounted::shared::Shared;
use crate::mounted::writer::Writer;
use crate::space;
use crate::vocabulary::error::Outcome;
use block_set::BlockSet;
use inode_table::Inodes;
use lanefs_format::superblock::Superblock;
use lanefs_format::{
    BLOCK, BLOCKS_PER_CHUNK, BLOCKS_PER_GROUP, BlockKind, CHUNK, CHUNK_HEADER_BLOCKS, Checksummer, Code,
    FileKind, chunk_entry, inode as f,
};
use lanefs_store::{Fault, Store, View};
use std::collections::BTreeSet;
use std::sync::Arc;

/// A metadata block that some structure names: the required content of its chunk's table.
#[derive(Clone, Copy)]
pub(super) struct Claim {
    pub(super) at: u64,
    pub(super) kind: BlockKind,
    pub(super) owner: u64,
}

/// An entry that goes back into its directory after the directory was emptied.
pub(super) struct Saved {
    pub(super) name: Vec<u8>,
    pub(super) ino: u64,
    pub(super) kind: FileKind,
}

/// An attribute that goes back to its inode.
pub(super) type Attribute = (Vec<u8>, Vec<u8>);

/// A directory that is emptied and filled again. Its old blocks stay its own until then, so that nothing is
/// lost where the repair ends before.
pub(super) struct Rebuild {
    pub(super) ino: u64,
    pub(super) entries: Vec<Saved>,
    /// Its blocks, without those of its attributes.
    pub(super) blocks: Vec<(u64, BlockKind)>,
    /// Number of blocks of its attributes.
    pub(super) xattr_blocks: u64,
}

/// A chain of attributes that is freed and made again.
pub(super) struct ChainRebuild {
    pub(super) ino: u64,
    pub(super) attributes: Vec<Attribute>,
    pub(super) blocks: Vec<u64>,
}

/// Bound on the work for failing claims of large blocks, in sizes of the bitmap; beyond it all such claims
/// are refused.
const WORDS_OF_FAILED_CLAIMS: u64 = 64;

/// The tables of a pass, which its threads share.
#[derive(Clone)]
pub(super) struct Tables {
    /// Blocks that belong to some structure.
    pub(super) claimed: Arc<BlockSet>,
    /// Masks of the groups' metadata chunks, as far as they are credible.
    pub(super) masks: Arc<Vec<u64>>,
    pub(super) inodes: Arc<Inodes>,
}

impl Tables {
    /// Empty tables.
    pub(super) fn new(core: &Core<'_>) -> Self {
        Tables {
            claimed: Arc::new(BlockSet::new(core.store.bytes() / BLOCK)),
            masks: Arc::default(),
            inodes: Arc::new(Inodes::new(core.store.inode_size(), Vec::new())),
        }
    }
}

/// A pass. With a writer it repairs as it goes; without one it only checks.
pub(super) struct Pass<'v, 'w> {
    pub(super) core: &'v Core<'v>,
    pub(super) shared: &'v Shared,
    pub(super) writer: Option<&'w mut Writer>,
    pub(super) sums: Checksummer,
    pub(super) superblock: Superblock,
    pub(super) journal: JournalState,
    pub(super) findings: Findings,
    /// Observations that are not faults.
    pub(super) notes: Vec<String>,
    /// Repairs that this pass could not make.
    pub(super) obstacles: Obstacles,
    pub(super) claimed: Arc<BlockSet>,
    pub(super) masks: Arc<Vec<u64>>,
    /// Threads of a pass that only checks.
    pub(super) threads: usize,
    /// Chunks that are not metadata chunks by the group table but that some structure names as such.
    pub(super) suspects: BTreeSet<u64>,
    /// Metadata blocks in use; kept for repairs only.
    pub(super) claims: Vec<Claim>,
    pub(super) inodes: Arc<Inodes>,
    pub(super) used_inodes: u64,
    /// Inodes without a name that the orphan directory lists, or need not list.
    pub(super) orphans: u64,
    /// Directories that are emptied and filled again when bitmaps and chunk tables are right.
    pub(super) rebuilds: Vec<Rebuild>,
    /// Chains of attributes that are made again then.
    pub(super) chains: Vec<ChainRebuild>,
    pub(super) directories: u64,
    /// Blocks whose owner had to be removed after it claimed them. They stay claimed until the walk ends, so
    /// that nothing is visited twice.
    released: Vec<u64>,
    /// Owner and position of all leaf blocks in the chunk tables, in order; read when first needed.
    pub(super) known_leaves: Option<Vec<(u64, u64)>>,
    patience: u64,
}

impl<'v, 'w> Pass<'v, 'w> {
    pub(super) fn new(
        core: &'v Core<'v>,
        shared: &'v Shared,
        writer: Option<&'w mut Writer>,
        superblock: Superblock,
        tables: Tables,
    ) -> Self {
        let blocks = core.store.bytes() / BLOCK;
        Pass {
            core,
            shared,
            writer,
            sums: superblock.sums(),
            superblock,
            journal: JournalState::Sound,
            findings: Findings::default(),
            notes: Vec::new(),
            obstacles: Obstacles::default(),
            claimed: tables.claimed,
            masks: tables.masks,
            threads: 1,
            suspects: BTreeSet::new(),
            claims: Vec::new(),
            inodes: tables.inodes,
            used_inodes: 0,
            orphans: 0,
            rebuilds: Vec::new(),
            chains: Vec::new(),
            directories: 0,
            released: Vec::new(),
            known_leaves: None,
            patience: WORDS_OF_FAILED_CLAIMS * blocks / 64 + (1 << 20),
        }
    }

    /// The tables, for another thread.
    pub(super) fn tables(&self) -> Tables {
        Tables {
            claimed: Arc::clone(&self.claimed),
            masks: Arc::clone(&self.masks),
            inodes: Arc::clone(&self.inodes),
        }
    }

    /// Returns true where this pass repairs.
    pub(super) fn mends(&self) -> bool {
        self.writer.is_some()
    }

    /// Executes a change as a transaction of its own; a pass that only checks does nothing.
    pub(super) fn mend<T>(
        &mut self,
        mut step: impl FnMut(&mut Edit<'_>) -> Outcome<T>,
    ) -> Outcome<Option<T>> {
        let (core, shared) = (self.core, self.shared);
        let Some(writer) = self.writer.as_deref_mut() else { return Ok(None) };
        loop {
            match run(core, writer, 0, &mut |edit, _| step(edit)) {
                Ok(value) => return Ok(Some(value)),
                Err(Fault::Miss { at, want }) => core.store.fetch(at, want)?,
                // Freed space is reusable once the device knows that it is free.
                Err(Fault::Code(Code::NoSpace)) if !writer.deferred.is_empty() => {
                    shared.commit_exclusive(writer).map_err(|_| Fault::Code(Code::NoSpace))?;
                }
                Err(fault) => return Err(fault),
            }
        }
    }

    /// Executes a change as [`mend`](Self::mend) does. A change that the volume refuses, for want of space
    /// above all, is an obstacle to note, and the other repairs go on. `what` names the file.
    ///
    /// # Errors
    /// The device's.
    pub(super) fn try_to_mend<T>(
        &mut self,
        what: impl FnOnce() -> String,
        step: impl FnMut(&mut Edit<'_>) -> Outcome<T>,
    ) -> Outcome<Option<T>> {
        match self.mend(step) {
            Err(fault @ (Fault::Code(_) | Fault::Damaged { .. })) => {
                self.obstacles.add(&what(), fault);
                Ok(None)
            }
            done => done,
        }
    }

    /// Commits all changes of a repair where they take a good part of the journal or of the cache. Each step
    /// is a transaction of its own, so a volume between two of them is as good as before the first.
    pub(super) fn commit_when_full(&mut self) -> Outcome<()> {
        let (core, shared) = (self.core, self.shared);
        match self.writer.as_deref_mut() {
            Some(writer) if core.store.must_commit() => {
                shared.commit_exclusive(writer).map_err(|_| Fault::Code(Code::Io))
            }
            _ => Ok(()),
        }
    }

    /// Commits all changes so far, unless the journal has room for `blocks` more: then they become durable
    /// together.
    pub(super) fn commit_unless_room(&mut self, blocks: u64) -> Outcome<()> {
        let (core, shared) = (self.core, self.shared);
        match self.writer.as_deref_mut() {
            Some(writer) if core.store.room_for_changes() < blocks => {
                shared.commit_exclusive(writer).map_err(|_| Fault::Code(Code::Io))
            }
            _ => Ok(()),
        }
    }

    /// Blocks of the volume.
    pub(super) fn blocks(&self) -> u64 {
        self.core.store.bytes() / BLOCK
    }

    /// The block, verified as `kind`; `None` where it does not verify.
    ///
    /// # Errors
    /// The device's only.
    pub(super) fn load(&self, at: u64, kind: BlockKind) -> Outcome<Option<View<'v>>> {
        let core = self.core;
        let found = match core.store.block(at, kind) {
            Err(Fault::Miss { at, want }) => {
                core.store.fetch(at, want).and_then(|()| core.store.block(at, kind))
            }
            found => found,
        };
        match found {
            Ok(view) => Ok(Some(view)),
            Err(fault @ Fault::Io { .. }) => Err(fault),
            Err(_) => Ok(None),
        }
    }

    /// The entry of a metadata block in its chunk's table; `None` where the table does not verify.
    ///
    /// # Errors
    /// The device's only.
    pub(super) fn table_entry(&self, at: u64) -> Outcome<Option<View<'v>>> {
        let (block, _) = Store::table_entry(at);
        let table = self.load(block, BlockKind::ChunkHeader)?;
        Ok(table.and_then(|_| space::table_entry(self.core, at).ok()))
    }

    /// Returns true where metadata blocks may lie at `at`: after the table of a metadata chunk.
    pub(super) fn in_metadata_chunk(&self, at: u64) -> bool {
        at % CHUNK >= CHUNK_HEADER_BLOCKS * BLOCK && self.is_metadata_chunk(at)
    }

    /// True for a position inside a metadata chunk.
    pub(super) fn is_metadata_chunk(&self, at: u64) -> bool {
        let block = at / BLOCK;
        let mask = self.masks.get((block / BLOCKS_PER_GROUP) as usize).copied().unwrap_or(0);
        mask >> (block % BLOCKS_PER_GROUP / BLOCKS_PER_CHUNK) & 1 != 0
    }

    /// Claims a metadata block that `from` names; `None` where it cannot be one.
    pub(super) fn claim(
        &mut self,
        tally: &mut Tally,
        from: u64,
        at: u64,
        kind: BlockKind,
    ) -> Outcome<Option<View<'v>>> {
        if !at.is_multiple_of(BLOCK) || at >= self.core.store.bytes() {
            tally.note(from, &iv::MAP_OUTSIDE);
            return Ok(None);
        }
        if !self.in_metadata_chunk(at) {
            tally.note(from, &iv::METADATA_PLACE);
            if !self.is_metadata_chunk(at) {
                self.suspects.insert(at & !(CHUNK - 1));
            }
            return Ok(None);
        }
        if !self.claimed.set(at / BLOCK) {
            tally.note(at, &iv::BLOCK_OWNED_TWICE);
            return Ok(None);
        }
        let Some(view) = self.load(at, kind)? else {
            self.claimed.clear(at / BLOCK);
            tally.note(at, checksum_of(kind));
            return Ok(None);
        };
        let entry = self.table_entry(at)?;
        if self.is_of_another(view, kind, entry, tally.ino)? {
            self.claimed.clear(at / BLOCK);
            tally.note(at, &iv::BLOCK_OWNED_TWICE);
            return Ok(None);
        }
        if let Some(entry) = entry {
            if entry.get(chunk_entry::KIND) != kind as u8 {
                tally.note(at, &iv::CHUNK_ENTRY_KIND);
            }
            if entry.get(chunk_entry::OWNER) != tally.ino {
                tally.note(at, &iv::CHUNK_ENTRY_OWNER);
            }
            let has_sum = kind != BlockKind::Pointers && entry.get(chunk_entry::CHECKSUM) != 0;
            if has_sum || entry.get(chunk_entry::USED) != 0 {
                tally.note(at, &iv::CHUNK_ENTRY_ZERO);
            }
        }
        if self.mends() {
            self.claims.push(Claim { at, kind, owner: tally.ino });
        }
        Ok(Some(view))
    }

    /// The blocks that were claimed after the first `kept` ones, as far as `wanted` is true.
    pub(super) fn claims_since(&self, kept: usize, wanted: impl Fn(&Claim) -> bool) -> Vec<(u64, BlockKind)> {
        let later = self.claims.get(kept..).unwrap_or_default();
        later.iter().filter(|claim| wanted(claim)).map(|claim| (claim.at, claim.kind)).collect()
    }

    /// Takes back those claims after the first `kept` ones for which `gone` is true.
    pub(super) fn unclaim(&mut self, kept: usize, gone: impl Fn(&Claim) -> bool) {
        let later = self.claims.split_off(kept.min(self.claims.len()));
        for claim in later {
            if gone(&claim) {
                self.released.push(claim.at);
            } else {
                self.claims.push(claim);
            }
        }
    }

    /// Frees the blocks of claims that were taken back. The walk has ended.
    pub(super) fn settle(&mut self) {
        for at in std::mem::take(&mut self.released) {
            self.claimed.clear(at / BLOCK);
        }
    }

    /// Claims an extent of data blocks; false where it cannot be one.
    pub(super) fn claim_data(&mut self, tally: &mut Tally, from: u64, first: u64, count: u64) -> bool {
        let end = first.saturating_add(count);
        if end > self.blocks() {
            tally.note(from, &iv::MAP_OUTSIDE);
            return false;
        }
        // Only failing claims cost time without claiming anything, so this bounds the work on a maze of large
        // blocks.
        let words = count / 64;
        let mut chunks = first / BLOCKS_PER_CHUNK..=(end - 1) / BLOCKS_PER_CHUNK;
        let fault = if self.patience < words {
            &iv::BLOCK_OWNED_TWICE
        } else if chunks.any(|chunk| self.is_metadata_chunk(chunk * CHUNK) || self.is_for_sums(chunk * CHUNK))
        {
            &iv::DATA_IN_METADATA
        } else if self.claimed.any(first, count) {
            &iv::BLOCK_OWNED_TWICE
        } else if self.claimed.set_all(first, count) {
            return true;
        } else {
            // Another thread was faster with one of them.
            &iv::BLOCK_OWNED_TWICE
        };
        self.patience = self.patience.saturating_sub(words);
        tally.note(from, fault);
        false
    }

    /// Writes an inode's bytes where they differ.
    pub(super) fn write_inode(&mut self, ino: u64, bytes: &[u8]) -> Outcome<()> {
        self.mend(|edit| {
            let view = edit.store().inode(ino)?;
            edit.tx.put_bytes(view, 0, &bytes[..view.len().min(bytes.len())]);
            Ok(())
        })?;
        Ok(())
    }

    /// The bytes of a block of inodes. Inodes that do not verify are zeros, and their slots are returned as
    /// bits.
    pub(super) fn read_inodes(&self, at: u64) -> Outcome<([u8; BLOCK as usize], u32)> {
        let mut bytes = [0; BLOCK as usize];
        let mut bad = 0;
        if let Some(view) = self.load(at, BlockKind::Inodes)? {
            view.copy_to(0, &mut bytes);
            return Ok((bytes, bad));
        }
        if self.core.store.is_memory() {
            return Ok((bytes, u32::MAX));
        }
        self.core.store.read_raw(at, &mut bytes)?;
        let size = self.core.store.inode_size().bytes();
        for (i, one) in bytes.chunks_exact_mut(size as usize).enumerate() {
            let sum = self.sums.of(at + i as u64 * size, one, Some(f::CHECKSUM));
            if f::MODE.read(one) != Some(0) && f::CHECKSUM.read(one) != Some(sum) {
                one.fill(0);
                bad |= 1 << i;
            }
        }
        Ok((bytes, bad))
    }
}

fn checksum_of(kind: BlockKind) -> &'static iv::Invariant {
    match kind {
        BlockKind::Pointers => &iv::POINTERS_CHECKSUM,
        BlockKind::Leaf => &iv::LEAF_CHECKSUM,
        BlockKind::Tree => &iv::TREE_CHECKSUM,
        BlockKind::Index => &iv::INDEX_CHECKSUM,
        BlockKind::Xattr => &iv::XATTR_CHECKSUM,
        BlockKind::Inodes => &iv::INODE_CHECKSUM,
        BlockKind::Group => &iv::GROUP_CHECKSUM,
        BlockKind::Sums => &iv::SUMS_CHECKSUM,
        BlockKind::ChunkHeader | BlockKind::Superblock | BlockKind::Journal => &iv::CHUNK_CHECKSUM,
    }
}
