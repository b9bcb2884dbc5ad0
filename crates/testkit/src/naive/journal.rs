//! Recovery, in memory: the newest copies of all blocks of the log.

use super::bytes::Words;
use super::data_sums::SumPlace;
use super::sums::{checksum, crc, verifies};
use super::superblock::{COPY, Superblock};
use super::{BLOCK, Read, ensure, wrong};
use std::collections::HashMap;

/// Blocks that the log has newer than their home positions have them.
pub(super) type Copies = HashMap<u64, Vec<u8>>;

const HEADERS: u64 = 2;
const HEADER: u8 = 1;
const DESCRIPTOR: u8 = 2;
const RECORD: u8 = 3;
const REVOCATION: u8 = 4;

/// Bit of a position in a descriptor: recovery computes the checksum of this copy of file data.
const SUMMED: u64 = 1;

/// Positions in a descriptor at most.
const MOST_POSITIONS: usize = 500;

/// The log of a volume that was not closed.
struct Log<'a> {
    superblock: &'a Superblock,
    /// Reads a block as it is on the device.
    raw: &'a dyn Fn(u64) -> Option<Vec<u8>>,
}

/// Reads the log.
pub(super) fn replay(superblock: &Superblock, raw: &dyn Fn(u64) -> Option<Vec<u8>>) -> Read<Copies> {
    let log = Log { superblock, raw };
    let mut copies = Copies::new();
    if superblock.clean || superblock.journal_blocks == 0 {
        return Ok(copies);
    }
    let (mut at, mut number) = log.header()?;
    while let Some(commit) = log.commit(at, number)? {
        for at in &commit.revoked {
            copies.remove(at);
        }
        let revoked = commit.revoked;
        copies.extend(commit.copies.into_iter().filter(|(at, _)| !revoked.contains(at)));
        for (at, sum) in commit.data_sums {
            let place = SumPlace::of(at);
            let Some(block) = copies.get_mut(&place.block()) else {
                return wrong(format!("the log has no copy of the checksums of block {at:#x}"));
            };
            block[place.offset..place.offset + 4].copy_from_slice(&sum.to_le_bytes());
            let seal = checksum(superblock.checksum_seed, place.block(), block, Some(4));
            block[4..8].copy_from_slice(&seal.to_le_bytes());
        }
        (at, number) = (commit.next, number + 1);
    }
    Ok(copies)
}

/// A whole commit.
struct Commit {
    revoked: Vec<u64>,
    copies: Vec<(u64, Vec<u8>)>,
    /// Checksums of its summed copies, by their home positions.
    data_sums: Vec<(u64, u32)>,
    /// Block of the ring after it.
    next: u64,
}

impl Log<'_> {
    fn block(&self, index: u64) -> Read<Vec<u8>> {
        (self.raw)(self.superblock.journal + index * BLOCK)
            .ok_or("a block of the journal is outside".to_owned())
    }

    /// The block of the ring after `index`.
    fn after(&self, index: u64) -> u64 {
        if index + 1 < self.superblock.journal_blocks { index + 1 } else { HEADERS }
    }

    /// Returns true for a block of the journal that verifies.
    fn is_journal(&self, index: u64, block: &[u8]) -> bool {
        let at = self.superblock.journal + index * BLOCK;
        block.u8(0) == 10 && verifies(self.superblock.checksum_seed, at, block, 4)
    }

    /// Tail and sequence of the good header with the higher sequence.
    fn header(&self) -> Read<(u64, u64)> {
        let mut best = None;
        for index in 0..HEADERS {
            let block = self.block(index)?;
            let (tail, sequence) = (block.u64(16), block.u64(24));
            let good = self.is_journal(index, &block)
                && block.u8(1) == HEADER
                && (HEADERS..self.superblock.journal_blocks).contains(&tail)
                && (1..1 << 62).contains(&sequence);
            if good && best.is_none_or(|(_, other)| other < sequence) {
                best = Some((tail, sequence));
            }
        }
        best.ok_or("no good journal header".to_owned())
    }

    /// The commit at `start`; none where the log ends.
    fn commit(&self, start: u64, number: u64) -> Read<Option<Commit>> {
        let (mut index, mut blocks, mut content) = (start, 0, 0);
        let (mut revoked, mut copies, mut data_sums) = (Vec::new(), Vec::new(), Vec::new());
        // The ring is no longer than this, and neither is a commit.
        while blocks < self.superblock.journal_blocks {
            let block = self.block(index)?;
            if !self.is_journal(index, &block) || block.u64(16) != number {
                return Ok(None);
            }
            match block.u8(1) {
                RECORD => {
                    let whole = block.u64(24) == blocks && block.u32(32) == content;
                    let next = self.after(index);
                    return Ok(whole.then_some(Commit { revoked, copies, data_sums, next }));
                }
                role @ (DESCRIPTOR | REVOCATION) => {
                    let count = usize::from(block.u16(2));
                    ensure((1..=MOST_POSITIONS).contains(&count), || {
                        format!("a descriptor of {count} blocks")
                    })?;
                    let flags = if role == DESCRIPTOR { SUMMED } else { 0 };
                    let positions: Vec<u64> = (0..count).map(|i| block.u64(96 + 8 * i)).collect();
                    positions.iter().try_for_each(|word| self.check_position(word & !flags))?;
                    content = crc(content, &block);
                    (index, blocks) = (self.after(index), blocks + 1);
                    if role == REVOCATION {
                        revoked.extend(positions);
                        continue;
                    }
                    for word in positions {
                        let (at, copy) = (word & !flags, self.block(index)?);
                        content = crc(content, &copy);
                        if word & flags != 0 {
                            let seed = self.superblock.checksum_seed;
                            data_sums.push((at, checksum(seed, at, &copy, None).max(1)));
                        }
                        copies.push((at, copy));
                        (index, blocks) = (self.after(index), blocks + 1);
                    }
                }
                role => return wrong(format!("role {role} of a block of the journal")),
            }
        }
        Ok(None)
    }

    fn check_position(&self, at: u64) -> Read<()> {
        let journal =
            self.superblock.journal..self.superblock.journal + self.superblock.journal_blocks * BLOCK;
        let allowed = at.is_multiple_of(BLOCK)
            && at < self.superblock.bytes
            && at != 0
            && at != COPY
            && !journal.contains(&at);
        ensure(allowed, || format!("the log has a copy of block {at:#x}"))
    }
}
