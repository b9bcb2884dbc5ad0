//! Twin of `shaders/fill.comp`.

use super::cache::Cache;
use super::directory::Entry;
use super::memory::Memory;
use super::name::Name;
use crate::layout::CACHED_NAME;
use crate::structures::FillRequest;
use lanefs::format::dir::entry;

/// Puts the entries that lookups requested into a directory cache.
pub fn fill<M: Memory>(memory: &M, cache: &mut Cache, requests: &[FillRequest]) {
    for request in requests {
        let _ = fill_one(memory, cache, request);
    }
}

fn fill_one<M: Memory>(memory: &M, cache: &mut Cache, request: &FillRequest) -> Option<()> {
    let word = memory.quad(request.entry + entry::HASH.offset as u64)?;
    let rest = (word >> 32) as u32;
    let mut bytes = Vec::new();
    for i in 0..(rest & 0xff).min(CACHED_NAME as u32).div_ceil(4) {
        bytes.extend(memory.word(request.entry + entry::SIZE as u64 + u64::from(i) * 4)?.to_le_bytes());
    }
    // The length refuses a name that is too long.
    bytes.resize((rest & 0xff) as usize, 0);
    let ino = memory.quad(request.entry + entry::INODE.offset as u64)?;
    let found = Entry { ino, kind: rest >> 8 & 0xff, at: request.entry };
    cache.insert(memory, request.dir, &Name::with_hash(word as u32, &bytes), &found);
    Some(())
}
