//! What all heaps share: the units, and heaps whose threads have ended.

use crate::heap::{Heap, Stats};
use crate::lock::Lock;
use crate::planted::PlantedBug;
use crate::pool::Pool;
use lanefs_sync::atomic::{AtomicU32, Ordering};
use lanefs_sync::{is_planted, point};
use std::ptr::null_mut;

/// How much is checked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u32)]
pub enum Checks {
    /// Nothing.
    Off = 0,
    /// What costs nothing where an allocation is quick: each time a magazine overflows or a thread ends, or an object goes to the heap
    /// of another thread, its address must be that of an object which is in use. Finds foreign addresses at once, unless nothing lies where the
    /// header of their unit would be: then the program dies by the wild read. Finds addresses inside an object, and objects freed twice, when the
    /// magazine overflows, if nobody was given the same object twice by then.
    #[default]
    Cheap = 1,
    /// Every allocation and every free: also writes behind an object's end, and to what was freed, unless the object is larger than
    /// [`LARGEST`](crate::LARGEST). Several times slower.
    Full = 2,
}

/// What all heaps share. There is one for the process; tests make their own.
pub(crate) struct World {
    pub(crate) pool: Lock<Pool>,
    /// Heaps without a thread.
    pub(crate) idle: Lock<Idle>,
    checks: AtomicU32,
}

/// Heaps that stay as their threads left them, for the next ones; of others only what objects lie in is kept. (None under the
/// schedule explorer, which looks for what goes wrong while a heap gives back.)
fn warm_heaps() -> usize {
    if cfg!(feature = "shuttle") { 0 } else { 8 }
}

/// Heaps of threads that have ended.
pub(crate) struct Idle {
    warm: List,
    cold: List,
}

/// A list of heaps.
struct List {
    first: *mut Heap,
    len: usize,
}

// SAFETY: heaps in the list are in nobody's use.
unsafe impl Send for Idle {}

impl World {
    pub(crate) const fn new() -> Self {
        World {
            pool: Lock::new(Pool::new()),
            idle: Lock::new(Idle { warm: List::NONE, cold: List::NONE }),
            checks: AtomicU32::new(Checks::Cheap as u32),
        }
    }

    #[inline(always)]
    pub(crate) fn checks(&self) -> Checks {
        match self.checks.load(Ordering::Relaxed) {
            0 => Checks::Off,
            1 => Checks::Cheap,
            _ => Checks::Full,
        }
    }

    /// Heaps that are made from now on check so much.
    pub(crate) fn set_checks(&self, checks: Checks) {
        self.checks.store(checks as u32, Ordering::Relaxed);
    }

    /// A heap for a thread: that of a thread which has ended, with all that is in it, or a new one. Null without memory.
    pub(crate) fn adopt(&'static self) -> *mut Heap {
        let mut idle = self.idle.lock();
        match idle.pop() {
            Some(heap) => heap,
            None => {
                drop(idle);
                Heap::make(self)
            }
        }
    }

    /// Puts the heap of a thread that ends with the others: a few as they are, the rest without what they can give back.
    ///
    /// # Safety
    /// The heap is the caller's thread's, which does not use it any more.
    pub(crate) unsafe fn abandon(&self, heap: *mut Heap) {
        if is_planted(PlantedBug::EarlyAbandon) {
            self.idle.lock().cold.push(heap);
        }
        let is_warm = self.idle.lock().warm.len < warm_heaps();
        // SAFETY: the caller's promise.
        unsafe {
            if is_warm {
                Heap::say_goodbye(heap);
            } else {
                Heap::empty(heap);
            }
        }
        if !is_planted(PlantedBug::EarlyAbandon) {
            let mut idle = self.idle.lock();
            if is_warm { idle.warm.push(heap) } else { idle.cold.push(heap) }
        }
    }

    /// Gives back to the host what no heap needs: that of the caller, if it has one, and those without a thread.
    pub(crate) fn release(&self, own: Option<*mut Heap>) {
        if let Some(own) = own {
            // SAFETY: the caller's own.
            unsafe { Heap::trim(own) };
        }
        // One by one, so that a thread which begins meanwhile finds the others.
        let mut seen = List::NONE;
        loop {
            let Some(heap) = self.idle.lock().pop() else { break };
            if is_planted(PlantedBug::TrimInList) {
                self.idle.lock().cold.push(heap);
                // SAFETY: none, that is the fault.
                unsafe { Heap::trim(heap) };
                break;
            }
            // SAFETY: nobody else has it now.
            unsafe { Heap::trim(heap) };
            seen.push(heap);
        }
        let mut idle = self.idle.lock();
        while let Some(heap) = seen.pop() {
            idle.cold.push(heap);
        }
        drop(idle);
        self.pool.lock().release();
    }

    /// In the copy of a process, in which the caller is the only thread: what was on its way to its heap, if it has one, or to one
    /// without a thread, comes no more.
    pub(crate) fn mend(&self, own: Option<*mut Heap>) {
        let idle = self.idle.lock();
        for mut heap in [own.unwrap_or(null_mut()), idle.warm.first, idle.cold.first] {
            while !heap.is_null() {
                // SAFETY: heaps live for ever, and there is nobody else.
                unsafe {
                    Heap::mend(heap);
                    heap = if own == Some(heap) { null_mut() } else { (*heap).own_mut().next_idle };
                }
            }
        }
    }

    /// What happened in the caller's heap, if it has one, and in those without a thread.
    pub(crate) fn stats(&self, own: Option<*mut Heap>) -> Stats {
        let mut sum = Stats::NONE;
        let idle = self.idle.lock();
        for mut heap in [idle.warm.first, idle.cold.first] {
            // SAFETY: heaps in the lists are in nobody's use, and nobody takes one now.
            while let Some(one) = unsafe { heap.as_ref().map(|heap| heap.own_mut()) } {
                sum.add(&one.stats);
                heap = one.next_idle;
            }
        }
        if let Some(own) = own {
            // SAFETY: the caller's own.
            sum.add(&unsafe { (*own).own_mut() }.stats);
        }
        sum
    }

    /// Nobody else allocates until [`go_on`](Self::go_on): the process is about to be copied.
    pub(crate) fn hold(&self) {
        self.idle.take();
        if !is_planted(PlantedBug::PoolNotLocked) {
            self.pool.take();
        }
    }

    /// Ends [`hold`](Self::hold), in the process and in its copy. (Heaps of threads that the copy does not have stay as they were; what they
    /// were doing may be half done, so nobody adopts them.)
    pub(crate) fn go_on(&self) {
        if !is_planted(PlantedBug::PoolNotLocked) {
            self.pool.release();
        }
        self.idle.release();
    }
}

impl Idle {
    fn pop(&mut self) -> Option<*mut Heap> {
        self.warm.pop().or_else(|| self.cold.pop())
    }
}

impl List {
    const NONE: List = List { first: null_mut(), len: 0 };

    fn push(&mut self, heap: *mut Heap) {
        // SAFETY: heaps live for ever, and this one is in nobody's use.
        unsafe { (*heap).own_mut().next_idle = self.first };
        self.first = heap;
        self.len += 1;
    }

    fn pop(&mut self) -> Option<*mut Heap> {
        let heap = self.first;
        point();
        // SAFETY: as above.
        self.first = unsafe { heap.as_ref()?.own_mut() }.next_idle;
        self.len -= 1;
        Some(heap)
    }
}
