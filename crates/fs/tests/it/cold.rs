//! Files that are not in the cache: for a batch the device gets few calls, each with many reads, and for
//! single files hardly more reads than there are files.

use lanefs::format::{BLOCK, CHUNK};
use lanefs::*;
use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::{Duration, Instant};

const FILES: usize = 4000;

/// A device in memory that counts calls and reads. Clones are the same device.
#[derive(Clone)]
struct Counting(Arc<Counts>);

struct Counts {
    bytes: MemoryDevice,
    /// Calls for one read, and calls for many.
    calls: AtomicUsize,
    reads: AtomicUsize,
}

impl Counting {
    fn new(size: usize) -> Self {
        let bytes = MemoryDevice::new(vec![0; size]);
        Counting(Arc::new(Counts { bytes, calls: 0.into(), reads: 0.into() }))
    }

    /// Returns the number of calls and reads that `work` makes.
    fn counted(&self, work: impl FnOnce()) -> (usize, usize) {
        let counts = || (self.0.calls.load(Relaxed), self.0.reads.load(Relaxed));
        let before = counts();
        work();
        let after = counts();
        (after.0 - before.0, after.1 - before.1)
    }
}

impl Device for Counting {
    fn len(&self) -> u64 {
        self.0.bytes.len()
    }
    fn read_at(&self, at: u64, buffer: IoBufMut<'_>) -> io::Result<()> {
        self.0.calls.fetch_add(1, Relaxed);
        self.0.reads.fetch_add(1, Relaxed);
        self.0.bytes.read_at(at, buffer)
    }
    fn read_many(&self, requests: &mut [Read<'_>]) -> std::result::Result<(), ReadErrors> {
        self.0.calls.fetch_add(1, Relaxed);
        self.0.reads.fetch_add(requests.len(), Relaxed);
        self.0.bytes.read_many(requests)
    }
    fn write_at(&self, at: u64, data: IoBuf<'_>) -> io::Result<()> {
        self.0.bytes.write_at(at, data)
    }
    fn flush(&self) -> io::Result<()> {
        self.0.bytes.flush()
    }
    fn discard(&self, at: u64, len: u64) -> io::Result<()> {
        self.0.bytes.discard(at, len)
    }
    fn resize(&self, len: u64) -> io::Result<()> {
        self.0.bytes.resize(len)
    }
}

fn path(file: usize) -> String {
    format!("/d{:02}/file-{file:05}", file * 7 % 40)
}

fn content(file: usize) -> Vec<u8> {
    (0..2000 + file % 5000).map(|i| (i * 31 + file) as u8).collect()
}

/// A closed volume with files, on a device.
fn filled() -> Counting {
    let device = Counting::new(128 << 20);
    let options = CreateOptions { size: 128 << 20, ..CreateOptions::default() };
    let volume = Volume::create_device(Box::new(device.clone()), &options).expect("create");
    let paths: PathSet = (0..FILES).map(path).collect();
    let (mut data, mut offsets) = (Vec::new(), vec![0]);
    for file in 0..FILES {
        data.extend(content(file));
        offsets.push(data.len() as u64);
    }
    let options = WriteMany { make_directories: Some(0o755), ..WriteMany::default() };
    let codes = volume.write_many(&options, &paths, &data, &offsets).expect("write");
    assert!(codes.iter().all(|code| *code == Code::Success));
    volume.close().expect("close");
    device
}

#[test]
fn cold_batches_make_few_calls_of_the_device() {
    let device = filled();
    let open = || Volume::open_device(Box::new(device.clone()), Access::Read).expect("open");
    let order = || (0..FILES).map(|i| i * 1237 % FILES);
    let paths: PathSet = order().map(path).collect();

    let volume = open();
    let names: Vec<String> = order().map(path).collect();
    let (calls, reads) = device.counted(|| {
        let found = volume.resolve_batch(&ResolveOptions::default(), &names).expect("resolve");
        assert!(found.iter().all(|found| found.code == Code::Success));
    });
    // The blocks of a path come one after the other: directory, index, entry, inode. Those of many come
    // together.
    assert!(calls < reads / 5, "{calls} calls for {reads} reads");

    let volume = open();
    let mut files = FileContents::new();
    let options = ReadFiles { threads: 1, ..ReadFiles::default() };
    let (calls, reads) = device.counted(|| {
        let read = volume.read_files(&options, &paths, &mut files).expect("read");
        assert_eq!(read, FILES);
    });
    for (file, found) in order().zip(files.iter()) {
        assert_eq!(found.expect("read"), content(file), "file {file}");
    }
    assert!(calls < reads / 5, "{calls} calls for {reads} reads");
}

/// Files of which one in sixteen, as many as a block has inodes, has 10 KB.
const SPARSE: usize = 16_000;
const LEN: usize = 10_000;

fn sparse_path(file: usize) -> String {
    format!("/s{}/file-{file:05}", file * 10 / SPARSE)
}

/// A closed volume with these files, on a device.
fn sparse() -> Counting {
    let device = Counting::new(128 << 20);
    let options = CreateOptions { size: 128 << 20, ..CreateOptions::default() };
    let volume = Volume::create_device(Box::new(device.clone()), &options).expect("create");
    let paths: PathSet = (0..SPARSE).map(sparse_path).collect();
    let (data, mut offsets) = (vec![7; SPARSE / 16 * LEN], vec![0]);
    // File 0 has the first part of the data, the next fifteen nothing.
    offsets.extend((0..SPARSE).map(|file| ((file / 16 + 1) * LEN) as u64));
    let options = WriteMany { make_directories: Some(0o755), threads: 1, ..WriteMany::default() };
    let codes = volume.write_many(&options, &paths, &data, &offsets).expect("write");
    assert!(codes.iter().all(|code| *code == Code::Success));
    volume.close().expect("close");
    device
}

/// Reads of the device for lookups of the files with content, one by one in a mixed order, and for their
/// content, after each open.
fn reads_of_single_files(device: &Counting, cache: u64) -> (usize, usize) {
    let options = OpenOptions { cache: Some(cache), ..OpenOptions::from(Access::Read) };
    let files = || (0..SPARSE / 16).map(|i| i * 617 % (SPARSE / 16) * 16);
    let open = || Volume::open_device(Box::new(device.clone()), options.clone()).expect("open");
    let volume = open();
    let (_, lookups) = device.counted(|| {
        for file in files() {
            assert_eq!(volume.resolve(sparse_path(file)).expect("resolve").size, LEN as u64);
        }
    });
    let volume = open();
    let (_, reads) = device.counted(|| {
        for file in files() {
            assert_eq!(volume.read_file(sparse_path(file)).expect("read").len(), LEN);
        }
    });
    (lookups, reads)
}

#[test]
fn cold_single_files_take_fewer_reads_than_files() {
    let device = sparse();
    let files = SPARSE / 16;
    // In a small cache each miss is one block: each file's inode and its content, and blocks of directories.
    let (lookups, reads) = reads_of_single_files(&device, 8 << 20);
    assert!(
        lookups >= files && reads >= 2 * files,
        "alone: {lookups} reads for lookups, {reads} for content"
    );
    let (lookups, reads) = reads_of_single_files(&device, 64 << 20);
    assert!(lookups <= files / 8, "with neighbours: {lookups} reads for lookups");
    // Eight files of a chunk come alone; a window has ten. A chunk has 170.
    eprintln!("{lookups} reads for lookups, {reads} for content of {files} files");
    assert!(reads <= files / 2, "with neighbours: {reads} reads for content");
}

#[test]
fn names_that_are_brought_together_are_looked_up_without_a_read() {
    let device = sparse();
    let options = OpenOptions { cache: Some(8 << 20), ..OpenOptions::from(Access::Read) };
    let volume = Volume::open_device(Box::new(device.clone()), options).expect("open");
    let dirs: Vec<Ino> =
        (0..10).map(|dir| volume.resolve(format!("/s{dir}")).expect("resolve").ino).collect();
    let files = (0..64).map(|i| i * 37 % (SPARSE / 16) * 16);
    let names: Vec<(Ino, String)> =
        files.map(|file| (dirs[file * 10 / SPARSE], format!("file-{file:05}"))).collect();
    let mut asked: Vec<(Ino, &[u8])> = names.iter().map(|(dir, name)| (*dir, name.as_bytes())).collect();
    asked.extend([(dirs[0], &b"missing"[..]), (dirs[0], b"a/b"), (Ino(7 << 20), b"nowhere")]);
    let (calls, reads) = device.counted(|| volume.bring_names(&asked));
    assert!(calls <= 24 && reads >= names.len(), "{calls} calls for {reads} reads");
    let (_, reads) = device.counted(|| {
        for (dir, name) in &names {
            let (ino, _) = FileSystem::lookup(&volume, *dir, name.as_bytes()).expect("lookup");
            assert_eq!(FileSystem::getattr(&volume, ino).expect("attributes").size, LEN as u64);
        }
    });
    assert_eq!(reads, 0);
}

#[test]
fn the_rest_of_a_chunk_of_small_files_comes_while_the_reader_works() {
    let device = sparse();
    let options = OpenOptions { cache: Some(64 << 20), ..OpenOptions::from(Access::Read) };
    let volume = Volume::open_device(Box::new(device.clone()), options).expect("open");
    // All metadata are in the cache after this.
    let mut chunks = BTreeMap::<u64, Vec<usize>>::new();
    for file in (0..SPARSE).step_by(16) {
        let ino = volume.resolve(sparse_path(file)).expect("resolve").ino;
        let extents = volume.extents(ino).expect("extents");
        let (first, last) = (extents[0].position, extents[0].position + LEN as u64);
        if extents.len() == 1 && first / CHUNK == last / CHUNK {
            chunks.entry(first / CHUNK).or_default().push(file);
        }
    }
    let files = chunks.into_values().max_by_key(Vec::len).expect("a chunk");
    let read = |file: &usize| assert_eq!(volume.read_file(sparse_path(*file)).expect("read").len(), LEN);
    // Eight come alone, four with a window, and the last one with the chunk.
    let before = volume.stats().neighbours_fetched;
    files.iter().step_by(files.len() / 16).take(13).for_each(read);
    let deadline = Instant::now() + Duration::from_secs(20);
    while volume.stats().neighbours_fetched - before < CHUNK / BLOCK - 13 * 3 {
        assert!(Instant::now() < deadline, "the rest does not come: {:?}", volume.stats());
        std::thread::sleep(Duration::from_millis(1));
    }
    let (_, reads) = device.counted(|| files.iter().for_each(read));
    assert_eq!(reads, 0, "of {} files", files.len());
}

#[test]
fn a_commit_makes_room_for_all_that_was_changed_beyond_the_cache() {
    const SIZE: usize = 8 << 20;
    let device = MemoryDevice::new(vec![0; 64 << 20]);
    // Without checksums data are overwritten in place, from memory.
    let options = CreateOptions { size: 64 << 20, data_checksums: false, ..CreateOptions::default() };
    let volume = Volume::create_device(Box::new(device.clone()), &options).expect("create");
    let ino = volume.write_file("/f", vec![1; SIZE]).expect("file").ino;
    volume.close().expect("close");
    let options = OpenOptions {
        cache: Some(1 << 20),
        commit_every: Duration::from_secs(1 << 20),
        ..OpenOptions::from(Access::Write)
    };
    let volume = Volume::open_device(Box::new(device), options).expect("open");
    assert_eq!(volume.write(&Caller::OWNER, ino, 0, &vec![2; SIZE]).expect("write"), SIZE);
    volume.sync().expect("sync");
    let stats = volume.stats();
    assert!(stats.blocks_resident <= stats.blocks_allowed, "{stats:?}");
}

#[test]
fn new_blocks_make_room_for_themselves_between_commits() {
    const SIZE: u64 = 8 << 20;
    const PIECE: usize = 16 << 10;
    let device = MemoryDevice::new(vec![0; 64 << 20]);
    let options = CreateOptions { size: 64 << 20, ..CreateOptions::default() };
    let volume = Volume::create_device(Box::new(device.clone()), &options).expect("create");
    let read = volume.write_file("/f", vec![1; SIZE as usize]).expect("file").ino;
    let written = volume.write_file("/g", Vec::new()).expect("file").ino;
    volume.close().expect("close");
    let options = OpenOptions {
        cache: Some(4 << 20),
        commit_every: Duration::from_secs(1 << 20),
        ..OpenOptions::from(Access::Write)
    };
    let volume = Volume::open_device(Box::new(device), options).expect("open");
    let allowed = volume.stats().blocks_allowed;
    let mut bytes = vec![0; SIZE as usize];
    assert_eq!(volume.read(&Caller::OWNER, read, 0, &mut bytes).expect("read"), bytes.len());
    // Too little for a commit: a quarter of the cache would begin one.
    for piece in 0..allowed / 5 * 4096 / PIECE as u64 {
        volume.write(&Caller::OWNER, written, piece * PIECE as u64, &[2; PIECE]).expect("write");
        let stats = volume.stats();
        assert!(stats.blocks_resident <= allowed + allowed / 16 + 16, "{piece}: {stats:?}");
    }
}
