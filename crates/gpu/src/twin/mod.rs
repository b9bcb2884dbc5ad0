//! Twins: the kernels in Rust, function by function, for the host and for proofs. A kernel and its twin give the same bits for the
//! same input; where invocations race for a place of the cache, the twin is one of the possible orders.

pub(crate) mod build;
pub mod cache;
pub mod change;
mod directory;
pub mod fill;
pub mod find;
mod fuel;
pub(crate) mod gather;
pub mod host;
pub mod leaves;
mod links;
pub mod lookup;
pub(crate) mod merge;
mod name;
pub(crate) mod seek;
pub mod stat;
pub mod warm;

/// What kernels read: the volume by position, as far as it is there, and the directory cache.
pub trait Memory {
    /// The 4 bytes at a position, which is a multiple of 4; `None` where nothing is there.
    fn word(&self, at: u64) -> Option<u32>;

    /// The 8 bytes at a position, which is a multiple of 8.
    fn quad(&self, at: u64) -> Option<u64> {
        Some(u64::from(self.word(at)?) | u64::from(self.word(at + 4)?) << 32)
    }

    /// The number of the block at a position among those of the mirror; it is there.
    fn block_number(&self, at: u64) -> u32 {
        let _ = at;
        0
    }

    /// Buckets of the directory cache, 0 without one.
    fn buckets(&self) -> u32 {
        0
    }

    /// A word of the directory cache.
    fn cache(&self, word: u64) -> u32 {
        let _ = word;
        0
    }

    /// The version of a block, by its number.
    fn version(&self, block: u32) -> Option<u32> {
        let _ = block;
        None
    }
}
