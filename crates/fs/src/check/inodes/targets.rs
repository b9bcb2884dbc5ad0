//! Targets of symbolic links. A target has no NUL, so it shows where it ends.

use crate::check::inodes::maps::SLOTS;
use crate::check::outcome::findings::Tally;
use crate::check::outcome::invariants as iv;
use crate::check::pass::Pass;
use crate::vocabulary::error::Outcome;
use lanefs_format::{
    BLOCK, BlockKind, INODE_CORE, INODE_DEPTH_SHIFT, INODE_EXTENTS_MASK, MAX_SYMLINK, Pointer, extent,
    inode as f,
};
use lanefs_store::Fault;

impl Pass<'_, '_> {
    /// Compares the size of a link whose target lies in a block with the target, and corrects it in the copy
    /// of the inode. Where the block cannot be read, the size stays.
    pub(in crate::check) fn check_target(&self, tally: &mut Tally, copy: &mut [u8], at: u64) -> Outcome<()> {
        let end = match self.first_block(copy)? {
            Some(block) => self.target_end(block),
            None => Some(0),
        };
        if let Some(end) = end {
            check_end(tally, copy, end, at);
        }
        Ok(())
    }

    /// Position of the first block of a file, as its map says; `None` for a hole.
    fn first_block(&self, inode: &[u8]) -> Outcome<Option<u64>> {
        let flags = f::FLAGS.read(inode).unwrap_or(0);
        let extents = &inode[INODE_CORE..];
        let depth = flags >> INODE_DEPTH_SHIFT & 0xf;
        let starts = flags & INODE_EXTENTS_MASK != 0 && extent::FIRST.read(extents) == Some(0);
        let mut word = match depth {
            0 if starts => extent::POINTER.read(extents),
            0 => None,
            _ => f::MAP.read(inode),
        };
        let decode = |word: Option<u64>| Pointer::decode(word?).ok().flatten();
        for _ in 0..depth {
            let Some(pointer) = decode(word).filter(|pointer| pointer.indirect) else { return Ok(None) };
            word = self.load(pointer.offset, BlockKind::Pointers)?.map(|view| view.get(SLOTS.index(0)));
        }
        let pointer = decode(word).filter(|pointer| !pointer.indirect && !pointer.unwritten);
        Ok(pointer.map(|pointer| pointer.offset))
    }

    /// End of the target in a block; `None` where the block cannot be read.
    fn target_end(&self, at: u64) -> Option<u64> {
        let mut block = [0; BLOCK as usize];
        let store = &self.core.store;
        let mut read = || store.read_data(at, &mut block, 1);
        let done = match read() {
            Err(Fault::Miss { at, want }) => store.fetch(at, want).and_then(|()| read()),
            done => done,
        };
        done.ok().map(|()| target_len(&block))
    }
}

/// Length of the target that these bytes begin with.
pub(in crate::check) fn target_len(bytes: &[u8]) -> u64 {
    let len = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
    len.min(MAX_SYMLINK) as u64
}

/// Corrects the size of a link whose target ends at `end`, where it says more or nothing.
pub(in crate::check) fn check_end(tally: &mut Tally, inode: &mut [u8], end: u64, at: u64) {
    let size = f::BYTES.read(inode).unwrap_or(0);
    if size > end || size == 0 && end > 0 {
        tally.note(at, &iv::INODE_SIZE);
        f::BYTES.write(inode, end);
    }
}
