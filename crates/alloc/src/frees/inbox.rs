//! Remote frees: objects of a heap that other threads freed.
//!
//! A ring takes the pointers, eight to a cache line, so the objects themselves do not travel between the
//! processors. A list that runs through the objects takes those that find the ring full. It needs no room,
//! and costs the owner a wait for each object.

use super::ring::Ring;
use crate::checking::misuse;
use crate::planted::PlantedBug;
use lanefs_sync::atomic::{AtomicPtr, Ordering};
use lanefs_sync::is_planted;
use std::ptr::{NonNull, null_mut};

/// The first word of an object in the list: the next one, mixed so that a write of a program that has freed
/// the object is not taken for a link.
struct Link {
    mixed: *mut Link,
}

const MIX: usize = 0xb9e5_0000_0000_0005;

/// Bits that are 0 in the address of every object.
const NEVER: usize = 0xff00_0000_0000_0007;

const _: () = assert!(MIX & NEVER != 0, "a link is never a plain address");

fn mix(link: *mut Link) -> *mut Link {
    link.map_addr(|address| address ^ MIX)
}

/// Objects that other threads freed. Its address is that of its heap, and stands for the heap in the headers
/// of units.
pub(crate) struct Inbox {
    ring: Ring,
    /// The list of objects that found the ring full.
    first: AtomicPtr<Link>,
}

impl Inbox {
    pub(crate) const fn new() -> Self {
        Inbox { ring: Ring::new(), first: AtomicPtr::new(null_mut()) }
    }

    /// Adds objects.
    ///
    /// # Safety
    /// They are objects of this inbox's heap, and nothing uses them any more.
    pub(crate) unsafe fn add(&self, objects: &[*mut u8]) {
        if self.ring.add(objects) {
            return;
        }
        let Some(last) = objects.first() else { return };
        let mut first = null_mut();
        for object in objects {
            let link = object.cast::<Link>();
            // SAFETY: the caller's object, which has a word at least.
            unsafe { (*link).mixed = mix(first) };
            first = link;
        }
        // SAFETY: the chain leads from the object that was linked last to the first one.
        unsafe { self.add_chain(first, last.cast()) };
    }

    /// Adds a chain to the list.
    ///
    /// # Safety
    /// `first` leads to `last`, and nothing else uses these objects.
    unsafe fn add_chain(&self, first: *mut Link, last: *mut Link) {
        let mut head = self.first.load(Ordering::Relaxed);
        loop {
            // SAFETY: the caller's object.
            unsafe { (*last).mixed = mix(head) };
            if is_planted(PlantedBug::LostUpdate) {
                return self.first.store(first, Ordering::Release);
            }
            // Release: every use of the objects happens before their heap has them again.
            match self.first.compare_exchange_weak(head, first, Ordering::Release, Ordering::Relaxed) {
                Ok(_) => return,
                Err(now) => head = now,
            }
        }
    }

    /// Takes all objects; calls `object` with each one, and with whether a link was written into it. Only for
    /// the heap's thread.
    #[inline(always)]
    pub(crate) fn take(&self, mut object: impl FnMut(*mut u8, bool)) {
        self.ring.take(|found| object(found, false));
        if self.first.load(Ordering::Relaxed).is_null() {
            return;
        }
        let first = if is_planted(PlantedBug::NoSwap) {
            let first = self.first.load(Ordering::Acquire);
            self.first.store(null_mut(), Ordering::Relaxed);
            first
        } else {
            self.first.swap(null_mut(), Ordering::Acquire)
        };
        Chain(first).for_each(|found| object(found, true));
    }

    /// Drops the ring's slots that are reserved and not filled, in the copy of a process. Only while no other
    /// thread exists.
    pub(crate) fn drop_unfilled(&self) {
        self.ring.drop_unfilled();
    }
}

/// A chain of objects that the caller owns.
struct Chain(*mut Link);

impl Iterator for Chain {
    type Item = *mut u8;

    fn next(&mut self) -> Option<*mut u8> {
        let link = NonNull::new(self.0)?;
        // SAFETY: an object of the chain.
        let next = mix(unsafe { link.read() }.mixed);
        if next.addr() & NEVER != 0 {
            misuse::written_after_free(link.as_ptr().cast());
        }
        self.0 = next;
        Some(link.as_ptr().cast())
    }
}
