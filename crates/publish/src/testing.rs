//! Parsers of bytes that a store gives, for a fuzzer: with assertions on all that they accept.

use crate::format::frames::{codec_by_size, encode};
use crate::format::hash::Hash;
use crate::format::layout::{MAX_PACK_BYTES, VERSION, WINDOW_BYTES, pack_end};
use crate::format::packs::{FrameSizes, Framing, PackRef, Stored};
use crate::format::piece::{pack, unpack, verify};
use crate::format::root::Root;
use crate::format::words::Input;
use lanefs::format::BLOCK;
use std::sync::Arc;

/// Bytes of the head of an input of [`frames`].
const HEAD_BYTES: usize = 4;
/// Bytes of the smallest frames.
const MIN_FRAME_BYTES: u32 = 16 << 10;

/// A piece in frames of a size, with so many blocks, that has no bytes yet.
fn piece_of(head: &[u8]) -> Option<Stored> {
    let [size, blocks, offset, _] = *head.first_chunk::<HEAD_BYTES>()?;
    let codec = codec_by_size(MIN_FRAME_BYTES << (size % 3))?;
    let raw = (u32::from(blocks % 64) + 1) * BLOCK as u32;
    let pack = PackRef { name: Hash([0; 32]), bytes: MAX_PACK_BYTES, footer: pack_end::SIZE as u32 };
    let (hash, framing) = (Hash([0; 32]), Framing::None);
    Some(Stored { pack, offset: offset.into(), bytes: 0, raw, codec, hash, framing })
}

/// Checks the frames of a reference with these sizes: they are the bytes of the piece, each once, and have
/// its blocks together. A frame whose bytes are anything is refused, or becomes its blocks.
fn check_frames(piece: &Stored, bytes: &[u8]) {
    let Ok(found) = piece.checked(WINDOW_BYTES as usize).and_then(|piece| piece.frames()) else { return };
    let mut at = piece.offset;
    for frame in &found {
        assert_eq!(frame.offset, at);
        assert!(frame.bytes > 0 && frame.raw <= piece.raw);
        at += frame.bytes;
        if let Ok(unpacked) = unpack(frame, bytes, &Arc::default()) {
            assert_eq!(unpacked.len(), frame.raw as usize);
        }
    }
    assert_eq!(at, piece.offset + piece.bytes);
    assert_eq!(found.iter().map(|frame| frame.raw).sum::<u32>(), piece.raw);
}

/// Takes the input as the sizes of the frames of a piece with their bytes, and then as the stored bytes of
/// its frames, whose proofs are right. Four bytes say what the piece is like; of each frame two bytes are its
/// length.
pub fn frames(data: &[u8]) {
    let Some((piece, rest)) = piece_of(data).zip(data.get(HEAD_BYTES..)) else { return };
    let mut input = Input(rest);
    if let Ok(framing) = FrameSizes::take(piece.frame_count(), &mut input) {
        for bytes in [input.0.len() as u32, piece.raw, u32::MAX] {
            check_frames(&Stored { bytes, framing, ..piece }, input.0);
        }
    }
    let (mut stored, mut left) = (Vec::new(), rest);
    for _ in 0..piece.frame_count() {
        let (length, bytes) = left.split_at(left.len().min(2));
        let length = length.iter().rev().fold(0, |length, byte| length << 8 | usize::from(*byte));
        let (bytes, after) = bytes.split_at(bytes.len().min(length));
        stored.push((bytes.to_vec(), Hash::of(bytes)));
        left = after;
    }
    let (bytes, hash, sizes) = encode(&stored);
    let whole = Stored { bytes: bytes.len() as u32, hash, framing: Framing::Frames(sizes), ..piece };
    // Where the sizes are sound, so are the proofs.
    let Ok(whole) = whole.checked(WINDOW_BYTES as usize) else { return };
    assert_eq!(verify(&whole, &bytes), Ok(()));
    if let Ok(unpacked) = unpack(&whole, &bytes, &Arc::default()) {
        assert_eq!(unpacked.len(), whole.raw as usize);
    }
    for frame in whole.frames().unwrap_or_default() {
        let at = (frame.offset - whole.offset) as usize;
        let mut own = bytes[at..at + frame.bytes as usize].to_vec();
        assert_eq!(verify(&frame, &own), Ok(()));
        if let Ok(unpacked) = unpack(&frame, &own, &Arc::default()) {
            assert_eq!(unpacked.len(), frame.raw as usize);
        }
        let changed = usize::from(data[HEAD_BYTES - 1]) * own.len() / 256;
        own[changed] ^= 1;
        assert!(verify(&frame, &own).is_err());
    }
}

/// Returns an input of [`frames`] with compressed blocks.
pub fn frames_seed() -> Vec<u8> {
    let raw: Vec<u8> = (0..8 * BLOCK as u32).map(|at| (at >> 7) as u8).collect();
    let mut seed = vec![0, 7, 9, 0];
    for blocks in raw.chunks(MIN_FRAME_BYTES as usize) {
        let packed = pack(blocks, 3);
        seed.extend_from_slice(&(packed.bytes.len() as u16).to_le_bytes());
        seed.extend_from_slice(&packed.bytes);
    }
    seed
}

/// Takes the input as a root, also that of a join. A join that is accepted has shards that do not overlap,
/// and a superblock.
pub fn root(data: &[u8]) {
    let Ok(root) = Root::parse(data) else { return };
    if root.format == VERSION {
        assert_eq!(Root::parse(&root.encode()).as_ref(), Ok(&root));
    }
    let Some(join) = &root.join else { return };
    let superblock = join.superblock(&root.facts);
    assert_eq!(superblock.volume_bytes, root.facts.volume_bytes);
    let mut shards: Vec<_> = join.shards.iter().collect();
    shards.sort_by_key(|shard| shard.base);
    assert!(shards.windows(2).all(|pair| pair[0].end() <= pair[1].base));
    assert!(shards.iter().all(|shard| shard.end() <= superblock.groups));
    let aliases: usize = join.aliases().iter().map(Vec::len).sum();
    assert_eq!(aliases + 1, join.shards.len());
    for shard in &join.shards {
        assert!(join.joined_inode(shard, shard.root) < superblock.volume_bytes / join.inode_size.bytes());
    }
}
