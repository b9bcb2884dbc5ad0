//! The directory cache, as in `shaders/cache.glsl`.

use crate::shared::layout::{
    CACHE_BLOCKS, CACHE_BUCKET_WORDS, CACHE_CLAIMS, CACHE_DIR_SHIFT, CACHE_KIND_SHIFT, CACHE_LENGTH_SHIFT,
    CACHE_OVERFLOW, CACHE_SLOT_WORDS, CACHE_SLOTS, CACHE_TAGS, CACHE_VERSIONS, CACHED_INO, CACHED_NAME_BYTES,
    CACHED_NAME_WORDS, HOME_BITS,
};
use crate::shared::limits::CACHE_HOMES;
use crate::twin::headers::directory::Entry;
use crate::twin::headers::fuel::Fuel;
use crate::twin::headers::hash::{bucket_number, end_hash, mix_word};
use crate::twin::headers::memory::Memory;
use crate::twin::headers::name::ShortName;
use lanefs::format::FileKind;

/// Words of a bucket.
pub const BUCKET_WORDS: u64 = CACHE_BUCKET_WORDS as u64;

/// Returns the first word of one of the homes of a name.
fn bucket_of(buckets: u32, dir: u64, hash: u32, home: u32) -> u64 {
    let mixed = mix_word(mix_word(hash, dir as u32), (dir >> 32) as u32);
    let turned = end_hash(mixed, 0).rotate_left(home * HOME_BITS as u32);
    u64::from(bucket_number(turned, buckets)) * BUCKET_WORDS
}

fn packed_slot(dir: u64, entry: &Entry, length: usize) -> u64 {
    entry.ino
        | dir >> 32 << CACHE_DIR_SHIFT
        | u64::from(entry.kind >> 1) << CACHE_KIND_SHIFT
        | (length as u64) << CACHE_LENGTH_SHIFT
}

/// Finds a name in the cache.
pub(in crate::twin) fn cached<M: Memory>(
    memory: &M,
    fuel: &Fuel,
    dir: u64,
    name: &ShortName,
) -> Option<Entry> {
    if memory.buckets() == 0 || name.bytes > CACHED_NAME_BYTES || dir >= CACHED_INO {
        return None;
    }
    for home in 0..CACHE_HOMES {
        let bucket = bucket_of(memory.buckets(), dir, name.hash, home as u32);
        if let Some(entry) = cached_in(memory, bucket, dir, name) {
            return Some(entry);
        }
        if memory.cache(bucket + CACHE_CLAIMS as u64 + 1) & CACHE_OVERFLOW == 0 {
            break;
        }
        fuel.spend(1);
    }
    None
}

/// Finds a name in one of its homes.
fn cached_in<M: Memory>(memory: &M, bucket: u64, dir: u64, name: &ShortName) -> Option<Entry> {
    let tag = dir as u32 ^ name.hash;
    let word = |i: usize| memory.cache(bucket + i as u64);
    // Of two slots with the tag, the one that `insert` tries first.
    let i = (0..2).find(|i| word(CACHE_TAGS + i) == tag)?;
    let slot = CACHE_SLOTS + CACHE_SLOT_WORDS * i;
    let packed = u64::from(word(slot)) | u64::from(word(slot + 1)) << 32;
    let is_it = packed >> CACHE_LENGTH_SHIFT == name.bytes as u64
        && packed >> CACHE_DIR_SHIFT & 0xfff == dir >> 32
        && (0..CACHED_NAME_WORDS).all(|k| word(slot + 2 + k) == name.word[k]);
    let is_current = || memory.version(word(CACHE_BLOCKS + i)) == Some(word(CACHE_VERSIONS + i));
    if !is_it || !is_current() {
        return None;
    }
    let kind = (packed >> CACHE_KIND_SHIFT & 7) as u32;
    let kind = if kind == 0 { FileKind::Fifo as u32 } else { kind << 1 };
    Some(Entry { ino: packed & (CACHED_INO - 1), kind, at: 0 })
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

    /// Returns the number of buckets from which names went to a further home.
    pub fn overflowed(&self) -> usize {
        let buckets = self.words.chunks_exact(CACHE_BUCKET_WORDS);
        buckets.filter(|bucket| bucket[CACHE_CLAIMS + 1] & CACHE_OVERFLOW != 0).count()
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
        let tag = dir as u32 ^ name.hash;
        let claim = self.claim << 20 | tag & (CACHE_OVERFLOW - 1);
        let (buckets, mut is_late) = (self.buckets(), false);
        for n in 0..2 * CACHE_HOMES {
            let at = bucket_of(buckets, dir, name.hash, (n / 2) as u32) as usize;
            let Some(bucket) = self.words.get_mut(at..at + BUCKET_WORDS as usize) else { return };
            debug_assert_eq!(bucket.len(), CACHE_BUCKET_WORDS, "a bucket outside the cache");
            let i = n % 2;
            let before = bucket[CACHE_CLAIMS + i];
            let is_mine = (before ^ claim) >> 20 != 0;
            if !is_mine && before & !CACHE_OVERFLOW == claim {
                return;
            }
            let slot = CACHE_SLOTS + CACHE_SLOT_WORDS * i;
            let mut is_taken = !is_mine;
            is_late |= is_taken;
            if is_mine {
                bucket[CACHE_CLAIMS + i] = claim | before & CACHE_OVERFLOW;
                let is_current = memory.version(bucket[CACHE_BLOCKS + i]) == Some(bucket[CACHE_VERSIONS + i]);
                let is_living = bucket[slot + 1] >> (CACHE_LENGTH_SHIFT - 32) != 0 && is_current;
                let is_last = n + 1 == 2 * CACHE_HOMES && !is_late;
                is_taken = is_living && bucket[CACHE_TAGS + i] != tag && !is_last;
            }
            if is_taken {
                bucket[CACHE_CLAIMS + 1] |= if i == 1 { CACHE_OVERFLOW } else { 0 };
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
