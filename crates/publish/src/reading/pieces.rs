//! The pieces that a call reads: which of them, whole or by frames, and their blocks once they are here.

use super::fetch::{Bytes, Fetcher, Near};
use crate::error::{Error, Result};
use crate::format::frames::{self, Frame, frame_blocks, index_bytes, index_of};
use crate::format::packs::Stored;
use crate::format::page::Piece;
use crate::format::words::bits;
use lanefs::format::BLOCK;
use std::collections::HashMap;

/// Which of the pieces of some references are read by frames. For the others one request brings all of them.
pub(crate) struct Plan(HashMap<Stored, u64>);

impl Plan {
    /// Decides for the pieces of some references, each with the blocks of its window that are read. Frames
    /// cost another round trip, with a request for each index that names them: it pays where the bytes that
    /// nobody needs take longer together than that. Pieces of which something is near cost none.
    pub(crate) fn new<'p>(fetcher: &Fetcher, references: impl Iterator<Item = (&'p Piece, u64)>) -> Plan {
        let mut wanted: HashMap<Stored, u64> = HashMap::new();
        for (piece, blocks) in references.filter(|(piece, _)| frame_blocks(piece.stored.codec).is_some()) {
            *wanted.entry(piece.stored).or_default() |= piece.frames(blocks);
        }
        wanted.retain(|stored, frames| saved_bytes(stored, *frames) > 0);
        let near: HashMap<Stored, Near> =
            wanted.keys().map(|stored| (*stored, fetcher.find_near(stored))).collect();
        let is_far = |stored: &Stored| near.get(stored) == Some(&Near::Nothing);
        let far: Vec<_> = wanted.iter().filter(|(stored, _)| is_far(stored)).collect();
        let saved = far.iter().map(|(stored, frames)| saved_bytes(stored, **frames)).sum();
        let pays = fetcher.pace.is_worth_a_round_trip(saved, far.len());
        wanted.retain(|stored, _| match near.get(stored) {
            Some(Near::Whole) => false,
            Some(Near::Index) => true,
            _ => pays,
        });
        Plan(wanted)
    }

    /// Bytes of memory of the part of a piece that a reference reads.
    pub(crate) fn memory_bytes(&self, piece: &Piece, blocks: u64) -> u64 {
        let one = frame_blocks(piece.stored.codec).filter(|_| self.0.contains_key(&piece.stored));
        match one {
            Some(one) => u64::from(piece.frames(blocks).count_ones() * one) * BLOCK,
            None => piece.stored.raw.into(),
        }
    }
}

/// Stored bytes that nobody needs where a piece is read by some of its frames, about.
fn saved_bytes(stored: &Stored, frames: u64) -> u64 {
    let Some(one) = frame_blocks(stored.codec) else { return 0 };
    let all = u64::from(stored.raw).div_ceil(u64::from(one) * BLOCK).max(1);
    let left = all.saturating_sub(frames.count_ones().into());
    let bytes = u64::from(stored.bytes.saturating_sub(index_bytes(stored)));
    bytes * left / all
}

/// Pieces that were fetched, or the failures.
pub(crate) struct Pieces(HashMap<Stored, Result<FetchedPiece>>);

/// The fetched part of a piece.
enum FetchedPiece {
    Whole(Bytes),
    /// The frames that its index names, and those that were fetched.
    Frames {
        all: Vec<Frame>,
        here: Vec<Option<Bytes>>,
        blocks: usize,
    },
}

impl Pieces {
    /// Fetches the pieces of some references as planned, each with the blocks of its window that are read.
    pub(crate) fn fetch<'p>(
        fetcher: &Fetcher,
        requests: usize,
        plan: &Plan,
        references: impl Iterator<Item = (&'p Piece, u64)>,
    ) -> Pieces {
        let mut wanted: HashMap<Stored, u64> = HashMap::new();
        for (piece, blocks) in references {
            *wanted.entry(piece.stored).or_default() |= piece.frames(blocks);
        }
        let by_frames = |stored: &Stored| index_of(stored).filter(|_| plan.0.contains_key(stored));
        let first: Vec<(Stored, Stored)> =
            wanted.keys().map(|stored| (*stored, by_frames(stored).unwrap_or(*stored))).collect();
        let asked: Vec<Stored> = first.iter().map(|(_, asked)| *asked).collect();
        let mut pieces = HashMap::new();
        let mut frames: Vec<(Stored, usize, Stored)> = Vec::new();
        for ((stored, asked), bytes) in first.into_iter().zip(fetcher.get_many_by(requests, &asked)) {
            let content = bytes.and_then(|bytes| match frame_blocks(stored.codec) {
                Some(blocks) if asked != stored => {
                    let all =
                        frames::parse(&stored, &bytes).map_err(|why| fetcher.damaged_at(&stored, why))?;
                    let here = vec![None; all.len()];
                    Ok(FetchedPiece::Frames { all, here, blocks: blocks as usize })
                }
                _ => Ok(FetchedPiece::Whole(bytes)),
            });
            if let Ok(FetchedPiece::Frames { all, .. }) = &content {
                let numbers = bits(wanted[&stored]).map(|number| number as usize);
                frames.extend(numbers.filter_map(|number| Some((stored, number, all.get(number)?.stored))));
            }
            pieces.insert(stored, content);
        }
        let asked: Vec<Stored> = frames.iter().map(|(_, _, frame)| *frame).collect();
        for ((stored, number, _), bytes) in frames.into_iter().zip(fetcher.get_many_by(requests, &asked)) {
            let Some(piece) = pieces.get_mut(&stored) else { continue };
            match (&mut *piece, bytes) {
                (Ok(FetchedPiece::Frames { here, .. }), Ok(bytes)) => here[number] = Some(bytes),
                // The content of the others cannot be checked without it.
                (_, Err(error)) => *piece = Err(error),
                _ => {}
            }
        }
        Pieces(pieces)
    }

    /// Checks that what is here of a piece has the content that the publisher of the reference saw.
    pub(crate) fn check(&self, fetcher: &Fetcher, piece: &Piece) -> Result<()> {
        let checked = match self.0.get(&piece.stored) {
            Some(Ok(FetchedPiece::Whole(bytes))) => piece.check(bytes),
            Some(Ok(FetchedPiece::Frames { all, here, .. })) => piece.promise().check_frames(all, here),
            // A failure is that of the blocks that are needed.
            Some(Err(_)) | None => Ok(()),
        };
        checked.map_err(|why| fetcher.damaged_at(&piece.stored, why))
    }

    /// Returns a block of a piece by its rank there.
    pub(crate) fn block(&self, piece: &Piece, rank: usize) -> Result<&[u8]> {
        let (bytes, rank) = match self.0.get(&piece.stored) {
            Some(Ok(FetchedPiece::Whole(bytes))) => (bytes, rank),
            Some(Ok(FetchedPiece::Frames { here, blocks, .. })) => {
                let frame = here.get(rank / blocks).and_then(Option::as_ref).ok_or(Error::Interrupted)?;
                (frame, rank % blocks)
            }
            Some(Err(error)) => return Err(error.clone()),
            None => return Err(Error::Interrupted),
        };
        let from = rank * BLOCK as usize;
        bytes.get(from..from + BLOCK as usize).ok_or(Error::Interrupted)
    }
}
