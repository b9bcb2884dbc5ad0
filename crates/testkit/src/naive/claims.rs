//! Blocks in use, each claimed once.

use super::{BLOCK, Read};
use std::cell::RefCell;
use std::collections::BTreeMap;

/// Owner of a block in use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum BlockUser {
    /// Superblocks, journal, group table.
    System,
    /// File data of an inode.
    Data(u64),
    /// A metadata block, with the kind and the owner of its entry in the chunk's table.
    Metadata(u8, u64),
}

/// All blocks in use by number.
#[derive(Default)]
pub(super) struct Claims(RefCell<BTreeMap<u64, BlockUser>>);

impl Claims {
    /// Claims `count` blocks from position `at` on.
    pub(super) fn claim(&self, at: u64, count: u64, user: BlockUser) -> Read<()> {
        let mut claims = self.0.borrow_mut();
        for block in at / BLOCK..at / BLOCK + count {
            if let Some(other) = claims.insert(block, user) {
                return Err(format!("block {:#x} is used by {user:?} and {other:?}", block * BLOCK));
            }
        }
        Ok(())
    }

    /// The user of a block, by number.
    pub(super) fn get(&self, block: u64) -> Option<BlockUser> {
        self.0.borrow().get(&block).copied()
    }
}
