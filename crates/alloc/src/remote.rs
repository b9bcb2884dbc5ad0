//! Objects that another thread freed: a ring of addresses at their heap, to which anybody adds and which the heap's thread empties; and
//! for what does not fit there, a list.
//!
//! A thread collects what it frees for one heap, and sends it in one step. In the ring lie addresses, eight to a line, so the objects
//! themselves do not travel between the processors. The list runs through the objects: it needs no room, and costs a wait for each.

use crate::guard;
use crate::heap::Heap;
use crate::planted::PlantedBug;
use lanefs_sync::atomic::{AtomicPtr, AtomicUsize, Ordering};
use lanefs_sync::{is_planted, point, size};
use std::ptr::{NonNull, null_mut};

/// Objects that are sent at once.
const BATCH: usize = size(32, 3);

/// Addresses that a ring holds.
const ROOM: usize = size(1024, 4);

/// A freed object: where the next one lies, mixed so that what somebody writes here, who has freed it, is not taken for a link.
pub(crate) struct Node {
    link: usize,
}

const MIX: usize = 0xb9e5_0000_0000_0005;

/// Bits that are 0 in every address of an object.
const NEVER: usize = 0xff00_0000_0000_0007;

impl Node {
    fn set_next(&mut self, next: *mut Node) {
        self.link = next.expose_provenance() ^ MIX;
    }

    fn next(&self) -> *mut Node {
        let next = self.link ^ MIX;
        if next & NEVER != 0 {
            guard::written_after_free(std::ptr::from_ref(self) as usize);
        }
        std::ptr::with_exposed_provenance_mut(next)
    }
}

/// What other threads freed.
pub(crate) struct Inbox {
    ring: Ring,
    /// What found the ring full.
    first: AtomicPtr<Node>,
}

impl Inbox {
    pub(crate) const fn new() -> Self {
        Inbox { ring: Ring::new(), first: AtomicPtr::new(null_mut()) }
    }

    /// Adds objects.
    ///
    /// # Safety
    /// They are of this inbox's heap, and nobody's any more.
    unsafe fn add(&self, objects: &[usize]) {
        if self.ring.add(objects) {
            return;
        }
        let nodes = objects.iter().map(|object| std::ptr::with_exposed_provenance_mut::<Node>(*object));
        let mut first = null_mut();
        for node in nodes.clone() {
            // SAFETY: the caller's object.
            unsafe { (*node).set_next(first) };
            first = node;
        }
        if let Some(last) = nodes.clone().next() {
            // SAFETY: the chain goes from the last one that was linked to the first.
            unsafe { self.add_chain(first, last) };
        }
    }

    /// Adds a chain to the list.
    ///
    /// # Safety
    /// `first` leads to `last`, and nobody else has these objects.
    unsafe fn add_chain(&self, first: *mut Node, last: *mut Node) {
        let mut head = self.first.load(Ordering::Relaxed);
        loop {
            // SAFETY: the caller's object.
            unsafe { (*last).set_next(head) };
            if is_planted(PlantedBug::LostUpdate) {
                return self.first.store(first, Ordering::Release);
            }
            // What the objects were used for happened before their heap has them again.
            match self.first.compare_exchange_weak(head, first, Ordering::Release, Ordering::Relaxed) {
                Ok(_) => return,
                Err(now) => head = now,
            }
        }
    }

    /// Takes all there is, with whether a link was written into it. For the heap's thread.
    #[inline(always)]
    pub(crate) fn take(&self, mut object: impl FnMut(usize, bool)) {
        self.ring.take(|address| object(address, false));
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
        Chain(first).for_each(|address| object(address, true));
    }

    /// In the copy of a process: forgets places in the ring that threads were about to fill which the copy does not have.
    pub(crate) fn mend(&self) {
        self.ring.mend();
    }
}

/// Addresses on their way. Both counts go up for ever; a place is free when it holds 0, so it says itself when it has been filled.
struct Ring {
    /// Places that were promised to somebody.
    promised: Line<AtomicUsize>,
    /// Places that the heap's thread has emptied.
    emptied: Line<AtomicUsize>,
    places: [AtomicUsize; ROOM],
}

/// On lines of its own: processors fetch them in pairs.
#[repr(align(128))]
struct Line<T>(T);

impl Ring {
    const fn new() -> Self {
        Ring {
            promised: Line(AtomicUsize::new(0)),
            emptied: Line(AtomicUsize::new(0)),
            places: [const { AtomicUsize::new(0) }; ROOM],
        }
    }

    fn place(&self, number: usize) -> &AtomicUsize {
        &self.places[number % ROOM]
    }

    /// Adds addresses; false without room for all of them.
    fn add(&self, objects: &[usize]) -> bool {
        let mut promised = self.promised.0.load(Ordering::Relaxed);
        loop {
            // Acquire: the places are read as empty before they are filled.
            let emptied = self.emptied.0.load(Ordering::Acquire);
            // (More was emptied than promised where the first count is an old one; then the exchange fails.)
            let full = (promised + objects.len()).saturating_sub(emptied);
            if full > ROOM {
                return false;
            }
            let after = promised + objects.len();
            if is_planted(PlantedBug::SameSlot) {
                self.promised.0.store(after, Ordering::Relaxed);
                break;
            }
            match self.promised.0.compare_exchange_weak(promised, after, Ordering::Relaxed, Ordering::Relaxed)
            {
                Ok(_) => break,
                Err(now) => promised = now,
            }
        }
        for (number, object) in (promised..).zip(objects) {
            // Release: what the object was used for happened before its heap has it again.
            self.place(number).store(*object, Ordering::Release);
        }
        true
    }

    /// Takes what is there, up to the first place that is not filled.
    #[inline(always)]
    fn take(&self, mut object: impl FnMut(usize)) {
        // Nobody else writes to this count.
        let before = self.emptied.0.load(Ordering::Relaxed);
        let mut number = before;
        loop {
            let place = self.place(number);
            let address = place.load(Ordering::Acquire);
            if address == 0 {
                break;
            }
            if is_planted(PlantedBug::EarlyReuse) {
                self.emptied.0.store(number + 1, Ordering::Release);
                point();
            }
            place.store(0, Ordering::Relaxed);
            object(address);
            number += 1;
        }
        if number > before {
            // Release: who sees the count sees the places empty.
            self.emptied.0.store(number, Ordering::Release);
        }
    }

    fn mend(&self) {
        let (emptied, promised) =
            (self.emptied.0.load(Ordering::Relaxed), self.promised.0.load(Ordering::Relaxed));
        let mut end = emptied;
        for number in emptied..promised {
            let address = self.place(number).swap(0, Ordering::Relaxed);
            if address != 0 {
                self.place(end).store(address, Ordering::Relaxed);
                end += 1;
            }
        }
        self.promised.0.store(end, Ordering::Relaxed);
    }
}

/// A chain of objects.
struct Chain(*mut Node);

impl Iterator for Chain {
    type Item = usize;

    fn next(&mut self) -> Option<usize> {
        let node = NonNull::new(self.0)?;
        // SAFETY: an object in the chain, which is ours now.
        self.0 = unsafe { node.as_ref() }.next();
        Some(node.as_ptr() as usize)
    }
}

/// Sends one object.
///
/// # Safety
/// It is one of that heap, and nobody's any more.
pub(crate) unsafe fn send(object: usize, to: *mut Heap) {
    // SAFETY: heaps live for ever; the caller's object.
    unsafe { (*to).inbox.add(&[object]) };
}

/// What one thread freed for one other heap.
pub(crate) struct Outbox {
    to: *mut Heap,
    count: usize,
    objects: [usize; BATCH],
}

impl Outbox {
    pub(crate) const fn new() -> Self {
        Outbox { to: null_mut(), count: 0, objects: [0; BATCH] }
    }

    /// Sends an object, soon.
    ///
    /// # Safety
    /// As [`send`].
    pub(crate) unsafe fn put(&mut self, object: usize, to: *mut Heap) {
        if self.to != to {
            self.send();
            self.to = to;
        }
        // `count` is below `BATCH` here.
        if let Some(place) = self.objects.get_mut(self.count) {
            *place = object;
        }
        self.count += usize::from(!is_planted(PlantedBug::Miscount) || self.count > 0);
        if self.count == BATCH {
            self.send();
        }
    }

    /// Sends what is there.
    pub(crate) fn send(&mut self) {
        let count = std::mem::take(&mut self.count);
        if let Some(objects) = self.objects.get(..count).filter(|objects| !objects.is_empty()) {
            // SAFETY: nobody else has them, and heaps live for ever.
            unsafe { (*self.to).inbox.add(objects) };
        }
    }
}

#[cfg(all(test, not(feature = "shuttle")))]
mod tests {
    use super::*;

    fn all(ring: &Ring) -> Vec<usize> {
        let mut seen = Vec::new();
        ring.take(|address| seen.push(address));
        seen
    }

    #[test]
    fn a_ring_gives_what_was_added_in_order_and_takes_no_more_than_it_has_room_for() {
        let ring = Ring::new();
        for lap in 0..5 {
            let addresses: Vec<usize> = (1..=ROOM).map(|n| n * 8 + lap).collect();
            assert!(addresses.chunks(BATCH).all(|batch| ring.add(batch)));
            assert!(!ring.add(&[8]));
            assert_eq!(all(&ring), addresses);
            assert!(all(&ring).is_empty());
            assert!(ring.add(&[16, 24]));
            assert_eq!(all(&ring), [16, 24]);
        }
    }

    #[test]
    fn in_a_copied_process_places_that_nobody_will_fill_are_forgotten() {
        let ring = Ring::new();
        assert!(ring.add(&[8, 16]));
        // Two threads were promised places and are gone; a third one had filled its own.
        ring.promised.0.fetch_add(3, Ordering::Relaxed);
        assert!(ring.add(&[24]));
        ring.promised.0.fetch_add(1, Ordering::Relaxed);
        assert_eq!(all(&ring), [8, 16]);
        assert!(all(&ring).is_empty(), "a place that is not filled holds up what follows");
        ring.mend();
        assert_eq!(all(&ring), [24]);
        let addresses: Vec<usize> = (1..=ROOM).map(|n| n * 8).collect();
        assert!(ring.add(&addresses) && !ring.add(&[8]));
        assert_eq!(all(&ring), addresses);
    }
}
