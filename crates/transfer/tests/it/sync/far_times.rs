//! Times that no volume holds: a copy says so, once for each file, and a later sync copies nothing again.

use super::*;
use std::fs::{self, File};
use std::time::{Duration, UNIX_EPOCH};

/// 2400-01-01.
const FAR: Duration = Duration::from_secs(13_569_465_600);

/// Gives a file a time of the year 2400; false where the host cannot keep that.
fn set_far(path: &Path) -> bool {
    File::open(path).unwrap().set_modified(UNIX_EPOCH + FAR).unwrap();
    let is_kept = path.metadata().unwrap().modified().unwrap() == UNIX_EPOCH + FAR;
    if !is_kept {
        eprintln!("SKIPPED: this file system has no times after 2262");
    }
    is_kept
}

/// The notes of a report, which has no problem, on times.
#[track_caller]
fn notes_of(report: &Report) -> Vec<&str> {
    assert_eq!((report.problems.len(), report.exit_code()), (0, EXIT_DONE));
    report.notes.iter().map(String::as_str).filter(|note| note.contains("after 2262 is not kept")).collect()
}

#[test]
fn far_times_are_told_by_imports_syncs_and_comparisons() {
    let temp = tempfile::tempdir().unwrap();
    let tree = temp.path().join("tree");
    fs::create_dir_all(tree.join("d")).unwrap();
    for name in ["near", "far", "d/far"] {
        fs::write(tree.join(name), name).unwrap();
    }
    fs::hard_link(tree.join("d/far"), tree.join("same")).unwrap();
    if !["far", "d/far"].iter().all(|name| set_far(&tree.join(name))) || !set_far(&tree.join("d")) {
        return;
    }
    let volume = volume(64);
    let imported = import_tree(&volume, &tree, b"/in", &ImportOptions::default(), control()).unwrap();
    let notes = notes_of(&imported);
    assert_eq!(notes.len(), 3, "{notes:?}");
    assert!(notes.iter().any(|note| note.contains("/tree/far: ")), "{notes:?}");
    assert!(notes.iter().any(|note| note.contains("/tree/d: ")), "{notes:?}");
    // Nothing is copied again, but each run says that the times are not those of the source.
    for dry_run in [true, false] {
        let (report, lines) = sync_with(&volume, &tree, &SyncOptions { dry_run, ..deleting() });
        assert_eq!((notes_of(&report.report).len(), lines), (3, Vec::new()), "dry run: {dry_run}");
    }
    let (host, copy) = (Side::Host(&tree), Side::Volume(&volume, b"/in"));
    for (from, to) in [(host, copy), (copy, host)] {
        let report = diff_trees(from, to, &deleting(), &|_| {}, control()).unwrap();
        assert_eq!((notes_of(&report.report).len(), report.counts.differences()), (3, 0));
    }
    let new = super::volume(64);
    let (report, _) = sync_with(&new, &tree, &deleting());
    assert_eq!(notes_of(&report.report).len(), 3);
}
