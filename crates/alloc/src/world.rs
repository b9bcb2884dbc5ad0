//! What all heaps share: the units, and heaps whose threads have ended.

use crate::heap::Heap;
use crate::pool::Pool;
use crate::sync::{AtomicU32, Lock, Ordering};
use std::ptr::null_mut;

/// How much is checked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u32)]
pub enum Checks {
    /// Nothing.
    Off = 0,
    /// What costs nothing where an allocation is quick: each time a magazine overflows, or an object of another thread comes, its
    /// address must be that of an object which is in use. Finds most foreign addresses, and objects freed twice sooner or later.
    #[default]
    Cheap = 1,
    /// Every allocation and every free: also writes behind an object's end, and to what was freed. Several times slower.
    Full = 2,
}

/// What all heaps share. There is one for the process; tests make their own.
pub(crate) struct World {
    pub(crate) pool: Lock<Pool>,
    /// Heaps without a thread.
    pub(crate) idle: Lock<Idle>,
    checks: AtomicU32,
}

/// A list of heaps.
pub(crate) struct Idle(*mut Heap);

// SAFETY: heaps in the list are in nobody's use.
unsafe impl Send for Idle {}

impl World {
    pub(crate) const fn new() -> Self {
        World {
            pool: Lock::new(Pool::new()),
            idle: Lock::new(Idle(null_mut())),
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

    /// Puts the heap of a thread that ends with the others.
    pub(crate) fn abandon(&self, heap: *mut Heap) {
        self.idle.lock().push(heap);
    }

    /// Gives back to the host what no heap needs: that of the caller, if it has one, and those without a thread.
    pub(crate) fn release(&self, own: Option<*mut Heap>) {
        if let Some(own) = own {
            // SAFETY: the caller's own.
            unsafe { Heap::trim(own) };
        }
        // One by one, so that a thread which begins meanwhile finds the others.
        let mut seen = Idle(null_mut());
        loop {
            let Some(heap) = self.idle.lock().pop() else { break };
            // SAFETY: nobody else has it now.
            unsafe { Heap::trim(heap) };
            seen.push(heap);
        }
        let mut idle = self.idle.lock();
        while let Some(heap) = seen.pop() {
            idle.push(heap);
        }
        drop(idle);
        self.pool.lock().release();
    }

    /// Nobody else allocates until [`go_on`](Self::go_on): the process is about to be copied.
    pub(crate) fn hold(&self) {
        self.idle.take();
        self.pool.take();
    }

    /// Ends [`hold`](Self::hold), in the process and in its copy. (Heaps of threads that the copy does not have stay as they were; what they
    /// were doing may be half done, so nobody adopts them.)
    pub(crate) fn go_on(&self) {
        self.pool.release();
        self.idle.release();
    }
}

impl Idle {
    fn push(&mut self, heap: *mut Heap) {
        // SAFETY: heaps live for ever, and this one is in nobody's use.
        unsafe { (*heap).own_mut().next_idle = self.0 };
        self.0 = heap;
    }

    fn pop(&mut self) -> Option<*mut Heap> {
        let heap = self.0;
        // SAFETY: as above.
        self.0 = unsafe { heap.as_ref()?.own_mut() }.next_idle;
        Some(heap)
    }
}
