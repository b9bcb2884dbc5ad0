//! The owner of a block that two inodes name.
//!
//! One of the two names is a fault. Inodes are walked in order of their numbers, so the wrong one may come
//! first, and would take names and data from the right one. So a block goes to the inode to which two
//! witnesses give it: its own header, or its entry in the chunk's table, and the pointer of that inode that
//! leads to the block. Where only one of the two says so, the inode that names the block first keeps it.

use crate::check::pass::Pass;
use crate::vocabulary::error::Outcome;
use lanefs_format::{
    Array, BLOCK, BlockKind, FileKind, INODE_DEPTH_SHIFT, MAX_MAP_DEPTH, POINTERS_PER_BLOCK, Pointer,
    chunk_entry, dir::leaf, inode as f, xattr_block,
};
use lanefs_store::View;

const SLOTS: Array<u64> = Array::at(0, POINTERS_PER_BLOCK as usize);

impl Pass<'_, '_> {
    /// True for a block that inode `ino` names, and that is another inode's. (Blocks of trees and indexes
    /// need no answer: they are made again from the leaves.)
    ///
    /// # Errors
    /// The device's only.
    pub(in crate::check) fn is_of_another(
        &self,
        view: View<'_>,
        kind: BlockKind,
        entry: Option<View<'_>>,
        ino: u64,
    ) -> Outcome<bool> {
        let owner = match kind {
            BlockKind::Leaf => view.get(leaf::OWNER),
            BlockKind::Xattr => view.get(xattr_block::OWNER),
            BlockKind::Pointers => entry.map_or(ino, |entry| entry.get(chunk_entry::OWNER)),
            _ => ino,
        };
        let Some(rank) = self.inodes.rank(owner).filter(|_| owner != ino) else { return Ok(false) };
        // A left-over takes nothing from an inode in use.
        if self.inodes.is_late(rank) {
            return Ok(false);
        }
        let at = owner * self.core.store.inode_size().bytes();
        let (bytes, _) = self.read_inodes(at & !(BLOCK - 1))?;
        let inode = &bytes[(at % BLOCK) as usize..];
        let named = match kind {
            BlockKind::Leaf if self.inodes.kind(rank) != Some(FileKind::Directory) => None,
            BlockKind::Leaf => self.find_leaf(inode, view.get(leaf::NUMBER))?,
            BlockKind::Xattr => f::XATTR.read(inode),
            _ => pointer(f::MAP.read(inode), true),
        };
        Ok(named == Some(view.at()))
    }

    /// The position that a directory's map gives for its leaf with this number.
    fn find_leaf(&self, inode: &[u8], number: u64) -> Outcome<Option<u64>> {
        let mut word = f::MAP.read(inode);
        let depth = (f::FLAGS.read(inode).unwrap_or(0) >> INODE_DEPTH_SHIFT & 0xf) as u32;
        if depth > u32::from(MAX_MAP_DEPTH) || number >> (9 * depth) != 0 {
            return Ok(None);
        }
        for level in (0..depth).rev() {
            let Some(at) = pointer(word, true).filter(|at| self.in_metadata_chunk(*at)) else {
                return Ok(None);
            };
            let Some(block) = self.load(at, BlockKind::Pointers)? else { return Ok(None) };
            word = Some(block.get(SLOTS.index((number >> (9 * level) & 0x1ff) as usize)));
        }
        Ok(pointer(word, false))
    }
}

/// The position in a valid pointer to a block of pointers (`indirect`), or to another block.
fn pointer(word: Option<u64>, indirect: bool) -> Option<u64> {
    let pointer = Pointer::decode(word?).ok()??;
    (pointer.indirect == indirect).then_some(pointer.offset)
}
