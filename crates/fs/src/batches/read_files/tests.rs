//! Batches of files beside single reads, warm and cold, alone and beside writers.

use super::options::range_of;
use super::*;
use crate::by_inode::pieces::MAX_WHOLE_BYTES;
use crate::vocabulary::options::{Access, CreateOptions, OpenOptions};
use crate::vocabulary::path_set::PathSet;
use crate::vocabulary::types::{Allocate, Caller, Ino, RenameMode, Resolution, ResolveOptions, SetAttr};
use lanefs_format::{BLOCK, Code, FileKind};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

pub(super) const OWNER: Caller = Caller::OWNER;
pub(super) const CACHE: u64 = 1 << 20;

/// A generator of random numbers (Knuth's constants for 64 bits).
pub(super) struct Random(pub(super) u64);

impl Random {
    pub(super) fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % end.max(1)
    }

    pub(super) fn bytes(&mut self, len: usize) -> Vec<u8> {
        (0..len).map(|_| self.below(256) as u8).collect()
    }
}

pub(super) fn options() -> CreateOptions {
    CreateOptions { size: 96 << 20, ..CreateOptions::default() }
}

/// A volume in a file, with a cache that holds a small part of it.
pub(super) fn on_file(dir: &tempfile::TempDir) -> Volume {
    let path = dir.path().join("volume.lane");
    Volume::create(&path, &options()).expect("create").close().expect("close");
    let options = OpenOptions { cache: Some(CACHE), ..OpenOptions::from(Access::Write) };
    Volume::open(&path, options).expect("open")
}

pub(super) fn make_cold(volume: &Volume) {
    volume.sync().expect("sync");
    volume.shared.state.store.drop_clean();
}

/// Makes files of every kind, and returns their paths and some that lead to no file.
pub(super) fn fill(volume: &Volume, random: &mut Random) -> Vec<String> {
    let mut paths = Vec::new();
    for d in 0..4 {
        let dir = volume.mkdir_all(format!("/d{d}/e"), 0o755).expect("mkdir").ino;
        for i in 0..60 {
            let path = format!("/d{d}/e/f{i}");
            let len = [0, 1, 90, 128, 129, 4096, 5000, 40_000][random.below(8)];
            let more = random.below(9);
            let content = random.bytes(len + more);
            let ino = volume.write_file(&path, &content).expect("write").ino;
            match i % 10 {
                // A hole in the middle, one at the end, and blocks that were never written.
                0 => {
                    let at = 100_000 + random.below(50_000) as u64;
                    volume.write(&OWNER, ino, at, &content).expect("write");
                }
                1 => {
                    let size = Some(content.len() as u64 + random.below(20_000) as u64);
                    volume.setattr(&OWNER, ino, &SetAttr { size, ..SetAttr::default() }).expect("grow");
                }
                2 => {
                    let extend = Allocate::Extend;
                    volume.fallocate(&OWNER, ino, extend, 0, 60_000).expect("fallocate");
                }
                _ => {}
            }
            paths.push(path);
        }
        // Blocks of two files in turns: many extents, and so a radix tree.
        let [a, b] = ["many-a", "many-b"].map(|name| {
            paths.push(format!("/d{d}/e/{name}"));
            volume.create_file(&OWNER, dir, name.as_bytes(), 0o644).expect("create").ino
        });
        for block in 0..40 {
            for ino in [a, b] {
                volume.write(&OWNER, ino, block * 2 * BLOCK, &random.bytes(5000)).expect("write");
            }
        }
        volume.symlink_at(&OWNER, dir, b"link", b"f3").expect("symlink");
        volume.symlink_at(&OWNER, dir, b"up", b"../../d0/e/f4").expect("symlink");
        volume.symlink_at(&OWNER, dir, b"nowhere", b"missing").expect("symlink");
        volume.symlink_at(&OWNER, dir, b"loop", b"loop").expect("symlink");
        let others = ["link", "up", "nowhere", "loop", "missing", "f3/x", "none/x", "", ".", "../e/./f5"];
        paths.extend(others.map(|name| format!("/d{d}/e/{name}")));
    }
    // Larger than one attempt reads, and larger than the cache.
    volume.write_file("/large", random.bytes(2_500_000)).expect("write");
    let sparse = volume.write_file("/sparse", b"begin").expect("write").ino;
    volume.write(&OWNER, sparse, 3 << 20, &random.bytes(70_000)).expect("write");
    let huge = volume.write_file("/huge", b"x").expect("write").ino;
    volume.setattr(&OWNER, huge, &SetAttr { size: Some(1 << 40), ..SetAttr::default() }).expect("grow");
    paths.extend(["/large", "/sparse", "/huge", "", "/", "/d0", "d1/e/f1"].map(String::from));
    paths
}

/// The same by single reads.
fn one_by_one(
    volume: &Volume,
    resolve: &ResolveOptions,
    paths: &[String],
    ranges: Option<&[ByteRange]>,
) -> Vec<std::result::Result<Vec<u8>, Code>> {
    let resolve = ResolveOptions { attributes: true, ..resolve.clone() };
    let answers = volume.resolve_batch(&resolve, paths).expect("resolve");
    let read = |(row, answer): (usize, &Resolution)| {
        let attr = answer.attr.ok_or(answer.code)?;
        let range = range_of(ranges, row);
        let len = if attr.kind == FileKind::File { range.within(attr.size) } else { 1 };
        if len > MAX_WHOLE_BYTES {
            return Err(Code::FileTooLarge);
        }
        let mut bytes = vec![0; len as usize];
        // (In pieces: one attempt cannot read more than the cache holds.)
        let pieces = bytes.chunks_mut(100_000).zip((range.offset..).step_by(100_000));
        for (piece, at) in pieces {
            let read = volume.read(&resolve.caller, attr.ino, at, piece);
            assert_eq!(read.map_err(|error| error.code())?, piece.len());
        }
        if len == 0 {
            volume.read(&resolve.caller, attr.ino, range.offset, &mut []).map_err(|error| error.code())?;
        }
        Ok(bytes)
    };
    answers.iter().enumerate().map(read).collect()
}

pub(super) fn contents(files: &FileContents<'_>) -> Vec<std::result::Result<Vec<u8>, Code>> {
    files.iter().map(|file| file.map(<[u8]>::to_vec)).collect()
}

/// Random parts of so many files.
pub(super) fn random_ranges(count: usize, random: &mut Random) -> Vec<ByteRange> {
    let range = |_| match random.below(4) {
        0 => ByteRange::WHOLE,
        1 => ByteRange { offset: random.below(6000) as u64, len: u64::MAX },
        2 => ByteRange { offset: u64::MAX - 5, len: random.below(9) as u64 },
        _ => ByteRange { offset: random.below(90_000) as u64, len: random.below(90_000) as u64 },
    };
    (0..count).map(range).collect()
}

/// Compares batches with single reads.
fn compare(volume: &Volume, paths: &[String], random: &mut Random, is_cold: bool) {
    let mut files = FileContents::new();
    for round in 0..8 {
        let mut shuffled: Vec<String> = paths.to_vec();
        (1..shuffled.len()).for_each(|i| shuffled.swap(i, random.below(i + 1)));
        shuffled.truncate([paths.len(), 1, 70, 0][round % 4]);
        let ranges = random_ranges(shuffled.len(), random);
        let ranges = (round % 2 == 1 || round >= 4).then_some(&ranges[..]);
        let caller = [OWNER, Caller::user(7, 7, &[])][round % 2].clone();
        let resolve = ResolveOptions { caller, ..ResolveOptions::default() };
        let options = ReadFiles { resolve, ranges, threads: [0, 1, 4][round % 3], ..ReadFiles::default() };
        let expected = one_by_one(volume, &options.resolve, &shuffled, ranges);
        if is_cold {
            make_cold(volume);
        }
        let set: PathSet = shuffled.iter().collect();
        let found = volume.read_files(&options, &set, &mut files).expect("read");
        assert_eq!(found, expected.iter().filter(|file| file.is_ok()).count());
        for ((path, got), expected) in shuffled.iter().zip(contents(&files)).zip(&expected) {
            assert!(got == *expected, "{path} in round {round}: {:?}", got.map(|bytes| bytes.len()));
        }
        // The same by number, for those that have one.
        let answers = volume.resolve_batch(&options.resolve, &shuffled).expect("resolve");
        let (mut inodes, mut parts, mut by_number) = (Vec::new(), Vec::new(), Vec::new());
        for (row, answer) in answers.iter().enumerate() {
            if let Some(ino) = answer.ino {
                inodes.push(ino);
                parts.push(range_of(ranges, row));
                by_number.push(expected[row].clone());
            }
        }
        inodes.push(Ino(u64::MAX));
        parts.push(ByteRange::WHOLE);
        if is_cold {
            make_cold(volume);
        }
        let options = ReadFiles { ranges: Some(&parts), ..options };
        volume.read_files(&options, &inodes[..], &mut files).expect("read");
        let mut got = contents(&files);
        assert!(got.pop().is_some_and(|last| last.is_err()));
        assert!(got == by_number, "by number in round {round}");
    }
}

#[test]
fn batches_give_what_single_reads_give() {
    let mut random = Random(1);
    let volume = Volume::create_memory(&options()).expect("create");
    let paths = fill(&volume, &mut random);
    let secret = volume.resolve("/d2/e/f7").expect("there").ino;
    volume.setattr(&OWNER, secret, &SetAttr { perm: Some(0o600), ..SetAttr::default() }).expect("chmod");
    let closed = volume.resolve("/d3").expect("there").ino;
    volume.setattr(&OWNER, closed, &SetAttr { perm: Some(0o600), ..SetAttr::default() }).expect("chmod");
    let user = ResolveOptions { caller: Caller::user(7, 7, &[]), ..ResolveOptions::default() };
    let denied = one_by_one(&volume, &user, &["/d2/e/f7".into(), "/d3/e/f1".into()], None);
    assert_eq!(denied, [Err(Code::AccessDenied), Err(Code::AccessDenied)]);
    compare(&volume, &paths, &mut random, false);
}

#[test]
fn a_batch_that_is_larger_than_the_cache_is_fetched_about_once() {
    let dir = tempfile::tempdir().expect("a directory");
    let (volume, mut random) = (on_file(&dir), Random(2));
    let paths = fill(&volume, &mut random);
    compare(&volume, &paths, &mut random, false);
    compare(&volume, &paths, &mut random, true);
    // Small files whose data are several times the cache.
    volume.mkdir_all("/small", 0o755).expect("mkdir");
    let mut set = PathSet::new();
    let count = 4 * CACHE / 8192;
    for i in 0..count {
        let path = format!("/small/{}", i * 7919 % count);
        volume.write_file(&path, vec![i as u8; 8192]).expect("write");
        set.push(path);
    }
    let mut files = FileContents::new();
    for threads in [1, 4] {
        make_cold(&volume);
        let before = volume.stats().blocks_fetched;
        let options = ReadFiles { threads, ..ReadFiles::default() };
        assert_eq!(volume.read_files(&options, &set, &mut files).expect("read"), count as usize);
        let fetched = volume.stats().blocks_fetched - before;
        assert!(fetched < count * 2 * 13 / 10, "{fetched} blocks fetched for {} of data", count * 2);
        assert!(files.iter().enumerate().all(|(i, file)| file == Ok(&[i as u8; 8192][..])));
    }
}

#[test]
fn one_read_may_be_larger_than_the_cache() {
    let dir = tempfile::tempdir().expect("a directory");
    let (volume, mut random) = (on_file(&dir), Random(3));
    let content = random.bytes(5 * CACHE as usize / 2 + 100);
    let ino = volume.write_file("/large", &content).expect("write").ino;
    for (offset, len) in
        [(0, content.len()), (0, content.len() + 1), (5000, content.len()), (3 << 20, 2 << 20)]
    {
        make_cold(&volume);
        let mut buffer = vec![0xee; len];
        let read = volume.read(&OWNER, ino, offset as u64, &mut buffer).expect("read");
        let expected = &content[offset.min(content.len())..(offset + len).min(content.len())];
        assert_eq!(read, expected.len(), "bytes from {offset} on");
        assert!(buffer[..read] == *expected && buffer[read..].iter().all(|byte| *byte == 0xee));
    }
    // Beside a writer, all of it is old or new.
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for value in (0..250).cycle() {
                volume.write(&OWNER, ino, 0, &vec![value; 200_000]).expect("write");
                if stop.load(Ordering::Relaxed) {
                    return;
                }
            }
        });
        let is_whole = (0..20).all(|_| {
            let mut buffer = vec![0; content.len()];
            let read = volume.read(&OWNER, ino, 0, &mut buffer);
            let is_new = buffer[..200_000].iter().all(|byte| *byte == buffer[0]);
            read.is_ok_and(|read| read == content.len()) && (is_new || buffer == content)
        });
        stop.store(true, Ordering::Relaxed);
        assert!(is_whole, "a part is old and a part is new");
    });
}

#[test]
fn arguments_that_do_not_fit_are_refused() {
    let volume = Volume::create_memory(&options()).expect("create");
    volume.write_file("/a", [1; 100]).expect("write");
    let (set, mut memory) = (PathSet::from_iter(["/a", "/a"]), [0; 199]);
    let ranges = [ByteRange::WHOLE];
    let wrong = ReadFiles { ranges: Some(&ranges), ..ReadFiles::default() };
    let mut files = FileContents::lent(&mut memory);
    let error = volume.read_files(&wrong, &set, &mut files).expect_err("one range").to_string();
    assert!(error.contains("1 ranges for 2 files"), "{error}");
    let error =
        volume.read_files(&ReadFiles::default(), &set, &mut files).expect_err("too small").to_string();
    assert!(error.contains("the memory has 199 bytes, and the files have 200"), "{error}");
    assert!(files.is_empty());
    let one = PathSet::from_iter(["/a"]);
    assert_eq!(volume.read_files(&ReadFiles::default(), &one, &mut files).expect("read"), 1);
    assert_eq!(files.bytes(), [1; 100]);
}

/// Files that writers change: each has one value in all of its bytes, and a length that follows from it.
struct Changing<'v> {
    volume: &'v Volume,
    stop: AtomicBool,
    changes: AtomicU64,
}

const CHANGING: usize = 12;

impl Changing<'_> {
    /// Length of a file with this value; some are inline, and some are larger than one attempt reads.
    fn len(value: u8) -> usize {
        [50, 0, 3000, 70_000, 200, 20_000, 1_200_000, 9000][usize::from(value) % 8] + usize::from(value)
    }

    /// Half of the files are replaced by a rename, and half are overwritten.
    fn path(file: usize) -> String {
        format!("/c/{}{file}", if file.is_multiple_of(2) { "renamed" } else { "written" })
    }

    fn change(&self, file: usize, value: u8) {
        let (path, content) = (Self::path(file), vec![value; Self::len(value)]);
        if !file.is_multiple_of(2) {
            let ino = self.volume.resolve(&path).expect("there").ino;
            // Shorter first: the old bytes are never seen past the new ones.
            let size = self.volume.getattr(ino).expect("there").size.min(content.len() as u64);
            let set = SetAttr { size: Some(size), ..SetAttr::default() };
            self.volume.setattr(&OWNER, ino, &set).expect("truncate");
            self.volume.write(&OWNER, ino, 0, &content).expect("write");
        } else {
            let dir = self.volume.resolve("/c").expect("there").ino;
            let new = format!("new{file}");
            // Content and length come in one step each, so the new file is not seen before its rename.
            self.volume.write_file(format!("/c/{new}"), &content).expect("write");
            let name = path.strip_prefix("/c/").expect("in the directory").as_bytes();
            let replace = RenameMode::Replace;
            self.volume.rename_at(&OWNER, dir, new.as_bytes(), dir, name, replace).expect("rename");
        }
        self.changes.fetch_add(1, Ordering::Relaxed);
    }

    fn write(&self, seed: u64) {
        let mut random = Random(seed);
        while !self.stop.load(Ordering::Relaxed) {
            self.change(random.below(CHANGING), random.below(256) as u8);
        }
    }

    /// Says what is wrong with a file.
    fn wrong(file: usize, bytes: &[u8]) -> Option<String> {
        let value = bytes.first()?;
        if let Some(at) = bytes.iter().position(|byte| byte != value) {
            return Some(format!("{file} has {} at {at} of {} bytes of {value}", bytes[at], bytes.len()));
        }
        let (len, full) = (bytes.len(), Self::len(*value));
        let is_right = if file.is_multiple_of(2) { len == full } else { len <= full };
        (!is_right).then(|| format!("{file} has {len} bytes of {value}, not {full}"))
    }
}

/// Stops the writer, also where the reader panics.
struct Stop<'s>(&'s AtomicBool);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Reads changing files until `rounds` batches were read or something is wrong.
pub(super) fn beside_a_writer(
    volume: &Volume,
    rounds: usize,
    mut read: impl FnMut(&PathSet) -> Vec<std::result::Result<Vec<u8>, Code>>,
) -> Option<String> {
    let changing = Changing { volume, stop: false.into(), changes: 0.into() };
    volume.mkdir_all("/c", 0o755).expect("mkdir");
    (0..CHANGING).for_each(|file| {
        volume.write_file(Changing::path(file), vec![3; Changing::len(3)]).expect("write");
    });
    let set: PathSet = (0..CHANGING * 3).map(|i| Changing::path(i % CHANGING)).collect();
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| changing.write(5));
        let _stop = Stop(&changing.stop);
        let mut wrong = None;
        let mut rounds = 0..rounds;
        // The batches are worth nothing before the writer has begun.
        while wrong.is_none() && (changing.changes.load(Ordering::Relaxed) < 300 || rounds.next().is_some()) {
            assert!(!writer.is_finished(), "the writer has panicked");
            wrong = read(&set).iter().enumerate().find_map(|(i, file)| match file {
                Ok(bytes) => Changing::wrong(i % CHANGING, bytes),
                Err(code) => Some(format!("{}: {code:?}", i % CHANGING)),
            });
        }
        wrong
    })
}

fn batches_beside_a_writer(volume: &Volume, rounds: usize, options: &ReadFiles<'_>) -> Option<String> {
    let mut files = FileContents::new();
    beside_a_writer(volume, rounds, |set| {
        volume.read_files(options, set, &mut files).expect("read");
        contents(&files)
    })
}

#[test]
fn a_file_that_changes_during_a_batch_is_never_torn() {
    let volume = Volume::create_memory(&options()).expect("create");
    assert_eq!(batches_beside_a_writer(&volume, 200, &ReadFiles::default()), None);
    let dir = tempfile::tempdir().expect("a directory");
    let two = ReadFiles { threads: 2, ..ReadFiles::default() };
    assert_eq!(batches_beside_a_writer(&on_file(&dir), 100, &two), None);
}

#[test]
fn torn_files_are_seen_where_attempts_are_not_validated() {
    let volume = Volume::create_memory(&options()).expect("create");
    let planted = ReadFiles { accepts_stale_attempts: true, ..ReadFiles::default() };
    let wrong = batches_beside_a_writer(&volume, 1_000_000, &planted);
    assert!(wrong.is_some_and(|wrong| wrong.contains("bytes of")));
}
