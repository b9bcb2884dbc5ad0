//! What reads and changes work on.

use crate::Time;
use lanefs_format::{BLOCK, BlockKind, HashSeed};
use lanefs_store::{Fault, Log, Store, Tx};
use std::sync::atomic::{AtomicU64, Ordering};

/// What every read-only operation needs.
pub(crate) struct Core {
    pub(crate) store: Store,
    pub(crate) seed: HashSeed,
    groups: AtomicU64,
    group_count: AtomicU64,
}

impl Core {
    pub(crate) fn new(store: Store, seed: HashSeed, groups: u64, group_count: u64) -> Self {
        Core { store, seed, groups: groups.into(), group_count: group_count.into() }
    }

    /// Position of the group table.
    pub(crate) fn groups(&self) -> u64 {
        self.groups.load(Ordering::Relaxed)
    }

    pub(crate) fn group_count(&self) -> u64 {
        self.group_count.load(Ordering::Relaxed)
    }

    /// Moves the group table. The caller holds all others off.
    pub(crate) fn set_groups(&self, at: u64, count: u64) {
        self.groups.store(at, Ordering::Relaxed);
        self.group_count.store(count, Ordering::Relaxed);
    }
}

/// Where the allocator goes on, and counts. All of it can be found again from the volume's bytes; a transaction that
/// is taken back restores it as a whole.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Hints {
    /// Inode block with room (position), 0 for none.
    pub(crate) inode_block: u64,
    /// Place in it to go on from.
    pub(crate) inode_place: u64,
    /// Metadata chunk to take blocks from (position), 0 for none.
    pub(crate) chunk: u64,
    /// Place in its table to go on from.
    pub(crate) chunk_place: u64,
    /// True after a look at all groups found no inode block with room.
    pub(crate) no_inode_room: bool,
    /// True after a look at all groups found no metadata chunk with room.
    pub(crate) no_chunk_room: bool,
    /// Block behind the last allocation of file data.
    pub(crate) data_goal: u64,
    /// Free blocks of the volume.
    pub(crate) free_blocks: u64,
    /// Inodes in use.
    pub(crate) inodes: u64,
}

/// The writer's state, behind the volume's lock.
#[derive(Default)]
pub(crate) struct Writer {
    pub(crate) log: Log,
    pub(crate) hints: Hints,
    pub(crate) freed: Vec<Freed>,
    /// What committed transactions freed and the device does not know yet: a crash may bring it back, so nothing else may
    /// be put there.
    pub(crate) deferred: Vec<Freed>,
}

/// What a transaction frees. It is free for others, and for the transaction itself, only once the transaction can no
/// longer be taken back: else a block's old bytes would be gone when they are needed again.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Freed {
    /// A metadata block at this position.
    Block(u64, BlockKind),
    /// Blocks of file data: the first one's number, and how many.
    Run(u64, u64),
    /// A metadata chunk at this position, all of whose blocks are free. A volume in memory keeps its memory: the next
    /// metadata is likely to need it, and memory that the host has to clear first costs more than the metadata.
    Chunk(u64),
}

/// A running change: a transaction with the allocator's state and the time that it stamps.
pub(crate) struct Edit<'v> {
    pub(crate) core: &'v Core,
    pub(crate) tx: Tx<'v>,
    pub(crate) hints: Hints,
    pub(crate) now: Time,
    writer_hints: &'v mut Hints,
    pub(crate) freed: &'v mut Vec<Freed>,
    deferred: &'v mut Vec<Freed>,
}

/// Ranges of memory from this size on are given back to the host when they become free.
const RELEASE_BLOCKS: u64 = 16;

impl<'v> Edit<'v> {
    pub(crate) fn new(core: &'v Core, writer: &'v mut Writer) -> Self {
        writer.freed.clear();
        Edit {
            core,
            tx: Tx::new(&core.store, &mut writer.log),
            hints: writer.hints,
            now: Time::now(),
            writer_hints: &mut writer.hints,
            freed: &mut writer.freed,
            deferred: &mut writer.deferred,
        }
    }

    #[inline(always)]
    pub(crate) fn store(&self) -> &'v Store {
        &self.core.store
    }

    /// Ends the transaction: all its changes stay. What it freed is free at once in memory, and on a device when this
    /// commit has reached it.
    ///
    /// # Errors
    /// As any change: the caller drops the edit and nothing has happened.
    pub(crate) fn commit(mut self) -> Outcome<()> {
        if !self.core.store.is_memory() {
            self.deferred.append(self.freed);
            *self.writer_hints = self.hints;
            self.tx.commit();
            return Ok(());
        }
        self.make_free()?;
        *self.writer_hints = self.hints;
        self.tx.commit();
        for freed in self.freed.drain(..) {
            if let Freed::Run(first, blocks) = freed
                && blocks >= RELEASE_BLOCKS
            {
                self.core.store.release(first * BLOCK, blocks * BLOCK);
            }
        }
        Ok(())
    }

    /// Frees what was deferred, as a transaction of its own, right before everything is written to the device.
    pub(crate) fn commit_deferred(mut self) -> Outcome<()> {
        self.freed.clone_from(self.deferred);
        self.make_free()?;
        *self.writer_hints = self.hints;
        self.tx.commit();
        self.deferred.clear();
        Ok(())
    }

    fn make_free(&mut self) -> Outcome<()> {
        // What this frees in turn (an emptied chunk) comes at the end of the list.
        let mut next = 0;
        while let Some(freed) = self.freed.get(next).copied() {
            crate::space::make_free(self, freed)?;
            next += 1;
        }
        Ok(())
    }
}

/// Blocks that are about to be free.
pub(crate) fn deferred_blocks(writer: &Writer) -> u64 {
    writer
        .deferred
        .iter()
        .map(|freed| match freed {
            Freed::Run(_, blocks) => *blocks,
            Freed::Block(..) | Freed::Chunk(_) => 0,
        })
        .sum()
}

pub(crate) type Outcome<T> = Result<T, Fault>;
