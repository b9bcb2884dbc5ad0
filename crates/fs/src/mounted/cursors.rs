//! Where searches for room go on: hints, shared by all writers, and the walks of each writer. The searches
//! are in `space`.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

/// A frontier that is not known yet.
const UNKNOWN: u64 = u64::MAX;

/// The group where a search for one kind of room goes on. The groups before it had none when a search passed
/// them, or another writer had claimed theirs.
#[derive(Default)]
pub(crate) struct RoomCursor(AtomicU64);

impl RoomCursor {
    /// Room has appeared in a group.
    pub(crate) fn go_back_to(&self, number: u64) {
        if number < self.0.load(Relaxed) {
            self.0.fetch_min(number, Relaxed);
        }
    }

    /// The group where the search goes on.
    pub(crate) fn get(&self) -> u64 {
        self.0.load(Relaxed)
    }

    /// Room was found in a group.
    pub(crate) fn move_to(&self, number: u64) {
        self.0.store(number, Relaxed);
    }

    /// Group `number`, where the search was, has no room.
    pub(crate) fn pass(&self, number: u64) {
        let _ = self.0.compare_exchange(number, number + 1, Relaxed, Relaxed);
    }
}

/// The cursors of a volume's searches.
pub(crate) struct RoomCursors {
    /// Room in inode blocks.
    pub(crate) inodes: RoomCursor,
    /// Room in metadata chunks.
    pub(crate) blocks: RoomCursor,
    /// Long extents of free blocks.
    pub(crate) extents: RoomCursor,
    /// Transactions that made room.
    frees: AtomicU64,
    /// By kind of room, the times that a search which found nothing may find something from then on. They
    /// begin with 1.
    changes: [AtomicU64; 3],
    /// By kind of walk, the changes when one began that found nothing; 0 where none is known.
    exhausted: [AtomicU64; KINDS],
    /// A walk found no free block when none was counted. From then on such a count is believed: that of the
    /// superblock may be wrong.
    believes_count: AtomicBool,
    /// The first group that nobody has used.
    frontier: AtomicU64,
}

impl Default for RoomCursors {
    fn default() -> Self {
        let [inodes, blocks, extents] = Default::default();
        RoomCursors {
            inodes,
            blocks,
            extents,
            frees: 0.into(),
            changes: [1, 1, 1].map(AtomicU64::new),
            exhausted: Default::default(),
            believes_count: AtomicBool::new(false),
            frontier: UNKNOWN.into(),
        }
    }
}

impl RoomCursors {
    /// Counts a transaction that made room. (Attempts do not count: each retry would begin a new walk.)
    pub(crate) fn count_free(&self) {
        self.frees.fetch_add(1, Relaxed);
        for changes in &self.changes {
            changes.fetch_add(1, Relaxed);
        }
    }

    /// Changes of this room so far, for [`set_exhausted`](Self::set_exhausted).
    pub(crate) fn changes(&self, room: RoomKind) -> u64 {
        self.changes[room as usize].load(Relaxed)
    }

    /// A walk that began after `changes` changes has found nothing.
    pub(crate) fn set_exhausted(&self, walk: usize, changes: u64) {
        self.exhausted[walk].store(changes, Relaxed);
    }

    /// True where a walk for this room would find nothing: the last one did not, and none has appeared since.
    pub(crate) fn is_exhausted(&self, walk: usize, room: RoomKind) -> bool {
        self.exhausted[walk].load(Relaxed) == self.changes(room)
    }

    /// No free block is counted, and a walk has found none.
    pub(crate) fn believe_count(&self) {
        self.believes_count.store(true, Relaxed);
    }

    /// True where no block is free when none is counted.
    pub(crate) fn believes_count(&self) -> bool {
        self.believes_count.load(Relaxed)
    }

    /// Transactions that made room so far.
    pub(crate) fn frees(&self) -> u64 {
        self.frees.load(Relaxed)
    }

    /// The frontier, once it is known.
    pub(crate) fn frontier(&self) -> Option<u64> {
        Some(self.frontier.load(Relaxed)).filter(|number| *number != UNKNOWN)
    }

    /// The frontier has been found.
    pub(crate) fn set_frontier(&self, number: u64) {
        self.frontier.store(number, Relaxed);
    }

    /// A search has found free blocks in a group.
    pub(crate) fn move_frontier_to(&self, number: u64) {
        if self.frontier().is_some_and(|frontier| number > frontier) {
            self.set_frontier(number);
        }
    }
}

/// A walk over all groups. An attempt that misses a block and begins again goes on where the last one was.
#[derive(Clone, Copy, Default)]
pub(crate) struct Walk {
    /// The next group.
    pub(crate) next: u64,
    /// Groups that are left, 0 where no walk has begun.
    pub(crate) left: u64,
    /// Number of transactions that had made room when it began.
    pub(crate) frees: u64,
    /// Number of changes of the room when it began.
    pub(crate) changes: u64,
    /// Least number of free blocks that it looks for.
    pub(crate) least: u64,
}

/// A kind of room.
#[derive(Clone, Copy)]
pub(crate) enum RoomKind {
    /// Free blocks.
    Free,
    /// Metadata chunks with free blocks.
    Blocks,
    /// Inode blocks with free inodes.
    Inodes,
}

/// Number of kinds of walks.
pub(crate) const KINDS: usize = 6;

/// The walks of a writer. A rollback leaves them.
pub(crate) type Walks = [Walk; KINDS];

/// The change of room by a transaction, for those who have searched in vain. It is dropped after the
/// transaction has ended.
pub(crate) struct RoomChange<'v> {
    cursors: &'v RoomCursors,
    took: [bool; 3],
    made: [bool; 3],
}

impl<'v> RoomChange<'v> {
    pub(crate) fn new(cursors: &'v RoomCursors) -> Self {
        RoomChange { cursors, took: [false; 3], made: [false; 3] }
    }

    /// The transaction takes such room. A rollback makes it free again.
    pub(crate) fn take(&mut self, kind: RoomKind) {
        self.took[kind as usize] = true;
    }

    /// The transaction makes a metadata chunk or an inode block, which has such room.
    pub(crate) fn make(&mut self, kind: RoomKind) {
        self.made[kind as usize] = true;
    }

    /// The transaction is kept: what it took is not free again.
    pub(crate) fn keep(&mut self) {
        self.took = [false; 3];
    }
}

impl Drop for RoomChange<'_> {
    fn drop(&mut self) {
        for (kind, changes) in self.cursors.changes.iter().enumerate() {
            if self.took[kind] || self.made[kind] {
                changes.fetch_add(1, Relaxed);
            }
        }
    }
}
