//! Publishing, deltas, and publishers that end anywhere.

use crate::support::{
    Image, Memory, assert_same, change_at_random, content, directory, open, open_with, text, volume,
};
use lanefs::{Device, Volume};
use lanefs_publish::{Cache, Error, Publication, PublishOptions, ReadOptions, Reference, Store, publish};
use lanefs_testkit::seeded::Seeded;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Two leaf pages, three groups.
const LARGE: u64 = 300 << 20;

fn write(volume: &Volume, path: &str) {
    volume.write_file(path, path).unwrap();
}

fn small_volume() -> Image {
    Image::new(64 << 20, |volume| {
        volume.mkdir_all("/a/b", 0o755).unwrap();
        volume.write_file("/a/b/text", text(&mut Seeded::new(7), 300_000)).unwrap();
        volume.write_file("/empty", b"").unwrap();
    })
}

#[test]
fn random_volumes_are_the_same_when_read_from_a_store() {
    for seed in 0..2 {
        let mut random = Seeded::new(seed);
        let image = Image::new(LARGE, |volume| change_at_random(volume, &mut random, 300));
        let store = Arc::new(Memory::default());
        for round in 0..4 {
            let report = image.publish(&store).unwrap();
            let publication = open(&store).unwrap();
            assert_eq!(publication.version(), report.version);
            assert_same(&image, &publication);
            image.change(|volume| change_at_random(volume, &mut random, 1 + round * 40));
        }
    }
}

#[test]
fn empty_volumes_are_published_without_their_free_blocks() {
    for size in [8 << 20, 3 << 30] {
        let image = Image::new(size, |_| {});
        let store = Arc::new(Memory::default());
        image.publish(&store).unwrap();
        assert_same(&image, &open(&store).unwrap());
        assert!(store.bytes() < 64 << 10, "free blocks are not stored: {} bytes", store.bytes());
    }
}

#[test]
fn publishing_the_same_again_writes_nothing() {
    let image = small_volume();
    let store = Arc::new(Memory::default());
    let first = image.publish(&store).unwrap();
    assert_eq!(first.previous, None);
    let puts = store.puts.lock().len();
    let second = image.publish(&store).unwrap();
    assert_eq!((second.version, second.previous), (first.version, Some(first.version)));
    assert_eq!((second.written_bytes, second.new_pieces), (0, 0));
    assert_eq!(store.puts.lock().len(), puts);
}

#[test]
fn a_delta_writes_the_blocks_that_changed() {
    let mut random = Seeded::new(3);
    let image = Image::new(LARGE, |volume| {
        for file in 0..1000 {
            volume.mkdir_all(format!("/d{}", file % 20), 0o755).unwrap();
            volume.write_file(format!("/d{}/f{file}", file % 20), text(&mut random, 40_000)).unwrap();
        }
    });
    let store = Arc::new(Memory::default());
    let full = image.publish(&store).unwrap();
    image.change(|volume| {
        for _ in 0..10 {
            let file = random.below(1000);
            volume.write_file(format!("/d{}/f{file}", file % 20), text(&mut random, 40_000)).unwrap();
        }
    });
    let delta = image.publish(&store).unwrap();
    assert!(
        delta.written_bytes * 50 <= full.written_bytes,
        "a hundredth of the files changed: {} of {} bytes",
        delta.written_bytes,
        full.written_bytes
    );
    assert_same(&image, &open(&store).unwrap());
}

#[test]
fn a_window_of_which_blocks_became_free_is_not_written_again() {
    let image = small_volume();
    let store = Arc::new(Memory::default());
    image.publish(&store).unwrap();
    image.change(|volume| volume.remove_all("/a/b/text").unwrap());
    let delta = image.publish(&store).unwrap();
    assert!(delta.written_bytes < 16 << 10, "metadata only: {} bytes", delta.written_bytes);
    assert_same(&image, &open(&store).unwrap());
}

#[test]
fn an_old_version_stays_as_it_was() {
    let image = small_volume();
    let store = Arc::new(Memory::default());
    let first = image.publish(&store).unwrap();
    let before = content(&image.open());
    let reader = open(&store).unwrap();
    image.change(|volume| change_at_random(volume, &mut Seeded::new(1), 50));
    image.publish(&store).unwrap();
    assert!(content(&volume(&reader)) == before, "an open reader");
    let reference = Reference::Version(first.version);
    let later = Publication::open(store.clone(), &reference, &ReadOptions::default()).unwrap();
    assert!(content(&volume(&later)) == before, "a reader of the version");
}

#[test]
fn a_publisher_that_ends_at_any_put_leaves_the_tag_and_the_next_one_goes_on() {
    let mut random = Seeded::new(11);
    let image = Image::new(LARGE, |volume| change_at_random(volume, &mut random, 200));
    let store = Arc::new(Memory::default());
    let first = image.publish(&store).unwrap();
    image.change(|volume| change_at_random(volume, &mut random, 100));
    let fresh = Arc::new(Memory::default());
    *fresh.objects.lock() = store.objects.lock().clone();
    let whole = image.publish(&fresh).unwrap();
    let puts = fresh.puts.lock().len();
    assert!(puts >= 4, "packs, pages, root and tag: {puts} puts");
    for loses_answers in [false, true] {
        for allowed in 0..puts {
            let store = copy(&store);
            *store.puts_left.lock() = Some(allowed);
            *store.loses_answers.lock() = loses_answers && allowed + 1 < puts;
            image.publish(&store).expect_err("a put fails");
            let there = open(&store).unwrap();
            assert_eq!(there.version(), first.version, "after {allowed} puts");
            *store.puts_left.lock() = None;
            let again = image.publish(&store).unwrap();
            assert!(again.written_bytes <= whole.written_bytes);
            if allowed > 1 {
                assert!(again.written_bytes < whole.written_bytes, "packs of the first attempt are used");
            }
            assert_same(&image, &open(&store).unwrap());
        }
    }
}

fn copy(store: &Memory) -> Arc<Memory> {
    let other = Memory::default();
    *other.objects.lock() = store.objects.lock().clone();
    Arc::new(other)
}

#[test]
fn an_interrupted_upload_is_used_though_the_volume_has_changed_since() {
    let mut random = Seeded::new(5);
    let image = Image::new(LARGE, |volume| change_at_random(volume, &mut random, 300));
    let store = Arc::new(Memory::default());
    let whole = image.publish_as(&store, "latest", true).unwrap();
    *store.refused.lock() = Some("versions/");
    image.publish(&store).expect_err("the root is refused");
    *store.refused.lock() = None;
    image.change(|volume| change_at_random(volume, &mut random, 2));
    let rest = image.publish(&store).unwrap();
    assert!(
        rest.written_bytes * 10 < whole.written_bytes,
        "{} of {}",
        rest.written_bytes,
        whole.written_bytes
    );
    assert_same(&image, &open(&store).unwrap());
}

#[test]
fn of_two_publishers_at_once_one_is_told() {
    let image = small_volume();
    let store = Arc::new(Memory::default());
    image.publish(&store).unwrap();
    image.change(|volume| write(volume, "/one"));
    let other = Image::new(64 << 20, |_| {});
    std::fs::copy(&image.path, &other.path).unwrap();
    other.change(|volume| write(volume, "/two"));
    let other_version = Arc::new(parking_lot::Mutex::new(None));
    let (theirs, there) = (Arc::clone(&other_version), store.clone());
    *store.before_replace.lock() = Some(Box::new(move || {
        *theirs.lock() = Some(other.publish(&there).unwrap().version);
    }));
    let told = image.publish(&store).expect_err("the other one was faster");
    assert!(matches!(told, Error::TagMoved(_)), "{told}");
    assert_eq!(Some(open(&store).unwrap().version()), *other_version.lock());
    image.publish(&store).unwrap();
    assert_same(&image, &open(&store).unwrap());
}

#[test]
fn the_first_publishers_of_a_tag_do_not_overwrite_each_other() {
    let image = small_volume();
    let store = Arc::new(Memory::default());
    let (path, there) = (image.path.clone(), store.clone());
    *store.before_replace.lock() = Some(Box::new(move || {
        let volume = Volume::open(&path, lanefs::Access::Read).unwrap();
        let options = PublishOptions { level: 2, now: 5, ..PublishOptions::default() };
        publish(&volume, there, "latest", &options, &|_, _| true).unwrap();
    }));
    assert!(matches!(image.publish(&store), Err(Error::TagMoved(_))));
}

#[test]
fn a_replacement_whose_answer_was_lost_is_a_success() {
    let image = small_volume();
    let store = Arc::new(LostAnswer(Memory::default()));
    let options = PublishOptions::default();
    let report = publish(&image.open(), store.clone(), "latest", &options, &|_, _| true).unwrap();
    assert_eq!(open_with(store, &ReadOptions::default()).unwrap().version(), report.version);
}

#[test]
fn a_replacement_that_fails_and_is_done_is_a_success() {
    let (image, store) = (small_volume(), Arc::new(Memory::default()));
    *store.refused.lock() = Some("tags/");
    assert!(matches!(image.publish(&store), Err(Error::Store { .. })), "it is not done");
    *store.loses_answers.lock() = true;
    let report = image.publish(&store).unwrap();
    assert_eq!(open_with(store, &ReadOptions::default()).unwrap().version(), report.version);
}

/// A store that does a replacement, loses the answer, and tries again itself.
struct LostAnswer(Memory);

impl Store for LostAnswer {
    fn name(&self) -> String {
        self.0.name()
    }
    fn read(&self, object: &str, range: std::ops::Range<u64>) -> Result<Vec<u8>, lanefs_publish::StoreError> {
        self.0.read(object, range)
    }
    fn read_all(
        &self,
        object: &str,
        most: u64,
    ) -> Result<(Vec<u8>, lanefs_publish::Stamp), lanefs_publish::StoreError> {
        self.0.read_all(object, most)
    }
    fn write(&self, object: &str, bytes: Vec<u8>) -> Result<(), lanefs_publish::StoreError> {
        self.0.write(object, bytes)
    }
    fn replace(
        &self,
        object: &str,
        expected: Option<&lanefs_publish::Stamp>,
        bytes: Vec<u8>,
    ) -> Result<(), lanefs_publish::StoreError> {
        self.0.replace(object, expected, bytes.clone())?;
        self.0.replace(object, expected, bytes)
    }
    fn delete(&self, object: &str) -> Result<(), lanefs_publish::StoreError> {
        self.0.delete(object)
    }
    fn list(&self, folder: &str) -> Result<Vec<lanefs_publish::Listed>, lanefs_publish::StoreError> {
        self.0.list(folder)
    }
}

#[test]
fn another_volume_does_not_replace_a_tag() {
    let store = Arc::new(Memory::default());
    small_volume().publish(&store).unwrap();
    let refused = small_volume().publish(&store).expect_err("another volume");
    assert!(matches!(refused, Error::OtherVolume { .. }), "{refused}");
}

#[test]
fn a_dry_run_tells_the_bytes_and_writes_nothing() {
    let image = small_volume();
    let store = Arc::new(Memory::default());
    let dry = image.publish_as(&store, "latest", true).unwrap();
    assert_eq!(store.names(), Vec::<String>::new());
    let wet = image.publish(&store).unwrap();
    assert_eq!((dry.version, dry.written_bytes), (wet.version, wet.written_bytes));
    assert_eq!(store.bytes(), wet.written_bytes);
}

#[test]
fn a_second_tag_of_a_volume_uses_the_pieces_of_the_first() {
    let image = small_volume();
    let store = Arc::new(Memory::default());
    let first = image.publish(&store).unwrap();
    let second = image.publish_as(&store, "other", false).unwrap();
    assert_eq!(first.version, second.version);
    assert_eq!(second.new_pieces, 0);
}

#[test]
fn a_volume_that_is_not_closed_or_open_for_writing_is_refused() {
    let image = small_volume();
    let store = Arc::new(Memory::default());
    let writer = Volume::open(&image.path, lanefs::Access::Write).unwrap();
    let options = PublishOptions::default();
    let refused = publish(&writer, store.clone(), "latest", &options, &|_, _| true).expect_err("refused");
    assert!(refused.to_string().contains("open for writing"), "{refused}");
    assert_eq!(store.names(), Vec::<String>::new());
}

#[test]
fn a_publisher_that_is_stopped_leaves_the_tag() {
    let image = Image::new(LARGE, |volume| change_at_random(volume, &mut Seeded::new(2), 300));
    let store = Arc::new(Memory::default());
    let options = PublishOptions { level: 1, ..PublishOptions::default() };
    let stopped = publish(&image.open(), store.clone(), "latest", &options, &|done, _| done == 0);
    assert!(matches!(stopped, Err(Error::Interrupted)));
    assert!(store.names().iter().all(|name| name.starts_with("packs/")));
}

#[test]
fn a_directory_is_a_store() {
    let image = small_volume();
    let store = directory(&image.home.path().join("store"));
    let options = PublishOptions::default();
    let first = publish(&image.open(), store.clone(), "latest", &options, &|_, _| true).unwrap();
    assert_same(&image, &open_with(store.clone(), &ReadOptions::default()).unwrap());
    image.change(|volume| write(volume, "/more"));
    let second = publish(&image.open(), store.clone(), "latest", &options, &|_, _| true).unwrap();
    assert_eq!(second.previous, Some(first.version));
    assert_same(&image, &open_with(store.clone(), &ReadOptions::default()).unwrap());
    let left: Vec<_> = store.list("tags").unwrap().into_iter().map(|listed| listed.name).collect();
    assert_eq!(left, ["latest"]);
}

#[test]
fn a_first_lookup_takes_three_round_trips() {
    let mut random = Seeded::new(9);
    let image = Image::new(LARGE, |volume| {
        change_at_random(volume, &mut random, 300);
        volume.mkdir_all("/deep/er/and/deeper", 0o755).unwrap();
        volume.write_file("/deep/er/and/deeper/file", b"x").unwrap();
    });
    let store = Arc::new(Memory::default());
    image.publish(&store).unwrap();
    store.reads.lock().clear();
    let publication = open(&store).unwrap();
    volume(&publication).resolve("/deep/er/and/deeper/file").unwrap();
    let reads = std::mem::take(&mut *store.reads.lock());
    // The tag with the root, and at the same time the pages and the metadata.
    assert_eq!(reads.len(), 1 + 2, "{reads:?}");
    assert!(reads[0].0.starts_with("tags/"));
    assert_eq!(*store.prepared.lock(), [(3, 0)], "before the tag is read");
    // By its hash: the root, and then the same. A reader whose cache has the root asks for nothing.
    let version = Reference::Version(publication.version());
    let home = tempfile::tempdir().unwrap();
    let cache = Some(Cache::open(&home.path().join("cache"), 256 << 20).unwrap().into());
    let options = ReadOptions { cache, ..ReadOptions::default() };
    for (more, prepared) in [(1 + 2, 2), (0, 2)] {
        let publication = Publication::open(store.clone(), &version, &options).unwrap();
        let reads = std::mem::take(&mut *store.reads.lock());
        assert_eq!((reads.len(), store.prepared.lock().len()), (more, prepared), "{reads:?}");
        volume(&publication).resolve("/deep/er/and/deeper/file").unwrap();
        store.reads.lock().clear();
    }
}

#[test]
fn names_and_attributes_are_read_without_an_object_of_data() {
    let mut random = Seeded::new(13);
    let image = Image::new(LARGE, |volume| change_at_random(volume, &mut random, 300));
    let store = Arc::new(Memory::default());
    image.publish(&store).unwrap();
    store.reads.lock().clear();
    let options = ReadOptions { ahead: 0, ..ReadOptions::default() };
    let there = volume(&open_with(store.clone(), &options).unwrap());
    there.load_metadata(&|_, _| true).unwrap();
    let touched: std::collections::BTreeSet<_> =
        store.reads.lock().iter().map(|(object, _)| object.clone()).collect();
    // Tag, pages, metadata; the pack of data is not among them.
    assert_eq!(touched.len(), 3, "{touched:?}");
    assert_eq!(store.names().iter().filter(|name| name.starts_with("packs/")).count(), 3);
}

/// Bytes that do not compress.
fn noise(size: usize) -> Vec<u8> {
    let mut random = Seeded::new(3);
    std::iter::repeat_with(|| random.below(256) as u8).take(size).collect()
}

/// Reads the windows of a volume in their order, and returns the bytes that were fetched until each of them.
fn read_windows(publication: &Publication, count: u64) -> Vec<u64> {
    let device = publication.device();
    let mut bytes = vec![0; WINDOW as usize];
    let read = |window: u64| {
        device.read_slice(window * WINDOW, &mut bytes).unwrap();
        publication.counts().bytes
    };
    (0..count).map(read).collect()
}

const WINDOW: u64 = 256 << 10;

#[test]
fn who_reads_data_in_order_is_read_ahead_of() {
    const SIZE: u64 = 64 << 20;
    let image = Image::new(SIZE, |volume| {
        volume.write_file("/large", noise(24 << 20)).unwrap();
    });
    let store = Arc::new(Memory::default());
    image.publish(&store).unwrap();
    let options = |reads_ahead| ReadOptions { reads_ahead, ..ReadOptions::default() };
    let without = open_with(store.clone(), &options(false)).unwrap();
    let fetched = read_windows(&without, SIZE / WINDOW);
    // A place inside the file, wherever it lies: each window round it is fetched when it is read.
    let is_data = |window: usize| fetched[window] - fetched[window - 1] >= WINDOW;
    let place =
        (4..fetched.len() - 4).find(|place| (place - 3..place + 4).all(is_data)).expect("a chunk of data");
    let with = open_with(store.clone(), &options(true)).unwrap();
    read_windows(&with, place as u64 + 1);
    let begin = Instant::now();
    while with.counts().bytes <= fetched[place] {
        assert!(begin.elapsed() < Duration::from_secs(300), "{:?} for {}", with.counts(), fetched[place]);
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn a_newer_version_shares_what_it_has_with_the_one_before() {
    let image = Image::new(64 << 20, |volume| {
        for file in 0..40 {
            volume.write_file(format!("/f{file}"), text(&mut Seeded::new(file), 100_000)).unwrap();
        }
    });
    let store = Arc::new(Memory::default());
    image.publish(&store).unwrap();
    let before = open(&store).unwrap();
    assert_same(&image, &before);
    assert!(before.newer("latest").unwrap().is_none(), "nothing new");
    let old = content(&volume(&before));
    image.change(|volume| {
        volume.write_file("/f7", text(&mut Seeded::new(77), 100_000)).unwrap();
    });
    let report = image.publish(&store).unwrap();
    let counts = before.counts();
    let after = before.newer("latest").unwrap().expect("a newer version");
    assert_eq!(after.version(), report.version);
    assert_same(&image, &after);
    let fetched = after.counts().bytes - counts.bytes;
    assert!(fetched <= report.written_bytes, "{fetched} bytes of {} that are new", report.written_bytes);
    assert!(content(&volume(&before)) == old, "the version before stays");
    assert!(after.newer("latest").unwrap().is_none());
    assert!(matches!(after.newer("other"), Err(Error::NoTag(_))));
}
