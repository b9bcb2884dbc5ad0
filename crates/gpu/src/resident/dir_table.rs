//! The directory-path table in device memory: from the path of a directory to its inode number, shared by all
//! batches.
//!
//! An entry counts in the epoch of the directory tree in which it was learned. The epoch ends when a refresh
//! finds that a directory has been renamed or removed since the last one. So nothing in the table is stale,
//! and creating and removing files ends no epoch. The records of an epoch lie one after the other; a new
//! epoch begins with none.

use crate::error::Result;
use crate::shared::layout::{DIR_BUCKET_WORDS, DIR_LENGTH_BITS, DIR_UNIT_WORDS};
use crate::twin::headers::dir_table::DirTable;
use crate::vulkan::{Buffer, Commands, Device, MemoryLocation, Recording};
use std::sync::Arc;

/// Bytes of a bucket, and of a unit of records.
const BUCKET_BYTES: u64 = DIR_BUCKET_WORDS as u64 * 4;
const UNIT: u64 = DIR_UNIT_WORDS as u64 * 4;

/// Units for each bucket. Half of its two slots are in use at most, with 96 bytes of record each.
const UNITS: u64 = 3;

/// Fewest buckets, where the room suffices, and inodes of a volume for each bucket.
const LEAST_BUCKETS: u64 = 4096;
const INODES: u64 = 4;

/// Most buckets: a slot has that many bits for the unit of a record.
const MOST_BUCKETS: u64 = (1 << (32 - DIR_LENGTH_BITS)) / UNITS - 1;

// The kernels compute the offsets of buckets and records in 32 bits.
const _: () = assert!(MOST_BUCKETS * BUCKET_BYTES <= 1 << 32);
const _: () = assert!(UNIT << (32 - DIR_LENGTH_BITS) <= 1 << 32);

/// A table; without buckets where the device has no room.
pub(crate) struct DirectoryTable {
    memory: Option<TableMemory>,
    /// Moves of directories when the epoch began, and its number.
    moves: u64,
    epoch: u32,
    /// A planted bug: moves after the first refresh end no epoch.
    #[cfg(any(test, feature = "_testing"))]
    is_deaf: bool,
}

/// The table, as the parameters of a dispatch have it.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct TableAddresses {
    pub(crate) buckets: u64,
    /// 0 without a table.
    pub(crate) bucket_count: u32,
    pub(crate) records: u64,
    /// Units of records, and one before them.
    pub(crate) units: u32,
    pub(crate) epoch: u32,
}

struct TableMemory {
    // Dropped first: it waits for its end before the buffers are freed.
    forget: Commands,
    buckets: Buffer,
    records: Buffer,
}

impl DirectoryTable {
    /// Makes an empty table for a volume with so many inodes, of up to `room` bytes; a smaller one where
    /// memory is short.
    ///
    /// # Errors
    /// An error of the device.
    pub(crate) fn new(device: &Arc<Device>, inodes: u64, room: u64) -> Result<DirectoryTable> {
        let mut buckets = (inodes / INODES).max(LEAST_BUCKETS).min(room / (BUCKET_BYTES + UNITS * UNIT));
        buckets = buckets.min(MOST_BUCKETS);
        let mut memory = None;
        while buckets > 0 && memory.is_none() {
            match TableMemory::new(device, buckets) {
                Ok(made) => memory = Some(made),
                Err(error) if error.is_short_of_memory() => buckets /= 2,
                Err(error) => return Err(error),
            }
        }
        Ok(DirectoryTable {
            memory,
            moves: 0,
            epoch: 0,
            #[cfg(any(test, feature = "_testing"))]
            is_deaf: false,
        })
    }

    /// Returns the bytes of the table.
    pub(crate) fn bytes(&self) -> u64 {
        self.memory.as_ref().map_or(0, |memory| memory.buckets.len + memory.records.len)
    }

    /// Begins a new epoch where directories have moved: forgets all entries, before all later submissions.
    /// `moves` is their number, as of the mirror's last refresh.
    ///
    /// # Errors
    /// An error of the device.
    pub(crate) fn follow(&mut self, moves: u64) -> Result<()> {
        debug_assert!(self.moves <= moves, "the number of moves only rises");
        if self.moves == moves {
            return Ok(());
        }
        #[cfg(any(test, feature = "_testing"))]
        if self.is_deaf && self.epoch != 0 {
            return Ok(());
        }
        if let Some(memory) = &mut self.memory {
            // Slots of an epoch whose number comes again would lead to other records.
            if self.epoch == u32::MAX {
                memory.clear()?;
            }
            memory.forget.wait()?;
            memory.forget.submit()?;
        }
        // Last: where the device fails before, the next refresh tries again.
        self.moves = moves;
        self.epoch = self.epoch.checked_add(1).unwrap_or(1);
        Ok(())
    }

    /// Returns the moves of directories by the mirror's last refresh; 0 before the first.
    pub(crate) fn moves(&self) -> u64 {
        self.moves
    }

    /// Plants a bug: moves end no epoch any more.
    #[cfg(any(test, feature = "_testing"))]
    pub(crate) fn ignore_moves(&mut self) {
        self.is_deaf = true;
    }

    /// Returns what a dispatch needs to know of the table.
    pub(crate) fn addresses(&self) -> TableAddresses {
        let Some(TableMemory { buckets, records, .. }) = &self.memory else {
            return TableAddresses { epoch: self.epoch, ..TableAddresses::default() };
        };
        TableAddresses {
            buckets: buckets.address,
            bucket_count: (buckets.len / BUCKET_BYTES) as u32,
            records: records.address,
            units: (records.len / UNIT) as u32,
            epoch: self.epoch,
        }
    }

    /// Has the device copy buckets and records to offsets of another buffer.
    pub(crate) fn copy(&self, recording: &Recording<'_>, to: &Buffer, at_buckets: u64, at_records: u64) {
        if let Some(TableMemory { buckets, records, .. }) = &self.memory {
            recording.copy(buckets, to, &[(0, at_buckets, buckets.len / BUCKET_BYTES * BUCKET_BYTES)]);
            recording.copy(records, to, &[(0, at_records, records.len / UNIT * UNIT)]);
        }
    }

    /// Copies the table to the host, for tests. No dispatch may fill it meanwhile.
    ///
    /// # Errors
    /// An error of the device.
    pub(crate) fn snapshot(&self, device: &Arc<Device>, claim: u32) -> Result<DirTable> {
        let Some(memory) = &self.memory else { return Ok(DirTable::default()) };
        let words = |buffer: &Buffer| -> Result<Vec<u32>> {
            let host = buffer.read(device)?;
            Ok(host.as_chunks::<4>().0.iter().map(|word| u32::from_le_bytes(*word)).collect())
        };
        Ok(DirTable {
            buckets: words(&memory.buckets)?,
            records: words(&memory.records)?,
            epoch: self.epoch,
            claim,
        })
    }
}

impl TableMemory {
    fn new(device: &Arc<Device>, buckets: u64) -> Result<TableMemory> {
        let mut memory = TableMemory {
            buckets: Buffer::new(device, buckets * BUCKET_BYTES, MemoryLocation::Device)?,
            // The unit before the records has their number.
            records: Buffer::new(device, (1 + buckets * UNITS) * UNIT, MemoryLocation::Device)?,
            forget: Commands::new(device)?,
        };
        debug_assert!(memory.records.len / UNIT <= 1 << (32 - DIR_LENGTH_BITS), "a unit that no slot names");
        memory.clear()?;
        Ok(memory)
    }

    /// Zeroes all slots.
    fn clear(&mut self) -> Result<()> {
        let TableMemory { forget, buckets, records } = self;
        forget.record(|commands| {
            commands.fill(buckets, buckets.len, 0);
            commands.fill(records, UNIT, 0);
        })?;
        forget.submit()?;
        forget.record(|commands| commands.fill(records, UNIT, 0))
    }
}
