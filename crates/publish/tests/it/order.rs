//! Data in the order in which they are read.

use crate::support::{Image, Memory, assert_same, change_at_random, content, names, open, open_with, volume};
use lanefs::{FileContents, PathSet, ReadFiles, Volume};
use lanefs_publish::{PublishOptions, ReadOptions, publish};
use lanefs_testkit::seeded::Seeded;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

const FILES: usize = 600;
const BYTES: usize = 10_000;

fn path(file: usize) -> String {
    format!("/d{}/file-{file}", file % 20)
}

/// Files that do not compress.
fn image() -> Image {
    Image::new(32 << 20, |volume| {
        (0..20).for_each(|dir| volume.mkdir_all(format!("/d{dir}"), 0o755).map(drop).expect("mkdir"));
        for number in 0..FILES {
            let mut random = Seeded::new(number as u64);
            let bytes: Vec<u8> = (0..BYTES).map(|_| random.below(256) as u8).collect();
            volume.write_file(path(number), bytes).expect("write");
        }
    })
}

/// Files here and there, as a trace has them.
fn trace() -> Vec<String> {
    (0..FILES / 20).map(|number| path(number * 397 % FILES)).collect()
}

fn ranges(volume: &Volume, paths: &[String]) -> Vec<Range<u64>> {
    let inodes = paths.iter().map(|path| volume.resolve(path).expect("a file").ino);
    let extents = inodes.flat_map(|ino| volume.extents(ino).expect("extents"));
    extents.map(|extent| extent.position..extent.position + extent.bytes).collect()
}

fn publish_in_order(image: &Image, store: &Arc<Memory>, order: Vec<Range<u64>>) -> u64 {
    let options = PublishOptions { level: 1, order, ..PublishOptions::default() };
    let report = publish(&image.open(), store.clone(), "latest", &options, &|_, _| true).expect("published");
    report.written_bytes
}

/// Requests and bytes of a batch of files, when metadata are here.
fn read(store: &Arc<Memory>, paths: &[String]) -> (u64, u64) {
    // A store near by, however slow this machine makes it look.
    let pace = Some((Duration::from_millis(1), 100_000_000));
    let publication =
        open_with(store.clone(), &ReadOptions { pace, ..ReadOptions::default() }).expect("a publication");
    let there = volume(&publication);
    there.load_metadata(&|_, _| true).expect("metadata");
    let before = publication.counts();
    let paths: PathSet = paths.iter().collect();
    let mut contents = FileContents::new();
    // By one thread, so that the batch is one plan.
    let options = ReadFiles { threads: 1, ..ReadFiles::default() };
    assert_eq!(there.read_files(&options, &paths, &mut contents).expect("read"), paths.len());
    let after = publication.counts();
    (after.requests - before.requests, after.bytes - before.bytes)
}

#[test]
fn files_of_a_trace_are_neighbours_and_nothing_else_is_fetched_with_them() {
    let (image, trace) = (image(), trace());
    let blocks = (trace.len() * BYTES.div_ceil(4096) * 4096) as u64;
    let plain = Arc::new(Memory::default());
    publish_in_order(&image, &plain, Vec::new());
    let (requests, bytes) = read(&plain, &trace);
    assert!(requests >= trace.len() as u64 / 2 && bytes > 2 * blocks, "{requests} for {bytes}");
    let ordered = Arc::new(Memory::default());
    let order = ranges(&image.open(), &trace);
    publish_in_order(&image, &ordered, order.clone());
    let (requests, bytes) = read(&ordered, &trace);
    assert!(requests <= 2 && bytes <= blocks + blocks / 10, "{requests} for {bytes} of {blocks}");
    assert_same(&image, &open(&ordered).expect("a publication"));
    // It stays so, whatever order a later publisher wants: what the store has is not written again.
    assert_eq!(publish_in_order(&image, &ordered, order), 0);
    assert_eq!(publish_in_order(&image, &ordered, Vec::new()), 0);
    // Equal files are stored once all the same, and the whole volume is pulled.
    let publication = open(&ordered).expect("a publication");
    assert_eq!(publication.verify(&|_, _| true).expect("verified").found, 0);
    let to = image.home.path().join("there.lane");
    publication.pull(&to, &|_, _| true).expect("pulled");
    let there = Volume::open(&to, lanefs::Access::Read).expect("an image");
    assert!(content(&there) == content(&image.open()));
}

#[test]
fn changes_are_published_in_any_order() {
    let mut random = Seeded::new(38);
    let image = Image::new(200 << 20, |volume| change_at_random(volume, &mut random, 150));
    let store = Arc::new(Memory::default());
    for round in 0..4 {
        let source = image.open();
        let mut files: Vec<String> = Vec::new();
        for (name, text) in names(&source) {
            if text.contains("kind: File") && random.chance(30) {
                files.push(String::from_utf8(name).expect("text"));
            }
        }
        let mut order = ranges(&source, &files);
        // Ranges that overlap, end inside a block, or lie outside the volume do no harm.
        order.extend([0..100, 5000..6001, (199 << 20)..u64::MAX]);
        order.rotate_left(round % 3);
        drop(source);
        publish_in_order(&image, &store, order);
        let publication = open(&store).expect("a publication");
        assert_same(&image, &publication);
        assert_eq!(publication.verify(&|_, _| true).expect("verified").found, 0, "round {round}");
        image.change(|volume| change_at_random(volume, &mut random, 50));
    }
}
