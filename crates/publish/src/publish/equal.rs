//! Blocks that are equal to blocks of another window: their window borrows them from the piece of that one,
//! so equal files are stored once, wherever they lie.

use crate::format::hash::{Digest, digest};
use crate::format::packs::{AS_IT_IS, PackNumber, Stored};
use crate::format::words::{bits, rank};
use lanefs::format::BLOCK;
use std::collections::{HashMap, VecDeque};

/// Blocks that are remembered at most: those of 8 GiB, in some 110 MiB of memory. The oldest are forgotten.
const REMEMBERED_BLOCKS: usize = 1 << 21;

/// A piece from which other windows may borrow.
pub(super) struct Lender {
    pub(super) stored: Stored,
    pub(super) blocks: u64,
    /// The pack of a new piece.
    pub(super) pack: Option<PackNumber>,
}

/// Blocks of a window that are equal to blocks in a row of the piece of another one.
pub(super) struct Borrowed {
    /// Blocks of the window.
    pub(super) taken: u64,
    /// Number of the lender.
    pub(super) lender: u64,
    /// Rank of the first block in the piece.
    pub(super) first: u8,
    /// Codec of the piece, as far as it has frames.
    pub(super) codec: u16,
}

/// Pieces of the version so far, by the digests of their blocks.
pub(super) struct EqualBlocks {
    pieces: VecDeque<Known>,
    /// Number of the first of `pieces`.
    first: u64,
    /// Blocks of all of them.
    count: usize,
    /// For each block the lender, and its rank there.
    blocks: HashMap<Digest, (u64, u8)>,
    /// Digest of a block of zeros, which compresses to less than a reference to it.
    zeros: Digest,
}

struct Known {
    digests: Vec<Digest>,
    codec: u16,
    /// `None` until the piece is in a pack.
    lender: Option<Lender>,
}

impl EqualBlocks {
    pub(super) fn new() -> Self {
        let zeros = digest(&[0; BLOCK as usize]);
        EqualBlocks { pieces: VecDeque::new(), first: 0, count: 0, blocks: HashMap::new(), zeros }
    }

    /// Finds the blocks among `wanted` of a window that pieces have, in `most` runs at most, the longest
    /// ones. `digests` are those of all `used` blocks.
    pub(super) fn find(&self, wanted: u64, used: u64, digests: &[Digest], most: usize) -> Vec<Borrowed> {
        let blocks: Vec<(u32, Digest)> = bits(wanted)
            .filter_map(|bit| Some((bit, *digests.get(rank(used, bit))?)))
            .filter(|(_, digest)| *digest != self.zeros)
            .collect();
        let (mut runs, mut at) = (Vec::new(), 0);
        while at < blocks.len() {
            let Some((lender, first)) = self.blocks.get(&blocks[at].1) else {
                at += 1;
                continue;
            };
            let known = self.known(*lender);
            let there = known.map_or(&[][..], |known| &known.digests[usize::from(*first)..]);
            let same = blocks[at..].iter().zip(there).take_while(|((_, here), there)| here == *there);
            // The first one is the same, for the table says so.
            let len = same.count().max(1);
            let taken = blocks[at..at + len].iter().fold(0, |taken, (bit, _)| taken | 1 << bit);
            let codec = known.map_or(AS_IT_IS, |known| known.codec);
            runs.push(Borrowed { taken, lender: *lender, first: *first, codec });
            at += len;
        }
        // Of runs of the same length the first ones: the sort is stable.
        runs.sort_by_key(|run| std::cmp::Reverse(run.taken.count_ones()));
        runs.truncate(most);
        runs
    }

    /// Remembers a piece with these digests; returns its number. `codec` is its codec, or any other one
    /// without frames.
    pub(super) fn add(&mut self, digests: Vec<Digest>, codec: u16, lender: Option<Lender>) -> u64 {
        let number = self.first + self.pieces.len() as u64;
        for (rank, digest) in digests.iter().enumerate() {
            self.blocks.entry(*digest).or_insert((number, rank as u8));
        }
        self.count += digests.len();
        self.pieces.push_back(Known { digests, codec, lender });
        number
    }

    /// Notes where a new piece is stored.
    pub(super) fn place(&mut self, number: u64, lender: Lender) {
        let known = number.checked_sub(self.first).and_then(|at| self.pieces.get_mut(at as usize));
        if let Some(known) = known {
            known.lender = Some(lender);
        }
    }

    /// Returns a piece that is stored.
    pub(super) fn lender(&self, number: u64) -> Option<&Lender> {
        self.known(number)?.lender.as_ref()
    }

    /// Forgets the oldest pieces where there are too many blocks.
    pub(super) fn trim(&mut self) {
        self.trim_to(REMEMBERED_BLOCKS);
    }

    fn trim_to(&mut self, most: usize) {
        while self.count > most
            && let Some(oldest) = self.pieces.pop_front()
        {
            for digest in &oldest.digests {
                if self.blocks.get(digest).is_some_and(|(number, _)| *number == self.first) {
                    self.blocks.remove(digest);
                }
            }
            self.count -= oldest.digests.len();
            self.first += 1;
        }
    }

    fn known(&self, number: u64) -> Option<&Known> {
        self.pieces.get(number.checked_sub(self.first)? as usize)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn digests(blocks: &[u8]) -> Vec<Digest> {
        blocks.iter().map(|block| digest(&[*block; BLOCK as usize])).collect()
    }

    /// Taken blocks, lender and rank of each run.
    fn found(equal: &EqualBlocks, wanted: u64, used: u64, blocks: &[u8], most: usize) -> Vec<(u64, u64, u8)> {
        let runs = equal.find(wanted, used, &digests(blocks), most);
        runs.iter().map(|run| (run.taken, run.lender, run.first)).collect()
    }

    #[test]
    fn the_longest_runs_of_equal_blocks_are_borrowed() {
        let mut equal = EqualBlocks::new();
        assert_eq!(equal.add(digests(&[1, 2, 3, 0, 4]), AS_IT_IS, None), 0);
        assert_eq!(equal.add(digests(&[5, 2, 6]), AS_IT_IS, None), 1);
        assert_eq!(found(&equal, 0b111, 0b111, &[7, 8, 9], 9), []);
        // Blocks that lie apart in the window follow one another in the piece.
        assert_eq!(found(&equal, 0b1_0011, 0b1_0011, &[1, 2, 3], 9), [(0b1_0011, 0, 0)]);
        // A block that an older piece has, too, does not end a run of a later one that it is within.
        assert_eq!(found(&equal, 0b111, 0b111, &[5, 2, 6], 9), [(0b111, 1, 0)]);
        assert_eq!(found(&equal, 0b11, 0b11, &[2, 6], 9), [(0b01, 0, 1), (0b10, 1, 2)]);
        // Zeros are not borrowed, and blocks that are not wanted count for the place of the others only.
        assert_eq!(found(&equal, 0b110, 0b111, &[1, 0, 4], 9), [(0b100, 0, 4)]);
        assert_eq!(found(&equal, 0b1111, 0b1111, &[4, 1, 2, 3], 1), [(0b1110, 0, 0)]);
    }

    #[test]
    fn the_oldest_pieces_are_forgotten() {
        let mut equal = EqualBlocks::new();
        equal.add(digests(&[1, 2, 3]), AS_IT_IS, None);
        equal.add(digests(&[3, 4]), AS_IT_IS, None);
        equal.trim_to(5);
        assert_eq!(found(&equal, 0b1, 0b1, &[1], 9), [(0b1, 0, 0)]);
        equal.trim_to(4);
        assert_eq!(found(&equal, 0b11, 0b11, &[1, 4], 9), [(0b10, 1, 1)]);
        assert_eq!(equal.add(digests(&[1]), AS_IT_IS, None), 2);
        assert_eq!(found(&equal, 0b1, 0b1, &[1], 9), [(0b1, 2, 0)]);
        assert!(equal.lender(0).is_none() && equal.lender(2).is_none());
        equal.trim_to(0);
        assert_eq!((equal.count, equal.blocks.len()), (0, 0));
    }
}
