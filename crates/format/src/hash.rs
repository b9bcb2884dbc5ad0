//! ext4's half-MD4 directory hash.
//!
//! The algorithm is the "half MD4" of ext4's hashed directories (three rounds of eight steps over 32 bytes a
//! time, from MD4, RFC 1320), with unsigned characters; `debugfs -R "dx_hash -h half_md4 -s UUID NAME"` of
//! e2fsprogs prints the same number with its lowest bit cleared.

/// Seed of a volume's hashes: the first chaining value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HashSeed(pub [u32; 4]);

impl HashSeed {
    /// The initial value of MD4, which replaces a seed of zeros.
    pub const MD4: HashSeed = HashSeed([0x6745_2301, 0xefcd_ab89, 0x98ba_dcfe, 0x1032_5476]);

    /// Creates the seed of 16 bytes: four little-endian words, or MD4's own where all are zero.
    pub fn from_bytes(bytes: [u8; 16]) -> Self {
        let mut words = [0; 4];
        for (word, four) in words.iter_mut().zip(bytes.chunks_exact(4)) {
            *word = u32::from_le_bytes([four[0], four[1], four[2], four[3]]);
        }
        if words == [0; 4] { Self::MD4 } else { HashSeed(words) }
    }
}

const K2: u32 = 0x5a82_7999;
const K3: u32 = 0x6ed9_eba1;

/// Returns one message block: up to 32 bytes of the name as eight big-endian words. Each byte after the name
/// is the number of bytes left. In the word where the name ends, these bytes come first.
#[inline(always)]
fn message(name: &[u8]) -> [u32; 8] {
    let len = name.len().min(32);
    // At most 255 bytes are left, so each byte of ext4's 32-bit padding word is that number.
    let mut bytes = [name.len() as u8; 32];
    // Overlapping copies of fixed sizes: a copy of variable length would be a call.
    match len {
        16.. => {
            bytes[..16].copy_from_slice(&name[..16]);
            bytes[len - 16..len].copy_from_slice(&name[len - 16..len]);
        }
        8.. => {
            bytes[..8].copy_from_slice(&name[..8]);
            bytes[len - 8..len].copy_from_slice(&name[len - 8..len]);
        }
        4.. => {
            bytes[..4].copy_from_slice(&name[..4]);
            bytes[len - 4..len].copy_from_slice(&name[len - 4..len]);
        }
        _ => {
            for (byte, of_name) in bytes.iter_mut().zip(name) {
                *byte = *of_name;
            }
        }
    }
    let (fours, _) = bytes.as_chunks::<4>();
    let mut words: [u32; 8] = std::array::from_fn(|i| u32::from_be_bytes(fours[i]));
    if !len.is_multiple_of(4) {
        words[len / 4] = words[len / 4].rotate_left(8 * (len % 4) as u32);
    }
    words
}

/// Computes eight steps. The four words change roles from step to step; after the eighth each has its first
/// role again.
#[inline(always)]
fn round(
    mut s: [u32; 4],
    m: &[u32; 8],
    key: u32,
    order: [usize; 8],
    shifts: [u32; 4],
    f: impl Fn(u32, u32, u32) -> u32,
) -> [u32; 4] {
    for i in 0..8 {
        let [a, b, c, d] = s;
        let sum = a.wrapping_add(f(b, c, d)).wrapping_add(m[order[i]].wrapping_add(key));
        s = [d, sum.rotate_left(shifts[i % 4]), b, c];
    }
    s
}

#[inline(always)]
fn transform(buf: [u32; 4], m: &[u32; 8]) -> [u32; 4] {
    let s = round(buf, m, 0, [0, 1, 2, 3, 4, 5, 6, 7], [3, 7, 11, 19], |x, y, z| z ^ (x & (y ^ z)));
    let s =
        round(s, m, K2, [1, 3, 5, 7, 0, 2, 4, 6], [3, 5, 9, 13], |x, y, z| (x & y).wrapping_add((x ^ y) & z));
    let s = round(s, m, K3, [3, 7, 2, 6, 1, 5, 0, 4], [3, 9, 11, 15], |x, y, z| x ^ y ^ z);
    std::array::from_fn(|i| buf[i].wrapping_add(s[i]))
}

/// Returns the hash of a name: all 32 bits of the second chaining word.
pub fn half_md4(seed: HashSeed, name: &[u8]) -> u32 {
    let mut buf = seed.0;
    let mut rest = name;
    while !rest.is_empty() {
        buf = transform(buf, &message(rest));
        rest = rest.get(32..).unwrap_or(&[]);
    }
    buf[1]
}

/// Number of names that [`half_md4_lanes`] hashes together.
pub const HASH_LANES: usize = 16;

/// Returns the hashes of up to [`HASH_LANES`] names, the same numbers as [`half_md4`] one by one.
///
/// Each step of a hash waits for the step before. Several hashes together fill the processor's vector units,
/// so that a batch costs a fraction of its parts: as much as six to eight hashes, however few names there
/// are. Names over 32 bytes are hashed one by one.
#[inline(always)]
pub fn half_md4_lanes(seed: HashSeed, names: &[&[u8]; HASH_LANES]) -> [u32; HASH_LANES] {
    let mut m = [[0u32; HASH_LANES]; 8];
    for (lane, name) in names.iter().enumerate() {
        let words = message(name);
        for (i, word) in words.iter().enumerate() {
            m[i][lane] = *word;
        }
    }
    // The compiler makes vectors of a loop whose body is all of a hash, and of no loop inside the steps.
    let mut hashes = [0; HASH_LANES];
    for (lane, hash) in hashes.iter_mut().enumerate() {
        *hash = transform(seed.0, &std::array::from_fn(|i| m[i][lane]))[1];
    }
    for (lane, name) in names.iter().enumerate() {
        if name.len() > 32 || name.is_empty() {
            hashes[lane] = half_md4(seed, name);
        }
    }
    hashes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lanes_give_the_same_numbers_as_one_at_a_time() {
        let bytes: Vec<u8> = (0..=255).map(|b: u8| b.wrapping_mul(37) | 1).collect();
        let seed = HashSeed::from_bytes([9; 16]);
        let step = if cfg!(miri) { 40 } else { 1 };
        for first in (0..=255 - HASH_LANES).step_by(step) {
            let names: [&[u8]; HASH_LANES] = std::array::from_fn(|i| &bytes[..first + i]);
            let expected: [u32; HASH_LANES] = std::array::from_fn(|i| half_md4(seed, names[i]));
            assert_eq!(half_md4_lanes(seed, &names), expected);
        }
    }

    #[test]
    fn seeds_change_the_hash() {
        assert_eq!(HashSeed::from_bytes([0; 16]), HashSeed::MD4);
        assert_ne!(half_md4(HashSeed::MD4, b"a"), half_md4(HashSeed::from_bytes([1; 16]), b"a"));
    }
}
