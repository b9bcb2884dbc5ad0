//! References to packs and to stored bytes in them.

use super::hash::Hash;
use super::layout::{MAX_FOOTER_BYTES, MAX_PACK_BYTES, VERSION, pack_end, pack_name};
use super::proof::FramePlace;
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

/// The codec of bytes for which the format states none: those of version 2, and frames.
pub(crate) fn codec_of(bytes: u32, raw: u32) -> u16 {
    if bytes == raw { AS_IT_IS } else { ZSTD }
}

/// Frames of a piece at most: a window has 64 blocks.
const MAX_FRAMES: usize = (u64::BITS / LEAST_BLOCKS) as usize;

/// Stored bytes of the frames of a piece without their proofs, each less one. The last frame has the others.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct FrameSizes([u16; MAX_FRAMES - 1]);

impl FrameSizes {
    /// The sizes of some frames, which are all of a piece.
    pub(crate) fn of(frames: impl ExactSizeIterator<Item = usize>) -> Self {
        let (mut sizes, count) = (FrameSizes::default(), frames.len().saturating_sub(1));
        sizes.0.iter_mut().zip(frames.take(count)).for_each(|(size, bytes)| {
            *size = bytes.saturating_sub(1) as u16;
        });
        sizes
    }

    /// Takes those of a piece with so many frames, which follow the structures; nothing where it has none.
    pub(crate) fn take(count: u32, input: &mut Input<'_>) -> Result<Framing, Bad> {
        if count == 0 {
            return Ok(Framing::None);
        }
        let mut sizes = FrameSizes::default();
        let words = input.take(2 * (count as usize - 1))?.as_chunks().0;
        sizes.0.iter_mut().zip(words).for_each(|(size, word)| *size = u16::from_le_bytes(*word));
        Ok(Framing::Frames(sizes))
    }

    /// Appends those of a piece with so many frames.
    pub(super) fn append(count: u32, framing: Framing, out: &mut Vec<u8>) {
        if let Framing::Frames(sizes) = framing {
            let count = count.saturating_sub(1) as usize;
            out.extend(sizes.0.iter().take(count).flat_map(|size| size.to_le_bytes()));
        }
    }
}

/// The frames of stored bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Framing {
    /// They have no frames.
    #[default]
    None,
    /// A piece in frames of these sizes.
    Frames(FrameSizes),
    /// One frame with its proof.
    Alone(FramePlace),
}

/// Bytes in a pack that are fetched, verified and decompressed together: a piece, a frame or a page.
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
    /// Hash of the bytes in the pack, of a piece in frames, and of each of these, that of the root of their
    /// [tree](super::proof).
    pub(crate) hash: Hash,
    pub(crate) framing: Framing,
}

impl Stored {
    /// Checks the reference, whose sizes come from a store.
    pub(crate) fn checked(self, most: usize) -> Result<Self, Bad> {
        self.pack.contains(self.offset, self.bytes)?;
        let is_as_it_is = self.codec == AS_IT_IS;
        let is_too_large = self.frame_count() == 0 && self.bytes > self.raw;
        if self.raw as usize > most || is_too_large || is_as_it_is && self.bytes < self.raw {
            return Err("refers to bytes of an impossible size");
        }
        if self.frame_count() > 0 {
            self.each_frame(drop)?;
        }
        Ok(self)
    }

    /// Number of the frames of a piece; 0 for one without.
    pub(crate) fn frame_count(&self) -> u32 {
        frame_count(self.codec, self.raw)
    }

    /// The frames of a piece.
    pub(crate) fn frames(&self) -> Result<Vec<Stored>, Bad> {
        let mut frames = Vec::new();
        self.each_frame(|frame| frames.push(frame)).map(|()| frames)
    }

    /// Passes the frames of a piece. They follow one another up to its end, and each has the bytes of its
    /// blocks at most: so no reference leads to other bytes than those of its piece, nor to more than these
    /// may decompress to.
    fn each_frame(&self, mut take: impl FnMut(Stored)) -> Result<(), Bad> {
        let (Some(most), Framing::Frames(sizes)) = (frame_bytes(self.codec), self.framing) else {
            return Err("has no frames");
        };
        let (count, mut at) = (self.frame_count(), 0);
        if count as usize > MAX_FRAMES {
            return Err("has too many frames");
        }
        for number in 0..count {
            let place = FramePlace { number: number as u8, count: count as u8 };
            let (raw, proof) = ((self.raw - number * most).min(most), place.proof_bytes());
            let size = match sizes.0.get(number as usize).filter(|_| number + 1 < count) {
                Some(less_one) => u32::from(*less_one) + 1,
                None => self.bytes.saturating_sub(at + proof),
            };
            if size == 0 || size > raw {
                return Err("has a frame of an impossible size");
            }
            let (offset, codec, framing) = (self.offset + at, codec_of(size, raw), Framing::Alone(place));
            take(Stored { offset, bytes: proof + size, raw, codec, framing, ..*self });
            at += proof + size;
        }
        match at == self.bytes {
            true => Ok(()),
            false => Err("has frames that are not as long together as the piece"),
        }
    }

    /// The name of the bytes in memory and in the cache. It is known before they are here.
    pub(crate) fn name(&self) -> Hash {
        match self.framing {
            Framing::Alone(place) => Hash::of(&[&self.hash.0[..], &[place.number, place.count]].concat()),
            Framing::None | Framing::Frames(_) => self.hash,
        }
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

/// Number of the frames of a piece with so many bytes; 0 for a codec without frames.
pub(super) fn frame_count(codec: u16, raw: u32) -> u32 {
    frame_bytes(codec).map_or(0, |bytes| raw.div_ceil(bytes))
}
