//! Random trees through random edits. The volume has the same as the host, byte for byte and attribute for
//! attribute; rsync finds the same differences.

use super::edits::Editor;
use super::*;
use std::collections::BTreeSet;
use std::process::Command;

/// Edits between two syncs.
const EDITS: usize = 40;

#[test]
fn after_any_edits_the_volume_is_as_the_tree_and_a_dry_run_had_said_how() {
    for seed in 1..=12 {
        let temp = tempfile::tempdir().unwrap();
        let tree = temp.path().join("tree");
        let mut editor = Editor::new(seed, &tree);
        let (volume, follower) = (volume(64), volume(64));
        for round in 0..6 {
            editor.edit(EDITS);
            let options = SyncOptions { checksum: round % 3 == 2, ..deleting() };
            let (report, wanted) =
                sync_with(&volume, &tree, &SyncOptions { dry_run: true, ..options.clone() });
            assert_clean(&report.report);
            assert_eq!(sync(&volume, &tree, &options), wanted, "seed {seed}, round {round}");
            assert_volume_has(&volume, &tree);
            assert_eq!(sync(&volume, &tree, &options), [""; 0], "seed {seed}, round {round}");
            // Another volume follows this one. (Which name of a file keeps the old inode is another question
            // there.)
            sync_volumes(&follower, &volume, &options);
            assert_volume_has(&follower, &tree);
            assert_eq!(sync_volumes(&follower, &volume, &options), [""; 0], "seed {seed}, round {round}");
        }
    }
}

#[test]
fn several_threads_come_to_the_same() {
    for seed in 101..=106 {
        let temp = tempfile::tempdir().unwrap();
        let tree = temp.path().join("tree");
        let mut editor = Editor::new(seed, &tree);
        let volume = volume(64);
        for _ in 0..5 {
            editor.edit(3 * EDITS);
            sync(&volume, &tree, &SyncOptions { threads: Some(7), ..deleting() });
            assert_volume_has(&volume, &tree);
        }
    }
}

/// The differences that rsync finds, without those of names in `left_out`.
fn by_rsync(tree: &Path, copy: &Path, checksum: bool, left_out: &BTreeSet<String>) -> Vec<String> {
    let slash = |path: &Path| format!("{}/", path.to_str().unwrap());
    let output = Command::new("rsync")
        .args(["-aHAX", "--delete", "--modify-window=-1", "--dry-run", "--out-format=%i %n"])
        .args(checksum.then_some("--checksum"))
        .args([slash(tree), slash(copy)])
        .output()
        .expect("rsync (`scripts/setup.sh` installs it)");
    assert!(output.status.success(), "{output:?}");
    let line = |line: &str| {
        let (letters, name) = line.split_at(12);
        let name = name.strip_suffix('/').unwrap_or(name);
        format!("{letters}{}", if name == "." { "" } else { name })
    };
    let mut lines: Vec<String> = String::from_utf8(output.stdout).unwrap().lines().map(line).collect();
    lines.retain(|line| !left_out.contains(&line[12..]));
    lines.sort();
    lines
}

#[test]
fn rsync_finds_the_same_differences() {
    let mut compared = 0;
    for seed in 201..=208 {
        let temp = tempfile::tempdir().unwrap();
        let (tree, copy) = (temp.path().join("tree"), temp.path().join("copy"));
        // rsync lists names of one file, and those that change their type, in a way of its own.
        let mut editor = Editor::new(seed, &tree);
        (editor.links, editor.types) = (false, false);
        std::fs::create_dir(&copy).unwrap();
        let volume = volume(64);
        for round in 0..5 {
            editor.edit(EDITS);
            let options = SyncOptions { checksum: round % 2 == 1, no_renames: true, ..deleting() };
            let found = Mutex::new(Vec::new());
            let receiver = |difference: &Difference| found.lock().unwrap().push(difference.clone());
            let (from, to) = (Side::Host(&tree), Side::Host(&copy));
            diff_trees(from, to, &options, &receiver, control()).unwrap();
            let found = found.into_inner().unwrap();
            let other_type = |difference: &&Difference| difference.change == Change::Type;
            let path = |difference: &Difference| String::from_utf8(difference.path.clone()).unwrap();
            let left_out: BTreeSet<String> = found.iter().filter(other_type).map(path).collect();
            let mut lines = lines(Mutex::new(found));
            lines.retain(|line| !left_out.contains(&line[12..]));
            compared += lines.len();
            let wanted = by_rsync(&tree, &copy, options.checksum, &left_out);
            assert_eq!(lines, wanted, "seed {seed}, round {round}");
            // The volume follows the tree, and the copy follows the volume: all three are the same.
            sync(&volume, &tree, &deleting());
            std::fs::remove_dir_all(&copy).unwrap();
            assert_clean(&export_tree(&volume, b"/in", &copy, &ExportOptions::default(), control()).unwrap());
            assert_eq!(by_rsync(&tree, &copy, true, &BTreeSet::new()), [""; 0], "seed {seed}");
        }
    }
    assert!(compared > 500, "{compared}");
}
