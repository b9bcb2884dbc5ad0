//! Pages of a manifest: leaf pages refer to the pieces of windows, the pages above them to pages.

use super::buffers::Buffer;
use super::frames::{self, by_frame, frame_blocks};
use super::hash::Hash;
use super::layout::{
    FANOUT, MAX_LEVEL, MAX_PAGE_BYTES, MAX_PAGE_RATIO, MAX_PIECES, PAGE_FLOOR, PAGE_MAGIC, UNBOUND, VERSION,
    WINDOW_BYTES, page, page_ref, piece_ref, size_of_piece,
};
use super::packs::{self, FrameSizes, Framing, PackList, Stored};
use super::proof::{TreePlace, content_above};
use super::words::{Bad, CUT_OFF, Input, append, bits, check, get, rank};
use lanefs::format::BLOCK;
use std::sync::Arc;

/// Bits of `FLAGS`: the window has metadata; it borrows blocks of the piece of another one, from a rank on.
const METADATA: u16 = 1;
const BORROWED: u16 = 2;
const FIRST_SHIFT: u32 = 8;

/// A piece of a window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Piece {
    /// Number of the window on the volume.
    pub(crate) window: u64,
    pub(crate) is_metadata: bool,
    /// Blocks of the window that are read from this piece.
    pub(crate) taken: u64,
    /// Blocks that the piece has, of its own window.
    pub(crate) blocks: u64,
    /// Rank in the piece of the first block that is taken, where the piece is of another window. The other
    /// blocks follow it.
    pub(crate) borrowed: Option<u8>,
    pub(crate) stored: Stored,
    /// Hash of the hashes of the blocks that are taken, as their publisher saw them; `None` in version 2.
    pub(crate) content: Option<Hash>,
}

/// The promise of a reference on the content of its piece: the blocks with these ranks in it have hashes with
/// this hash.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Promise {
    ranks: u64,
    codec: u16,
    content: Option<Hash>,
}

impl Promise {
    /// Checks the blocks of a piece.
    pub(crate) fn check(&self, piece: &Buffer) -> Result<(), Bad> {
        let Some(content) = self.content else { return Ok(()) };
        let hashes = piece.hashes();
        let ranks = bits(self.ranks).map(|rank| rank as usize);
        let taken = ranks.filter_map(|rank| Some((rank, *hashes.get(rank)?)));
        is_same(frames::bind(self.codec, taken), content)
    }
}

/// The tree of the frames of a piece of which some blocks are taken.
struct TakenTree {
    frame_blocks: u32,
    /// Ranks of the blocks that are taken, and of all blocks of the piece.
    taken: u64,
    all: u64,
}

impl TakenTree {
    /// The place of the root, for any number of frames.
    fn root(&self) -> TreePlace {
        ((u64::BITS / self.frame_blocks).trailing_zeros(), 0)
    }

    fn below((level, index): TreePlace) -> [TreePlace; 2] {
        [(level - 1, index * 2), (level - 1, index * 2 + 1)]
    }

    /// The ranks of the blocks that are taken below a node, and whether these are all that it has.
    fn taken(&self, (level, index): TreePlace) -> (u64, bool) {
        let count = self.frame_blocks << level;
        let ranks = if count >= u64::BITS { u64::MAX } else { ((1 << count) - 1) << (index * count) };
        (self.taken & ranks, (self.taken ^ self.all) & ranks == 0)
    }

    /// Adds to some frames (bit i: frame i) those without which the content of a node is not known: each
    /// frame of which a part is taken, and one for a neighbour's content where nothing near it is read.
    fn complete(&self, node: TreePlace, frames: u64) -> u64 {
        let (taken, is_whole) = self.taken(node);
        if taken == 0 || is_whole {
            return frames;
        }
        if node.0 == 0 {
            return frames | 1 << node.1;
        }
        let frames = Self::below(node).into_iter().fold(frames, |frames, below| self.complete(below, frames));
        let (first, count) = (node.1 << node.0, 1u32 << node.0);
        let own = if count >= u64::BITS { u64::MAX } else { ((1 << count) - 1) << first };
        match frames & own {
            0 => frames | 1 << (taken.trailing_zeros() / self.frame_blocks),
            _ => frames,
        }
    }

    /// The content of a node by the frames that are here; `None` where nothing below it is taken.
    fn content(&self, node: TreePlace, here: &[Option<Arc<Buffer>>]) -> Result<Option<Hash>, Bad> {
        let (taken, is_whole) = self.taken(node);
        if taken == 0 {
            return Ok(None);
        }
        if let (0, Some(Some(frame))) = (node.0, here.get(node.1 as usize)) {
            let (first, hashes) = (node.1 * self.frame_blocks, frame.hashes());
            let taken = bits(taken).filter_map(|rank| hashes.get((rank - first) as usize));
            return Ok(Some(Hash::of_hashes(taken)));
        }
        let mut beside = here.iter().flatten().flat_map(|frame| &frame.beside);
        if is_whole && let Some((_, content)) = beside.find(|(at, _)| *at == node) {
            return Ok(Some(*content));
        }
        if node.0 == 0 {
            return Err("cannot be checked by the frames that were read");
        }
        let [left, right] = Self::below(node);
        Ok(content_above(self.content(left, here)?, self.content(right, here)?))
    }
}

/// The ranks of all blocks of a piece.
fn ranks_of(blocks: u64) -> u64 {
    match blocks.count_ones() {
        64.. => u64::MAX,
        count => (1 << count) - 1,
    }
}

fn is_same(found: Hash, content: Hash) -> Result<(), Bad> {
    match found == content {
        true => Ok(()),
        false => Err("has other content than its publisher saw, though the bytes are those of its hash"),
    }
}

impl Piece {
    /// The promise of the reference.
    pub(crate) fn promise(&self) -> Promise {
        Promise { ranks: self.ranks(self.taken), codec: self.stored.codec, content: self.content }
    }

    /// The ranks of those of some blocks of the window that are taken.
    pub(crate) fn ranks(&self, blocks: u64) -> u64 {
        bits(self.taken & blocks).fold(0, |ranks, block| ranks | 1 << self.rank(block))
    }

    fn taken_tree(&self) -> Option<TakenTree> {
        let frame_blocks = frame_blocks(self.stored.codec)?;
        Some(TakenTree { frame_blocks, taken: self.ranks(self.taken), all: ranks_of(self.blocks) })
    }

    /// The frames that hold some blocks of the window, with those that their check needs (bit i: frame i); 0
    /// for a piece without frames.
    pub(crate) fn frames(&self, blocks: u64) -> u64 {
        let Some(tree) = self.taken_tree() else { return 0 };
        let wanted = by_frame(self.ranks(blocks), tree.frame_blocks);
        let wanted = wanted.fold(0, |frames, (number, _)| frames | 1 << number);
        tree.complete(tree.root(), wanted)
    }

    /// Checks those frames of the piece that are here, which lead to its hash. Of a frame that is not here,
    /// and of which all blocks are promised, their proofs have the content.
    pub(crate) fn check_frames(&self, here: &[Option<Arc<Buffer>>]) -> Result<(), Bad> {
        let Some((content, tree)) = self.content.zip(self.taken_tree()) else { return Ok(()) };
        match tree.content(tree.root(), here)? {
            Some(found) => is_same(found, content),
            None => Err("takes blocks that a piece does not have"),
        }
    }

    /// Checks that the piece has the content that its publisher saw.
    pub(crate) fn check(&self, piece: &Buffer) -> Result<(), Bad> {
        self.promise().check(piece)
    }

    /// Returns the place of a block that is taken among those of the piece.
    pub(crate) fn rank(&self, block: u32) -> usize {
        match self.borrowed {
            None => rank(self.blocks, block),
            Some(first) => usize::from(first) + rank(self.taken, block),
        }
    }
}

/// A reference to a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PageRef {
    /// Number among the pages of its level.
    pub(crate) number: u64,
    pub(crate) stored: Stored,
}

/// A page.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Page {
    /// Pieces, by window.
    Leaf(Vec<Piece>),
    /// Pages of the level below, by number.
    Inner(Vec<PageRef>),
}

/// Number of windows that a page of a level covers.
pub(crate) fn windows(level: u32) -> u64 {
    FANOUT.pow(level + 1)
}

/// Level of the pages that the root of a volume names.
pub(crate) fn top_level(volume_bytes: u64) -> u32 {
    let count = volume_bytes.div_ceil(WINDOW_BYTES);
    (0..MAX_LEVEL).find(|level| count <= windows(*level) * FANOUT).unwrap_or(MAX_LEVEL)
}

impl Page {
    /// Parses page `number` of `level` of a volume. It has the version of its root: all pages of a version
    /// bind contents, or none of them.
    pub(crate) fn parse(
        bytes: &[u8],
        version: u32,
        level: u32,
        number: u64,
        volume_bytes: u64,
    ) -> Result<Page, Bad> {
        let mut input = Input(bytes);
        let head = input.take(page::SIZE)?;
        if check(head, PAGE_MAGIC, "is not a page of a manifest")? != version {
            return Err("has another version of the publication format than its root");
        }
        if get(page::LEVEL, head)? != level || get(page::NUMBER, head)? != number {
            return Err("is another page of the manifest");
        }
        let packs = packs::parse(&mut input, get(page::PACKS, head)?)?;
        let count = get(page::COUNT, head)?;
        let parsed = match level {
            0 => Page::Leaf(parse_pieces(&mut input, count, version, &packs, number, volume_bytes)?),
            _ => Page::Inner(parse_refs(&mut input, count, version, &packs, number)?),
        };
        input.end()?;
        Ok(parsed)
    }

    /// Returns the bytes of a page.
    pub(crate) fn encode(&self, level: u32, number: u64) -> Vec<u8> {
        let (mut list, mut tail) = (PackList::default(), Vec::new());
        let count = match self {
            Page::Leaf(pieces) => {
                debug_assert!(pieces.is_sorted_by_key(|piece| piece.window), "windows ascend");
                pieces.iter().for_each(|piece| append_piece(&mut tail, piece, &mut list));
                let framed = pieces.iter().map(|piece| (piece.stored.frame_count(), piece.stored.framing));
                framed.for_each(|(count, framing)| FrameSizes::append(count, framing, &mut tail));
                pieces.len()
            }
            Page::Inner(refs) => {
                debug_assert!(refs.is_sorted_by(|a, b| a.number < b.number), "pages ascend");
                refs.iter().for_each(|page| append_ref(&mut tail, page, &mut list));
                refs.len()
            }
        };
        let mut bytes = Vec::new();
        append(&mut bytes, page::SIZE, |head| {
            page::MAGIC.write(head, PAGE_MAGIC);
            page::VERSION.write(head, VERSION);
            page::LEVEL.write(head, level);
            page::NUMBER.write(head, number);
            page::PACKS.write(head, list.len());
            page::COUNT.write(head, count as u32);
        });
        list.append_to(&mut bytes);
        bytes.extend(tail);
        bytes
    }

    /// Bytes of memory that it takes.
    pub(crate) fn memory(&self) -> u64 {
        let bytes = match self {
            Page::Leaf(pieces) => size_of_val(&pieces[..]),
            Page::Inner(refs) => size_of_val(&refs[..]),
        };
        (bytes + size_of::<Page>()) as u64
    }

    /// Returns the pieces of a window; none in a page that is not a leaf.
    pub(crate) fn pieces(&self, window: u64) -> &[Piece] {
        let Page::Leaf(pieces) = self else { return &[] };
        let first = pieces.partition_point(|piece| piece.window < window);
        let count = pieces[first..].iter().take_while(|piece| piece.window == window).count();
        &pieces[first..first + count]
    }

    /// Returns the reference to page `number` of the level below, where there is one.
    pub(crate) fn page(&self, number: u64) -> Option<&PageRef> {
        let Page::Inner(refs) = self else { return None };
        find(refs, number)
    }
}

/// Finds a page in a list by number.
pub(crate) fn find(refs: &[PageRef], number: u64) -> Option<&PageRef> {
    refs.binary_search_by_key(&number, |page| page.number).ok().map(|found| &refs[found])
}

fn parse_pieces(
    input: &mut Input<'_>,
    count: u32,
    version: u32,
    packs: &[packs::PackRef],
    number: u64,
    volume_bytes: u64,
) -> Result<Vec<Piece>, Bad> {
    let list = input.list(count, size_of_piece(version))?;
    let mut pieces: Vec<Piece> = Vec::with_capacity(list.len());
    for bytes in list {
        let piece = parse_piece(bytes, packs, number, volume_bytes)?;
        packs::check_codec(version, piece.stored.codec)?;
        check_order(&pieces, &piece)?;
        pieces.push(piece);
    }
    for Piece { stored, .. } in &mut pieces {
        stored.framing = FrameSizes::take(stored.frame_count(), input)?;
        *stored = stored.checked(WINDOW_BYTES as usize)?;
    }
    Ok(pieces)
}

/// Checks a piece against those before it: windows ascend, and no block is taken twice.
fn check_order(before: &[Piece], piece: &Piece) -> Result<(), Bad> {
    if before.last().is_some_and(|last| last.window > piece.window) {
        return Err("has pieces out of order");
    }
    let of_window = before.iter().rev().take_while(|other| other.window == piece.window);
    let (count, taken) = of_window.fold((0, 0), |(count, taken), other| (count + 1, taken | other.taken));
    if count >= MAX_PIECES || taken & piece.taken != 0 {
        return Err("has a block in two pieces, or too many pieces for a window");
    }
    Ok(())
}

fn parse_piece(bytes: &[u8], packs: &[packs::PackRef], number: u64, volume_bytes: u64) -> Result<Piece, Bad> {
    let index = u64::from(get(piece_ref::INDEX, bytes)?);
    let (taken, blocks) = (get(piece_ref::TAKEN, bytes)?, get(piece_ref::BLOCKS, bytes)?);
    let window = number.checked_mul(FANOUT).map(|first| first + index).ok_or("is outside the volume")?;
    if index >= FANOUT || taken & !window_blocks(window, volume_bytes) != 0 {
        return Err("has blocks outside the volume");
    }
    let flags = get(piece_ref::FLAGS, bytes)?;
    let borrowed = (flags & BORROWED != 0).then_some((flags >> FIRST_SHIFT) as u8 & 63);
    let is_there = match borrowed {
        None => taken & !blocks == 0,
        Some(first) => u32::from(first) + taken.count_ones() <= blocks.count_ones(),
    };
    if taken == 0 || !is_there {
        return Err("takes blocks that a piece does not have");
    }
    let (stored_bytes, raw) = (get(piece_ref::STORED, bytes)?, raw_bytes(blocks));
    // In version 2 the structure ends before the content.
    let content = Hash::read(piece_ref::CONTENT, bytes);
    let codec = match content {
        Some(_) => get(piece_ref::CODEC, bytes)?,
        None => packs::codec_of(stored_bytes, raw),
    };
    let stored = Stored {
        pack: *packs.get(get(piece_ref::PACK, bytes)? as usize).ok_or("names no pack")?,
        offset: get(piece_ref::OFFSET, bytes)?,
        bytes: stored_bytes,
        raw,
        codec,
        hash: Hash::read(piece_ref::HASH, bytes).ok_or(CUT_OFF)?,
        framing: Framing::None,
    };
    Ok(Piece { window, is_metadata: flags & METADATA != 0, taken, blocks, borrowed, stored, content })
}

/// True where a page may have so many bytes for so many stored ones.
pub(crate) fn is_justified(stored: u32, raw: u32) -> bool {
    u64::from(raw) <= u64::from(stored) * MAX_PAGE_RATIO + PAGE_FLOOR
}

/// Bytes of a piece with these blocks.
pub(crate) fn raw_bytes(blocks: u64) -> u32 {
    blocks.count_ones() * BLOCK as u32
}

/// The blocks of a window that are inside the volume.
pub(crate) fn window_blocks(window: u64, volume_bytes: u64) -> u64 {
    let inside = (volume_bytes / BLOCK).saturating_sub(window.saturating_mul(WINDOW_BYTES / BLOCK));
    if inside >= 64 { u64::MAX } else { (1 << inside) - 1 }
}

fn append_piece(out: &mut Vec<u8>, piece: &Piece, list: &mut PackList) {
    append(out, piece_ref::SIZE, |bytes| {
        piece_ref::INDEX.write(bytes, (piece.window % FANOUT) as u16);
        let metadata = if piece.is_metadata { METADATA } else { 0 };
        let borrowed = piece.borrowed.map_or(0, |first| BORROWED | u16::from(first) << FIRST_SHIFT);
        piece_ref::FLAGS.write(bytes, metadata | borrowed);
        piece_ref::PACK.write(bytes, list.index(piece.stored.pack));
        piece_ref::TAKEN.write(bytes, piece.taken);
        piece_ref::BLOCKS.write(bytes, piece.blocks);
        piece_ref::OFFSET.write(bytes, piece.stored.offset);
        piece_ref::STORED.write(bytes, piece.stored.bytes);
        piece.stored.hash.write(piece_ref::HASH, bytes);
        debug_assert!(piece.content.is_some(), "the content of each new reference is known");
        piece.content.unwrap_or(Hash([0; 32])).write(piece_ref::CONTENT, bytes);
        piece_ref::CODEC.write(bytes, piece.stored.codec);
    });
}

/// Parses the references to pages of page `number`, or of a root (number 0).
pub(crate) fn parse_refs(
    input: &mut Input<'_>,
    count: u32,
    version: u32,
    packs: &[packs::PackRef],
    number: u64,
) -> Result<Vec<PageRef>, Bad> {
    let mut refs: Vec<PageRef> = Vec::new();
    let first = number.checked_mul(FANOUT).ok_or("is outside the volume")?;
    for bytes in input.list(count, page_ref::SIZE)? {
        let index = u64::from(get(page_ref::INDEX, bytes)?);
        let (stored_bytes, raw) = (get(page_ref::STORED, bytes)?, get(page_ref::BYTES, bytes)?);
        let codec = match version {
            UNBOUND => packs::codec_of(stored_bytes, raw),
            _ => get(page_ref::CODEC, bytes)?,
        };
        let stored = Stored {
            pack: *packs.get(get(page_ref::PACK, bytes)? as usize).ok_or("names no pack")?,
            offset: get(page_ref::OFFSET, bytes)?,
            bytes: stored_bytes,
            raw,
            codec,
            hash: Hash::read(page_ref::HASH, bytes).ok_or(CUT_OFF)?,
            framing: Framing::None,
        };
        if !is_justified(stored.bytes, stored.raw) {
            return Err("refers to a page that is far larger than its stored bytes allow");
        }
        let page = PageRef { number: first + index, stored: stored.checked(MAX_PAGE_BYTES)? };
        if index >= FANOUT || refs.last().is_some_and(|last| last.number >= page.number) {
            return Err("has pages out of order");
        }
        refs.push(page);
    }
    Ok(refs)
}

/// Appends a reference to a page.
pub(crate) fn append_ref(out: &mut Vec<u8>, page: &PageRef, list: &mut PackList) {
    append(out, page_ref::SIZE, |bytes| {
        page_ref::INDEX.write(bytes, (page.number % FANOUT) as u32);
        page_ref::PACK.write(bytes, list.index(page.stored.pack));
        page_ref::OFFSET.write(bytes, page.stored.offset);
        page_ref::STORED.write(bytes, page.stored.bytes);
        page_ref::BYTES.write(bytes, page.stored.raw);
        page_ref::CODEC.write(bytes, page.stored.codec);
        page.stored.hash.write(page_ref::HASH, bytes);
    });
}
