//! The directory cache in device memory: entries by directory and name, shared by all batches.

use crate::error::Result;
use crate::shared::layout::CACHE_BUCKET_WORDS;
use crate::twin::headers::cache::Cache;
use crate::vulkan::{Buffer, Commands, Device, MemoryLocation, Recording};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

/// Bytes of a bucket.
const BUCKET_BYTES: u64 = CACHE_BUCKET_WORDS as u64 * 4;

/// Numbers of dispatches that a claim tells apart.
const CLAIM_NUMBERS: u32 = 1 << 12;

/// Fewest buckets, where the room suffices: a volume that is small now may grow.
const BUCKETS: u64 = 4096;

/// A cache; without buckets where the device has no room.
pub(crate) struct DirectoryCache {
    slots: Option<Buffer>,
    buckets: u32,
    /// Dispatches so far that may fill the cache.
    claims: AtomicU32,
}

impl DirectoryCache {
    /// Makes an empty cache for so many entries, of up to `room` bytes; a smaller one where memory is
    /// short.
    ///
    /// # Errors
    /// An error of the device.
    pub(crate) fn new(device: &Arc<Device>, entries: u64, room: u64) -> Result<DirectoryCache> {
        // Two buckets for each entry: of a hundred entries some three find both slots of their first home
        // taken.
        let mut buckets = (2 * entries).max(BUCKETS).min(room / BUCKET_BYTES).min(1 << 31);
        while buckets > 0 {
            match Buffer::new(device, buckets * BUCKET_BYTES, MemoryLocation::Device) {
                Ok(slots) => {
                    debug_assert!(buckets * BUCKET_BYTES <= slots.len, "buckets outside the buffer");
                    let mut work = Commands::new(device)?;
                    work.record(|commands| commands.fill(&slots, slots.len, 0))?;
                    work.submit()?;
                    work.wait()?;
                    let claims = AtomicU32::new(0);
                    return Ok(DirectoryCache { slots: Some(slots), buckets: buckets as u32, claims });
                }
                Err(error) if error.is_short_of_memory() => buckets /= 2,
                Err(error) => return Err(error),
            }
        }
        Ok(DirectoryCache { slots: None, buckets: 0, claims: AtomicU32::new(0) })
    }

    /// Returns address and number of the buckets.
    pub(crate) fn buckets(&self) -> (u64, u32) {
        (self.slots.as_ref().map_or(0, |slots| slots.address), self.buckets)
    }

    /// Returns the bytes of all buckets.
    pub(crate) fn bytes(&self) -> u64 {
        u64::from(self.buckets) * BUCKET_BYTES
    }

    /// Has the device copy all buckets to an offset of another buffer.
    pub(crate) fn copy(&self, recording: &Recording<'_>, to: &Buffer, at: u64) {
        if let Some(slots) = &self.slots {
            recording.copy(slots, to, &[(0, at, self.bytes())]);
        }
    }

    /// Returns the number of a new dispatch, by which it claims slots.
    pub(crate) fn claim(&self) -> u32 {
        claim_number(self.claims.fetch_add(1, Ordering::Relaxed).wrapping_add(1))
    }

    /// Returns the number of the last dispatch that claimed slots.
    pub(crate) fn last_claim(&self) -> u32 {
        claim_number(self.claims.load(Ordering::Relaxed))
    }

    /// Copies the cache to the host, for tests. No dispatch may fill it meanwhile.
    ///
    /// # Errors
    /// An error of the device.
    pub(crate) fn snapshot(&self, device: &Arc<Device>) -> Result<Cache> {
        let Some(slots) = &self.slots else { return Ok(Cache::default()) };
        let host = slots.read(device)?;
        let (words, _) = host.as_chunks::<4>();
        let words = words.iter().map(|word| u32::from_le_bytes(*word)).collect();
        Ok(Cache { words, claim: self.last_claim() })
    }
}

/// Returns the number by which a dispatch claims slots. A claim has its lowest 12 bits, which are never those
/// of a slot that nobody has claimed: 0.
fn claim_number(dispatch: u32) -> u32 {
    if dispatch == 0 { 0 } else { (dispatch - 1) % (CLAIM_NUMBERS - 1) + 1 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_dispatch_finds_free_slots_claimed() {
        let numbers = (1..3 * CLAIM_NUMBERS).chain(u32::MAX - CLAIM_NUMBERS..=u32::MAX);
        let mut last = 0;
        for number in numbers.map(claim_number) {
            assert!(number != 0 && number < CLAIM_NUMBERS && number != last, "{number} after {last}");
            last = number;
        }
        assert_eq!(claim_number(0), 0, "before the first dispatch");
    }
}
