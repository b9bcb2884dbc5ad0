//! Searches: the kernel and its twin, the device and a walk by the CPU engine.

use crate::support::{CALLER, cached, fill, gpu, options, uncached};
use lanefs::{Access, FileKind, Ino, InodeSize, RenameMode, SetAttr, Time, Volume};
use lanefs_gpu::twin::host::HostCopy;
use lanefs_gpu::twin::kernels::find::{Unit, find};
use lanefs_gpu::{Filter, Gpu, Match, MirrorOptions, Mirrored};
use lanefs_testkit::mutate::{bases, hostile};
use lanefs_testkit::seeded::Seeded;
use std::collections::BTreeSet;
use std::ops::RangeInclusive;

/// Patterns of names, with a matcher of their own: for `?` and `*`, and for `[` a set.
const PATTERNS: [&str; 10] =
    ["*", "dir-*", "*7*a", "1?-*", "*[b-d]", "*-", "[!1-8]*", "0-a", "*x*", "?-????*"];

fn matches(pattern: &[u8], name: &[u8]) -> bool {
    match (pattern.split_first(), name.split_first()) {
        (None, None) => true,
        (Some((b'*', rest)), _) => (0..=name.len()).any(|skip| matches(rest, &name[skip..])),
        (Some((b'?', rest)), Some((_, others))) => matches(rest, others),
        (Some((b'[', rest)), Some((byte, others))) => {
            let end = rest.iter().position(|byte| *byte == b']').expect("closed");
            let (set, is_not) =
                rest[..end].strip_prefix(b"!").map_or((&rest[..end], false), |set| (set, true));
            (set[0]..=set[2]).contains(byte) != is_not && matches(&rest[end + 1..], others)
        }
        (Some((one, rest)), Some((byte, others))) => one == byte && matches(rest, others),
        _ => false,
    }
}

/// A filter, and its pattern.
fn filter(numbers: &mut Seeded) -> (Filter, Option<&'static str>) {
    let mut filter = Filter::default();
    let pattern = (numbers.below(4) != 0).then(|| *numbers.pick(&PATTERNS));
    assert!(pattern.is_none_or(|pattern| filter.names.and(pattern, false)));
    if numbers.below(3) == 0 {
        filter.kinds.push(*numbers.pick(&[FileKind::File, FileKind::Directory, FileKind::Symlink]));
    }
    if numbers.below(3) == 0 {
        let one = numbers.below(30);
        filter.size = numbers.pick(&[0..=one, one..=u64::MAX, one..=one, 4096..=4096]).clone();
    }
    if numbers.below(3) == 0 {
        let one = numbers.below(2000) as i64 - 1000;
        filter.mtime = numbers
            .pick(&[i64::MIN..=one, one..=i64::MAX, one..=one + 500, RangeInclusive::new(1000, -1000)])
            .clone();
    }
    (filter, pattern)
}

/// Paths and entries that the CPU engine finds below a directory, by walking.
fn walk(
    volume: &Volume,
    filter: &Filter,
    pattern: Option<&str>,
    start: Ino,
    path: &[u8],
) -> Vec<(Vec<u8>, Match)> {
    let mut found = Vec::new();
    let mut cookie = 0;
    loop {
        let page = volume.readdir(&CALLER, start, cookie, 100).expect("listed");
        let Some(last) = page.last() else { return found };
        cookie = last.cookie;
        for entry in page {
            let path = [path, b"/", &entry.name].concat();
            let attr = volume.getattr(entry.ino).expect("attributes");
            if pattern.is_none_or(|pattern| matches(pattern.as_bytes(), &entry.name))
                && (filter.kinds.is_empty() || filter.kinds.contains(&entry.kind))
                && filter.size.contains(&attr.size)
                && filter.mtime.contains(&attr.mtime.0)
            {
                let (ino, kind, cookie, name) = (entry.ino, entry.kind, entry.cookie, entry.name);
                found.push((path.clone(), Match { dir: start, ino, kind, cookie, name }));
            }
            if entry.kind == FileKind::Directory {
                found.extend(walk(volume, filter, pattern, entry.ino, &path));
            }
        }
    }
}

/// Checks that both engines find the same, with the same paths in the same order; returns how many leaf
/// blocks the host searched.
fn compare(mirrored: &Mirrored<'_>, volume: &Volume, count: usize, numbers: &mut Seeded) -> u64 {
    let mut by_host = 0;
    for _ in 0..count {
        let (filter, pattern) = filter(numbers);
        let expected = walk(volume, &filter, pattern, volume.root(), b"");
        let mut below = Vec::new();
        let each = &mut |found: lanefs_gpu::Below<'_>| {
            assert_eq!(found.depth, found.path.iter().filter(|byte| **byte == b'/').count());
            below.push((found.path.to_vec(), found.entry.clone()));
            true
        };
        let report = mirrored.find_below(&filter, volume.root(), b"/", None, each).expect("found");
        assert_eq!(below, expected, "{pattern:?}, {filter:?}");
        let mut entries: Vec<Match> = expected.into_iter().map(|(_, entry)| entry).collect();
        entries.sort_by_key(|entry| (entry.dir, entry.cookie));
        assert_eq!(mirrored.find(&filter).expect("found").0, entries, "{pattern:?}, {filter:?}");
        by_host += report.by_host;
    }
    by_host
}

/// Sizes and times to ask for.
fn spread(volume: &Volume, paths: &[Vec<u8>], numbers: &mut Seeded) {
    for (i, path) in paths.iter().enumerate() {
        let Ok(attr) = volume.resolve_no_follow(path) else { continue };
        if attr.kind == FileKind::File && i % 3 == 0 {
            volume.write_file(path, vec![b'x'; numbers.below(40) as usize]).expect("written");
        }
        let mtime = Some(Time(numbers.below(3000) as i64 - 1500));
        volume.setattr(&CALLER, attr.ino, &SetAttr { mtime, ..SetAttr::default() }).expect("set");
    }
}

#[test]
fn what_is_found_is_what_a_walk_finds_after_changes_too() {
    let gpu = gpu(64);
    for (seed, size) in [(1, InodeSize::B128), (2, InodeSize::B256)] {
        let numbers = &mut Seeded::new(seed);
        let volume = Volume::create_memory(&options(size)).expect("volume");
        let paths = fill(&volume, numbers);
        spread(&volume, &paths, numbers);
        let mirrored = gpu.mirror(&volume, &cached()).expect("mirror");
        assert_eq!(compare(&mirrored, &volume, 25, numbers), 0);
        // An inode without a name that is held is not found.
        let held = paths
            .iter()
            .rfind(|path| volume.resolve_no_follow(path).is_ok_and(|attr| attr.kind == FileKind::File));
        let held = volume.resolve_no_follow(held.expect("a file")).expect("there").ino;
        volume.hold(held).expect("held");
        for round in 0..8 {
            for _ in 0..150 {
                let path = numbers.pick(&paths);
                let Ok((dir, name)) = volume.resolve_parent(path) else { continue };
                let _ = match numbers.below(4) {
                    0 => volume.unlink(&CALLER, dir, name),
                    1 => volume.remove_all_with(&CALLER, dir, name, |_, done| done),
                    2 => volume.rename_at(&CALLER, dir, name, volume.root(), name, RenameMode::Replace),
                    _ => volume.create_file(&CALLER, dir, format!("new {round}").as_bytes(), 0o644).map(drop),
                };
            }
            assert_eq!(compare(&mirrored, &volume, 4, numbers), 0);
        }
        assert_eq!(mirrored.failure(), None);
        volume.release(held, 1).expect("released");
    }
}

#[test]
fn an_inode_without_a_name_is_not_found() {
    let gpu = gpu(64);
    let volume = Volume::create_memory(&options(InodeSize::B256)).expect("volume");
    let made = volume.create_unnamed(&CALLER, volume.root(), 0o600).expect("made").ino;
    let named = volume.create_file(&CALLER, volume.root(), b"named", 0o600).expect("made").ino;
    for room in [None, Some(0)] {
        let mirrored = gpu.mirror(&volume, &MirrorOptions { room, ..uncached() }).expect("mirror");
        let (found, _) = mirrored.find(&Filter::default()).expect("found");
        assert_eq!(found.iter().map(|entry| entry.ino).collect::<Vec<_>>(), [named], "{made:?}");
    }
    volume.release(made, 1).expect("released");
}

#[test]
fn below_a_directory_only_what_is_there_is_found_and_as_deep_as_wanted() {
    let gpu = gpu(64);
    let volume = Volume::create_memory(&options(InodeSize::B256)).expect("volume");
    volume.mkdir_all("/a/b/c", 0o755).expect("mkdir");
    let a = volume.mkdir_all("/a", 0o755).expect("there").ino;
    for path in ["/a/x", "/a/b/x", "/a/b/c/x", "/x"] {
        volume.write_file(path, b"").expect("written");
    }
    let mirrored = gpu.mirror(&volume, &uncached()).expect("mirror");
    let found = |max, stop: usize| {
        let mut paths = Vec::new();
        let mut filter = Filter::default();
        assert!(filter.names.and("x", false));
        let each = &mut |below: lanefs_gpu::Below<'_>| {
            paths.push(String::from_utf8_lossy(below.path).into_owned());
            paths.len() < stop
        };
        mirrored.find_below(&filter, a, b"here", max, each).expect("found");
        paths
    };
    let all = BTreeSet::from(["here/x", "here/b/x", "here/b/c/x"].map(String::from));
    assert_eq!(found(None, 9).into_iter().collect::<BTreeSet<_>>(), all);
    assert_eq!(found(Some(1), 9), ["here/x"]);
    assert_eq!(found(None, 2).len(), 2);
}

#[test]
fn what_is_not_on_the_device_the_host_looks_at() {
    let gpu = gpu(64);
    let dir = tempfile::tempdir().expect("a directory for temporary files");
    let image = dir.path().join("volume.lane");
    let numbers = &mut Seeded::new(4);
    let volume = Volume::create(&image, &options(InodeSize::B256)).expect("volume");
    let paths = fill(&volume, numbers);
    spread(&volume, &paths, numbers);
    let by_host = [0, 2 << 20, 48 << 20].map(|room| {
        let mirrored = gpu.mirror(&volume, &MirrorOptions { room: Some(room), ..cached() }).expect("mirror");
        compare(&mirrored, &volume, 6, numbers)
    });
    assert!(by_host[0] > 0 && by_host[0] >= by_host[1] && by_host[2] == 0, "{by_host:?}");
    volume.close().expect("close");
    let volume = Volume::open(&image, Access::Read).expect("open");
    let mirrored = gpu.mirror(&volume, &cached()).expect("mirror");
    let (filter, _) = filter(numbers);
    assert!(mirrored.find(&filter).expect("found").1.by_host > 0, "all is in memory");
    // The blocks that the host searched are resident now, so the device has them.
    assert_eq!(compare(&mirrored, &volume, 6, numbers), 0);
}

#[test]
fn more_than_there_is_room_for_is_found_as_well() {
    let gpu = gpu(64);
    let volume =
        Volume::create_memory(&lanefs::CreateOptions { size: 128 << 20, ..options(InodeSize::B128) });
    let volume = volume.expect("volume");
    let dir = volume.mkdir_all("/many", 0o755).expect("mkdir").ino;
    // 18 units each, so more than the first room.
    for number in 0..16_000 {
        volume.create_file(&CALLER, dir, format!("{number:0255}").as_bytes(), 0o644).expect("file");
    }
    let mirrored = gpu.mirror(&volume, &uncached()).expect("mirror");
    assert_eq!(compare(&mirrored, &volume, 3, &mut Seeded::new(5)), 0);
    let (found, report) = mirrored.find(&Filter::default()).expect("found");
    assert_eq!((found.len(), report.by_host), (16_001, 0));
}

/// The records of each leaf block are next to one another; the blocks are in any order.
fn compare_with_twin(gpu: &Gpu, volume: &Volume, numbers: &mut Seeded, what: &str) -> usize {
    let memory = HostCopy::of(volume).expect("copied");
    let mirrored = gpu.mirror(volume, &uncached()).expect("mirror");
    let mut count = 0;
    for round in 0..6 {
        let (filter, _) = filter(numbers);
        let search = mirrored.search_of(&filter, round % 2 == 0);
        // Once all blocks, whatever they are.
        let all: Vec<u64> = memory.blocks().take(3000).map(|at| at + u64::from(round == 1) * 64).collect();
        let (records, leaves) =
            mirrored.records_of(&search, (round < 2).then_some(&all)).expect("the device");
        let twin = find(&memory, &search, &leaves);
        let wanted: BTreeSet<&[Unit]> =
            twin.iter().map(Vec::as_slice).filter(|units| !units.is_empty()).collect();
        assert_eq!(twin.iter().map(Vec::len).sum::<usize>(), records.len(), "{what}, {round}");
        // The records of each block are those of one block of the twin: cut where one of them fits.
        let mut left = &records[..];
        let mut seen = BTreeSet::new();
        while !left.is_empty() {
            let fits = wanted.iter().find(|units| left.starts_with(units));
            let fits = fits.unwrap_or_else(|| panic!("{what}, {round}: not what the twin gives"));
            seen.insert(*fits);
            left = &left[fits.len()..];
        }
        assert_eq!(seen, wanted, "{what}, {round}");
        count += records.len();
    }
    // A search ends on any image.
    let _ = mirrored.find_below(&Filter::default(), volume.root(), b"/", None, &mut |_| true);
    count
}

#[test]
fn the_kernel_is_equal_to_its_twin() {
    let gpu = gpu(32);
    for (seed, size) in [(1, InodeSize::B128), (2, InodeSize::B256)] {
        let numbers = &mut Seeded::new(seed);
        let volume = Volume::create_memory(&options(size)).expect("volume");
        let paths = fill(&volume, numbers);
        spread(&volume, &paths, numbers);
        assert!(compare_with_twin(&gpu, &volume, numbers, "sound") > 100);
    }
    let bases = bases().expect("sound volumes can be made");
    let mut opened = 0;
    for seed in 0..120 {
        let base = &bases[seed as usize % bases.len()];
        let Ok(volume) = Volume::from_bytes(hostile(base, seed)) else { continue };
        let _ = volume.load_metadata(&|_, _| true);
        compare_with_twin(&gpu, &volume, &mut Seeded::new(seed), &format!("{} {seed}", base.name));
        opened += 1;
    }
    assert!(opened > 50, "only {opened} images could be opened");
}
