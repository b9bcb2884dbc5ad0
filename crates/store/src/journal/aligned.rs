//! Aligned memory, for direct I/O.

use lanefs_format::BLOCK;
use std::ops::{Deref, DerefMut};

/// Bytes whose address is a multiple of 4096. A move of the value does not move them.
///
/// A vector that is one block longer than needed always has an aligned start in it, so the type needs no
/// allocator call (and nothing unsafe); pages that are not accessed take no memory.
#[derive(Default)]
pub(crate) struct AlignedBuffer {
    bytes: Vec<u8>,
    start: usize,
    len: usize,
}

impl AlignedBuffer {
    /// Returns `len` bytes, all zero.
    pub(crate) fn zeroed(len: usize) -> Self {
        let bytes = vec![0; len + BLOCK as usize - 1];
        let start = bytes.as_ptr().addr().wrapping_neg() % BLOCK as usize;
        debug_assert!(start + len <= bytes.len());
        AlignedBuffer { bytes, start, len }
    }

    /// Changes the length to `len` bytes, in the same memory where there is enough. The content is then old
    /// bytes, or zeros.
    pub(crate) fn reuse(&mut self, len: usize) {
        if self.start + len <= self.bytes.len() {
            self.len = len;
        } else {
            *self = Self::zeroed(len);
        }
    }
}

impl Deref for AlignedBuffer {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes[self.start..self.start + self.len]
    }
}

impl DerefMut for AlignedBuffer {
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut self.bytes[self.start..self.start + self.len]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_buffer_is_aligned_wherever_it_goes() {
        let mut kept = Vec::new();
        let large = if cfg!(miri) { 5 << 12 } else { 3 << 20 };
        for len in [0, 1, 4096, 4097, large / 3, large] {
            let mut buffer = AlignedBuffer::zeroed(len);
            assert!(buffer.iter().all(|byte| *byte == 0));
            buffer.fill(7);
            kept.push(buffer);
        }
        kept[1].reuse(9000);
        assert_eq!(kept[1].len(), 9000);
        kept[5].reuse(5);
        assert!(kept[5].bytes.len() >= large && kept[5].len() == 5);
        for buffer in &kept {
            assert!(buffer.is_empty() || buffer.as_ptr().addr().is_multiple_of(4096));
        }
    }
}
