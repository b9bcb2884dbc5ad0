//! Slots: which sections of a sparse volume have memory.
//!
//! A table has a word for each section: the number of its slot, or 0. A thread that claims a block changes
//! the block's state first, and looks at the word then. A thread that takes a slot away marks the word first,
//! and looks at the states of all blocks of the section then. All four are sequentially consistent, so at
//! least one of both sees the other: the one leaves the slot where it is, or the other waits for the lock and
//! asks for a slot once more. Readers of resident blocks look at the word only, marked or not.
//!
//! A slot is taken away only where no thread can come back to the bytes of its frames (see `evict`).

use super::arena::Arena;
use crate::vocabulary::planted;
use lanefs_format::{BLOCK, CHUNK};
use lanefs_sync::{Mutex, point, size};
use std::io;
use std::sync::atomic::{AtomicU32, Ordering};

/// Bytes of a section, and of a slot: a chunk, which is also a huge page.
pub(crate) const SLOT_BYTES: u64 =
    if cfg!(miri) { 4 * BLOCK } else { size(CHUNK as usize, 4 * BLOCK as usize) as u64 };

const _: () = assert!(SLOT_BYTES.is_power_of_two() && SLOT_BYTES.is_multiple_of(BLOCK));

/// Mark of a word whose slot may be about to leave.
const LEAVING: u32 = 1 << 31;

/// Least number of slots that should be left, where there are twice as many.
const RESERVE: u32 = 16;

/// The owner of a slot that has no section.
const NOBODY: u64 = u64::MAX;

/// The slots of a sparse volume.
pub(crate) struct Slots {
    /// One word a section.
    table: Arena,
    pool: Mutex<SlotPool>,
    /// Slots without a section.
    left: AtomicU32,
    /// Slots that should be left for threads with exclusive access, which evict nothing.
    reserve: u32,
}

/// The slots by number. Slot 0 belongs to all sections that have none.
struct SlotPool {
    /// The section of each slot that was ever used.
    owners: Vec<u64>,
    /// Used before, and free now.
    free: Vec<u32>,
    /// Number of slots beside slot 0.
    count: u32,
    /// The slot that was looked at last: those that got a section since come last.
    hand: usize,
}

impl SlotPool {
    /// Returns the next slot in turn that was ever used. There is one.
    fn next(&mut self) -> usize {
        self.hand = if self.hand + 1 < self.owners.len() { self.hand + 1 } else { 1 };
        self.hand
    }

    fn take(&mut self) -> Option<u32> {
        self.free.pop().or_else(|| {
            let next = self.owners.len() as u32;
            (next <= self.count).then(|| {
                self.owners.push(NOBODY);
                next
            })
        })
    }
}

impl Slots {
    /// Returns `count` slots, fewer than 2^31, for so many sections.
    ///
    /// # Errors
    /// The host's error when it has no address space left.
    pub(crate) fn new(sections: u64, count: u32) -> io::Result<Self> {
        debug_assert!(count < LEAVING);
        let table = Arena::reserve(sections as usize * size_of::<u32>())?;
        let pool = SlotPool { owners: vec![NOBODY], free: Vec::new(), count, hand: 0 };
        let is_scarce = u64::from(count) < sections && count >= 2 * RESERVE;
        let reserve = if is_scarce { (count / 8).max(RESERVE) } else { 0 };
        Ok(Slots { table, pool: Mutex::new(pool), left: count.into(), reserve })
    }

    #[inline(always)]
    fn word(&self, section: u64) -> &AtomicU32 {
        point();
        self.table.half(section)
    }

    /// Returns the place of a byte in the memory of the slots: below [`SLOT_BYTES`] where its section has
    /// none.
    ///
    /// The load is relaxed. A thread that has seen the state of a resident block sees its slot as well,
    /// because that was assigned before the state was published; a thread that sees a later slot is stale.
    #[cold]
    pub(crate) fn place(&self, at: u64) -> u64 {
        let slot = self.word(at / SLOT_BYTES).load(Ordering::Relaxed) & !LEAVING;
        u64::from(slot) * SLOT_BYTES + at % SLOT_BYTES
    }

    /// Returns whether a section has a slot that stays as long as a block of it is claimed. The caller has
    /// claimed one.
    #[cold]
    pub(crate) fn has(&self, section: u64) -> bool {
        let word = self.word(section).load(Ordering::SeqCst);
        word != 0 && (word & LEAVING == 0 || planted::is(planted::Bug::SlotThatLeaves))
    }

    /// Gives a section, of which the caller has claimed a block, a slot. Returns false where none is free.
    pub(crate) fn assign(&self, section: u64) -> bool {
        let mut pool = self.pool.lock();
        // No word is marked while this thread has the lock.
        if self.word(section).load(Ordering::SeqCst) != 0 {
            return true;
        }
        let Some(slot) = pool.take() else { return false };
        assert_eq!(pool.owners[slot as usize], NOBODY, "slot {slot} has a section");
        self.left.fetch_sub(1, Ordering::Relaxed);
        pool.owners[slot as usize] = section;
        self.word(section).store(slot, Ordering::SeqCst);
        true
    }

    /// Takes up to `most` slots away from sections that are unused, in turn, and returns their number.
    /// `is_unused` may first empty a section. `taken` gets each slot before another section may have it.
    pub(crate) fn reclaim(&self, most: usize, is_unused: impl Fn(u64) -> bool, taken: impl Fn(u64)) -> usize {
        let mut pool = self.pool.lock();
        let mut number = 0;
        for _ in 1..pool.owners.len() {
            let slot = pool.next();
            let section = pool.owners[slot];
            if section == NOBODY {
                continue;
            }
            self.word(section).store(slot as u32 | LEAVING, Ordering::SeqCst);
            if !is_unused(section) {
                self.word(section).store(slot as u32, Ordering::SeqCst);
                continue;
            }
            self.word(section).store(0, Ordering::SeqCst);
            taken(slot as u64);
            pool.owners[slot] = NOBODY;
            pool.free.push(slot as u32);
            self.left.fetch_add(1, Ordering::Relaxed);
            number += 1;
            if number == most {
                break;
            }
        }
        number
    }

    /// Number of slots without a section.
    pub(crate) fn left(&self) -> u32 {
        self.left.load(Ordering::Relaxed)
    }

    /// Returns true where fewer slots are left than should be.
    pub(crate) fn are_short(&self) -> bool {
        self.left() < self.reserve
    }

    /// Number of slots that have a section.
    #[cfg(test)]
    pub(crate) fn in_use(&self) -> usize {
        let pool = self.pool.lock();
        let used = pool.owners.len() - 1 - pool.free.len();
        debug_assert_eq!(pool.count - used as u32, self.left());
        used
    }
}
