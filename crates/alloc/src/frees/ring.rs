//! A ring of objects that many threads fill and one thread empties, without a lock.

use crate::host::message::debug_assert_state;
use crate::planted::PlantedBug;
use lanefs_sync::atomic::{AtomicPtr, AtomicUsize, Ordering};
use lanefs_sync::{is_planted, point, size};
use std::ptr::null_mut;

/// Slots of a ring.
pub(crate) const CAPACITY: usize = size(1024, 4);

const _: () = assert!(CAPACITY.is_power_of_two(), "a slot's index is a mask of its number");

/// A ring of freed objects on their way to their heap.
///
/// Head and tail only rise; a number modulo the capacity is the index of a slot. A slot is empty when it is
/// null, so the slot itself says whether its sender has filled it.
pub(crate) struct Ring {
    /// Number of the next slot that a sender reserves.
    tail: CacheLines<AtomicUsize>,
    /// Number of the next slot that the heap's thread empties.
    head: CacheLines<AtomicUsize>,
    slots: [AtomicPtr<u8>; CAPACITY],
}

/// A value on cache lines of its own: processors fetch lines in pairs.
#[repr(align(128))]
struct CacheLines<T>(T);

impl Ring {
    pub(crate) const fn new() -> Self {
        Ring {
            tail: CacheLines(AtomicUsize::new(0)),
            head: CacheLines(AtomicUsize::new(0)),
            slots: [const { AtomicPtr::new(null_mut()) }; CAPACITY],
        }
    }

    fn slot(&self, number: usize) -> &AtomicPtr<u8> {
        &self.slots[number % CAPACITY]
    }

    /// Adds objects; returns false if there is no room for all of them.
    pub(crate) fn add(&self, objects: &[*mut u8]) -> bool {
        let mut tail = self.tail.0.load(Ordering::Relaxed);
        loop {
            // Acquire: the slots are empty before this thread fills them.
            let head = self.head.0.load(Ordering::Acquire);
            // An old tail may be below the head; then the exchange fails.
            let used = (tail + objects.len()).saturating_sub(head);
            if used > CAPACITY {
                return false;
            }
            let after = tail + objects.len();
            if is_planted(PlantedBug::SameSlot) {
                self.tail.0.store(after, Ordering::Relaxed);
                break;
            }
            match self.tail.0.compare_exchange_weak(tail, after, Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => break,
                Err(now) => tail = now,
            }
        }
        for (number, object) in (tail..).zip(objects) {
            // Release: every use of the object happens before its heap has it again.
            self.slot(number).store(*object, Ordering::Release);
        }
        true
    }

    /// Takes the objects that are there, up to the first slot that is not filled. Only for the heap's thread.
    #[inline(always)]
    pub(crate) fn take(&self, mut object: impl FnMut(*mut u8)) {
        // Only this thread writes to the head.
        let head = self.head.0.load(Ordering::Relaxed);
        let mut number = head;
        loop {
            let slot = self.slot(number);
            let found = slot.load(Ordering::Acquire);
            if found.is_null() {
                break;
            }
            if is_planted(PlantedBug::EarlyReuse) {
                self.head.0.store(number + 1, Ordering::Release);
                point();
            }
            slot.store(null_mut(), Ordering::Relaxed);
            object(found);
            number += 1;
        }
        if number > head {
            debug_assert_state!(number - head <= CAPACITY, "a ring has no more objects than slots");
            // Release: a sender that sees this head sees the slots empty.
            self.head.0.store(number, Ordering::Release);
        }
    }

    /// Drops the slots that are reserved and not filled, in the copy of a process, which does not have their
    /// senders. Only while no other thread exists.
    pub(crate) fn drop_unfilled(&self) {
        let (head, tail) = (self.head.0.load(Ordering::Relaxed), self.tail.0.load(Ordering::Relaxed));
        debug_assert_state!(head <= tail && tail - head <= CAPACITY, "the head follows the tail");
        let mut end = head;
        for number in head..tail {
            let object = self.slot(number).swap(null_mut(), Ordering::Relaxed);
            if !object.is_null() {
                self.slot(end).store(object, Ordering::Relaxed);
                end += 1;
            }
        }
        self.tail.0.store(end, Ordering::Relaxed);
    }
}

#[cfg(all(test, not(feature = "_shuttle")))]
mod tests {
    use super::*;

    fn objects(addresses: impl IntoIterator<Item = usize>) -> Vec<*mut u8> {
        addresses.into_iter().map(std::ptr::without_provenance_mut).collect()
    }

    fn all(ring: &Ring) -> Vec<*mut u8> {
        let mut found = Vec::new();
        ring.take(|object| found.push(object));
        found
    }

    #[test]
    fn a_ring_gives_what_was_added_in_order_and_takes_no_more_than_it_has_room_for() {
        let ring = Ring::new();
        for lap in 0..5 {
            let many = objects((1..=CAPACITY).map(|n| n * 8 + lap));
            assert!(many.chunks(32).all(|batch| ring.add(batch)));
            assert!(!ring.add(&objects([8])));
            assert_eq!(all(&ring), many);
            assert!(all(&ring).is_empty());
            assert!(ring.add(&objects([16, 24])));
            assert_eq!(all(&ring), objects([16, 24]));
        }
    }

    #[test]
    fn in_a_copied_process_slots_that_no_thread_will_fill_are_dropped() {
        let ring = Ring::new();
        assert!(ring.add(&objects([8, 16])));
        // Two threads reserved slots and are gone; a third one had filled its own.
        ring.tail.0.fetch_add(3, Ordering::Relaxed);
        assert!(ring.add(&objects([24])));
        ring.tail.0.fetch_add(1, Ordering::Relaxed);
        assert_eq!(all(&ring), objects([8, 16]));
        assert!(all(&ring).is_empty(), "a slot that is not filled holds up the following ones");
        ring.drop_unfilled();
        assert_eq!(all(&ring), objects([24]));
        let many = objects((1..=CAPACITY).map(|n| n * 8));
        assert!(ring.add(&many) && !ring.add(&objects([8])));
        assert_eq!(all(&ring), many);
    }
}
