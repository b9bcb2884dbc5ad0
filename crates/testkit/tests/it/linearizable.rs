//! Calls of many threads at once: some order of the calls must explain all replies.
//!
//! `LANEFS_HISTORIES` (or `LANEFS_SECONDS`) and `LANEFS_SEED` set the number of histories and the first seed.
//! A seed determines the calls; the machine determines how they interleave, so a failure may need many runs
//! to show again.

use lanefs::{Access, Caller, Ino, InodeSize, MemoryDevice, RenameMode, SetAttr, Volume};
use lanefs_testkit::faulty::{Faults, FaultyDevice};
use lanefs_testkit::history::{
    Call, Crowd, Event, HistoryShape, NAMES, OnModel, OnVolume, Planted, PlantedBug, Reply, SpecState,
    Target, Waves, record, search, table,
};
use lanefs_testkit::model::{Model, ROOT};
use lanefs_testkit::settings::Seeds;
use lanefs_testkit::volume::options;
use lanefs_testkit::watchdog::Watchdog;
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

const COUNT: &str = "LANEFS_HISTORIES";
const VOLUME_BYTES: u64 = 24 << 20;

/// Few names, one directory that can be listed.
const SMALL: HistoryShape =
    HistoryShape { threads: 3, rounds: 2, calls: 4, before: 3, names: 3, list_base: true, syncs: 0 };

/// Shapes for one volume, one after another.
fn shapes(syncs: u64) -> [HistoryShape; 5] {
    [
        HistoryShape { syncs, ..SMALL },
        HistoryShape { threads: 2, rounds: 4, calls: 3, names: 2, syncs, ..SMALL },
        HistoryShape { threads: 4, rounds: 2, calls: 3, names: 4, before: 4, syncs, ..SMALL },
        HistoryShape { threads: 2, rounds: 1, calls: 9, names: 3, syncs, ..SMALL },
        HistoryShape { threads: 4, rounds: 5, calls: 1, names: 2, syncs, ..SMALL },
    ]
}

/// Executes a history in `base` and searches for an order. The error is the history as a table.
fn history(target: &dyn Target, base: u64, seed: u64, shape: &HistoryShape) -> Result<Vec<Event>, String> {
    let events = record(target, base, seed, shape);
    match search(&SpecState::new(base), &events) {
        Ok(_) => Ok(events),
        Err(order) => Err(format!(
            "seed {seed}, {shape:?}: no order of these calls gives these answers; the longest that comes near has {} of {}\n{}",
            order.len(),
            events.len(),
            table(&events, &order)
        )),
    }
}

/// The specification's directories begin with its own permissions.
fn reset(volume: &Volume, base: Ino) {
    let set = SetAttr { perm: Some(0o640), ..SetAttr::default() };
    volume.setattr(&Caller::OWNER, base, &set).expect("permissions of the base directory");
}

/// Executes a history in a fresh directory of a volume and removes the directory: the next histories reuse
/// its inodes.
fn on_volume(
    volume: &Volume,
    target: &dyn Target,
    seed: u64,
    shape: &HistoryShape,
) -> Result<Vec<Event>, String> {
    let base = volume.mkdir_all("/base", 0o755).expect("a base directory").ino;
    reset(volume, base);
    let events = history(target, base.0, seed, shape)?;
    volume
        .remove_all_with(&Caller::OWNER, volume.root(), b"base", |_, done| done)
        .expect("the base directory goes");
    Ok(events)
}

fn no_findings(volume: &Volume) {
    let report = volume.check(false, &|_, _| {}).expect("check");
    assert!(report.findings.is_empty(), "fsck: {:?}", report.findings);
}

/// Counts the neighbours in time that overlap: the calls must really meet.
fn overlaps(events: &[Event]) -> usize {
    let mut sorted: Vec<&Event> = events.iter().collect();
    sorted.sort_by_key(|event| event.began);
    sorted.windows(2).filter(|pair| pair[1].began < pair[0].ended).count()
}

#[test]
fn the_specification_agrees_with_the_model() {
    for seed in 0..1200 {
        let target = OnModel(Mutex::new(Model::new(0o640, 0, 0)));
        // One thread: each history has one order, so the replies must be equal.
        let shape = HistoryShape { threads: 1, rounds: 1, calls: 60, before: 4, ..SMALL };
        history(&target, ROOT, seed, &shape).unwrap_or_else(|what| panic!("{what}"));
        let shape = HistoryShape { calls: 12, threads: 2, ..shape };
        let target = OnModel(Mutex::new(Model::new(0o640, 0, 0)));
        history(&target, ROOT, seed, &shape).unwrap_or_else(|what| panic!("{what}"));
    }
}

#[test]
fn histories_on_a_volume_in_memory_have_an_order() {
    let watchdog = Watchdog::new("memory");
    let volume = Volume::create_memory(&options(VOLUME_BYTES, InodeSize::B256)).expect("volume");
    let mut overlapping = 0;
    for seed in Seeds::from_environment(COUNT, 1, 7000) {
        watchdog.at(|| format!("memory, seed {seed}"));
        let shape = shapes(0)[(seed % 5) as usize];
        match on_volume(&volume, &OnVolume(&volume), seed, &shape) {
            Ok(events) => overlapping += overlaps(&events),
            Err(what) => panic!("{what}"),
        }
    }
    assert!(overlapping > 0, "no two calls ever overlapped");
    no_findings(&volume);
}

#[test]
fn histories_of_more_threads_than_cores_have_an_order() {
    let watchdog = Watchdog::new("16 threads");
    let volume = Volume::create_memory(&options(VOLUME_BYTES, InodeSize::B128)).expect("volume");
    for seed in Seeds::from_environment(COUNT, 1, 1000) {
        watchdog.at(|| format!("16 threads, seed {seed}"));
        let shape = HistoryShape {
            threads: 16,
            rounds: 1 + seed as usize % 3,
            calls: 1,
            names: 4,
            before: 4,
            ..SMALL
        };
        on_volume(&volume, &OnVolume(&volume), seed, &shape).unwrap_or_else(|what| panic!("{what}"));
    }
    no_findings(&volume);
}

#[test]
fn histories_on_a_volume_in_a_file_have_an_order() {
    let watchdog = Watchdog::new("file");
    let dir = tempfile::tempdir().expect("a directory for temporary files");
    let image = dir.path().join("volume.lane");
    let mut volume = Volume::create(&image, &options(VOLUME_BYTES, InodeSize::B256)).expect("volume");
    for (number, seed) in Seeds::from_environment(COUNT, 1, 2000).enumerate() {
        watchdog.at(|| format!("file, seed {seed}"));
        if number % 20 == 19 {
            // Nothing is resident afterwards.
            volume.close().expect("close");
            volume = Volume::open(&image, Access::Write).expect("open");
        }
        let shape = shapes(4)[(seed % 5) as usize];
        on_volume(&volume, &OnVolume(&volume), seed, &shape).unwrap_or_else(|what| panic!("{what}"));
    }
    no_findings(&volume);
}

#[test]
fn histories_on_a_device_that_lets_others_go_first_have_an_order() {
    let watchdog = Watchdog::new("yielding device");
    let dir = tempfile::tempdir().expect("a directory for temporary files");
    let image = dir.path().join("volume.lane");
    Volume::create(&image, &options(8 << 20, InodeSize::B256)).and_then(Volume::close).expect("volume");
    let below = Arc::new(MemoryDevice::new(std::fs::read(&image).expect("image")));
    let faults = Faults::new();
    faults.yield_at_each();
    let open = || {
        let device = FaultyDevice::new(below.clone(), &faults);
        Volume::open_device(Box::new(device), Access::Write).expect("open")
    };
    let mut volume = open();
    for seed in Seeds::from_environment(COUNT, 1, 1500) {
        watchdog.at(|| format!("yielding device, seed {seed}"));
        volume.close().expect("close");
        volume = open();
        let shape = shapes(10)[(seed % 5) as usize];
        on_volume(&volume, &OnVolume(&volume), seed, &shape).unwrap_or_else(|what| panic!("{what}"));
    }
    no_findings(&volume);
}

/// Adds and removes hundreds of other names in the history's directory, so that regions split and merge
/// around the history's names. They are links to one file, so that they never reuse an inode of the history.
fn churn(volume: &Volume, base: Ino, file: Ino, done: &AtomicBool) {
    while !done.load(Ordering::Relaxed) {
        for number in 0..400 {
            let name = format!("others-{number}");
            volume.link(&Caller::OWNER, file, base, name.as_bytes()).expect("link");
        }
        for number in 0..400 {
            let name = format!("others-{number}");
            volume.unlink(&Caller::OWNER, base, name.as_bytes()).expect("unlink");
        }
    }
}

#[test]
fn histories_in_a_directory_that_splits_and_merges_have_an_order() {
    let watchdog = Watchdog::new("crowded");
    let volume = Volume::create_memory(&options(VOLUME_BYTES, InodeSize::B256)).expect("volume");
    let file = volume.write_file("/file", b"").expect("file").ino;
    let base = volume.mkdir_all("/base", 0o640).expect("base").ino;
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| churn(&volume, base, file, &done));
        let tried = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            for seed in Seeds::from_environment(COUNT, 1, 600) {
                watchdog.at(|| format!("crowded, seed {seed}"));
                let shape = HistoryShape { list_base: false, ..shapes(0)[(seed % 5) as usize] };
                let target = OnVolume(&volume);
                reset(&volume, base);
                history(&target, base.0, seed, &shape).unwrap_or_else(|what| panic!("{what}"));
                for name in NAMES {
                    let _ = volume.remove_all_with(&Caller::OWNER, base, name.as_bytes(), |_, done| done);
                }
            }
        }));
        done.store(true, Ordering::Relaxed);
        if let Err(panic) = tried {
            std::panic::resume_unwind(panic);
        }
    });
    no_findings(&volume);
}

#[test]
fn every_planted_fault_is_found() {
    let watchdog = Watchdog::new("planted faults");
    for bug in PlantedBug::ALL {
        watchdog.at(|| format!("{bug:?}"));
        let volume = Volume::create_memory(&options(VOLUME_BYTES, InodeSize::B256)).expect("volume");
        let planted = Planted::new(&volume, bug).expect("planted");
        let found = (0..20_000)
            .any(|seed| on_volume(&volume, &planted, seed, &shapes(0)[(seed % 5) as usize]).is_err());
        assert!(found, "{bug:?} is not found");
    }
}

#[test]
fn a_failure_is_told_as_a_table_with_its_seed() {
    struct Wrong<'v>(OnVolume<'v>);
    impl Target for Wrong<'_> {
        fn call(&self, call: &Call) -> Reply {
            match self.0.call(call) {
                Reply::Done => Reply::Broken("odd".into()),
                reply => reply,
            }
        }
    }
    let volume = Volume::create_memory(&options(VOLUME_BYTES, InodeSize::B256)).expect("volume");
    let told = (0..100)
        .find_map(|seed| on_volume(&volume, &Wrong(OnVolume(&volume)), seed, &SMALL).err())
        .expect("a wrong answer is found");
    assert!(told.starts_with("seed ") && told.contains("Broken(\"odd\")"), "{told}");
    assert_eq!(told.lines().count(), 2 + SMALL.events(), "{told}");
}

const CROWD: Crowd = Crowd { owners: 3, readers: 1, still: 300, names: 3000, calls: 120_000, sync_every: 0 };

#[test]
fn a_crowd_in_large_directories_leaves_exactly_its_names() {
    let watchdog = Watchdog::new("crowd in memory");
    for seed in Seeds::from_environment("LANEFS_CROWDS", 1, 2) {
        watchdog.at(|| format!("crowd in memory, seed {seed}"));
        let volume = Volume::create_memory(&options(64 << 20, InodeSize::B256)).expect("volume");
        let crowded = CROWD.run(&volume, seed).unwrap_or_else(|what| panic!("{what}"));
        assert!(crowded.names() > 2 * CROWD.still, "the crowd made nothing");
    }
}

#[test]
fn a_crowd_of_more_threads_than_cores_leaves_exactly_its_names() {
    let watchdog = Watchdog::new("crowd of 16");
    for seed in Seeds::from_environment("LANEFS_CROWDS", 1, 1) {
        watchdog.at(|| format!("crowd of 16, seed {seed}"));
        let volume = Volume::create_memory(&options(64 << 20, InodeSize::B128)).expect("volume");
        let crowd = Crowd { owners: 14, readers: 2, names: 500, calls: 30_000, ..CROWD };
        crowd.run(&volume, seed).unwrap_or_else(|what| panic!("{what}"));
    }
}

#[test]
fn a_crowd_on_a_volume_in_a_file_leaves_exactly_its_names_also_when_it_is_opened_again() {
    let watchdog = Watchdog::new("crowd in a file");
    let dir = tempfile::tempdir().expect("a directory for temporary files");
    for seed in Seeds::from_environment("LANEFS_CROWDS", 1, 1) {
        watchdog.at(|| format!("crowd in a file, seed {seed}"));
        let image = dir.path().join("volume.lane");
        let volume = Volume::create(&image, &options(64 << 20, InodeSize::B256)).expect("volume");
        let crowd = Crowd { sync_every: 1000, calls: 40_000, ..CROWD };
        let crowded = crowd.run(&volume, seed).unwrap_or_else(|what| panic!("{what}"));
        volume.close().expect("close");
        let volume = Volume::open(&image, Access::Write).expect("open");
        crowded.compare(&volume).unwrap_or_else(|what| panic!("seed {seed}, opened again: {what}"));
    }
}

#[test]
fn waves_through_small_directories_find_and_leave_exactly_what_they_should() {
    let watchdog = Watchdog::new("waves");
    let volume = Volume::create_memory(&options(64 << 20, InodeSize::B256)).expect("volume");
    for wave in Seeds::from_environment("LANEFS_WAVES", 1, 300) {
        watchdog.at(|| format!("wave {wave}"));
        let threads = [2, 4, 16][(wave % 3) as usize];
        let waves = Waves { threads, directories: 100, names: 100 };
        waves.run(&volume).unwrap_or_else(|what| panic!("wave {wave}, {threads} threads: {what}"));
    }
    no_findings(&volume);
}

/// Moves names of a crowd's owner out of the way until told to stop.
fn steal(volume: &Volume, done: &AtomicBool) {
    while !done.load(Ordering::Relaxed) {
        let Ok(dir) = volume.resolve("/crowd") else { continue };
        for number in 0..CROWD.names {
            let (old, new) = (format!("owner-01-{number:06}"), format!("stolen-{number}"));
            let (old, new) = (old.as_bytes(), new.as_bytes());
            // Most of the names are not there.
            let _ = volume.rename_at(&Caller::OWNER, dir.ino, old, dir.ino, new, RenameMode::Replace);
        }
    }
}

#[test]
fn a_crowd_finds_a_name_that_somebody_else_takes_away() {
    let watchdog = Watchdog::new("crowd with a thief");
    // The thief may be too late for one crowd, but not for all of them.
    let found = (0..100).any(|seed| {
        watchdog.at(|| format!("crowd with a thief, seed {seed}"));
        let volume = Volume::create_memory(&options(64 << 20, InodeSize::B256)).expect("volume");
        let done = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| steal(&volume, &done));
            let crowd = Crowd { calls: 4000, names: 300, ..CROWD };
            let found = crowd.run(&volume, seed);
            done.store(true, Ordering::Relaxed);
            found.is_err()
        })
    });
    assert!(found, "a stolen name is not found");
}
