//! The pieces that a call reads: which of them, whole or by frames, and their blocks once they are here.

use super::fetch::{Bytes, Fetcher};
use crate::error::{Error, Result};
use crate::format::frames::frame_blocks;
use crate::format::packs::Stored;
use crate::format::page::Piece;
use crate::format::words::bits;
use lanefs::format::BLOCK;
use std::collections::HashMap;

/// Which of the pieces of some references are read by frames. For the others one request brings all of them.
pub(crate) struct Plan(HashMap<Stored, u64>);

impl Plan {
    /// Decides for the pieces of some references, each with the blocks of its window that are read. Either
    /// way takes one step. Neighbours of a file are often read next, so few bytes that nobody has asked for
    /// are brought all the same; frames pay where these bytes take longer together than a round trip, and
    /// than the requests for frames that are apart in their piece. Of pieces that are near nothing is asked.
    pub(crate) fn new<'p>(fetcher: &Fetcher, references: impl Iterator<Item = (&'p Piece, u64)>) -> Plan {
        let mut wanted: HashMap<Stored, u64> = HashMap::new();
        for (piece, blocks) in references.filter(|(piece, _)| frame_blocks(piece.stored.codec).is_some()) {
            *wanted.entry(piece.stored).or_default() |= piece.frames(blocks);
        }
        wanted.retain(|stored, frames| saved_bytes(stored, *frames) > 0 && !fetcher.is_near(stored));
        let is_far = |stored: &Stored, frames: u64| {
            frames_of(stored, frames).iter().any(|(_, frame)| !fetcher.is_near(frame))
        };
        let far: HashMap<Stored, bool> =
            wanted.iter().map(|(stored, frames)| (*stored, is_far(stored, *frames))).collect();
        let (mut saved, mut more) = (0, 0);
        for (stored, frames) in wanted.iter().filter(|(stored, _)| far[*stored]) {
            saved += saved_bytes(stored, *frames);
            more += runs(*frames) - 1;
        }
        let pays = fetcher.pace.is_worth_a_round_trip(saved, more as usize);
        wanted.retain(|stored, _| pays || !far[stored]);
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

/// Some frames of a piece, with their numbers.
fn frames_of(stored: &Stored, frames: u64) -> Vec<(usize, Stored)> {
    let all = stored.frames().unwrap_or_default();
    bits(frames).filter_map(|number| Some((number as usize, *all.get(number as usize)?))).collect()
}

/// Number of runs of frames that follow one another.
fn runs(frames: u64) -> u32 {
    (frames & !(frames << 1)).count_ones()
}

/// Stored bytes that nobody needs where a piece is read by some of its frames.
fn saved_bytes(stored: &Stored, frames: u64) -> u64 {
    let read = frames_of(stored, frames).iter().map(|(_, frame)| u64::from(frame.bytes)).sum();
    u64::from(stored.bytes).saturating_sub(read)
}

/// Pieces that were fetched, or the failures.
pub(crate) struct Pieces(HashMap<Stored, Result<FetchedPiece>>);

/// The fetched part of a piece.
enum FetchedPiece {
    Whole(Bytes),
    /// Those of its frames that were fetched, and the blocks of each.
    Frames {
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
        let (mut asked, mut of) = (Vec::new(), Vec::new());
        for (stored, frames) in &wanted {
            if plan.0.contains_key(stored) {
                for (number, frame) in frames_of(stored, *frames) {
                    asked.push(frame);
                    of.push((*stored, Some(number)));
                }
            } else {
                asked.push(*stored);
                of.push((*stored, None));
            }
        }
        let mut pieces: HashMap<Stored, Result<FetchedPiece>> = HashMap::new();
        for ((stored, number), bytes) in of.into_iter().zip(fetcher.get_many_by(requests, &asked)) {
            let (Some(number), Some(blocks)) = (number, frame_blocks(stored.codec)) else {
                pieces.insert(stored, bytes.map(FetchedPiece::Whole));
                continue;
            };
            let piece = pieces.entry(stored).or_insert_with(|| {
                let here = vec![None; stored.frame_count() as usize];
                Ok(FetchedPiece::Frames { here, blocks: blocks as usize })
            });
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
            Some(Ok(FetchedPiece::Frames { here, .. })) => piece.check_frames(here),
            // A failure is that of the blocks that are needed.
            Some(Err(_)) | None => Ok(()),
        };
        checked.map_err(|why| fetcher.damaged_at(&piece.stored, why))
    }

    /// Returns a block of a piece by its rank there.
    pub(crate) fn block(&self, piece: &Piece, rank: usize) -> Result<&[u8]> {
        let (bytes, rank) = match self.0.get(&piece.stored) {
            Some(Ok(FetchedPiece::Whole(bytes))) => (bytes, rank),
            Some(Ok(FetchedPiece::Frames { here, blocks })) => {
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
