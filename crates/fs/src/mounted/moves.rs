//! Epochs of the directory tree: whether a directory has been renamed or removed since.
//!
//! A fact such as "this path leads to that directory" stays true until a directory of the path is renamed or
//! removed. Creating and removing files, and creating directories, does not change it. So such facts are
//! remembered together with the number of moves begun before, and are worth nothing once that number is
//! larger.

use lanefs_sync::atomic::{AtomicU64, Ordering, fence};

/// Renames and removals of directories.
///
/// A move is counted as begun before its transaction publishes anything, and as ended after. An attempt that
/// finds both numbers equal, reads, validates what it read, and finds the first number unchanged has not
/// overlapped the publication of any move: facts of that epoch were true when it validated.
pub(crate) struct DirectoryMoves {
    begun: AtomicU64,
    ended: AtomicU64,
    /// All moves, also of directories through which no known path leads.
    all: AtomicU64,
    /// A cause whose moves are not counted, as a planted bug.
    #[cfg(test)]
    uncounted: std::sync::atomic::AtomicU8,
}

/// A cause of moves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum MoveCause {
    /// The name of a directory is removed: it is renamed, or removed itself.
    Remove = 1,
    /// The name of a directory gets another inode.
    Replace = 2,
    /// A batch of changes removes the name of a directory.
    Batch = 3,
    /// A repair changes directories.
    Repair = 4,
}

#[cfg(test)]
impl MoveCause {
    pub(crate) const ALL: [MoveCause; 4] =
        [MoveCause::Remove, MoveCause::Replace, MoveCause::Batch, MoveCause::Repair];
}

/// Number of the moves that have begun. Never 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct MoveEpoch(pub(crate) u64);

impl Default for DirectoryMoves {
    fn default() -> Self {
        // Zeroed memory must not look like an entry of the first epoch.
        DirectoryMoves {
            begun: AtomicU64::new(1),
            ended: AtomicU64::new(1),
            all: AtomicU64::new(1),
            #[cfg(test)]
            uncounted: Default::default(),
        }
    }
}

impl DirectoryMoves {
    /// The present epoch; `None` while a directory moves.
    #[inline(always)]
    pub(crate) fn epoch(&self) -> Option<MoveEpoch> {
        let ended = self.ended.load(Ordering::SeqCst);
        let begun = self.begun.load(Ordering::SeqCst);
        debug_assert!(ended <= begun, "{ended} of {begun} moves have ended");
        (ended == begun).then_some(MoveEpoch(begun))
    }

    /// True where no directory has moved since this epoch began. The caller has validated its attempt before.
    #[inline(always)]
    pub(crate) fn is_now(&self, epoch: MoveEpoch) -> bool {
        // A writer counts its move before it publishes anything that the caller may have read.
        fence(Ordering::Acquire);
        self.begun.load(Ordering::SeqCst) == epoch.0
    }

    /// Counts a move that is about to be published. It ends with the returned value.
    #[must_use]
    pub(crate) fn begin(&self, cause: MoveCause) -> Option<Moving<'_>> {
        #[cfg(test)]
        if self.uncounted.load(Ordering::Relaxed) == cause as u8 {
            return None;
        }
        let _ = cause;
        Some(self.moving())
    }

    /// Notes that directories are about to move, whether a known path leads through them or not.
    pub(crate) fn note(&self) {
        self.all.fetch_add(1, Ordering::SeqCst);
    }

    /// Number of all moves so far, never 0. With the gate closed they are published.
    pub(crate) fn all(&self) -> u64 {
        self.all.load(Ordering::SeqCst)
    }

    /// Begins a new epoch although no directory moves: all facts are forgotten.
    pub(crate) fn forget(&self) {
        drop(self.moving());
    }

    fn moving(&self) -> Moving<'_> {
        self.begun.fetch_add(1, Ordering::SeqCst);
        Moving(self)
    }

    /// Plants a bug: moves of this cause are not counted any more.
    #[cfg(test)]
    pub(crate) fn leave_uncounted(&self, cause: MoveCause) {
        self.uncounted.store(cause as u8, Ordering::Relaxed);
    }
}

/// A move that is being published.
pub(crate) struct Moving<'m>(&'m DirectoryMoves);

impl Drop for Moving<'_> {
    fn drop(&mut self) {
        self.0.ended.fetch_add(1, Ordering::SeqCst);
    }
}
