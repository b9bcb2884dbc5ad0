//! Pieces in frames, read and written as `docs/publication.md` has them, without the code of the library.

use lanefs_publish::Hash;

/// A frame of a piece, as its stored bytes have it.
pub(super) struct Frame {
    pub(super) bytes: Vec<u8>,
    /// The hash of the bytes, and the content, as the tree of the piece has them.
    pub(super) hash: Hash,
    pub(super) content: Hash,
    /// The size as the reference has it.
    pub(super) stored: usize,
    /// Bytes after decompression; those of the last frame may be fewer.
    pub(super) raw: usize,
    /// Changes the proof.
    pub(super) wrong_proof: Option<usize>,
}

impl Frame {
    /// Compresses blocks.
    pub(super) fn packed(raw: &[u8]) -> Frame {
        let bytes = zstd::bulk::compress(raw, 1).expect("it compresses");
        let bytes = if bytes.len() < raw.len() { bytes } else { raw.to_vec() };
        let (hash, content) = (Hash::of(&bytes), hash_of_blocks(raw));
        Frame { hash, content, stored: bytes.len(), bytes, raw: raw.len(), wrong_proof: None }
    }

    pub(super) fn unpacked(&self) -> Vec<u8> {
        let raw = zstd::bulk::decompress(&self.bytes, self.raw);
        if self.bytes.len() == self.raw { self.bytes.clone() } else { raw.expect("it decompresses") }
    }

    /// Replaces the stored bytes, with the right hash.
    pub(super) fn set(&mut self, bytes: &[u8]) {
        self.bytes = bytes.to_vec();
        (self.stored, self.hash) = (bytes.len(), Hash::of(bytes));
    }
}

/// The hash of hashes.
fn hash_of(hashes: &[Hash]) -> Hash {
    Hash::of(&hashes.iter().flat_map(|hash| hash.0).collect::<Vec<u8>>())
}

/// The hash of the hashes of blocks.
fn hash_of_blocks(raw: &[u8]) -> Hash {
    hash_of(&raw.chunks(4096).map(Hash::of).collect::<Vec<Hash>>())
}

/// Bytes of the frames of a codec.
pub(super) fn frame_bytes(codec: u8) -> usize {
    4096 << codec
}

/// The levels of the tree over some frames, from these up: of each node both hashes.
fn tree_of(frames: &[Frame]) -> Vec<Vec<[Hash; 2]>> {
    let mut levels: Vec<Vec<[Hash; 2]>> = vec![frames.iter().map(|one| [one.hash, one.content]).collect()];
    while levels[levels.len() - 1].len() > 1 {
        let above = |pair: &[[Hash; 2]]| match pair {
            [left, right] => [hash_of(&[*left, *right].concat()), hash_of(&[left[1], right[1]])],
            alone => alone[0],
        };
        let next = levels[levels.len() - 1].chunks(2).map(above).collect();
        levels.push(next);
    }
    levels
}

/// The proof of a frame, and the hash of the piece.
fn proof_of(frames: &[Frame], number: usize) -> (Vec<u8>, Hash) {
    let (tree, mut proof) = (tree_of(frames), frames[number].content.0.to_vec());
    for (level, nodes) in tree[..tree.len() - 1].iter().enumerate() {
        let beside = nodes.get(number >> level ^ 1);
        proof.extend(beside.into_iter().flatten().flat_map(|hash| hash.0));
    }
    (proof, hash_of(&tree[tree.len() - 1][0]))
}

/// Reads a piece in frames as `docs/publication.md` has it: `sizes` are those of the frames but for the last
/// one, less one. Checks all proofs.
pub(super) fn frames_of(bytes: &[u8], codec: u8, blocks: usize, sizes: &[u16], piece: Hash) -> Vec<Frame> {
    let count = (blocks * 4096).div_ceil(frame_bytes(codec));
    let (mut at, mut left, mut proofs) = (0, blocks * 4096, Vec::new());
    let frame = |number: usize| {
        let levels = (0..usize::BITS).take_while(|level| 1 << level < count);
        let beside = levels.filter(|level| (number >> level ^ 1) << level < count).count();
        let (proof, rest) = bytes[at..].split_at(32 + 64 * beside);
        let stored = if number + 1 == count { rest.len() } else { usize::from(sizes[number]) + 1 };
        let (own, raw) = (rest[..stored].to_vec(), left.min(frame_bytes(codec)));
        proofs.push(proof.to_vec());
        (at, left) = (at + proof.len() + stored, left - raw);
        let content = Hash(proof[..32].try_into().expect("a hash"));
        let frame = Frame { hash: Hash::of(&own), bytes: own, content, stored, raw, wrong_proof: None };
        assert_eq!(frame.content, hash_of_blocks(&frame.unpacked()));
        frame
    };
    let frames: Vec<Frame> = (0..count).map(frame).collect();
    assert_eq!((at, left), (bytes.len(), 0), "frames end with the piece");
    for (number, proof) in proofs.into_iter().enumerate() {
        assert_eq!(proof_of(&frames, number), (proof, piece));
    }
    frames
}

/// The stored bytes of a piece, its hash, and the sizes of its frames.
pub(super) fn in_frames(frames: &[Frame]) -> (Vec<u8>, Hash, Vec<u16>) {
    let mut bytes = Vec::new();
    for (number, frame) in frames.iter().enumerate() {
        let (mut proof, _) = proof_of(frames, number);
        frame.wrong_proof.into_iter().for_each(|at| proof[at] ^= 1);
        bytes.extend([&proof[..], &frame.bytes].concat());
    }
    let sizes = frames[..frames.len() - 1].iter().map(|frame| frame.stored.wrapping_sub(1) as u16);
    (bytes, proof_of(frames, 0).1, sizes.collect())
}

/// Takes the sizes of the frames of a piece with so many blocks from those of all pieces.
pub(super) fn take_sizes(all: &mut &[u8], codec: u8, blocks: usize) -> Vec<u16> {
    if codec < 2 {
        return Vec::new();
    }
    let count = (blocks * 4096).div_ceil(frame_bytes(codec)) - 1;
    let (own, rest) = all.split_at(2 * count);
    *all = rest;
    own.chunks(2).map(|size| u16::from_le_bytes([size[0], size[1]])).collect()
}

/// The hash that binds the blocks that are taken from a piece.
pub(super) fn bind(taken: u64, blocks: u64, raw: &[u8], codec: u8) -> Hash {
    let rank = |bit: u32| (blocks & ((1 << bit) - 1)).count_ones() as usize;
    let taken: Vec<usize> = (0..64).filter(|bit| taken >> bit & 1 != 0).map(rank).collect();
    let of = |ranks: &[usize]| {
        let hashes = ranks.iter().flat_map(|rank| Hash::of(&raw[rank * 4096..][..4096]).0);
        Hash::of(&hashes.collect::<Vec<u8>>())
    };
    if codec < 2 {
        return of(&taken);
    }
    let frame = |rank: &usize| rank * 4096 / frame_bytes(codec);
    let mut level: Vec<Option<Hash>> = vec![None; 16];
    taken.chunk_by(|a, b| frame(a) == frame(b)).for_each(|ranks| level[frame(&ranks[0])] = Some(of(ranks)));
    while level.len() > 1 {
        let above = |pair: &[Option<Hash>]| match pair {
            [Some(left), Some(right)] => Some(hash_of(&[*left, *right])),
            pair => pair[0].or(pair[1]),
        };
        level = level.chunks(2).map(above).collect();
    }
    level[0].expect("a block is taken")
}
