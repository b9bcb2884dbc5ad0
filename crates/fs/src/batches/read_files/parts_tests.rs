//! Batches in parts beside batches in one piece: with parts of every size, little room, sinks that fail, and
//! beside writers.

use super::tests::{
    OWNER, Random, beside_a_writer, contents, fill, make_cold, on_file, options, random_ranges,
};
use super::*;
use crate::vocabulary::error::Error;
use crate::vocabulary::options::{Access, CreateOptions};
use crate::vocabulary::path_set::PathSet;
use crate::vocabulary::types::{Caller, ResolveOptions};
use lanefs_format::Code;
use lanefs_store::{Device, IoBufMut, MemoryDevice};

/// A sink with memory of one part, which is copied to the target when it is taken.
struct TestSink {
    part: Vec<u8>,
    target: Vec<u8>,
    /// The memory that was given last: for which byte, and how much.
    given: Option<(u64, usize)>,
    parts: usize,
    /// Number of the part that the sink refuses.
    refuses: Option<usize>,
}

impl TestSink {
    fn new(capacity: usize, part: usize) -> Self {
        TestSink { part: vec![0; part], target: vec![0; capacity], given: None, parts: 0, refuses: None }
    }

    fn contents(&self, layout: &FileLayout) -> Vec<std::result::Result<Vec<u8>, Code>> {
        let bytes =
            |range: std::ops::Range<u64>| self.target[range.start as usize..range.end as usize].to_vec();
        (0..layout.len()).map(|file| layout.get(file).expect("a file").map(bytes)).collect()
    }
}

impl FileSink for TestSink {
    type Error = Error;

    fn capacity(&self) -> u64 {
        self.target.len() as u64
    }

    fn memory(&mut self, at: u64) -> Result<&mut [u8]> {
        // The bytes of the last part are not those of this one.
        self.part.fill(0xee);
        let len = self.part.len().min(self.target.len() - at as usize);
        self.given = Some((at, len));
        Ok(&mut self.part[..len])
    }

    fn take(&mut self, at: u64, len: usize) -> Result<()> {
        let given = self.given.take().expect("memory for this part");
        assert!(given.0 == at && len <= given.1, "{len} bytes at {at}, into memory for {given:?}");
        if self.refuses == Some(self.parts) {
            return Err(Code::Busy.into());
        }
        self.target[at as usize..at as usize + len].copy_from_slice(&self.part[..len]);
        self.parts += 1;
        Ok(())
    }
}

#[test]
fn parts_give_what_one_piece_gives() {
    let dir = tempfile::tempdir().expect("a directory");
    let in_memory = Volume::create_memory(&options()).expect("create");
    for (volume, is_cold) in [(in_memory, false), (on_file(&dir), true)] {
        let mut random = Random(6);
        let paths = fill(&volume, &mut random);
        let (mut files, mut layout) = (FileContents::new(), FileLayout::default());
        for round in 0..20 {
            let mut shuffled = paths.clone();
            (1..shuffled.len()).for_each(|i| shuffled.swap(i, random.below(i + 1)));
            shuffled.truncate([paths.len(), 1, 70, 0][round % 4]);
            let ranges = random_ranges(shuffled.len(), &mut random);
            let ranges = (round % 2 == 1).then_some(&ranges[..]);
            let caller = [OWNER, Caller::user(7, 7, &[])][round % 2].clone();
            let resolve = ResolveOptions { caller, ..ResolveOptions::default() };
            let options =
                ReadFiles { resolve, ranges, threads: [0, 1, 4][round % 3], ..ReadFiles::default() };
            let set: PathSet = shuffled.iter().collect();
            let found = volume.read_files(&options, &set, &mut files).expect("read");
            if is_cold {
                make_cold(&volume);
            }
            // Exactly enough room, or more; parts of less than a block, and of more than all.
            let room = files.bytes().len() + [0, 100][round % 2];
            let part = [1 << 20, 999, 70_000, room + 1, 300_000][round % 5];
            let mut sink = TestSink::new(room, part);
            let read = volume.read_files_in_parts(&options, &set, &mut sink, &mut layout).expect("read");
            assert_eq!((read, &layout), (found, files.layout()), "round {round}");
            assert!(sink.contents(&layout) == contents(&files), "round {round}");
            assert!(files.bytes().len() <= part || sink.parts > 1, "{} parts", sink.parts);
            // The same by number.
            let answers = volume.resolve_batch(&options.resolve, &shuffled).expect("resolve");
            let inodes: Vec<_> = answers.iter().filter_map(|answer| answer.ino).collect();
            let options = ReadFiles { ranges: None, ..options };
            volume.read_files(&options, &inodes[..], &mut files).expect("read");
            let mut sink = TestSink::new(files.bytes().len(), part);
            volume.read_files_in_parts(&options, &inodes[..], &mut sink, &mut layout).expect("read");
            assert!(sink.contents(&layout) == contents(&files), "by number in round {round}");
        }
    }
}

#[test]
fn sinks_that_are_small_or_fail_end_the_call_without_files() {
    let volume = Volume::create_memory(&options()).expect("create");
    volume.write_file("/a", [1; 100]).expect("write");
    volume.write_file("/b", [2; 5000]).expect("write");
    let set = PathSet::from_iter(["/a", "/b", "/none", "/a"]);
    let mut layout = FileLayout::default();
    let mut read = |sink: &mut TestSink, options: &ReadFiles<'_>| {
        let read = volume.read_files_in_parts(options, &set, sink, &mut layout);
        (read.map_err(|error| error.to_string()), layout.clone())
    };
    let mut small = TestSink::new(5199, 1000);
    let (error, files) = read(&mut small, &ReadFiles::default());
    assert_eq!(error, Err("the memory has 5199 bytes, and the files have 5200: invalid argument".into()));
    assert_eq!((files, small.parts), (FileLayout::default(), 0));
    let ranges = [ByteRange::WHOLE];
    let wrong = ReadFiles { ranges: Some(&ranges), ..ReadFiles::default() };
    assert!(read(&mut TestSink::new(5200, 1000), &wrong).0.is_err_and(|error| error.contains("1 ranges")));
    let mut none = TestSink::new(5200, 0);
    assert!(read(&mut none, &ReadFiles::default()).0.is_err(), "a sink without memory");
    for refused in 0..7 {
        let mut sink = TestSink { refuses: Some(refused), ..TestSink::new(5200, 1000) };
        let (error, files) = read(&mut sink, &ReadFiles::default());
        assert!(error.is_err() && files.is_empty(), "part {refused}: {error:?}");
    }
    let mut enough = TestSink { refuses: Some(7), ..TestSink::new(5200, 1000) };
    let (found, files) = read(&mut enough, &ReadFiles::default());
    assert_eq!((found, files.offsets()), (Ok(3), &[0, 100, 5100, 5100, 5200][..]));
    assert_eq!(files.get(2), Some(Err(Code::NotFound)));
}

#[test]
fn a_file_that_changes_while_its_parts_are_read_is_never_torn() {
    let dir = tempfile::tempdir().expect("a directory");
    let in_memory = Volume::create_memory(&options()).expect("create");
    for (volume, rounds) in [(in_memory, 60), (on_file(&dir), 30)] {
        let (mut layout, mut round) = (FileLayout::default(), 0);
        let wrong = beside_a_writer(&volume, rounds, |set| {
            round += 1;
            // Files grow, so the batch needs more room than it was found to need, or parts that are cut
            // again.
            let mut sink = TestSink::new(100 << 20, [20_000, 300_000, 2 << 20][round % 3]);
            let read = volume.read_files_in_parts(&ReadFiles::default(), set, &mut sink, &mut layout);
            read.expect("read");
            sink.contents(&layout)
        });
        assert_eq!(wrong, None);
    }
}

/// A sink that drops all bytes.
struct Dropping(Vec<u8>);

impl FileSink for Dropping {
    type Error = Error;

    fn capacity(&self) -> u64 {
        u64::MAX
    }

    fn memory(&mut self, _at: u64) -> Result<&mut [u8]> {
        Ok(&mut self.0)
    }

    fn take(&mut self, _at: u64, _len: usize) -> Result<()> {
        Ok(())
    }
}

/// A device that was given nothing for its bytes.
struct ForNothing(MemoryDevice);

impl Device for ForNothing {
    fn len(&self) -> u64 {
        self.0.len()
    }

    fn is_read_only(&self) -> bool {
        true
    }

    fn given(&self) -> u64 {
        0
    }

    fn read_at(&self, at: u64, buffer: IoBufMut<'_>) -> std::io::Result<()> {
        self.0.read_at(at, buffer)
    }
}

#[test]
fn files_in_parts_have_the_bound_of_others() {
    let device = MemoryDevice::new(vec![0; 32 << 20]);
    let options = CreateOptions { size: 32 << 20, ..CreateOptions::default() };
    let volume = Volume::create_device(Box::new(device.clone()), &options).expect("create");
    // One that is read by itself, and one that is read with others.
    let sizes = [3 << 20, 1 << 20];
    for size in sizes {
        volume.write_file(format!("/{size}"), vec![7; size]).expect("write");
    }
    volume.close().expect("close");
    let volume = Volume::open_device(Box::new(ForNothing(device)), Access::Read).expect("open");
    for size in sizes {
        let path = format!("/{size}");
        let count = (1100 << 20) / size;
        let paths: PathSet = std::iter::repeat_n(&path, count).collect();
        let (mut sink, mut layout) = (Dropping(vec![0; 2 << 20]), FileLayout::default());
        let mut read = |factor| {
            volume.bound_expansion(factor);
            volume.read_files_in_parts(&ReadFiles::default(), &paths, &mut sink, &mut layout)
        };
        let bounded = read(1);
        assert!(matches!(bounded, Err(Error::Expansion { .. })), "{size}: {bounded:?}");
        assert_eq!(read(0).expect("read"), count, "without a bound");
    }
}
