//! BLAKE3 hashes, which name versions, packs and pieces.

use super::layout::{DIGEST_BYTES, HASH_BYTES};
use lanefs::format::Array;
use std::borrow::Borrow;
use std::fmt;

/// A BLAKE3 hash. It is shown as 64 hexadecimal digits in lower case.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Hash(pub [u8; HASH_BYTES]);

/// The first bytes of a block's hash, by which publishers compare blocks.
pub(crate) type Digest = [u8; DIGEST_BYTES];

impl Hash {
    /// Returns the hash of some bytes.
    pub fn of(bytes: &[u8]) -> Self {
        Hash(*blake3::hash(bytes).as_bytes())
    }

    /// Parses 64 hexadecimal digits in lower case.
    pub fn parse(text: &str) -> Option<Self> {
        let digits = text.as_bytes();
        if digits.len() != 2 * HASH_BYTES || digits.iter().any(u8::is_ascii_uppercase) {
            return None;
        }
        let mut hash = [0; HASH_BYTES];
        for (byte, pair) in hash.iter_mut().zip(digits.chunks_exact(2)) {
            let digit = |at: usize| char::from(pair[at]).to_digit(16);
            *byte = (digit(0)? * 16 + digit(1)?) as u8;
        }
        Some(Hash(hash))
    }

    /// Reads the hash from a field of a structure; `None` where the structure is too short.
    pub(crate) fn read(field: Array<u8>, bytes: &[u8]) -> Option<Self> {
        Some(Hash(bytes.get(field.offset..field.offset + HASH_BYTES)?.try_into().ok()?))
    }

    /// Writes the hash into a field of a structure.
    pub(crate) fn write(self, field: Array<u8>, bytes: &mut [u8]) {
        bytes[field.offset..field.offset + HASH_BYTES].copy_from_slice(&self.0);
    }
}

impl fmt::Display for Hash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for Hash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Hash {
    /// The digest of a block with this hash.
    pub(crate) fn digest(&self) -> Digest {
        let mut digest = [0; DIGEST_BYTES];
        digest.copy_from_slice(&self.0[..DIGEST_BYTES]);
        digest
    }

    /// The hash of some blocks with these hashes, in their order: it binds their content.
    pub(crate) fn of_hashes(hashes: impl Iterator<Item = impl Borrow<Hash>>) -> Self {
        let mut all = blake3::Hasher::new();
        for hash in hashes {
            all.update(&hash.borrow().0);
        }
        Hash(*all.finalize().as_bytes())
    }
}

/// Returns the digest of a block.
pub(crate) fn digest(block: &[u8]) -> Digest {
    Hash::of(block).digest()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hash_is_parsed_as_it_is_shown() {
        let hash = Hash::of(b"x");
        assert_eq!(Hash::parse(&hash.to_string()), Some(hash));
        for bad in ["", "ab", &hash.to_string().to_uppercase(), &"g".repeat(64), &"é".repeat(32)] {
            assert_eq!(Hash::parse(bad), None, "{bad}");
        }
    }
}
