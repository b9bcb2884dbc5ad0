//! The directory cache, as in `shaders/cache.glsl`.

use crate::shared::layout::{
    CACHE_BLOCKS, CACHE_BUCKET_WORDS, CACHE_CLAIMS, CACHE_DIR_SHIFT, CACHE_KIND_SHIFT, CACHE_LENGTH_SHIFT,
    CACHE_SLOT_WORDS, CACHE_SLOTS, CACHE_TAGS, CACHE_VERSIONS, CACHED_INO, CACHED_NAME_BYTES,
    CACHED_NAME_WORDS,
};
use crate::twin::headers::directory::Entry;
use crate::twin::headers::hash::{bucket_number, end_hash, mix_word};
use crate::twin::headers::memory::Memory;
use crate::twin::headers::name::ShortName;
use lanefs::format::FileKind;

/// Words of a bucket.
pub const BUCKET_WORDS: u64 = CACHE_BUCKET_WORDS as u64;

/// Returns the first word of a bucket.
fn bucket_of(buckets: u32, dir: u64, hash: u32) -> u64 {
    let mixed = mix_word(mix_word(hash, dir as u32), (dir >> 32) as u32);
    u64::from(bucket_number(end_hash(mixed, 0), buckets)) * BUCKET_WORDS
}

fn packed_slot(dir: u64, entry: &Entry, length: usize) -> u64 {
    entry.ino
        | dir >> 32 << CACHE_DIR_SHIFT
        | u64::from(entry.kind >> 1) << CACHE_KIND_SHIFT
        | (length as u64) << CACHE_LENGTH_SHIFT
}

/// Finds a name in the cache.
pub(in crate::twin) fn cached<M: Memory>(memory: &M, dir: u64, name: &ShortName) -> Option<Entry> {
    if memory.buckets() == 0 || name.bytes > CACHED_NAME_BYTES || dir >= CACHED_INO {
        return None;
    }
    let bucket = bucket_of(memory.buckets(), dir, name.hash);
    let tag = dir as u32 ^ name.hash;
    let word = |i: usize| memory.cache(bucket + i as u64);
    for i in 0..2 {
        if word(CACHE_TAGS + i) != tag {
            continue;
        }
        let slot = CACHE_SLOTS + CACHE_SLOT_WORDS * i;
        let packed = u64::from(word(slot)) | u64::from(word(slot + 1)) << 32;
        let is_it = packed >> CACHE_LENGTH_SHIFT == name.bytes as u64
            && packed >> CACHE_DIR_SHIFT & 0xfff == dir >> 32
            && (0..CACHED_NAME_WORDS).all(|k| word(slot + 2 + k) == name.word[k]);
        if is_it && memory.version(word(CACHE_BLOCKS + i)) == Some(word(CACHE_VERSIONS + i)) {
            let kind = (packed >> CACHE_KIND_SHIFT & 7) as u32;
            let kind = if kind == 0 { FileKind::Fifo as u32 } else { kind << 1 };
            return Some(Entry { ino: packed & (CACHED_INO - 1), kind, at: 0 });
        }
    }
    None
}

/// A directory cache on the host.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cache {
    /// The buckets, one after the other.
    pub words: Vec<u32>,
    /// Number of the dispatch that fills the cache.
    pub claim: u32,
}

impl Cache {
    /// Returns the number of buckets.
    pub fn buckets(&self) -> u32 {
        (self.words.len() as u64 / BUCKET_WORDS) as u32
    }

    /// Returns the contents of each slot in use: the words that a lookup compares, and the block's number
    /// and version.
    pub fn contents(&self) -> std::collections::BTreeSet<[u32; 11]> {
        let slots = |bucket: &[u32]| -> Vec<[u32; 11]> {
            let slot_of = |i: usize| {
                let slot = &bucket[CACHE_SLOTS + CACHE_SLOT_WORDS * i..][..CACHE_SLOT_WORDS];
                let head = [CACHE_TAGS, CACHE_BLOCKS, CACHE_VERSIONS].map(|field| bucket[field + i]);
                std::array::from_fn(|k| if k < 3 { head[k] } else { slot[k - 3] })
            };
            let is_used = |slot: &[u32; 11]| slot[4] >> (CACHE_LENGTH_SHIFT - 32) != 0;
            [slot_of(0), slot_of(1)].into_iter().filter(is_used).collect()
        };
        self.words.chunks_exact(BUCKET_WORDS as usize).flat_map(slots).collect()
    }

    /// Puts an entry into the cache.
    pub(in crate::twin) fn insert<M: Memory>(
        &mut self,
        memory: &M,
        dir: u64,
        name: &ShortName,
        entry: &Entry,
    ) {
        let is_long = name.bytes > CACHED_NAME_BYTES;
        if self.words.is_empty() || is_long || dir >= CACHED_INO || entry.ino >= CACHED_INO {
            return;
        }
        let at = bucket_of(self.buckets(), dir, name.hash) as usize;
        let Some(bucket) = self.words.get_mut(at..at + BUCKET_WORDS as usize) else { return };
        debug_assert_eq!(bucket.len(), CACHE_BUCKET_WORDS, "a bucket outside the cache");
        let tag = dir as u32 ^ name.hash;
        let choice = (tag & 1) as usize;
        let claim = self.claim << 20 | tag & 0xf_ffff;
        let mut is_late = false;
        for n in 0..2 {
            let i = choice ^ n;
            let before = bucket[CACHE_CLAIMS + i];
            if before == claim {
                return;
            }
            if (before ^ claim) >> 20 == 0 {
                is_late = true;
                continue;
            }
            bucket[CACHE_CLAIMS + i] = claim;
            let slot = CACHE_SLOTS + CACHE_SLOT_WORDS * i;
            let is_current = memory.version(bucket[CACHE_BLOCKS + i]) == Some(bucket[CACHE_VERSIONS + i]);
            let is_free = bucket[slot + 1] >> (CACHE_LENGTH_SHIFT - 32) == 0 || !is_current;
            if !is_free && bucket[CACHE_TAGS + i] != tag && (n == 0 || is_late) {
                continue;
            }
            let block = memory.block_number(entry.at);
            let packed = packed_slot(dir, entry, name.bytes);
            bucket[CACHE_TAGS + i] = tag;
            bucket[CACHE_BLOCKS + i] = block;
            bucket[CACHE_VERSIONS + i] = memory.version(block).unwrap_or(0);
            bucket[slot] = packed as u32;
            bucket[slot + 1] = (packed >> 32) as u32;
            bucket[slot + 2..slot + CACHE_SLOT_WORDS].copy_from_slice(&name.word);
            return;
        }
    }
}
