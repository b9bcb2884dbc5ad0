//! Targets of symbolic links. A target has no NUL, so it shows where it ends.

use super::findings::Tally;
use super::invariants as iv;
use super::pass::Pass;
use lanefs_format::{BLOCK, INODE_CORE, MAX_SYMLINK, Pointer, extent, inode as f};
use lanefs_store::Fault;

impl Pass<'_, '_> {
    /// Compares the size of a link whose target lies in a block with the target, and corrects it in the copy
    /// of the inode. Without a target that can be read the size stays.
    pub(super) fn check_target(&self, tally: &mut Tally, copy: &mut [u8], extents: usize, at: u64) {
        let end = if extents == 0 { Some(0) } else { self.target_end(&copy[INODE_CORE..]) };
        if let Some(end) = end {
            check_end(tally, copy, end, at);
        }
    }

    /// End of the target in the first block of these extents; `None` where the block cannot be read.
    fn target_end(&self, extents: &[u8]) -> Option<u64> {
        let pointer = extent::POINTER.read(extents).and_then(|word| Pointer::decode(word).ok().flatten());
        let Some(pointer) = pointer.filter(|pointer| !pointer.unwritten) else { return Some(0) };
        if extent::FIRST.read(extents) != Some(0) {
            return Some(0);
        }
        let mut block = [0; BLOCK as usize];
        let store = &self.core.store;
        let mut read = || store.read_data(pointer.offset, &mut block, 1);
        let done = match read() {
            Err(Fault::Miss { at, want }) => store.fetch(at, want).and_then(|()| read()),
            done => done,
        };
        done.ok().map(|()| target_len(&block))
    }
}

/// Length of the target that these bytes begin with.
pub(super) fn target_len(bytes: &[u8]) -> u64 {
    let len = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
    len.min(MAX_SYMLINK) as u64
}

/// Corrects the size of a link whose target ends at `end`, where it says more or nothing.
pub(super) fn check_end(tally: &mut Tally, inode: &mut [u8], end: u64, at: u64) {
    let size = f::BYTES.read(inode).unwrap_or(0);
    if size > end || size == 0 && end > 0 {
        tally.note(at, &iv::INODE_SIZE);
        f::BYTES.write(inode, end);
    }
}
