//! The state of one writer. It lasts from one transaction to the next, and no other writer uses it.

use super::counts::Counts;
use super::cursors::Walks;
use super::hints::{Hints, LeafHints};
use super::prealloc::Prealloc;
use crate::vocabulary::extent::Extent;
use lanefs_format::{BLOCK, BlockKind};
use lanefs_store::Log;

/// The state of one writer between its changes.
#[derive(Default)]
pub(crate) struct Writer {
    pub(crate) log: Log,
    pub(crate) hints: Hints,
    pub(crate) counts: Counts,
    pub(crate) leaves: LeafHints,
    pub(crate) walks: Walks,
    pub(crate) prealloc: Prealloc,
    /// Preallocated blocks of all writers on their way back to the bitmaps, which still mark them as used.
    pub(crate) returning: Vec<Extent>,
    pub(crate) freed: Vec<Freed>,
    /// Frees of committed transactions that the device does not have yet. A crash may bring the blocks back,
    /// so they are not reused before.
    pub(crate) deferred: Vec<Freed>,
}

/// A free. It takes effect, for the transaction itself too, only when the transaction can no longer be rolled
/// back: otherwise the old bytes of a block could be overwritten that the rollback needs.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Freed {
    /// A metadata block at this position.
    Block(u64, BlockKind),
    /// Blocks of file data.
    Extent(Extent),
    /// A metadata chunk at this position, all of whose blocks are free. A volume in memory keeps the memory:
    /// the next metadata is likely to need it, and memory that the host must clear first costs more than the
    /// metadata.
    Chunk(u64),
}

/// Number of blocks of file data in a list.
pub(crate) fn deferred_blocks(list: &[Freed]) -> u64 {
    let blocks = |freed: &Freed| if let Freed::Extent(extent) = freed { extent.count } else { 0 };
    // The bound keeps the sum within the range of a position.
    list.iter().map(blocks).sum::<u64>().min(u64::MAX / BLOCK)
}
