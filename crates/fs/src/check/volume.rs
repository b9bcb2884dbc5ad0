//! The volume as a whole: the superblock's copies and the counts.

use super::invariants as iv;
use super::pass::Pass;
use crate::edit::{Hints, Outcome};
use crate::{Result, Volume};
use lanefs_format::superblock::Superblock;
use lanefs_format::{BLOCK, BlockKind, SUPERBLOCK_COPY};

impl Volume {
    /// Both copies are good and say the same.
    pub(super) fn check_superblock(&self, pass: &mut Pass<'_, '_>) -> Result<()> {
        let mut copies = [const { [0; BLOCK as usize] }; 2];
        for (copy, at) in copies.iter_mut().zip([0, SUPERBLOCK_COPY]) {
            self.core.store.read_raw(at, copy)?;
            if let Err(why) = Superblock::decode(copy) {
                pass.findings.add(at, &iv::SUPERBLOCK_COPY, format!("{why:?}"));
            }
        }
        if copies[0] != copies[1] && pass.findings.is_empty() {
            pass.findings.add(SUPERBLOCK_COPY, &iv::SUPERBLOCK_COPY, "they differ");
        }
        if pass.superblock.orphans != 0 {
            pass.findings.add(0, &iv::ORPHAN_LIST, format!("inode {}", pass.superblock.orphans));
        }
        Ok(())
    }
}

impl Pass<'_, '_> {
    /// The counts that the volume keeps in memory, which began as the superblock's.
    pub(super) fn check_counts(&mut self, hints: Hints, free: u64) {
        if hints.free_blocks != free {
            self.findings.add(0, &iv::FREE_BLOCKS, format!("{} instead of {free}", hints.free_blocks));
        }
        let inodes = self.inodes.used;
        if hints.inodes != inodes {
            self.findings.add(0, &iv::INODE_COUNT, format!("{} instead of {inodes}", hints.inodes));
        }
    }

    /// Of the chunks that something takes for metadata, those that are.
    pub(super) fn check_suspects(&mut self) -> Outcome<()> {
        for chunk in std::mem::take(&mut self.suspects) {
            if self.may_hold_metadata(chunk) && self.load(chunk, BlockKind::ChunkHeader)?.is_some() {
                self.findings.add(chunk, &iv::GROUP_METADATA, "a metadata chunk is not marked as one");
                self.suspects.insert(chunk);
            }
        }
        Ok(())
    }
}
