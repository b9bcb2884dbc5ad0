//! Pieces in frames. A frame has some blocks of its piece, and is fetched, verified and decompressed alone:
//! it brings its [proof](super::proof), and the reference to the piece says where it lies.

use super::hash::Hash;
pub(crate) use super::packs::frame_blocks;
use super::packs::{FrameSizes, LARGEST_CODEC, LEAST_CODEC, frame_bytes};
use super::proof::{Node, Tree, content_above};

/// The codec with the largest frames of so many bytes at most; `None` where none has so small ones.
pub(crate) fn codec_by_size(bytes: u32) -> Option<u16> {
    let fits = |codec: &u16| frame_bytes(*codec).is_some_and(|one| one <= bytes);
    (LEAST_CODEC..=LARGEST_CODEC).rev().find(fits)
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
/// ascending: that of the hashes, or that of the tree of the frames with these blocks alone.
pub(crate) fn bind(codec: u16, blocks: impl Iterator<Item = (usize, Hash)>) -> Hash {
    let Some(frame_blocks) = frame_blocks(codec) else {
        return Hash::of_hashes(blocks.map(|(_, hash)| hash));
    };
    let blocks: Vec<(usize, Hash)> = blocks.collect();
    let frame = |rank: usize| rank / frame_blocks as usize;
    let mut contents = vec![None; (u64::BITS / frame_blocks) as usize];
    for blocks in blocks.chunk_by(|a, b| frame(a.0) == frame(b.0)) {
        if let Some(content) = contents.get_mut(frame(blocks[0].0)) {
            *content = Some(Hash::of_hashes(blocks.iter().map(|(_, hash)| hash)));
        }
    }
    while contents.len() > 1 {
        contents = contents.chunks(2).map(|pair| content_above(pair[0], pair[1])).collect();
    }
    contents[0].unwrap_or(Hash([0; 32]))
}

/// Makes the stored bytes of a piece of frames, each given as its stored bytes, and the hash of the hashes of
/// its blocks. Returns the bytes, the hash of the piece, and the sizes of the frames.
pub(crate) fn encode(frames: &[(Vec<u8>, Hash)]) -> (Vec<u8>, Hash, FrameSizes) {
    let node = |(stored, content): &(Vec<u8>, Hash)| Node { hash: Hash::of(stored), content: *content };
    let tree = Tree::over(frames.iter().map(node).collect());
    let mut bytes = Vec::new();
    for (number, (stored, _)) in frames.iter().enumerate() {
        bytes.extend(tree.proof(number));
        bytes.extend_from_slice(stored);
    }
    let sizes = FrameSizes::of(frames.iter().map(|(stored, _)| stored.len()));
    (bytes, tree.hash().unwrap_or(Hash([0; 32])), sizes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::buffers::Buffers;
    use crate::format::layout::pack_end;
    use crate::format::packs::{Framing, LEAST_BLOCKS, PackRef, Stored};
    use crate::format::page::{Piece, raw_bytes};
    use crate::format::piece::{Packed, pack_frames, unpack, verify};
    use lanefs::format::BLOCK;
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
        let (bytes, raw, codec) = (packed.bytes.len() as u32, raw.len() as u32, packed.codec);
        let (hash, framing) = (packed.hash, packed.framing);
        let stored = Stored { pack, offset: 77, bytes, raw, codec, hash, framing };
        (packed, stored.checked(256 << 10).expect("a sound reference"))
    }

    /// The stored bytes of a frame.
    fn bytes_of<'b>(packed: &'b Packed, piece: &Stored, frame: &Stored) -> &'b [u8] {
        let from = (frame.offset - piece.offset) as usize;
        &packed.bytes[from..from + frame.bytes as usize]
    }

    #[test]
    fn frames_come_back_together_and_each_alone() {
        for blocks in [1, 4, 5, 30, 63, 64] {
            let raw = raw(blocks);
            let (packed, stored) = packed(&raw);
            assert_eq!(verify(&stored, &packed.bytes), Ok(()));
            let whole = unpack(&stored, &packed.bytes, &Arc::default()).expect("it decompresses");
            assert_eq!(&whole[..], raw);
            let frames = stored.frames().expect("frames");
            assert_eq!(frames.len(), blocks.div_ceil(LEAST_BLOCKS as usize));
            for (frame, raw) in frames.iter().zip(raw.chunks(16 << 10)) {
                let bytes = bytes_of(&packed, &stored, frame);
                assert_eq!(verify(frame, bytes), Ok(()));
                let alone = unpack(frame, bytes, &Arc::default()).expect("it decompresses");
                assert_eq!(&alone[..], raw);
                for at in [0, 31, bytes.len() / 2, bytes.len() - 1] {
                    let mut bytes = bytes.to_vec();
                    bytes[at] ^= 1;
                    assert!(verify(frame, &bytes).is_err(), "byte {at} of {frame:?}");
                    let mut whole = packed.bytes.clone();
                    whole[(frame.offset - stored.offset) as usize + at] ^= 1;
                    assert!(verify(&stored, &whole).is_err(), "byte {at} of {frame:?} in its piece");
                }
                assert!(verify(frame, &bytes[1..]).is_err());
            }
            let name = |frame: &Stored| frame.name();
            let names: std::collections::HashSet<Hash> = frames.iter().chain([&stored]).map(name).collect();
            assert_eq!(names.len(), frames.len() + 1);
        }
    }

    #[test]
    fn a_frame_is_not_one_of_another_place_or_piece() {
        let (one, stored) = packed(&raw(32));
        let other_raw: Vec<u8> = raw(32).iter().map(|byte| byte ^ 7).collect();
        let (other, of_other) = packed(&other_raw);
        let (frames, others) = (stored.frames().expect("frames"), of_other.frames().expect("frames"));
        for (number, frame) in frames.iter().enumerate() {
            for (place, elsewhere) in frames.iter().enumerate().filter(|(place, _)| *place != number) {
                let bytes = bytes_of(&one, &stored, frame);
                let moved = Stored { bytes: frame.bytes, raw: frame.raw, codec: frame.codec, ..*elsewhere };
                assert!(verify(&moved, bytes).is_err(), "{number} at {place}");
            }
            let of_other = Stored { hash: frame.hash, ..others[number] };
            assert!(verify(&of_other, bytes_of(&other, &stored, &others[number])).is_err());
        }
    }

    #[test]
    fn sizes_that_lie_are_refused() {
        let raw = raw(30);
        let (packed, stored) = packed(&raw);
        let frames = stored.frames().expect("frames");
        let proof = |frame: &Stored| match frame.framing {
            Framing::Alone(place) => place.proof_bytes(),
            _ => 0,
        };
        let honest: Vec<usize> = frames.iter().map(|one| (one.bytes - proof(one)) as usize).collect();
        let with = |number: usize, size: usize| {
            let mut sizes = honest.clone();
            sizes[number] = size;
            let framing = Framing::Frames(FrameSizes::of(sizes.into_iter()));
            Stored { framing, ..stored }.checked(256 << 10).map(drop)
        };
        assert_eq!(with(0, honest[0]), Ok(()));
        for size in [16385, 1 << 16] {
            assert_eq!(with(0, size), Err("has a frame of an impossible size"));
        }
        assert_eq!(with(0, honest[0] + honest[7]), Err("has a frame of an impossible size"), "none is left");
        assert_eq!(with(1, honest[1] - 1).is_ok(), honest[7] < 2 * 4096, "more for the last one");
        let long = Stored { bytes: stored.bytes + 2 * 4096, ..stored };
        assert!(long.checked(256 << 10).is_err(), "the last has two blocks");
        let lie = Stored { framing: Framing::Frames(FrameSizes::default()), ..stored };
        assert!(lie.checked(256 << 10).is_err());
        assert!(Stored { framing: Framing::None, ..stored }.checked(256 << 10).is_err());
        assert!(unpack(&stored, &packed.bytes[..3], &Arc::default()).is_err());
        assert!(verify(&stored, &packed.bytes[..3]).is_err());
        // Other sizes, which add up: the frames are others then.
        let mut moved = honest.clone();
        (moved[0], moved[1]) = (moved[0] - 1, moved[1] + 1);
        let moved = Stored { framing: Framing::Frames(FrameSizes::of(moved.into_iter())), ..stored };
        let moved = moved.checked(256 << 10).expect("it adds up");
        assert!(verify(&moved, &packed.bytes).is_err());
    }

    #[test]
    fn a_reference_is_checked_by_the_frames_that_are_here() {
        let raw = raw(40);
        let (packed, stored) = packed(&raw);
        let hashes: Vec<Hash> = raw.chunks(BLOCK as usize).map(Hash::of).collect();
        let frames = stored.frames().expect("frames");
        let buffers: Arc<Buffers> = Arc::default();
        let here = |numbers: u64| -> Vec<Option<Arc<_>>> {
            let fetched =
                |frame| unpack(frame, bytes_of(&packed, &stored, frame), &buffers).expect("a frame");
            let part = |(number, frame)| (numbers >> number & 1 != 0).then(|| Arc::new(fetched(frame)));
            frames.iter().enumerate().map(part).collect()
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
        assert_eq!(all.check_frames(&here(1 << 4)), Ok(()));
        assert_eq!(all.check(&buffers.copy(&raw)), Ok(()));
        // A part: of frame 2 two blocks are taken, so it is needed whatever is read. Its proof has the
        // content of frames 0 and 1 together, and of frame 0 nothing is taken, so frame 1 is needed, too.
        let part = reference(0b1100_1111_0000);
        assert_eq!((part.frames(1 << 4), part.frames(1 << 11)), (0b110, 0b110));
        let both = reference(0b1100_1111_1111);
        assert_eq!((both.frames(1 << 4), both.frames(1 << 11)), (0b110, 0b100));
        assert_eq!(both.check_frames(&here(0b100)), Ok(()));
        assert_eq!(part.check_frames(&here(0b110)), Ok(()));
        assert!(part.check_frames(&here(0b010)).is_err(), "its part of frame 2 is unknown");
        // Other content, in a frame that is here, and in one that is not.
        let mut other = here(1 << 4);
        other[4] = Some(Arc::new(buffers.copy(&vec![1; 16 << 10])));
        assert!(all.check_frames(&other).is_err());
        let lying = Piece { content: Some(Hash([1; 32])), ..all };
        assert!(lying.check_frames(&here(1 << 4)).is_err());
        // Without frames the promise is that of the blocks.
        let ranks = || (0..40).map(|rank| (rank, hashes[rank]));
        assert_eq!(bind(1, ranks()), Hash::of_hashes(hashes.iter()));
        assert_ne!(bind(1, ranks()), bind(CODEC, ranks()));
    }

    #[test]
    fn whatever_is_taken_and_read_the_planned_frames_are_enough() {
        let raw = raw(61);
        let (packed, stored) = packed(&raw);
        let hashes: Vec<Hash> = raw.chunks(BLOCK as usize).map(Hash::of).collect();
        let all = stored.frames().expect("frames");
        let fetched = |frame| unpack(frame, bytes_of(&packed, &stored, frame), &Arc::default());
        let fetched = |frame| fetched(frame).expect("a frame");
        let fetched: Vec<Arc<_>> = all.iter().map(|frame| Arc::new(fetched(frame))).collect();
        let blocks = (1u64 << 61) - 1;
        let mut random = lanefs_testkit::seeded::Seeded::new(3);
        for _ in 0..3000 {
            // Runs of whole frames, and single blocks of others.
            let frames = random.bits();
            let whole = (0..16).filter(|at| frames >> at & 1 != 0).fold(0, |all, at| all | 0xf << (at * 4));
            let taken =
                (if random.chance(30) { whole } else { whole & (random.bits() | random.bits()) }) & blocks;
            let wanted = (random.bits() & random.bits() & random.bits()) & taken;
            if wanted == 0 {
                continue;
            }
            let bound = (0..61).filter(|at| taken >> at & 1 != 0).map(|at| (at, hashes[at]));
            let content = Some(bind(CODEC, bound));
            let piece =
                Piece { window: 0, is_metadata: false, taken, blocks, borrowed: None, stored, content };
            let numbers = piece.frames(wanted);
            let needed = by_frame(piece.ranks(wanted), 4).fold(0, |all, (number, _)| all | 1 << number);
            assert_eq!(numbers & needed, needed);
            let here = |number: usize| (numbers >> number & 1 != 0).then(|| Arc::clone(&fetched[number]));
            let here: Vec<_> = (0..all.len()).map(here).collect();
            assert_eq!(piece.check_frames(&here), Ok(()), "{taken:#x} {wanted:#x} {numbers:#x}");
            let lying = Piece { content: Some(Hash([1; 32])), ..piece };
            assert!(lying.check_frames(&here).is_err());
        }
    }

    #[test]
    fn sizes_of_frames_have_codecs() {
        let sizes = [0, 4096, 16 << 10, 20_000, 32 << 10, 64 << 10, u32::MAX].map(codec_by_size);
        assert_eq!(sizes, [None, None, Some(2), Some(2), Some(3), Some(4), Some(4)]);
        assert_eq!(
            [0, 1, 2, 3, 4, 5, u16::MAX].map(frame_blocks).map(Option::unwrap_or_default),
            [0, 0, 4, 8, 16, 0, 0]
        );
    }
}
