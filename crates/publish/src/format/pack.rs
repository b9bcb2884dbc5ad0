//! Packs: pieces one after the other, and a footer that lists them with the digests of their blocks.

use super::hash::{Digest, Hash};
use super::layout::{
    DIGEST_BYTES, MAX_FOOTER_BYTES, PACK_BYTES, PACK_MAGIC, VERSION, WINDOW_BYTES, pack_end, pack_entry,
    size_of_entry,
};
use super::packs::{self, FrameSizes, Framing, PackRef, Stored};
use super::page::raw_bytes;
use super::piece::Packed;
use super::words::{Bad, CUT_OFF, Input, append, check, get};

/// A piece in the footer of a pack.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    /// Number of the window.
    pub(crate) window: u64,
    pub(crate) blocks: u64,
    pub(crate) offset: u32,
    pub(crate) bytes: u32,
    pub(crate) codec: u16,
    pub(crate) hash: Hash,
    pub(crate) framing: Framing,
    /// Digests of the blocks, ascending.
    pub(crate) digests: Vec<Digest>,
}

impl Entry {
    /// The piece, as pages refer to it.
    pub(crate) fn stored(&self, pack: PackRef) -> Stored {
        let raw = raw_bytes(self.blocks);
        let (offset, bytes, codec, hash) = (self.offset, self.bytes, self.codec, self.hash);
        Stored { pack, offset, bytes, raw, codec, hash, framing: self.framing }
    }

    fn frame_count(&self) -> u32 {
        packs::frame_count(self.codec, raw_bytes(self.blocks))
    }
}

/// A pack that is being made.
pub(crate) struct PackBuilder {
    uuid: [u8; 16],
    bytes: Vec<u8>,
    entries: Vec<Entry>,
    /// Bytes of the footer's entries, digests and sizes at most.
    footer_len: usize,
}

/// A complete pack.
pub(crate) struct Pack {
    pub(crate) name: PackRef,
    pub(crate) bytes: Vec<u8>,
}

impl PackBuilder {
    /// Begins a pack of a volume.
    pub(crate) fn new(uuid: [u8; 16]) -> Self {
        PackBuilder { uuid, bytes: Vec::new(), entries: Vec::new(), footer_len: 0 }
    }

    /// Bytes of all pieces.
    pub(crate) fn len(&self) -> u64 {
        self.bytes.len() as u64
    }

    /// True where the pack is large enough, or its footer: pieces that compress well take more bytes there
    /// than in the pack.
    pub(crate) fn is_full(&self) -> bool {
        self.len() >= PACK_BYTES || self.footer_len >= MAX_FOOTER_BYTES / 2
    }

    /// Adds stored bytes and returns their offset.
    pub(crate) fn add(&mut self, bytes: &[u8]) -> u32 {
        let offset = self.bytes.len() as u32;
        self.bytes.extend_from_slice(bytes);
        offset
    }

    /// Adds a piece of a window and returns its offset.
    pub(crate) fn add_piece(
        &mut self,
        window: u64,
        blocks: u64,
        digests: Vec<Digest>,
        packed: &Packed,
    ) -> u32 {
        debug_assert_eq!(digests.len(), blocks.count_ones() as usize, "a digest for each block");
        let offset = self.add(&packed.bytes);
        // (A block has no more than two bytes of the sizes of frames.)
        self.footer_len += pack_entry::SIZE + digests.len() * (DIGEST_BYTES + 2);
        let (bytes, codec, hash, framing) =
            (packed.bytes.len() as u32, packed.codec, packed.hash, packed.framing);
        self.entries.push(Entry { window, blocks, offset, bytes, codec, hash, framing, digests });
        offset
    }

    /// Completes the pack.
    pub(crate) fn finish(mut self) -> Pack {
        let footer = self.footer();
        debug_assert!(footer.len() <= MAX_FOOTER_BYTES, "a footer of {} bytes", footer.len());
        self.bytes.extend_from_slice(&footer);
        let name =
            PackRef { name: Hash::of(&footer), bytes: self.bytes.len() as u64, footer: footer.len() as u32 };
        Pack { name, bytes: self.bytes }
    }

    fn footer(&self) -> Vec<u8> {
        let mut footer = Vec::new();
        for entry in &self.entries {
            append(&mut footer, pack_entry::SIZE, |bytes| {
                pack_entry::POSITION.write(bytes, entry.window * WINDOW_BYTES);
                pack_entry::BLOCKS.write(bytes, entry.blocks);
                pack_entry::OFFSET.write(bytes, entry.offset);
                pack_entry::STORED.write(bytes, entry.bytes);
                entry.hash.write(pack_entry::HASH, bytes);
                pack_entry::CODEC.write(bytes, entry.codec);
            });
        }
        let digests = self.entries.iter().flat_map(|entry| &entry.digests);
        let before = footer.len();
        digests.for_each(|digest| footer.extend_from_slice(digest));
        let digests = (footer.len() - before) / DIGEST_BYTES;
        for entry in &self.entries {
            FrameSizes::append(entry.frame_count(), entry.framing, &mut footer);
        }
        let len = footer.len() + pack_end::SIZE;
        append(&mut footer, pack_end::SIZE, |end| {
            pack_end::MAGIC.write(end, PACK_MAGIC);
            pack_end::VERSION.write(end, VERSION);
            pack_end::COUNT.write(end, self.entries.len() as u32);
            pack_end::DIGESTS.write(end, digests as u32);
            pack_end::FOOTER.write(end, len as u32);
            Hash::of(&self.bytes).write(pack_end::CONTENT, end);
            end[pack_end::UUID.offset..][..16].copy_from_slice(&self.uuid);
        });
        footer
    }
}

/// The last bytes of a pack.
pub(crate) struct PackEnd {
    /// Version of the format.
    version: u32,
    /// Bytes of the footer.
    pub(crate) footer: u32,
    /// Volume whose pieces the pack has.
    pub(crate) uuid: [u8; 16],
}

impl PackEnd {
    /// Parses the end of a pack.
    pub(crate) fn parse(bytes: &[u8]) -> Result<PackEnd, Bad> {
        let version = check(bytes, PACK_MAGIC, "is not a pack")?;
        let footer = get(pack_end::FOOTER, bytes)?;
        if !(pack_end::SIZE..=MAX_FOOTER_BYTES).contains(&(footer as usize)) {
            return Err("has a footer of an impossible size");
        }
        let uuid = bytes.get(pack_end::UUID.offset..).and_then(|rest| rest.first_chunk()).ok_or(CUT_OFF)?;
        Ok(PackEnd { version, footer, uuid: *uuid })
    }
}

/// Parses the footer of a pack whose name, the footer's hash, was verified.
pub(crate) fn parse_footer(pack: &PackRef, bytes: &[u8]) -> Result<Vec<Entry>, Bad> {
    let mut input = Input(bytes);
    let entries = bytes.len().checked_sub(pack_end::SIZE).ok_or(CUT_OFF)?;
    let end = &bytes[entries..];
    let version = PackEnd::parse(end)?.version;
    let list = input.list(get(pack_end::COUNT, end)?, size_of_entry(version))?;
    let mut entries = Vec::with_capacity(list.len());
    let mut digests = Input(input.0);
    for bytes in list {
        let entry = parse_entry(bytes, &mut digests)?;
        packs::check_codec(version, entry.codec)?;
        entries.push(entry);
    }
    for entry in &mut entries {
        entry.framing = FrameSizes::take(entry.frame_count(), &mut digests)?;
        entry.stored(*pack).checked(WINDOW_BYTES as usize)?;
    }
    if digests.0.len() != pack_end::SIZE {
        return Err("has another number of digests than blocks, or of sizes than frames");
    }
    Ok(entries)
}

fn parse_entry(bytes: &[u8], digests: &mut Input<'_>) -> Result<Entry, Bad> {
    let position = get(pack_entry::POSITION, bytes)?;
    let blocks = get(pack_entry::BLOCKS, bytes)?;
    if !position.is_multiple_of(WINDOW_BYTES) || blocks == 0 {
        return Err("has a piece of no window");
    }
    let stored = get(pack_entry::STORED, bytes)?;
    // In version 2 the structure ends before the codec.
    let codec = pack_entry::CODEC.read(bytes).unwrap_or(packs::codec_of(stored, raw_bytes(blocks)));
    Ok(Entry {
        window: position / WINDOW_BYTES,
        blocks,
        offset: get(pack_entry::OFFSET, bytes)?,
        bytes: stored,
        codec,
        hash: Hash::read(pack_entry::HASH, bytes).ok_or(CUT_OFF)?,
        framing: Framing::None,
        digests: digests.take(blocks.count_ones() as usize * DIGEST_BYTES)?.as_chunks().0.to_vec(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pack_is_full_before_its_footer_is_too_large_to_be_read() {
        let mut pack = PackBuilder::new([1; 16]);
        let mut pieces = 0;
        let compressed = crate::format::piece::pack(&[0; 4096], 1);
        // Windows of zeros: a few bytes each, and 64 digests.
        while !pack.is_full() {
            pack.add_piece(pieces, u64::MAX, vec![[0; DIGEST_BYTES]; 64], &compressed);
            pieces += 1;
        }
        let pack = pack.finish();
        assert!(pack.bytes.len() < PACK_BYTES as usize + MAX_FOOTER_BYTES / 2, "{} bytes", pack.bytes.len());
        let footer = &pack.bytes[pack.bytes.len() - pack.name.footer as usize..];
        assert_eq!(parse_footer(&pack.name, footer).map(|entries| entries.len() as u64), Ok(pieces));
    }
}
