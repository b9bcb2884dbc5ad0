//! The memory that kernels read.

/// Memory of a kernel: the volume by position, as far as the mirror has it, the directory cache and the
/// directory-path table.
pub trait Memory {
    /// Returns the 4 bytes at a position, which is a multiple of 4; `None` where the mirror has none.
    fn word(&self, at: u64) -> Option<u32>;

    /// Returns the 8 bytes at a position, which is a multiple of 8.
    fn quad(&self, at: u64) -> Option<u64> {
        Some(u64::from(self.word(at)?) | u64::from(self.word(at + 4)?) << 32)
    }

    /// Returns the number of the block at a position among those of the mirror, which has it.
    fn block_number(&self, at: u64) -> u32 {
        let _ = at;
        0
    }

    /// Returns the buckets of the directory cache, 0 without one.
    fn buckets(&self) -> u32 {
        0
    }

    /// Returns a word of the directory cache.
    fn cache(&self, word: u64) -> u32 {
        let _ = word;
        0
    }

    /// Returns the buckets of the directory-path table, 0 without one.
    fn dir_buckets(&self) -> u32 {
        0
    }

    /// Returns a word of the buckets of the directory-path table.
    fn dir_bucket(&self, word: u64) -> u32 {
        let _ = word;
        0
    }

    /// Returns a word of the records of the directory-path table.
    fn dir_record(&self, word: u64) -> u32 {
        let _ = word;
        0
    }

    /// Returns the epoch of the directory tree.
    fn epoch(&self) -> u32 {
        0
    }

    /// Returns the version of a block, by its number.
    fn version(&self, block: u32) -> Option<u32> {
        let _ = block;
        None
    }
}
