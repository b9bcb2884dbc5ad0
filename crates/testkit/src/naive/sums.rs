//! CRC-32C, by tables that are made bit by bit, and the checksums of a volume.

use super::bytes::Words;

/// The polynomial of Castagnoli, its bits reversed.
const POLYNOMIAL: u32 = 0x82f6_3b78;

/// Table `k` has the remainder of each byte with `k` bytes of zeros after it, so that eight bytes are looked
/// up at once: tests of crashes spend much of their time on checksums.
const TABLES: [[u32; 256]; 8] = {
    let mut tables = [[0; 256]; 8];
    let mut byte = 0;
    while byte < 256 {
        let mut value = byte as u32;
        let mut bit = 0;
        while bit < 64 {
            value = if value & 1 != 0 { value >> 1 ^ POLYNOMIAL } else { value >> 1 };
            bit += 1;
            if bit % 8 == 0 {
                tables[bit / 8 - 1][byte] = value;
            }
        }
        byte += 1;
    }
    tables
};

/// Continues a CRC-32C.
pub(super) fn crc(so_far: u32, bytes: &[u8]) -> u32 {
    let (eights, rest) = bytes.as_chunks::<8>();
    let looked_up = eights.iter().fold(!so_far, |value, eight| {
        let word = u64::from_le_bytes(*eight) ^ u64::from(value);
        let bytes = word.to_le_bytes();
        bytes.iter().enumerate().fold(0, |sum, (k, byte)| sum ^ TABLES[7 - k][*byte as usize])
    });
    !rest.iter().fold(looked_up, |value, byte| value >> 8 ^ TABLES[0][(value as u8 ^ byte) as usize])
}

/// The checksum of a structure at position `at`, without the four bytes at `field`.
pub(super) fn checksum(seed: u32, at: u64, bytes: &[u8], field: Option<usize>) -> u32 {
    let so_far = crc(seed, &at.to_le_bytes());
    match field {
        None => crc(so_far, bytes),
        Some(field) => crc(crc(so_far, &bytes[..field]), &bytes[field + 4..]),
    }
}

/// Returns true where the field has the checksum of the structure around it.
pub(super) fn verifies(seed: u32, at: u64, bytes: &[u8], field: usize) -> bool {
    bytes.u32(field) == checksum(seed, at, bytes, Some(field))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The check value of CRC-32C in the catalogue of CRCs, and the document's example.
    #[test]
    fn the_examples_of_the_document_come_out() {
        assert_eq!(crc(0, b"123456789"), 0xe306_9283);
        let uuid: Vec<u8> = (0..16).collect();
        assert_eq!(crc(0, &uuid), 0xd9c9_08eb);
        assert_eq!(checksum(0xd9c9_08eb, 6 << 20, &[0; 4096], None), 0x624f_3192);
    }
}
