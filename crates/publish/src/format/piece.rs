//! Stored bytes: hashed and compressed, verified and decompressed.

use super::buffers::{Buffer, Buffers, Part};
use super::frames::{self, frame_blocks};
use super::hash::Hash;
use super::packs::{AS_IT_IS, Framing, Stored, ZSTD};
use super::proof::{FramePlace, Node, Proof, Tree};
use super::words::{Bad, CUT_OFF, Input};
use lanefs::format::BLOCK;
use std::sync::Arc;

/// Bytes as they go into a pack.
pub(crate) struct Packed {
    pub(crate) bytes: Vec<u8>,
    pub(crate) codec: u16,
    pub(crate) hash: Hash,
    pub(crate) framing: Framing,
}

/// Compresses bytes, where that makes them fewer.
pub(crate) fn pack(raw: &[u8], level: i32) -> Packed {
    let framing = Framing::None;
    match zstd::bulk::compress(raw, level) {
        Ok(bytes) if bytes.len() < raw.len() => {
            Packed { hash: Hash::of(&bytes), bytes, codec: ZSTD, framing }
        }
        _ => as_it_is(raw),
    }
}

/// Leaves bytes as they are.
pub(crate) fn as_it_is(raw: &[u8]) -> Packed {
    Packed { bytes: raw.to_vec(), codec: AS_IT_IS, hash: Hash::of(raw), framing: Framing::None }
}

/// Compresses the blocks of a piece in frames of a codec of frames. `hashes` are those of the blocks.
pub(crate) fn pack_frames(raw: &[u8], hashes: &[Hash], codec: u16, level: i32) -> Packed {
    let blocks = frame_blocks(codec).unwrap_or(u64::BITS) as usize;
    let frames = raw.chunks(blocks * BLOCK as usize).zip(hashes.chunks(blocks));
    let packed = frames.map(|(raw, hashes)| (pack(raw, level).bytes, Hash::of_hashes(hashes.iter())));
    let (bytes, hash, sizes) = frames::encode(&packed.collect::<Vec<_>>());
    Packed { bytes, codec, hash, framing: Framing::Frames(sizes) }
}

/// True for bytes whose codec this program knows.
pub(crate) fn is_known(codec: u16) -> bool {
    matches!(codec, AS_IT_IS | ZSTD) || frame_blocks(codec).is_some()
}

/// Checks that bytes are those that a reference promises.
pub(crate) fn verify(stored: &Stored, bytes: &[u8]) -> Result<(), Bad> {
    if bytes.len() != stored.bytes as usize {
        return Err("is shorter than it should be");
    }
    let is_same = match stored.framing {
        Framing::None => Hash::of(bytes) == stored.hash,
        Framing::Alone(place) => {
            let (proof, bytes) = split(place, bytes)?;
            proof.hash_of_piece(bytes) == stored.hash
        }
        Framing::Frames(_) => is_whole(stored, &parts(stored, bytes)?),
    };
    if is_same { Ok(()) } else { Err("has other bytes than were published: their hash differs") }
}

/// A frame of a piece.
struct FramePart<'b> {
    frame: Stored,
    /// With the proof.
    all: &'b [u8],
    content: Hash,
    bytes: &'b [u8],
}

/// Splits the stored bytes of a frame into its proof and the others.
fn split(place: FramePlace, bytes: &[u8]) -> Result<(Proof, &[u8]), Bad> {
    let mut input = Input(bytes);
    let proof = Proof::take(place, &mut input)?;
    Ok((proof, input.0))
}

/// The frames of a piece, with their stored bytes.
fn parts<'b>(stored: &Stored, bytes: &'b [u8]) -> Result<Vec<FramePart<'b>>, Bad> {
    let part = |frame: Stored| {
        let at = (frame.offset - stored.offset) as usize;
        let all = bytes.get(at..at + frame.bytes as usize).ok_or(CUT_OFF)?;
        let Framing::Alone(place) = frame.framing else { return Err(CUT_OFF) };
        let (proof, bytes) = split(place, all)?;
        Ok(FramePart { frame, all, content: proof.content, bytes })
    };
    stored.frames()?.into_iter().map(part).collect()
}

/// True where the frames of a piece lead to its hash, and each has the proof of that: a reader of one frame
/// has no other.
fn is_whole(stored: &Stored, parts: &[FramePart<'_>]) -> bool {
    let node = |part: &FramePart<'_>| Node { hash: Hash::of(part.bytes), content: part.content };
    let tree = Tree::over(parts.iter().map(node).collect());
    let mut proofs = parts.iter().enumerate().map(|(number, part)| (tree.proof(number), part.all));
    tree.hash() == Some(stored.hash) && proofs.all(|(proof, bytes)| bytes.starts_with(&proof))
}

/// Decompresses verified bytes. The result has the promised size, which the caller has bounded.
pub(crate) fn unpack(stored: &Stored, bytes: &[u8], buffers: &Arc<Buffers>) -> Result<Buffer, Bad> {
    match stored.framing {
        Framing::None => unpack_plain(stored, bytes, buffers),
        Framing::Frames(_) => unpack_frames(stored, bytes, buffers),
        Framing::Alone(place) => {
            let (proof, bytes) = split(place, bytes)?;
            let mut unpacked = unpack_plain(stored, bytes, buffers)?;
            if Hash::of_hashes(unpacked.hashes().iter()) != proof.content {
                return Err(OTHER_CONTENT);
            }
            unpacked.beside = proof.contents().collect();
            Ok(unpacked)
        }
    }
}

/// The text for a frame that an honest publisher does not write.
const OTHER_CONTENT: Bad = "has a frame with other hashes than those of its blocks";

fn unpack_plain(stored: &Stored, bytes: &[u8], buffers: &Arc<Buffers>) -> Result<Buffer, Bad> {
    let raw = stored.raw as usize;
    let unpacked = match stored.codec {
        AS_IT_IS if bytes.len() == raw => return Ok(buffers.copy(bytes)),
        ZSTD => buffers.decompress(bytes, raw),
        _ => return Err("is stored by a codec that this program does not know"),
    };
    unpacked.ok_or("does not decompress to the bytes that it should")
}

/// Decompresses all frames of a piece, and compares their content with their proofs: a reader of some frames
/// believes these of the others.
fn unpack_frames(stored: &Stored, bytes: &[u8], buffers: &Arc<Buffers>) -> Result<Buffer, Bad> {
    let all = parts(stored, bytes)?;
    let packed = all.iter().map(|part| {
        let Stored { raw, codec, .. } = part.frame;
        Part { bytes: part.bytes, raw: raw as usize, is_compressed: codec == ZSTD }
    });
    let unpacked = buffers.decompress_all(packed, stored.raw as usize);
    let unpacked = unpacked.ok_or("does not decompress to the bytes that it should")?;
    let blocks = frame_blocks(stored.codec).unwrap_or(u64::BITS) as usize;
    let found = unpacked.hashes().chunks(blocks).map(|hashes| Hash::of_hashes(hashes.iter()));
    match all.iter().map(|part| part.content).eq(found) {
        true => Ok(unpacked),
        false => Err(OTHER_CONTENT),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::layout::pack_end;
    use crate::format::packs::PackRef;

    fn stored(packed: &Packed, raw: u32) -> Stored {
        let pack = PackRef { name: packed.hash, bytes: 1 << 20, footer: pack_end::SIZE as u32 };
        let (codec, hash, framing) = (packed.codec, packed.hash, packed.framing);
        Stored { pack, offset: 0, bytes: packed.bytes.len() as u32, raw, codec, hash, framing }
    }

    #[test]
    fn bytes_come_back_and_what_does_not_compress_is_stored_as_it_is() {
        let mut state = 1u64;
        let noise: Vec<u8> = std::iter::repeat_with(|| {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1);
            (state >> 56) as u8
        })
        .take(5000)
        .collect();
        for raw in [vec![7; 9000], noise] {
            let packed = pack(&raw, 3);
            assert!(packed.bytes.len() <= raw.len());
            let stored = stored(&packed, raw.len() as u32);
            assert_eq!(verify(&stored, &packed.bytes), Ok(()));
            let unpacked = unpack(&stored, &packed.bytes, &Arc::default());
            assert_eq!(unpacked.map(|unpacked| unpacked.to_vec()), Ok(raw));
        }
    }

    #[test]
    fn a_decompression_bomb_is_bounded_by_the_promised_size() {
        let packed = pack(&vec![0; 64 << 20], 3);
        let stored = stored(&packed, 256 << 10);
        assert_eq!(verify(&stored, &packed.bytes), Ok(()));
        assert!(unpack(&stored, &packed.bytes, &Arc::default()).is_err());
    }

    #[test]
    fn fewer_bytes_than_promised_are_refused() {
        let packed = pack(&[0; 4096], 3);
        let stored = stored(&packed, 8192);
        assert!(unpack(&stored, &packed.bytes, &Arc::default()).is_err());
    }
}
