//! Twin of `shaders/leaves.comp`.

use crate::shared::layout::{POINTER_BLOCK, POINTER_INDIRECT, POINTER_SLOT_BITS, POINTER_TAGS};
use crate::twin::headers::memory::Memory;
use lanefs::format::{BLOCK, MAX_MAP_DEPTH, POINTERS_PER_BLOCK};

/// A block of a directory's file map.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MapBlock {
    /// The map's root, as the inode has it.
    pub map: u64,
    /// Levels of pointer blocks.
    pub depth: u8,
    /// Number of the block.
    pub block: u64,
}

/// Returns the position of each block, 0 for a hole; `None` where that cannot be decided.
pub fn leaves<M: Memory>(memory: &M, blocks: &[MapBlock]) -> Vec<Option<u64>> {
    blocks.iter().map(|block| block_at(memory, block)).collect()
}

fn block_at<M: Memory>(memory: &M, block: &MapBlock) -> Option<u64> {
    let (mut pointer, depth) = (block.map, u32::from(block.depth));
    if depth > u32::from(MAX_MAP_DEPTH) {
        return None;
    }
    if block.block >> (POINTER_SLOT_BITS * depth) != 0 {
        return Some(0);
    }
    let position = |pointer: u64, tags: u64| {
        let block = pointer & !POINTER_TAGS;
        Some(block).filter(|_| pointer & POINTER_TAGS == tags && block.is_multiple_of(BLOCK))
    };
    for level in (1..=depth).rev() {
        if pointer == 0 {
            break;
        }
        let slot = block.block >> (POINTER_SLOT_BITS * (level - 1)) & (POINTERS_PER_BLOCK - 1);
        pointer = memory.quad(position(pointer, POINTER_INDIRECT)?.wrapping_add(slot * 8))?;
    }
    if pointer == 0 { Some(0) } else { position(pointer, POINTER_BLOCK) }
}
