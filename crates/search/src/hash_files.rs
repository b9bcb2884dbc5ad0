//! Hashes of the contents of many files.
//!
//! Small files are read together, and another engine may hash them ([`ContentHash`]). Large files are read
//! piece by piece, so that none has to fit into memory, and the CPU engine hashes the pieces.

use crate::batch::{self, Candidate, Job, Jobs};
use crate::content_hash::ContentHash;
use crate::error::{Error, FileError, Result};
use crate::file::FileReader;
use crate::ordered::in_order;
use lanefs::Volume;
use std::io::Read;

/// First bytes by which large files are told apart before they are read whole.
pub(crate) const FIRST_BYTES: u64 = 64 << 10;

/// Which bytes of a file are hashed.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Part {
    First,
    All,
}

/// The BLAKE3 hash of each file, in the order of the files, or the reason why there is none.
pub type Hashes = Vec<std::result::Result<[u8; 32], FileError>>;

/// Hashes the contents of files by an engine, on up to `threads` threads. It stops where `stops` returns
/// true.
///
/// # Errors
/// [`Error::Interrupted`].
pub fn hash_files(
    hasher: &dyn ContentHash,
    volume: &Volume,
    files: Vec<Candidate>,
    threads: usize,
    stops: &(dyn Fn() -> bool + Sync),
) -> Result<Hashes> {
    let mut files = files.into_iter();
    hashes(hasher, volume, &mut || files.next(), threads, Part::All, &|_| {}, stops)
}

/// Hashes parts of files. `progress` is called with the number of files that are done.
pub(crate) fn hashes(
    hasher: &dyn ContentHash,
    volume: &Volume,
    next: &mut dyn FnMut() -> Option<Candidate>,
    threads: usize,
    part: Part,
    progress: &dyn Fn(u64),
    stops: &(dyn Fn() -> bool + Sync),
) -> Result<Hashes> {
    let mut jobs = Jobs::new(next);
    let mut hashes = Hashes::new();
    in_order(
        threads,
        || jobs.next().filter(|_| !stops()),
        || |job| hash_job(hasher, volume, job, part, stops),
        |done: Hashes| {
            hashes.extend(done);
            progress(hashes.len() as u64);
            if stops() { Err(Error::Interrupted) } else { Ok(()) }
        },
    )?;
    if stops() { Err(Error::Interrupted) } else { Ok(hashes) }
}

fn hash_job(
    hasher: &dyn ContentHash,
    volume: &Volume,
    job: Job,
    part: Part,
    stops: &dyn Fn() -> bool,
) -> Hashes {
    match job {
        Job::Large(file) => vec![hash_large(volume, &file, part, stops).map_err(FileError::of)],
        Job::Small(files) => {
            let mut hashes = Hashes::with_capacity(files.len());
            batch::read(volume, &files, stops, |_, contents| {
                let texts: Vec<&[u8]> =
                    contents.iter().map(|one| *one.as_ref().unwrap_or(&&[][..])).collect();
                let found = hasher.hash(&texts);
                debug_assert_eq!(found.len(), texts.len(), "a hash for each text");
                let hash = |(one, hash): (std::result::Result<&[u8], _>, _)| one.map(|_| hash);
                hashes
                    .extend(contents.into_iter().zip(found).map(|one| hash(one).map_err(FileError::Volume)));
            });
            hashes
        }
    }
}

fn hash_large(
    volume: &Volume,
    file: &Candidate,
    part: Part,
    stops: &dyn Fn() -> bool,
) -> std::io::Result<[u8; 32]> {
    let most = if part == Part::First { FIRST_BYTES } else { u64::MAX };
    let mut hasher = blake3::Hasher::new();
    hasher.update_reader(FileReader::new(volume, file.ino, stops).take(most))?;
    Ok(*hasher.finalize().as_bytes())
}
