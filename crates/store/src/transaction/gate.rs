//! The gate: the slots of the writers.
//!
//! Every writer works in a *slot*, which it locks from the start to the end of a change. The slot keeps the
//! state that a writer takes from one change to the next (allocation hints, the undo log), so writers in
//! different slots share nothing. A thread that needs exclusive access closes the gate: it locks all slots,
//! in order.

use crate::store::Store;
use crate::vocabulary::planted;
use lanefs_sync::{Mutex, MutexGuard, size, thread_local, thread_number, yield_now};
use smallvec::SmallVec;
use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering};

/// Number of slots: writers at a time. More writers wait for one another.
pub const SLOTS: usize = size(64, 3);

/// Number of reads of a thread between two checks whether writers are still active.
const READS_PER_CHECK: u32 = size(256, 2) as u32;

/// A slot, on cache lines of its own: the processor fetches pairs of them.
#[repr(align(128))]
struct WriterSlot<S> {
    /// Number of changes begun here.
    entries: AtomicU64,
    state: Mutex<S>,
}

/// The slots of a volume's writers; each keeps an `S`.
pub struct Gate<S> {
    slots: Box<[WriterSlot<S>]>,
    /// Number of changes begun in all slots, at a reader's last check.
    entries_seen: AtomicU64,
}

/// A locked slot.
pub struct Entered<'g, S> {
    /// Number of the slot, which identifies the writer.
    pub number: u8,
    /// State of the slot.
    pub state: MutexGuard<'g, S>,
}

/// A closed gate: all slots, locked. No other thread changes anything, and no block is evicted.
pub struct Closed<'g, S> {
    /// State of each slot. They lie on the stack: an engine that watches a volume closes the gate for each of
    /// its batches.
    pub states: SmallVec<[MutexGuard<'g, S>; SLOTS]>,
    _no_eviction: MutexGuard<'g, ()>,
}

impl<S> Gate<S> {
    /// Returns an open gate; `make` makes the state of a slot.
    pub fn new(make: impl Fn() -> S) -> Self {
        let slot = |_| WriterSlot { entries: AtomicU64::new(0), state: Mutex::new(make()) };
        Gate { slots: (0..SLOTS).map(slot).collect(), entries_seen: AtomicU64::new(0) }
    }

    /// Enters a slot to change things: the thread's own slot or one of the next three where one is free.
    pub fn enter(&self, store: &Store) -> Entered<'_, S> {
        let home = thread_number() % SLOTS;
        let near = (0..4).map(|i| (home + i) % SLOTS);
        let free = near.into_iter().find_map(|i| Some((i, self.slots[i].state.try_lock()?)));
        let (number, state) = free.unwrap_or_else(|| (home, self.slots[home].state.lock()));
        let entries = &self.slots[number].entries;
        entries.store(entries.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
        store.epochs().mark_active();
        Entered { number: number as u8, state }
    }

    /// Waits until all slots are free, and locks them.
    pub fn close<'g>(&'g self, store: &'g Store) -> Closed<'g, S> {
        let states: SmallVec<_> = self.slots.iter().map(|slot| slot.state.lock()).collect();
        debug_assert_eq!(states.len(), SLOTS);
        Closed { states, _no_eviction: store.epochs().stop_eviction() }
    }

    /// Closes the gate for a change, which readers see by the epoch.
    pub fn close_to_change<'g>(&'g self, store: &'g Store) -> Closed<'g, S> {
        let closed = self.close(store);
        store.epochs().mark_active();
        closed
    }

    /// Visits all slots, one after the other, while writers in the other slots continue.
    pub fn each(&self, mut visit: impl FnMut(&mut S)) {
        for slot in &self.slots {
            visit(&mut slot.state.lock());
        }
    }

    /// Visits the first slot.
    pub fn first(&self, visit: impl FnOnce(&mut S)) {
        visit(&mut self.slots[0].state.lock());
    }

    /// Waits until writer `owner` has unlocked an ownership record, or left its slot. The caller has locked
    /// nothing.
    pub fn wait_for(&self, store: &Store, owner: u8, record: u32) {
        const SPINS: usize = size(64, 1);
        const YIELDS: usize = size(4, 1);
        for spins in 0..SPINS + YIELDS {
            if store.versions().load(record).owner() != Some(owner) {
                return;
            }
            // A change takes about a microsecond where its writer has a processor; otherwise the processor
            // goes to others.
            if spins < SPINS { std::hint::spin_loop() } else { yield_now() }
        }
        // Sleeping on the slot is the last resort: the writer wakes late, finds its slot taken, and continues
        // in a slot that is not its own.
        match self.slots.get(usize::from(owner)) {
            Some(slot) => drop(slot.state.lock()),
            None => yield_now(),
        }
    }

    /// Counts a read. Every 256th read of a thread makes the epoch even where no thread has written since the
    /// last check.
    pub fn try_quiesce(&self, store: &Store) {
        thread_local! {
            static READS: Cell<u32> = const { Cell::new(0) };
        }
        let due = READS.with(|reads| {
            reads.set(reads.get().wrapping_add(1));
            reads.get().is_multiple_of(READS_PER_CHECK)
        });
        if due {
            self.quiesce(store);
        }
    }

    #[cold]
    fn quiesce(&self, store: &Store) {
        let entries: u64 = self.slots.iter().map(|slot| slot.entries.load(Ordering::Relaxed)).sum();
        if self.entries_seen.swap(entries, Ordering::Relaxed) != entries {
            return;
        }
        let mut all = Vec::with_capacity(SLOTS);
        for slot in &self.slots {
            match slot.state.try_lock() {
                Some(state) => all.push(state),
                None if planted::is(planted::Bug::QuietWithoutCheck) => {}
                None => return,
            }
        }
        store.epochs().mark_quiet();
    }
}
