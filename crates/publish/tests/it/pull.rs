//! Publications that become images.

use crate::support::{Image, Memory, change_at_random, content, open, open_with};
use lanefs::{Access, Volume};
use lanefs_publish::{Cache, Error, MIN_CACHE, Publication, PullReport, ReadOptions, StoreError};
use lanefs_testkit::seeded::Seeded;
use std::cell::Cell;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Bytes of a file that takes several batches.
const SEVERAL: usize = 140 << 20;

/// A volume that is published, with a large file, and the image to pull it to.
fn published(large: usize) -> (Image, Arc<Memory>, PathBuf) {
    let mut random = Seeded::new(3);
    let image = Image::new(256 << 20, |volume| {
        change_at_random(volume, &mut random, 40);
        volume.write_file("/large", vec![7; large]).expect("write");
    });
    let store = Arc::new(Memory::default());
    image.publish(&store).expect("published");
    let to = image.home.path().join("there.lane");
    (image, store, to)
}

fn pull(publication: &Publication, to: &Path) -> Result<PullReport, Error> {
    publication.pull(to, &|_, _| true)
}

fn part(to: &Path) -> PathBuf {
    to.with_extension("lane.part")
}

/// Compares an image with the volume that was published, works on it, and checks it.
fn assert_pulled(image: &Image, to: &Path) {
    assert!(!part(to).exists(), "the part is left");
    assert_eq!(fs::metadata(to).expect("an image").len(), fs::metadata(&image.path).expect("an image").len());
    let (here, there) = (content(&image.open()), content(&Volume::open(to, Access::Read).expect("open")));
    assert!(here.names == there.names && here.blocks == there.blocks);
    let volume = Volume::open(to, Access::Write).expect("open for writing");
    volume.write_file("/new", [7; 100_000]).expect("write");
    assert!(volume.check(false, &|_, _| {}).expect("check").findings.is_empty());
    assert!(volume.scrub(0, &mut |_, _| true).expect("scrub").wrong.is_empty());
    volume.close().expect("close");
}

#[test]
fn a_pulled_image_is_the_volume_and_an_ordinary_one() {
    let (image, store, to) = published(1 << 20);
    let publication = open(&store).expect("a publication");
    let report = pull(&publication, &to).expect("pulled");
    assert_eq!((report.blocks, report.found), (publication.facts().blocks, 0));
    assert_pulled(&image, &to);
    // Holes stay holes.
    let metadata = fs::metadata(&to).expect("an image");
    let used = std::os::unix::fs::MetadataExt::blocks(&metadata) * 512;
    assert!(used < (report.blocks + 1000) * 4096, "{used} bytes of the host for {} blocks", report.blocks);
    let error = pull(&publication, &to).expect_err("exists");
    assert!(error.to_string().contains("there.lane: exists already"), "{error}");
}

#[test]
fn blocks_of_zeros_are_holes_of_the_image() {
    let image = Image::new(256 << 20, |volume| {
        volume.write_file("/zeros", vec![0; 100 << 20]).expect("write");
    });
    let store = Arc::new(Memory::default());
    image.publish(&store).expect("published");
    let to = image.home.path().join("there.lane");
    pull(&open(&store).expect("a publication"), &to).expect("pulled");
    let used = std::os::unix::fs::MetadataExt::blocks(&fs::metadata(&to).expect("an image")) * 512;
    assert!(used < 10 << 20, "{used} bytes of the host");
    assert_pulled(&image, &to);
}

#[test]
fn a_pull_that_was_cut_off_goes_on_and_the_image_appears_whole() {
    let (image, store, to) = published(SEVERAL);
    let publication = open(&store).expect("a publication");
    for stop_after in [0, 1, 2] {
        let calls = Cell::new(0);
        let stop = |_, _| {
            assert!(!to.exists() && part(&to).exists(), "the image has its name already");
            calls.set(calls.get() + 1);
            calls.get() <= stop_after
        };
        let error = publication.pull(&to, &stop).expect_err("interrupted");
        assert!(matches!(error, Error::Interrupted), "{error}");
    }
    // A store that fails in the middle.
    *store.plant.lock() = Some(Box::new({
        let mut left = 1;
        move |object, _, bytes| {
            left -= i32::from(object.starts_with("packs/"));
            if left < 0 { Err(StoreError::Failed("away".into())) } else { Ok(bytes) }
        }
    }));
    let again = open_with(store.clone(), &ReadOptions { ahead: 0, ..ReadOptions::default() });
    let error = again.and_then(|publication| pull(&publication, &to)).expect_err("the store is away");
    assert!(error.to_string().contains("away"), "{error}");
    assert!(!to.exists());
    *store.plant.lock() = None;
    let publication = open(&store).expect("a publication");
    let report = pull(&publication, &to).expect("pulled");
    assert!(report.found > 0, "nothing was found");
    assert_eq!(report.blocks + report.found, publication.facts().blocks);
    assert_pulled(&image, &to);
}

#[test]
fn what_lies_in_the_place_of_a_part_is_not_overwritten() {
    let (image, store, to) = published(1 << 20);
    let publication = open(&store).expect("a publication");
    for other in [b"text".to_vec(), vec![0; 5000]] {
        fs::write(part(&to), &other).expect("write");
        fs::set_permissions(part(&to), std::os::unix::fs::PermissionsExt::from_mode(0o600)).expect("a mode");
        let error = pull(&publication, &to).expect_err("another file");
        assert!(error.to_string().contains("there.lane.part: is not what a pull leaves"), "{error}");
        assert_eq!(fs::read(part(&to)).expect("read"), other);
    }
    fs::remove_file(part(&to)).expect("removed");
    // The part of another version is begun again.
    publication.pull(&to, &|_, _| false).expect_err("interrupted");
    image.change(|volume| drop(volume.remove_all("/large")));
    image.publish(&store).expect("published");
    let publication = open(&store).expect("a publication");
    let report = pull(&publication, &to).expect("pulled");
    assert_eq!((report.blocks, report.found), (publication.facts().blocks, 0));
    assert_pulled(&image, &to);
    // Two at once.
    let to = image.home.path().join("other.lane");
    let second = Cell::new(String::new());
    publication
        .pull(&to, &|_, _| {
            if let Err(error) = pull(&publication, &to) {
                second.set(error.to_string());
            }
            true
        })
        .expect("pulled");
    assert!(second.take().contains("another pull writes it"));
    assert_pulled(&image, &to);
}

#[test]
fn wrong_bytes_never_reach_an_image() {
    let (_image, store, to) = published(1 << 20);
    let publication = open_with(store.clone(), &ReadOptions { ahead: 0, ..ReadOptions::default() });
    let publication = publication.expect("a publication");
    *store.plant.lock() = Some(Box::new(|object, _, mut bytes| {
        if let Some(byte) = bytes.first_mut().filter(|_| object.starts_with("packs/")) {
            *byte ^= 1;
        }
        Ok(bytes)
    }));
    let error = pull(&publication, &to).expect_err("wrong bytes");
    assert!(matches!(error, Error::Damaged { .. }), "{error}");
    assert!(!to.exists());
}

#[test]
fn a_pull_uses_a_cache_and_leaves_it_as_it_was() {
    let (image, store, to) = published(1 << 20);
    let cache = Arc::new(Cache::open(&image.home.path().join("cache"), MIN_CACHE).expect("a cache"));
    let read = |fills_cache| {
        let options = ReadOptions { cache: Some(Arc::clone(&cache)), fills_cache, ..ReadOptions::default() };
        open_with(store.clone(), &options).expect("a publication")
    };
    let entries = || walk(&image.home.path().join("cache"));
    let before = entries();
    pull(&read(false), &to).expect("pulled");
    assert!(entries() <= before + 1, "only the root goes to the cache");
    fs::remove_file(&to).expect("removed");
    pull(&read(true), &to).expect("pulled");
    fs::remove_file(&to).expect("removed");
    let publication = read(false);
    pull(&publication, &to).expect("pulled");
    assert_eq!(publication.counts().requests, 0, "everything was in the cache");
    assert_pulled(&image, &to);
}

/// Number of files below a directory whose names are hashes.
fn walk(dir: &Path) -> usize {
    let Ok(entries) = fs::read_dir(dir) else { return 0 };
    let count = |entry: fs::DirEntry| match entry.path() {
        path if path.is_dir() => walk(&path),
        path => usize::from(path.file_name().is_some_and(|name| name.len() == 64)),
    };
    entries.map(|entry| count(entry.expect("an entry"))).sum()
}

#[test]
fn a_part_that_somebody_else_may_have_made_is_refused_and_left() {
    use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
    let (published, store, image) = published(1 << 20);
    let publication = open(&store).expect("a publication");
    let (home, part) = (published.home.path(), part(&image));
    let (target, other) = (home.join("target"), home.join("other"));
    let refused = |what: &str| {
        let error = pull(&publication, &image).expect_err(what);
        assert!(error.to_string().contains("there.lane.part"), "{what}: {error}");
        assert!(error.to_string().contains("remove it"), "{what}: {error}");
        assert!(!image.exists(), "{what}");
        fs::remove_file(&part).expect("it was left");
    };
    symlink(&target, &part).expect("a link");
    refused("a link to nothing");
    fs::write(&target, "").expect("a file");
    fs::set_permissions(&target, fs::Permissions::from_mode(0o600)).expect("a mode");
    symlink(&target, &part).expect("a link");
    refused("a link to a file");
    fs::hard_link(&target, &part).expect("a name");
    refused("a file with two names");
    fs::write(&part, "").expect("a file");
    fs::set_permissions(&part, fs::Permissions::from_mode(0o666)).expect("a mode");
    refused("a file that others may write");
    rustix::fs::mknodat(
        rustix::fs::CWD,
        &part,
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::from_raw_mode(0o600),
        0,
    )
    .expect("a pipe");
    refused("a pipe");
    fs::write(&other, "").expect("a file");
    fs::set_permissions(&other, fs::Permissions::from_mode(0o600)).expect("a mode");
    if std::os::unix::fs::chown(&other, Some(65534), Some(65534)).is_ok() {
        fs::rename(&other, &part).expect("renamed");
        refused("another user's file");
    } else {
        eprintln!("another user's file: not tried, because only root can make one");
    }
    pull(&publication, &image).expect("pulled");
    let made = image.metadata().expect("there");
    let plain = fs::File::create(home.join("plain")).and_then(|file| file.metadata());
    assert_eq!(made.mode(), plain.expect("there").mode(), "the mode of any new file");
    assert_eq!((made.nlink(), part.exists()), (1, false));
}
