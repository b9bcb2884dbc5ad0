//! Checksums of metadata.

use crate::geometry::BLOCK;
use crate::inodes::inode;
use crate::kind::BlockKind;
use crate::layout::{Field, Word};
use crate::space::chunk_entry;

/// Offset of the checksum in a block with the common header.
const HEADER_CHECKSUM: Field<u32> = Field::at(4);

/// CRC-32C over a structure. It begins with the volume's seed and the structure's position, so that a block
/// written to a wrong position or left over from another volume does not verify.
#[derive(Clone, Copy, Debug)]
pub struct Checksummer {
    seed: u32,
}

impl Checksummer {
    /// Creates the checksummer of the volume with this `CHECKSUM_SEED`.
    pub const fn new(seed: u32) -> Self {
        Checksummer { seed }
    }

    /// Returns the seed that mkfs gives to a volume with this UUID.
    pub fn seed_of(uuid: &[u8; 16]) -> u32 {
        crc32c::crc32c(uuid)
    }

    /// Returns the checksum of `bytes` at byte position `at`, without the four bytes of `skip`.
    pub fn of(&self, at: u64, bytes: &[u8], skip: Option<Field<u32>>) -> u32 {
        let crc = crc32c::crc32c_append(self.seed, &at.to_le_bytes());
        let Some(field) = skip else { return crc32c::crc32c_append(crc, bytes) };
        let (before, rest) = bytes.split_at(field.offset.min(bytes.len()));
        crc32c::crc32c_append(crc32c::crc32c_append(crc, before), rest.get(4..).unwrap_or(&[]))
    }

    /// Returns the checksum of a block of file data. It is never 0, which stands for none.
    #[inline]
    pub fn of_data(&self, at: u64, block: &[u8]) -> u32 {
        debug_assert!(block.len() as u64 == BLOCK && at.is_multiple_of(BLOCK));
        self.of(at, block, None).max(1)
    }

    /// Continues a plain CRC-32C: `sum` of the bytes before, then `bytes`.
    pub fn append(sum: u32, bytes: &[u8]) -> u32 {
        crc32c::crc32c_append(sum, bytes)
    }

    /// Stores the checksum of a block with the common header, or those of a block's inodes one by one. For a
    /// pointer block it stores nothing and returns the checksum, which belongs into the chunk's table.
    pub fn seal(&self, kind: BlockKind, at: u64, block: &mut [u8], inode_size: usize) -> Option<u32> {
        debug_assert!(
            block.len() as u64 == BLOCK && at.is_multiple_of(BLOCK),
            "{} bytes at {at}",
            block.len()
        );
        match kind {
            BlockKind::Pointers => return Some(self.of(at, block, None)),
            BlockKind::Inodes => {
                for (i, one) in block.chunks_exact_mut(inode_size).enumerate() {
                    let sum = self.of(at + (i * inode_size) as u64, one, Some(inode::CHECKSUM));
                    inode::CHECKSUM.write(one, sum);
                }
            }
            _ => {
                let sum = self.of(at, block, Some(HEADER_CHECKSUM));
                HEADER_CHECKSUM.write(block, sum);
            }
        }
        None
    }

    /// Verifies a block that was read from a device. `table` is the block's entry in its chunk's table; only
    /// pointer blocks need it. Free inodes (mode 0) are not checked.
    pub fn verify(&self, kind: BlockKind, at: u64, block: &[u8], inode_size: usize, table: &[u8]) -> bool {
        if block.len() as u64 != BLOCK {
            return false;
        }
        match kind {
            BlockKind::Pointers => chunk_entry::CHECKSUM.read(table) == Some(self.of(at, block, None)),
            BlockKind::Inodes => block.chunks_exact(inode_size).enumerate().all(|(i, one)| {
                inode::MODE.read(one) == Some(0)
                    || inode::CHECKSUM.read(one)
                        == Some(self.of(at + (i * inode_size) as u64, one, Some(inode::CHECKSUM)))
            }),
            _ => {
                block[0].to_bits() == kind as u64
                    && HEADER_CHECKSUM.read(block) == Some(self.of(at, block, Some(HEADER_CHECKSUM)))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sealed_block_verifies_and_any_flipped_bit_or_other_position_fails() {
        let sums = Checksummer::new(7);
        let mut block = vec![0x5a; BLOCK as usize];
        block[0] = BlockKind::Leaf as u8;
        assert_eq!(sums.seal(BlockKind::Leaf, 8192, &mut block, 256), None);
        assert!(sums.verify(BlockKind::Leaf, 8192, &block, 256, &[]));
        assert!(!sums.verify(BlockKind::Leaf, 4096, &block, 256, &[]));
        assert!(!sums.verify(BlockKind::Tree, 8192, &block, 256, &[]));
        assert!(!Checksummer::new(8).verify(BlockKind::Leaf, 8192, &block, 256, &[]));
        for bit in [0, 40, 70, 4095 * 8] {
            block[bit / 8] ^= 1 << (bit % 8);
            assert!(!sums.verify(BlockKind::Leaf, 8192, &block, 256, &[]), "bit {bit}");
            block[bit / 8] ^= 1 << (bit % 8);
        }
    }
}
