//! Frames of pieces: a batch of small files fetches what it needs, and nothing else changes.

use crate::support::{Image, Memory, assert_same, change_at_random, content, open, open_with, text, volume};
use lanefs::{FileContents, PathSet, ReadFiles, Volume};
use lanefs_publish::{
    Cache, JoinOptions, Publication, PublishOptions, ReadOptions, Receipt, Reference, StoreError, join,
    publish, publish_shard,
};
use lanefs_testkit::seeded::Seeded;
use std::sync::Arc;
use std::time::Duration;

const SIZE: u64 = 32 << 20;
/// Files of the volume, and their bytes.
const FILES: usize = 800;
const BYTES: usize = 10_000;
/// Latency and bytes per second of a store near by.
const NEAR: (Duration, u64) = (Duration::from_millis(1), 100_000_000);

fn path(file: usize) -> String {
    format!("/d{}/file-{file}", file % 20)
}

fn file(number: usize) -> Vec<u8> {
    let mut random = Seeded::new(number as u64);
    (0..BYTES).map(|_| random.below(256) as u8).collect()
}

/// Files that do not compress, and one of a text.
fn image() -> Image {
    Image::new(SIZE, |volume| {
        (0..20).for_each(|dir| volume.mkdir_all(format!("/d{dir}"), 0o755).map(drop).expect("mkdir"));
        for number in 0..FILES {
            volume.write_file(path(number), file(number)).expect("write");
        }
        volume.write_file("/text", text(&mut Seeded::new(1), 1_000_000)).expect("write");
    })
}

fn published(image: &Image, frame_bytes: u32) -> Arc<Memory> {
    let store = Arc::new(Memory::default());
    let options = PublishOptions { level: 1, frame_bytes, ..PublishOptions::default() };
    publish(&image.open(), store.clone(), "latest", &options, &|_, _| true).expect("published");
    store
}

/// Reads one file of forty, from all directories, and compares it. Returns the bytes of files.
fn read_some(volume: &Volume) -> u64 {
    let some: Vec<usize> = (0..FILES / 40).map(|number| number * 397 % FILES).collect();
    let paths: PathSet = some.iter().map(|number| path(*number)).collect();
    let mut contents = FileContents::new();
    volume.read_files(&ReadFiles::default(), &paths, &mut contents).expect("read");
    for (number, bytes) in some.iter().zip(contents.iter()) {
        assert!(bytes == Ok(&file(*number)[..]), "file {number}");
    }
    (some.len() * BYTES) as u64
}

/// Bytes that a batch fetches, when metadata are here.
fn fetched(publication: &Publication) -> (u64, u64) {
    let there = volume(publication);
    there.load_metadata(&|_, _| true).expect("metadata");
    let before = publication.counts().bytes;
    let files = read_some(&there);
    (publication.counts().bytes - before, files)
}

#[test]
fn a_batch_of_small_files_fetches_little_more_than_them() {
    let image = image();
    for (frame_bytes, most) in [(16 << 10, 3), (32 << 10, 5), (64 << 10, 9)] {
        let store = published(&image, frame_bytes);
        // Of a near store, however slow this machine makes it look: the gaps that are read are the smallest.
        let options = ReadOptions { pace: Some(NEAR), ..ReadOptions::default() };
        let (bytes, files) = fetched(&open_with(store.clone(), &options).expect("a publication"));
        assert!(bytes <= most * files, "frames of {frame_bytes}: {bytes} for {files}");
        let publication = open(&store).expect("a publication");
        assert_eq!(publication.verify(&|_, _| true).expect("verified").found, 0);
        let to = image.home.path().join(format!("{frame_bytes}.lane"));
        publication.pull(&to, &|_, _| true).expect("pulled");
        let there = Volume::open(&to, lanefs::Access::Read).expect("an image");
        assert!(content(&there) == content(&image.open()), "frames of {frame_bytes}");
    }
    let (bytes, files) = fetched(&open(&published(&image, 0)).expect("a publication"));
    assert!(bytes > 6 * files, "without frames: {bytes} for {files}");
}

#[test]
fn a_batch_by_frames_takes_one_request_for_each_file_at_most() {
    let image = image();
    for frame_bytes in [16 << 10, 32 << 10, 64 << 10] {
        let store = published(&image, frame_bytes);
        let options = ReadOptions { pace: Some(NEAR), ..ReadOptions::default() };
        let publication = open_with(store.clone(), &options).expect("a publication");
        let there = volume(&publication);
        there.load_metadata(&|_, _| true).expect("metadata");
        let before = publication.counts().requests;
        store.reads.lock().clear();
        let files = read_some(&there) / BYTES as u64;
        let requests = publication.counts().requests - before;
        assert!((1..=files).contains(&requests), "frames of {frame_bytes}: {requests} for {files}");
        // No byte is read twice: nothing was read to learn where the others are.
        let mut reads = store.reads.lock().clone();
        reads.sort_by_key(|(object, range)| (object.clone(), range.start));
        let is_apart = |pair: &[(String, std::ops::Range<u64>)]| {
            pair[0].0 != pair[1].0 || pair[0].1.end <= pair[1].1.start
        };
        assert!(reads.windows(2).all(is_apart), "{reads:?}");
    }
}

/// Reads a file of each window or so, ten at a time, in the order of their positions.
fn read_in_batches(volume: &Volume, prefix: &str) -> u64 {
    let some: Vec<usize> = (0..FILES).step_by(20).collect();
    for batch in some.chunks(10) {
        let paths: PathSet = batch.iter().map(|number| format!("{prefix}{}", path(*number))).collect();
        let mut contents = FileContents::new();
        volume.read_files(&ReadFiles::default(), &paths, &mut contents).expect("read");
        for (number, bytes) in batch.iter().zip(contents.iter()) {
            assert!(bytes == Ok(&file(*number)[..]), "file {number}");
        }
    }
    (some.len() * BYTES) as u64
}

#[test]
fn batches_that_follow_one_another_read_nothing_ahead() {
    let image = image();
    let store = published(&image, 16 << 10);
    // The same volume as the shard of a join.
    let options = PublishOptions { level: 1, frame_bytes: 16 << 10, ..PublishOptions::default() };
    let shard = publish_shard(&image.open(), store.clone(), &options, &|_, _| true).expect("published");
    let receipt =
        Receipt { prefix: "/s".into(), version: shard.version, uuid: shard.facts.uuid, files: 0, bytes: 0 };
    join(store.clone(), "join", &[receipt], &JoinOptions::default(), &|_, _| true).expect("a join");
    for (tag, prefix) in [("latest", ""), ("join", "/s")] {
        let options = ReadOptions { pace: Some(NEAR), ..ReadOptions::default() };
        let publication =
            Publication::open(store.clone(), &Reference::Tag(tag.into()), &options).expect("a publication");
        let there = volume(&publication);
        there.load_metadata(&|_, _| true).expect("metadata");
        let before = publication.counts().bytes;
        let files = read_in_batches(&there, prefix);
        let bytes = publication.counts().bytes - before;
        assert!(bytes <= 4 * files, "{tag}: {bytes} for {files}");
    }
}

#[test]
fn a_cache_has_frames_and_pieces_and_gives_either() {
    let image = image();
    let store = published(&image, 32 << 10);
    let path = image.home.path().join("cache");
    let with_cache = || {
        let cache = Some(Arc::new(Cache::open(&path, 0).expect("a cache")));
        open_with(
            store.clone(),
            &ReadOptions { cache, memory: 0, pace: Some(NEAR), ..ReadOptions::default() },
        )
        .expect("open")
    };
    let read = |publication: &Publication| {
        let (bytes, _) = fetched(publication);
        bytes
    };
    assert!(read(&with_cache()) > 0);
    assert_eq!(read(&with_cache()), 0, "the same frames");
    // The whole pieces, of which the cache has frames.
    let publication = with_cache();
    assert_same(&image, &publication);
    let to = image.home.path().join("there.lane");
    publication.pull(&to, &|_, _| true).expect("pulled");
    store.plant(|object, _, bytes| match object.starts_with("packs/") {
        true => Err(StoreError::Failed("away".into())),
        false => Ok(bytes),
    });
    assert_eq!(read(&with_cache()), 0, "frames of whole pieces");
    assert_same(&image, &with_cache());
    store.heal();
}

#[test]
fn frames_of_a_damaged_cache_are_fetched_again() {
    let image = image();
    let store = published(&image, 32 << 10);
    let path = image.home.path().join("cache");
    let with_cache = || {
        let cache = Some(Arc::new(Cache::open(&path, 0).expect("a cache")));
        open_with(store.clone(), &ReadOptions { cache, pace: Some(NEAR), ..ReadOptions::default() })
            .expect("open")
    };
    read_some(&volume(&with_cache()));
    for folder in std::fs::read_dir(&path).expect("a cache") {
        for file in std::fs::read_dir(folder.expect("a folder").path()).expect("a folder") {
            let file = file.expect("a file").path();
            let mut bytes = std::fs::read(&file).expect("a file");
            let middle = bytes.len() / 2;
            bytes[middle] ^= 1;
            std::fs::write(&file, bytes).expect("write");
        }
    }
    let again = with_cache();
    read_some(&volume(&again));
    assert!(again.counts().requests > 0);
}

#[test]
fn changes_of_volumes_with_frames_are_published_and_read() {
    let mut random = Seeded::new(31);
    let image = Image::new(300 << 20, |volume| change_at_random(volume, &mut random, 200));
    let store = Arc::new(Memory::default());
    for (round, frame_bytes) in [32 << 10, 0, 16 << 10, 64 << 10].into_iter().enumerate() {
        let options = PublishOptions { level: 1, frame_bytes, ..PublishOptions::default() };
        publish(&image.open(), store.clone(), "latest", &options, &|_, _| true).expect("published");
        let publication = open(&store).expect("a publication");
        assert_same(&image, &publication);
        assert_eq!(publication.verify(&|_, _| true).expect("verified").found, 0);
        // Each file by itself in a batch, which takes frames of pieces of all rounds.
        let there = volume(&open(&store).expect("a publication"));
        let names = crate::support::names(&image.open());
        assert!(crate::support::names(&there) == names, "round {round}");
        image.change(|volume| change_at_random(volume, &mut random, 60));
    }
}
