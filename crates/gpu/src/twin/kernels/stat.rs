//! Twin of `shaders/stat.comp`.

use crate::twin::headers::memory::Memory;
use lanefs::format::{INODE_CORE, InodeSize};

/// Returns the first bytes of each of these inodes; zeros for an inode that is absent or not in use.
pub fn stat<M: Memory>(memory: &M, size: InodeSize, inos: &[u64]) -> Vec<[u8; INODE_CORE]> {
    inos.iter()
        .map(|ino| {
            let inode = ino.wrapping_mul(size.bytes());
            let is_there =
                memory.word(inode).is_some_and(|word| word & 0xffff != 0 && word & 0xffff != 0xffff);
            let mut core = [0; INODE_CORE];
            for (i, eight) in core.as_chunks_mut::<8>().0.iter_mut().enumerate().filter(|_| is_there) {
                *eight = memory.quad(inode + i as u64 * 8).unwrap_or(0).to_le_bytes();
            }
            core
        })
        .collect()
}
