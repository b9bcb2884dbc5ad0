//! Stored bytes: hashed and compressed, verified and decompressed.

use super::buffers::{Buffer, Buffers};
use super::hash::Hash;
use super::packs::{AS_IT_IS, Stored, ZSTD};
use super::words::Bad;
use std::sync::Arc;

/// Bytes as they go into a pack.
pub(crate) struct Packed {
    pub(crate) bytes: Vec<u8>,
    pub(crate) codec: u16,
    pub(crate) hash: Hash,
}

/// Compresses bytes, where that makes them fewer.
pub(crate) fn pack(raw: &[u8], level: i32) -> Packed {
    match zstd::bulk::compress(raw, level) {
        Ok(bytes) if bytes.len() < raw.len() => Packed { hash: Hash::of(&bytes), bytes, codec: ZSTD },
        _ => as_it_is(raw),
    }
}

/// Leaves bytes as they are.
pub(crate) fn as_it_is(raw: &[u8]) -> Packed {
    Packed { bytes: raw.to_vec(), codec: AS_IT_IS, hash: Hash::of(raw) }
}

/// Checks that bytes are those that a reference promises.
pub(crate) fn verify(stored: &Stored, bytes: &[u8]) -> Result<(), Bad> {
    if bytes.len() != stored.bytes as usize {
        return Err("is shorter than it should be");
    }
    if Hash::of(bytes) != stored.hash {
        return Err("has other bytes than were published: their hash differs");
    }
    Ok(())
}

/// Decompresses verified bytes. The result has the promised size, which the caller has bounded.
pub(crate) fn unpack(stored: &Stored, bytes: &[u8], buffers: &Arc<Buffers>) -> Result<Buffer, Bad> {
    match stored.codec {
        AS_IT_IS if bytes.len() == stored.raw as usize => return Ok(buffers.copy(bytes)),
        ZSTD => {}
        _ => return Err("is stored by a codec that this program does not know"),
    }
    let raw = stored.raw as usize;
    match buffers.decompress(bytes, raw) {
        Some(unpacked) if unpacked.len() == raw => Ok(unpacked),
        Some(_) => Err("decompresses to fewer bytes than it should"),
        None => Err("does not decompress to the bytes that it should"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::layout::pack_end;
    use crate::format::packs::PackRef;

    fn stored(packed: &Packed, raw: u32) -> Stored {
        let pack = PackRef { name: packed.hash, bytes: 1 << 20, footer: pack_end::SIZE as u32 };
        let codec = packed.codec;
        Stored { pack, offset: 0, bytes: packed.bytes.len() as u32, raw, codec, hash: packed.hash }
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
