//! Blocks that contain their own offset, so that a reader can check that it received the right ones.

/// Bytes of a block.
pub(super) const BLOCK: usize = 4096;

/// Writes into each block of `part`, which begins at byte `at` of its file, the block's own offset. No block
/// is zero then.
pub(super) fn stamp(part: &mut [u8], at: u64) {
    for (i, block) in part.chunks_mut(BLOCK).enumerate() {
        block[..8].copy_from_slice(&mark(at + (i * BLOCK) as u64));
    }
}

/// Returns whether these bytes are those of byte `at`, a multiple of [`BLOCK`].
pub(super) fn is_stamped(block: &[u8], at: u64) -> bool {
    block.get(..8) == Some(&mark(at)[..])
}

fn mark(at: u64) -> [u8; 8] {
    (at + 1).to_le_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_tells_where_it_lies() {
        let mut part = vec![0; 3 * BLOCK];
        stamp(&mut part, 8 * BLOCK as u64);
        assert!(is_stamped(&part[2 * BLOCK..], 10 * BLOCK as u64));
        assert!(!is_stamped(&part[2 * BLOCK..], 9 * BLOCK as u64));
        assert!(!is_stamped(&[0; BLOCK], 0) && !is_stamped(&[], 0));
    }
}
