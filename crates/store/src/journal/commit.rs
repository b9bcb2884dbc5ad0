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

    /// Encodes the commit and passes it on in pieces, each with its slot: revocations, then descriptors each
    /// with its copies, then the record. A commit may be as large as the journal, a piece is not.
    ///
    /// # Errors
    /// Those of `write`.
    pub(super) fn encode(
        &self,
        sums: &Checksummer,
        ring: Ring,
        (slot, sequence): (u64, u64),
        staging: &mut AlignedBuffer,
        write: impl FnMut(u64, &[u8]) -> Result<(), Fault>,
    ) -> Result<(), Fault> {
        let total = blocks_in_log(self.blocks.len(), self.revoked.len());
        staging.reuse((total.min(PIECE_BLOCKS) * BLOCK) as usize);
        let mut pieces = Pieces { staging, slot, filled: 0, content: 0, write };
        for part in self.revoked.chunks(POSITIONS) {
            pieces.add(|slot, block| {
                list(block, JOURNAL_REVOCATION, sequence, part.iter().copied());
                sums.seal(BlockKind::Journal, ring.position(slot), block, 0);
            })?;
        }
        for part in self.blocks.chunks(POSITIONS) {
            let flags = |at| if self.summed.binary_search(at).is_ok() { JOURNAL_SUMMED } else { 0 };
            pieces.add(|slot, block| {
                list(block, JOURNAL_DESCRIPTOR, sequence, part.iter().map(|(at, _)| at | flags(at)));
                sums.seal(BlockKind::Journal, ring.position(slot), block, 0);
            })?;
            for (_, image) in part {
                pieces.add(|_, copy| copy.copy_from_slice(image))?;
            }
        }
        let content = pieces.content();
        pieces.add(|slot, record| {
            record.fill(0);
            c::KIND.write(record, BlockKind::Journal as u8);
            c::ROLE.write(record, JOURNAL_COMMIT);
            c::SEQUENCE.write(record, sequence);
            c::BLOCKS.write(record, total - 1);
            c::CONTENT.write(record, content);
            let (free_blocks, inodes) = Totals::encode(self.totals);
            c::FREE_BLOCKS.write(record, free_blocks);
            c::INODES.write(record, inodes);
            sums.seal(BlockKind::Journal, ring.position(slot), record, 0);
        })?;
        pieces.end()
    }
}

/// Most blocks of a commit that are encoded and written at a time (1 MiB).
const PIECE_BLOCKS: u64 = 256;

/// The blocks of a commit in their order, which are written piece by piece.
struct Pieces<'s, W> {
    /// Memory of a piece.
    staging: &'s mut AlignedBuffer,
    /// Slot of the first block in it.
    slot: u64,
    /// Blocks in it.
    filled: usize,
    /// Checksum of the pieces that were written.
    content: u32,
    write: W,
}

impl<W: FnMut(u64, &[u8]) -> Result<(), Fault>> Pieces<'_, W> {
    fn bytes(&self) -> &[u8] {
        &self.staging[..self.filled * BLOCK as usize]
    }

    /// The checksum of all blocks so far.
    fn content(&self) -> u32 {
        Checksummer::append(self.content, self.bytes())
    }

    /// Adds a block, which `fill` gets with its slot, and which has old bytes.
    fn add(&mut self, fill: impl FnOnce(u64, &mut [u8])) -> Result<(), Fault> {
        let begin = self.filled * BLOCK as usize;
        if begin == self.staging.len() {
            self.end()?;
            return self.add(fill);
        }
        fill(self.slot + self.filled as u64, &mut self.staging[begin..begin + BLOCK as usize]);
        self.filled += 1;
        Ok(())
    }

    /// Writes what was added since the last piece.
    fn end(&mut self) -> Result<(), Fault> {
        self.content = self.content();
        (self.write)(self.slot, &self.staging[..self.filled * BLOCK as usize])?;
        self.slot += self.filled as u64;
        self.filled = 0;
        Ok(())
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
