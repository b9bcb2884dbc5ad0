//! The state of one writer: it lasts from one transaction to the next, and no other writer touches it.

use crate::counts::Counts;
use crate::extent::Extent;
use crate::hints::{Hints, LeafHints};
use crate::prealloc::Prealloc;
use lanefs_format::{BLOCK, BlockKind};
use lanefs_store::Log;

/// What a writer keeps from one change to the next.
#[derive(Default)]
pub(crate) struct Writer {
    pub(crate) log: Log,
    pub(crate) hints: Hints,
    pub(crate) counts: Counts,
    pub(crate) leaves: LeafHints,
    pub(crate) prealloc: Prealloc,
    /// What writers had in stock and the bitmaps still call used, on its way back.
    pub(crate) returning: Vec<Extent>,
    pub(crate) freed: Vec<Freed>,
    /// What committed transactions freed and the device does not know yet: a crash may bring it back, so nothing else may
    /// be put there.
    pub(crate) deferred: Vec<Freed>,
}

/// What a transaction frees. It is free for others, and for the transaction itself, only once the transaction can no
/// longer be taken back: else a block's old bytes would be gone when they are needed again.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Freed {
    /// A metadata block at this position.
    Block(u64, BlockKind),
    /// Blocks of file data.
    Extent(Extent),
    /// A metadata chunk at this position, all of whose blocks are free. A volume in memory keeps its memory: the next
    /// metadata is likely to need it, and memory that the host has to clear first costs more than the metadata.
    Chunk(u64),
}

/// Blocks of file data in a list.
pub(crate) fn deferred_blocks(list: &[Freed]) -> u64 {
    let blocks = |freed: &Freed| if let Freed::Extent(extent) = freed { extent.count } else { 0 };
    // The positions of a freed chunk and its blocks count as one run when the chunk goes.
    list.iter().map(blocks).sum::<u64>().min(u64::MAX / BLOCK)
}
