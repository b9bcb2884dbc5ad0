//! A cheap hash of words, as in `shaders/hash.glsl`: MurmurHash3 for 32 bits (Austin Appleby, public domain).

pub(crate) fn mix_word(hash: u32, word: u32) -> u32 {
    let word = word.wrapping_mul(0xcc9e_2d51).rotate_left(15).wrapping_mul(0x1b87_3593);
    (hash ^ word).rotate_left(13).wrapping_mul(5).wrapping_add(0xe654_6b64)
}

pub(crate) fn end_hash(hash: u32, bytes: u32) -> u32 {
    let hash = hash ^ bytes;
    let hash = (hash ^ hash >> 16).wrapping_mul(0x85eb_ca6b);
    let hash = (hash ^ hash >> 13).wrapping_mul(0xc2b2_ae35);
    hash ^ hash >> 16
}

/// Returns the bucket of a hash.
pub(in crate::twin) fn bucket_number(hash: u32, buckets: u32) -> u32 {
    ((u64::from(hash) * u64::from(buckets)) >> 32) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_murmur_hash_3() {
        let hash = |seed, bytes: &[u8; 4]| end_hash(mix_word(seed, u32::from_le_bytes(*bytes)), 4);
        // Of the reference implementation (MurmurHash3_x86_32).
        assert_eq!(hash(0, &[0; 4]), 0x2362_f9de);
        assert_eq!(hash(0, b"test"), 0xba6b_d213);
        assert_eq!(hash(0x9747_b28c, b"test"), 0x704b_81dc);
        assert_eq!(end_hash(1, 0), 0x514e_28b7);
    }
}
