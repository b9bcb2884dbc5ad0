//! The directory-path table, as in `shaders/dir_table.glsl` and `shaders/learn.comp`.

use crate::shared::layout::{
    DIR_BUCKET_WORDS, DIR_CLAIM, DIR_EPOCH, DIR_HASH, DIR_HEADER_WORDS, DIR_LENGTH_BITS, DIR_PATH_MAX,
    DIR_SLOT_WORDS, DIR_UNIT_WORDS, DIR_WHERE, HOME_BITS,
};
use crate::shared::limits::DIR_HOMES;
use crate::twin::headers::hash::{bucket_number, end_hash, mix_word};
use crate::twin::headers::memory::Memory;
use crate::twin::headers::name::word_of;
use lanefs::format::HashSeed;
use std::collections::BTreeSet;

/// The path of a directory, and the directory in which it starts.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DirPath<'p> {
    pub(crate) start: u64,
    pub(crate) path: &'p [u8],
}

impl DirPath<'_> {
    fn words(&self) -> impl Iterator<Item = u32> {
        (0..self.path.len()).step_by(4).map(|at| word_of(self.path, at))
    }

    pub(crate) fn hash(&self, seed: HashSeed) -> u32 {
        let hash = mix_word(mix_word(seed.0[0], self.start as u32), (self.start >> 32) as u32);
        end_hash(self.words().fold(hash, mix_word), self.path.len() as u32)
    }
}

/// Returns the first word of one of the homes of a directory.
fn dir_bucket_of(buckets: u32, hash: u32, home: u32) -> u64 {
    let turned = hash.rotate_left(home * HOME_BITS as u32);
    u64::from(bucket_number(turned, buckets)) * DIR_BUCKET_WORDS as u64
}

/// Finds a directory.
pub(in crate::twin) fn known_directory<M: Memory>(
    memory: &M,
    seed: HashSeed,
    dir: &DirPath<'_>,
) -> Option<u64> {
    if memory.dir_buckets() == 0 || dir.path.len() > DIR_PATH_MAX {
        return None;
    }
    let hash = dir.hash(seed);
    for home in 0..DIR_HOMES {
        let bucket = dir_bucket_of(memory.dir_buckets(), hash, home as u32);
        let word = |slot, field| memory.dir_bucket(bucket + (slot * DIR_SLOT_WORDS + field) as u64);
        let is_living = |slot| word(slot, DIR_EPOCH) == memory.epoch();
        if let Some(slot) = (0..2).find(|slot| word(*slot, DIR_HASH) == hash && is_living(*slot)) {
            let packed = word(slot, DIR_WHERE);
            let is_as_long = packed as usize & ((1 << DIR_LENGTH_BITS) - 1) == dir.path.len();
            let record = u64::from(packed >> DIR_LENGTH_BITS) * DIR_UNIT_WORDS as u64;
            return if is_as_long { compare_record(memory, record, dir) } else { None };
        }
        if !(0..2).all(is_living) {
            break;
        }
    }
    None
}

fn compare_record<M: Memory>(memory: &M, record: u64, dir: &DirPath<'_>) -> Option<u64> {
    let word = |i: usize| memory.dir_record(record + i as u64);
    let quad = |i: usize| u64::from(word(i)) | u64::from(word(i + 1)) << 32;
    let (ino, start) = (quad(0), quad(2));
    let is_same = start == dir.start && dir.words().zip(DIR_HEADER_WORDS..).all(|(want, i)| word(i) == want);
    is_same.then_some(ino).filter(|ino| *ino != 0)
}

/// A directory-path table on the host.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DirTable {
    /// The buckets, one after the other.
    pub buckets: Vec<u32>,
    /// The records; the first word is the number of units in use.
    pub records: Vec<u32>,
    /// Epoch of the entries that count.
    pub epoch: u32,
    /// Number of the dispatch that fills the table.
    pub claim: u32,
}

impl DirTable {
    /// Makes an empty table.
    pub fn empty(buckets: u32) -> DirTable {
        let words = buckets as usize * DIR_BUCKET_WORDS;
        let records = (1 + buckets as usize * 3) * DIR_UNIT_WORDS;
        DirTable { buckets: vec![0; words], records: vec![0; records], epoch: 1, claim: 1 }
    }

    /// Returns the number of buckets.
    pub fn buckets(&self) -> u32 {
        (self.buckets.len() / DIR_BUCKET_WORDS) as u32
    }

    /// Returns the entries of this epoch: start, inode number, path with zeros up to a multiple of four.
    pub fn contents(&self) -> BTreeSet<(u64, u64, Vec<u32>)> {
        let entry = |slot: &[u32]| {
            let packed = slot[DIR_WHERE];
            let at = (packed >> DIR_LENGTH_BITS) as usize * DIR_UNIT_WORDS;
            let words = (packed as usize & ((1 << DIR_LENGTH_BITS) - 1)).div_ceil(4);
            let record = &self.records[at..at + DIR_HEADER_WORDS + words];
            let quad = |i: usize| u64::from(record[i]) | u64::from(record[i + 1]) << 32;
            (quad(2), quad(0), record[DIR_HEADER_WORDS..].to_vec())
        };
        let slots = self.buckets.chunks_exact(DIR_SLOT_WORDS);
        slots.filter(|slot| self.epoch != 0 && slot[DIR_EPOCH] == self.epoch).map(entry).collect()
    }

    /// Puts the path of a directory into the table.
    pub(in crate::twin) fn put(&mut self, seed: HashSeed, dir: &DirPath<'_>, ino: u64) {
        let hash = dir.hash(seed);
        let claim = self.claim << 20 | hash & 0xf_ffff;
        for n in 0..2 * DIR_HOMES {
            let bucket = dir_bucket_of(self.buckets(), hash, (n / 2) as u32) as usize;
            let at = bucket + n % 2 * DIR_SLOT_WORDS;
            let slot = &self.buckets[at..at + DIR_SLOT_WORDS];
            let before = slot[DIR_CLAIM];
            if before == claim {
                return;
            }
            if (before ^ claim) >> 20 == 0 {
                continue;
            }
            let (is_living, is_same) = (slot[DIR_EPOCH] == self.epoch, slot[DIR_HASH] == hash);
            self.buckets[at + DIR_CLAIM] = claim;
            match (is_living, is_same) {
                (false, _) => {
                    if let Some(unit) = self.put_record(dir, ino) {
                        self.buckets[at + DIR_HASH] = hash;
                        self.buckets[at + DIR_EPOCH] = self.epoch;
                        self.buckets[at + DIR_WHERE] = unit << DIR_LENGTH_BITS | dir.path.len() as u32;
                    }
                    return;
                }
                (true, true) => return,
                (true, false) => {}
            }
        }
    }

    /// Writes a record; returns its unit. The unit before the records counts those in use.
    fn put_record(&mut self, dir: &DirPath<'_>, ino: u64) -> Option<u32> {
        let room = (self.records.len() / DIR_UNIT_WORDS) as u32;
        let units = (DIR_HEADER_WORDS + dir.path.len().div_ceil(4)).div_ceil(DIR_UNIT_WORDS) as u32;
        let before = self.records[0];
        if before >= room {
            return None;
        }
        self.records[0] += units;
        if before + units >= room {
            return None;
        }
        let at = (before + 1) as usize * DIR_UNIT_WORDS;
        let header = [ino as u32, (ino >> 32) as u32, dir.start as u32, (dir.start >> 32) as u32];
        let words = header.into_iter().chain(dir.words()).chain(std::iter::repeat(0));
        let record = &mut self.records[at..at + units as usize * DIR_UNIT_WORDS];
        record.iter_mut().zip(words).for_each(|(to, word)| *to = word);
        Some(before + 1)
    }
}
