//! Syncs that pass over the directories that are as the last sync has found them.

use super::edits::Editor;
use super::*;
use lanefs::{Attr, CreateOptions, SetAttr};
use rustix::fs::{CWD, RenameFlags, XattrFlags, renameat_with, setxattr};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

/// The record of the last sync into a volume of a test. A closed image stands for its state, which nothing
/// but the syncs changes.
struct Recorder {
    image: ImageState,
    record: Vec<u8>,
    _temp: tempfile::TempDir,
}

impl Recorder {
    /// `None` where the file system for temporary files has no times that tell every change.
    fn new() -> Option<Recorder> {
        let temp = tempfile::tempdir().unwrap();
        let path = temp.path().join("v.lane");
        let options = CreateOptions { size: 8 << 20, ..CreateOptions::default() };
        Volume::create(&path, &options).unwrap().close().unwrap();
        let Some(image) = ImageState::of(&path) else {
            eprintln!("SKIPPED: the times of the file system for temporary files do not tell every change");
            return None;
        };
        Some(Recorder { image, record: Vec::new(), _temp: temp })
    }

    /// Options with the record.
    fn with(&self, options: &SyncOptions) -> SyncOptions {
        let last = LastSync::from_record(&self.record, &self.image);
        SyncOptions { last_sync: Some(Arc::new(last)), ..options.clone() }
    }

    /// Takes the record that a sync has made; false where it has made none.
    fn take(&mut self, options: &SyncOptions) -> bool {
        let next = options.last_sync.as_ref().and_then(|last| last.next_record(&self.image));
        let is_there = next.is_some();
        self.record = next.unwrap_or_default();
        is_there
    }

    /// Syncs, and records that. Changes a moment before would not be recorded.
    fn sync(&mut self, volume: &Volume, tree: &Path, options: &SyncOptions) -> Vec<String> {
        settle();
        let options = self.with(options);
        let lines = sync(volume, tree, &options);
        assert!(self.take(&options));
        lines
    }

    /// The directories that a sync would compare. A name that only the volume has is found in these alone.
    fn compared(&self, volume: &Volume, tree: &Path, options: &SyncOptions) -> Vec<String> {
        let dirs = directories(tree);
        let lie = |dir: &str| format!("/in{dir}/lie");
        let before: Vec<Attr> = dirs.iter().map(|dir| volume.resolve(format!("/in{dir}")).unwrap()).collect();
        for dir in &dirs {
            volume.write_file(lie(dir), "").unwrap();
        }
        let options = SyncOptions { dry_run: true, ..self.with(options) };
        let (report, lines) = sync_with(volume, tree, &options);
        assert_clean(&report.report);
        assert_eq!(options.last_sync.as_ref().and_then(|last| last.next_record(&self.image)), None);
        for (dir, Attr { ino, mtime, .. }) in dirs.iter().zip(before) {
            volume.remove_file(lie(dir)).unwrap();
            let set = SetAttr { mtime: Some(mtime), ..SetAttr::default() };
            FileSystem::setattr(volume, ino, set).unwrap();
        }
        let of = |line: &String| line.strip_prefix("*deleting   ")?.strip_suffix("lie").map(str::to_owned);
        let mut compared: Vec<String> = lines.iter().filter_map(of).map(|dir| format!("/{dir}")).collect();
        compared.sort();
        compared
    }
}

/// Waits until the host gives other times to changes.
fn settle() {
    let begin = SystemTime::now();
    while SystemTime::now() < begin + Duration::from_millis(150) {
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// The paths of all directories below a tree, with a slash in front; that of the top is empty.
fn directories(tree: &Path) -> Vec<String> {
    let mut found = vec![String::new()];
    let mut at = 0;
    while let Some(dir) = found.get(at).cloned() {
        at += 1;
        for entry in fs::read_dir(tree.join(dir.trim_start_matches('/'))).unwrap() {
            let entry = entry.unwrap();
            if entry.file_type().unwrap().is_dir() {
                found.push(format!("{dir}/{}", entry.file_name().to_str().unwrap()));
            }
        }
    }
    found
}

/// A tree of some directories.
fn small_tree(tree: &Path) {
    for dir in ["a/b/c", "a/d", "e"] {
        fs::create_dir_all(tree.join(dir)).unwrap();
    }
    // Files of one size and time would be the same by the rules of a sync.
    for (size, file) in ["f", "a/f", "a/b/f", "a/b/g", "a/b/c/f", "a/d/f", "e/f", "e/g"].iter().enumerate() {
        fs::write(tree.join(file), vec![7; 100 + size]).unwrap();
    }
}

fn set_xattr(path: &Path, name: &str) {
    setxattr(path, name, b"value", XattrFlags::empty()).unwrap();
}

#[test]
fn directories_that_are_as_they_were_are_passed_over() {
    let Some(mut recorder) = Recorder::new() else { return };
    let temp = tempfile::tempdir().unwrap();
    let tree = temp.path().join("tree");
    small_tree(&tree);
    let volume = volume(64);
    let all = ["/", "/a/", "/a/b/", "/a/b/c/", "/a/d/", "/e/"];
    recorder.sync(&volume, &tree, &deleting());
    assert_eq!(recorder.compared(&volume, &tree, &deleting()), [""; 0]);
    let before = recorder.record.clone();
    let (report, _) = sync_with(&volume, &tree, &recorder.with(&deleting()));
    assert_eq!((report.counts.compared, report.counts.passed_over), (14, 14));
    assert_eq!(recorder.sync(&volume, &tree, &deleting()), [""; 0]);
    assert!(recorder.record == before, "the same record");
    // An attribute of a file, which leaves its other times.
    set_xattr(&tree.join("a/b/g"), "user.of");
    assert_eq!(recorder.compared(&volume, &tree, &deleting()), ["/a/b/"]);
    assert_eq!(recorder.sync(&volume, &tree, &deleting()), [".f........x a/b/g"]);
    assert_eq!(recorder.compared(&volume, &tree, &deleting()), [""; 0]);
    // A file that has just changed may change once more at the same time.
    fs::write(tree.join("e/f"), "other").unwrap();
    let options = recorder.with(&deleting());
    assert_eq!(sync(&volume, &tree, &options), [">f.st...... e/f"]);
    assert!(recorder.take(&options));
    let clock_moves_on = recorder.compared(&volume, &tree, &deleting());
    assert!(clock_moves_on.is_empty() || clock_moves_on == ["/e/"], "{clock_moves_on:?}");
    recorder.sync(&volume, &tree, &deleting());
    // Contents are compared in all.
    let checksum = SyncOptions { checksum: true, ..deleting() };
    assert_eq!(recorder.compared(&volume, &tree, &checksum), all);
    assert_eq!(recorder.sync(&volume, &tree, &checksum), [""; 0]);
    assert_eq!(recorder.compared(&volume, &tree, &deleting()), [""; 0]);
}

#[test]
fn a_directory_that_is_open_is_synced_whatever_has_its_name() {
    let Some(mut recorder) = Recorder::new() else { return };
    let temp = tempfile::tempdir().unwrap();
    let [tree, other, away] = ["tree", "other", "away"].map(|name| temp.path().join(name));
    small_tree(&tree);
    fs::create_dir(&other).unwrap();
    fs::write(other.join("f"), "of the other directory").unwrap();
    let volume = volume(64);
    let top = HostTop::open(&tree, "cannot sync").unwrap();
    fs::rename(&tree, &away).unwrap();
    fs::rename(&other, &tree).unwrap();
    settle();
    let options = recorder.with(&deleting());
    assert_eq!(top.id().ino, away.metadata().unwrap().ino());
    let report = sync_tree(&volume, Side::Open(&top), b"/in", &options, &|_| (), control()).unwrap();
    assert_clean(&report.report);
    assert_volume_has(&volume, &away);
    // The record is that of the directory which was open, too.
    assert!(recorder.take(&options));
    assert_eq!(recorder.compared(&volume, &away, &deleting()), [""; 0]);
    let (report, _) = sync_with(&volume, &tree, &recorder.with(&deleting()));
    assert_eq!(report.counts.passed_over, 0);
    assert_volume_has(&volume, &tree);
}

#[test]
fn each_change_of_the_tree_is_found() {
    let Some(mut recorder) = Recorder::new() else { return };
    let temp = tempfile::tempdir().unwrap();
    let tree = temp.path().join("tree");
    small_tree(&tree);
    let volume = volume(64);
    recorder.sync(&volume, &tree, &deleting());
    let at = |name: &str| tree.join(name);
    let exchange = |a: &str, b: &str| {
        renameat_with(CWD, at(a), CWD, at(b), RenameFlags::EXCHANGE).unwrap();
    };
    let same_time = |name: &str| {
        let time = at(name).metadata().unwrap().modified().unwrap();
        fs::write(at(name), "0123456789").unwrap();
        fs::File::open(at(name)).unwrap().set_times(fs::FileTimes::new().set_modified(time)).unwrap();
    };
    let mode = |name: &str, mode| fs::set_permissions(at(name), fs::Permissions::from_mode(mode)).unwrap();
    let edits: [(&str, &dyn Fn()); 16] = [
        ("a mode", &|| mode("a/b/c/f", 0o600)),
        ("a mode of a directory", &|| mode("a/d", 0o700)),
        ("an attribute of a directory", &|| set_xattr(&at("a/b/c"), "user.of")),
        ("another size at the same time", &|| same_time("a/b/f")),
        ("a new file", &|| fs::write(at("a/d/new"), "new").unwrap()),
        ("a file that is gone", &|| fs::remove_file(at("a/b/g")).unwrap()),
        ("another name", &|| fs::rename(at("e/g"), at("e/h")).unwrap()),
        ("names exchanged", &|| exchange("e/f", "e/h")),
        ("names exchanged over directories", &|| exchange("e/f", "a/d/f")),
        ("directories exchanged", &|| exchange("a/b/c", "a/d")),
        ("a directory moved", &|| fs::rename(at("a/b/c"), at("e/c")).unwrap()),
        ("a directory moved up", &|| fs::rename(at("a/b"), at("b")).unwrap()),
        ("a second name", &|| fs::hard_link(at("b/f"), at("e/second")).unwrap()),
        ("the content by its second name", &|| fs::write(at("e/second"), "more").unwrap()),
        ("a name less", &|| fs::remove_file(at("b/f")).unwrap()),
        ("a link in place of a file", &|| {
            fs::remove_file(at("a/f")).unwrap();
            std::os::unix::fs::symlink("x", at("a/f")).unwrap();
        }),
    ];
    for (what, edit) in edits {
        edit();
        assert_ne!(recorder.sync(&volume, &tree, &deleting()), [""; 0], "{what}");
        assert_volume_has(&volume, &tree);
        assert_eq!(recorder.sync(&volume, &tree, &deleting()), [""; 0], "{what}");
    }
}

#[test]
fn of_a_large_directory_few_files_are_compared_while_its_names_are_the_same() {
    let Some(mut recorder) = Recorder::new() else { return };
    let temp = tempfile::tempdir().unwrap();
    let tree = temp.path().join("tree");
    fs::create_dir_all(tree.join("d/e")).unwrap();
    for number in 0..64 {
        fs::write(tree.join(format!("d/{number}")), vec![7; 100 + number]).unwrap();
        fs::write(tree.join(format!("d/e/{number}")), vec![7; 200 + number]).unwrap();
    }
    let volume = volume(64);
    recorder.sync(&volume, &tree, &deleting());
    let at = |name: &str| tree.join(name);
    let edits: [(&str, u64, &dyn Fn()); 9] = [
        ("content", 20, &|| fs::write(at("d/5"), "longer").unwrap()),
        ("a mode", 20, &|| fs::set_permissions(at("d/6"), fs::Permissions::from_mode(0o600)).unwrap()),
        ("an attribute", 20, &|| set_xattr(&at("d/e/7"), "user.of")),
        ("two files", 40, &|| ["d/8", "d/e/9"].iter().for_each(|name| fs::write(at(name), "two").unwrap())),
        ("all files", 200, &|| (0..64).for_each(|name| fs::write(at(&format!("d/{name}")), "all").unwrap())),
        ("a second name elsewhere", 200, &|| fs::hard_link(at("d/10"), at("second")).unwrap()),
        ("a name more", 200, &|| fs::write(at("d/new"), "new").unwrap()),
        ("a name less, and another content", 200, &|| {
            fs::remove_file(at("d/new")).unwrap();
            fs::write(at("d/11"), "other").unwrap();
        }),
        ("a name for another one", 200, &|| fs::rename(at("d/e/12"), at("d/e/renamed")).unwrap()),
    ];
    for (what, most, edit) in edits {
        edit();
        settle();
        let options = recorder.with(&deleting());
        let (report, lines) = sync_with(&volume, &tree, &options);
        assert_clean(&report.report);
        assert!(recorder.take(&options) && lines != [""; 0], "{what}");
        let compared = report.counts.compared - report.counts.passed_over;
        assert!(compared <= most, "{what}: {compared} compared");
        assert_volume_has(&volume, &tree);
        assert_eq!(recorder.sync(&volume, &tree, &deleting()), [""; 0], "{what}");
    }
}

#[test]
fn many_directories_of_which_files_have_changed_are_all_compared() {
    let Some(mut recorder) = Recorder::new() else { return };
    let temp = tempfile::tempdir().unwrap();
    let tree = temp.path().join("tree");
    for dir in 0..100 {
        fs::create_dir_all(tree.join(format!("d{dir}"))).unwrap();
        for file in 0..20 {
            fs::write(tree.join(format!("d{dir}/{file}")), "old").unwrap();
        }
    }
    let volume = volume(64);
    recorder.sync(&volume, &tree, &deleting());
    // One, some that wait for the end, and more than are compared together.
    for changed in [1, 7, 100] {
        for dir in 0..changed {
            fs::write(tree.join(format!("d{dir}/{}", dir % 20)), format!("new {changed}")).unwrap();
        }
        settle();
        let options = recorder.with(&deleting());
        let (report, lines) = sync_with(&volume, &tree, &options);
        assert_clean(&report.report);
        assert!(recorder.take(&options));
        assert_eq!(lines.len(), changed, "{lines:?}");
        let compared = report.counts.compared - report.counts.passed_over;
        assert!(compared <= changed as u64 * 10, "{compared} compared of {changed} directories");
        assert_volume_has(&volume, &tree);
    }
    assert_eq!(recorder.sync(&volume, &tree, &deleting()), [""; 0]);
}

#[test]
fn a_directory_of_very_many_names_is_walked_by_several_threads() {
    let Some(mut recorder) = Recorder::new() else { return };
    let temp = tempfile::tempdir().unwrap();
    let tree = temp.path().join("tree");
    let name = |number: usize| format!("wide/a-name-of-forty-bytes-with-its-number-{number:05}");
    fs::create_dir_all(tree.join("wide/d/e")).unwrap();
    (0..7000).for_each(|number| fs::write(tree.join(name(number)), "").unwrap());
    let volume = volume(64);
    let options = SyncOptions { threads: Some(4), ..deleting() };
    recorder.sync(&volume, &tree, &options);
    let (report, _) = sync_with(&volume, &tree, &recorder.with(&options));
    assert_eq!((report.counts.compared, report.counts.passed_over), (7004, 7004));
    let edits: [&dyn Fn(); 4] = [
        &|| fs::write(tree.join(name(6999)), "content").unwrap(),
        &|| fs::remove_file(tree.join(name(2500))).unwrap(),
        &|| fs::write(tree.join("wide/d/e/f"), "below").unwrap(),
        &|| fs::rename(tree.join("wide/d"), tree.join("wide/renamed")).unwrap(),
    ];
    for edit in edits {
        edit();
        assert_ne!(recorder.sync(&volume, &tree, &options), [""; 0]);
        assert_volume_has(&volume, &tree);
        assert_eq!(recorder.sync(&volume, &tree, &options), [""; 0]);
    }
}

#[test]
fn after_any_edits_the_volume_is_as_the_tree_with_a_record() {
    for seed in 301..=306 {
        let Some(mut recorder) = Recorder::new() else { return };
        let temp = tempfile::tempdir().unwrap();
        let tree = temp.path().join("tree");
        let mut editor = Editor::new(seed, &tree);
        editor.edit(60);
        let volume = volume(64);
        for round in 0..6 {
            let options = SyncOptions { threads: Some(2 + round), ..deleting() };
            settle();
            let dry_run = SyncOptions { dry_run: true, ..deleting() };
            let (report, wanted) = sync_with(&volume, &tree, &dry_run);
            assert_clean(&report.report);
            let done = recorder.sync(&volume, &tree, &deleting());
            assert_eq!(done, wanted, "seed {seed}, round {round}");
            assert_volume_has(&volume, &tree);
            assert_eq!(recorder.sync(&volume, &tree, &options), [""; 0], "seed {seed}, round {round}");
            editor.edit(4);
        }
    }
}

#[test]
fn a_record_of_other_rules_counts_for_nothing() {
    let Some(mut recorder) = Recorder::new() else { return };
    let temp = tempfile::tempdir().unwrap();
    let tree = temp.path().join("tree");
    small_tree(&tree);
    let volume = volume(64);
    recorder.sync(&volume, &tree, &deleting());
    let all = recorder.compared(&volume, &tree, &SyncOptions { one_file_system: true, ..deleting() });
    assert_eq!(all.len(), 6);
    // Another directory of the same names.
    let other = temp.path().join("other");
    let copied = std::process::Command::new("cp").arg("-a").args([&tree, &other]).status().unwrap();
    assert!(copied.success());
    assert_eq!(recorder.compared(&volume, &other, &deleting()), all);
    // Names that were left out, or left alone, are of no record.
    let filter = SyncOptions { filter: Filter::new(["a/"]).unwrap(), ..deleting() };
    let options = recorder.with(&filter);
    sync(&volume, &tree, &options);
    assert!(!recorder.take(&options));
    let keeps = SyncOptions { delete: false, ..deleting() };
    recorder.sync(&volume, &tree, &keeps);
    assert_eq!(recorder.compared(&volume, &tree, &deleting()), all);
    recorder.sync(&volume, &tree, &deleting());
    assert_eq!(recorder.compared(&volume, &tree, &deleting()), [""; 0]);
    if is_root() {
        // Another user may not see all attributes.
        let compared = std::thread::scope(|scope| {
            let as_other = || {
                rustix::thread::set_thread_uid(rustix::process::Uid::from_raw(65534)).unwrap();
                recorder.compared(&volume, &tree, &deleting())
            };
            fs::set_permissions(temp.path(), fs::Permissions::from_mode(0o755)).unwrap();
            scope.spawn(as_other).join().unwrap()
        });
        assert_eq!(compared, all);
    }
}

#[test]
fn what_a_fingerprint_does_not_tell_is_compared_each_time() {
    let Some(mut recorder) = Recorder::new() else { return };
    let temp = tempfile::tempdir().unwrap();
    let tree = temp.path().join("tree");
    small_tree(&tree);
    let volume = volume(64);
    let image: PathBuf = tree.join("a/d/v.lane");
    fs::write(&image, "image").unwrap();
    fs::hard_link(tree.join("e/f"), tree.join("e/second")).unwrap();
    let meta = image.metadata().unwrap();
    let skip = vec![FileId { dev: meta.dev(), ino: meta.ino() }];
    let options = SyncOptions { skip, ..deleting() };
    recorder.sync(&volume, &tree, &options);
    assert_eq!(recorder.compared(&volume, &tree, &options), ["/a/d/", "/e/"]);
    // A second name in the volume alone, outside of the tree that follows.
    volume.hard_link("/in/a/b/c/f", "/second").unwrap();
    recorder.record.clear();
    recorder.sync(&volume, &tree, &options);
    assert_eq!(recorder.compared(&volume, &tree, &options), ["/a/b/c/", "/a/d/", "/e/"]);
}
