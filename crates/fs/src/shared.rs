//! What all threads that use a volume share, and how they run operations on it.

use crate::claims::Claims;
use crate::edit::{Core, Counts, Edit, Outcome, Writer};
use crate::hold::Holds;
use crate::notice::Listener;
use crate::{Access, Error, OpenOptions, Result};
use lanefs_format::superblock::Superblock;
use lanefs_format::{Code, HashSeed, SUPERBLOCK_COPY};
use lanefs_store::{Closed, Fault, Gate, Reader, SLOTS, Store};
use parking_lot::{Condvar, Mutex};
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock, Weak};
use std::thread::JoinHandle;
use std::time::Duration;

/// The state of an open volume.
pub(crate) struct Shared {
    pub(crate) store: Store,
    pub(crate) seed: HashSeed,
    groups: AtomicU64,
    group_count: AtomicU64,
    pub(crate) gate: Gate<Writer>,
    pub(crate) claims: Claims,
    /// What each writer added to the counts so far; the last line is what they were at the start.
    counts: Box<[SharedCounts]>,
    /// Things that were freed and become free with the next commit.
    pub(crate) waiting_frees: AtomicUsize,
    root: AtomicU64,
    orphans: AtomicU64,
    /// Who holds which inode.
    pub(crate) holds: Holds,
    pub(crate) superblock: Mutex<Superblock>,
    pub(crate) access: Access,
    pub(crate) commit_every: Duration,
    /// The superblock on the device says that the volume is in use.
    pub(crate) marked: AtomicBool,
    /// True while a thread commits; who waits for its turn, or for the commit to be over.
    pub(crate) committing: Mutex<bool>,
    pub(crate) committed: Condvar,
    /// Snapshots begun, and those that are durable.
    pub(crate) begun: AtomicU64,
    pub(crate) durable: AtomicU64,
    /// Wakes the background committer.
    pub(crate) work: Mutex<Work>,
    pub(crate) wake: Condvar,
    helpers: Mutex<Vec<JoinHandle<()>>>,
    /// Who is told of changes.
    pub(crate) listener: OnceLock<Listener>,
    /// Itself, for its helpers.
    me: Weak<Shared>,
}

/// What the background committer is asked for.
#[derive(Default)]
pub(crate) struct Work {
    pub(crate) commit: bool,
    /// File data are to be written, without a commit.
    pub(crate) write: bool,
    pub(crate) stop: bool,
}

/// A line of its own for each writer.
#[derive(Default)]
#[repr(align(128))]
struct SharedCounts {
    free_blocks: AtomicI64,
    inodes: AtomicI64,
    deferred: AtomicI64,
}

/// What became of an operation's runs so far.
#[derive(Default)]
pub(crate) struct Tries {
    /// Runs that did not count.
    count: u32,
    /// Where the last block lies that did not verify.
    damaged: Option<u64>,
    /// Nothing was free but what writers may have in stock.
    is_full: bool,
}

/// After so many runs in vain an operation has everybody else stand still.
const PATIENCE: u32 = 16;

impl Shared {
    pub(crate) fn new(store: Store, superblock: Superblock, options: &OpenOptions) -> Arc<Self> {
        let shared = Arc::new_cyclic(|me| Shared {
            store,
            seed: superblock.seed,
            groups: superblock.groups.into(),
            group_count: superblock.group_count.into(),
            gate: Gate::new(Writer::default),
            claims: Claims::default(),
            counts: (0..=SLOTS).map(|_| SharedCounts::default()).collect(),
            waiting_frees: AtomicUsize::new(0),
            root: superblock.root.into(),
            orphans: superblock.orphans.into(),
            holds: Holds::default(),
            superblock: Mutex::new(superblock),
            access: options.access,
            commit_every: options.commit_every,
            marked: AtomicBool::new(false),
            committing: Mutex::new(false),
            committed: Condvar::new(),
            begun: AtomicU64::new(0),
            durable: AtomicU64::new(0),
            work: Mutex::default(),
            wake: Condvar::new(),
            helpers: Mutex::default(),
            listener: OnceLock::new(),
            me: me.clone(),
        });
        let (free, inodes) = {
            let superblock = shared.superblock.lock();
            (superblock.free_blocks, superblock.inodes)
        };
        shared.start_counts(free, inodes);
        shared
    }

    /// Position of the group table.
    pub(crate) fn groups(&self) -> u64 {
        self.groups.load(Ordering::Relaxed)
    }

    /// Blocks in the group table.
    pub(crate) fn group_count(&self) -> u64 {
        self.group_count.load(Ordering::Relaxed)
    }

    /// Moves the group table. The caller holds all others off.
    pub(crate) fn set_groups(&self, at: u64, count: u64) {
        self.groups.store(at, Ordering::Relaxed);
        self.group_count.store(count, Ordering::Relaxed);
    }

    /// Number of the root directory's inode.
    #[inline(always)]
    pub(crate) fn root(&self) -> u64 {
        self.root.load(Ordering::Relaxed)
    }

    /// The root directory lies there from now on.
    pub(crate) fn set_root(&self, root: u64) {
        self.root.store(root, Ordering::Relaxed);
    }

    /// Number of the orphan directory's inode.
    pub(crate) fn orphans(&self) -> u64 {
        self.orphans.load(Ordering::Relaxed)
    }

    /// The orphan directory lies there from now on.
    pub(crate) fn set_orphans(&self, orphans: u64) {
        self.orphans.store(orphans, Ordering::Relaxed);
    }

    /// What the counts are before any writer changes them.
    fn start_counts(&self, free_blocks: u64, inodes: u64) {
        let start = &self.counts[SLOTS];
        start.free_blocks.store(free_blocks as i64, Ordering::Relaxed);
        start.inodes.store(inodes as i64, Ordering::Relaxed);
    }

    /// Sets the counts to what was counted. The caller holds all others off.
    pub(crate) fn set_counts(&self, free_blocks: u64, inodes: u64) {
        let now = self.counts();
        let start = &self.counts[SLOTS];
        start.free_blocks.fetch_add((free_blocks as i64).wrapping_sub(now.free_blocks), Ordering::Relaxed);
        start.inodes.fetch_add((inodes as i64).wrapping_sub(now.inodes), Ordering::Relaxed);
    }

    /// Free blocks, inodes in use, blocks that will be free.
    pub(crate) fn counts(&self) -> Counts {
        let mut sum = Counts::default();
        for line in &self.counts {
            sum += Counts {
                free_blocks: line.free_blocks.load(Ordering::Relaxed),
                inodes: line.inodes.load(Ordering::Relaxed),
                deferred: line.deferred.load(Ordering::Relaxed),
            };
        }
        sum
    }

    /// What writer `number` added so far.
    pub(crate) fn publish(&self, number: u8, counts: Counts) {
        let line = &self.counts[usize::from(number)];
        line.free_blocks.store(counts.free_blocks, Ordering::Relaxed);
        line.inodes.store(counts.inodes, Ordering::Relaxed);
        line.deferred.store(counts.deferred, Ordering::Relaxed);
    }

    /// Runs a read-only operation; blocks that it misses are fetched and it runs again.
    #[inline(always)]
    pub(crate) fn view<T>(&self, mut operation: impl FnMut(&Core<'_>) -> Outcome<T>) -> Result<T> {
        let core = Core::new(self, Reader::reading(&self.store));
        let done = operation(&core);
        match (core.store.validate(), done) {
            (Ok(()), Ok(value)) => {
                if !core.store.is_quiet() {
                    self.gate.look_around(&self.store);
                }
                Ok(value)
            }
            (Ok(()), Err(Fault::Code(code))) => Err(code.into()),
            (Err(fault), _) | (_, Err(fault)) => {
                drop(core);
                self.view_again(fault, &mut operation)
            }
        }
    }

    #[cold]
    fn view_again<T>(&self, first: Fault, operation: &mut dyn FnMut(&Core<'_>) -> Outcome<T>) -> Result<T> {
        let mut fault = first;
        let mut tries = Tries::default();
        loop {
            self.after(fault, &mut tries)?;
            let outcome = if tries.count < PATIENCE {
                let core = Core::new(self, Reader::reading(&self.store));
                let done = operation(&core);
                core.store.validate().and(done)
            } else {
                let _alone = self.gate.close(&self.store);
                operation(&Core::new(self, Reader::alone(&self.store, None)))
            };
            self.gate.look_around(&self.store);
            match outcome {
                Ok(value) => return Ok(value),
                Err(next) => fault = next,
            }
        }
    }

    /// Sees to it that a run which failed for want of a block, or for a writer, can be done again.
    ///
    /// # Errors
    /// The fault itself, where it is another.
    pub(crate) fn after(&self, fault: Fault, tries: &mut Tries) -> Outcome<()> {
        match fault {
            Fault::Miss { at, want } => match self.store.fetch(at, want) {
                // It may have gone out of use since the run missed it; if it is missed again, it is damaged.
                Err(Fault::Damaged { .. }) if tries.damaged != Some(at) => {
                    tries.damaged = Some(at);
                    Ok(())
                }
                done => done,
            },
            Fault::Conflict { holder, record } => {
                tries.count += 1;
                self.gate.wait_for(&self.store, holder, record);
                Ok(())
            }
            Fault::Crowd => {
                tries.count = PATIENCE;
                Ok(())
            }
            fault => Err(fault),
        }
    }

    /// Runs a change as one transaction: all of it happens, or, when it fails, nothing.
    pub(crate) fn change<T>(&self, mut operation: impl FnMut(&mut Edit<'_>) -> Outcome<T>) -> Result<T> {
        self.begin_changes()?;
        let mut tries = Tries::default();
        loop {
            let outcome = if tries.count < PATIENCE && !tries.is_full {
                self.try_change(&mut operation)
            } else {
                let mut closed = self.gate.close_to_change(&self.store);
                if tries.is_full {
                    self.recall(&mut closed)?;
                }
                self.change_alone(&mut closed, &mut operation)
            };
            match outcome {
                Ok(value) => {
                    if !self.store.is_memory() {
                        self.see_to_commits()?;
                    }
                    return Ok(value);
                }
                // What was freed may be used again once the device knows that it was.
                Err(Fault::Code(Code::NoSpace)) if self.waiting_frees.load(Ordering::Relaxed) > 0 => {
                    self.commit()?;
                }
                // What others have in stock is for all when there is nothing else.
                Err(Fault::Code(Code::NoSpace)) if !tries.is_full => tries.is_full = true,
                Err(Fault::Code(code)) => return Err(code.into()),
                Err(fault) => self.after(fault, &mut tries)?,
            }
        }
    }

    #[inline(always)]
    fn try_change<T>(&self, operation: &mut impl FnMut(&mut Edit<'_>) -> Outcome<T>) -> Outcome<T> {
        let mut entered = self.gate.enter(&self.store);
        let number = entered.number;
        let core = Core::new(self, Reader::writing(&self.store, number));
        run(&core, &mut entered.state, number, operation)
    }

    /// One run of a change with the gate closed.
    pub(crate) fn change_alone<T>(
        &self,
        closed: &mut Closed<'_, Writer>,
        operation: &mut impl FnMut(&mut Edit<'_>) -> Outcome<T>,
    ) -> Outcome<T> {
        let core = Core::new(self, Reader::alone(&self.store, Some(0)));
        run(&core, &mut closed.states[0], 0, operation)
    }

    /// Marks the volume as in use before its first change.
    pub(crate) fn begin_changes(&self) -> Result<()> {
        if self.access == Access::Read {
            return Err(Code::ReadOnly.into());
        }
        if self.store.has_failed() {
            return Err(Error::write_failed());
        }
        if !self.marked.load(Ordering::Acquire) {
            let mut superblock = self.superblock.lock();
            if !self.marked.load(Ordering::Acquire) {
                self.write_superblock(&mut superblock, false)?;
                self.marked.store(true, Ordering::Release);
                self.help("lanefs-commit", Shared::keep_committing);
                self.help("lanefs-write", |shared| shared.store.write_behind());
            }
        }
        Ok(())
    }

    /// Has a thread of its own do what need not be waited for. Where the host has no thread left, the volume works without.
    pub(crate) fn help(&self, name: &str, work: impl FnOnce(&Shared) + Send + 'static) {
        let Some(me) = self.me.upgrade().filter(|_| !self.store.is_memory()) else { return };
        let helper = std::thread::Builder::new().name(name.into()).spawn(move || work(&me));
        self.helpers.lock().extend(helper.ok());
    }

    /// Ends the helpers.
    pub(crate) fn dismiss(&self) {
        self.work.lock().stop = true;
        self.wake.notify_all();
        self.store.stop_reading_ahead();
        self.store.stop_writing_behind();
        for helper in std::mem::take(&mut *self.helpers.lock()) {
            let _ = helper.join();
        }
    }

    /// Writes both copies, one after the other, so that one is good whatever happens.
    pub(crate) fn write_superblock(&self, superblock: &mut Superblock, clean: bool) -> Result<()> {
        superblock.clean = clean;
        superblock.sequence = superblock.sequence.saturating_add(1);
        let block = superblock.encode();
        for at in [0, SUPERBLOCK_COPY] {
            self.store.write_raw(at, &block)?;
        }
        Ok(())
    }
}

/// One run of a change: kept when it comes to a good end, else taken back.
#[inline(always)]
pub(crate) fn run<T>(
    core: &Core<'_>,
    writer: &mut Writer,
    number: u8,
    operation: &mut impl FnMut(&mut Edit<'_>) -> Outcome<T>,
) -> Outcome<T> {
    let mut edit = Edit::new(core, writer, number);
    match operation(&mut edit) {
        Ok(value) => edit.commit().map(|()| value),
        Err(fault) => Err(edit.verdict(fault)),
    }
}
