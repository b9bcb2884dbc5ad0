//! Several processes that read one volume at the same time.

use lanefs::{Access, CreateOptions, FileContents, OpenOptions, PathSet, ReadFiles, Volume};
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Barrier;

const READERS: usize = 8;
const FILES: usize = 300;
const FILE_BYTES: usize = 20_000;

fn content(file: usize) -> Vec<u8> {
    (0..FILE_BYTES).map(|i| (i * 31 + file) as u8).collect()
}

fn paths() -> PathSet {
    (0..FILES).map(|file| format!("/d/{file}")).collect()
}

/// Makes a volume, and leaves it open.
fn fill(image: &Path) -> Volume {
    let volume =
        Volume::create(image, &CreateOptions { size: 64 << 20, ..CreateOptions::default() }).expect("create");
    volume.mkdir_all("/d", 0o755).expect("mkdir");
    for file in 0..FILES {
        volume.write_file(format!("/d/{file}"), content(file)).expect("write");
    }
    volume
}

/// Reads all files, and returns the memory for blocks that this takes at most, in bytes.
fn read_all(volume: &Volume) -> u64 {
    let mut files = FileContents::new();
    for _ in 0..2 {
        assert_eq!(volume.read_files(&ReadFiles::default(), &paths(), &mut files).expect("read"), FILES);
        assert!(files.iter().enumerate().all(|(file, bytes)| bytes == Ok(&content(file)[..])));
    }
    volume.stats().blocks_allowed * 4096
}

/// Started by the test below in a process of its own: opens the volume, says so, waits, and reads.
#[test]
#[ignore = "the child that `processes_read_one_volume_at_the_same_time` starts"]
fn a_reader_process() {
    let Some(image) = std::env::var_os("LANEFS_TEST_IMAGE") else { return };
    let volume = Volume::open(image, OpenOptions::one_of_many_readers()).expect("open");
    println!("open");
    let mut line = String::new();
    std::io::stdin().read_line(&mut line).expect("the parent's line");
    assert_eq!(line, "read\n");
    assert!(volume.engine().contains("page cache"), "{}", volume.engine());
    assert!(read_all(&volume) <= 64 << 20);
    println!("done");
}

fn start(image: &Path) -> Child {
    let mut command = Command::new(std::env::current_exe().expect("this program"));
    command
        .args(["--ignored", "--exact", "--nocapture", "readers::a_reader_process"])
        .env("LANEFS_TEST_IMAGE", image);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("a process")
}

/// Waits until a process says this.
fn wait_for(out: &mut impl BufRead, word: &str) {
    let mut line = String::new();
    while !line.trim_end().ends_with(word) {
        line.clear();
        assert!(out.read_line(&mut line).expect("its output") > 0, "it ends before it says {word}");
    }
}

#[test]
fn processes_read_one_volume_at_the_same_time() {
    let dir = tempfile::tempdir().expect("a directory");
    let image = dir.path().join("volume.lane");
    fill(&image).close().expect("close");
    let mut readers: Vec<Child> = (0..READERS).map(|_| start(&image)).collect();
    let mut outs: Vec<_> =
        readers.iter_mut().map(|reader| BufReader::new(reader.stdout.take().expect("a pipe"))).collect();
    outs.iter_mut().for_each(|out| wait_for(out, "open"));
    // All have it open now. No writer gets it, and one more reader does.
    let error = Volume::open(&image, Access::Write).expect_err("refused").to_string();
    assert!(error.contains("in use by"), "{error}");
    let is_named = |reader: &Child| error.contains(&format!("process {} ", reader.id()));
    assert!(readers.iter().any(is_named), "names no reader: {error}");
    read_all(&Volume::open(&image, Access::Read).expect("open"));
    for reader in &mut readers {
        reader.stdin.take().expect("a pipe").write_all(b"read\n").expect("write");
    }
    outs.iter_mut().for_each(|out| wait_for(out, "done"));
    assert!(readers.into_iter().all(|mut reader| reader.wait().expect("its end").success()));
    Volume::open(&image, Access::Write).expect("free again");
}

#[test]
fn a_reader_of_a_volume_with_a_writer_is_told_about_it() {
    let dir = tempfile::tempdir().expect("a directory");
    let image = dir.path().join("volume.lane");
    let _writer = fill(&image);
    let error = Volume::open(&image, Access::Read).expect_err("refused").to_string();
    assert!(error.contains("in use by this process"), "{error}");
    assert!(error.contains("mount"), "says nothing to do: {error}");
}

#[test]
fn readers_that_come_at_once_after_a_crash_all_open_the_volume() {
    let dir = tempfile::tempdir().expect("a directory");
    let image = dir.path().join("volume.lane");
    let volume = fill(&image);
    volume.sync().expect("sync");
    volume.write_file("/d/last", b"in the journal only").expect("write");
    volume.sync().expect("sync");
    for round in 0..20 {
        let copy = dir.path().join("copy.lane");
        std::fs::copy(&image, &copy).expect("copy");
        let at_once = Barrier::new(READERS);
        let open = || {
            at_once.wait();
            Volume::open(&copy, OpenOptions::one_of_many_readers())
        };
        let opened: Vec<_> = std::thread::scope(|scope| {
            let readers: Vec<_> = (0..READERS).map(|_| scope.spawn(open)).collect();
            readers.into_iter().map(|reader| reader.join().expect("a reader")).collect()
        });
        for volume in opened {
            let volume = volume.unwrap_or_else(|error| panic!("round {round}: {error}"));
            assert_eq!(volume.read_file("/d/last").expect("read"), b"in the journal only");
        }
    }
}

#[test]
fn a_reader_changes_no_byte_of_a_volume_that_was_not_closed() {
    let dir = tempfile::tempdir().expect("a directory");
    let image = dir.path().join("volume.lane");
    let volume = fill(&image);
    let orphan = volume.write_file("/d/orphan", b"held").expect("write").ino;
    volume.hold(orphan).expect("hold");
    volume.remove_file("/d/orphan").expect("remove");
    volume.write_file("/d/last", b"in the journal only").expect("write");
    volume.sync().expect("sync");
    let copy = dir.path().join("copy.lane");
    std::fs::copy(&image, &copy).expect("copy");
    let before = std::fs::read(&copy).expect("read");
    for _ in 0..2 {
        let volume = Volume::open(&copy, Access::Read).expect("open");
        assert_eq!(volume.read_file("/d/last").expect("read"), b"in the journal only");
        read_all(&volume);
        let report = volume.check(false, &|_, _| {}).expect("check");
        assert!(report.findings.is_empty() && report.orphans == 0, "{report:?}");
        // It counts as closed, so it can be published.
        volume.used_blocks(0).expect("used blocks");
        drop(volume);
        assert!(std::fs::read(&copy).expect("read") == before, "the image has changed");
    }
    // A writer recovers it for good.
    Volume::open(&copy, Access::Write).expect("open").close().expect("close");
    assert!(std::fs::read(&copy).expect("read") != before);
}
