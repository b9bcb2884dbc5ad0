//! Requests for small files that nothing has in memory: by the kernel to the server, and by the server to the
//! device. They are counted, not timed.

use lanefs::format::CHUNK;
use lanefs::{Access, Caller, CreateOptions, MemoryDevice, Volume};
use lanefs_fuse::{Mount, Operation};
use lanefs_testkit::faulty::{AccessKind, Faults, FaultyDevice};
use std::collections::BTreeSet;
use std::sync::Arc;

/// Files of 10 KB: three blocks of data each.
const FILES: usize = 600;
const BYTES: usize = 10_000;

#[test]
fn a_cold_small_file_costs_two_requests_of_the_kernel_and_half_a_read_of_the_device() {
    let options = CreateOptions { size: 64 << 20, ..CreateOptions::default() };
    let volume = Volume::create_device(Box::new(MemoryDevice::new(vec![0; 64 << 20])), &options).unwrap();
    let content = |number: usize| vec![number as u8; BYTES];
    for number in 0..FILES {
        volume.write_file(format!("/{number}"), content(number)).unwrap();
    }
    let mut data = BTreeSet::new();
    for number in 0..FILES {
        let (ino, _) = volume.lookup(&Caller::OWNER, volume.root(), number.to_string().as_bytes()).unwrap();
        data.extend(volume.extents(ino).unwrap().iter().map(|extent| extent.position));
    }
    assert_eq!(data.len(), FILES, "each file lies in one piece");
    let faults = Faults::new();
    let device = FaultyDevice::new(Arc::new(MemoryDevice::new(volume.to_bytes().unwrap())), &faults);
    drop(volume);
    let volume = Volume::open_device(Box::new(device), Access::Write).unwrap();
    let dir = tempfile::tempdir().unwrap();
    let mount = Mount::start(volume, dir.path(), &crate::mount_options())
        .unwrap_or_else(|error| panic!("this test needs root, or fusermount3, and /dev/fuse: {error}"));
    let requests = |operation| {
        let all = mount.statistics().snapshot();
        all.iter().find(|one| one.operation == operation).map_or(0, |one| one.count)
    };
    let kinds = [Operation::Lookup, Operation::Read, Operation::Getattr, Operation::Getxattr];
    let before = kinds.map(requests);
    faults.start_trace();
    // 233 and the number of files have no common divisor: an order that no readahead can guess.
    for number in (0..FILES).map(|index| index * 233 % FILES) {
        assert!(std::fs::read(dir.path().join(number.to_string())).unwrap() == content(number));
    }
    let after = kinds.map(requests);
    let counts: Vec<_> = (0..kinds.len()).map(|kind| after[kind] - before[kind]).collect();
    assert_eq!(counts, [FILES as u64, FILES as u64, 0, 0], "requests of {kinds:?}");
    let trace = faults.take_trace();
    let reads = trace.iter().filter(|access| access.kind == AccessKind::Read);
    let chunks: BTreeSet<_> = data.iter().map(|at| at / CHUNK).collect();
    let (of_data, of_metadata): (Vec<_>, Vec<_>) =
        reads.partition(|access| chunks.contains(&(access.bytes.start / CHUNK)));
    // The first files of a chunk come alone, and the others with their neighbours.
    assert!(of_data.len() < FILES / 2, "{} reads of data", of_data.len());
    let blocks: Vec<u64> = of_data.iter().flat_map(|access| access.bytes.clone().step_by(4096)).collect();
    assert_eq!(blocks.iter().collect::<BTreeSet<_>>().len(), blocks.len(), "a block of data is read twice");
    // Each block of metadata is read once, however many files it serves.
    let blocks: BTreeSet<_> = of_metadata.iter().map(|access| access.bytes.start).collect();
    assert_eq!(of_metadata.len(), blocks.len(), "a block of metadata is read twice");
    eprintln!("{} reads of metadata for {FILES} files", of_metadata.len());
    mount.stop().unwrap();
}
