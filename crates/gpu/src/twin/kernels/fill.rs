//! Twin of `shaders/fill.comp`.

use crate::shared::layout::CACHED_NAME_BYTES;
use crate::shared::query::LookupQuery;
use crate::shared::structures::FillRequest;
use crate::twin::headers::cache::Cache;
use crate::twin::headers::directory::Entry;
use crate::twin::headers::memory::Memory;
use crate::twin::headers::name::ShortName;
use lanefs::format::dir::entry;

/// Puts the entries that lookups requested into a directory cache.
pub fn fill<M: Memory>(memory: &M, query: &LookupQuery, cache: &mut Cache, requests: &[FillRequest]) {
    for request in requests {
        let _ = fill_one(memory, query, cache, request);
    }
}

fn fill_one<M: Memory>(
    memory: &M,
    query: &LookupQuery,
    cache: &mut Cache,
    request: &FillRequest,
) -> Option<()> {
    let word = memory.quad(request.entry + entry::HASH.offset as u64)?;
    let rest = (word >> 32) as u32;
    let length = (rest & 0xff) as usize;
    if length > CACHED_NAME_BYTES {
        return None;
    }
    let mut bytes = Vec::new();
    for i in 0..length.div_ceil(4) {
        bytes.extend(memory.word(request.entry + entry::SIZE as u64 + i as u64 * 4)?.to_le_bytes());
    }
    bytes.truncate(length);
    let ino = memory.quad(request.entry + entry::INODE.offset as u64)?;
    let found = Entry { ino, kind: rest >> 8 & 0xff, at: request.entry };
    cache.insert(memory, request.dir, &ShortName::new(query.seed, &bytes), &found);
    Some(())
}
