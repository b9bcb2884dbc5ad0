//! The choice of pieces for a window.

use super::equal::{Borrowed, EqualBlocks, Lender};
use crate::format::buffers::Buffer;
use crate::format::frames::{self, frame_blocks};
use crate::format::hash::{Digest, Hash};
use crate::format::layout::{MAX_OWN_PIECES, MAX_PIECES, WINDOW_BYTES};
use crate::format::packs::{AS_IT_IS, Stored};
use crate::format::page::Piece;
use crate::format::piece::{self, Packed};
use crate::format::words::{bits, rank};
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
    /// True for a piece that is taken over without a look at its bytes.
    pub(crate) is_trusted: bool,
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

/// The used blocks of a window.
pub(crate) struct Content {
    used: u64,
    /// The blocks, one after the other.
    bytes: Vec<u8>,
    hashes: Vec<Hash>,
    digests: Vec<Digest>,
}

impl Content {
    /// Hashes the used blocks of a window.
    pub(crate) fn new(window: &UsedBlocks, bytes: Vec<u8>) -> Self {
        let hashes: Vec<Hash> = bytes.chunks_exact(BLOCK as usize).map(Hash::of).collect();
        let digests = hashes.iter().map(Hash::digest).collect();
        Content { used: window.used, bytes, hashes, digests }
    }

    /// The hash that binds the content of some of the blocks, which a piece of a codec has at these ranks.
    fn bind(&self, codec: u16, blocks: u64, rank_of: impl Fn(u32) -> usize) -> Hash {
        let hash = |bit| Some((rank_of(bit), *self.hashes.get(rank(self.used, bit))?));
        frames::bind(codec, bits(blocks).filter_map(hash))
    }
}

/// A piece of the store that is kept.
pub(crate) struct KeptPiece<'c> {
    pub(crate) piece: Piece,
    digests: &'c [Digest],
    pub(crate) is_trusted: bool,
}

impl KeptPiece<'_> {
    /// Checks the bytes of the piece: what this window takes from it, and the digests of all its blocks, by
    /// which others may borrow from it.
    pub(crate) fn is_sound(&self, bytes: &Buffer) -> bool {
        let digests = bytes.hashes().iter().map(Hash::digest);
        self.piece.check(bytes).is_ok() && digests.eq(self.digests.iter().copied())
    }
}

/// A window that was compared with the store.
pub(crate) struct Examined<'c> {
    pub(crate) kept: Vec<KeptPiece<'c>>,
    /// Used blocks that no piece of the store has.
    missing: u64,
}

/// The blocks of new pieces: those of `first`, and the others.
fn parts(blocks: u64, first: u64) -> impl Iterator<Item = u64> {
    [blocks & first, blocks & !first].into_iter().filter(|blocks| *blocks != 0)
}

/// Compares a window with pieces of the store. Blocks of `first` get a piece of their own where they are new.
pub(crate) fn examine<'c>(
    window: &UsedBlocks,
    content: &Content,
    candidates: &[Candidate<'c>],
    first: u64,
) -> Examined<'c> {
    let mut kept = keep(window, content, candidates);
    let mut missing = window.used & !kept.iter().fold(0, |taken, kept| taken | kept.piece.taken);
    // A window in too many pieces is stored again as a whole.
    let new = parts(missing, first).count();
    let own = kept.iter().filter(|kept| kept.piece.borrowed.is_none()).count();
    if own + new > MAX_OWN_PIECES || kept.len() + new > MAX_PIECES {
        kept.clear();
        missing = window.used;
    }
    Examined { kept, missing }
}

/// Takes candidates, each time the one with the most blocks that are needed.
fn keep<'c>(window: &UsedBlocks, content: &Content, candidates: &[Candidate<'c>]) -> Vec<KeptPiece<'c>> {
    let right = |candidate: &Candidate<'_>| candidate.right(window.used, &content.digests);
    let right: Vec<u64> = candidates.iter().map(right).collect();
    let (mut kept, mut left) = (Vec::new(), window.used);
    while left != 0 {
        let takes = right.iter().zip(candidates).map(|(right, one)| (one.takes(right & left), one));
        let best = takes.max_by_key(|(taken, candidate)| {
            // Of two with as many blocks, the one with fewer bytes to read.
            (taken.count_ones(), std::cmp::Reverse(candidate.stored.bytes))
        });
        let Some((taken, candidate)) = best.filter(|(taken, _)| *taken != 0) else { break };
        let piece = Piece {
            window: window.position / WINDOW_BYTES,
            is_metadata: window.is_metadata,
            taken,
            blocks: candidate.blocks,
            borrowed: candidate.borrowed.map(|_| candidate.rank(taken.trailing_zeros()) as u8),
            stored: candidate.stored,
            content: Some(content.bind(candidate.stored.codec, taken, |bit| candidate.rank(bit))),
        };
        kept.push(KeptPiece { piece, digests: candidate.digests, is_trusted: candidate.is_trusted });
        left &= !taken;
    }
    kept
}

/// The pieces of a window: they have its used blocks, each once.
pub(crate) struct Choice {
    pub(crate) kept: Vec<Piece>,
    /// Blocks that are borrowed, with the hashes that bind their content.
    pub(crate) borrowed: Vec<(Borrowed, Hash)>,
    pub(crate) new: Vec<NewBlocks>,
}

/// Blocks that are to be stored.
pub(crate) struct NewBlocks {
    /// Their number among the pieces from which others borrow.
    pub(crate) lender: Option<u64>,
    pub(crate) blocks: u64,
    /// They come first in packs.
    pub(crate) is_first: bool,
    pub(crate) content: Hash,
    hashes: Vec<Hash>,
    /// Codec of the piece, if it has frames.
    frames: Option<u16>,
    /// The blocks, one after the other.
    bytes: Vec<u8>,
}

impl NewBlocks {
    /// Compresses the blocks.
    pub(crate) fn pack(&self, level: i32) -> Packed {
        match self.frames {
            Some(codec) => piece::pack_frames(&self.bytes, &self.hashes, codec, level),
            None => piece::pack(&self.bytes, level),
        }
    }

    /// The digests of the blocks.
    pub(crate) fn digests(&self) -> Vec<Digest> {
        self.hashes.iter().map(Hash::digest).collect()
    }
}

/// The way in which new pieces are made.
#[derive(Clone, Copy)]
pub(crate) struct NewPieces {
    /// Codec of pieces of file data that have more than one frame of it.
    pub(crate) frames: Option<u16>,
    /// Blocks of the window that get a piece of their own.
    pub(crate) first: u64,
}

impl NewPieces {
    /// Makes a piece of some blocks of a window.
    fn make(self, window: &UsedBlocks, content: &Content, blocks: u64, equal: &mut EqualBlocks) -> NewBlocks {
        let indexes: Vec<usize> = bits(blocks).map(|bit| rank(window.used, bit)).collect();
        let hashes: Vec<Hash> = indexes.iter().map(|index| content.hashes[*index]).collect();
        let has_frames = |codec: &u16| {
            !window.is_metadata && frame_blocks(*codec).is_some_and(|one| blocks.count_ones() > one)
        };
        let frames = self.frames.filter(has_frames);
        let codec = frames.unwrap_or(AS_IT_IS);
        let of_block = |index: &usize| &content.bytes[*index * BLOCK as usize..(*index + 1) * BLOCK as usize];
        let bytes: Vec<u8> = indexes.iter().flat_map(of_block).copied().collect();
        let own = hashes.iter().map(Hash::digest);
        let lender = (!window.is_metadata).then(|| equal.add(own.collect(), codec, None));
        let bound = content.bind(codec, blocks, |bit| rank(blocks, bit));
        let is_first = blocks & self.first != 0;
        NewBlocks { lender, blocks, is_first, content: bound, hashes, frames, bytes }
    }
}

/// Chooses where the missing blocks of a window come from: from pieces of other windows with equal ones, and
/// from new pieces. Metadata lend nothing, borrow nothing and have no frames: they are read together.
pub(crate) fn choose(
    window: &UsedBlocks,
    content: &Content,
    examined: Examined<'_>,
    equal: &mut EqualBlocks,
    pieces: NewPieces,
) -> Choice {
    let Examined { kept, missing } = examined;
    let (used, digests) = (window.used, &content.digests);
    let most = MAX_PIECES.saturating_sub(kept.len() + parts(missing, pieces.first).count());
    let borrowed = if window.is_metadata { Vec::new() } else { equal.find(missing, used, digests, most) };
    let blocks = borrowed.iter().fold(missing, |blocks, loan| blocks & !loan.taken);
    let new = parts(blocks, pieces.first).map(|blocks| pieces.make(window, content, blocks, equal)).collect();
    if !window.is_metadata {
        for KeptPiece { piece, digests, .. } in kept.iter().filter(|kept| kept.piece.borrowed.is_none()) {
            let lender = Lender { stored: piece.stored, blocks: piece.blocks, pack: None };
            equal.add(digests.to_vec(), piece.stored.codec, Some(lender));
        }
    }
    let borrowed = borrowed.into_iter().map(|loan| {
        let rank_of = |bit| usize::from(loan.first) + rank(loan.taken, bit);
        let bound = content.bind(loan.codec, loan.taken, rank_of);
        (loan, bound)
    });
    let borrowed = borrowed.collect();
    Choice { kept: kept.into_iter().map(|kept| kept.piece).collect(), borrowed, new }
}
