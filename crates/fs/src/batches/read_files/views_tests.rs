//! Files in place beside copies: with room for all, with little room, beside other reads, and over an image
//! that another program changes.

use super::tests::{CACHE, OWNER, Random, contents, fill, options, random_ranges};
use super::*;
use crate::vocabulary::as_path::AsPath;
use crate::vocabulary::error::Error;
use crate::vocabulary::options::{Access, OpenOptions};
use crate::vocabulary::path_set::PathSet;
use crate::vocabulary::types::{Caller, Ino, ResolveOptions, SetAttr};
use lanefs_format::Code;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

/// Length of a file of [`image`], which lies in one extent.
const LEN: usize = 8192 - 100;
/// Files of that length: several times the cache.
const FILES: usize = 4 * CACHE as usize / 8192;

/// An image with files of every kind, and with many of one length. Returns its name and the paths of both.
fn image(dir: &tempfile::TempDir) -> (PathBuf, Vec<String>, Vec<String>) {
    let image = dir.path().join("volume.lane");
    let volume = Volume::create(&image, &options()).expect("create");
    let mut random = Random(4);
    let mixed = fill(&volume, &mut random);
    let secret = volume.resolve("/d2/e/f7").expect("there").ino;
    volume.setattr(&OWNER, secret, &SetAttr { perm: Some(0o600), ..SetAttr::default() }).expect("chmod");
    volume.mkdir_all("/plain", 0o755).expect("mkdir");
    let plain: Vec<String> = (0..FILES).map(|i| format!("/plain/{i}")).collect();
    for (i, path) in plain.iter().enumerate() {
        let ino = volume.write_file(path, plain_content(i)).expect("write").ino;
        assert_eq!(volume.extents(ino).expect("extents").len(), 1, "{path}");
    }
    volume.close().expect("close");
    (image, mixed, plain)
}

fn plain_content(file: usize) -> Vec<u8> {
    let mut content: Vec<u8> = (0..LEN).map(|i| (i * 7 + file) as u8).collect();
    content[..8].copy_from_slice(&(file as u64).to_le_bytes());
    content
}

fn open(image: &Path, cache: u64) -> Volume {
    Volume::open(image, OpenOptions { cache: Some(cache), ..OpenOptions::from(Access::Read) }).expect("open")
}

fn view<P: AsPath>(volume: &Volume, paths: impl IntoIterator<Item = P>) -> FileViews {
    volume.view_files(&ReadFiles::default(), &PathSet::from_iter(paths)).expect("view")
}

/// Checks the bytes of files `first..` of the plain ones, and returns how many are in place.
fn in_place(views: &FileViews, first: usize) -> usize {
    for (i, file) in views.iter().enumerate() {
        assert!(file == Ok(&plain_content(first + i)[..]), "file {}", first + i);
    }
    (0..views.len()).filter(|file| views.is_in_place(*file)).count()
}

#[test]
fn views_are_what_copies_are() {
    let dir = tempfile::tempdir().expect("a directory");
    let (image, mixed, plain) = image(&dir);
    for cache in [64 << 20, CACHE] {
        let (volume, mut random) = (open(&image, cache), Random(5));
        let mut copies = FileContents::new();
        for round in 0..12 {
            let mut paths: Vec<&String> = mixed.iter().chain(&plain).collect();
            (1..paths.len()).for_each(|i| paths.swap(i, random.below(i + 1)));
            paths.truncate([paths.len(), 300, 1, 0][round % 4]);
            let ranges = random_ranges(paths.len(), &mut random);
            let caller = [OWNER, Caller::user(7, 7, &[])][round % 2].clone();
            let resolve = ResolveOptions { caller, ..ResolveOptions::default() };
            let ranges = (round >= 4).then_some(&ranges[..]);
            let options =
                ReadFiles { resolve, ranges, threads: [0, 1, 4][round % 3], ..ReadFiles::default() };
            if round % 2 == 0 {
                volume.shared.state.store.drop_clean();
            }
            let set = PathSet::from_iter(paths.iter());
            let views = volume.view_files(&options, &set).expect("view");
            volume.read_files(&options, &set, &mut copies).expect("read");
            for ((path, viewed), copied) in paths.iter().zip(views.iter()).zip(contents(&copies)) {
                let lens = (viewed.map(<[u8]>::len), copied.as_ref().map(Vec::len));
                assert!(viewed.map(<[u8]>::to_vec) == copied, "{path} in round {round}: {lens:?}");
            }
            assert_eq!(views.codes(), copies.codes());
            // The same by number.
            let answers = volume.resolve_batch(&options.resolve, &paths).expect("resolve");
            let mut inodes: Vec<Ino> = answers.iter().filter_map(|answer| answer.ino).collect();
            inodes.push(Ino(u64::MAX));
            let options = ReadFiles { ranges: None, ..options };
            let views = volume.view_files(&options, &inodes[..]).expect("view");
            volume.read_files(&options, &inodes[..], &mut copies).expect("read");
            assert!(views.iter().map(|file| file.map(<[u8]>::to_vec)).eq(contents(&copies)));
        }
        assert_eq!(volume.stats().blocks_pinned, 0);
    }
}

#[test]
fn warm_files_in_one_extent_cost_no_copy_and_no_fetch() {
    let dir = tempfile::tempdir().expect("a directory");
    let (image, mixed, plain) = image(&dir);
    let volume = open(&image, 64 << 20);
    let views = view(&volume, &plain);
    assert_eq!((in_place(&views, 0), views.copied_bytes()), (FILES, 0));
    let before = volume.stats();
    let again = view(&volume, &plain);
    assert_eq!((in_place(&again, 0), again.copied_bytes()), (FILES, 0));
    assert_eq!(volume.stats().blocks_fetched, before.blocks_fetched);
    assert_eq!(volume.stats().blocks_pinned, 2 * before.blocks_pinned);
    let both = (again.get(3).expect("a file"), views.get(3).expect("a file"));
    assert!(both.0.expect("read").as_ptr() == both.1.expect("read").as_ptr(), "the same memory");
    // Of other files, those in one extent are in place as well.
    let views = view(&volume, &mixed);
    let bytes: u64 = views.iter().flatten().map(|file| file.len() as u64).sum();
    let viewed = (0..views.len()).filter(|file| views.is_in_place(*file)).count();
    assert!(viewed > 50 && (100_000..bytes).contains(&views.copied_bytes()), "{viewed} in {views:?}");
    assert!(views.get(mixed.len()).is_none() && !views.is_in_place(mixed.len()) && !views.is_empty());
}

#[test]
fn views_keep_their_bytes_under_eviction_and_when_the_volume_closes() {
    let dir = tempfile::tempdir().expect("a directory");
    let (image, mixed, plain) = image(&dir);
    let volume = open(&image, CACHE);
    let held = view(&volume, &plain[..30]);
    assert_eq!(in_place(&held, 0), 30);
    let (set, mut copies) = (PathSet::from_iter(mixed.iter().chain(&plain)), FileContents::new());
    for _ in 0..3 {
        volume.read_files(&ReadFiles::default(), &set, &mut copies).expect("read");
        volume.shared.state.store.drop_clean();
        let before = volume.stats().blocks_fetched;
        assert_eq!(in_place(&view(&volume, &plain[100..110]), 100), 10);
        assert!(volume.stats().blocks_fetched > before, "nothing was evicted");
        assert_eq!(in_place(&held, 0), 30);
    }
    // The image stays open for reading with the views, and no longer.
    volume.close().expect("close");
    assert_eq!(in_place(&held, 0), 30);
    let held = std::thread::spawn(move || {
        assert_eq!(in_place(&held, 0), 30);
        held
    });
    let held = held.join().expect("no panic");
    assert!(Volume::open(&image, Access::Write).is_err(), "a writer beside views");
    drop(held);
    Volume::open(&image, Access::Write).expect("open").close().expect("close");
}

#[test]
fn views_pin_half_of_the_cache_and_the_rest_is_copied() {
    let dir = tempfile::tempdir().expect("a directory");
    let (image, _, plain) = image(&dir);
    let volume = open(&image, CACHE);
    let most = CACHE as usize / 2 / 8192;
    for threads in [1, 4] {
        let options = ReadFiles { threads, ..ReadFiles::default() };
        let first = volume.view_files(&options, &PathSet::from_iter(&plain)).expect("view");
        let viewed = in_place(&first, 0);
        assert!((most / 2..=most).contains(&viewed), "{viewed} files in place");
        assert_eq!(first.copied_bytes(), ((FILES - viewed) * LEN) as u64);
        assert_eq!(volume.stats().blocks_pinned, 2 * viewed as u64);
        // The rest of the half is for the next batch, and all of it when the first one is gone.
        let second = view(&volume, &plain[..100]);
        assert!(viewed + in_place(&second, 0) <= most);
        drop(first);
        drop(second);
        assert_eq!(in_place(&view(&volume, &plain[..most - 16]), 0), most - 16);
    }
    // A file that is larger than that is copied; a range of it need not be.
    let large = view(&volume, ["/large"]);
    assert_eq!((large.is_in_place(0), large.copied_bytes()), (false, 2_500_000));
    let ranges = [ByteRange { offset: 1_000_001, len: 70_000 }];
    let options = ReadFiles { ranges: Some(&ranges), ..ReadFiles::default() };
    let part = volume.view_files(&options, &PathSet::from_iter(["/large"])).expect("view");
    assert!(part.is_in_place(0));
    let whole = large.get(0).expect("a file").expect("read");
    assert!(part.get(0) == Some(Ok(&whole[1_000_001..1_070_001])));
}

#[test]
fn threads_view_files_beside_each_other() {
    let dir = tempfile::tempdir().expect("a directory");
    let (image, _, plain) = image(&dir);
    let volume = open(&image, CACHE);
    std::thread::scope(|scope| {
        for thread in 0..3 {
            let (volume, plain) = (&volume, &plain);
            scope.spawn(move || {
                let mut random = Random(thread);
                let mut held = Vec::new();
                for _ in 0..60 {
                    let first = random.below(FILES - 20);
                    held.push((first, view(volume, &plain[first..first + 20])));
                    if held.len() > 2 {
                        held.swap_remove(random.below(3));
                    }
                    for (first, views) in &held {
                        in_place(views, *first);
                    }
                }
            });
        }
    });
    assert_eq!(volume.stats().blocks_pinned, 0);
}

#[test]
fn volumes_that_may_change_give_no_views() {
    let dir = tempfile::tempdir().expect("a directory");
    let (image, _, plain) = image(&dir);
    let writable = Volume::open(&image, Access::Write).expect("open");
    writable.set_read_only(true).expect("freeze");
    let memory = Volume::create_memory(&options()).expect("create");
    for volume in [writable, memory] {
        let error = volume.view_files(&ReadFiles::default(), &PathSet::from_iter(&plain)).map(drop);
        let Err(error) = error else { panic!("views of a volume that may change") };
        assert_eq!(error.code(), Code::Unsupported);
        assert!(error.to_string().contains("open for reading (Access::Read); read_files copies"), "{error}");
    }
    let volume = open(&image, CACHE);
    let ranges = [ByteRange::WHOLE];
    let wrong = ReadFiles { ranges: Some(&ranges), ..ReadFiles::default() };
    let error =
        volume.view_files(&wrong, &PathSet::from_iter(&plain)).map(drop).map_err(|error| error.code());
    assert_eq!(error, Err(Code::Invalid));
    assert!(matches!(volume.write_file("/new", b"x"), Err(Error::At { code: Code::ReadOnly, .. })));
}

#[test]
fn another_program_that_changes_the_image_changes_no_view() {
    let dir = tempfile::tempdir().expect("a directory");
    let (image, _, plain) = image(&dir);
    let options = OpenOptions { cache: Some(CACHE), ..OpenOptions::one_of_many_readers() };
    let volume = Volume::open(&image, options).expect("open");
    let held = view(&volume, &plain[..30]);
    assert_eq!(in_place(&held, 0), 30);
    // Every byte of the content of two files, wherever they lie: one that is held, and one that is not.
    let mut bytes = std::fs::read(&image).expect("read");
    let file = std::fs::File::options().write(true).open(&image).expect("open");
    for i in [3, 200] {
        let content = plain_content(i);
        let at = bytes.windows(LEN).position(|part| part == content).expect("the content of a file");
        bytes[at..at + LEN].fill(0xee);
        file.write_all_at(&bytes[at..at + LEN], at as u64).expect("write");
    }
    volume.shared.state.store.drop_clean();
    assert_eq!(in_place(&held, 0), 30);
    let wrong = view(&volume, [&plain[200], &plain[201]]);
    assert!(wrong.get(0) == Some(Err(Code::WrongData)) && wrong.get(1) == Some(Ok(&plain_content(201)[..])));
    // The end of the image is cut off.
    file.set_len(1 << 20).expect("cut off");
    volume.shared.state.store.drop_clean();
    assert_eq!(in_place(&held, 0), 30);
    let _ = volume.view_files(&ReadFiles::default(), &PathSet::from_iter(&plain[250..300]));
    assert_eq!(in_place(&held, 0), 30);
}
