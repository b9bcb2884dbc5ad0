//! Batches whose files are not in the cache: the device gets few calls, each with many reads.

use lanefs::*;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

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
