//! Files in the memory of a device beside those in the host's: of every kind, in parts of every size, beside
//! writers and each other.

use crate::support::{CALLER, gpu, options, uncached};
use lanefs::{
    ByteRange, Code, EngineExt, FileContents, InodeSize, PathSet, ReadFiles, ResolveOptions, SetAttr, Volume,
};
use lanefs_gpu::{DeviceFiles, DeviceFilesOptions, Error, Gpu, Mirrored};
use lanefs_testkit::seeded::Seeded;
use std::sync::atomic::{AtomicBool, Ordering};

type Contents = Vec<Result<Vec<u8>, Code>>;

/// Memory that the host maps, where the device allows it; and memory that it never maps, so that all bytes go
/// over bounce buffers.
fn both(bounce: u64) -> [DeviceFilesOptions; 2] {
    [false, true].map(|exportable| DeviceFilesOptions { bounce, exportable })
}

fn make(gpu: &Gpu, capacity: u64, options: &DeviceFilesOptions) -> DeviceFiles {
    gpu.device_files(capacity, options).expect("memory of the device")
}

/// The files as the host gets them back from the device.
fn from_device(files: &DeviceFiles) -> Contents {
    let layout = files.layout();
    let bytes = files.read(0..layout.bytes()).expect("read back");
    let of = |range: std::ops::Range<u64>| bytes[range.start as usize..range.end as usize].to_vec();
    (0..layout.len()).map(|file| layout.get(file).expect("a file").map(of)).collect()
}

fn from_host(files: &FileContents<'_>) -> Contents {
    files.iter().map(|file| file.map(<[u8]>::to_vec)).collect()
}

fn bytes(len: usize, numbers: &mut Seeded) -> Vec<u8> {
    let (first, step) = (numbers.below(256), numbers.below(256) | 1);
    (0..len as u64).map(|i| (first + i * step + i / 251) as u8).collect()
}

/// Makes files of every kind, and returns their paths and some that lead to no file.
fn fill(volume: &Volume, numbers: &mut Seeded) -> Vec<String> {
    let mut paths: Vec<String> = ["/", "", "/none", "/dir", "/f1/x", "/loop"].map(String::from).into();
    let dir = volume.mkdir_all("/dir", 0o755).expect("mkdir").ino;
    volume.symlink_at(&CALLER, volume.root(), b"loop", b"loop").expect("symlink");
    volume.symlink_at(&CALLER, dir, b"link", b"../f1").expect("symlink");
    paths.push("/dir/link".into());
    // Empty, inline, of one block, of many, larger than one attempt reads.
    for (number, len) in
        [0, 1, 100, 160, 4096, 5000, 70_000, 1_300_000].into_iter().cycle().take(40).enumerate()
    {
        let path = format!("/f{number}");
        let ino = volume.write_file(&path, bytes(len, numbers)).expect("write").ino;
        if number % 3 == 0 {
            // A hole in front of the end, and one after it.
            volume.write(&CALLER, ino, len as u64 + 20_000, b"end").expect("write");
            let size = Some(len as u64 + 30_000);
            volume.setattr(&CALLER, ino, &SetAttr { size, ..SetAttr::default() }).expect("grow");
        }
        paths.push(path);
    }
    paths
}

#[test]
fn files_on_the_device_are_those_of_the_host() {
    let (gpu, numbers) = (gpu(64), &mut Seeded::new(41));
    let volume = Volume::create_memory(&options(InodeSize::B256)).expect("volume");
    let paths = fill(&volume, numbers);
    let mirrored = gpu.mirror(&volume, &uncached()).expect("mirror");
    let mut expected = FileContents::new();
    for bounce in [1 << 20, 30_000, 777] {
        // The memory serves one batch after the other.
        let mut targets = both(bounce).map(|options| make(&gpu, 40 << 20, &options));
        for round in 0..8 {
            let count = [paths.len() * 2, 70, 1, 0][round % 4];
            let set: PathSet = (0..count).map(|_| numbers.pick(&paths)).collect();
            let ranges: Vec<ByteRange> = (0..count)
                .map(|_| match numbers.below(3) {
                    0 => ByteRange::WHOLE,
                    1 => ByteRange { offset: numbers.below(6000), len: u64::MAX },
                    _ => ByteRange { offset: numbers.below(90_000), len: numbers.below(90_000) },
                })
                .collect();
            let ranges = (round % 2 == 1 || bounce < 1000).then_some(&ranges[..]);
            let options = ReadFiles { ranges, threads: round % 3, ..ReadFiles::default() };
            let found = volume.read_files(&options, &set, &mut expected).expect("read");
            for target in &mut targets {
                assert_eq!(mirrored.read_files(&options, &set, target).expect("read"), found);
                assert_eq!(target.layout(), expected.layout());
                assert!(from_device(target) == from_host(&expected), "round {round}, parts of {bounce}");
            }
            // A part of the bytes comes back alone, and by number they are the same.
            let end = targets[0].layout().bytes();
            let (from, to) = (numbers.below(end + 1), numbers.below(end + 1));
            let range = from.min(to)..from.max(to);
            let part = &expected.bytes()[range.start as usize..range.end as usize];
            assert!(targets.iter().all(|target| target.read(range.clone()).expect("read back") == part));
            let answers =
                volume.resolve_batch(&ResolveOptions::default(), &set.view().iter().collect::<Vec<_>>());
            let inodes: Vec<_> = answers.expect("resolved").iter().filter_map(|answer| answer.ino).collect();
            let options = ReadFiles { ranges: ranges.map(|ranges| &ranges[..inodes.len()]), ..options };
            volume.read_files(&options, &inodes[..], &mut expected).expect("read");
            mirrored.read_files(&options, &inodes[..], &mut targets[1]).expect("read");
            assert!(from_device(&targets[1]) == from_host(&expected), "by number in round {round}");
        }
    }
    assert_eq!(mirrored.failure(), None);
}

#[test]
fn memory_that_is_too_small_and_wrong_arguments_are_errors() {
    let gpu = gpu(64);
    let volume = Volume::create_memory(&options(InodeSize::B256)).expect("volume");
    volume.write_file("/a", [1; 5000]).expect("write");
    volume.write_file("/b", [2; 99]).expect("write");
    let mirrored = gpu.mirror(&volume, &uncached()).expect("mirror");
    let set = PathSet::from_iter(["/a", "/none", "/b"]);
    for options in both(1000) {
        let mut small = make(&gpu, 5098, &options);
        let error = mirrored.read_files(&ReadFiles::default(), &set, &mut small).expect_err("too small");
        assert!(matches!(&error, Error::Volume(lanefs::Error::At { code: Code::Invalid, .. })), "{error:?}");
        assert!(error.to_string().contains("the memory has 5098 bytes, and the files have 5099"), "{error}");
        assert!(small.layout().is_empty());
        // The same memory has room for one of them, up to its last byte.
        let one = PathSet::from_iter(["/a", "/b"]);
        let ranges = [ByteRange { offset: 1, len: 4999 }, ByteRange::WHOLE];
        let read = ReadFiles { ranges: Some(&ranges), ..ReadFiles::default() };
        assert_eq!(mirrored.read_files(&read, &one, &mut small).expect("read"), 2);
        assert!(from_device(&small) == [Ok(vec![1; 4999]), Ok(vec![2; 99])]);
        let error = mirrored.read_files(&read, &set, &mut small).expect_err("ranges").to_string();
        assert!(error.contains("2 ranges for 3 files") && small.layout().is_empty(), "{error}");
        let mut files = make(&gpu, 5099, &options);
        assert_eq!(mirrored.read_files(&ReadFiles::default(), &set, &mut files).expect("read"), 2);
        assert_eq!(files.layout().codes(), [Code::Success, Code::NotFound, Code::Success]);
        #[expect(clippy::reversed_empty_ranges, reason = "a range that is wrong on purpose")]
        for wrong in [0..5100, 5100..5100, 7..6, u64::MAX..0, 0..u64::MAX] {
            let error = files.read(wrong).expect_err("a wrong range").to_string();
            assert!(error.contains("of 5099"), "{error}");
        }
        // No bytes need no memory.
        let mut none = make(&gpu, 0, &options);
        assert_eq!(mirrored.read_files(&ReadFiles::default(), &PathSet::new(), &mut none).expect("read"), 0);
        assert!(mirrored.read_files(&ReadFiles::default(), &set, &mut none).is_err());
        assert_eq!(none.read(0..0).expect("no bytes"), [0_u8; 0]);
        assert_eq!(
            mirrored.read_files(&ReadFiles::default(), &PathSet::from_iter(["/none"]), &mut none).ok(),
            Some(0)
        );
    }
    for capacity in [u64::MAX, u64::MAX - 300, 1 << 62] {
        let error =
            gpu.device_files(capacity, &DeviceFilesOptions::default()).expect_err("too much").to_string();
        assert!(error.contains("allocating memory"), "{error}");
    }
    let files = make(&gpu, 100, &DeviceFilesOptions::default());
    let error = files.export_fd().expect_err("not exportable");
    assert!(error.to_string().contains("`exportable`"), "{error}");
    assert_eq!(lanefs::Error::from(error).code(), Code::Unsupported);
    assert_eq!(mirrored.failure(), None);
}

/// Length of a file all of whose bytes have this value: inline, in one part, in several.
fn len_of(value: u8) -> usize {
    [50, 0, 3000, 150_000, 20_000, 9000][usize::from(value) % 6] + usize::from(value)
}

/// Stops a writer, also where the reader panics.
struct Stop<'s>(&'s AtomicBool);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Reads files that a writer replaces, and returns the first torn one.
fn beside_a_writer(volume: &Volume, mirrored: &Mirrored<'_>, target: &mut DeviceFiles) -> Option<String> {
    const FILES: u64 = 6;
    let path = |file| format!("/changing{file}");
    for file in 0..FILES {
        volume.write_file(path(file), vec![3; len_of(3)]).expect("write");
    }
    let set: PathSet = (0..4 * FILES).map(|i| path(i % FILES)).collect();
    let (stop, seen) = (AtomicBool::new(false), AtomicBool::new(false));
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            let numbers = &mut Seeded::new(3);
            let mut changes = 0;
            while !stop.load(Ordering::Relaxed) {
                let value = numbers.below(256) as u8;
                volume.write_file(path(numbers.below(FILES)), vec![value; len_of(value)]).expect("write");
                changes += 1;
                seen.store(changes > 200, Ordering::Relaxed);
            }
        });
        let _stop = Stop(&stop);
        let (mut torn, mut rounds) = (None, 0);
        while torn.is_none() && rounds < 60 {
            assert!(!writer.is_finished(), "the writer has panicked");
            mirrored.read_files(&ReadFiles::default(), &set, target).expect("read");
            torn = from_device(target).into_iter().find_map(|file| {
                let file = match file {
                    Ok(file) => file,
                    Err(code) => return Some(format!("{code:?}")),
                };
                let value = *file.first()?;
                let is_whole = file.len() == len_of(value) && file.iter().all(|byte| *byte == value);
                (!is_whole).then(|| format!("{} bytes that begin with {value}", file.len()))
            });
            rounds += u32::from(seen.load(Ordering::Relaxed));
        }
        torn
    })
}

#[test]
fn a_file_that_changes_while_it_goes_to_the_device_is_never_torn() {
    let gpu = gpu(64);
    let volume = Volume::create_memory(&options(InodeSize::B256)).expect("volume");
    let mirrored = gpu.mirror(&volume, &uncached()).expect("mirror");
    for bounce in [20_000, 1 << 20] {
        for options in both(bounce) {
            // Files that grow while they are read find room.
            let mut target = make(&gpu, 16 << 20, &options);
            assert_eq!(beside_a_writer(&volume, &mirrored, &mut target), None);
        }
    }
    assert_eq!(mirrored.failure(), None);
}

#[test]
fn threads_read_files_to_the_device_beside_each_other_and_lookups() {
    let gpu = gpu(64);
    let volume = Volume::create_memory(&options(InodeSize::B256)).expect("volume");
    let paths = fill(&volume, &mut Seeded::new(5));
    let mirrored = gpu.mirror(&volume, &uncached()).expect("mirror");
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let (gpu, volume, paths, mirrored) = (&gpu, &volume, &paths, &mirrored);
            scope.spawn(move || {
                let (numbers, mut expected) = (&mut Seeded::new(thread), FileContents::new());
                let mut target = make(gpu, 32 << 20, &both(100_000)[thread as usize % 2]);
                for _ in 0..6 {
                    let asked: Vec<_> = (0..40).map(|_| numbers.pick(paths)).collect();
                    let set: PathSet = asked.iter().collect();
                    mirrored.read_files(&ReadFiles::default(), &set, &mut target).expect("read");
                    volume.read_files(&ReadFiles::default(), &set, &mut expected).expect("read");
                    assert!(from_device(&target) == from_host(&expected));
                    let resolve = ResolveOptions::default();
                    let found = mirrored.resolve_batch(&resolve, &asked).expect("resolved").0;
                    assert_eq!(found, volume.resolve_batch(&resolve, &asked).expect("resolved"));
                }
            });
        }
    });
    assert_eq!(mirrored.failure(), None);
}
