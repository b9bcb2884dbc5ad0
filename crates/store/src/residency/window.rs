//! Windows: the read of a missed block of metadata together with its neighbours.
//!
//! The chunk table says which blocks of the window are metadata, and of which kinds. A transaction may be
//! changing the table, and takes it back where it is aborted. So a row counts where no transaction has locked
//! it, and has the same version after the read. The block is claimed in between: then it was in use as that
//! kind all the time, because no transaction takes a claimed block into use, or out of it.
//!
//! The read goes to memory of its own, since frames between the claimed ones belong to others. Each neighbour
//! is verified there, before it is copied to its frame.

use super::origin::relocate;
use crate::device::Device;
use crate::memory::state::{ABSENT, UNASKED};
use crate::memory::versions::{Grain, Record, Word, record};
use crate::store::Store;
use crate::store::neighbours::{WINDOW_BLOCKS, is_taken};
use crate::vocabulary::planted;
use lanefs_format::{
    BLOCK, BLOCKS_PER_CHUNK, BlockKind, CHUNK, CHUNK_HEADER_BLOCKS, Field, chunk_entry, inode,
};
use std::sync::atomic::{Ordering, fence};

/// A row of a chunk table: it describes a block.
struct Row {
    /// Number of the block.
    index: u64,
    kind: BlockKind,
    /// The row's ownership record, and its version when the row was read.
    record: Record,
    version: Word,
}

impl Store {
    /// Returns whether a miss, which this counts, should read the window of its block. Where misses come
    /// again and again in a chunk, the chunk's table is fetched for that.
    pub(crate) fn wants_window(&self, device: &dyn Device, at: u64, kind: BlockKind) -> bool {
        if !is_taken(kind) || !self.neighbours.may_fetch() {
            return false;
        }
        let (chunk, (table, _)) = (at & !(CHUNK - 1), Self::table_entry(at));
        let is_here = || self.is_resident(table, BlockKind::ChunkHeader);
        if is_here() {
            return true;
        }
        if !self.neighbours.wants_table(chunk) {
            return false;
        }
        // The first block of a table has the checksum of the second.
        let blocks = [(chunk, BlockKind::ChunkHeader), (table, BlockKind::ChunkHeader)];
        self.fetch_blocks(device, &blocks[usize::from(table == chunk)..]);
        // Another thread may be fetching it.
        if !is_here() && self.state(table / BLOCK) == ABSENT {
            self.neighbours.note_no_table(chunk);
        }
        is_here()
    }

    /// Reads the window of a block that the caller has claimed: the block's frame is filled, and neighbours
    /// become resident. Returns false where the block must be read alone: it has no neighbours to fetch, or
    /// the read failed, perhaps for another block.
    pub(crate) fn read_window(&self, device: &dyn Device, at: u64) -> bool {
        let wanted = at / BLOCK;
        let claimed = self.claim_neighbours(wanted);
        let (Some(lowest), Some(highest)) = (claimed.first(), claimed.last()) else { return false };
        let (first, last) = (wanted.min(lowest.index), wanted.max(highest.index));
        debug_assert!(
            last - first < WINDOW_BLOCKS && claimed.is_sorted_by_key(|row| row.index),
            "one window, in order"
        );
        let mut memory = self.neighbours.window();
        let bytes = &mut memory[..((last - first + 1) * BLOCK) as usize];
        let is_read = device.read_slice(first * BLOCK, bytes).is_ok();
        let range = |index: u64| {
            let from = ((index - first) * BLOCK) as usize;
            from..from + BLOCK as usize
        };
        for row in claimed {
            let bytes = &mut bytes[range(row.index)];
            // Nobody asked for these blocks, so one that cannot be had is not a fault.
            if is_read && self.is_neighbour(&row, bytes) && self.is_still(&row) {
                self.frame(row.index * BLOCK, BLOCK).copy_from(bytes);
                self.make_resident(row.index, row.kind as u8 | UNASKED);
            } else {
                self.finish_fetch(row.index, ABSENT, Ok(()));
            }
        }
        if is_read {
            self.frame(at, BLOCK).copy_from(&bytes[range(wanted)]);
        }
        self.neighbours.keep_window(memory);
        is_read
    }

    /// Claims the absent blocks of the window that the chunk table names, as many as the cache has room for
    /// without an eviction. Their numbers ascend.
    fn claim_neighbours(&self, wanted: u64) -> Vec<Row> {
        let first = wanted - wanted % WINDOW_BLOCKS;
        let window = first..(first + WINDOW_BLOCKS).min(self.bytes() / BLOCK);
        // The wanted block counts when it becomes resident.
        let room = self.cache.room().saturating_sub(1) as usize;
        let claims = |index: u64| {
            if self.claim_frame(index, ABSENT) != Ok(true) {
                return false;
            }
            // The device has older bytes than the copy, or gets them from it during the read.
            let has_copy = self.commits.has_copy(index * BLOCK);
            if has_copy && !planted::is(planted::Bug::NeighboursWithoutCopies) {
                self.finish_fetch(index, ABSENT, Ok(()));
                return false;
            }
            true
        };
        let others = window.filter(|index| *index != wanted && self.state(*index) == ABSENT);
        let rows = others.filter_map(|index| self.row(index)).filter(|row| is_taken(row.kind));
        rows.filter(|row| claims(row.index)).take(room).collect()
    }

    /// Returns the row of a block in its chunk's table, where that is resident, the block is in use, and no
    /// transaction has locked the row.
    fn row(&self, index: u64) -> Option<Row> {
        if index % BLOCKS_PER_CHUNK < CHUNK_HEADER_BLOCKS {
            return None;
        }
        let (table, offset) = Self::table_entry(index * BLOCK);
        let record = record(table + offset as u64, Grain::of(BlockKind::ChunkHeader));
        let version = self.versions().load(record);
        let view = self.view_of(table, BLOCK as usize, BlockKind::ChunkHeader).ok()?;
        let kind = view.get(Field::<u8>::at(offset + chunk_entry::KIND.offset));
        let row = Row { index, kind: BlockKind::from_number(kind)?, record, version };
        let is_free = version.owner().is_none() || planted::is(planted::Bug::TrustedTable);
        (is_free && self.is_still(&row)).then_some(row)
    }

    /// Returns true where a row has not changed since it was read.
    fn is_still(&self, row: &Row) -> bool {
        fence(Ordering::Acquire);
        self.versions().load(row.record) == row.version || planted::is(planted::Bug::TrustedTable)
    }

    /// Verifies the bytes of a neighbour, and relocates one of another volume. Free inodes have no checksum,
    /// so a block without an inode in use proves nothing of its kind, and is of no use either.
    fn is_neighbour(&self, row: &Row, bytes: &mut [u8]) -> bool {
        let (at, size) = (row.index * BLOCK, self.inode_size().bytes() as usize);
        let is_used = |one: &[u8]| inode::MODE.read(one).is_some_and(|mode| mode != 0);
        let origin = self.origin(at);
        let (sums, home) = origin.map_or((self.sums, at), |origin| (origin.relocation.sums, origin.home));
        (row.kind != BlockKind::Inodes || bytes.chunks_exact(size).any(is_used))
            && sums.verify(row.kind, home, bytes, size, &[])
            && origin.is_none_or(|origin| relocate(&origin, row.kind, bytes))
    }
}
