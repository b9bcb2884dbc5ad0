//! Files of the same content.
//!
//! Files of one size are compared by the BLAKE3 hash of their first bytes, and those with the same first
//! bytes by the hash of all. Two names of one file are one file.

use crate::batch::{Candidate, LARGE_BYTES};
use crate::content_hash::{ContentHash, CpuHash};
use crate::error::{Error, FileError, Result};
use crate::hash_files::{FIRST_BYTES, Hashes, Part, hashes};
use lanefs::{Ino, Volume};
use std::collections::{BTreeMap, HashMap};

/// Files of the same content.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DuplicateFiles {
    /// Size of each in bytes.
    pub size: u64,
    /// BLAKE3 hash of the content.
    pub hash: [u8; 32],
    /// The paths of each file, in the order in which they were named.
    pub files: Vec<Vec<Vec<u8>>>,
}

impl DuplicateFiles {
    /// Bytes that all but one of the files have.
    pub fn wasted(&self) -> u64 {
        self.size.saturating_mul(self.files.len() as u64 - 1)
    }
}

/// Result of [`duplicates`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Duplicates {
    /// Those that waste the most bytes come first.
    pub groups: Vec<DuplicateFiles>,
    /// Bytes that were read.
    pub read: u64,
    /// Files that could not be read.
    pub failed: u64,
}

/// A file with all of its names.
struct File {
    candidate: Candidate,
    paths: Vec<Vec<u8>>,
}

/// Finds the files of the same content, on up to `threads` threads. `failed` learns of files that could not
/// be read; where it returns false the search ends. `progress` is called with files done and files of all.
/// The search stops where `stops` returns true.
///
/// # Errors
/// [`Error::Interrupted`], [`Error::Ended`].
pub fn duplicates(
    volume: &Volume,
    candidates: Vec<Candidate>,
    threads: usize,
    failed: &mut dyn FnMut(&[u8], FileError) -> bool,
    progress: &dyn Fn(u64, u64),
    stops: &(dyn Fn() -> bool + Sync),
) -> Result<Duplicates> {
    duplicates_by(&CpuHash, volume, candidates, threads, failed, progress, stops)
}

/// Does the same with an engine that hashes the contents of small files.
///
/// # Errors
/// As [`duplicates`].
pub fn duplicates_by(
    hasher: &dyn ContentHash,
    volume: &Volume,
    candidates: Vec<Candidate>,
    threads: usize,
    failed: &mut dyn FnMut(&[u8], FileError) -> bool,
    progress: &dyn Fn(u64, u64),
    stops: &(dyn Fn() -> bool + Sync),
) -> Result<Duplicates> {
    let mut search =
        Search { hasher, volume, threads, failed, progress, stops, result: Duplicates::default() };
    let mut by_size: BTreeMap<u64, Vec<File>> = BTreeMap::new();
    for file in with_names(candidates) {
        by_size.entry(file.candidate.size).or_default().push(file);
    }
    let (small, large): (Vec<_>, Vec<_>) = by_size
        .into_values()
        .filter(|files| files.len() > 1)
        .partition(|files| files[0].candidate.size < LARGE_BYTES);
    // Large files with the same first bytes.
    let large = search.split(large, Part::First)?.into_iter().map(|(_, files)| files);
    let found = search.split(small.into_iter().chain(large).collect(), Part::All)?;
    let mut result = search.result;
    let groups = found.into_iter().map(|(hash, files)| DuplicateFiles {
        size: files[0].candidate.size,
        hash,
        files: files.into_iter().map(|file| file.paths).collect(),
    });
    result.groups = groups.collect();
    result.groups.sort_by(|a, b| b.wasted().cmp(&a.wasted()).then_with(|| a.files.cmp(&b.files)));
    Ok(result)
}

/// Gathers the names of each file.
fn with_names(candidates: Vec<Candidate>) -> Vec<File> {
    let mut by_ino: HashMap<Ino, usize> = HashMap::new();
    let mut files: Vec<File> = Vec::new();
    for candidate in candidates {
        let path = candidate.path.clone();
        match by_ino.get(&candidate.ino) {
            Some(index) => files[*index].paths.push(path),
            None => {
                by_ino.insert(candidate.ino, files.len());
                files.push(File { candidate, paths: vec![path] });
            }
        }
    }
    files
}

/// A search that is under way.
struct Search<'s> {
    hasher: &'s dyn ContentHash,
    volume: &'s Volume,
    threads: usize,
    failed: &'s mut dyn FnMut(&[u8], FileError) -> bool,
    progress: &'s dyn Fn(u64, u64),
    stops: &'s (dyn Fn() -> bool + Sync),
    result: Duplicates,
}

impl Search<'_> {
    /// Splits groups of files by a hash. Those with one file are left out.
    fn split(&mut self, groups: Vec<Vec<File>>, part: Part) -> Result<Vec<([u8; 32], Vec<File>)>> {
        let sizes = groups.iter().map(Vec::len);
        let number: Vec<usize> = sizes.enumerate().flat_map(|(group, len)| vec![group; len]).collect();
        let files: Vec<File> = groups.into_iter().flatten().collect();
        let hashes = self.hashes(&files, part)?;
        let mut found: BTreeMap<(usize, [u8; 32]), Vec<File>> = BTreeMap::new();
        for ((file, group), hash) in files.into_iter().zip(number).zip(hashes) {
            match hash {
                Ok(hash) => found.entry((group, hash)).or_default().push(file),
                Err(error) => {
                    self.result.failed += 1;
                    if !(self.failed)(&file.paths[0], error) {
                        return Err(Error::Ended);
                    }
                }
            }
        }
        let found = found.into_iter().filter(|(_, files)| files.len() > 1);
        Ok(found.map(|((_, hash), files)| (hash, files)).collect())
    }

    fn hashes(&mut self, files: &[File], part: Part) -> Result<Hashes> {
        let mut candidates = files.iter().map(|file| file.candidate.clone());
        let (progress, all) = (self.progress, files.len() as u64);
        let hashes = hashes(
            self.hasher,
            self.volume,
            &mut || candidates.next(),
            self.threads,
            part,
            &|done| progress(done, all),
            self.stops,
        )?;
        let bytes = |file: &File| if part == Part::First { FIRST_BYTES } else { file.candidate.size };
        self.result.read += files.iter().map(bytes).sum::<u64>();
        Ok(hashes)
    }
}
