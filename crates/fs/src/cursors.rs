//! Where searches for room go on: hints, shared by all writers, and the walks of each writer. The searches
//! are in `space`.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

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
    /// The first group that nobody has used.
    frontier: AtomicU64,
}

impl Default for RoomCursors {
    fn default() -> Self {
        let [inodes, blocks, extents] = Default::default();
        RoomCursors { inodes, blocks, extents, frees: 0.into(), frontier: UNKNOWN.into() }
    }
}

impl RoomCursors {
    /// Counts a transaction that made room. (Attempts do not count: each retry would begin a new walk.)
    pub(crate) fn count_free(&self) {
        self.frees.fetch_add(1, Relaxed);
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
}

/// The walks of a writer. A rollback leaves them.
pub(crate) type Walks = [Walk; 6];
