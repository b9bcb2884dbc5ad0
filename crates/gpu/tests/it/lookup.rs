//! The device's answers are the CPU engine's, in every setting.

use crate::support::{CALLER, by_names, cached, fill, gpu, is_own_memory, options, questions};
use lanefs::{Access, Caller, Code, Engine, EngineExt, InodeSize, ResolveOptions, SetAttr, Volume};
use lanefs_gpu::{Choice, Error, Gpu, MirrorOptions, Mirrored};
use lanefs_testkit::seeded::Seeded;

/// Compares both engines over all options; returns how many paths the device answered.
fn compare(mirrored: &Mirrored<'_>, volume: &Volume, asked: &[Vec<u8>]) -> u64 {
    let below = volume.resolve("/dir-0").expect("a directory").ino;
    let user = Caller::user(1000, 1000, &[]);
    let (mut by_device, mut names_by_device) = (0, 0);
    mirrored.prefer_names();
    for (follow, attributes, base, caller) in [
        (true, false, None, CALLER),
        (false, true, None, CALLER),
        (true, true, Some(below), CALLER),
        (true, true, None, user.clone()),
    ] {
        let options = ResolveOptions { follow, attributes, base, caller };
        // The device first: the CPU engine fetches blocks that are not in memory.
        let (found, report) = mirrored.resolve_batch(&options, asked).expect("the device");
        let expected = volume.resolve_batch(&options, asked).expect("the CPU engine");
        for ((path, found), expected) in asked.iter().zip(&found).zip(&expected) {
            assert_eq!(found, expected, "{} with {options:?}", path.escape_ascii());
        }
        assert_eq!(report.by_device + report.by_host, asked.len() as u64);
        by_device += report.by_device;
        for engine in [mirrored as &dyn Engine, volume] {
            let (found, report) = by_names(engine, &options, asked).expect("answers");
            for ((path, found), expected) in asked.iter().zip(&found).zip(&expected) {
                assert_eq!(found, expected, "the name of {} with {options:?}", path.escape_ascii());
            }
            assert_eq!(report.by_device + report.by_host, asked.len() as u64);
            names_by_device += report.by_device;
        }
    }
    let is_used = by_device < 1000 || names_by_device * 4 >= by_device;
    assert!(is_used, "{names_by_device} names and {by_device} paths by the device");
    by_device
}

#[test]
fn every_setting_gives_the_answers_of_the_cpu_engine() {
    // Over copies there is one device.
    let settings = [(1, 32), (2, 64), (3, 256)];
    for (seed, workgroup) in settings.into_iter().filter(|(_, size)| !is_own_memory() || *size == 64) {
        let gpu = gpu(workgroup);
        for size in [InodeSize::B128, InodeSize::B256] {
            let numbers = &mut Seeded::new(seed);
            let volume = Volume::create_memory(&options(size)).expect("volume");
            let paths = fill(&volume, numbers);
            // From one workgroup to some hundred.
            for count in [1, 40, 20_000] {
                let asked = questions(&paths, count, numbers);
                let mirrored = gpu.mirror(&volume, &cached()).expect("mirror");
                let by_device = compare(&mirrored, &volume, &asked);
                assert!(count < 1000 || by_device as usize > count, "the device answers next to nothing");
            }
        }
    }
}

#[test]
fn a_volume_in_a_file_is_answered_also_where_not_all_of_it_is_in_memory() {
    let gpu = gpu(64);
    let dir = tempfile::tempdir().expect("a directory for temporary files");
    let image = dir.path().join("volume.lane");
    let numbers = &mut Seeded::new(4);
    let volume = Volume::create(&image, &options(InodeSize::B256)).expect("volume");
    let paths = fill(&volume, numbers);
    volume.close().expect("close");
    let volume = Volume::open(&image, Access::Read).expect("open");
    let asked = questions(&paths, 3000, numbers);
    // No block is resident; the blocks that the host fetches are on the device the next time.
    let mirrored = gpu.mirror(&volume, &cached()).expect("mirror");
    let first = compare(&mirrored, &volume, &asked);
    let second = compare(&mirrored, &volume, &asked);
    assert!(first < second, "{first} paths answered at first, {second} later");
    assert!(volume.load_metadata(&|_, _| true).expect("loaded") > 100);
    assert!(compare(&mirrored, &volume, &asked) >= second);
}

#[test]
fn what_changes_between_batches_is_seen() {
    let gpu = gpu(64);
    let numbers = &mut Seeded::new(5);
    let volume = Volume::create_memory(&options(InodeSize::B256)).expect("volume");
    let mut paths = fill(&volume, numbers);
    let mirrored = gpu.mirror(&volume, &cached()).expect("mirror");
    for round in 0..30 {
        for _ in 0..100 {
            let path = numbers.pick(&paths).clone();
            let text = String::from_utf8(path.clone()).expect("plain names");
            match numbers.below(4) {
                0 => drop(volume.remove_all_with(&CALLER, volume.root(), &path[1..], |_, done| done)),
                1 => {
                    let new = format!("{text}-{round}").into_bytes();
                    if let Ok(dir) = volume.resolve(&text[..text.rfind('/').expect("absolute")]) {
                        let name = |path: &[u8]| path[text.rfind('/').expect("absolute") + 1..].to_vec();
                        let mode = lanefs::RenameMode::Replace;
                        drop(volume.rename_at(&CALLER, dir.ino, &name(&path), dir.ino, &name(&new), mode));
                        paths.push(new);
                    }
                }
                2 => drop(volume.write_file(&text, b"content")),
                _ => {
                    if let Ok(found) = volume.resolve(&text) {
                        let set = SetAttr { uid: Some(round), ..SetAttr::default() };
                        volume.setattr(&CALLER, found.ino, &set).expect("setattr");
                    }
                }
            }
        }
        if volume.resolve("/dir-0").is_err() {
            volume.mkdir_all("/dir-0", 0o755).expect("mkdir");
        }
        compare(&mirrored, &volume, &questions(&paths, 500, numbers));
    }
}

/// An access control list: owner rwx, user 1000 `user`, group r-x, mask rwx, others `others`.
fn list(user: u8, others: u8) -> [u8; 44] {
    [
        2, 0, 0, 0, //
        1, 0, 7, 0, 0xff, 0xff, 0xff, 0xff, //
        2, 0, user, 0, 0xe8, 3, 0, 0, //
        4, 0, 5, 0, 0xff, 0xff, 0xff, 0xff, //
        16, 0, 7, 0, 0xff, 0xff, 0xff, 0xff, //
        32, 0, others, 0, 0xff, 0xff, 0xff, 0xff,
    ]
}

#[test]
fn directories_with_access_control_lists_are_left_to_the_host() {
    let gpu = gpu(64);
    let name = b"system.posix_acl_access";
    for size in [InodeSize::B128, InodeSize::B256] {
        let numbers = &mut Seeded::new(7);
        let volume = Volume::create_memory(&options(size)).expect("volume");
        let paths = fill(&volume, numbers);
        let asked = questions(&paths, 3000, numbers);
        let mirrored = gpu.mirror(&volume, &cached()).expect("mirror");
        let user = ResolveOptions { caller: Caller::user(1000, 1000, &[]), ..ResolveOptions::default() };
        let before = mirrored.resolve_batch(&user, &asked).expect("the device").0;
        compare(&mirrored, &volume, &asked);
        for (number, permissions) in [(0, (0, 7)), (1, (1, 0)), (5, (0, 7)), (11, (7, 0)), (12, (0, 1))] {
            let dir = format!("/dir-{number}").into_bytes();
            let Some(path) = paths.iter().find(|path| path.ends_with(&dir)) else { continue };
            let dir = volume.resolve(path).expect("a directory").ino;
            let list = list(permissions.0, permissions.1);
            volume.setxattr(&CALLER, dir, name, &list, lanefs::XattrMode::Set).expect("a list");
        }
        compare(&mirrored, &volume, &asked);
        let (after, report) = mirrored.resolve_batch(&user, &asked).expect("the device");
        assert_ne!(before, after, "the lists deny something");
        assert!(report.by_host > 0 && report.by_device > 0, "{report:?}");
        let root = ResolveOptions { caller: Caller::user(0, 0, &[]), ..ResolveOptions::default() };
        let expected = volume.resolve_batch(&root, &asked).expect("the CPU engine");
        assert_eq!(mirrored.resolve_batch(&root, &asked).expect("the device").0, expected);
    }
}

#[test]
fn a_mirror_without_room_leaves_the_rest_to_the_host() {
    let gpu = gpu(64);
    let numbers = &mut Seeded::new(6);
    let volume = Volume::create_memory(&options(InodeSize::B256)).expect("volume");
    let paths = fill(&volume, numbers);
    let asked = questions(&paths, 2000, numbers);
    let all = compare(&gpu.mirror(&volume, &cached()).expect("mirror"), &volume, &asked);
    let some = compare(
        &gpu.mirror(&volume, &MirrorOptions { room: Some(2 << 20), ..cached() }).expect("mirror"),
        &volume,
        &asked,
    );
    let none = compare(
        &gpu.mirror(&volume, &MirrorOptions { room: Some(0), ..cached() }).expect("mirror"),
        &volume,
        &asked,
    );
    assert!(all >= some && some >= none, "{all}, {some}, {none}");
}

#[test]
fn one_engine_mirrors_a_volume_at_a_time_and_two_devices_can_be_open() {
    let (one, other) = (gpu(32), gpu(64));
    let volume = Volume::create_memory(&options(InodeSize::B256)).expect("volume");
    volume.mkdir_all("/dir-0", 0o755).expect("mkdir");
    let mirrored = one.mirror(&volume, &cached()).expect("mirror");
    let refused = other.mirror(&volume, &cached()).map(drop).expect_err("the volume has a mirror");
    assert!(matches!(refused, Error::Busy), "{refused}");
    assert_eq!(lanefs::Error::from(refused).code(), Code::Busy);
    drop(mirrored);
    compare(&other.mirror(&volume, &cached()).expect("mirror"), &volume, &[b"/dir-0".to_vec()]);
}

#[test]
fn a_device_that_is_not_there_is_named() {
    match Gpu::open(&Choice::Name("no such device".into())) {
        Err(Error::NoSuchDevice { asked, present }) => {
            assert!(asked == "no such device" && present.starts_with("0: "), "{present}");
        }
        other => panic!("{:?}", other.map(|gpu| gpu.info().clone())),
    }
}
