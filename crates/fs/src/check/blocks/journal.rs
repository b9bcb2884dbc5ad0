//! The journal: whether it can be used, and the position of a new one.

use crate::check::outcome::invariants as iv;
use crate::check::outcome::journal_state::JournalState;
use crate::check::pass::Pass;
use crate::lifecycle::mkfs;
use crate::mounted::journal::{JournalDamage, check_position};
use crate::running::volume::Volume;
use crate::vocabulary::error::Outcome;
use lanefs_format::{BLOCK, BLOCKS_PER_CHUNK, CHUNK, MAX_JOURNAL, SUPERBLOCK_COPY};
use lanefs_store::{Fault, JournalContent};

/// Fewest blocks of a journal that a repair makes.
const LEAST_BLOCKS: u64 = 64;

impl Pass<'_, '_> {
    /// Checks the journal. Its blocks count as the journal's from here on, unless it is damaged.
    pub(in crate::check) fn check_journal(&mut self, known: Option<JournalDamage>) -> Outcome<()> {
        let (s, store) = (&self.superblock, &self.core.store);
        if s.journal_blocks == 0 {
            return Ok(());
        }
        let damage = match known {
            Some(damage) => Some(damage),
            None => match check_position(store, s)
                .and_then(|()| store.examine_journal(s.journal, s.journal_blocks))
            {
                Ok(()) => None,
                Err(fault @ (Fault::Damaged { .. } | Fault::Io { doing: "reading", .. })) => {
                    Some(JournalDamage::new(store, s, true, fault))
                }
                Err(fault) => return Err(fault),
            },
        };
        if let Some(damage) = damage {
            self.findings.add(damage.at, &iv::JOURNAL, damage.text);
            self.journal = JournalState::Damaged(None);
        }
        Ok(())
    }

    /// Chooses the position of a new journal, when all structures have claimed their blocks: the old one
    /// where nothing else is there.
    pub(in crate::check) fn place_journal(&mut self) {
        if self.journal == JournalState::Sound {
            return;
        }
        let (at, blocks) = (self.superblock.journal, self.superblock.journal_blocks);
        let first = at / BLOCK;
        let is_free = (LEAST_BLOCKS..=MAX_JOURNAL).contains(&blocks)
            && !self.claimed.any(first, blocks)
            && !(at / CHUNK..=(at + (blocks - 1) * BLOCK) / CHUNK).any(|c| self.may_be_metadata(c * CHUNK));
        if is_free {
            self.claimed.set_all(first, blocks);
            self.journal = JournalState::Damaged(Some((at, blocks)));
            return;
        }
        let mut wanted = mkfs::journal_blocks(self.blocks());
        while wanted >= LEAST_BLOCKS {
            if let Some(first) = self.find_free(wanted) {
                self.journal = JournalState::Damaged(Some((first * BLOCK, wanted)));
                return;
            }
            wanted /= 2;
        }
    }

    /// True inside a metadata chunk, and inside one that will be one for the checksums of its group.
    fn may_be_metadata(&self, at: u64) -> bool {
        self.is_metadata_chunk(at) || self.is_for_sums(at & !(CHUNK - 1))
    }

    /// First of `count` consecutive blocks that nothing has claimed, outside of metadata chunks.
    fn find_free(&self, count: u64) -> Option<u64> {
        let (mut first, mut at) = (0, 0);
        while at < self.blocks() {
            let used = if self.may_be_metadata(at * BLOCK) {
                BLOCKS_PER_CHUNK - at % BLOCKS_PER_CHUNK
            } else {
                u64::from(self.claimed.get(at))
            };
            at += used.max(1);
            if used > 0 {
                first = at;
            } else if at - first >= count {
                return Some(first);
            }
        }
        None
    }
}

impl Volume {
    /// Makes a new journal where a pass says. All commits are in place, and the caller has closed the gate.
    /// Where it cannot be made, the damage stays and is found again.
    pub(in crate::check) fn renew_journal(&self, state: JournalState) -> Outcome<()> {
        let JournalState::Damaged(Some((at, blocks))) = state else { return Ok(()) };
        let store = &self.shared.state.store;
        debug_assert!(at > 0 && at != SUPERBLOCK_COPY, "a journal over the superblock");
        store.checkpoint()?;
        match store.use_journal(at, blocks, JournalContent::New) {
            Ok(_) => {}
            Err(Fault::Damaged { .. }) => return Ok(()),
            Err(fault) => return Err(fault),
        }
        let mut superblock = self.shared.superblock.lock();
        (superblock.journal, superblock.journal_blocks) = (at, blocks);
        *self.shared.journal_damage.lock() = None;
        Ok(())
    }
}
