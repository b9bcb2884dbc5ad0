//! The record of a sync, for the next one: the fingerprint of each directory of the host, taken before the
//! volume was made the same as it.
//!
//! A directory of the same fingerprint has the same names, of the same files, and no file has changed: its
//! ctime would differ. So nothing of it needs to be compared, if the volume is still as the sync has left it,
//! and the sync looks by the same rules, with the same rights. Where any of that is in doubt the record
//! counts for nothing, and all names are compared.

use super::fingerprint::{Fingerprint, FingerprintKey, KEY_BYTES};
use crate::on_host::change_times::file_system_with_change_times;
use crate::on_host::host::HostMeta;
use crate::on_host::hostdir::FileId;
use lanefs::{Ino, Time, VolumeStamp};
use lanefs_sync::lock::Mutex;
use std::fs::File;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// Most directories of a record. Further ones are compared each time.
const MOST_DIRECTORIES: usize = 1 << 19;
/// First bytes of a record: its form.
const MAGIC: [u8; 8] = *b"LFsync1\n";
/// Size of a directory in a record in bytes.
const DIRECTORY_BYTES: usize = 32;
/// Size in bytes of what is before the directories: magic number, key, hashes of the image and of the terms.
const HEAD_BYTES: usize = 8 + KEY_BYTES + 16 + 16;
/// Size of the checksum at the end in bytes.
const SUM_BYTES: usize = 16;

/// A directory of the host, and the one of the volume that follows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct SyncedDir {
    /// Inode number on the host.
    pub(super) host: u64,
    pub(super) volume: Ino,
    /// 0 where it has none.
    pub(super) fingerprint: u128,
}

/// The state of a closed volume in a file of the host. Another state differs in it: who writes to the file
/// changes its ctime, and who changes the volume changes its stamp.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImageState {
    stamp: VolumeStamp,
    file: [u64; 7],
}

impl ImageState {
    /// Reads the state of the image `path`; `None` for a volume that is in use or was not closed, for a
    /// device, and on a file system whose times do not tell every change.
    #[must_use]
    pub fn of(path: &Path) -> Option<ImageState> {
        let image = File::open(path).ok()?;
        file_system_with_change_times(&image)?;
        let meta = image.metadata().ok().filter(std::fs::Metadata::is_file)?;
        let times =
            [meta.mtime(), meta.mtime_nsec(), meta.ctime(), meta.ctime_nsec()].map(|time| time as u64);
        let [mtime, mtime_ns, ctime, ctime_ns] = times;
        let file = [meta.dev(), meta.ino(), meta.size(), mtime, mtime_ns, ctime, ctime_ns];
        // The stamp comes last: whoever changes the volume meanwhile leaves an older time beside it.
        let stamp = VolumeStamp::of_image(&image).ok().flatten().filter(|stamp| stamp.is_closed)?;
        Some(ImageState { stamp, file })
    }

    /// The stamp of the volume.
    #[must_use]
    pub fn stamp(&self) -> VolumeStamp {
        self.stamp
    }

    /// The file: device and inode number.
    #[must_use]
    pub fn id(&self) -> FileId {
        FileId { dev: self.file[0], ino: self.file[1] }
    }

    fn bytes(&self) -> Vec<u8> {
        let words = self.file.iter().chain([&self.stamp.sequence]);
        let bytes = words.flat_map(|word| word.to_le_bytes()).chain(self.stamp.uuid);
        bytes.collect()
    }
}

/// The record of the last sync of two trees, and what this one adds to the next.
pub struct LastSync {
    key: FingerprintKey,
    terms: u128,
    known: Vec<SyncedDir>,
    /// A time before the sync.
    begin: Time,
    next: Mutex<NextRecord>,
}

#[derive(Default)]
struct NextRecord {
    terms: u128,
    dirs: Vec<SyncedDir>,
    is_complete: bool,
}

impl std::fmt::Debug for LastSync {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "LastSync({} directories)", self.known.len())
    }
}

impl LastSync {
    /// Most bytes of a record.
    pub const MOST_BYTES: usize = HEAD_BYTES + MOST_DIRECTORIES * DIRECTORY_BYTES + SUM_BYTES;

    /// The record of no sync: all names are compared, and the next record begins.
    #[must_use]
    pub fn none() -> LastSync {
        Self::new(FingerprintKey::random(), 0, Vec::new())
    }

    fn new(key: FingerprintKey, terms: u128, known: Vec<SyncedDir>) -> LastSync {
        LastSync { key, terms, known, begin: Time::now(), next: Mutex::default() }
    }

    /// Takes a record that [`next_record`](Self::next_record) made. One that is damaged, or of another state
    /// of the volume than `image`, is that of no sync.
    #[must_use]
    pub fn from_record(record: &[u8], image: &ImageState) -> LastSync {
        decode(record, image).unwrap_or_else(Self::none)
    }

    /// Returns the record for the next sync, for the volume that is closed by now; `None` where the sync has
    /// not made all of it the same, or cannot be recorded.
    #[must_use]
    pub fn next_record(&self, image: &ImageState) -> Option<Vec<u8>> {
        let mut next = self.next.lock();
        if !next.is_complete {
            return None;
        }
        next.dirs.sort_unstable();
        let mut record = Vec::with_capacity(HEAD_BYTES + next.dirs.len() * DIRECTORY_BYTES + SUM_BYTES);
        record.extend(MAGIC);
        record.extend(self.key.0);
        record.extend(self.key.hash(&[&image.bytes()]).to_le_bytes());
        record.extend(next.terms.to_le_bytes());
        for same in next.dirs.chunk_by(|a, b| a.host == b.host) {
            // A directory that is there twice, as by a bind mount, has no name of its own.
            if let [SyncedDir { host, volume, fingerprint }] = same {
                record.extend(host.to_le_bytes());
                record.extend(volume.0.to_le_bytes());
                record.extend(fingerprint.to_le_bytes());
            }
        }
        record.extend(self.key.hash(&[&record]).to_le_bytes());
        Some(record)
    }

    /// The hash of the terms of a sync, each of them.
    pub(super) fn hash(&self, terms: &[&[u8]]) -> u128 {
        let with_lengths =
            terms.iter().flat_map(|term| [&(term.len() as u64).to_le_bytes()[..], term].concat());
        self.key.hash(&[&with_lengths.collect::<Vec<u8>>()])
    }

    /// Begins a sync by these terms.
    pub(super) fn begin(&self, terms: u128) {
        *self.next.lock() = NextRecord { terms, ..NextRecord::default() };
    }

    /// Ends a sync that has made all the same.
    pub(super) fn complete(&self) {
        self.next.lock().is_complete = true;
    }

    /// True where the last sync had the same terms.
    pub(super) fn has_terms(&self, terms: u128) -> bool {
        self.terms == terms && !self.known.is_empty()
    }

    /// The fingerprint of a directory, before its names.
    pub(super) fn fingerprint(&self, dir: &HostMeta) -> Fingerprint {
        Fingerprint::new(self.key, dir, self.begin)
    }

    /// Adds a name to the fingerprint of its directory.
    pub(super) fn add_name(&self, fingerprint: &mut Fingerprint, name: &[u8], file: &HostMeta) {
        fingerprint.add(self.key, name, file, self.begin);
    }

    /// Finds a directory of the host.
    pub(super) fn find(&self, host: u64) -> Option<SyncedDir> {
        let at = self.known.binary_search_by_key(&host, |dir| dir.host).ok()?;
        self.known.get(at).copied()
    }

    /// Adds a directory that is the same in both trees.
    pub(super) fn add(&self, dir: SyncedDir) {
        let mut next = self.next.lock();
        if next.dirs.len() < MOST_DIRECTORIES {
            next.dirs.push(dir);
        }
    }
}

fn decode(record: &[u8], image: &ImageState) -> Option<LastSync> {
    let (body, sum) = record.split_last_chunk::<SUM_BYTES>()?;
    let (magic, rest) = body.split_first_chunk()?;
    let (key, rest) = rest.split_first_chunk()?;
    let (of_image, rest) = rest.split_first_chunk()?;
    let (terms, dirs) = rest.split_first_chunk()?;
    let key = FingerprintKey(*key);
    let is_good = *magic == MAGIC
        && record.len() <= LastSync::MOST_BYTES
        && dirs.len() % DIRECTORY_BYTES == 0
        && key.hash(&[body]) == u128::from_le_bytes(*sum)
        && key.hash(&[&image.bytes()]) == u128::from_le_bytes(*of_image);
    if !is_good {
        return None;
    }
    let word = |bytes: &[u8]| bytes.try_into().map(u64::from_le_bytes).ok();
    let dir = |bytes: &[u8]| {
        let fingerprint = u128::from_le_bytes(bytes.get(16..)?.try_into().ok()?);
        Some(SyncedDir { host: word(bytes.get(..8)?)?, volume: Ino(word(bytes.get(8..16)?)?), fingerprint })
    };
    let known: Vec<SyncedDir> = dirs.chunks_exact(DIRECTORY_BYTES).map(dir).collect::<Option<_>>()?;
    let is_sorted = known.is_sorted_by(|a, b| a.host < b.host);
    let terms = u128::from_le_bytes(*terms);
    is_sorted.then(|| LastSync::new(key, terms, known))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn image(sequence: u64) -> ImageState {
        let stamp = VolumeStamp { uuid: [3; 16], sequence, is_closed: true };
        ImageState { stamp, file: [1, 2, 3, 4, 5, 6, 7] }
    }

    fn dir(host: u64) -> SyncedDir {
        SyncedDir { host, volume: Ino(host * 10), fingerprint: u128::from(host) << 70 | 5 }
    }

    fn record(dirs: &[u64]) -> Vec<u8> {
        let last = LastSync::none();
        last.begin(99);
        dirs.iter().for_each(|host| last.add(dir(*host)));
        assert_eq!(last.next_record(&image(1)), None);
        last.complete();
        last.next_record(&image(1)).expect("complete")
    }

    #[test]
    fn a_record_comes_back_for_the_same_image_alone() {
        let bytes = record(&[7, 3, 5, 4, 5]);
        let last = LastSync::from_record(&bytes, &image(1));
        assert!(last.has_terms(99) && !last.has_terms(98));
        assert_eq!([3, 4, 7].map(|host| last.find(host)), [3, 4, 7].map(|host| Some(dir(host))));
        // The one that is there twice has no name of its own.
        assert_eq!((last.find(5), last.find(6)), (None, None));
        assert!(LastSync::from_record(&bytes, &image(2)).known.is_empty());
        let other = ImageState { file: [1, 2, 3, 4, 5, 6, 8], ..image(1) };
        assert!(!LastSync::from_record(&bytes, &other).has_terms(99));
        // The same sync again makes the same record.
        last.begin(99);
        [4, 3, 7].iter().for_each(|host| last.add(dir(*host)));
        last.complete();
        assert_eq!(last.next_record(&image(1)), Some(bytes));
        last.begin(98);
        assert_eq!(last.next_record(&image(1)), None);
    }

    #[test]
    fn a_damaged_record_is_that_of_no_sync() {
        let bytes = record(&[1, 2]);
        for at in 0..bytes.len() {
            let mut damaged = bytes.clone();
            damaged[at] ^= 1;
            assert!(LastSync::from_record(&damaged, &image(1)).known.is_empty(), "{at}");
            assert!(LastSync::from_record(&bytes[..at], &image(1)).known.is_empty(), "{at}");
        }
        assert_eq!(LastSync::from_record(&bytes, &image(1)).known.len(), 2);
    }

    #[test]
    fn a_record_has_a_bound() {
        let last = LastSync::none();
        last.begin(1);
        (0..=MOST_DIRECTORIES as u64).for_each(|host| last.add(dir(host)));
        last.complete();
        let bytes = last.next_record(&image(1)).expect("complete");
        assert_eq!(bytes.len(), LastSync::MOST_BYTES);
        assert_eq!(LastSync::from_record(&bytes, &image(1)).known.len(), MOST_DIRECTORIES);
    }

    #[test]
    fn terms_are_hashed_one_by_one() {
        let last = LastSync::none();
        assert_ne!(last.hash(&[b"ab", b"c"]), last.hash(&[b"a", b"bc"]));
        assert_eq!(last.hash(&[b"ab", b"c"]), last.hash(&[b"ab", b"c"]));
    }
}
