//! Memory of syncs: it goes with the names, and not with the lengths of their paths.

use super::*;
use rustix::fd::OwnedFd;
use rustix::fs::{AtFlags, CWD, Mode, OFlags, openat, unlinkat};
use std::process::Command;

/// The path of the names below it has 240,000 bytes.
const DEPTH: usize = 1200;
const NAME_BYTES: usize = 200;
const NAMES: usize = 1500;
/// Most bytes that a sync takes: the paths of all names would be more than 300 MB, for each side.
const MOST_BYTES: usize = 100 << 20;
/// Environment of the process that measures itself.
const DIR: &str = "LANEFS_TEST_MEMORY";

/// The largest resident memory of this process so far, in bytes.
fn peak() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<usize>().unwrap() << 10
}

fn bottom(tree: &Path, name: &str) -> OwnedFd {
    let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let top = openat(CWD, tree, flags, Mode::empty()).unwrap();
    (0..DEPTH).fold(top, |dir, _| openat(&dir, name, flags, Mode::empty()).unwrap())
}

fn write(dir: &OwnedFd, name: &str, content: &str) {
    let file = openat(dir, name, OFlags::CREATE | OFlags::WRONLY, Mode::RUSR | Mode::WUSR).unwrap();
    rustix::io::write(file, content.as_bytes()).unwrap();
}

#[test]
#[ignore = "run by `names_below_a_chain_longer_than_any_path_take_no_memory_for_it`"]
fn deep_names_child() {
    let Some(dir) = std::env::var_os(DIR) else { return };
    let (tree, name) = (Path::new(&dir).join("tree"), "d".repeat(NAME_BYTES));
    make_chain(&tree, &name, DEPTH);
    let bottom = bottom(&tree, &name);
    (0..NAMES).for_each(|number| write(&bottom, &format!("old{number}"), "old"));
    let volume = volume(64);
    let sync = |options: &SyncOptions| {
        let report = sync_tree(&volume, Side::Host(&tree), b"/in", options, &|_| (), control()).unwrap();
        assert_clean(&report.report);
        report.counts
    };
    sync(&deleting());
    for number in 0..NAMES {
        unlinkat(&bottom, format!("old{number}"), AtFlags::empty()).unwrap();
        write(&bottom, &format!("new{number}"), "new one");
    }
    let before = peak();
    let counts = sync(&SyncOptions { in_order: true, ..deleting() });
    assert_eq!((counts.added, counts.removed), (NAMES as u64, NAMES as u64));
    let more = peak() - before;
    assert!(more < MOST_BYTES, "{more} bytes");
}

#[test]
fn names_below_a_chain_longer_than_any_path_take_no_memory_for_it() {
    let temp = tempfile::tempdir().unwrap();
    let mut child = Command::new(std::env::current_exe().unwrap());
    child.args(["--ignored", "--exact", "sync::memory::deep_names_child"]).env(DIR, temp.path());
    let output = child.output().unwrap();
    remove_deep(&temp.path().join("tree"));
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
}
