//! Pieces in frames. A frame has some blocks of its piece, and is fetched, verified and decompressed alone.
//!
//! The stored bytes of such a piece begin with an index. `HASH` of the piece is the hash of the index, and
//! the index has the hash of each frame.

use super::hash::Hash;
use super::layout::frame;
use super::packs::{INDEX, LARGEST_CODEC, LEAST_CODEC, Stored, codec_of, frame_bytes};
pub(crate) use super::packs::{frame_blocks, index_bytes};
use super::words::{Bad, CUT_OFF, Input, append, get};
use lanefs::format::BLOCK;

/// The codec with the largest frames of so many bytes at most; `None` where none has so small ones.
pub(crate) fn codec_by_size(frame_bytes: u32) -> Option<u16> {
    let fits = |codec: &u16| frame_blocks(*codec).is_some_and(|blocks| blocks * BLOCK as u32 <= frame_bytes);
    (LEAST_CODEC..=LARGEST_CODEC).rev().find(fits)
}

/// The index of a piece, as bytes that are fetched alone; `None` for a piece without frames.
pub(crate) fn index_of(piece: &Stored) -> Option<Stored> {
    let bytes = index_bytes(piece);
    (bytes > 0).then_some(Stored { bytes, raw: bytes, codec: INDEX, ..*piece })
}

/// The frames that have some of the blocks with these ranks in a piece: the number of each, and these ranks.
pub(crate) fn by_frame(ranks: u64, frame_blocks: u32) -> impl Iterator<Item = (usize, u64)> {
    let of_frame = move |number: u32| {
        let mask = ((1u64 << frame_blocks) - 1) << (number * frame_blocks);
        (number as usize, ranks & mask)
    };
    (0..u64::BITS / frame_blocks).map(of_frame).filter(|(_, ranks)| *ranks != 0)
}

/// The hash that binds the content of some blocks of a piece, given as ranks in the piece with their hashes,
/// ascending: that of the hashes, or of the hashes of those of each frame.
pub(crate) fn bind(codec: u16, blocks: impl Iterator<Item = (usize, Hash)>) -> Hash {
    let Some(frame_blocks) = frame_blocks(codec) else {
        return Hash::of_hashes(blocks.map(|(_, hash)| hash));
    };
    let blocks: Vec<(usize, Hash)> = blocks.collect();
    let frame = |rank: usize| rank / frame_blocks as usize;
    let frames = blocks.chunk_by(|a, b| frame(a.0) == frame(b.0));
    Hash::of_hashes(frames.map(|blocks| Hash::of_hashes(blocks.iter().map(|(_, hash)| hash))))
}

/// A frame that the index of a piece names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Frame {
    pub(crate) stored: Stored,
    /// Hash of the hashes of all its blocks.
    pub(crate) content: Hash,
}

/// Parses the verified index of a piece. Frames follow one another, and each has the bytes of its blocks at
/// most: so an index cannot name other bytes than those of its piece, nor more than it may decompress to.
pub(crate) fn parse(piece: &Stored, index: &[u8]) -> Result<Vec<Frame>, Bad> {
    let most = frame_bytes(piece.codec).ok_or("has no frames")?;
    let mut input = Input(index);
    let list = input.list(piece.raw.div_ceil(most), frame::SIZE)?;
    input.end()?;
    let (mut at, mut left) = (piece.offset + index.len() as u32, piece.raw);
    let mut frames = Vec::with_capacity(list.len());
    for bytes in list {
        let (stored, raw) = (get(frame::STORED, bytes)?, left.min(most));
        if stored == 0 || stored > raw {
            return Err("has a frame of an impossible size");
        }
        let hash = Hash::read(frame::HASH, bytes).ok_or(CUT_OFF)?;
        let content = Hash::read(frame::CONTENT, bytes).ok_or(CUT_OFF)?;
        let codec = codec_of(stored, raw);
        frames.push(Frame {
            stored: Stored { pack: piece.pack, offset: at, bytes: stored, raw, codec, hash },
            content,
        });
        (at, left) = (at + stored, left - raw);
    }
    if at != piece.offset + piece.bytes {
        return Err("has frames that are not as long together as the piece");
    }
    Ok(frames)
}

/// Makes the stored bytes of a piece of frames, each given as its stored bytes, and the hash of the hashes of
/// its blocks. Returns the bytes, and the hash of the index.
pub(crate) fn encode(frames: &[(Vec<u8>, Hash)]) -> (Vec<u8>, Hash) {
    let mut bytes = Vec::new();
    for (stored, content) in frames {
        append(&mut bytes, frame::SIZE, |entry| {
            Hash::of(stored).write(frame::HASH, entry);
            content.write(frame::CONTENT, entry);
            frame::STORED.write(entry, stored.len() as u32);
        });
    }
    let hash = Hash::of(&bytes);
    frames.iter().for_each(|(stored, _)| bytes.extend_from_slice(stored));
    (bytes, hash)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::buffers::Buffers;
    use crate::format::layout::pack_end;
    use crate::format::packs::LEAST_BLOCKS;
    use crate::format::packs::PackRef;
    use crate::format::page::{Piece, raw_bytes};
    use crate::format::piece::{Packed, pack_frames, unpack, verify};
    use std::sync::Arc;

    const CODEC: u16 = 2;

    /// Blocks that compress, and one in three that does not.
    fn raw(blocks: usize) -> Vec<u8> {
        let mut state = 1u64;
        let mut noise = || {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1);
            (state >> 56) as u8
        };
        let block = |number: usize| (0..BLOCK as usize).map(move |at| (number, at));
        let byte = |(number, at): (usize, usize)| match number / LEAST_BLOCKS as usize % 3 {
            0 => noise(),
            _ => (number + at / 100) as u8,
        };
        (0..blocks).flat_map(block).map(byte).collect()
    }

    fn packed(raw: &[u8]) -> (Packed, Stored) {
        let hashes: Vec<Hash> = raw.chunks(BLOCK as usize).map(Hash::of).collect();
        let packed = pack_frames(raw, &hashes, CODEC, 1);
        let pack = PackRef { name: packed.hash, bytes: 1 << 20, footer: pack_end::SIZE as u32 };
        let (bytes, raw) = (packed.bytes.len() as u32, raw.len() as u32);
        let stored = Stored { pack, offset: 77, bytes, raw, codec: packed.codec, hash: packed.hash };
        (packed, stored.checked(256 << 10).expect("a sound reference"))
    }

    #[test]
    fn frames_come_back_together_and_each_alone() {
        for blocks in [1, 4, 5, 30, 63, 64] {
            let raw = raw(blocks);
            let (packed, stored) = packed(&raw);
            assert_eq!(verify(&stored, &packed.bytes), Ok(()));
            let whole = unpack(&stored, &packed.bytes, &Arc::default()).expect("it decompresses");
            assert_eq!(&whole[..], raw);
            let index = index_of(&stored).expect("an index");
            let bytes = &packed.bytes[..index.bytes as usize];
            assert_eq!(verify(&index, bytes), Ok(()));
            let frames = parse(&stored, bytes).expect("frames");
            assert_eq!(frames.len(), blocks.div_ceil(LEAST_BLOCKS as usize));
            for (frame, raw) in frames.iter().zip(raw.chunks(16 << 10)) {
                let from = (frame.stored.offset - stored.offset) as usize;
                let bytes = &packed.bytes[from..from + frame.stored.bytes as usize];
                assert_eq!(verify(&frame.stored, bytes), Ok(()));
                let alone = unpack(&frame.stored, bytes, &Arc::default()).expect("it decompresses");
                assert_eq!(&alone[..], raw);
            }
        }
    }

    #[test]
    fn an_index_that_lies_about_sizes_is_refused() {
        let raw = raw(30);
        let (packed, stored) = packed(&raw);
        let index = &packed.bytes[..index_bytes(&stored) as usize];
        let with = |number: usize, size: u32| {
            let mut index = index.to_vec();
            frame::STORED.write(&mut index[number * frame::SIZE..], size);
            parse(&stored, &index).map(drop)
        };
        let first = get(frame::STORED, index).expect("a size");
        assert_eq!(with(0, first), Ok(()));
        assert_eq!(with(0, 0), Err("has a frame of an impossible size"));
        assert_eq!(with(0, 16385), Err("has a frame of an impossible size"));
        assert_eq!(with(0, u32::MAX), Err("has a frame of an impossible size"));
        assert_eq!(
            with(7, 2 * 4096 + 1),
            Err("has a frame of an impossible size"),
            "the last has two blocks"
        );
        assert_eq!(with(0, first - 1), Err("has frames that are not as long together as the piece"));
        assert_eq!(parse(&stored, &index[1..]), Err(CUT_OFF));
        assert_eq!(parse(&stored, &[index, &[0]].concat()), Err("has bytes after its end"));
        assert!(unpack(&stored, &packed.bytes[..3], &Arc::default()).is_err());
        let short = Stored { bytes: index.len() as u32, ..stored };
        assert!(short.checked(256 << 10).is_err(), "an index, and no frames");
        let alone = Stored { codec: INDEX, ..stored };
        assert!(alone.checked(256 << 10).is_err(), "no page names an index");
    }

    #[test]
    fn a_reference_is_checked_by_the_frames_that_are_here() {
        let raw = raw(40);
        let (packed, stored) = packed(&raw);
        let hashes: Vec<Hash> = raw.chunks(BLOCK as usize).map(Hash::of).collect();
        let frames = parse(&stored, &packed.bytes[..index_bytes(&stored) as usize]).expect("frames");
        let buffers: Arc<Buffers> = Arc::default();
        let here = |numbers: u64| -> Vec<Option<Arc<_>>> {
            let part = |(number, raw)| (numbers >> number & 1 != 0).then(|| Arc::new(buffers.copy(raw)));
            raw.chunks(16 << 10).enumerate().map(part).collect()
        };
        let blocks = (1 << 40) - 1;
        let reference = |taken: u64| {
            let content = bind(CODEC, (0..40).filter(|at| taken >> at & 1 != 0).map(|at| (at, hashes[at])));
            let content = Some(content);
            Piece { window: 0, is_metadata: false, taken, blocks, borrowed: None, stored, content }
        };
        assert_eq!(stored.raw, raw_bytes(blocks));
        // All of the piece: one frame is enough. It is checked like all of it.
        let all = reference(blocks);
        assert_eq!(all.frames(1 << 17), 1 << 4);
        assert_eq!(all.promise().check_frames(&frames, &here(1 << 4)), Ok(()));
        assert_eq!(all.check(&buffers.copy(&raw)), Ok(()));
        // A part: of frame 2 two blocks are taken, so it is needed whatever is read.
        let part = reference(0b1100_1111_0000);
        assert_eq!((part.frames(1 << 4), part.frames(1 << 11)), (0b110, 0b100));
        assert_eq!(part.promise().check_frames(&frames, &here(0b110)), Ok(()));
        assert_eq!(part.promise().check_frames(&frames, &here(0b100)), Ok(()));
        assert!(
            part.promise().check_frames(&frames, &here(0b010)).is_err(),
            "its part of frame 2 is unknown"
        );
        // Other content, in a frame that is here, and in one that is not.
        let mut other = here(1 << 4);
        other[4] = Some(Arc::new(buffers.copy(&vec![1; 16 << 10])));
        assert!(all.promise().check_frames(&frames, &other).is_err());
        let mut lying = frames.clone();
        lying[7].content = Hash([1; 32]);
        assert!(all.promise().check_frames(&lying, &here(1 << 4)).is_err());
        // Without frames the promise is that of the blocks.
        let ranks = || (0..40).map(|rank| (rank, hashes[rank]));
        assert_eq!(bind(1, ranks()), Hash::of_hashes(hashes.iter()));
        assert_ne!(bind(1, ranks()), bind(CODEC, ranks()));
    }

    #[test]
    fn sizes_of_frames_have_codecs() {
        let sizes = [0, 4096, 16 << 10, 20_000, 32 << 10, 64 << 10, u32::MAX].map(codec_by_size);
        assert_eq!(sizes, [None, None, Some(2), Some(2), Some(3), Some(4), Some(4)]);
        assert_eq!(
            [0, 1, 2, 3, 4, 5, INDEX].map(frame_blocks).map(Option::unwrap_or_default),
            [0, 0, 4, 8, 16, 0, 0]
        );
    }
}
