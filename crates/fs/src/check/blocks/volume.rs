//! The volume as a whole: the superblock's copies and the counts.

use crate::check::outcome::invariants as iv;
use crate::check::pass::Pass;
use crate::mounted::counts::Counts;
use crate::running::volume::Volume;
use crate::vocabulary::error::{Outcome, Result};
use lanefs_format::superblock::{CLEAN, ERRORS, Superblock, fields};
use lanefs_format::{BLOCK, BlockKind, SUPERBLOCK_COPY};

impl Volume {
    /// Checks that both copies are valid, and equal or of two moments.
    pub(in crate::check) fn check_superblock(&self, pass: &mut Pass<'_, '_>) -> Result<()> {
        let mut copies = [const { [0; BLOCK as usize] }; 2];
        let mut good = Vec::new();
        for (copy, at) in copies.iter_mut().zip([0, SUPERBLOCK_COPY]) {
            self.shared.state.store.read_raw(at, copy)?;
            match (Superblock::decode(copy), fields::STATE.read(copy)) {
                (Err(why), _) => pass.findings.add(at, &iv::SUPERBLOCK_COPY, format!("{why:?}")),
                (Ok(superblock), state) => {
                    good.push(superblock);
                    if let Some(state) = state.filter(|state| state & !(CLEAN | ERRORS) != 0) {
                        pass.findings.add(at, &iv::SUPERBLOCK_STATE, format!("STATE is {state:#x}"));
                    }
                }
            }
        }
        match &good[..] {
            [first, second] if first.is_of_another_moment(second) => pass.notes.push(format!(
                "the copies of the superblock have the numbers {} and {}, as after a crash between their \
                 writes: the higher one counts",
                first.sequence, second.sequence
            )),
            [_, _] if copies[0] != copies[1] && pass.findings.is_empty() => {
                pass.findings.add(SUPERBLOCK_COPY, &iv::SUPERBLOCK_COPY, "they differ");
            }
            _ => {}
        }
        Ok(())
    }
}

impl Pass<'_, '_> {
    /// Checks the counts that the volume keeps in memory, which started from the superblock's.
    pub(in crate::check) fn check_counts(&mut self, counts: Counts, free: u64) {
        if counts.free_blocks != free as i64 {
            self.findings.add(0, &iv::FREE_BLOCKS, format!("{} instead of {free}", counts.free_blocks));
        }
        let inodes = self.used_inodes;
        if counts.inodes != inodes as i64 {
            self.findings.add(0, &iv::INODE_COUNT, format!("{} instead of {inodes}", counts.inodes));
        }
    }

    /// Keeps those suspect chunks that do hold metadata.
    pub(in crate::check) fn check_suspects(&mut self) -> Outcome<()> {
        for chunk in std::mem::take(&mut self.suspects) {
            if self.may_hold_metadata(chunk) && self.load(chunk, BlockKind::ChunkHeader)?.is_some() {
                self.findings.add(chunk, &iv::GROUP_METADATA, "a metadata chunk is not marked as one");
                self.suspects.insert(chunk);
            }
        }
        Ok(())
    }
}
