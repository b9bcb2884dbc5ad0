//! The blocks of checksums of file data, each at the position that follows from its group.

use crate::check::outcome::invariants as iv;
use crate::check::pass::{Claim, Pass};
use crate::space;
use crate::vocabulary::error::Outcome;
use lanefs_format::{
    BLOCK, BlockKind, CHUNK, CHUNK_HEADER_BLOCKS, GROUP, SUMS_PER_GROUP, chunk_entry, sums, sums_chunk,
};
use std::sync::Arc;

/// Groups in a batch.
const GROUPS: usize = 4;

/// Position of the block of checksums with this index among those of a group.
fn position_of(number: u64, index: u64) -> u64 {
    sums_chunk(number) + (CHUNK_HEADER_BLOCKS + index) * BLOCK
}

impl Pass<'_, '_> {
    /// True for a chunk that belongs to the checksums of its group.
    pub(in crate::check) fn is_for_sums(&self, chunk: u64) -> bool {
        self.superblock.has_data_checksums() && sums_chunk(chunk / GROUP) == chunk
    }

    /// True for a position of a block of checksums.
    pub(in crate::check) fn is_sums_block(&self, at: u64) -> bool {
        let chunk = at & !(CHUNK - 1);
        let block = (at - chunk) / BLOCK;
        let blocks = CHUNK_HEADER_BLOCKS..CHUNK_HEADER_BLOCKS + SUMS_PER_GROUP;
        self.is_for_sums(chunk) && blocks.contains(&block)
    }

    /// Checks and claims the blocks of checksums of all groups that have them.
    pub(in crate::check) fn check_sums(&mut self) -> Outcome<()> {
        let count = self.core.group_count() as usize;
        self.in_batches(count, GROUPS, |pass, range| {
            for number in range.map(|number| number as u64) {
                let chunk = sums_chunk(number);
                if pass.is_for_sums(chunk) && pass.is_metadata_chunk(chunk) {
                    (0..SUMS_PER_GROUP).try_for_each(|index| pass.check_sums_block(number, index))?;
                }
            }
            Ok(())
        })?;
        Ok(())
    }

    fn check_sums_block(&mut self, number: u64, index: u64) -> Outcome<()> {
        let at = position_of(number, index);
        let fits = match self.load(at, BlockKind::Sums)? {
            None => {
                self.findings.add(at, &iv::SUMS_CHECKSUM, format!("group {number}"));
                false
            }
            Some(view) => {
                let fits = view.get(sums::OWNER) == number && view.get(sums::NUMBER) == index;
                if !fits {
                    self.findings.add(at, &iv::SUMS_OWNER, format!("group {number}"));
                }
                fits
            }
        };
        if let Some(entry) = self.table_entry(at)? {
            if entry.get(chunk_entry::KIND) != BlockKind::Sums as u8 {
                self.findings.add(at, &iv::CHUNK_ENTRY_KIND, "a block of checksums");
            }
            if entry.get(chunk_entry::OWNER) != number {
                self.findings.add(at, &iv::CHUNK_ENTRY_OWNER, format!("group {number}"));
            }
        }
        if !fits {
            self.mend(|edit| {
                edit.tx.vacate(at);
                space::make_sums(edit, number, index)
            })?;
        }
        self.claim_sums(number, index);
        Ok(())
    }

    fn claim_sums(&mut self, number: u64, index: u64) {
        let at = position_of(number, index);
        self.claimed.set(at / BLOCK);
        if self.mends() {
            self.claims.push(Claim { at, kind: BlockKind::Sums, owner: number });
        }
    }

    /// Checks that groups in use have blocks of checksums, and makes them.
    pub(in crate::check) fn check_sums_are_there(&mut self) -> Outcome<()> {
        let reserved = self.reserved();
        for number in 0..self.core.group_count() {
            let chunk = sums_chunk(number);
            if !self.is_for_sums(chunk) || self.is_metadata_chunk(chunk) || !self.may_hold_metadata(chunk) {
                continue;
            }
            let has_data = self.claimed.words(number).is_some_and(|words| {
                words.iter().zip(0..).any(|(word, i)| word & !reserved.word(number, i) != 0)
            });
            if has_data || self.masks[number as usize] != 0 {
                self.findings.add(chunk, &iv::SUMS_MISSING, format!("group {number}"));
                self.mend(|edit| {
                    for block in 0..CHUNK_HEADER_BLOCKS + SUMS_PER_GROUP {
                        edit.tx.vacate(chunk + block * BLOCK);
                    }
                    space::make_all_sums(edit, number)
                })?;
                if self.mends() {
                    Arc::make_mut(&mut self.masks)[number as usize] |=
                        1 << ((chunk - number * GROUP) / CHUNK);
                    (0..SUMS_PER_GROUP).for_each(|index| self.claim_sums(number, index));
                }
            }
        }
        Ok(())
    }
}
