//! The header: the position of the log's tail.
//!
//! There is one header, which is overwritten in place. Its fields and its checksum are in the first sector,
//! and the rest of the block is always zero, so a torn write leaves the old header or the new one, and both
//! are right (see the parent module). Two alternating headers would be no safer against a torn write, and
//! less safe against rot: where the newer one does not verify, recovery would use the older one, whose log
//! may have been overwritten.

use super::aligned::AlignedBuffer;
use super::ring::{Ring, SEQUENCE_END};
use crate::fault::io_fault;
use crate::{Device, Fault};
use lanefs_format::{BLOCK, BlockKind, Checksummer, JOURNAL_HEADER, journal_header as h};

/// The begin of the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Tail {
    /// Slot of the oldest commit that may not be in place, or of the next commit.
    pub(super) slot: u64,
    /// Number of that commit.
    pub(super) sequence: u64,
}

/// Reads the header.
///
/// # Errors
/// [`Fault::Io`]; [`Fault::Damaged`] when it does not verify or has impossible values.
pub(super) fn read(device: &dyn Device, sums: &Checksummer, ring: Ring) -> Result<Tail, Fault> {
    let at = ring.header();
    let mut block = AlignedBuffer::zeroed(BLOCK as usize);
    device.read_slice(at, &mut block).map_err(|e| io_fault(at, "reading", &e))?;
    let verified = sums.verify(BlockKind::Journal, at, &block, 0, &[]);
    if !verified || h::ROLE.read(&block) != Some(JOURNAL_HEADER) {
        return Err(Fault::damaged(at, "no valid journal header"));
    }
    let (tail, sequence) = (h::TAIL.read(&block).unwrap_or(0), h::SEQUENCE.read(&block).unwrap_or(0));
    if tail == 0 || tail > ring.len() || sequence == 0 || sequence >= SEQUENCE_END {
        return Err(Fault::damaged(at, "an impossible journal header"));
    }
    Ok(Tail { slot: tail - 1, sequence })
}

/// Writes the header and makes it, and all earlier writes, durable. Returns the number of bytes written.
///
/// # Errors
/// [`Fault::Io`]: the device then has the old header or the new one.
pub(super) fn write(device: &dyn Device, sums: &Checksummer, ring: Ring, tail: Tail) -> Result<u64, Fault> {
    let at = ring.header();
    let mut block = AlignedBuffer::zeroed(BLOCK as usize);
    h::KIND.write(&mut block, BlockKind::Journal as u8);
    h::ROLE.write(&mut block, JOURNAL_HEADER);
    h::TAIL.write(&mut block, tail.slot % ring.len() + 1);
    h::SEQUENCE.write(&mut block, tail.sequence);
    sums.seal(BlockKind::Journal, at, &mut block, 0);
    device.write_slice(at, &block).map_err(|e| io_fault(at, "writing", &e))?;
    device.flush().map_err(|e| io_fault(at, "flushing", &e))?;
    Ok(BLOCK)
}
