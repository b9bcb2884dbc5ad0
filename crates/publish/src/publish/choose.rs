//! The choice of pieces for a window.

use crate::hash::{Digest, digest};
use crate::layout::MAX_PIECES;
use crate::packs::Stored;
use crate::page::Piece;
use crate::piece::{self, Packed};
use crate::words::{bits, rank};
use lanefs::UsedBlocks;
use lanefs::format::BLOCK;

/// A piece of the store that may have blocks of a window.
pub(crate) struct Candidate<'c> {
    pub(crate) stored: Stored,
    pub(crate) blocks: u64,
    pub(crate) digests: &'c [Digest],
}

/// A piece that is to be stored.
pub(crate) struct NewPiece {
    pub(crate) blocks: u64,
    pub(crate) digests: Vec<Digest>,
    pub(crate) packed: Packed,
}

/// The pieces of a window: they have its used blocks, each once.
pub(crate) struct Choice {
    pub(crate) kept: Vec<Piece>,
    pub(crate) new: Option<NewPiece>,
}

/// Chooses the pieces of a window, whose used blocks lie in `bytes` one behind the other.
pub(crate) fn choose(window: &UsedBlocks, bytes: &[u8], candidates: &[Candidate<'_>], level: i32) -> Choice {
    let digests: Vec<Digest> = bytes.chunks_exact(BLOCK as usize).map(digest).collect();
    let mut kept = keep(window, &digests, candidates);
    let taken = |kept: &[Piece]| kept.iter().fold(0, |taken, piece| taken | piece.taken);
    let mut blocks = window.used & !taken(&kept);
    // A window in too many pieces is stored anew as a whole.
    if kept.len() + usize::from(blocks != 0) > MAX_PIECES {
        kept.clear();
        blocks = window.used;
    }
    let new = (blocks != 0).then(|| new_piece(window.used, blocks, bytes, &digests, level));
    Choice { kept, new }
}

/// Takes candidates, each time the one with the most blocks that are needed.
fn keep(window: &UsedBlocks, digests: &[Digest], candidates: &[Candidate<'_>]) -> Vec<Piece> {
    let right: Vec<u64> = candidates.iter().map(|candidate| same(window.used, digests, candidate)).collect();
    let (mut kept, mut left) = (Vec::new(), window.used);
    while left != 0 {
        let best = right.iter().zip(candidates).max_by_key(|(blocks, candidate)| {
            // Of two with as many blocks, the one with fewer bytes to read.
            ((*blocks & left).count_ones(), std::cmp::Reverse(candidate.stored.bytes))
        });
        let Some((blocks, candidate)) = best.filter(|(blocks, _)| *blocks & left != 0) else { break };
        kept.push(Piece {
            window: window.position / crate::layout::WINDOW,
            is_metadata: window.is_metadata,
            taken: blocks & left,
            blocks: candidate.blocks,
            stored: candidate.stored,
        });
        left &= !blocks;
    }
    kept
}

/// The used blocks that a candidate has as they are now.
fn same(used: u64, digests: &[Digest], candidate: &Candidate<'_>) -> u64 {
    let is_same =
        |bit: &u32| digests.get(rank(used, *bit)) == candidate.digests.get(rank(candidate.blocks, *bit));
    bits(used & candidate.blocks).filter(is_same).fold(0, |word, bit| word | 1 << bit)
}

fn new_piece(used: u64, blocks: u64, bytes: &[u8], digests: &[Digest], level: i32) -> NewPiece {
    let mut raw = Vec::with_capacity(blocks.count_ones() as usize * BLOCK as usize);
    let mut own = Vec::new();
    for bit in bits(blocks) {
        let index = rank(used, bit);
        raw.extend_from_slice(&bytes[index * BLOCK as usize..(index + 1) * BLOCK as usize]);
        own.push(digests[index]);
    }
    NewPiece { blocks, digests: own, packed: piece::pack(raw, level) }
}
