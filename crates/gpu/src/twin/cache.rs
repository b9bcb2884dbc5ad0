//! The directory cache, as in `shaders/cache.glsl`, where its layout is described.

use super::Memory;
use super::directory::Entry;
use super::name::{CACHED_NAME, CACHED_NAME_WORDS, Name};
use lanefs::format::FileKind;

/// Words of a bucket.
pub const BUCKET_WORDS: u64 = 24;

/// Numbers of inodes that the cache takes are below this.
const CACHED_INO: u64 = 1 << 44;

/// First word of a bucket.
fn bucket_of(buckets: u32, dir: u64, hash: u32) -> u64 {
    let mut mixed = (dir as u32).wrapping_mul(0x9e37_79b1) ^ ((dir >> 32) as u32).wrapping_mul(0x85eb_ca77);
    mixed = mixed.wrapping_add(hash.wrapping_mul(0xc2b2_ae3d));
    mixed = (mixed ^ mixed >> 15).wrapping_mul(0x2c1b_3c6d);
    mixed ^= mixed >> 13;
    ((u64::from(mixed) * u64::from(buckets)) >> 32) * BUCKET_WORDS
}

fn packed_place(dir: u64, entry: &Entry, length: usize) -> u64 {
    entry.ino | dir >> 32 << 44 | u64::from(entry.kind >> 1) << 56 | (length as u64) << 59
}

/// What the cache has of a name.
pub(super) fn cached<M: Memory>(memory: &M, dir: u64, name: &Name<'_>) -> Option<Entry> {
    if memory.buckets() == 0 || name.bytes.len() > CACHED_NAME || dir >= CACHED_INO {
        return None;
    }
    let bucket = bucket_of(memory.buckets(), dir, name.hash);
    let tag = dir as u32 ^ name.hash;
    for i in 0..2 {
        if memory.cache(bucket + i) != tag {
            continue;
        }
        let place = bucket + 8 + 8 * i;
        let packed = u64::from(memory.cache(place)) | u64::from(memory.cache(place + 1)) << 32;
        let is_it = packed >> 59 == name.bytes.len() as u64
            && packed >> 44 & 0xfff == dir >> 32
            && (0..CACHED_NAME_WORDS).all(|k| memory.cache(place + 2 + k as u64) == name.first[k]);
        if is_it && memory.version(memory.cache(bucket + 2 + i)) == Some(memory.cache(bucket + 4 + i)) {
            let kind = (packed >> 56 & 7) as u32;
            let kind = if kind == 0 { FileKind::Fifo as u32 } else { kind << 1 };
            return Some(Entry { ino: packed & (CACHED_INO - 1), kind, at: 0 });
        }
    }
    None
}

/// A cache that is filled: on the host a copy of the device's.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cache {
    /// The buckets, one behind the other.
    pub words: Vec<u32>,
    /// Number of the dispatch that fills it.
    pub claim: u32,
}

impl Cache {
    /// Buckets that there are.
    pub fn buckets(&self) -> u32 {
        (self.words.len() as u64 / BUCKET_WORDS) as u32
    }

    /// What is in each place that has something: the words that a lookup compares, and the block's number and version.
    pub fn contents(&self) -> std::collections::BTreeSet<[u32; 11]> {
        let places = |bucket: &[u32]| -> Vec<[u32; 11]> {
            let place = |i: usize| {
                let rest = &bucket[8 + 8 * i..16 + 8 * i];
                std::array::from_fn(|k| if k < 3 { bucket[2 * k + i] } else { rest[k - 3] })
            };
            [place(0), place(1)].into_iter().filter(|place| place[4] >> 27 != 0).collect()
        };
        self.words.chunks_exact(BUCKET_WORDS as usize).flat_map(places).collect()
    }

    /// Puts an entry into the cache.
    pub(super) fn insert<M: Memory>(&mut self, memory: &M, dir: u64, name: &Name<'_>, entry: &Entry) {
        let is_long = name.bytes.len() > CACHED_NAME;
        if self.words.is_empty() || is_long || dir >= CACHED_INO || entry.ino >= CACHED_INO {
            return;
        }
        let at = bucket_of(self.buckets(), dir, name.hash) as usize;
        let Some(bucket) = self.words.get_mut(at..at + BUCKET_WORDS as usize) else { return };
        let tag = dir as u32 ^ name.hash;
        let choice = (tag & 1) as usize;
        let mut is_late = false;
        for n in 0..2 {
            let i = choice ^ n;
            if bucket[6 + i] == self.claim {
                if bucket[i] == tag {
                    return;
                }
                is_late = true;
                continue;
            }
            bucket[6 + i] = self.claim;
            let is_current = memory.version(bucket[2 + i]) == Some(bucket[4 + i]);
            let is_free = bucket[9 + 8 * i] >> 27 == 0 || !is_current;
            if !is_free && bucket[i] != tag && (n == 0 || is_late) {
                continue;
            }
            let block = memory.block_number(entry.at);
            let packed = packed_place(dir, entry, name.bytes.len());
            bucket[i] = tag;
            bucket[2 + i] = block;
            bucket[4 + i] = memory.version(block).unwrap_or(0);
            bucket[8 + 8 * i] = packed as u32;
            bucket[9 + 8 * i] = (packed >> 32) as u32;
            bucket[10 + 8 * i..16 + 8 * i].copy_from_slice(&name.first);
            return;
        }
    }
}
