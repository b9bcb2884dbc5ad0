//! Structures with random changes are refused, or are as sound as those of an honest publisher.

use crate::condemned::{Condemned, ListState};
use crate::format::facts::Facts;
use crate::format::hash::{Hash, digest};
use crate::format::layout::{
    MAX_PAGE_BYTES, MAX_PIECES, MAX_TAG_ROOT_BYTES, VERSION, WINDOW_BYTES, pack_end, page, tag,
};
use crate::format::pack::{Pack, PackBuilder, PackEnd, parse_footer};
use crate::format::packs::{FrameSizes, Framing, PackRef, Stored, ZSTD};
use crate::format::page::{Page, PageRef, Piece, is_justified, raw_bytes, window_blocks};
use crate::format::piece::{self, Packed};
use crate::format::proof::FramePlace;
use crate::format::root::{Range, Root, Tag};
use crate::format::words::bits;
use lanefs_testkit::seeded::Seeded;

const VOLUME: u64 = 300 << 20;
const ROUNDS: usize = 20_000;

fn mutated(bytes: &[u8], random: &mut Seeded) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    for _ in 0..1 + random.below(3) {
        let at = random.below(bytes.len() as u64) as usize;
        match random.below(6) {
            0 => bytes.truncate(at.max(1)),
            1 => bytes.push(random.bits() as u8),
            2 => {
                let end = bytes.len().min(at + 8);
                bytes[at..end].fill(if random.chance(50) { 0xff } else { 0 });
            }
            _ => bytes[at] ^= 1 << random.below(8),
        }
    }
    bytes
}

fn pack() -> PackRef {
    PackRef { name: Hash::of(b"pack"), bytes: 40 << 20, footer: 100_000 }
}

fn stored(offset: u32, raw: u32) -> Stored {
    let hash = Hash::of(&offset.to_le_bytes());
    Stored { pack: pack(), offset, bytes: 3000, raw, codec: ZSTD, hash, framing: Framing::None }
}

/// The same piece in frames of 500 bytes.
fn in_frames(codec: u16, stored: Stored) -> Stored {
    let mut framed = Stored { codec, ..stored };
    let count = framed.frame_count() as u8;
    if count > 0 {
        let proof = |number| FramePlace { number, count }.proof_bytes();
        framed.bytes = (0..count).map(|number| proof(number) + 500).sum();
        framed.framing = Framing::Frames(FrameSizes::of(vec![500; count.into()].into_iter()));
    }
    framed
}

fn assert_sound(stored: &Stored, most: u64) {
    assert!(stored.bytes > 0 && u64::from(stored.raw) <= most, "{stored:?}");
    if stored.frame_count() == 0 {
        assert!(stored.bytes <= stored.raw, "{stored:?}");
        assert_eq!(stored.framing, Framing::None);
    } else {
        let frames = stored.frames().expect("frames that add up");
        assert_eq!(frames.iter().map(|frame| frame.raw).sum::<u32>(), stored.raw);
        let ends = frames.iter().map(|frame| frame.offset + frame.bytes);
        let begins = frames.iter().map(|frame| frame.offset).skip(1);
        assert!(begins.chain([stored.offset + stored.bytes]).eq(ends), "{stored:?}");
    }
    let end = u64::from(stored.offset) + u64::from(stored.bytes);
    assert!(end + u64::from(stored.pack.footer) <= stored.pack.bytes, "{stored:?}");
}

fn leaf() -> Page {
    let piece = |window: u64, taken: u64, blocks: u64| Piece {
        window,
        is_metadata: window.is_multiple_of(3),
        taken,
        blocks,
        borrowed: None,
        stored: stored(window as u32 * 5000, raw_bytes(blocks)),
        content: Some(Hash::of(&window.to_le_bytes())),
    };
    let mut pieces: Vec<Piece> = (0..20).map(|window| piece(window, 0xff00, 0xffff)).collect();
    pieces.insert(0, piece(0, 0xf, 0xf));
    // Blocks of other windows' pieces.
    pieces.push(Piece { borrowed: Some(3), ..piece(20, 0xff << 40, 0xf00f_00ff) });
    pieces.push(Piece { borrowed: Some(0), ..piece(20, 1, 1 << 63) });
    // Pieces in frames.
    for (window, codec) in [(21, 2), (22, 3)] {
        let whole = piece(window, 0xff, u64::MAX);
        pieces.push(Piece { stored: in_frames(codec, whole.stored), ..whole });
    }
    Page::Leaf(pieces)
}

#[test]
fn leaf_pages_are_sound() {
    let honest = leaf().encode(0, 0);
    assert_eq!(Page::parse(&honest, VERSION, 0, 0, VOLUME), Ok(leaf()));
    let mut random = Seeded::new(1);
    let mut accepted = 0;
    for _ in 0..ROUNDS {
        let Ok(Page::Leaf(pieces)) = Page::parse(&mutated(&honest, &mut random), VERSION, 0, 0, VOLUME)
        else {
            continue;
        };
        accepted += 1;
        for piece in &pieces {
            assert_sound(&piece.stored, WINDOW_BYTES);
            assert_eq!(piece.stored.raw, raw_bytes(piece.blocks));
            assert_eq!(piece.taken & !window_blocks(piece.window, VOLUME), 0);
            assert!(piece.borrowed.is_some() || piece.taken & !piece.blocks == 0);
            let ranks = bits(piece.taken).map(|block| piece.rank(block));
            assert!(ranks.is_sorted_by(|a, b| a < b));
            assert!(bits(piece.taken).all(|block| piece.rank(block) < piece.blocks.count_ones() as usize));
        }
        for of_window in pieces.chunk_by(|a, b| a.window == b.window) {
            let blocks: u32 = of_window.iter().map(|piece| piece.taken.count_ones()).sum();
            let taken = of_window.iter().fold(0, |taken, piece| taken | piece.taken);
            assert_eq!(blocks, taken.count_ones(), "a block is taken twice");
            assert!(of_window.len() <= MAX_PIECES);
        }
        assert!(pieces.is_sorted_by_key(|piece| piece.window));
    }
    assert!(accepted > ROUNDS / 20, "{accepted}");
    let short = Page::parse(&honest[..honest.len() - 2], VERSION, 0, 0, VOLUME);
    assert_eq!(short, Err("is cut off"), "sizes of frames are missing");
}

#[test]
fn versions_before_frames_have_no_piece_in_frames() {
    let refused = "has a piece in frames, which its version of the format does not have";
    let in_version_3 = |bytes: &[u8], at: usize| [&bytes[..at], &[3, 0, 0, 0], &bytes[at + 4..]].concat();
    for codec in 0..5 {
        let of_codec = |mut piece: Piece| {
            let plain = Stored { codec, bytes: piece.stored.raw, framing: Framing::None, ..piece.stored };
            piece.stored = in_frames(codec, plain);
            piece
        };
        let Page::Leaf(pieces) = leaf() else { return };
        let page = Page::Leaf(pieces.into_iter().map(of_codec).collect()).encode(0, 0);
        assert!(Page::parse(&page, VERSION, 0, 0, VOLUME).is_ok());
        let old = Page::parse(&in_version_3(&page, page::VERSION.offset), 3, 0, 0, VOLUME);
        assert_eq!(old.err(), (codec >= 2).then_some(refused), "codec {codec}");

        let mut builder = PackBuilder::new([9; 16]);
        let bytes = vec![7; 8192 + 32];
        let framing = if codec < 2 { Framing::None } else { Framing::Frames(FrameSizes::default()) };
        let packed = Packed { hash: Hash::of(&bytes), bytes, codec, framing };
        builder.add_piece(1, 0x11, vec![digest(b"a"), digest(b"b")], &packed);
        let Pack { name, bytes } = builder.finish();
        let footer = &bytes[bytes.len() - name.footer as usize..];
        let version = footer.len() - pack_end::SIZE + pack_end::VERSION.offset;
        let entries = parse_footer(&name, footer).map(|entries| entries.len());
        let old = parse_footer(&name, &in_version_3(footer, version)).map(|entries| entries.len());
        assert_eq!(old, if codec >= 2 { Err(refused) } else { entries }, "codec {codec}");
    }
}

#[test]
fn pages_of_zeros_are_far_from_the_bound_and_a_bomb_is_beyond_it() {
    // Windows of zeros: all pieces have one hash, one content and one size.
    let piece = |window: u64| {
        let stored =
            Stored { hash: Hash([7; 32]), bytes: 30, ..stored(window as u32 * 30, raw_bytes(u64::MAX)) };
        let (taken, blocks, content) = (u64::MAX, u64::MAX, Some(Hash([8; 32])));
        Piece { window, is_metadata: false, taken, blocks, borrowed: None, stored, content }
    };
    let raw = Page::Leaf((0..1024).map(piece).collect()).encode(0, 0);
    let packed = piece::pack(&raw, 19);
    assert!(is_justified(2 * packed.bytes.len() as u32, 2 * raw.len() as u32));
    let ratio = raw.len() / packed.bytes.len();
    assert!(ratio < 128, "{ratio}");
    let bomb = Stored { bytes: 100, ..stored(9000, 1 << 20) };
    let root = Root { pages: vec![PageRef { number: 0, stored: bomb }], ..root() };
    assert_eq!(
        Root::parse(&root.encode()),
        Err("refers to a page that is far larger than its stored bytes allow")
    );
}

fn root() -> Root {
    let pages = (0..2).map(|number| PageRef { number, stored: stored(number as u32 * 9000, 20_000) });
    let facts = Facts {
        uuid: [7; 16],
        volume_bytes: VOLUME,
        sequence: 5,
        blocks: 100,
        metadata_bytes: 2000,
        data_bytes: 50_000,
    };
    let ranges = vec![Range { pack: pack(), offset: 100, bytes: 70_000 }];
    Root { format: VERSION, facts, level: 0, pages: pages.collect(), ranges, join: None }
}

#[test]
fn roots_and_inner_pages_are_sound() {
    let honest = root().encode();
    assert_eq!(Root::parse(&honest), Ok(root()));
    let inner = Page::Inner(root().pages);
    let page = inner.encode(1, 0);
    assert_eq!(Page::parse(&page, VERSION, 1, 0, VOLUME), Ok(inner));
    let mut random = Seeded::new(2);
    let mut accepted = 0;
    for _ in 0..ROUNDS {
        if let Ok(root) = Root::parse(&mutated(&honest, &mut random)) {
            accepted += 1;
            root.pages.iter().for_each(|page| assert_sound(&page.stored, MAX_PAGE_BYTES as u64));
            for range in &root.ranges {
                assert!(range.pack.contains(range.offset, range.bytes).is_ok());
            }
        }
        if let Ok(Page::Inner(refs)) = Page::parse(&mutated(&page, &mut random), VERSION, 1, 0, VOLUME) {
            refs.iter().for_each(|page| assert_sound(&page.stored, MAX_PAGE_BYTES as u64));
            assert!(refs.is_sorted_by(|a, b| a.number < b.number));
        }
    }
    assert!(accepted > ROUNDS / 20, "{accepted}");
}

#[test]
fn a_changed_tag_is_refused() {
    let root = [7; 300];
    let tag = Tag { version: Hash::of(&root), root_bytes: 300, uuid: [3; 16], published: -5 };
    let honest = tag.encode(&root);
    assert_eq!(Tag::parse(&honest), Ok((tag, Some(&root[..]))));
    assert_eq!(Tag::parse(&honest[..tag::SIZE]), Ok((tag, None)));
    let mut random = Seeded::new(3);
    for _ in 0..ROUNDS {
        let bytes = mutated(&honest, &mut random);
        // The root is verified when it is used.
        let is_tag = bytes.starts_with(&honest[..tag::SIZE]);
        let is_length = bytes.len() == honest.len() || bytes.len() == tag::SIZE;
        assert_eq!(Tag::parse(&bytes).is_ok(), is_tag && is_length);
    }
    let large = vec![7; MAX_TAG_ROOT_BYTES + 1];
    let of_large = Tag { root_bytes: large.len() as u32, ..tag };
    assert_eq!(of_large.encode(&large).len(), tag::SIZE);
}

#[test]
fn footers_are_sound() {
    let mut builder = PackBuilder::new([9; 16]);
    for window in 0..10 {
        let packed = piece::pack(&[window as u8; 8192], 1);
        builder.add_piece(window, 0x11, vec![digest(b"a"), digest(b"b")], &packed);
    }
    let Pack { name, bytes } = builder.finish();
    let honest = &bytes[bytes.len() - name.footer as usize..];
    assert_eq!(Hash::of(honest), name.name);
    assert_eq!(parse_footer(&name, honest).map(|entries| entries.len()), Ok(10));
    let mut random = Seeded::new(4);
    for _ in 0..ROUNDS {
        let bytes = mutated(honest, &mut random);
        for entry in parse_footer(&name, &bytes).into_iter().flatten() {
            assert_sound(&entry.stored(name), WINDOW_BYTES);
            assert_eq!(entry.digests.len(), entry.blocks.count_ones() as usize);
        }
        let _ = PackEnd::parse(&bytes);
    }
}

#[test]
fn lists_of_condemned_objects_are_whole_or_refused() {
    let hashes = |count: u8| (0..count).map(|number| Hash::of(&[number])).collect();
    let (state, since, grace) = (ListState::Deleting, -5, u64::MAX);
    let (versions, packs) = (hashes(3), hashes(40));
    let list = Condemned { state, sequence: u64::MAX, since, grace, writer: [7; 16], versions, packs };
    let honest = list.encode();
    assert_eq!(Condemned::parse(&honest).as_ref(), Ok(&list));
    assert_eq!(list.due(), i64::MAX);
    let mut random = Seeded::new(5);
    for _ in 0..ROUNDS {
        let bytes = mutated(&honest, &mut random);
        assert!(Condemned::parse(&bytes).is_err() || bytes == honest);
    }
}
