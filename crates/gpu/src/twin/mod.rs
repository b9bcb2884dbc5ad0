//! Twins: the kernels in Rust, function by function, for the host and for proofs. A kernel and its twin give the same bits for the
//! same input.

pub mod lookup;

/// What kernels read: the volume by position, as far as it is there.
pub trait Memory {
    /// The 4 bytes at a position, which is a multiple of 4; `None` where nothing is there.
    fn word(&self, at: u64) -> Option<u32>;

    /// The 8 bytes at a position, which is a multiple of 8.
    fn quad(&self, at: u64) -> Option<u64> {
        Some(u64::from(self.word(at)?) | u64::from(self.word(at + 4)?) << 32)
    }
}
