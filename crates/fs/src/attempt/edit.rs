//! One attempt of a change: a transaction with the state of its writer.

use super::Core;
use crate::mounted::counts::Counts;
use crate::mounted::cursors::{RoomChange, Walks};
use crate::mounted::hints::{Hints, LeafHints};
use crate::mounted::moves::MoveCause;
use crate::mounted::prealloc::PreallocTxn;
use crate::mounted::writer::{Freed, Writer, deferred_blocks};
use crate::vocabulary::error::Outcome;
use crate::vocabulary::extent::Extent;
use crate::vocabulary::types::Time;
use lanefs_format::{BLOCK, FileKind, inode as f};
use lanefs_store::{Fault, Reader, Tx, View};
use smallvec::SmallVec;

/// One attempt of a change: a transaction, the allocator's state, and the time for stamps.
pub(crate) struct Edit<'v> {
    pub(crate) core: &'v Core<'v>,
    pub(crate) tx: Tx<'v>,
    pub(crate) hints: Hints,
    /// The counts that this change adds.
    pub(crate) counts: Counts,
    pub(crate) now: Time,
    pub(crate) leaves: &'v mut LeafHints,
    pub(crate) walks: &'v mut Walks,
    pub(crate) prealloc: PreallocTxn<'v>,
    pub(crate) freed: &'v mut Vec<Freed>,
    /// False where the volume is so full that the orphan directory cannot grow.
    pub(crate) may_list: bool,
    /// Blocks or inodes have become free.
    pub(crate) made_room: bool,
    /// Declared after the transaction, so that it is dropped after its rollback.
    pub(crate) room: RoomChange<'v>,
    /// Directories that lose a name: facts about paths through them end with this change.
    moves: SmallVec<[(MoveCause, u64); 2]>,
    /// The writer's number.
    number: u8,
    /// Directories whose contents change.
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
            walks: &mut writer.walks,
            prealloc: PreallocTxn::new(&mut writer.prealloc),
            freed: &mut writer.freed,
            may_list: true,
            made_room: false,
            room: RoomChange::new(&core.state.cursors),
            moves: SmallVec::new(),
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

    /// True where another writer has claimed the chunk or block at `at`.
    pub(crate) fn is_claimed(&self, at: u64) -> bool {
        self.core.state.claims.is_claimed_by_other(at, self.number, self.now)
    }

    /// Claims the chunk or block at `at`.
    pub(crate) fn claim(&self, at: u64) {
        self.core.state.claims.claim(at, self.number, self.now);
    }

    /// Stamps a directory whose contents change. Writers that do so at the same time need not wait for each
    /// other, because times only grow. So the stamp is written at the end.
    pub(crate) fn stamp(&mut self, inode: View<'v>) {
        self.tx.pin(inode);
        self.stamps.push(inode);
    }

    /// Makes the blocks of a table free that nothing names.
    pub(crate) fn vacate(&mut self, table: Extent) {
        for at in (table.first..table.end()).map(|block| block * BLOCK) {
            // The table may be larger than memory, and of most blocks there is nothing to undo.
            if !self.core.store.store().is_absent(at) {
                self.tx.vacate(at);
            }
        }
    }

    /// Notes that the name of this inode leads elsewhere, or nowhere, after the change.
    #[inline(always)]
    pub(crate) fn lose_name(&mut self, ino: u64, kind: Outcome<FileKind>, cause: MoveCause) {
        // A damaged entry may have been a directory's.
        if kind.unwrap_or(FileKind::Directory) == FileKind::Directory {
            self.moves.push((cause, ino));
        }
    }

    /// Ends the transaction, which was validated: all its changes stay. Its frees are available at once in
    /// memory, and on a device when the next commit is durable.
    pub(crate) fn commit(mut self) {
        let is_memory = self.core.store.is_memory();
        for view in std::mem::take(&mut self.stamps) {
            self.tx.raise(view, f::MTIME, self.now.0);
            self.tx.raise(view, f::CTIME, self.now.0);
        }
        for freed in self.freed.iter() {
            if let Freed::Extent(extent) = *freed {
                self.core.store.drop_data(extent.first, extent.count);
                self.counts.deferred += if is_memory { 0 } else { extent.count as i64 };
            }
        }
        if !is_memory {
            self.core.state.add_deferred_frees(self.freed.len());
            self.deferred.append(self.freed);
        }
        self.end();
    }

    /// Returns the fault that ends the attempt. A stale attempt is not a failure: it is a conflict, and is
    /// retried.
    pub(crate) fn verdict(&self, fault: Fault) -> Fault {
        self.tx.validate().err().unwrap_or(fault)
    }

    /// Ends the transaction and keeps its changes, without validation: the caller has exclusive access, or
    /// has validated.
    pub(crate) fn end(mut self) {
        self.room.keep();
        self.hints.assert_sound();
        *self.writer_hints = self.hints;
        *self.writer_counts += self.counts;
        self.core.state.counts.publish(self.number, *self.writer_counts);
        if self.made_room {
            self.core.state.cursors.count_free();
        }
        self.prealloc.keep();
        let _moving = self.core.state.directories.begin_move(&self.moves);
        self.tx.commit();
    }

    /// Keeps frees that are durable now.
    pub(crate) fn keep_free(mut self) {
        self.counts.deferred -= deferred_blocks(self.freed) as i64;
        let state = self.core.state;
        self.end();
        assert!(state.counts.sum().deferred >= 0, "more was freed than deferred");
    }
}
