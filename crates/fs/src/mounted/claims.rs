//! Claims: hints by which writers avoid each other.
//!
//! A writer claims the chunk that it takes blocks from, the block that it takes inodes from, and the leaf
//! that it adds entries to. Other writers then use other ones for a while. The table may forget a claim: only
//! speed depends on it.

use crate::vocabulary::types::Time;
use lanefs_format::{BLOCK, MAX_VOLUME};
use lanefs_store::SLOTS;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Slots in the table.
const TABLE_SLOTS: usize = 1024;

/// A claim expires when it was not renewed for one or two ticks of 2^26 ns, a fifteenth of a second.
const TICK_SHIFT: u32 = 26;

/// Layout of a claim: the block's number in the high bits, then the tick, then the writer.
const TICK_BITS: u32 = 12;
const WRITER_BITS: u32 = 8;
const LOW_BITS: u32 = TICK_BITS + WRITER_BITS;

const _: () = assert!(
    MAX_VOLUME / BLOCK <= 1 << (u64::BITS - LOW_BITS),
    "a claim has room for the number of any block"
);
const _: () =
    assert!(SLOTS <= 1 << WRITER_BITS && WRITER_BITS == u8::BITS, "a claim has room for any writer");

/// The claims of all writers.
pub(crate) struct Claims {
    table: Box<[AtomicU64]>,
}

impl Default for Claims {
    fn default() -> Self {
        Claims { table: (0..TABLE_SLOTS).map(|_| AtomicU64::new(0)).collect() }
    }
}

fn tick(now: Time) -> u64 {
    (now.0 >> TICK_SHIFT) as u64 & ((1 << TICK_BITS) - 1)
}

impl Claims {
    fn slot(&self, at: u64) -> &AtomicU64 {
        &self.table[((at / BLOCK).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 54) as usize % TABLE_SLOTS]
    }

    /// Claims the block or chunk at `at`, or renews the claim.
    pub(crate) fn claim(&self, at: u64, writer: u8, now: Time) {
        let word = (at / BLOCK) << LOW_BITS | tick(now) << WRITER_BITS | u64::from(writer);
        let slot = self.slot(at);
        // Stores are rare, so that the line stays shared between processors.
        if slot.load(Relaxed) != word {
            slot.store(word, Relaxed);
        }
    }

    /// True where another writer has claimed the block or chunk, and its claim has not expired.
    pub(crate) fn is_claimed_by_other(&self, at: u64, writer: u8, now: Time) -> bool {
        let word = self.slot(at).load(Relaxed);
        let age = tick(now).wrapping_sub(word >> WRITER_BITS) & ((1 << TICK_BITS) - 1);
        word >> LOW_BITS == at / BLOCK && word as u8 != writer && age <= 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_claim_holds_others_off_for_a_while() {
        let claims = Claims::default();
        let now = Time(1 << 40);
        claims.claim(0x20_0000, 3, now);
        assert!(claims.is_claimed_by_other(0x20_0000, 4, now));
        assert!(!claims.is_claimed_by_other(0x20_0000, 3, now));
        assert!(!claims.is_claimed_by_other(0x40_0000, 4, now));
        assert!(!claims.is_claimed_by_other(0x20_0000, 4, Time(now.0 + (2 << TICK_SHIFT))));
    }
}
