//! Parsers of bytes that a store gives, for a fuzzer: with assertions on all that they accept.

use crate::format::frames::{codec_by_size, encode, index_bytes, parse};
use crate::format::hash::Hash;
use crate::format::layout::{MAX_PACK_BYTES, VERSION, WINDOW_BYTES, frame, pack_end};
use crate::format::packs::{PackRef, Stored};
use crate::format::piece::{pack, unpack, verify};
use crate::format::root::Root;
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
    Some(Stored { pack, offset: offset.into(), bytes: 0, raw, codec, hash: Hash([0; 32]) })
}

/// Checks the frames that an index of a piece names: they are the bytes of the piece after the index, each
/// once, and have its blocks together.
fn check_index(piece: &Stored, index: &[u8]) {
    let Ok(found) = parse(piece, index) else { return };
    let mut at = piece.offset + index_bytes(piece);
    for frame in &found {
        assert_eq!(frame.stored.offset, at);
        assert!(frame.stored.bytes > 0 && frame.stored.bytes <= frame.stored.raw);
        at += frame.stored.bytes;
    }
    assert_eq!(at, piece.offset + piece.bytes);
    assert_eq!(found.iter().map(|frame| frame.stored.raw).sum::<u32>(), piece.raw);
}

/// Takes the input as the index of a piece, and then as the stored bytes of its frames, whose hashes are
/// right. Four bytes say what the piece is like; of each frame two bytes are its length.
pub fn frames(data: &[u8]) {
    let Some((piece, rest)) = piece_of(data).zip(data.get(HEAD_BYTES..)) else { return };
    let mut index = rest.to_vec();
    index.resize(index_bytes(&piece) as usize, 0);
    // With a piece as long as the frames say, all else in the index is looked at.
    let lengths = index.chunks_exact(frame::SIZE).filter_map(|entry| frame::STORED.read(entry));
    let sum = lengths.fold(index_bytes(&piece), u32::saturating_add);
    for bytes in [sum, rest.len() as u32] {
        let named = Stored { bytes, hash: Hash::of(&index), ..piece };
        if let Ok(named) = named.checked(WINDOW_BYTES as usize) {
            check_index(&named, &index);
        }
    }
    let (mut stored, mut left) = (Vec::new(), rest);
    for _ in 0..index_bytes(&piece) as usize / frame::SIZE {
        let (length, bytes) = left.split_at(left.len().min(2));
        let length = length.iter().rev().fold(0, |length, byte| length << 8 | usize::from(*byte));
        let (bytes, after) = bytes.split_at(bytes.len().min(length));
        stored.push((bytes.to_vec(), Hash::of(bytes)));
        left = after;
    }
    let (bytes, hash) = encode(&stored);
    let whole = Stored { bytes: bytes.len() as u32, hash, ..piece };
    let Ok(whole) = whole.checked(WINDOW_BYTES as usize) else { return };
    // Where the index is sound, so are the hashes.
    if parse(&whole, &bytes[..index_bytes(&whole) as usize]).is_ok() {
        assert_eq!(verify(&whole, &bytes), Ok(()));
    }
    if verify(&whole, &bytes).is_ok()
        && let Ok(unpacked) = unpack(&whole, &bytes, &Arc::default())
    {
        assert_eq!(unpacked.len(), whole.raw as usize);
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
