//! Contents that come in pieces and take their place in one step.

use lanefs::*;
use std::io::Write;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

const MIB: usize = 1 << 20;

/// Sizes of contents in memory, and of those in a file without a name.
const SIZES: [usize; 6] = [0, 30, 5000, MIB, MIB + 1, 5 * MIB + 77];

fn on_file(path: &Path, size: u64) -> Volume {
    let options = CreateOptions { size, ..CreateOptions::default() };
    Volume::open_or_create(path, &options, Access::Write).expect("open")
}

/// One in memory and one in a file.
fn volumes(dir: &tempfile::TempDir, size: u64) -> [Volume; 2] {
    let options = CreateOptions { size, ..CreateOptions::default() };
    [Volume::create_memory(&options).expect("create"), on_file(&dir.path().join("v.lane"), size)]
}

/// The volume is sound, and has no inode without a name.
fn is_clean(volume: &Volume) {
    assert!(volume.held().is_empty(), "{:?}", volume.held());
    let report = volume.check(false, &|_, _| {}).expect("check");
    assert!(report.findings.is_empty(), "{:?}", report.findings);
}

fn content(size: usize, number: u8) -> Vec<u8> {
    (0..size).map(|i| (i % 251) as u8 ^ number).collect()
}

#[test]
fn a_content_in_pieces_takes_its_place_in_one_step() {
    let dir = tempfile::tempdir().expect("a directory");
    for volume in volumes(&dir, 64 << 20) {
        let mut old = None;
        for (number, size) in SIZES.iter().chain(SIZES.iter().rev()).enumerate() {
            let new = content(*size, number as u8);
            let mut replacement = Replacement::begin(&volume, "/a").expect("begin");
            for piece in new.chunks(100_000) {
                replacement.write_all(piece).expect("write");
                let now = volume.read_file("/a");
                assert_eq!(now.ok(), old, "{size} bytes");
            }
            assert_eq!(replacement.len().expect("length"), *size as u64);
            let attr = replacement.finish().expect("finish");
            assert_eq!((attr.size, attr.links, attr.perm), (*size as u64, 1, 0o644));
            assert_eq!(volume.read_file("/a").expect("read"), new);
            old = Some(new);
        }
        is_clean(&volume);
    }
}

#[test]
fn pieces_come_in_any_order() {
    let dir = tempfile::tempdir().expect("a directory");
    for volume in volumes(&dir, 64 << 20) {
        let mut random = 0x9e37_79b9_7f4a_7c15_u64;
        let mut below = |bound: usize| {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (random >> 33) as usize % bound
        };
        for round in 0..12 {
            let mut model = Vec::new();
            let mut replacement = Replacement::begin(&volume, "/a").expect("begin");
            for step in 0..30 {
                let most = [10, 5000, 1_400_000][below(3)];
                let (at, len) = (below(1_500_000), below(most));
                match below(4) {
                    0 => {
                        replacement.set_len(at as u64).expect("length");
                        model.resize(at, 0);
                    }
                    1 => {
                        let mut read = vec![1; len];
                        let got = replacement.read_at(at as u64, &mut read).expect("read");
                        let from = at.min(model.len());
                        assert!(read[..got] == model[from..(from + len).min(model.len())]);
                    }
                    _ => {
                        // Most writes continue.
                        let at = if below(3) > 0 { model.len() } else { at };
                        let piece = content(len, step);
                        replacement.write_at(at as u64, &piece).expect("write");
                        if len > 0 {
                            model.resize(model.len().max(at + len), 0);
                            model[at..at + len].copy_from_slice(&piece);
                        }
                    }
                }
                assert_eq!(replacement.len().expect("length"), model.len() as u64, "{round}, {step}");
            }
            replacement.finish().expect("finish");
            assert!(volume.read_file("/a").expect("read") == model, "round {round}");
        }
        is_clean(&volume);
    }
}

#[test]
fn small_writes_are_no_transactions() {
    let volume =
        Volume::create_memory(&CreateOptions { size: 64 << 20, ..CreateOptions::default() }).expect("create");
    let changes = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&changes);
    assert!(volume.on_change(move |_, _| {
        count.fetch_add(1, Ordering::Relaxed);
    }));
    for (size, most) in [(MIB, 10), (5 * MIB, 20)] {
        let before = changes.load(Ordering::Relaxed);
        let mut new = Replacement::begin(&volume, "/a").expect("begin");
        content(size, 1).chunks(64).for_each(|piece| new.write_all(piece).expect("write"));
        new.finish().expect("finish");
        let told = changes.load(Ordering::Relaxed) - before;
        assert!((1..=most).contains(&told), "{told} changes for {size} bytes");
    }
}

#[test]
fn a_content_that_is_dropped_leaves_nothing() {
    let dir = tempfile::tempdir().expect("a directory");
    for volume in volumes(&dir, 64 << 20) {
        volume.write_file("/old", b"old").expect("write");
        volume.sync().expect("sync");
        let free = volume.statfs().expect("statfs").free_blocks;
        for size in SIZES {
            for path in ["/old", "/new"] {
                let mut replacement = Replacement::begin(&volume, path).expect("begin");
                replacement.write_all(&content(size, 1)).expect("write");
                drop(replacement);
            }
        }
        assert_eq!(volume.read_file("/old").expect("read"), b"old");
        assert_eq!(volume.resolve("/new").expect_err("absent").code(), Code::NotFound);
        is_clean(&volume);
        volume.sync().expect("sync");
        let leaked = free.saturating_sub(volume.statfs().expect("statfs").free_blocks);
        assert!(leaked < 64, "{leaked} blocks are not free again");
    }
}

#[test]
fn a_full_volume_keeps_the_old_content() {
    let dir = tempfile::tempdir().expect("a directory");
    for volume in volumes(&dir, 16 << 20) {
        let old = content(4 * MIB, 1);
        volume.write_file("/old", &old).expect("write");
        for path in ["/old", "/new"] {
            let mut replacement = Replacement::begin(&volume, path).expect("begin");
            let piece = content(100_000, 2);
            let failed = (0..1000).find_map(|_| replacement.write_all(&piece).err()).expect("it is full");
            assert_eq!(failed.kind(), std::io::ErrorKind::StorageFull);
            // A part of the content never takes the place, whatever room there is then.
            assert!(replacement.write_at(0, b"x").is_err() && replacement.set_len(0).is_err());
            assert_eq!(replacement.finish().expect_err("not whole").code(), Code::NoSpace);
        }
        assert_eq!(volume.read_file("/old").expect("read"), old);
        assert_eq!(volume.resolve("/new").expect_err("absent").code(), Code::NotFound);
        is_clean(&volume);
    }
}

#[test]
fn a_crash_leaves_the_old_content_or_the_new_one() {
    let dir = tempfile::tempdir().expect("a directory");
    let image = dir.path().join("v.lane");
    let volume = on_file(&image, 64 << 20);
    volume.write_file("/a", b"old").expect("write");
    // The volume as a power cut leaves it after a commit.
    let after_a_crash = || {
        volume.sync().expect("sync");
        let copy = Volume::from_bytes(std::fs::read(&image).expect("read")).expect("recovered");
        is_clean(&copy);
        copy.read_file("/a").expect("read")
    };
    let mut before = b"old".to_vec();
    for (number, size) in SIZES.into_iter().enumerate() {
        let new = content(size, number as u8);
        let mut replacement = Replacement::begin(&volume, "/a").expect("begin");
        assert_eq!(after_a_crash(), before);
        replacement.write_all(&new).expect("write");
        assert_eq!(after_a_crash(), before);
        replacement.finish().expect("finish");
        assert_eq!(after_a_crash(), new);
        before = new;
    }
}

#[test]
fn a_file_that_must_be_new_is_new_at_the_end_too() {
    let dir = tempfile::tempdir().expect("a directory");
    for volume in volumes(&dir, 64 << 20) {
        volume.write_file("/there", b"1").expect("write");
        volume.symlink("nowhere", "/link").expect("symlink");
        volume.create_dir("/dir").expect("mkdir");
        for (path, code) in [
            ("/there", Code::Exists),
            ("/link", Code::Exists),
            ("/dir", Code::Exists),
            ("/no/a", Code::ComponentNotFound),
        ] {
            assert_eq!(Replacement::begin_new(&volume, path).expect_err(path).code(), code, "{path}");
        }
        assert_eq!(Replacement::begin(&volume, "/dir").expect_err("a directory").code(), Code::IsDirectory);
        for size in [10, 3 * MIB] {
            let path = format!("/{size}");
            let [first, second] = [1, 2].map(|number| {
                let mut new = Replacement::begin_new(&volume, &path).expect("absent");
                new.write_all(&content(size, number)).expect("write");
                new
            });
            first.finish().expect("made");
            assert_eq!(second.finish().expect_err("there now").code(), Code::Exists);
            assert_eq!(volume.read_file(&path).expect("read"), content(size, 1));
        }
        is_clean(&volume);
    }
}

#[test]
fn attributes_stay_and_links_are_followed() {
    let dir = tempfile::tempdir().expect("a directory");
    for volume in volumes(&dir, 64 << 20) {
        let first = volume.write_file("/old", b"old").expect("write");
        let set = SetAttr { perm: Some(0o4711), uid: Some(7), gid: Some(8), ..SetAttr::default() };
        volume.set_attributes("/old", &set).expect("set");
        volume.set_xattr("/old", "user.x", "y").expect("set");
        volume.symlink("old", "/link").expect("symlink");
        for (size, keeps_inode) in [(MIB, true), (MIB + 1, false)] {
            let mut new = Replacement::begin(&volume, "/link").expect("begin");
            new.write_all(&content(size, 3)).expect("write");
            let attr = new.finish().expect("finish");
            assert_eq!((attr.perm, attr.uid, attr.gid), (0o4711, 7, 8));
            assert_eq!(attr.ino == first.ino, keeps_inode);
            assert_eq!(volume.xattr("/old", "user.x").expect("there"), b"y");
            assert_eq!(volume.resolve_no_follow("/link").expect("there").kind, FileKind::Symlink);
        }
        is_clean(&volume);
    }
}

#[test]
fn readers_and_writers_of_one_path_see_whole_contents_only() {
    let dir = tempfile::tempdir().expect("a directory");
    for volume in volumes(&dir, 64 << 20) {
        let (volume, is_over) = (&volume, &AtomicBool::new(false));
        std::thread::scope(|scope| {
            let reader = scope.spawn(move || {
                while !is_over.load(Ordering::Relaxed) {
                    match volume.read_file("/a") {
                        Ok(whole) => {
                            let number = whole.first().copied().expect("an empty file");
                            assert!(whole == vec![number; SIZES[usize::from(number)]]);
                        }
                        Err(error) => assert_eq!(error.code(), Code::NotFound, "{error}"),
                    }
                }
            });
            let writers = [1, 2].map(|first| {
                scope.spawn(move || {
                    for i in 0..30 {
                        let number = 1 + (first + i) % (SIZES.len() - 1);
                        let mut new = Replacement::begin(volume, "/a").expect("begin");
                        for piece in vec![number as u8; SIZES[number]].chunks(300_000) {
                            new.write_all(piece).expect("write");
                        }
                        new.finish().expect("finish");
                        if i % 7 == 0 {
                            // The other writer may have removed it.
                            let removed = volume.remove_file("/a");
                            assert!(removed.map_or_else(|e| e.code() == Code::NotFound, |()| true));
                        }
                    }
                })
            });
            writers.into_iter().for_each(|writer| writer.join().expect("a writer"));
            is_over.store(true, Ordering::Relaxed);
            reader.join().expect("the reader");
        });
        is_clean(volume);
    }
}
