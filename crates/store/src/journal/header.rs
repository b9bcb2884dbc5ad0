//! The headers: the position of the log's tail.
//!
//! Two blocks have the same header. One write replaces both, and of two that differ the newer one counts. The
//! fields and the checksum of a header are in its first sector, and the rest of the block is always zero; so
//! after a crash each is the old header or the new one, and both are right (see the parent module). The space
//! that a header frees is written when both are durable. So at any time each of the two is right, and one
//! that rots costs nothing. (Headers that alternate would not have this property: where the newer one rots,
//! the log of the older one may have been overwritten.)

use super::aligned::AlignedBuffer;
use super::ring::{Ring, SEQUENCE_END};
use crate::device::Device;
use crate::vocabulary::fault::{Fault, io_fault};
use crate::vocabulary::totals::Totals;
use lanefs_format::{BLOCK, BlockKind, Checksummer, JOURNAL_HEADER, JOURNAL_HEADERS, journal_header as h};

/// The start of the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Tail {
    /// Slot of the oldest commit that may not be in place, or of the next commit.
    pub(super) slot: u64,
    /// Number of that commit. It grows with each write of the headers.
    pub(super) sequence: u64,
    /// The counts of the volume before that commit, where they are known.
    pub(super) totals: Option<Totals>,
}

/// Reads the newer of the headers that are good.
///
/// # Errors
/// Without a good one [`Fault::Io`], or [`Fault::Damaged`] when none verifies with possible values.
pub(super) fn read(device: &dyn Device, sums: &Checksummer, ring: Ring) -> Result<Tail, Fault> {
    let first = read_one(device, sums, ring, ring.header(0));
    (1..JOURNAL_HEADERS).map(|copy| read_one(device, sums, ring, ring.header(copy))).fold(
        first,
        |best, other| match (best, other) {
            (Ok(best), Ok(other)) if other.sequence > best.sequence => Ok(other),
            (Err(_), Ok(other)) => Ok(other),
            (best, _) => best,
        },
    )
}

/// Checks that each header is good.
///
/// # Errors
/// [`Fault::Io`], [`Fault::Damaged`], of the first that is not.
pub(super) fn examine(device: &dyn Device, sums: &Checksummer, ring: Ring) -> Result<(), Fault> {
    (0..JOURNAL_HEADERS).try_for_each(|copy| read_one(device, sums, ring, ring.header(copy)).map(drop))
}

/// Returns the positions of the headers that are not good, or cannot be read.
pub(super) fn wrong(device: &dyn Device, sums: &Checksummer, ring: Ring) -> Vec<u64> {
    let headers = (0..JOURNAL_HEADERS).map(|copy| ring.header(copy));
    headers.filter(|at| read_one(device, sums, ring, *at).is_err()).collect()
}

fn read_one(device: &dyn Device, sums: &Checksummer, ring: Ring, at: u64) -> Result<Tail, Fault> {
    let mut block = AlignedBuffer::zeroed(BLOCK as usize);
    device.read_slice(at, &mut block).map_err(|e| io_fault(at, "reading", &e))?;
    let verified = sums.verify(BlockKind::Journal, at, &block, 0, &[]);
    if !verified || h::ROLE.read(&block) != Some(JOURNAL_HEADER) {
        return Err(Fault::damaged(at, "no valid journal header"));
    }
    let (tail, sequence) = (h::TAIL.read(&block).unwrap_or(0), h::SEQUENCE.read(&block).unwrap_or(0));
    match ring.slot(tail) {
        Some(slot) if sequence > 0 && sequence < SEQUENCE_END => {
            let totals = Totals::decode(h::FREE_BLOCKS.read(&block), h::INODES.read(&block));
            Ok(Tail { slot, sequence, totals })
        }
        _ => Err(Fault::damaged(at, "an impossible journal header")),
    }
}

/// Writes the headers and makes them, and all earlier writes, durable. Returns the number of bytes written.
///
/// # Errors
/// [`Fault::Io`]: the device then has the old header or the new one in each of the blocks.
pub(super) fn write(device: &dyn Device, sums: &Checksummer, ring: Ring, tail: Tail) -> Result<u64, Fault> {
    let at = ring.header(0);
    debug_assert!(tail.sequence > 0, "{tail:?}");
    let mut blocks = AlignedBuffer::zeroed((JOURNAL_HEADERS * BLOCK) as usize);
    let (free_blocks, inodes) = Totals::encode(tail.totals);
    for (copy, block) in (0..).zip(blocks.chunks_exact_mut(BLOCK as usize)) {
        h::KIND.write(block, BlockKind::Journal as u8);
        h::ROLE.write(block, JOURNAL_HEADER);
        h::TAIL.write(block, ring.number(tail.slot));
        h::SEQUENCE.write(block, tail.sequence);
        h::FREE_BLOCKS.write(block, free_blocks);
        h::INODES.write(block, inodes);
        sums.seal(BlockKind::Journal, ring.header(copy), block, 0);
    }
    device.write_slice(at, &blocks).map_err(|e| io_fault(at, "writing", &e))?;
    device.flush().map_err(|e| io_fault(at, "flushing", &e))?;
    Ok(JOURNAL_HEADERS * BLOCK)
}

/// Returns the highest number in a header that is good, 0 where there is none.
pub(super) fn highest(device: &dyn Device, sums: &Checksummer, ring: Ring) -> u64 {
    let good = (0..JOURNAL_HEADERS).filter_map(|copy| read_one(device, sums, ring, ring.header(copy)).ok());
    good.map(|tail| tail.sequence).max().unwrap_or(0)
}
