//! The choice of pieces for a window.

use super::equal::{Borrowed, EqualBlocks, Lender};
use crate::hash::{Digest, digest};
use crate::layout::{MAX_OWN_PIECES, MAX_PIECES, WINDOW};
use crate::packs::Stored;
use crate::page::Piece;
use crate::piece::{self, Packed};
use crate::words::{bits, rank};
use lanefs::UsedBlocks;
use lanefs::format::BLOCK;

/// A piece of the store that may have blocks of a window.
pub(crate) struct Candidate<'c> {
    pub(crate) stored: Stored,
    /// Blocks that the piece has, of its own window.
    pub(crate) blocks: u64,
    /// The blocks that this window borrows from it, where it is of another one.
    pub(crate) borrowed: Option<Loan>,
    pub(crate) digests: &'c [Digest],
}

/// Blocks that are borrowed, and the rank of the first in the piece.
#[derive(Clone, Copy)]
pub(crate) struct Loan {
    pub(crate) taken: u64,
    pub(crate) first: u8,
}

impl Candidate<'_> {
    /// The blocks of the window that it may have.
    fn offered(&self) -> u64 {
        self.borrowed.map_or(self.blocks, |loan| loan.taken)
    }

    fn rank(&self, bit: u32) -> usize {
        match self.borrowed {
            None => rank(self.blocks, bit),
            Some(loan) => usize::from(loan.first) + rank(loan.taken, bit),
        }
    }

    /// The used blocks that it has as they are now.
    fn right(&self, used: u64, digests: &[Digest]) -> u64 {
        let is_right = |bit: &u32| digests.get(rank(used, *bit)) == self.digests.get(self.rank(*bit));
        bits(used & self.offered()).filter(is_right).fold(0, |word, bit| word | 1 << bit)
    }

    /// Those among some blocks that one reference to it can take: borrowed blocks follow one another in the
    /// piece.
    fn takes(&self, blocks: u64) -> u64 {
        let Some(loan) = self.borrowed else { return blocks };
        let (mut longest, mut run) = (0u64, 0u64);
        for bit in bits(loan.taken) {
            run = if blocks >> bit & 1 != 0 { run | 1 << bit } else { 0 };
            longest = if run.count_ones() > longest.count_ones() { run } else { longest };
        }
        longest
    }
}

/// A window that was compared with the store.
pub(crate) struct Examined {
    pub(crate) kept: Vec<Piece>,
    /// Used blocks that no piece of the store has.
    pub(crate) missing: u64,
    /// Digests of the used blocks.
    pub(crate) digests: Vec<Digest>,
    /// The used blocks, one behind the other.
    bytes: Vec<u8>,
    /// Digests of all blocks of the kept pieces that are of this window.
    pub(crate) lending: Vec<(Lender, Vec<Digest>)>,
}

/// Compares a window, whose used blocks lie in `bytes` one behind the other, with pieces of the store.
pub(crate) fn examine(window: &UsedBlocks, bytes: Vec<u8>, candidates: &[Candidate<'_>]) -> Examined {
    let digests: Vec<Digest> = bytes.chunks_exact(BLOCK as usize).map(digest).collect();
    let mut kept = keep(window, &digests, candidates);
    let taken = |kept: &[(Piece, &[Digest])]| kept.iter().fold(0, |taken, (piece, _)| taken | piece.taken);
    let mut missing = window.used & !taken(&kept);
    // A window in too many pieces is stored anew as a whole.
    let new = usize::from(missing != 0);
    let own = kept.iter().filter(|(piece, _)| piece.borrowed.is_none()).count();
    if own + new > MAX_OWN_PIECES || kept.len() + new > MAX_PIECES {
        kept.clear();
        missing = window.used;
    }
    let own = kept.iter().filter(|(piece, _)| piece.borrowed.is_none());
    let lending = own.map(|(piece, digests)| {
        (Lender { stored: piece.stored, blocks: piece.blocks, pack: None }, digests.to_vec())
    });
    let lending = lending.collect();
    Examined { kept: kept.into_iter().map(|(piece, _)| piece).collect(), missing, digests, bytes, lending }
}

/// Takes candidates, each time the one with the most blocks that are needed; returns the pieces, and the
/// digests of their blocks.
fn keep<'c>(
    window: &UsedBlocks,
    digests: &[Digest],
    candidates: &[Candidate<'c>],
) -> Vec<(Piece, &'c [Digest])> {
    let right: Vec<u64> = candidates.iter().map(|candidate| candidate.right(window.used, digests)).collect();
    let (mut kept, mut left) = (Vec::new(), window.used);
    while left != 0 {
        let takes = right.iter().zip(candidates).map(|(right, one)| (one.takes(right & left), one));
        let best = takes.max_by_key(|(taken, candidate)| {
            // Of two with as many blocks, the one with fewer bytes to read.
            (taken.count_ones(), std::cmp::Reverse(candidate.stored.bytes))
        });
        let Some((taken, candidate)) = best.filter(|(taken, _)| *taken != 0) else { break };
        let piece = Piece {
            window: window.position / WINDOW,
            is_metadata: window.is_metadata,
            taken,
            blocks: candidate.blocks,
            borrowed: candidate.borrowed.map(|_| candidate.rank(taken.trailing_zeros()) as u8),
            stored: candidate.stored,
        };
        kept.push((piece, candidate.digests));
        left &= !taken;
    }
    kept
}

/// The pieces of a window: they have its used blocks, each once.
pub(crate) struct Choice {
    pub(crate) kept: Vec<Piece>,
    pub(crate) borrowed: Vec<Borrowed>,
    pub(crate) new: Option<NewBlocks>,
}

/// Blocks that are to be stored.
pub(crate) struct NewBlocks {
    /// Their number among the pieces from which others borrow.
    pub(crate) lender: Option<u64>,
    pub(crate) blocks: u64,
    pub(crate) digests: Vec<Digest>,
    /// The blocks, one behind the other.
    bytes: Vec<u8>,
}

impl NewBlocks {
    /// Compresses the blocks.
    pub(crate) fn pack(&self, level: i32) -> Packed {
        piece::pack(&self.bytes, level)
    }
}

/// Chooses where the missing blocks of a window come from: from pieces of other windows with equal ones, and
/// from a new piece. Metadata lend nothing and borrow nothing: they are read together.
pub(crate) fn choose(window: &UsedBlocks, examined: Examined, equal: &mut EqualBlocks) -> Choice {
    let Examined { kept, missing, digests, bytes, lending } = examined;
    let used = window.used;
    let most = (MAX_PIECES - 1).saturating_sub(kept.len());
    let borrowed = if window.is_metadata { Vec::new() } else { equal.find(missing, used, &digests, most) };
    let blocks = borrowed.iter().fold(missing, |blocks, loan| blocks & !loan.taken);
    let new = (blocks != 0).then(|| {
        let indexes: Vec<usize> = bits(blocks).map(|bit| rank(used, bit)).collect();
        let own: Vec<Digest> = indexes.iter().map(|index| digests[*index]).collect();
        let of_block = |index: &usize| &bytes[*index * BLOCK as usize..(*index + 1) * BLOCK as usize];
        let bytes: Vec<u8> = indexes.iter().flat_map(of_block).copied().collect();
        let lender = (!window.is_metadata).then(|| equal.add(own.clone(), None));
        NewBlocks { lender, blocks, digests: own, bytes }
    });
    if !window.is_metadata {
        for (lender, digests) in lending {
            equal.add(digests, Some(lender));
        }
    }
    Choice { kept, borrowed, new }
}
