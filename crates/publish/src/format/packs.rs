//! References to packs and to stored bytes in them.

use super::hash::Hash;
use super::layout::{MAX_FOOTER_BYTES, MAX_PACK_BYTES, VERSION, frame, pack_end, pack_name};
use super::words::{Bad, Input, append, get};
use lanefs::format::BLOCK;
use std::collections::HashMap;

/// A pack.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct PackRef {
    pub(crate) name: Hash,
    /// Bytes of the object.
    pub(crate) bytes: u64,
    /// Bytes of its footer.
    pub(crate) footer: u32,
}

impl PackRef {
    /// Returns the name of the object.
    pub(crate) fn object(&self) -> String {
        object(&self.name)
    }

    /// Checks that the pack has such bytes before its footer.
    pub(crate) fn contains(&self, offset: u32, bytes: u32) -> Result<(), Bad> {
        let end = u64::from(offset) + u64::from(bytes);
        if bytes == 0 || end > self.bytes - u64::from(self.footer) {
            return Err("refers to bytes outside a pack");
        }
        Ok(())
    }

    fn parse(bytes: &[u8]) -> Result<Self, Bad> {
        let name = Hash::read(pack_name::NAME, bytes).ok_or(super::words::CUT_OFF)?;
        let pack =
            PackRef { name, bytes: get(pack_name::BYTES, bytes)?, footer: get(pack_name::FOOTER, bytes)? };
        let footer = u64::from(pack.footer);
        let is_sound = pack.bytes <= MAX_PACK_BYTES
            && (pack_end::SIZE as u64..=MAX_FOOTER_BYTES as u64).contains(&footer)
            && footer <= pack.bytes;
        if is_sound { Ok(pack) } else { Err("names a pack of an impossible size") }
    }
}

/// Number of a pack among those of a publication that is being made.
pub(crate) type PackNumber = usize;

/// Folder of the packs.
pub(crate) const FOLDER: &str = "packs";

/// Returns the name of a pack's object.
pub(crate) fn object(name: &Hash) -> String {
    format!("{FOLDER}/{name}")
}

/// Parses a list of packs.
pub(crate) fn parse(input: &mut Input<'_>, count: u32) -> Result<Vec<PackRef>, Bad> {
    input.list(count, pack_name::SIZE)?.map(PackRef::parse).collect()
}

/// A list of packs that is being made: each pack has one index.
#[derive(Default)]
pub(crate) struct PackList {
    packs: Vec<PackRef>,
    indexes: HashMap<PackRef, u32>,
}

impl PackList {
    /// Returns the index of a pack, which is added where it is new.
    pub(crate) fn index(&mut self, pack: PackRef) -> u32 {
        *self.indexes.entry(pack).or_insert_with(|| {
            self.packs.push(pack);
            (self.packs.len() - 1) as u32
        })
    }

    pub(crate) fn len(&self) -> u32 {
        self.packs.len() as u32
    }

    pub(crate) fn append_to(&self, out: &mut Vec<u8>) {
        for pack in &self.packs {
            append(out, pack_name::SIZE, |bytes| {
                pack.name.write(pack_name::NAME, bytes);
                pack_name::BYTES.write(bytes, pack.bytes);
                pack_name::FOOTER.write(bytes, pack.footer);
            });
        }
    }
}

/// Codec of bytes that are stored as they are.
pub(crate) const AS_IT_IS: u16 = 0;
/// Codec of bytes that are compressed by zstd.
pub(crate) const ZSTD: u16 = 1;

/// Codec of the index of a piece in frames, which is fetched alone. No object states it.
pub(crate) const INDEX: u16 = u16::MAX;

/// The codec of bytes for which the format states none: those of version 2, and frames.
pub(crate) fn codec_of(bytes: u32, raw: u32) -> u16 {
    if bytes == raw { AS_IT_IS } else { ZSTD }
}

/// Bytes in a pack that are fetched, verified and decompressed together: a piece or a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Stored {
    pub(crate) pack: PackRef,
    pub(crate) offset: u32,
    /// Bytes in the pack.
    pub(crate) bytes: u32,
    /// Bytes after decompression.
    pub(crate) raw: u32,
    /// How they are stored: [`AS_IT_IS`], [`ZSTD`], in [frames](super::frames), or in a way that a later
    /// program knows.
    pub(crate) codec: u16,
    /// Hash of the bytes in the pack, of a piece in frames that of their index.
    pub(crate) hash: Hash,
}

impl Stored {
    /// Checks the reference, whose sizes come from a store.
    pub(crate) fn checked(self, most: usize) -> Result<Self, Bad> {
        self.pack.contains(self.offset, self.bytes)?;
        let is_as_it_is = self.codec == AS_IT_IS;
        let is_too_large = self.raw as usize > most || self.stored_frames() > self.raw;
        if is_too_large || self.stored_frames() == 0 || is_as_it_is && self.bytes < self.raw {
            return Err("refers to bytes of an impossible size");
        }
        if self.codec == INDEX { Err("refers to an index alone") } else { Ok(self) }
    }

    /// Stored bytes without those of the index of frames.
    fn stored_frames(&self) -> u32 {
        self.bytes.saturating_sub(index_bytes(self))
    }
}

/// Blocks of the frames of the smallest codec of frames, and that codec. Each further codec doubles them.
pub(super) const LEAST_BLOCKS: u32 = 4;
pub(super) const LEAST_CODEC: u16 = 2;
/// The largest codec of frames.
pub(super) const LARGEST_CODEC: u16 = 4;

/// Blocks of a frame by the codec of a piece; `None` for a piece without frames.
pub(crate) fn frame_blocks(codec: u16) -> Option<u32> {
    (LEAST_CODEC..=LARGEST_CODEC).contains(&codec).then(|| LEAST_BLOCKS << (codec - LEAST_CODEC))
}

/// Checks that a version of the format has a codec: before version 4 no piece had frames.
pub(super) fn check_codec(version: u32, codec: u16) -> Result<(), Bad> {
    match version != VERSION && frame_blocks(codec).is_some() {
        true => Err("has a piece in frames, which its version of the format does not have"),
        false => Ok(()),
    }
}

/// Bytes of a frame before compression, but for the last one of a piece.
pub(super) fn frame_bytes(codec: u16) -> Option<u32> {
    Some(frame_blocks(codec)? * BLOCK as u32)
}

/// Bytes of the index of a piece; 0 for a piece without frames.
pub(crate) fn index_bytes(piece: &Stored) -> u32 {
    frame_bytes(piece.codec).map_or(0, |bytes| piece.raw.div_ceil(bytes) * frame::SIZE as u32)
}
