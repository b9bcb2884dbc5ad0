//! Epochs beside `read_files`: orders, memory, changes meanwhile, and ends of every kind.

use super::budget::bytes_of;
use super::hand_over::Stage;
use super::*;
use crate::batches::read_files::{FileBatch, ReadFiles};
use crate::vocabulary::options::{Access, CreateOptions, OpenOptions};
use crate::vocabulary::types::{Caller, RenameMode, SetAttr};
use lanefs_format::Code;
use std::panic::{AssertUnwindSafe, catch_unwind};

const OWNER: Caller = Caller::OWNER;

/// Panics where a test planted that.
pub(super) fn may_panic(work: &EpochWork, stage: Stage) {
    assert!(work.options.panics != Some(stage), "planted: {stage:?} panics");
}

/// A generator of random numbers (Knuth's constants for 64 bits).
struct Random(u64);

impl Random {
    fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % end.max(1)
    }

    fn pick<T: Clone>(&mut self, choices: &[T]) -> T {
        choices[self.below(choices.len())].clone()
    }
}

fn in_memory() -> Arc<Volume> {
    let options = CreateOptions { size: 64 << 20, ..CreateOptions::default() };
    Arc::new(Volume::create_memory(&options).expect("create"))
}

/// A volume in a file, with a cache that holds a small part of it.
fn on_file(dir: &tempfile::TempDir) -> Arc<Volume> {
    let path = dir.path().join("volume.lane");
    let options = CreateOptions { size: 64 << 20, ..CreateOptions::default() };
    Volume::create(&path, &options).expect("create").close().expect("close");
    let options = OpenOptions { cache: Some(1 << 20), ..OpenOptions::from(Access::Write) };
    Arc::new(Volume::open(&path, options).expect("open"))
}

fn make_cold(volume: &Volume) {
    volume.sync().expect("sync");
    volume.shared.state.store.drop_clean();
}

/// Makes files of many lengths; some paths lead to none.
fn fill(volume: &Volume, random: &mut Random) -> Arc<PathSet> {
    let mut paths = PathSet::new();
    for d in 0..3 {
        let dir = volume.mkdir_all(format!("/d{d}"), 0o755).expect("mkdir").ino;
        for i in 0..100 {
            let path = format!("/d{d}/{i}");
            let len = random.pick(&[0, 20, 128, 129, 3000, 4096, 9000, 40_000]) + random.below(9);
            let content: Vec<u8> = (0..len).map(|_| random.below(256) as u8).collect();
            volume.write_file(&path, content).expect("write");
            paths.push(path);
        }
        volume.symlink_at(&OWNER, dir, b"link", b"3").expect("symlink");
        ["link", "missing", "", "3/x"].iter().for_each(|name| paths.push(format!("/d{d}/{name}")));
    }
    volume.write_file("/large", vec![7; 1_300_000]).expect("write");
    ["/large", "", "d0/5"].iter().for_each(|path| paths.push(path));
    Arc::new(paths)
}

/// The batches of `read_files`, for the order from `start` on.
fn expected(volume: &Volume, paths: &PathSet, order: &[u32], batch: usize) -> Vec<FileContents<'static>> {
    let read = |rows: &[u32]| {
        let some: PathSet = rows.iter().map(|row| paths.view().get(*row as usize).expect("a path")).collect();
        let mut files = FileContents::new();
        volume.read_files(&ReadFiles::default(), &some, &mut files).expect("read");
        files
    };
    order.chunks(batch).map(read).collect()
}

fn is_same(a: &FileContents<'_>, b: &FileContents<'_>) -> bool {
    (a.codes(), a.offsets(), a.bytes()) == (b.codes(), b.offsets(), b.bytes())
}

/// Reads epochs with random options, and compares each batch. Half of the callers keep some batches.
fn compare(volume: &Arc<Volume>, paths: &Arc<PathSet>, random: &mut Random, is_cold: bool) {
    let count = paths.len() as u32;
    for round in 0..24 {
        let some: Arc<[u32]> = (0..random.below(500)).map(|_| random.below(count as usize) as u32).collect();
        let order =
            random.pick(&[EpochOrder::AsGiven, EpochOrder::Shuffled(round), EpochOrder::Rows(some.clone())]);
        let rows = match &order {
            EpochOrder::AsGiven => (0..count).collect(),
            EpochOrder::Shuffled(seed) => EpochOrder::shuffled(count, *seed),
            EpochOrder::Rows(rows) => rows.to_vec(),
        };
        let options = EpochOptions {
            order,
            batch: random.pick(&[1, 7, 64, 1000]),
            memory: random.pick(&[0, 30_000, 400_000, 100 << 20]),
            start: random.pick(&[0, rows.len() / 3, rows.len()]) as u64,
            threads: random.pick(&[0, 1, 3]),
            ..EpochOptions::default()
        };
        let start = options.start as usize;
        let expected = expected(volume, paths, &rows[start..], options.batch);
        let bytes = |files: &FileContents<'_>| bytes_of(files.len(), files.bytes().len() as u64);
        let most = expected.iter().map(bytes).max().unwrap_or(0).max(options.memory);
        if is_cold {
            make_cold(volume);
        }
        let kept = if round % 2 == 0 { 0 } else { random.below(4) };
        let mut reader = EpochReader::new(volume.clone(), paths.clone(), options.clone()).expect("start");
        let (mut batches, mut at) = (std::collections::VecDeque::new(), start);
        for expected in &expected {
            let batch = reader.next().expect("a batch").expect("read");
            assert!(is_same(batch.contents(), expected), "round {round}, at {at}: {options:?}");
            assert_eq!((batch.position(), batch.rows()), (at as u64, &rows[at..at + expected.len()]));
            at += expected.len();
            assert_eq!(reader.position(), at as u64);
            batches.push_back(batch);
            while batches.len() > kept {
                batches.pop_front();
            }
        }
        assert!(reader.next().is_none() && reader.next().is_none());
        assert!(kept > 0 || reader.most_memory() <= most, "{} of {most} bytes", reader.most_memory());
        drop(reader);
        // The volume is not in use any more, and what is kept stays.
        assert_eq!(Arc::strong_count(volume), 1);
        let last = &expected[expected.len() - batches.len()..];
        assert!(batches.iter().zip(last).all(|(batch, expected)| is_same(batch.contents(), expected)));
    }
}

#[test]
fn epochs_give_what_read_files_gives() {
    let (volume, mut random) = (in_memory(), Random(1));
    let paths = fill(&volume, &mut random);
    compare(&volume, &paths, &mut random, false);
    let dir = tempfile::tempdir().expect("a directory");
    let volume = on_file(&dir);
    let paths = fill(&volume, &mut random);
    compare(&volume, &paths, &mut random, true);
}

#[test]
fn an_epoch_continues_where_another_one_ended() {
    let (volume, mut random) = (in_memory(), Random(2));
    let paths = fill(&volume, &mut random);
    let options = EpochOptions { order: EpochOrder::Shuffled(3), batch: 16, ..EpochOptions::default() };
    let whole = EpochReader::new(volume.clone(), paths.clone(), options.clone()).expect("start");
    let whole: Vec<EpochBatch> = whole.map(|batch| batch.expect("read")).collect();
    let mut start = 0;
    for i in 0..=whole.len() {
        let options = EpochOptions { start, ..options.clone() };
        let mut rest = EpochReader::new(volume.clone(), paths.clone(), options).expect("start");
        assert_eq!(rest.position(), start);
        for expected in &whole[i..] {
            let batch = rest.next().expect("a batch").expect("read");
            assert_eq!((batch.position(), batch.rows()), (expected.position(), expected.rows()));
            assert!(is_same(batch.contents(), expected.contents()));
            // The next one begins after one batch of this one.
            if batch.position() == start {
                start = rest.position();
                assert_eq!(start, batch.position() + batch.rows().len() as u64);
                break;
            }
        }
    }
    assert_eq!(start, paths.len() as u64);
}

#[test]
fn a_reader_fills_half_of_the_memory_ahead_and_then_waits() {
    let volume = in_memory();
    let paths: PathSet = (0..400).map(|i| format!("/{i}")).collect();
    for path in paths.view().iter() {
        volume.write_file(path, [1; 1000]).expect("write");
    }
    let (batch, memory) = (4, 60_000);
    let options = EpochOptions { batch, memory, ..EpochOptions::default() };
    let mut reader = EpochReader::new(volume, Arc::new(paths), options).expect("start");
    let first = reader.next().expect("a batch").expect("read");
    // (It comes to that without a further call.)
    while reader.memory() <= memory / 2 {
        std::thread::yield_now();
    }
    drop(first);
    assert_eq!(reader.by_ref().map(|batch| batch.expect("read").rows().len()).sum::<usize>(), 396);
    assert!(reader.most_memory() <= memory, "{} bytes", reader.most_memory());
}

#[test]
fn a_reader_that_is_dropped_ends_its_threads() {
    let dir = tempfile::tempdir().expect("a directory");
    let (volume, mut random) = (on_file(&dir), Random(4));
    let paths = fill(&volume, &mut random);
    for round in 0..60 {
        make_cold(&volume);
        let order = EpochOrder::Shuffled(round as u64);
        let (batch, memory) = (random.pick(&[1, 20, 400]), random.pick(&[0, 50_000, 10 << 20]));
        let options = EpochOptions { order, batch, memory, ..EpochOptions::default() };
        let mut reader = EpochReader::new(volume.clone(), paths.clone(), options).expect("start");
        let kept: Vec<_> = reader.by_ref().take(random.below(6)).collect();
        drop(reader);
        assert_eq!(Arc::strong_count(&volume), 1, "a thread still has the volume");
        assert!(kept.iter().all(|batch| !batch.as_ref().expect("read").contents().is_empty()));
    }
}

#[test]
fn a_read_that_nobody_wants_reads_nothing() {
    let dir = tempfile::tempdir().expect("a directory");
    let (volume, mut random) = (on_file(&dir), Random(5));
    let paths = fill(&volume, &mut random);
    let (stop, options) = (AtomicBool::new(false), ReadFiles::default());
    let files = FileBatch { volume: &volume, options: &options, stop: Some(&stop) };
    let located = files.locate((&*paths).into()).expect("locate");
    make_cold(&volume);
    let mut contents = FileContents::new();
    let memory = contents.lay_out(located.iter().map(|file| (file.code, file.len))).expect("room");
    let mut planned = files.planned((&*paths).into(), &located, memory);
    stop.store(true, Ordering::Relaxed);
    let before = volume.stats().blocks_fetched;
    files.read(&mut planned);
    // The metadata of files that are read by themselves, and nothing of their content.
    let fetched = volume.stats().blocks_fetched - before;
    assert!(fetched < 60, "{fetched} blocks fetched");
    drop(planned);
    assert!(contents.bytes().iter().all(|byte| *byte == 0));
}

#[test]
fn files_that_change_during_an_epoch_are_never_torn() {
    let dir = tempfile::tempdir().expect("a directory");
    for volume in [in_memory(), on_file(&dir)] {
        let root = volume.root();
        let content = |value: usize| vec![value as u8; [50, 0, 3000, 70_000, 200][value % 5] + value];
        let name = |file: usize| format!("f{file}");
        (0..30)
            .map(|file| volume.write_file(format!("/{}", name(file)), content(3)))
            .for_each(|written| assert!(written.is_ok()));
        let paths: Arc<PathSet> = Arc::new((0..2000).map(|i| format!("/f{}", i % 30)).collect());
        let stop = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let writer = scope.spawn(|| {
                let mut random = Random(6);
                let mut changes = 0;
                while changes < 200 || !stop.load(Ordering::Relaxed) {
                    let (file, value) = (random.below(30), random.below(256));
                    match random.below(3) {
                        0 => {
                            volume.write_file("/new", content(value)).expect("write");
                            let (new, replace) = (b"new", RenameMode::Replace);
                            volume
                                .rename_at(&OWNER, root, new, root, name(file).as_bytes(), replace)
                                .expect("rename");
                        }
                        1 => drop(volume.unlink(&OWNER, root, name(file).as_bytes())),
                        // Only one value is in the file at any moment.
                        _ => {
                            let Ok(attr) = volume.resolve(format!("/{}", name(file))) else { continue };
                            let size = Some(attr.size.min(1));
                            let set = SetAttr { size, ..SetAttr::default() };
                            volume.setattr(&OWNER, attr.ino, &set).expect("truncate");
                            volume.write(&OWNER, attr.ino, 0, &content(value)).expect("write");
                        }
                    }
                    changes += 1;
                }
                changes
            });
            for seed in 0..12 {
                let (order, batch, memory) = (EpochOrder::Shuffled(seed), 100, 1 << 20);
                let options = EpochOptions { order, batch, memory, ..EpochOptions::default() };
                for batch in EpochReader::new(volume.clone(), paths.clone(), options).expect("start") {
                    for file in batch.expect("read").contents().iter() {
                        match file {
                            Ok(bytes) => assert!(bytes.windows(2).all(|pair| pair[0] == pair[1]), "torn"),
                            Err(code) => assert_eq!(code, Code::NotFound),
                        }
                    }
                }
            }
            stop.store(true, Ordering::Relaxed);
            assert!(writer.join().expect("the writer ends") >= 200);
        });
    }
}

#[test]
fn an_error_comes_in_its_order_and_ends_the_epoch() {
    let volume = in_memory();
    volume.write_file("/small", b"small").expect("write");
    let sparse = volume.write_file("/sparse", b"").expect("write").ino;
    let size = Some(1 << 32);
    volume.setattr(&OWNER, sparse, &SetAttr { size, ..SetAttr::default() }).expect("grow");
    // The third batch is larger than the address space.
    let batch = 1 << 17;
    let rows: Arc<[u32]> = (0..4 * batch as u32).map(|i| u32::from(i / batch as u32 == 2)).collect();
    let paths = Arc::new(PathSet::from_iter(["/small", "/sparse"]));
    let options = EpochOptions { order: EpochOrder::Rows(rows), batch, ..EpochOptions::default() };
    let mut reader = EpochReader::new(volume, paths, options).expect("start");
    for i in 1..3 {
        assert_eq!(reader.next().expect("a batch").expect("read").contents().bytes().len(), 5 * batch);
        assert_eq!(reader.position(), i * batch as u64);
    }
    let error = reader.next().expect("an error").expect_err("too large").to_string();
    assert!(error.contains("memory for"), "{error}");
    assert!(reader.next().is_none());
    assert_eq!(reader.position(), 2 * batch as u64);
}

#[test]
fn a_thread_that_panics_does_not_leave_the_caller_waiting() {
    let (volume, mut random) = (in_memory(), Random(7));
    let paths = fill(&volume, &mut random);
    for stage in [Stage::Find, Stage::Read] {
        let options = EpochOptions { panics: Some(stage), ..EpochOptions::default() };
        let mut reader = EpochReader::new(volume.clone(), paths.clone(), options).expect("start");
        let panic = catch_unwind(AssertUnwindSafe(|| reader.next().is_some())).expect_err("a panic");
        let text = panic.downcast_ref::<String>().expect("a text");
        assert!(text.contains("planted"), "{text}");
        assert!(reader.next().is_none());
        // Nobody has to ask.
        let options = EpochOptions { panics: Some(stage), ..EpochOptions::default() };
        drop(EpochReader::new(volume.clone(), paths.clone(), options).expect("start"));
    }
}

#[test]
fn options_that_do_not_fit_are_refused() {
    let (volume, paths) = (in_memory(), Arc::new(PathSet::from_iter(["/a", "/b"])));
    let refused = |options: EpochOptions| {
        let error = EpochReader::new(volume.clone(), paths.clone(), options).expect_err("refused");
        assert_eq!(error.code(), Code::Invalid);
        error.to_string()
    };
    let options = EpochOptions::default();
    let error = refused(EpochOptions { batch: 0, ..options.clone() });
    assert!(error.contains("no file"), "{error}");
    let error = refused(EpochOptions { start: 3, ..options.clone() });
    assert!(error.contains("2 files that starts at 3"), "{error}");
    let rows = EpochOrder::Rows([0, 2].into());
    let error = refused(EpochOptions { order: rows, ..options.clone() });
    assert!(error.contains("row 2 of an epoch over 2 paths"), "{error}");
    let mut none = EpochReader::new(volume.clone(), Arc::default(), options).expect("start");
    assert!(none.next().is_none());
}
