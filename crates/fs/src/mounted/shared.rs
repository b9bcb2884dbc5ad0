//! The state that all threads share: the volume, its superblock and its background threads.

use super::dir_table::DEFAULT_BYTES;
use super::journal::JournalDamage;
use super::state::VolumeState;
use crate::vocabulary::error::Result;
use crate::vocabulary::expansion::Expansion;
use crate::vocabulary::options::{Access, OpenOptions};
use lanefs_format::superblock::Superblock;
use lanefs_format::{Code, SUPERBLOCK_COPY};
use lanefs_store::{Fault, Store};
use lanefs_sync::lock::{Condvar, Mutex};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::thread::JoinHandle;
use std::time::Duration;

/// A mounted volume, as its threads share it.
pub(crate) struct Shared {
    pub(crate) state: VolumeState,
    pub(crate) superblock: Mutex<Superblock>,
    pub(crate) access: Access,
    /// The bound on the data that are read.
    pub(crate) expansion: Expansion,
    /// The damage of the journal, where the volume is open without one.
    pub(crate) journal_damage: Mutex<Option<JournalDamage>>,
    pub(crate) commit_every: Duration,
    /// The superblock on the device marks the volume as in use.
    pub(crate) marked: AtomicBool,
    /// True while changes are refused on a volume that was opened for writing.
    pub(crate) frozen: AtomicBool,
    /// True once the thread that commits in the background runs.
    pub(crate) commits_in_background: AtomicBool,
    /// True while a thread commits. Threads wait on `committed` for the lock, or for the end of the commit.
    pub(crate) committing: Mutex<bool>,
    pub(crate) committed: Condvar,
    /// Number of snapshots begun, and number of the last durable one.
    pub(crate) begun: AtomicU64,
    pub(crate) durable: AtomicU64,
    /// Requests to the background committer, and its alarm.
    pub(crate) work: Mutex<CommitterRequests>,
    pub(crate) wake: Condvar,
    helpers: Mutex<Vec<JoinHandle<()>>>,
    /// This value, for its background threads.
    me: Weak<Shared>,
}

/// Requests to the background committer.
#[derive(Default)]
pub(crate) struct CommitterRequests {
    pub(crate) commit: bool,
    /// Write file data, without a commit.
    pub(crate) write: bool,
    pub(crate) stop: bool,
}

impl Shared {
    pub(crate) fn new(store: Store, superblock: Superblock, options: &OpenOptions) -> Arc<Self> {
        Arc::new_cyclic(|me| Shared {
            state: VolumeState::new(store, &superblock, options.directory_table.unwrap_or(DEFAULT_BYTES)),
            superblock: Mutex::new(superblock),
            access: options.access,
            expansion: Expansion::default(),
            journal_damage: Mutex::default(),
            commit_every: options.commit_every,
            marked: AtomicBool::new(false),
            frozen: AtomicBool::new(false),
            commits_in_background: AtomicBool::new(false),
            committing: Mutex::new(false),
            committed: Condvar::new(),
            begun: AtomicU64::new(0),
            durable: AtomicU64::new(0),
            work: Mutex::default(),
            wake: Condvar::new(),
            helpers: Mutex::default(),
            me: me.clone(),
        })
    }

    /// Starts a background thread. Returns false where the host has no thread left: the volume works without
    /// it.
    pub(crate) fn spawn_helper(&self, name: &str, work: impl FnOnce(&Shared) + Send + 'static) -> bool {
        let Some(me) = self.me.upgrade().filter(|_| !self.state.store.is_memory()) else { return false };
        let helper = std::thread::Builder::new().name(name.into()).spawn(move || work(&me));
        let is_started = helper.is_ok();
        self.helpers.lock().extend(helper.ok());
        is_started
    }

    /// Ends the background threads.
    pub(crate) fn stop_helpers(&self) {
        self.work.lock().stop = true;
        self.wake.notify_all();
        self.state.store.stop_reading_ahead();
        self.state.store.stop_writing_behind();
        for helper in std::mem::take(&mut *self.helpers.lock()) {
            let _ = helper.join();
        }
        debug_assert!(self.helpers.lock().is_empty(), "a thread begins while the volume closes");
    }

    /// Notes the fault with which an operation ends: damage is recorded in the superblock.
    #[inline(always)]
    pub(crate) fn note(&self, fault: Fault) {
        let is_damage = matches!(
            fault,
            Fault::Damaged { .. }
                | Fault::WrongData { .. }
                | Fault::Code(Code::InvalidPointer | Code::InvariantViolated)
        );
        if is_damage {
            self.note_damage();
        }
    }

    /// True where the superblock on the device stays as it is. The caller has locked the superblock.
    fn is_read_only(&self) -> bool {
        self.access == Access::Read || self.frozen.load(Ordering::Acquire)
    }

    /// Records damage, once, and not on the device while the volume is read-only.
    #[cold]
    fn note_damage(&self) {
        let mut superblock = self.superblock.lock();
        if superblock.errors {
            return;
        }
        superblock.errors = true;
        if !self.is_read_only() && !self.state.store.has_failed() {
            let clean = superblock.clean;
            // The damage itself is reported in any case. The next write of the superblock records it, too.
            let _ = self.write_superblock(&mut superblock, clean);
        }
    }

    /// Records that a check left no damage.
    ///
    /// # Errors
    /// The device's.
    pub(crate) fn clear_damage(&self) -> Result<()> {
        self.state.forget_bad_tables();
        let mut superblock = self.superblock.lock();
        if !superblock.errors || self.is_read_only() {
            return Ok(());
        }
        superblock.errors = false;
        let clean = superblock.clean;
        self.write_superblock(&mut superblock, clean)
    }

    /// Changes the superblock and writes it. The volume stays closed or in use.
    ///
    /// # Errors
    /// The device's.
    pub(crate) fn change_superblock(&self, change: impl FnOnce(&mut Superblock)) -> Result<()> {
        let mut superblock = self.superblock.lock();
        change(&mut superblock);
        let clean = superblock.clean;
        self.write_superblock(&mut superblock, clean)
    }

    /// Writes both copies, one after the other, so that one of them is always good.
    pub(crate) fn write_superblock(&self, superblock: &mut Superblock, clean: bool) -> Result<()> {
        superblock.clean = clean;
        superblock.sequence = superblock.sequence.saturating_add(1);
        let block = superblock.encode();
        for at in [0, SUPERBLOCK_COPY] {
            self.state.store.write_raw(at, &block)?;
        }
        Ok(())
    }
}
