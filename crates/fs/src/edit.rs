//! What runs of operations work on.

use crate::Time;
use crate::inode::Node;
use crate::shared::Shared;
use crate::space::{Draw, LeafHints, Run, Stock};
use lanefs_format::{BLOCK, BlockKind, HashSeed, inode as f};
use lanefs_store::{Fault, Log, Reader, Tx, View};
use smallvec::SmallVec;
use std::ops::AddAssign;
use std::sync::atomic::Ordering;

/// What every run of an operation needs.
pub(crate) struct Core<'v> {
    pub(crate) store: Reader<'v>,
    pub(crate) seed: HashSeed,
    pub(crate) shared: &'v Shared,
}

impl<'v> Core<'v> {
    pub(crate) fn new(shared: &'v Shared, store: Reader<'v>) -> Self {
        Core { store, seed: shared.seed, shared }
    }

    /// Position of the group table.
    pub(crate) fn groups(&self) -> u64 {
        self.shared.groups()
    }

    pub(crate) fn group_count(&self) -> u64 {
        self.shared.group_count()
    }

    /// Moves the group table. The caller holds all others off.
    pub(crate) fn set_groups(&self, at: u64, count: u64) {
        self.shared.set_groups(at, count);
    }
}

/// Where a writer's allocations go on. All of it can be found again from the volume's bytes; a transaction that is taken
/// back restores it as a whole.
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
    /// Group in which blocks for files that begin were found last; those before it had few.
    pub(crate) data_group: u64,
}

/// Blocks and inodes, as one writer's changes added to them or took from them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    /// Free blocks, those in a writer's stock too.
    pub(crate) free_blocks: i64,
    /// Inodes in use.
    pub(crate) inodes: i64,
    /// Blocks of file data that will be free with the next commit.
    pub(crate) deferred: i64,
}

impl AddAssign for Counts {
    fn add_assign(&mut self, more: Self) {
        // A hostile superblock may begin with any count.
        self.free_blocks = self.free_blocks.wrapping_add(more.free_blocks);
        self.inodes = self.inodes.wrapping_add(more.inodes);
        self.deferred = self.deferred.wrapping_add(more.deferred);
    }
}

/// What a writer keeps from one change to the next.
#[derive(Default)]
pub(crate) struct Writer {
    pub(crate) log: Log,
    pub(crate) hints: Hints,
    pub(crate) counts: Counts,
    pub(crate) leaves: LeafHints,
    pub(crate) stock: Stock,
    /// What writers had in stock and the bitmaps still call used, on its way back.
    pub(crate) returning: Vec<Run>,
    freed: Vec<Freed>,
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
    pub(crate) core: &'v Core<'v>,
    pub(crate) tx: Tx<'v>,
    pub(crate) hints: Hints,
    /// What this change adds to the counts.
    pub(crate) counts: Counts,
    pub(crate) now: Time,
    pub(crate) leaves: &'v mut LeafHints,
    pub(crate) stock: Draw<'v>,
    pub(crate) freed: &'v mut Vec<Freed>,
    /// False where the volume is so full that the orphan directory cannot grow.
    pub(crate) may_list: bool,
    /// The writer's number.
    number: u8,
    /// Directories whose content changes.
    stamps: SmallVec<[View<'v>; 2]>,
    writer_hints: &'v mut Hints,
    writer_counts: &'v mut Counts,
    deferred: &'v mut Vec<Freed>,
}

impl<'v> Edit<'v> {
    /// Begins a change by writer `number`.
    pub(crate) fn new(core: &'v Core<'v>, writer: &'v mut Writer, number: u8) -> Self {
        writer.freed.clear();
        Edit {
            core,
            tx: Tx::new(&core.store, &mut writer.log),
            hints: writer.hints,
            counts: Counts::default(),
            now: Time::now(),
            leaves: &mut writer.leaves,
            stock: Draw::new(&mut writer.stock),
            freed: &mut writer.freed,
            may_list: true,
            number,
            stamps: SmallVec::new(),
            writer_hints: &mut writer.hints,
            writer_counts: &mut writer.counts,
            deferred: &mut writer.deferred,
        }
    }

    #[inline(always)]
    pub(crate) fn store(&self) -> &'v Reader<'v> {
        &self.core.store
    }

    /// True where another writer works in the chunk or block at `at` just now.
    pub(crate) fn is_claimed(&self, at: u64) -> bool {
        self.core.shared.claims.is_others(at, self.number, self.now)
    }

    /// Tells other writers that this one works in the chunk or block at `at`.
    pub(crate) fn claim(&self, at: u64) {
        self.core.shared.claims.claim(at, self.number, self.now);
    }

    /// Stamps a directory whose content changes. Those who do so at the same time need not wait for one another, for times only
    /// grow; so it is done last.
    pub(crate) fn stamp(&mut self, node: Node<'v>) {
        self.tx.pin(node.view);
        self.stamps.push(node.view);
    }

    /// Ends the transaction: all its changes stay. What it freed is free at once in memory, and on a device when this
    /// commit has reached it.
    ///
    /// # Errors
    /// As any change; nothing has happened then.
    pub(crate) fn commit(mut self) -> Outcome<()> {
        let is_memory = self.core.store.is_memory();
        if is_memory && let Err(fault) = self.make_free() {
            return Err(self.verdict(fault));
        }
        self.tx.validate()?;
        for view in std::mem::take(&mut self.stamps) {
            self.tx.raise(view, f::MTIME, self.now.0);
            self.tx.raise(view, f::CTIME, self.now.0);
        }
        for freed in self.freed.iter() {
            if let Freed::Run(first, blocks) = *freed {
                self.core.store.drop_data(first, blocks);
                self.counts.deferred += if is_memory { 0 } else { blocks as i64 };
            }
        }
        if !is_memory {
            self.core.shared.waiting_frees.fetch_add(self.freed.len(), Ordering::Relaxed);
            self.deferred.append(self.freed);
        }
        self.end();
        Ok(())
    }

    /// What a run's failure comes to: a run that read what has changed since has not failed, but must be done again.
    pub(crate) fn verdict(&self, fault: Fault) -> Fault {
        self.tx.validate().err().unwrap_or(fault)
    }

    fn end(self) {
        *self.writer_hints = self.hints;
        *self.writer_counts += self.counts;
        self.core.shared.publish(self.number, *self.writer_counts);
        self.stock.keep();
        self.tx.commit();
    }

    /// Makes free what was deferred, which is about to be committed or has been. Dropped, the change takes it back;
    /// [`keep_free`](Self::keep_free) keeps it.
    pub(crate) fn free_deferred(&mut self, list: &[Freed]) -> Outcome<()> {
        self.freed.extend_from_slice(list);
        self.make_free()
    }

    /// Keeps what [`free_deferred`](Self::free_deferred) did.
    pub(crate) fn keep_free(mut self) {
        self.counts.deferred -= deferred_blocks(self.freed) as i64;
        self.end();
    }

    /// Gives what writers had in stock back to the bitmaps, and keeps it so. The caller holds all others off.
    ///
    /// # Errors
    /// As any change; nothing has happened then.
    pub(crate) fn put_back(mut self, runs: &[Run]) -> Outcome<()> {
        for run in runs {
            crate::space::put_back(&mut self, *run)?;
        }
        self.end();
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

/// Blocks of file data in a list.
pub(crate) fn deferred_blocks(list: &[Freed]) -> u64 {
    let blocks = |freed: &Freed| if let Freed::Run(_, blocks) = freed { *blocks } else { 0 };
    // The positions of a freed chunk and its blocks count as one run when the chunk goes.
    list.iter().map(blocks).sum::<u64>().min(u64::MAX / BLOCK)
}

pub(crate) type Outcome<T> = Result<T, Fault>;
