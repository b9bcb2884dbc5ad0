//! Failing devices: the right error reaches the caller, unaffected work continues, and nothing that was
//! acknowledged is lost.
//!
//! Small workloads, with a fault at each access that they make. The device below is healthy again at the next
//! open.

mod fixture;
mod writing;

use fixture::{
    EIO, ENODEV, Fetches, Query, base_image, blocks_with, data_blocks, device, fsck, is_device_error, open,
    queries, reopened, right_answer, run_all,
};
use lanefs::{Access, Code, EpochOptions, EpochReader, Error, MemoryDevice, PathSet, Volume};
use lanefs_testkit::faulty::{AccessKind, Faults, Rule};
use lanefs_testkit::seeded::Seeded;
use lanefs_testkit::steps::tree_of_volume;
use lanefs_testkit::watchdog::Watchdog;
use std::sync::Arc;

#[test]
fn a_read_that_fails_once_is_an_error_once_and_right_the_next_time() {
    Fetches::BOTH.into_iter().for_each(each_read_fails_once);
}

fn each_read_fails_once(fetches: Fetches) {
    let watchdog = Watchdog::new("reading");
    let queries = queries();
    for after in 0.. {
        watchdog.at(|| format!("{fetches:?}, after {after}"));
        let faults = Faults::new();
        let volume = open(&device(base_image()), &faults, fetches).expect("open");
        faults.add(Rule::read_error().after(after).times(1));
        let mut errors = 0;
        for look in &queries {
            if let Err(error) = right_answer(look, &volume) {
                assert!(is_device_error(&error, EIO, &faults), "{look:?}: {error}");
                errors += 1;
                right_answer(look, &volume).unwrap_or_else(|error| panic!("{look:?}, again: {error}"));
            }
        }
        assert!(errors <= 1, "read {after}: one fault, {errors} errors");
        if faults.failed().is_empty() {
            assert!(after > 10, "the workload hardly reads");
            return;
        }
    }
}

/// Opens the volume with this fault from each of the first reads on: the volume is right once the fault is
/// gone, or the error is right.
fn open_with(rule: &Rule, errno: i32, first: u64) {
    let cases = (first..50).flat_map(|after| Fetches::BOTH.map(|fetches| (after, fetches)));
    for (after, fetches) in cases {
        let faults = Faults::with(rule.clone().after(after));
        match open(&device(base_image()), &faults, fetches) {
            Ok(volume) => {
                faults.clear();
                run_all(&volume);
            }
            Err(error) => assert!(is_device_error(&error, errno, &faults), "after {after}: {error}"),
        }
    }
}

#[test]
fn a_read_that_fails_while_a_volume_opens_is_an_error_or_does_no_harm() {
    open_with(&Rule::read_error().times(1), EIO, 0);
    // From the second read on: the first copy of the superblock is read.
    open_with(&Rule::read_error(), EIO, 1);
    open_with(&Rule::gone(), ENODEV, 1);
}

#[test]
fn a_device_that_cannot_be_read_at_all_is_not_taken_for_something_else_than_a_volume() {
    open_with(&Rule::read_error(), EIO, 0);
    open_with(&Rule::gone(), ENODEV, 0);
}

#[test]
fn a_block_of_a_file_that_cannot_be_read_concerns_only_this_file() {
    let queries = queries();
    let data = data_blocks();
    assert!(data.len() > 10, "the base has too few files");
    for ((path, at), fetches) in data.into_iter().zip(Fetches::BOTH.into_iter().cycle()) {
        let faults = Faults::with(Rule::read_error().at(at..at + 4096));
        let volume = open(&device(base_image()), &faults, fetches).expect("open");
        let mut failed = 0;
        for look in &queries {
            match (look, right_answer(look, &volume)) {
                (Query::Content(of), Err(error)) if *of == path => {
                    assert!(is_device_error(&error, EIO, &faults), "{error}");
                    failed += 1;
                }
                (_, Err(error)) => panic!("{look:?} fails for a block of {path}: {error}"),
                (_, Ok(())) => {}
            }
        }
        assert_eq!(failed, 1, "{path} reads well without its block at {at}");
        // The file is not lost for good.
        faults.clear();
        run_all(&volume);
    }
}

#[test]
fn a_block_of_a_directory_that_cannot_be_read_concerns_only_this_directory() {
    let queries = queries();
    // Copies of blocks that are not read any more do not count, such as those in the journal.
    let read = metadata_blocks();
    let blocks: Vec<u64> = blocks_with(b"only-here-").into_iter().filter(|at| read.contains(at)).collect();
    assert!(!blocks.is_empty(), "no block has the names");
    for (at, fetches) in blocks.iter().flat_map(|at| Fetches::BOTH.map(|fetches| (*at, fetches))) {
        let faults = Faults::with(Rule::read_error().at(at..at + 4096));
        let volume = open(&device(base_image()), &faults, fetches).expect("open");
        let mut failed = 0;
        for look in &queries {
            if let Err(error) = right_answer(look, &volume) {
                assert!(is_device_error(&error, EIO, &faults), "{look:?}: {error}");
                assert!(look.path().starts_with("/only"), "{look:?} fails for a block of another directory");
                failed += 1;
            }
        }
        assert!(failed > 0, "nothing fails without the block at {at}, {fetches:?}");
        // New names elsewhere are possible, too.
        volume.write_file("/elsewhere", b"new").expect("another directory can be changed");
        faults.clear();
        assert_eq!(volume.read_file("/elsewhere").expect("read"), b"new");
        run_all(&volume);
    }
}

/// Blocks that the reading workload reads and that hold no file's content.
fn metadata_blocks() -> Vec<u64> {
    let faults = Faults::new();
    let volume = open(&device(base_image()), &faults, Fetches::Alone).expect("open");
    // The open reads the journal, which holds copies of blocks that are not needed any more.
    faults.start_trace();
    run_all(&volume);
    let data: Vec<u64> = data_blocks().into_iter().map(|(_, at)| at).collect();
    let mut blocks: Vec<u64> = faults
        .take_trace()
        .into_iter()
        .filter(|access| access.kind == AccessKind::Read)
        .flat_map(|access| {
            (access.bytes.start / 4096..access.bytes.end.div_ceil(4096)).map(|block| block * 4096)
        })
        .filter(|at| !data.contains(at))
        .collect();
    blocks.sort_unstable();
    blocks.dedup();
    blocks
}

#[test]
fn a_rotten_bit_in_metadata_is_never_taken_for_an_answer() {
    let watchdog = Watchdog::new("rot");
    let queries = queries();
    let mut random = Seeded::new(9);
    let blocks = metadata_blocks();
    assert!(blocks.len() > 8, "the workload reads hardly any metadata");
    let mut noticed = 0;
    for at in blocks {
        for round in 0..6 {
            let fetches = Fetches::BOTH[round % 2];
            let byte = at + random.below(4096);
            watchdog.at(|| format!("byte {byte}"));
            // One read in three is wrong only once.
            let rule = Rule::rot(byte, random.below(8) as u8);
            let rule = if round % 3 == 0 { rule.times(1) } else { rule };
            let faults = Faults::with(rule);
            let volume = match open(&device(base_image()), &faults, fetches) {
                Ok(volume) => volume,
                Err(error) => {
                    // The superblock has a second copy; the other blocks read now are the journal's.
                    assert!(at > 0 && error.code() == Code::InvariantViolated, "byte {byte}: {error}");
                    noticed += 1;
                    continue;
                }
            };
            for look in &queries {
                let Err(error) = right_answer(look, &volume) else { continue };
                assert_eq!(error.code(), Code::InvariantViolated, "byte {byte}, {look:?}: {error}");
                assert!(error.to_string().contains("position"), "does not say where: {error}");
                noticed += 1;
                if round % 3 == 0 {
                    right_answer(look, &volume).unwrap_or_else(|error| panic!("byte {byte}, again: {error}"));
                }
            }
        }
    }
    assert!(noticed > 20, "rot is hardly ever noticed");
}

#[test]
fn a_file_that_ends_too_early_is_an_error_where_it_ends() {
    let len = base_image().len() as u64;
    let ends: Vec<u64> =
        data_blocks().into_iter().map(|(_, at)| at + 100).chain([len / 2, len - 1]).collect();
    for (end, fetches) in ends.iter().flat_map(|end| Fetches::BOTH.map(|fetches| (*end, fetches))) {
        let faults = Faults::new();
        let volume = open(&device(base_image()), &faults, fetches).expect("open");
        faults.add(Rule::ends_at(end));
        for look in queries() {
            if let Err(error) = right_answer(&look, &volume) {
                assert!(is_device_error(&error, EIO, &faults), "{look:?}: {error}");
            }
        }
        faults.clear();
        run_all(&volume);
    }
    let cut = MemoryDevice::new(base_image()[..base_image().len() - 4096].to_vec());
    match Volume::open_device(Box::new(cut), Access::Write) {
        Err(error @ Error::Image { .. }) => assert!(error.to_string().contains("cut off"), "{error}"),
        Err(error) => panic!("{error}"),
        Ok(_) => panic!("a volume that was cut off opens"),
    }
}

#[test]
fn a_disk_that_goes_away_while_reading_is_an_error_and_no_more() {
    Fetches::BOTH.into_iter().for_each(the_disk_goes_away);
}

fn the_disk_goes_away(fetches: Fetches) {
    let watchdog = Watchdog::new("gone");
    for after in 0.. {
        watchdog.at(|| format!("{fetches:?}, after {after}"));
        let faults = Faults::new();
        let volume = open(&device(base_image()), &faults, fetches).expect("open");
        faults.add(Rule::gone().after(after));
        for look in queries() {
            if let Err(error) = right_answer(&look, &volume) {
                assert!(is_device_error(&error, ENODEV, &faults), "{look:?}: {error}");
            }
        }
        if faults.failed().is_empty() {
            return;
        }
        // It is plugged in again.
        faults.clear();
        run_all(&volume);
    }
}

#[test]
fn batches_of_paths_report_the_device_too() {
    let faults = Faults::new();
    let volume = open(&device(base_image()), &faults, Fetches::Alone).expect("open");
    faults.add(Rule::gone());
    let paths: Vec<String> = queries().iter().map(|look| look.path().to_owned()).collect();
    match volume.resolve_batch(&lanefs::ResolveOptions::default(), &paths) {
        Err(error) => assert!(is_device_error(&error, ENODEV, &faults), "{error}"),
        Ok(answers) => assert!(answers.iter().all(|answer| answer.code == Code::Io), "{answers:?}"),
    }
    faults.clear();
    let answers = volume.resolve_batch(&lanefs::ResolveOptions::default(), &paths).expect("resolve");
    assert!(answers.iter().all(|answer| answer.code == Code::Success), "{answers:?}");
}

/// Paths of an epoch, each file many times, and the contents of the files.
fn files_of_an_epoch() -> (Arc<PathSet>, Vec<Vec<u8>>) {
    let content = |look| if let Query::Content(path) = look { Some(path) } else { None };
    let names: Vec<String> = queries().into_iter().filter_map(content).collect();
    let healthy = open(&device(base_image()), &Faults::new(), Fetches::Alone).expect("open");
    let contents = names.iter().map(|name| healthy.read_file(name).expect("read")).collect();
    (Arc::new((0..40).flat_map(|_| &names).collect()), contents)
}

#[test]
fn epochs_report_the_device_in_order_and_come_to_an_end() {
    let watchdog = Watchdog::new("epochs");
    let (paths, contents) = files_of_an_epoch();
    let (mut failed_files, mut failed_epochs) = (0, 0);
    for (round, rule) in [Rule::read_error(), Rule::read_error().times(1), Rule::gone()].iter().enumerate() {
        for after in 0..40 {
            watchdog.at(|| format!("round {round}, after {after}"));
            let faults = Faults::new();
            let volume = Arc::new(open(&device(base_image()), &faults, Fetches::Alone).expect("open"));
            faults.add(rule.clone().after(after));
            let mut row = 0;
            while row < paths.len() {
                let options =
                    EpochOptions { batch: 13, memory: 100_000, start: row as u64, ..Default::default() };
                let mut reader = EpochReader::new(volume.clone(), paths.clone(), options).expect("start");
                for batch in reader.by_ref() {
                    let batch = match batch {
                        Ok(batch) => batch,
                        Err(error) => {
                            let errno = if round < 2 { EIO } else { ENODEV };
                            assert!(is_device_error(&error, errno, &faults), "{error}");
                            failed_epochs += 1;
                            continue;
                        }
                    };
                    for (file, got) in batch.rows().iter().zip(batch.contents().iter()) {
                        assert_eq!(*file as usize, row, "out of order");
                        match got {
                            Ok(bytes) => assert!(bytes == contents[row % contents.len()], "file {row}"),
                            Err(code) => assert_eq!(code, Code::Io, "file {row}"),
                        }
                        failed_files += usize::from(got.is_err());
                        row += 1;
                    }
                }
                assert_eq!(reader.position(), row as u64);
                // An epoch that ended too early continues when the device works again.
                faults.clear();
            }
            run_all(&volume);
        }
    }
    assert!(failed_files > 10 && failed_epochs > 10, "{failed_files} files, {failed_epochs} epochs failed");
}

/// Makes one in four of the first few hundred reads fail.
fn make_flaky(faults: &Faults, random: &mut Seeded) {
    faults.yield_at_each();
    let mut after = 0;
    for _ in 0..60 {
        after += random.below(8);
        faults.add(Rule::read_error().after(after).times(1));
    }
}

/// Retries until the device works.
fn insist<T>(faults: &Faults, mut ask: impl FnMut() -> lanefs::Result<T>) -> T {
    let mut last = None;
    for _ in 0..1000 {
        match ask() {
            Ok(answer) => return answer,
            Err(error) => {
                assert!(is_device_error(&error, EIO, faults), "{error}");
                last = Some(error);
            }
        }
    }
    panic!("a fault that passes does not pass: {last:?}");
}

#[test]
fn threads_that_wait_for_a_block_that_cannot_be_read_all_go_on() {
    let watchdog = Watchdog::new("threads and failing reads");
    let queries = queries();
    let mut failed = 0;
    for seed in 0..40 {
        let fetches = Fetches::BOTH[seed as usize % 2];
        watchdog.at(|| format!("seed {seed}"));
        let faults = Faults::new();
        let volume = open(&device(base_image()), &faults, fetches).expect("open");
        make_flaky(&faults, &mut Seeded::new(seed));
        std::thread::scope(|scope| {
            for thread in 0..4 {
                let (queries, volume, faults) = (&queries, &volume, &faults);
                scope.spawn(move || {
                    let mut random = Seeded::new(seed ^ thread << 32);
                    for _ in 0..300 {
                        let look = random.pick(queries);
                        insist(faults, || right_answer(look, volume));
                    }
                });
            }
        });
        // With neighbours a volume has some ten reads.
        assert!(
            faults.failed().len() > if fetches == Fetches::Alone { 5 } else { 0 },
            "hardly a read failed"
        );
        failed += faults.failed().len();
        faults.clear();
        run_all(&volume);
    }
    assert!(failed > 40 * 5, "only {failed} reads failed");
}

#[test]
fn threads_that_change_a_volume_whose_reads_fail_have_all_or_nothing_of_each_change() {
    let watchdog = Watchdog::new("changing threads and failing reads");
    for seed in 0..40 {
        let fetches = Fetches::BOTH[seed as usize % 2];
        watchdog.at(|| format!("seed {seed}"));
        let (faults, below) = (Faults::new(), device(base_image()));
        let volume = open(&below, &faults, fetches).expect("open");
        make_flaky(&faults, &mut Seeded::new(seed));
        std::thread::scope(|scope| {
            for thread in 0..4u64 {
                let (volume, faults) = (&volume, &faults);
                scope.spawn(move || {
                    let mut random = Seeded::new(seed ^ thread << 32);
                    for number in 0..80u64 {
                        // A failed change has not happened, so its name is still free the next time.
                        let path = format!("/d{}/thread-{thread}-{number}", random.below(4));
                        let (dir, name) = insist(faults, || volume.resolve_parent(path.as_bytes()));
                        let caller = lanefs::Caller::OWNER;
                        insist(faults, || volume.create_file(&caller, dir, name, 0o644));
                        if number.is_multiple_of(3) {
                            insist(faults, || volume.unlink(&caller, dir, name));
                        }
                        if number.is_multiple_of(20) {
                            insist(faults, || volume.sync());
                        }
                    }
                });
            }
        });
        faults.clear();
        fsck(&volume).unwrap_or_else(|what| panic!("seed {seed}: {what}"));
        volume.close().expect("close");
        let volume = reopened(&below).expect("open");
        let tree = tree_of_volume(&volume).expect("tree");
        let made = tree.keys().filter(|path| path.windows(7).any(|part| part == b"thread-")).count();
        assert_eq!(made, 4 * 80 - 4 * 27, "seed {seed}");
        fsck(&volume).unwrap_or_else(|what| panic!("seed {seed}: {what}"));
    }
}
