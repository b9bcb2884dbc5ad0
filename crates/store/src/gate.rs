//! The gate: who is changing things.
//!
//! Every writer works in a *slot*, which it holds from the start to the end of a change: the slot keeps what a writer takes
//! from one change to the next (where it allocates, its undo log), so writers in different slots share nothing. Who
//! needs everybody to stand still closes the gate: takes all slots, in order.
//!
//! The *epoch* is even while nobody has changed anything since the gate was last found calm. Readers need remember nothing
//! then: an epoch that is even and the same at the end of a run says that no one came. The first writer makes it odd; readers
//! that see nobody write for a while make it even again. (Biased locking turned round: compare BRAVO, Dice and Kogan, ATC 2019.)

use crate::planted;
use lanefs_sync::{Mutex, MutexGuard, point, size, thread_local, thread_number, yield_now};
use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering, fence};

/// Writers at a time; more wait for one another.
pub const SLOTS: usize = size(64, 3);

/// Reads in a thread between two looks at whether writers are still about.
const PATIENCE: u32 = size(256, 2) as u32;

/// State of the gate, seen by readers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Epoch(u64);

impl Epoch {
    /// No writer is about.
    #[inline(always)]
    pub fn is_quiet(self) -> bool {
        self.0 & 1 == 0
    }
}

/// What the store and its gate share.
#[derive(Default)]
pub(crate) struct Epochs {
    word: AtomicU64,
    /// Held while blocks leave memory, and while the gate is closed.
    evicting: Mutex<()>,
}

impl Epochs {
    #[inline(always)]
    pub(crate) fn now(&self) -> Epoch {
        point();
        Epoch(self.word.load(Ordering::Acquire))
    }

    /// Permission to let blocks go, which is a change to those who read them; `None` while the gate is closed, or another
    /// thread does it.
    pub(crate) fn evict(&self) -> Option<MutexGuard<'_, ()>> {
        let guard = self.evicting.try_lock()?;
        self.disturb();
        Some(guard)
    }

    /// Says that something is about to change. The caller is in a slot and stays there until the change is over.
    #[inline(always)]
    pub(crate) fn disturb(&self) {
        if self.now().is_quiet() {
            point();
            self.word.fetch_or(1, Ordering::SeqCst);
            // Nothing that is changed from now on is seen before this.
            fence(Ordering::Release);
        }
    }

    /// Nobody is at anything. The caller has closed the gate.
    fn calm(&self) {
        let now = self.word.load(Ordering::Relaxed);
        point();
        let before = self.word.swap(now + (now & 1), Ordering::SeqCst);
        debug_assert!(before <= now + (now & 1), "the epoch only rises");
    }
}

/// A cache line of its own, or two, which the processor fetches together.
#[repr(align(128))]
struct Slot<S> {
    /// Changes begun here.
    entries: AtomicU64,
    state: Mutex<S>,
}

/// The slots of a volume's writers; `S` is what each keeps.
pub struct Gate<S> {
    slots: Box<[Slot<S>]>,
    /// Changes begun in all slots when a reader last looked.
    seen: AtomicU64,
}

/// A slot that is held.
pub struct Entered<'g, S> {
    /// Its number, which names the writer.
    pub number: u8,
    /// What it keeps.
    pub state: MutexGuard<'g, S>,
}

/// All slots, held: nobody else changes anything.
pub struct Closed<'g, S> {
    /// What each keeps.
    pub states: Vec<MutexGuard<'g, S>>,
    _no_eviction: MutexGuard<'g, ()>,
}

impl<S> Gate<S> {
    /// An open gate; `make` makes what a slot keeps.
    pub fn new(make: impl Fn() -> S) -> Self {
        let slot = |_| Slot { entries: AtomicU64::new(0), state: Mutex::new(make()) };
        Gate { slots: (0..SLOTS).map(slot).collect(), seen: AtomicU64::new(0) }
    }

    /// Enters a slot, the same one as before where it is free, to change things.
    pub fn enter(&self, store: &crate::Store) -> Entered<'_, S> {
        let home = thread_number() % SLOTS;
        let near = (0..4).map(|i| (home + i) % SLOTS);
        let free = near.into_iter().find_map(|i| Some((i, self.slots[i].state.try_lock()?)));
        let (number, state) = free.unwrap_or_else(|| (home, self.slots[home].state.lock()));
        let entries = &self.slots[number].entries;
        entries.store(entries.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
        store.epochs().disturb();
        Entered { number: number as u8, state }
    }

    /// Waits until nobody changes anything, and keeps it so.
    pub fn close<'g>(&'g self, store: &'g crate::Store) -> Closed<'g, S> {
        let states = self.slots.iter().map(|slot| slot.state.lock()).collect();
        let states: Vec<_> = states;
        debug_assert_eq!(states.len(), SLOTS);
        Closed { states, _no_eviction: store.epochs().evicting.lock() }
    }

    /// Closes the gate to change things. The epoch tells readers.
    pub fn close_to_change<'g>(&'g self, store: &'g crate::Store) -> Closed<'g, S> {
        let closed = self.close(store);
        store.epochs().disturb();
        closed
    }

    /// Visits all slots, one after the other, while the others go on.
    pub fn each(&self, mut visit: impl FnMut(&mut S)) {
        for slot in &self.slots {
            visit(&mut slot.state.lock());
        }
    }

    /// Visits the first slot.
    pub fn first(&self, visit: impl FnOnce(&mut S)) {
        visit(&mut self.slots[0].state.lock());
    }

    /// Waits a while for what writer `holder` held up: it is past when it has left its slot. The caller holds nothing.
    pub fn wait_for(&self, store: &crate::Store, holder: u8, record: u32) {
        const SPINS: usize = size(64, 1);
        const YIELDS: usize = size(4, 1);
        for spins in 0..SPINS + YIELDS {
            if store.versions().load(record).holder() != Some(holder) {
                return;
            }
            // A change takes about a microsecond where its writer has a processor; else that is given to somebody.
            if spins < SPINS { std::hint::spin_loop() } else { yield_now() }
        }
        // To sleep on its slot is the last resort: the writer, woken late, would find its slot taken, and go on in one
        // that is not his.
        match self.slots.get(usize::from(holder)) {
            Some(slot) => drop(slot.state.lock()),
            None => yield_now(),
        }
    }

    /// Called by a reader now and then: where nobody has written since the last call, the epoch becomes quiet.
    pub fn look_around(&self, store: &crate::Store) {
        thread_local! {
            static READS: Cell<u32> = const { Cell::new(0) };
        }
        let due = READS.with(|reads| {
            reads.set(reads.get().wrapping_add(1));
            reads.get().is_multiple_of(PATIENCE)
        });
        if due {
            self.calm_down(store);
        }
    }

    #[cold]
    fn calm_down(&self, store: &crate::Store) {
        let entries: u64 = self.slots.iter().map(|slot| slot.entries.load(Ordering::Relaxed)).sum();
        if self.seen.swap(entries, Ordering::Relaxed) != entries {
            return;
        }
        let mut all = Vec::with_capacity(SLOTS);
        for slot in &self.slots {
            match slot.state.try_lock() {
                Some(state) => all.push(state),
                None if planted::is(planted::Fault::HastyCalm) => {}
                None => return,
            }
        }
        if let Some(_no_eviction) = store.epochs().evicting.try_lock() {
            store.epochs().calm();
        }
    }
}
