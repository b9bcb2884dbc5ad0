//! Twin of `shaders/leaves.comp`.

use super::memory::Memory;
use crate::layout::{POINTER_BLOCK, POINTER_INDIRECT, POINTER_SLOT_BITS, POINTER_TAGS};
use lanefs::format::{BLOCK, MAX_MAP_DEPTH, POINTERS_PER_BLOCK};

/// A place in a directory's file map.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MapBlock {
    /// The map's root, as the inode has it.
    pub map: u64,
    /// Levels of pointer blocks.
    pub depth: u8,
    /// Which block.
    pub place: u64,
}

/// The position of the block in each place, 0 for a hole; `None` where that cannot be decided.
pub fn leaves<M: Memory>(memory: &M, places: &[MapBlock]) -> Vec<Option<u64>> {
    places.iter().map(|place| block_at(memory, place)).collect()
}

fn block_at<M: Memory>(memory: &M, place: &MapBlock) -> Option<u64> {
    let (mut pointer, depth) = (place.map, u32::from(place.depth));
    if depth > u32::from(MAX_MAP_DEPTH) {
        return None;
    }
    if place.place >> (POINTER_SLOT_BITS * depth) != 0 {
        return Some(0);
    }
    let block = |pointer: u64, tags: u64| {
        let block = pointer & !POINTER_TAGS;
        Some(block).filter(|_| pointer & POINTER_TAGS == tags && block.is_multiple_of(BLOCK))
    };
    for level in (1..=depth).rev() {
        if pointer == 0 {
            break;
        }
        let slot = place.place >> (POINTER_SLOT_BITS * (level - 1)) & (POINTERS_PER_BLOCK - 1);
        pointer = memory.quad(block(pointer, POINTER_INDIRECT)?.wrapping_add(slot * 8))?;
    }
    if pointer == 0 { Some(0) } else { block(pointer, POINTER_BLOCK) }
}
