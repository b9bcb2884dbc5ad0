//! Snapshots of volumes that change meanwhile.

use lanefs::*;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::time::Duration;

const OWNER: Caller = Caller::OWNER;
const WRITERS: usize = 3;
const FILES: usize = 5;
const MEMORY: u64 = 64 << 20;

fn create(image: &Path) -> Volume {
    let options = CreateOptions { size: 64 << 20, ..CreateOptions::default() };
    Volume::create(image, &options).expect("create")
}

/// Content of a writer's files.
type Files = BTreeMap<String, Vec<u8>>;

/// A writer's change number `step`, one transaction each.
enum Step {
    Write { file: String, offset: usize, bytes: Vec<u8> },
    Resize { file: String, size: usize },
    Exchange { one: String, other: String },
}

impl Step {
    fn number(step: usize) -> Step {
        let name = |number: usize| format!("f{}", number % FILES);
        match step % 3 {
            0 => {
                let bytes = step.to_le_bytes().repeat(1200 + step % 100);
                Step::Write { file: name(step / 3), offset: step % 7 * 5000, bytes }
            }
            1 => Step::Resize { file: name(step / 3 + 2), size: step * 1237 % 40_000 },
            _ => Step::Exchange { one: name(step / 3), other: name(step / 3 + 1) },
        }
    }

    fn on_model(self, files: &mut Files) {
        match self {
            Step::Write { file, offset, bytes } => {
                let content = files.get_mut(&file).expect("a file");
                content.resize(content.len().max(offset + bytes.len()), 0);
                content[offset..offset + bytes.len()].copy_from_slice(&bytes);
            }
            Step::Resize { file, size } => files.get_mut(&file).expect("a file").resize(size, 0),
            Step::Exchange { one, other } => {
                let (a, b) = (files.remove(&one), files.remove(&other));
                files.extend([(one, b.expect("a file")), (other, a.expect("a file"))]);
            }
        }
    }

    fn on_volume(self, v: &Volume, dir: Ino) {
        let find = |name: &str| v.lookup(&OWNER, dir, name.as_bytes()).expect("lookup").0;
        match self {
            Step::Write { file, offset, bytes } => {
                v.write(&OWNER, find(&file), offset as u64, &bytes).expect("write");
            }
            Step::Resize { file, size } => {
                let set = SetAttr { size: Some(size as u64), ..SetAttr::default() };
                v.setattr(&OWNER, find(&file), &set).expect("resize");
            }
            Step::Exchange { one, other } => {
                let (one, other) = (one.as_bytes(), other.as_bytes());
                v.rename_at(&OWNER, dir, one, dir, other, RenameMode::Exchange).expect("exchange");
            }
        }
    }
}

/// The files after some steps.
struct Model {
    steps: usize,
    files: Files,
}

impl Model {
    fn new() -> Model {
        Model { steps: 0, files: (0..FILES).map(|number| (format!("f{number}"), Vec::new())).collect() }
    }

    /// Does further steps, up to `end`, until the files are these. True where they are.
    fn reaches(&mut self, files: &Files, end: usize) -> bool {
        while self.files != *files && self.steps < end {
            Step::number(self.steps).on_model(&mut self.files);
            self.steps += 1;
        }
        self.files == *files
    }

    fn advance(&mut self, steps: usize) {
        for step in self.steps..steps {
            Step::number(step).on_model(&mut self.files);
        }
        self.steps = self.steps.max(steps);
    }
}

fn files(v: &Volume, writer: usize) -> Files {
    let read = |number| {
        let name = format!("f{number}");
        let content = v.read_file(format!("/w{writer}/{name}")).expect("read");
        (name, content)
    };
    (0..FILES).map(read).collect()
}

fn assert_sound(v: &Volume) {
    let report = v.check(false, &|_, _| ()).expect("check");
    assert!(report.findings.is_empty(), "{:?}", report.findings);
    assert!(v.scrub(0, &mut |_, _| true).expect("scrub").wrong.is_empty());
}

#[test]
fn a_snapshot_is_a_state_that_the_volume_had_while_writers_go_on() {
    let dir = tempfile::tempdir().expect("a directory");
    let v = create(&dir.path().join("v.lane"));
    for writer in 0..WRITERS {
        v.mkdir_all(format!("/w{writer}"), 0o755).expect("mkdir");
        for number in 0..FILES {
            v.write_file(format!("/w{writer}/f{number}"), b"").expect("file");
        }
    }
    let mut models: [Model; WRITERS] = std::array::from_fn(|_| Model::new());
    let stop = AtomicBool::new(false);
    let (begun, done): ([AtomicUsize; WRITERS], [AtomicUsize; WRITERS]) = Default::default();
    let counts = |of: &[AtomicUsize; WRITERS]| of.each_ref().map(|count| count.load(SeqCst));
    std::thread::scope(|scope| {
        let (v, stop, begun, done) = (&v, &stop, &begun, &done);
        for writer in 0..WRITERS {
            scope.spawn(move || {
                let dir = v.resolve(format!("/w{writer}")).expect("resolve").ino;
                for step in 0.. {
                    if stop.load(SeqCst) {
                        return;
                    }
                    begun[writer].fetch_add(1, SeqCst);
                    Step::number(step).on_volume(v, dir);
                    done[writer].fetch_add(1, SeqCst);
                }
            });
        }
        let work = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            for _ in 0..2 {
                let before = counts(done);
                let snapshot = v.snapshot(MEMORY).expect("a snapshot");
                let after = counts(begun);
                let saved = snapshot.memory();
                while counts(done).iter().zip(after).any(|(now, then)| *now < then + 30) {
                    std::thread::sleep(Duration::from_millis(1));
                }
                // Another snapshot puts all changes in place.
                drop(v.snapshot(MEMORY).expect("a snapshot"));
                assert!(snapshot.memory() > saved, "nothing that the snapshot needs was overwritten");
                let there = snapshot.open(Access::Read).expect("open");
                for writer in 0..WRITERS {
                    let found = files(&there, writer);
                    models[writer].advance(before[writer]);
                    let is_state = models[writer].reaches(&found, after[writer]);
                    assert!(is_state, "writer {writer}: no state of its steps");
                }
                assert_sound(&there);
            }
        }));
        stop.store(true, SeqCst);
        work.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
    });
    assert_sound(&v);
    for (writer, model) in models.iter_mut().enumerate() {
        model.advance(counts(&done)[writer]);
        assert!(model.files == files(&v, writer), "writer {writer}: the volume");
    }
}

/// Copies a snapshot into an image of its own.
fn copy(snapshot: &VolumeSnapshot) -> Volume {
    let device = snapshot.device();
    let mut bytes = vec![0; device.len() as usize];
    device.read_slice(0, &mut bytes).expect("read");
    Volume::from_bytes(bytes).expect("open")
}

#[test]
fn the_copy_of_a_snapshot_is_an_ordinary_volume() {
    let dir = tempfile::tempdir().expect("a directory");
    let image = dir.path().join("v.lane");
    let v = create(&image);
    v.write_file("/kept", [7; 300_000]).expect("write");
    let held = v.write_file("/held", [8; 100_000]).expect("write").ino;
    v.hold(held).expect("hold");
    v.unlink(&OWNER, v.root(), b"held").expect("unlink");
    let snapshot = v.snapshot(MEMORY).expect("a snapshot");
    v.remove_all("/kept").expect("removed");
    v.write_file("/other", [9; 500_000]).expect("write");
    drop(v.snapshot(MEMORY).expect("a snapshot"));
    assert_sound(&snapshot.open(Access::Read).expect("open"));
    let copied = copy(&snapshot);
    assert_eq!(copied.read_file("/kept").expect("read"), [7; 300_000]);
    assert_eq!(copied.resolve("/other").expect_err("later").code(), Code::NotFound);
    copied.write_file("/new", [1; 200_000]).expect("write");
    copied.sync().expect("sync");
    assert_sound(&copied);
    // A snapshot outlives its volume.
    v.close().expect("close");
    assert_eq!(copy(&snapshot).read_file("/kept").expect("read"), [7; 300_000]);
    drop(snapshot);
    // A volume that is open for reading has a snapshot, too.
    let v = Volume::open(&image, Access::Read).expect("open");
    let there = v.snapshot(0).expect("a snapshot").open(Access::Read).expect("open");
    assert_eq!(there.read_file("/other").expect("read"), [9; 500_000]);
    assert_eq!(there.superblock(), v.superblock());
}

#[test]
fn a_snapshot_without_memory_fails_and_the_volume_goes_on() {
    let dir = tempfile::tempdir().expect("a directory");
    let v = create(&dir.path().join("v.lane"));
    v.write_file("/f", [1; 10_000]).expect("write");
    let snapshot = v.snapshot(0).expect("a snapshot");
    let there = snapshot.open(Access::Read).expect("open");
    v.write_file("/g", [2; 10_000]).expect("write");
    assert_eq!(snapshot.given_up(), None);
    drop(v.snapshot(MEMORY).expect("a snapshot"));
    assert!(there.read_file("/f").is_err(), "the snapshot has no state any more");
    assert!(snapshot.given_up().is_some_and(|why| why.contains("changed that had not been read")));
    assert_eq!(v.read_file("/f").expect("read"), [1; 10_000]);
    assert_sound(&v);
    // Released blocks cost nothing.
    let snapshot = v.snapshot(0).expect("a snapshot");
    let there = snapshot.open(Access::Read).expect("open");
    for group in 0..there.group_count() {
        there.used_blocks(group).expect("used").iter().for_each(|window| snapshot.release(window));
    }
    v.write_file("/h", [3; 10_000]).expect("write");
    drop(v.snapshot(MEMORY).expect("a snapshot"));
    assert_eq!(snapshot.given_up(), None);
}

#[test]
fn a_volume_in_memory_has_no_snapshot() {
    let v =
        Volume::create_memory(&CreateOptions { size: 32 << 20, ..CreateOptions::default() }).expect("create");
    let error = v.snapshot(MEMORY).err().expect("refused").to_string();
    assert!(error.contains("a snapshot needs a device"), "{error}");
}
