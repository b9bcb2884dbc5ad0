//! Bounds on what commands do for a hostile file: on the data that they read, and on their memory.

use crate::common::{Ran, TestVolume, program, run, text};
use crate::hostile::peak;
use crate::hostile_files::{Slots, images, publications, published, with_files_of_one_block};
use crate::terminal::{is_image, leaves};
use clap::CommandFactory;
use lanefs_cli::cli::Cli;
use lanefs_testkit::watchdog::Watchdog;
use std::fs::{self, File};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

/// Size of the files: more than 1 GiB, which any publication may give, and less than a hundred times the
/// volume's size.
const SIZE: u64 = 3 << 29;

/// Runs the program; its output goes nowhere.
fn silent(args: &[&str]) -> Ran {
    let child = program().args(args).arg("--no-cache").stdin(Stdio::null()).stdout(Stdio::null()).output();
    let output = child.expect("the program runs");
    let err = String::from_utf8_lossy(&output.stderr).into_owned();
    Ran { code: output.status.code().unwrap_or(-1), bytes: Vec::new(), err }
}

#[test]
fn no_command_reads_more_of_a_publication_than_its_bytes_justify() {
    let v = TestVolume::sized("8M");
    let url = &published(&v, "one", &with_files_of_one_block(SIZE, b'\n', Slots::All));
    let (tree, copy) = (v.host("tree"), v.host("copy"));
    let refused = |args: &[&str]| {
        silent(args).ends(3).says("100 times the bytes that were given").says("--max-expansion");
    };
    refused(&["cat", url, "/a"]);
    refused(&["grep", url, "-c", "y", "/"]);
    refused(&["dups", url]);
    refused(&["shell", url, "-c", "ls /", "-c", "cat /a"]);
    // These ask for holes, by maps that have no block twice between two holes.
    let holes = &published(&v, "holes", &with_files_of_one_block(2 * SIZE, b'\n', Slots::EverySecond));
    refused(&["cp", holes, ":/a", text(&copy)]);
    for target in [&["--tar", "-"][..], &[text(&tree), "--no-sync"]] {
        let ran = silent(&[&["export", holes, "/", "--max-expansion", "1000"], target].concat());
        ran.ends(3).says("1000 times the bytes that were given").says("--max-expansion");
        silent(&[&["export", holes, "/"], target].concat()).ends(3).says("2 times the size of the volume");
    }
    assert!(!copy.exists() && !tree.join("a").exists(), "no file by half");
    // A multiple of the size that the volume claims is no reason to stop where the user wants more.
    silent(&["cat", url, "/a", "--max-expansion", "0"]).ends(0);
    silent(&["cat", url, "/a", "--max-expansion", "10000000"]).ends(0);
}

#[test]
fn zeros_and_holes_of_a_publication_are_read_all_the_same() {
    let v = TestVolume::sized("8M");
    let url = &published(&v, "zeros", &with_files_of_one_block(SIZE, 0, Slots::All));
    for args in [&["cat", url, "/a"][..], &["dups", url], &["grep", url, "-ac", "y", "/"]] {
        let ran = silent(args);
        assert!(
            matches!(ran.code, 0 | 1) && !ran.err.contains("times"),
            "{args:?}: {} {}",
            ran.code,
            ran.err
        );
    }
    v.run("truncate", &format!("-s {} /hole", 3_u64 << 40)).ends(0);
    let url = &format!("file://{}", text(&v.host("holes.store")));
    run(&["publish", text(&v.image), url]).ends(0);
    let (tree, copy) = (v.host("tree"), v.host("copy"));
    silent(&["export", url, "/", text(&tree)]).ends(0);
    silent(&["cp", url, ":/hole", text(&copy)]).ends(0);
    assert_eq!(copy.metadata().expect("a file").len(), 3 << 40);
}

/// Resident memory of a command at most, above that of the program with a small sound volume. (Address space
/// does not serve as a measure, because a volume reserves much more than it uses. The memory is asked for
/// every millisecond; to fault in 256 MiB takes many of these.)
const MOST_MEMORY: u64 = 256 << 20;
/// Bytes that a command writes at most, wherever they go: the bound on data for the larger images, which have
/// 16 MiB, and what it reports.
const MOST_WRITTEN: u64 = 100 * (16 << 20) + (64 << 20);

/// Runs of the commands, without options that all have. IMAGE is the image or URL, DIR an empty directory.
/// Each command of the parser that takes an image or a publication has one.
const RUNS: &[&str] = &[
    "info IMAGE",
    "import IMAGE DIR/some /imported",
    "sync IMAGE DIR /synced",
    "sync IMAGE DIR / --delete",
    "diff IMAGE DIR",
    "diff IMAGE IMAGE --checksum",
    "export IMAGE / DIR/tree --no-sync",
    "export IMAGE / --tar -",
    "ls IMAGE -laR /",
    "tree IMAGE /",
    "find IMAGE /",
    "find IMAGE --fuzzy ab /",
    "pick IMAGE --filter a",
    "grep IMAGE -c y /",
    "dups IMAGE",
    "inventory IMAGE --digest -o DIR/v.parquet",
    "du IMAGE -a /",
    "map IMAGE --svg DIR/map.svg",
    "stat IMAGE /a",
    "lookup IMAGE --stat /a /b /a/d1/blocks",
    "cat IMAGE /a",
    "write IMAGE /written",
    "cp IMAGE -r :/ DIR/copied",
    "cp IMAGE DIR/some :/copied",
    "cp IMAGE :/a :/copied",
    "mkdir IMAGE /made",
    "rmdir IMAGE /b",
    "rm IMAGE -r /a",
    "mv IMAGE /a /moved",
    "ln IMAGE /a /linked",
    "touch IMAGE /touched",
    "truncate IMAGE -s 100000 /a",
    "chattr IMAGE +C /",
    "chmod IMAGE 600 /a",
    "chown IMAGE 1:1 /a",
    "xattr IMAGE get user.small /a",
    "xattr IMAGE set user.k v /a",
    "xattr IMAGE list /a",
    "xattr IMAGE rm user.small /a",
    "fsck IMAGE --memory 64M",
    "fsck IMAGE --memory 64M --repair",
    "scrub IMAGE",
    "inspect IMAGE inode:1",
    "grow IMAGE +1M",
    "tune IMAGE --label hostile",
    "shell IMAGE -c ls",
    "publish IMAGE file://DIR/store",
    "pull IMAGE DIR/pulled",
    "warm IMAGE",
    "join IMAGE --remove /a --dry-run",
    "remote ls IMAGE",
    "remote info IMAGE",
    "remote verify IMAGE",
    "remote diff IMAGE IMAGE",
    "remote tag IMAGE second",
    "remote prune IMAGE --dry-run",
];

/// Commands whose image is served by another process, which `hostile.rs` watches, and those whose IMAGE is
/// made or is that of a mount.
const OTHERS: &[&str] = &["mount", "umount", "mkfs"];

#[test]
fn the_runs_have_every_command_that_takes_an_image_or_a_publication() {
    let mut commands = Vec::new();
    leaves(&Cli::command(), &[], &mut commands);
    for (words, command) in commands {
        let takes_one = command.get_positionals().any(|arg| {
            let is_url = |name: &clap::builder::Str| name.as_str() == "URL";
            is_image(arg) || arg.get_value_names().is_some_and(|names| names.iter().any(is_url))
        });
        // The image of `xattr` is an argument of the command above.
        let line = words.join(" ").replace("xattr ", "xattr IMAGE ");
        let has_run = RUNS.iter().any(|run| run.starts_with(&format!("{line} ")));
        let is_other = OTHERS.contains(&words[0].as_str());
        assert!(has_run || is_other || !(takes_one || words[0] == "xattr"), "no run of {line}");
    }
}

/// Bytes that a process has written so far.
fn written(pid: u32) -> u64 {
    let counts = fs::read_to_string(format!("/proc/{pid}/io")).unwrap_or_default();
    let line = counts.lines().find_map(|line| line.strip_prefix("wchar: "));
    line.and_then(|count| count.parse().ok()).unwrap_or(0)
}

/// Runs a command. Returns its exit code and the peak of its memory.
fn watched(dir: &Path, image: &str, line: &str, most: u64) -> (i32, u64) {
    let words = line.split(' ').map(|word| word.replace("IMAGE", image).replace("DIR", text(dir)));
    let errors = File::create(dir.join("errors")).expect("a file for errors");
    let mut child = program()
        .args(words)
        .args(["--cache", "32M", "--no-cache"])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(errors)
        .spawn()
        .expect("the program starts");
    let mut memory = 0;
    let status = loop {
        memory = memory.max(peak(child.id()));
        let bytes = written(child.id());
        if memory > most || bytes > MOST_WRITTEN {
            let _ = child.kill();
            panic!("{line}: {image}: {memory} bytes of memory, {bytes} written");
        }
        if let Some(status) = child.try_wait().expect("a child") {
            break status;
        }
        std::thread::sleep(Duration::from_millis(1));
    };
    let said = fs::read_to_string(dir.join("errors")).expect("messages are text");
    assert!(!said.contains("panicked") && !said.contains("a bug"), "{line}: {image}: {said}");
    let code = status.code().unwrap_or_else(|| panic!("{line}: {image}: {status}: {said}"));
    (code, memory)
}

/// An empty directory with a host file.
fn workplace() -> tempfile::TempDir {
    let dir = tempfile::tempdir().expect("a directory");
    fs::write(dir.path().join("some"), [7; 9000]).expect("a file");
    dir
}

/// Copies an image, and its holes as holes.
fn copy(from: &str, to: &Path) {
    let copied = Command::new("cp").args(["--sparse=auto", from]).arg(to).status().expect("cp");
    assert!(copied.success(), "{from}");
}

#[test]
fn every_command_on_every_hostile_file_takes_bounded_memory_and_writes_bounded_data() {
    let v = TestVolume::new();
    let dir = workplace();
    let (_, floor) = watched(dir.path(), text(&v.image), "ls IMAGE /", MOST_MEMORY);
    let most = floor + MOST_MEMORY;
    let watchdog = Watchdog::new("commands on hostile files");
    let is_of_store =
        |line: &str| ["pull ", "warm ", "join ", "remote "].iter().any(|one| line.starts_with(one));
    for image in images(v.dir.path()) {
        for line in RUNS.iter().filter(|line| !is_of_store(line)) {
            watchdog.at(|| format!("{line}: {image}"));
            let dir = workplace();
            let changed = dir.path().join("v.lane");
            copy(&image, &changed);
            let (code, _) = watched(dir.path(), text(&changed), line, most);
            assert!(code != 2, "{line}: {image}: the command line is wrong");
        }
    }
    for url in publications(&v) {
        for line in RUNS.iter().filter(|line| !line.starts_with("publish ")) {
            watchdog.at(|| format!("{line}: {url}"));
            watched(workplace().path(), &url, line, most);
        }
    }
}
