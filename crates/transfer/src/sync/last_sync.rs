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

/// Most directories of a record. Those of the largest inode numbers are compared each time.
const MOST_DIRECTORIES: usize = 1 << 19;
/// Directories that remain in a record when it would have more.
const KEPT_DIRECTORIES: usize = MOST_DIRECTORIES / 8 * 7;
/// Most sums of parts of directories in a record. Further directories have none.
const MOST_PARTS: usize = 1 << 20;
/// First bytes of a record: its form.
const MAGIC: [u8; 8] = *b"LFsync2\n";
/// Size of a directory in a record in bytes.
const DIRECTORY_BYTES: usize = 32;
/// Size in bytes of the end of a directory's parts, and of the sum of one.
const END_BYTES: usize = 4;
const PART_BYTES: usize = 8;
/// Size in bytes of what is before the directories: magic number, key, hashes of the image and of the terms,
/// number of directories.
const HEAD_BYTES: usize = 8 + KEY_BYTES + 16 + 16 + 8;
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
        // A time in whole seconds comes again where the clock is set back.
        if ctime_ns == 0 {
            return None;
        }
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
    known_parts: KnownParts,
    /// A time before the sync.
    begin: Time,
    next: Mutex<NextRecord>,
}

/// The sums of the parts of known directories.
#[derive(Default)]
struct KnownParts {
    /// The end of each directory's sums, in the order of the directories.
    ends: Vec<u32>,
    sums: Vec<u64>,
}

impl KnownParts {
    fn of(&self, number: usize) -> &[u64] {
        let end = |number: usize| self.ends.get(number).map_or(0, |end| *end as usize);
        let begin = number.checked_sub(1).map_or(0, end);
        self.sums.get(begin..end(number)).unwrap_or_default()
    }
}

/// A directory of the next record.
#[derive(Clone, Copy)]
struct NextDir {
    dir: SyncedDir,
    /// Place and number of the sums of its parts.
    parts: (u32, u32),
}

struct NextRecord {
    terms: u128,
    dirs: Vec<NextDir>,
    sums: Vec<u64>,
    /// Directories of this inode number and larger ones are left out. So both places of a directory that a
    /// bind mount shows twice are in the record, or none is.
    end: u64,
    is_complete: bool,
}

impl NextRecord {
    fn new(terms: u128) -> Self {
        NextRecord { terms, dirs: Vec::new(), sums: Vec::new(), end: u64::MAX, is_complete: false }
    }

    fn add(&mut self, dir: SyncedDir, parts: &[u64]) {
        if dir.host >= self.end {
            return;
        }
        let parts = if self.sums.len() + parts.len() <= MOST_PARTS { parts } else { &[] };
        self.dirs.push(NextDir { dir, parts: (self.sums.len() as u32, parts.len() as u32) });
        self.sums.extend_from_slice(parts);
        if self.dirs.len() > MOST_DIRECTORIES {
            let (_, first, _) = self.dirs.select_nth_unstable_by_key(KEPT_DIRECTORIES, |next| next.dir);
            let end = first.dir.host;
            self.end = end;
            self.dirs.retain(|next| next.dir.host < end);
        }
    }

    /// Returns the directories that are there once, which are sorted. One that is there twice, as by a bind
    /// mount, has no name of its own.
    fn single(&self) -> impl Iterator<Item = &NextDir> {
        self.dirs.chunk_by(|a, b| a.dir.host == b.dir.host).filter_map(|same| match same {
            [single] => Some(single),
            _ => None,
        })
    }

    fn parts(&self, next: &NextDir) -> &[u64] {
        let (begin, count) = (next.parts.0 as usize, next.parts.1 as usize);
        self.sums.get(begin..begin + count).unwrap_or_default()
    }
}

impl std::fmt::Debug for LastSync {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "LastSync({} directories)", self.known.len())
    }
}

impl LastSync {
    /// Most bytes of a record.
    pub const MOST_BYTES: usize =
        HEAD_BYTES + MOST_DIRECTORIES * (DIRECTORY_BYTES + END_BYTES) + MOST_PARTS * PART_BYTES + SUM_BYTES;

    /// The record of no sync: all names are compared, and the next record begins.
    #[must_use]
    pub fn none() -> LastSync {
        Self::new(FingerprintKey::random(), 0, Vec::new(), KnownParts::default())
    }

    fn new(key: FingerprintKey, terms: u128, known: Vec<SyncedDir>, known_parts: KnownParts) -> LastSync {
        let next = Mutex::new(NextRecord::new(0));
        LastSync { key, terms, known, known_parts, begin: Time::now(), next }
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
        next.dirs.sort_unstable_by_key(|next| next.dir);
        // Memory for millions of files: nothing is copied but into the record itself.
        let count = next.single().count();
        let sums: usize = next.single().map(|dir| next.parts(dir).len()).sum();
        let of_dirs = count * (DIRECTORY_BYTES + END_BYTES);
        let mut record = Vec::with_capacity(HEAD_BYTES + of_dirs + sums * PART_BYTES + SUM_BYTES);
        record.extend(MAGIC);
        record.extend(self.key.0);
        record.extend(self.key.hash(&[&image.bytes()]).to_le_bytes());
        record.extend(next.terms.to_le_bytes());
        record.extend((count as u64).to_le_bytes());
        for NextDir { dir: SyncedDir { host, volume, fingerprint }, .. } in next.single() {
            record.extend(host.to_le_bytes());
            record.extend(volume.0.to_le_bytes());
            record.extend(fingerprint.to_le_bytes());
        }
        let mut end = 0;
        for dir in next.single() {
            end += dir.parts.1;
            record.extend(end.to_le_bytes());
        }
        for sum in next.single().flat_map(|dir| next.parts(dir)) {
            record.extend(sum.to_le_bytes());
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
        *self.next.lock() = NextRecord::new(terms);
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

    /// The sums of the parts of a known directory, if it has some.
    pub(super) fn parts(&self, known: SyncedDir) -> &[u64] {
        let at = self.known.binary_search_by_key(&known.host, |dir| dir.host);
        at.map_or(&[], |at| self.known_parts.of(at))
    }

    /// Adds a directory that is the same in both trees.
    pub(super) fn add(&self, dir: SyncedDir, parts: &[u64]) {
        self.next.lock().add(dir, parts);
    }

    /// Adds a directory that is as it was.
    pub(super) fn keep(&self, known: SyncedDir) {
        self.add(known, self.parts(known));
    }
}

fn decode(record: &[u8], image: &ImageState) -> Option<LastSync> {
    let (body, sum) = record.split_last_chunk::<SUM_BYTES>()?;
    let (magic, rest) = body.split_first_chunk()?;
    let (key, rest) = rest.split_first_chunk()?;
    let (of_image, rest) = rest.split_first_chunk()?;
    let (terms, rest) = rest.split_first_chunk()?;
    let (count, rest) = rest.split_first_chunk()?;
    let key = FingerprintKey(*key);
    let is_good = *magic == MAGIC
        && record.len() <= LastSync::MOST_BYTES
        && key.hash(&[body]) == u128::from_le_bytes(*sum)
        && key.hash(&[&image.bytes()]) == u128::from_le_bytes(*of_image);
    if !is_good {
        return None;
    }
    let count =
        usize::try_from(u64::from_le_bytes(*count)).ok().filter(|count| *count <= MOST_DIRECTORIES)?;
    let (dirs, rest) = rest.split_at_checked(count * DIRECTORY_BYTES)?;
    let (ends, sums) = rest.split_at_checked(count * END_BYTES)?;
    let word = |bytes: &[u8]| bytes.try_into().map(u64::from_le_bytes).ok();
    let dir = |bytes: &[u8]| {
        let fingerprint = u128::from_le_bytes(bytes.get(16..)?.try_into().ok()?);
        Some(SyncedDir { host: word(bytes.get(..8)?)?, volume: Ino(word(bytes.get(8..16)?)?), fingerprint })
    };
    let known: Vec<SyncedDir> = dirs.chunks_exact(DIRECTORY_BYTES).map(dir).collect::<Option<_>>()?;
    let (ends, _) = ends.as_chunks::<END_BYTES>();
    let (sums, more) = sums.as_chunks::<PART_BYTES>();
    let ends: Vec<u32> = ends.iter().map(|end| u32::from_le_bytes(*end)).collect();
    let sums: Vec<u64> = sums.iter().map(|sum| u64::from_le_bytes(*sum)).collect();
    let has_all_sums = ends.last().map_or(0, |end| *end as usize) == sums.len() && more.is_empty();
    let is_sorted = known.is_sorted_by(|a, b| a.host < b.host) && ends.is_sorted();
    let terms = u128::from_le_bytes(*terms);
    let known_parts = KnownParts { ends, sums };
    (is_sorted && has_all_sums).then(|| LastSync::new(key, terms, known, known_parts))
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

    /// Sums of as many parts as the number says.
    fn parts(host: u64) -> Vec<u64> {
        (0..host).map(|part| part << 40 | host).collect()
    }

    fn record(dirs: &[u64]) -> Vec<u8> {
        let last = LastSync::none();
        last.begin(99);
        dirs.iter().for_each(|host| last.add(dir(*host), &parts(*host)));
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
        assert_eq!([3, 4, 7].map(|host| last.parts(dir(host)).to_vec()), [3, 4, 7].map(parts));
        assert!(last.parts(dir(5)).is_empty());
        // The one that is there twice has no name of its own.
        assert_eq!((last.find(5), last.find(6)), (None, None));
        assert!(LastSync::from_record(&bytes, &image(2)).known.is_empty());
        let other = ImageState { file: [1, 2, 3, 4, 5, 6, 8], ..image(1) };
        assert!(!LastSync::from_record(&bytes, &other).has_terms(99));
        // The same sync again makes the same record.
        last.begin(99);
        [4, 3, 7].iter().for_each(|host| last.keep(dir(*host)));
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
    fn a_record_of_another_form_is_that_of_no_sync() {
        let bytes = record(&[1, 2]);
        let last = LastSync::from_record(&bytes, &image(1));
        assert_eq!(last.known.len(), 2);
        // Whole, and by the same key.
        let again = |body: &[u8]| [body, &last.key.hash(&[body]).to_le_bytes()[..]].concat();
        let body = &bytes[..bytes.len() - SUM_BYTES];
        assert_eq!(again(body), bytes);
        for magic in [*b"LFsync1\n", *b"LFsync9\n"] {
            let other = again(&[&magic[..], &body[magic.len()..]].concat());
            assert!(LastSync::from_record(&other, &image(1)).known.is_empty());
        }
        // Directories twice, in no order, half of one; ends and sums that do not go together.
        let (head, rest) = body.split_at(HEAD_BYTES);
        let (dirs, rest) = rest.split_at(2 * DIRECTORY_BYTES);
        let (ends, sums) = rest.split_at(2 * END_BYTES);
        assert_eq!(sums.len(), 3 * PART_BYTES);
        let (one, two) = dirs.split_at(DIRECTORY_BYTES);
        let tail = [ends, sums].concat();
        let all = |dirs: &[&[u8]], tail: &[u8]| again(&[&[head][..], dirs, &[tail][..]].concat().concat());
        assert_eq!(all(&[one, two], &tail), bytes);
        for other in [
            all(&[two, one], &tail),
            all(&[one, one], &tail),
            all(&[one, &two[1..]], &tail),
            all(&[one, two], &tail[..tail.len() - PART_BYTES]),
            all(&[one, two], &[&ends[END_BYTES..], &ends[..END_BYTES], sums].concat()),
            all(&[one, two], &[&[0xff; 2 * END_BYTES][..], sums].concat()),
            all(&[one, two], &[ends, sums, &[0]].concat()),
        ] {
            assert!(LastSync::from_record(&other, &image(1)).known.is_empty());
        }
    }

    #[test]
    fn a_record_has_a_bound() {
        let known = |directories: u64, twins: &[u64]| {
            let last = LastSync::none();
            last.begin(1);
            (0..directories).for_each(|host| last.add(dir(host), &[]));
            twins.iter().for_each(|host| last.add(SyncedDir { volume: Ino(1), ..dir(*host) }, &[]));
            last.complete();
            let bytes = last.next_record(&image(1)).expect("complete");
            assert!(bytes.len() <= LastSync::MOST_BYTES);
            LastSync::from_record(&bytes, &image(1)).known
        };
        let (most, kept) = (MOST_DIRECTORIES as u64, KEPT_DIRECTORIES as u64);
        assert_eq!(known(most, &[]).len(), MOST_DIRECTORIES);
        let hosts: Vec<u64> = known(most + 1, &[]).iter().map(|dir| dir.host).collect();
        assert_eq!(hosts, (0..kept).collect::<Vec<_>>());
        // A directory that is there twice has no name of its own, however late its second one comes.
        let twins = [0, 5, kept - 1, kept, most - 1];
        for directories in [most, most + 1] {
            let known = known(directories, &twins);
            assert!(known.iter().all(|dir| !twins.contains(&dir.host)));
        }
    }

    #[test]
    fn terms_are_hashed_one_by_one() {
        let last = LastSync::none();
        assert_ne!(last.hash(&[b"ab", b"c"]), last.hash(&[b"a", b"bc"]));
        assert_eq!(last.hash(&[b"ab", b"c"]), last.hash(&[b"ab", b"c"]));
    }
}
