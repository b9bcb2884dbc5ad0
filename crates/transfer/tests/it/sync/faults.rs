//! Files that fail, a volume that is full, an interruption, a power cut: the failure is named, the rest is
//! done, and the next sync finishes the work.

use super::edits::Editor;
use super::*;
use lanefs::{Access, CreateOptions, Device, IoBuf, IoBufMut, OpenOptions};
use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::SeqCst};
use std::time::Duration;

fn quiet(_: &Difference) {}

/// Syncs with a function that is called often, before each name and within large files.
fn sync_while(
    volume: &dyn FileSystem,
    tree: &Path,
    options: &SyncOptions,
    interrupt: &(dyn Fn() -> bool + Sync),
) -> SyncReport {
    let control = Control { interrupt, progress: &Silent };
    sync_tree(volume, Side::Host(tree), b"/in", options, &quiet, control).unwrap()
}

#[test]
fn names_that_vanish_meanwhile_are_named_and_the_rest_is_done() {
    let temp = tempfile::tempdir().unwrap();
    let tree = temp.path().join("tree");
    fs::create_dir(&tree).unwrap();
    for name in 0..20 {
        fs::write(tree.join(format!("f{name}")), "content").unwrap();
    }
    let volume = volume(64);
    let calls = AtomicUsize::new(0);
    // The directory is listed after the first call.
    let vanish = || {
        if calls.fetch_add(1, SeqCst) == 5 {
            for name in 0..20 {
                if name % 2 == 0 {
                    let _ = fs::remove_file(tree.join(format!("f{name}")));
                }
            }
        }
        false
    };
    let report = sync_while(&volume, &tree, &deleting(), &vanish).report;
    assert_eq!(report.exit_code(), EXIT_PARTLY);
    assert!((5..=10).contains(&report.problems.len()), "{:?}", report.problems);
    assert!(report.problems.iter().all(|problem| problem.what == "vanished meanwhile"));
    sync(&volume, &tree, &deleting());
    assert_volume_has(&volume, &tree);
}

#[test]
fn a_file_that_changes_while_it_is_read_is_copied_again_and_named_if_it_goes_on() {
    for changes in [1, 100] {
        let temp = tempfile::tempdir().unwrap();
        let tree = temp.path().join("tree");
        fs::create_dir(&tree).unwrap();
        let path = tree.join("large");
        fs::write(&path, noise(9 << 20)).unwrap();
        fs::write(tree.join("other"), "other").unwrap();
        let volume = volume(128);
        volume.mkdir_all("/in", 0o755).unwrap();
        volume.write_file("/in/large", "old").unwrap();
        let (calls, changed) = (AtomicUsize::new(0), AtomicUsize::new(0));
        let change = || {
            // A file of 9 MiB is copied in three pieces, with a call before each.
            let is_inside = volume.resolve("/in").unwrap().links == 2 && calls.fetch_add(1, SeqCst) > 3;
            if is_inside && changed.fetch_add(1, SeqCst) < changes {
                let len = fs::metadata(&path).unwrap().len();
                fs::OpenOptions::new().write(true).open(&path).unwrap().set_len(len + 1).unwrap();
            }
            // Nobody sees half of the file.
            let there = volume.read_file("/in/large").unwrap();
            assert!(there == b"old" || there.len() >= 9 << 20, "{} bytes", there.len());
            false
        };
        let report = sync_while(&volume, &tree, &deleting(), &change).report;
        let is_named = report
            .problems
            .iter()
            .any(|problem| problem.what.contains("changed each of the 3 times that it was read; "));
        assert_eq!(is_named, changes == 100, "{:?}", report.problems);
        sync(&volume, &tree, &deleting());
        assert_volume_has(&volume, &tree);
    }
}

#[test]
fn a_full_volume_stops_the_sync_which_goes_on_when_there_is_room() {
    let temp = tempfile::tempdir().unwrap();
    let tree = temp.path().join("tree");
    fs::create_dir_all(tree.join("d")).unwrap();
    for name in 0..30 {
        fs::write(tree.join(format!("d/f{name:02}")), noise(1 << 20)).unwrap();
    }
    let volume = volume(32);
    volume.mkdir_all("/other", 0o755).unwrap();
    volume.write_file("/other/large", noise(12 << 20)).unwrap();
    let (report, found) = sync_with(&volume, &tree, &deleting());
    assert_eq!(report.report.exit_code(), EXIT_STOPPED, "{:?}", report.report.stopped);
    assert!(found.len() > 5 && found.len() < 30, "{}", found.len());
    assert_sound(&volume);
    for entry in volume.read_dir("/in/d").unwrap() {
        let name = String::from_utf8(entry.unwrap().name).unwrap();
        let content = volume.read_file(format!("/in/d/{name}")).unwrap();
        assert!(content == fs::read(tree.join("d").join(&name)).unwrap(), "{name} is not whole");
    }
    volume.remove_file("/other/large").unwrap();
    for name in 20..30 {
        fs::remove_file(tree.join(format!("d/f{name:02}"))).unwrap();
    }
    sync(&volume, &tree, &deleting());
    assert_volume_has(&volume, &tree);
}

#[test]
fn an_interruption_at_any_call_leaves_whole_files_and_the_next_sync_finishes() {
    let temp = tempfile::tempdir().unwrap();
    let tree = temp.path().join("tree");
    let mut editor = Editor::new(31, &tree);
    let volume = volume(64);
    let mut interrupted = 0;
    for limit in (0..60).step_by(3) {
        editor.edit(30);
        let calls = AtomicUsize::new(0);
        let interrupt = || calls.fetch_add(1, SeqCst) >= limit;
        let report = sync_while(&volume, &tree, &deleting(), &interrupt).report;
        interrupted += usize::from(report.exit_code() == EXIT_INTERRUPTED);
        assert_sound(&volume);
        sync(&volume, &tree, &deleting());
        assert_volume_has(&volume, &tree);
    }
    assert!(interrupted > 10, "{interrupted}");
}

/// Syncs until a difference `is_last`, after which the caller interrupts. Returns the number of differences.
fn sync_until(volume: &Volume, tree: &Path, is_last: &(dyn Fn(usize, &Difference) -> bool + Sync)) -> usize {
    let (found, interrupted) = (AtomicUsize::new(0), AtomicBool::new(false));
    let receiver = |difference: &Difference| {
        if is_last(found.fetch_add(1, SeqCst), difference) {
            interrupted.store(true, SeqCst);
        }
    };
    let control = Control { interrupt: &|| interrupted.load(SeqCst), progress: &Silent };
    let report = sync_tree(volume, Side::Host(tree), b"/in", &deleting(), &receiver, control).unwrap().report;
    assert_eq!(report.exit_code(), EXIT_INTERRUPTED);
    found.into_inner()
}

#[test]
fn an_interruption_ends_at_once_however_deep_and_wide_the_work_is() {
    let temp = tempfile::tempdir().unwrap();
    let (tree, empty) = (temp.path().join("tree"), temp.path().join("empty"));
    make_chain(&tree, "d", 600);
    fs::create_dir(&empty).unwrap();
    let volume = volume(64);
    // The directories of the chain are not completed any more.
    assert_eq!(sync_until(&volume, &tree, &|_, difference| difference.path.ends_with(b"bottom")), 1);
    sync(&volume, &tree, &deleting());
    assert_volume_has(&volume, &tree);
    assert_eq!(sync_until(&volume, &empty, &|count, _| count == 9), 10);
    remove_deep(&tree);
    volume.remove_all("/in").unwrap();
    volume.mkdir_all("/in", 0o755).unwrap();
    for name in 0..1000 {
        volume.write_file(format!("/in/{name}"), "").unwrap();
    }
    assert_eq!(sync_until(&volume, &empty, &|count, _| count == 9), 10);
    sync(&volume, &empty, &deleting());
    assert_sound(&volume);
}

#[test]
#[ignore = "run by `files_that_cannot_be_read_are_named_and_the_rest_is_done`"]
fn without_root_child() {
    let Some(dir) = std::env::var_os("LANEFS_TEST_TREE") else { return };
    let tree = Path::new(&dir).join("tree");
    let volume = volume(64);
    volume.mkdir_all("/in/closed", 0o755).unwrap();
    volume.write_file("/in/secret", "old").unwrap();
    volume.write_file("/in/closed/inner", "old").unwrap();
    let (report, _) = sync_with(&volume, &tree, &deleting());
    let mut problems: Vec<String> = report.report.problems.iter().map(ToString::to_string).collect();
    problems.sort();
    assert_eq!(problems.len(), 2, "{problems:?}");
    for (problem, name) in problems.iter().zip(["closed", "secret"]) {
        assert!(problem.ends_with(&format!("{name}: cannot be read: Permission denied")), "{problem}");
    }
    assert_eq!(report.report.exit_code(), EXIT_PARTLY);
    // The others are there, and what could not be read stays as it was.
    assert_eq!(volume.read_file("/in/open").unwrap(), b"open");
    for file in ["/in/secret", "/in/closed/inner"] {
        assert_eq!(volume.read_file(file).unwrap(), b"old", "{file}");
    }
    assert_sound(&volume);
}

#[test]
fn files_that_cannot_be_read_are_named_and_the_rest_is_done() {
    let temp = tempfile::tempdir().unwrap();
    let tree = temp.path().join("tree");
    fs::create_dir_all(tree.join("closed")).unwrap();
    for (name, mode) in [("open", 0o644), ("secret", 0o000), ("closed", 0o000)] {
        let path = tree.join(name);
        if name != "closed" {
            fs::write(&path, name).unwrap();
        }
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    }
    as_another_user(temp.path(), "sync::faults::without_root_child");
    fs::set_permissions(tree.join("closed"), fs::Permissions::from_mode(0o700)).unwrap();
}

#[test]
fn a_chain_longer_than_any_path_follows_and_goes_again() {
    let temp = tempfile::tempdir().unwrap();
    let tree = temp.path().join("tree");
    let name = "d".repeat(200);
    make_chain(&tree, &name, 600);
    let volume = volume(64);
    assert_eq!(sync(&volume, &tree, &SyncOptions::default()).len(), 602);
    assert_eq!(sync(&volume, &tree, &deleting()), [""; 0]);
    let mut dir = volume.resolve("/in").unwrap().ino;
    for _ in 0..600 {
        dir = FileSystem::lookup(&volume, dir, name.as_bytes()).unwrap().0;
    }
    let (bottom, _) = FileSystem::lookup(&volume, dir, b"bottom").unwrap();
    let mut content = [0; 20];
    let len = FileSystem::read(&volume, bottom, 0, &mut content).unwrap();
    assert_eq!(&content[..len], b"down here");
    remove_deep(&tree);
    fs::create_dir(&tree).unwrap();
    assert_eq!(sync(&volume, &tree, &deleting()).len(), 602);
    assert_volume_has(&volume, &tree);
}

#[test]
fn another_file_system_is_not_entered_and_its_copy_stays() {
    let temp = tempfile::tempdir().unwrap();
    let inner = temp.path().join("mounted");
    fs::create_dir(&inner).unwrap();
    let mount = |program: &str, arguments: &[&str]| {
        Command::new(program).args(arguments).arg(&inner).status().is_ok_and(|status| status.success())
    };
    if !is_root() || !mount("mount", &["-t", "tmpfs", "-o", "size=1m", "none"]) {
        eprintln!("SKIPPED: this user may not mount a tmpfs");
        return;
    }
    fs::write(inner.join("file"), "x").unwrap();
    let volume = volume(64);
    volume.mkdir_all("/in/mounted", 0o755).unwrap();
    volume.write_file("/in/mounted/old", "old").unwrap();
    let options = SyncOptions { one_file_system: true, ..deleting() };
    let outcome = sync_with(&volume, temp.path(), &options);
    assert!(mount("umount", &[]));
    assert_clean(&outcome.0.report);
    assert!(!volume.exists("/in/mounted/file").unwrap());
    assert_eq!(volume.read_file("/in/mounted/old").unwrap(), b"old");
}

const SIZE: u64 = 32 << 20;

/// A device in memory that loses its power after so many flushes: what is written later is lost.
#[derive(Clone)]
struct Cut {
    bytes: Arc<parking_lot::Mutex<Vec<u8>>>,
    flushes: Arc<AtomicU64>,
}

impl Cut {
    fn is_on(&self) -> bool {
        self.flushes.load(SeqCst) > 0
    }
}

impl Device for Cut {
    fn len(&self) -> u64 {
        SIZE
    }
    fn read_at(&self, at: u64, mut buffer: IoBufMut<'_>) -> io::Result<()> {
        let len = buffer.len();
        buffer.copy_from(&self.bytes.lock()[at as usize..][..len]);
        Ok(())
    }
    fn write_at(&self, at: u64, data: IoBuf<'_>) -> io::Result<()> {
        if self.is_on() {
            data.copy_to(&mut self.bytes.lock()[at as usize..][..data.len()]);
        }
        Ok(())
    }
    fn flush(&self) -> io::Result<()> {
        let _ = self.flushes.fetch_update(SeqCst, SeqCst, |left| Some(left.saturating_sub(1)));
        Ok(())
    }
    fn discard(&self, _at: u64, _len: u64) -> io::Result<()> {
        Ok(())
    }
    fn resize(&self, _len: u64) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn after_a_power_cut_at_any_commit_the_next_sync_comes_to_the_same() {
    let temp = tempfile::tempdir().unwrap();
    let tree = temp.path().join("tree");
    let mut editor = Editor::new(57, &tree);
    let bytes = Arc::new(parking_lot::Mutex::new(vec![0; SIZE as usize]));
    let device = Cut { bytes, flushes: Arc::new(AtomicU64::new(u64::MAX)) };
    let create = CreateOptions { size: SIZE, ..CreateOptions::default() };
    Volume::create_device(Box::new(device.clone()), &create).unwrap().close().unwrap();
    let open = || {
        let options = OpenOptions { commit_every: Duration::MAX, ..OpenOptions::from(Access::Write) };
        Volume::open_device(Box::new(device.clone()), options).unwrap()
    };
    let commit = CommitInterval { names: 2, bytes: 1 << 14, time: Duration::MAX, rest: 0 };
    let options = SyncOptions { commit, ..deleting() };
    let mut cuts = 0;
    for round in 0..36 {
        // Early and late ones.
        let flushes = 1 + round % 12;
        editor.edit(60);
        let volume = open();
        device.flushes.store(flushes, SeqCst);
        sync_with(&volume, &tree, &options);
        cuts += usize::from(!device.is_on());
        drop(volume);
        device.flushes.store(u64::MAX, SeqCst);
        let volume = open();
        assert_sound(&volume);
        sync(&volume, &tree, &options);
        assert_volume_has(&volume, &tree);
        volume.close().unwrap();
    }
    assert!(cuts > 10, "{cuts}");
}
