//! State of commits: copies of blocks that are not in place, and counts of changed blocks.

use crate::device::IoBufMut;
use crate::journal::{Copies, Journal, Pending};
use crate::memory::dirty::Dirty;
use crate::memory::state::{self, DATA};
use crate::vocabulary::fault::Fault;
use lanefs_sync::{Mutex, MutexGuard};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

/// Called with the first failure of a write.
pub(crate) type FailureListener = Box<dyn Fn(Fault) + Send + Sync>;

/// The state of a store's commits.
#[derive(Default)]
pub(crate) struct CommitState {
    /// A commit has it locked until the device has its log.
    journal: Mutex<Option<Journal>>,
    /// Blocks that the journal takes in one commit; 0 without one. Changes ask for it, and must not wait for
    /// the device.
    journal_capacity: AtomicUsize,
    /// Copies that are being written to the journal.
    pub(crate) in_flight: Mutex<Option<Copies>>,
    /// Committed blocks that are not in place.
    pub(crate) pending: Mutex<Pending>,
    /// A write failed: [`failure`](Self::failure) is set.
    failed: AtomicBool,
    /// The first failure of a write.
    failure: Mutex<Option<Fault>>,
    /// Learns of the first failure of a write.
    failure_listener: OnceLock<FailureListener>,
    pub(crate) changed_metadata: AtomicU64,
    pub(crate) changed_data: AtomicU64,
    /// `changed_data` at the last early write of file data.
    pub(crate) written_early: AtomicU64,
    /// File data were written in place since the last flush.
    pub(crate) wrote_data: AtomicBool,
    /// Blocks of file data that changed while they were written for a commit, and that are in no writer's
    /// list: for the next commit.
    pub(crate) carried_over: Mutex<Vec<u64>>,
    /// File data are being written in place, or are still to be written for a snapshot. (A snapshot sets it
    /// with the gate closed, so that a thread that drops data sees it.)
    pub(crate) needs_data: AtomicBool,
    pub(crate) counters: Counters,
}

impl CommitState {
    /// Returns whether a write failed.
    pub(crate) fn has_failed(&self) -> bool {
        self.failed.load(Ordering::Acquire)
    }

    /// Returns the first failure of a write.
    pub(crate) fn failure(&self) -> Option<Fault> {
        if self.has_failed() { *self.failure.lock() } else { None }
    }

    /// Keeps the failure of a write; later ones follow from the first, which alone counts.
    pub(crate) fn fail(&self, fault: Fault) {
        {
            let mut failure = self.failure.lock();
            if failure.is_some() {
                return;
            }
            *failure = Some(fault);
            self.failed.store(true, Ordering::Release);
        }
        self.failure_listener.get().into_iter().for_each(|listener| listener(fault));
    }

    /// Sets the listener of the first failure of a write. Only the first call counts.
    pub(crate) fn set_failure_listener(&self, listener: FailureListener) {
        let _ = self.failure_listener.set(listener);
    }

    /// Locks the journal.
    pub(crate) fn lock_journal(&self) -> MutexGuard<'_, Option<Journal>> {
        self.journal.lock()
    }

    /// Uses another journal; returns the old one.
    pub(crate) fn set_journal(&self, journal: Option<Journal>) -> Option<Journal> {
        let mut old = self.journal.lock();
        let capacity = journal.as_ref().map_or(0, Journal::capacity);
        self.journal_capacity.store(capacity, Ordering::Relaxed);
        std::mem::replace(&mut *old, journal)
    }

    /// The number of blocks that the journal takes in one commit; 0 without one.
    pub(crate) fn journal_capacity(&self) -> usize {
        self.journal_capacity.load(Ordering::Relaxed)
    }
}

/// Totals since the volume was opened.
#[derive(Default)]
pub(crate) struct Counters {
    pub(crate) commits: AtomicU64,
    pub(crate) data_bytes: AtomicU64,
    pub(crate) in_place_bytes: AtomicU64,
    pub(crate) journal_bytes: AtomicU64,
}

impl CommitState {
    /// Counts a block that became dirty.
    pub(crate) fn count_changed(&self, state: u8) {
        let counter =
            if state::content(state) == Some(DATA) { &self.changed_data } else { &self.changed_metadata };
        counter.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a block of file data that is no longer dirty, where it was.
    pub(crate) fn uncount_data(&self, dirty: u8) {
        if dirty == Dirty::CHANGED {
            let less = |count: u64| Some(count.saturating_sub(1));
            let _ = self.changed_data.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less);
        }
    }

    /// Returns true when the changes take more than 1/`part` of the journal, or twice that of a cache of
    /// `budget` blocks. File data alone seldom do: they are written early, and clean then.
    pub(crate) fn is_fuller_than(&self, part: u64, budget: u64) -> bool {
        let metadata = self.changed_metadata.load(Ordering::Relaxed);
        let data = self.changed_data.load(Ordering::Relaxed);
        let room = match self.journal_capacity() {
            0 => u64::MAX,
            blocks => blocks as u64,
        };
        metadata >= room / part || data + metadata >= budget * 2 / part
    }

    /// Copies the last version of a block that is not in place: one that is being committed, else one that is
    /// committed. Returns false where there is none.
    pub(crate) fn copy_committed(&self, at: u64, out: &mut IoBufMut<'_>) -> bool {
        if let Some(image) = self.in_flight.lock().as_ref().and_then(|copies| copies.get(at)) {
            out.copy_from(image);
            return true;
        }
        match self.pending.lock().get(at) {
            Some(image) => {
                out.copy_from(image);
                true
            }
            None => false,
        }
    }

    /// Returns true where a block's newest bytes are a copy that is not in place.
    pub(crate) fn has_copy(&self, at: u64) -> bool {
        let in_flight = self.in_flight.lock().as_ref().is_some_and(|copies| copies.get(at).is_some());
        in_flight || self.has_committed(at)
    }

    /// Returns true where the journal has a copy of a block that is not in place.
    pub(crate) fn has_committed(&self, at: u64) -> bool {
        self.pending.lock().get(at).is_some()
    }
}
