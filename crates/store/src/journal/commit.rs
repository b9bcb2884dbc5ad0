//! The encoding of a commit in the log.

use super::aligned::AlignedBuffer;
use super::ring::Ring;
use crate::vocabulary::fault::Fault;
use crate::vocabulary::totals::Totals;
use lanefs_format::{
    BLOCK, BlockKind, Checksummer, Code, JOURNAL_COMMIT, JOURNAL_DESCRIPTOR, JOURNAL_REVOCATION,
    JOURNAL_SUMMED, journal_commit as c, journal_descriptor as d,
};

/// Number of positions in one descriptor or revocation.
pub(super) const POSITIONS: usize = d::POSITIONS.len;

/// The content of one commit.
#[derive(Clone, Copy)]
pub(crate) struct Commit<'a> {
    /// Ascending positions, each with the sealed 4096 bytes of its block.
    pub(crate) blocks: &'a [(u64, &'a [u8])],
    /// Ascending positions among these: copies of file data that give their checksums to a block of checksums
    /// in this commit or an earlier one of the log.
    pub(crate) summed: &'a [u64],
    /// Positions of blocks that this commit frees: recovery writes no copy of them from this commit or an
    /// earlier one. None of them is among `blocks`.
    pub(crate) revoked: &'a [u64],
    /// The counts of the volume with this commit, where they are known.
    pub(crate) totals: Option<Totals>,
}

/// Returns the number of blocks of a commit in the log.
pub(super) fn blocks_in_log(blocks: usize, revoked: usize) -> u64 {
    (revoked.div_ceil(POSITIONS) + blocks.div_ceil(POSITIONS) + blocks + 1) as u64
}

impl Commit<'_> {
    /// Returns true when there is nothing to write.
    pub(super) fn is_empty(&self) -> bool {
        self.blocks.is_empty() && self.revoked.is_empty()
    }

    /// Checks the caller's duties.
    ///
    /// # Errors
    /// `InvariantViolated` for a commit that breaks its caller's duties: recovery would take it for damage,
    /// or lose a block that is both written and revoked.
    pub(super) fn check(&self) -> Result<(), Fault> {
        let ascending = self.blocks.windows(2).all(|two| two[0].0 < two[1].0);
        let whole = self.blocks.iter().all(|(_, image)| image.len() as u64 == BLOCK);
        let both = |at: &u64| self.blocks.binary_search_by_key(at, |(at, _)| *at).is_ok();
        if !ascending || !whole || self.revoked.iter().any(both) || !self.summed.iter().all(both) {
            return Err(Fault::Code(Code::InvariantViolated));
        }
        Ok(())
    }

    /// Encodes the commit into `out`: revocations, then descriptors each with its copies, then the record.
    pub(super) fn encode(
        &self,
        sums: &Checksummer,
        ring: Ring,
        slot: u64,
        sequence: u64,
        out: &mut AlignedBuffer,
    ) {
        let total = blocks_in_log(self.blocks.len(), self.revoked.len());
        out.reuse((total * BLOCK) as usize);
        let (before, record) = out.split_at_mut(((total - 1) * BLOCK) as usize);
        let mut rest = before.chunks_exact_mut(BLOCK as usize).zip(slot..);
        for part in self.revoked.chunks(POSITIONS) {
            let Some((block, slot)) = rest.next() else { return };
            list(block, JOURNAL_REVOCATION, sequence, part.iter().copied());
            sums.seal(BlockKind::Journal, ring.position(slot), block, 0);
        }
        for part in self.blocks.chunks(POSITIONS) {
            let Some((block, slot)) = rest.next() else { return };
            let flags = |at| if self.summed.binary_search(at).is_ok() { JOURNAL_SUMMED } else { 0 };
            list(block, JOURNAL_DESCRIPTOR, sequence, part.iter().map(|(at, _)| at | flags(at)));
            sums.seal(BlockKind::Journal, ring.position(slot), block, 0);
            for ((_, image), (copy, _)) in part.iter().zip(&mut rest) {
                copy.copy_from_slice(image);
            }
        }
        record.fill(0);
        c::KIND.write(record, BlockKind::Journal as u8);
        c::ROLE.write(record, JOURNAL_COMMIT);
        c::SEQUENCE.write(record, sequence);
        c::BLOCKS.write(record, total - 1);
        c::CONTENT.write(record, Checksummer::append(0, before));
        let (free_blocks, inodes) = Totals::encode(self.totals);
        c::FREE_BLOCKS.write(record, free_blocks);
        c::INODES.write(record, inodes);
        sums.seal(BlockKind::Journal, ring.position(slot + total - 1), record, 0);
    }
}

fn list(block: &mut [u8], role: u8, sequence: u64, positions: impl ExactSizeIterator<Item = u64>) {
    block.fill(0);
    d::KIND.write(block, BlockKind::Journal as u8);
    d::ROLE.write(block, role);
    d::COUNT.write(block, positions.len() as u16);
    d::SEQUENCE.write(block, sequence);
    for (i, at) in positions.enumerate() {
        d::POSITIONS.index(i).write(block, at);
    }
}
