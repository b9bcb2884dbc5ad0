//! One file of a batch: where its bytes go, and how far it is.

use super::contents::Late;
use super::options::ByteRange;
use crate::attempt::Core;
use crate::by_inode::ops;
use crate::files::data;
use crate::files::inode::Inode;
use crate::files::map::{self, MapState};
use crate::files::perm::{READ, access};
use crate::vocabulary::error::Outcome;
use crate::vocabulary::types::{Caller, Ino};
use lanefs_format::{BLOCK, inode as f};
use lanefs_store::{BlockRange, Fault, Want};

/// A file that was found, and the part of it that is wanted.
pub(super) struct WantedFile<'b> {
    pub(super) ino: Ino,
    /// The path that led to the inode, and the inode's generation then; `None`: the caller gave the number.
    pub(super) path: Option<(&'b [u8], u32)>,
    pub(super) range: ByteRange,
}

/// A file that was found, and its part of the memory.
pub(crate) struct PlannedFile<'b> {
    pub(super) row: usize,
    pub(super) wanted: WantedFile<'b>,
    /// As long as the file's bytes were when the file was found.
    pub(super) out: &'b mut [u8],
    pub(super) state: PlannedState,
}

pub(super) enum PlannedState {
    /// Nothing is known: the file is read by itself.
    Open,
    /// The bytes are there.
    Done,
    /// These ranges of blocks are needed, and some are absent.
    Missing(Vec<BlockRange>),
    /// The result differs from what was found at first.
    Late(Late),
}

impl PlannedFile<'_> {
    /// Makes an attempt to copy the file's bytes to its part of the memory.
    pub(super) fn copy(&mut self, core: &Core<'_>, caller: &Caller) -> Outcome<PlannedState> {
        let WantedFile { ino, path, range } = &self.wanted;
        let node = ops::regular(core, *ino)?;
        access(core, caller, &node, READ)?;
        let len = range.within(node.size());
        let is_other = path.is_some_and(|(_, generation)| generation != node.view.get(f::GENERATION));
        if is_other || len != self.out.len() as u64 {
            return Ok(PlannedState::Open);
        }
        match data::read(core, node, range.offset, self.out) {
            Ok(_) => Ok(PlannedState::Done),
            Err(Fault::Miss { want: Want::Data { .. }, .. }) => {
                Ok(PlannedState::Missing(blocks_of(core, node, range.offset, len)?))
            }
            Err(fault) => Err(fault),
        }
    }

    /// The result where it is not the one that was planned.
    pub(crate) fn into_late(self) -> Option<Late> {
        if let PlannedState::Late(late) = self.state { Some(late) } else { None }
    }

    /// The blocks that are missing.
    pub(super) fn missing(&self) -> &[BlockRange] {
        if let PlannedState::Missing(ranges) = &self.state { ranges } else { &[] }
    }

    pub(super) fn missing_blocks(&self) -> u64 {
        self.missing().iter().map(|range| u64::from(range.count)).sum()
    }
}

/// The blocks of the volume that hold a range of a file.
#[cold]
pub(super) fn blocks_of(core: &Core<'_>, node: Inode<'_>, offset: u64, len: u64) -> Outcome<Vec<BlockRange>> {
    let (mut block, end) = (offset / BLOCK, (offset + len).div_ceil(BLOCK));
    let mut ranges = Vec::new();
    while block < end {
        let extent = map::lookup(core, node, block, end - block)?;
        let blocks = extent.blocks.min(end - block);
        if let MapState::Data(at) = extent.state {
            ranges.push(BlockRange { first: at / BLOCK, count: blocks as u32 });
        }
        block += blocks;
    }
    Ok(ranges)
}
