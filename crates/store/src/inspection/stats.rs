//! Statistics of a store.

use crate::device::{Device, FileId};
use crate::store::Store;
use crate::store::pin_table::PinTable;
use std::sync::atomic::{AtomicU64, Ordering};

/// Totals since the volume was opened, and the state of the cache.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StoreStats {
    /// Blocks of 4 KiB read from the device.
    pub blocks_fetched: u64,
    /// Blocks of metadata among them that came with another one that was missed.
    pub neighbours_fetched: u64,
    /// Those that were used later.
    pub neighbours_used: u64,
    /// Blocks that are resident now.
    pub blocks_resident: u64,
    /// Blocks that may be resident.
    pub blocks_allowed: u64,
    /// Blocks that are pinned for slices in place, or reserved for such pins. A block counts once for each.
    pub blocks_pinned: u64,
    /// Blocks of file data that were compared with their checksums.
    pub data_verified: u64,
    /// Blocks of file data that do not match their checksums, where a thread needed them.
    pub data_wrong: u64,
    /// Commits.
    pub commits: u64,
    /// Bytes of file data written in place.
    pub data_bytes: u64,
    /// Bytes written to the journal.
    pub journal_bytes: u64,
    /// Bytes copied from the journal to their positions.
    pub in_place_bytes: u64,
}

impl Store {
    /// Returns words for people: the kind of device, and how it is accessed.
    pub fn engine(&self) -> String {
        self.device().map_or_else(|| "memory".into(), Device::engine)
    }

    /// Returns the bytes from which the device's content comes; the largest number for a volume in memory.
    pub fn given(&self) -> u64 {
        self.device().map_or(u64::MAX, Device::given)
    }

    /// Returns the file or raw device that has the volume's bytes, where it is one.
    pub fn file_id(&self) -> Option<FileId> {
        self.device().and_then(Device::file_id)
    }

    /// Shows a mark to processes that find the device in use ([`Device::show_mark`]).
    pub fn show_mark(&self, mark: Option<u64>) {
        self.device().into_iter().for_each(|device| device.show_mark(mark));
    }

    /// Returns the totals so far.
    pub fn stats(&self) -> StoreStats {
        let get = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let counters = &self.commits.counters;
        StoreStats {
            blocks_fetched: get(&self.blocks_fetched),
            neighbours_fetched: get(&self.neighbours.fetched),
            neighbours_used: get(&self.neighbours.used),
            blocks_resident: self.cache.resident(),
            blocks_allowed: self.cache.budget(),
            blocks_pinned: self.pins.as_ref().map_or(0, PinTable::reserved),
            data_verified: get(&self.data_sums.verified),
            data_wrong: self.data_sums.wrong(),
            commits: get(&counters.commits),
            data_bytes: get(&counters.data_bytes),
            journal_bytes: get(&counters.journal_bytes),
            in_place_bytes: get(&counters.in_place_bytes),
        }
    }
}
