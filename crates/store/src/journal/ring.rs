//! The ring: positions of the log's blocks, reads and writes.

use super::aligned::AlignedBuffer;
use crate::device::Device;
use crate::vocabulary::fault::{Fault, io_fault};
use lanefs_format::{
    BLOCK, BlockKind, Checksummer, JOURNAL_HEADERS, MAX_JOURNAL, MIN_JOURNAL, journal_descriptor as d,
};
use std::ops::Range;

/// Blocks of one write of zeros (1 MiB).
const CLEARED_BLOCKS: u64 = 256;

/// Upper bound of commit numbers, so that arithmetic on them never overflows. No journal reaches it.
pub(super) const SEQUENCE_END: u64 = 1 << 62;

/// Commit numbers from here on are used up: a writer does not begin with one of them, so that a session never
/// reaches the bound. Only a forged journal has them.
pub(super) const SEQUENCE_WORN: u64 = 1 << 61;

/// The log: the journal without its headers. Its blocks have **slots** from 0 to `len() - 1`, and the first
/// follows the last: functions take any slot number, modulo the length.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ring {
    journal: u64,
    len: u64,
}

impl Ring {
    /// Returns the ring of the journal at byte `at`, `blocks` long with its headers.
    ///
    /// # Errors
    /// [`Fault::Damaged`] for an impossible size.
    pub(super) fn new(at: u64, blocks: u64) -> Result<Self, Fault> {
        let end = blocks.checked_mul(BLOCK).and_then(|bytes| at.checked_add(bytes));
        if !(MIN_JOURNAL..=MAX_JOURNAL).contains(&blocks) || end.is_none() {
            return Err(Fault::damaged(at, "a journal of an impossible size"));
        }
        Ok(Ring { journal: at, len: blocks - JOURNAL_HEADERS })
    }

    /// Returns the position of a copy of the header.
    pub(super) fn header(&self, copy: u64) -> u64 {
        self.journal + copy * BLOCK
    }

    /// Returns the number of a slot's block in the journal.
    pub(super) fn number(&self, slot: u64) -> u64 {
        JOURNAL_HEADERS + slot % self.len
    }

    /// Returns the slot of a block of the journal; `None` where it has no such block in the ring.
    pub(super) fn slot(&self, number: u64) -> Option<u64> {
        number.checked_sub(JOURNAL_HEADERS).filter(|slot| *slot < self.len)
    }

    /// Returns the number of slots.
    pub(super) fn len(&self) -> u64 {
        self.len
    }

    /// Returns the byte position of a slot.
    pub(super) fn position(&self, slot: u64) -> u64 {
        self.journal + self.number(slot) * BLOCK
    }

    /// Returns true for a byte position inside the journal, headers included.
    pub(super) fn contains(&self, position: u64) -> bool {
        position >= self.journal && position - self.journal < (JOURNAL_HEADERS + self.len) * BLOCK
    }

    /// Returns the parts of `bytes` bytes from `slot` on, each with its position. The second is empty where
    /// nothing wraps.
    fn parts(&self, slot: u64, bytes: usize) -> [(u64, Range<usize>); 2] {
        let to_end = (self.len - slot % self.len).saturating_mul(BLOCK);
        let first = usize::try_from(to_end).map_or(bytes, |to_end| bytes.min(to_end));
        assert!(bytes as u64 <= self.len * BLOCK, "no more than the ring");
        [(self.position(slot), 0..first), (self.position(0), first..bytes)]
    }

    /// Fills `buffer`, no longer than the ring, from `slot` on.
    ///
    /// # Errors
    /// [`Fault::Io`].
    pub(super) fn read(&self, device: &dyn Device, slot: u64, buffer: &mut [u8]) -> Result<(), Fault> {
        for (at, part) in self.parts(slot, buffer.len()) {
            if !part.is_empty() {
                device.read_slice(at, &mut buffer[part]).map_err(|e| io_fault(at, "reading", &e))?;
            }
        }
        Ok(())
    }

    /// Fills the ring with zeros.
    ///
    /// # Errors
    /// [`Fault::Io`].
    pub(super) fn clear(&self, device: &dyn Device) -> Result<(), Fault> {
        let zeros = AlignedBuffer::zeroed((CLEARED_BLOCKS.min(self.len) * BLOCK) as usize);
        for slot in (0..self.len).step_by(CLEARED_BLOCKS as usize) {
            let blocks = CLEARED_BLOCKS.min(self.len - slot);
            self.write(device, slot, &zeros[..(blocks * BLOCK) as usize])?;
        }
        Ok(())
    }

    /// Writes `bytes`, no longer than the ring, from `slot` on: in one piece, or two where they wrap.
    ///
    /// # Errors
    /// [`Fault::Io`].
    pub(super) fn write(&self, device: &dyn Device, slot: u64, bytes: &[u8]) -> Result<(), Fault> {
        for (at, part) in self.parts(slot, bytes.len()) {
            if !part.is_empty() {
                device.write_slice(at, &bytes[part]).map_err(|e| io_fault(at, "writing", &e))?;
            }
        }
        Ok(())
    }
}

/// Returns role and commit number of a block at `at` that verifies as a descriptor, a revocation or a record;
/// `None` for all other blocks.
///
/// A copy of another block never passes: the first two bytes of metadata blocks are a kind other than
/// `BlockKind::Journal`, an inode's mode (whose second byte has a file type, so it is not a role) or a
/// pointer (odd, or zero).
pub(super) fn identify(sums: &Checksummer, at: u64, block: &[u8]) -> Option<(u8, u64)> {
    let role = d::ROLE.read(block)?;
    let known =
        [lanefs_format::JOURNAL_DESCRIPTOR, lanefs_format::JOURNAL_COMMIT, lanefs_format::JOURNAL_REVOCATION];
    if !known.contains(&role) {
        return None;
    }
    Some((role, number(sums, at, block)?))
}

/// Returns the commit number of a block at `at` that verifies as one of a journal, whatever its role.
pub(super) fn number(sums: &Checksummer, at: u64, block: &[u8]) -> Option<u64> {
    let verifies = sums.verify(BlockKind::Journal, at, block, 0, &[]);
    verifies.then(|| d::SEQUENCE.read(block)).flatten()
}
