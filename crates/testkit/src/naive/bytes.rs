//! Little-endian words of a structure.

/// Words of a structure at byte offsets. An offset past the end reads as zeros: all offsets come from the
/// document, and the structures have their full length.
pub(super) trait Words {
    fn bytes(&self) -> &[u8];

    fn u8(&self, at: usize) -> u8 {
        self.bytes().get(at).copied().unwrap_or(0)
    }

    fn u16(&self, at: usize) -> u16 {
        u16::from_le_bytes([self.u8(at), self.u8(at + 1)])
    }

    fn u32(&self, at: usize) -> u32 {
        u32::from(self.u16(at)) | u32::from(self.u16(at + 2)) << 16
    }

    fn u64(&self, at: usize) -> u64 {
        match self.bytes().get(at..).and_then(|rest| rest.first_chunk()) {
            Some(word) => u64::from_le_bytes(*word),
            None => u64::from(self.u32(at)) | u64::from(self.u32(at + 4)) << 32,
        }
    }

    fn i64(&self, at: usize) -> i64 {
        self.u64(at) as i64
    }
}

impl Words for [u8] {
    fn bytes(&self) -> &[u8] {
        self
    }
}
