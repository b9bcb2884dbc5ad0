//! Notices a file map that has blocks twice.
//!
//! A map in which two slots name one pointer block is small and describes a file without end: five levels of
//! one block each have 2^45 blocks. The bound of a walk through it is then the file's size, which is hostile
//! too. A sound file has no block twice.

use crate::vocabulary::error::Outcome;
use lanefs_format::POINTERS_PER_BLOCK;
use lanefs_store::Fault;
use std::collections::HashSet;

/// The blocks that a walk through a file map has met.
#[derive(Default)]
pub(crate) struct Visited {
    /// The stretch of the file of the last block, plus one.
    stretch: u64,
    positions: HashSet<u64>,
}

impl Visited {
    /// Records that the file has its block number `block` at byte `position` of the volume. `at` is the
    /// position of the inode.
    ///
    /// Of each stretch that a pointer block covers at least, the first block is enough: a pointer block that
    /// the walk meets again begins with the same one.
    ///
    /// # Errors
    /// [`Fault::Damaged`] for a position that the walk has met before.
    pub(crate) fn meet(&mut self, block: u64, position: u64, at: u64) -> Outcome<()> {
        let stretch = block / POINTERS_PER_BLOCK + 1;
        if stretch == self.stretch {
            return Ok(());
        }
        self.stretch = stretch;
        match self.positions.insert(position) {
            true => Ok(()),
            false => Err(Fault::damaged(at, "a file map that has a block twice")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_position_may_begin_one_stretch_only() {
        let mut visited = Visited::default();
        for block in 0..POINTERS_PER_BLOCK {
            visited.meet(block, 4096 * (block + 1), 0).expect("the first stretch");
        }
        visited.meet(POINTERS_PER_BLOCK, 1 << 30, 0).expect("another position");
        assert!(visited.meet(5 * POINTERS_PER_BLOCK, 4096, 0).is_err());
    }
}
