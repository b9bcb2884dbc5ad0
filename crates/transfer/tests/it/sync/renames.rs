//! Files and directories with another name: they keep their inodes, and get no other file's content.

use super::*;
use std::collections::BTreeMap;
use std::fs;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

/// A time that many files have, as in packages.
const EPOCH: u64 = 1_600_000_000_000_000_000;

/// A tree, and a volume that follows it.
struct Following {
    temp: tempfile::TempDir,
    volume: Volume,
}

impl Following {
    fn new(dirs: &[&str], files: &[(&str, &str)]) -> Self {
        let following = Following { temp: tempfile::tempdir().unwrap(), volume: volume(64) };
        fs::create_dir(following.tree()).unwrap();
        for dir in dirs {
            fs::create_dir_all(following.at(dir)).unwrap();
        }
        for (name, content) in files {
            following.write(name, content);
        }
        sync(&following.volume, &following.tree(), &deleting());
        following
    }

    fn tree(&self) -> std::path::PathBuf {
        self.temp.path().join("tree")
    }

    fn at(&self, name: &str) -> std::path::PathBuf {
        self.tree().join(name)
    }

    fn write(&self, name: &str, content: &str) {
        fs::write(self.at(name), content).unwrap();
        set_mtime(&self.at(name), EPOCH);
    }

    fn rename(&self, old: &str, new: &str) {
        fs::rename(self.at(old), self.at(new)).unwrap();
    }

    fn ino(&self, path: &str) -> lanefs::Ino {
        self.volume.resolve(format!("/in/{path}")).unwrap().ino
    }

    /// Syncs, as a dry run and a comparison had said. Returns the lines but those of times of directories,
    /// and the number of bytes that were copied.
    fn sync(&self, options: &SyncOptions) -> (Vec<String>, u64) {
        let (from, to) = (Side::Host(&self.tree()), Side::Volume(&self.volume, b"/in"));
        let mut wanted =
            sync_with(&self.volume, &self.tree(), &SyncOptions { dry_run: true, ..options.clone() });
        if options.delete {
            assert_eq!(diff(from, to, options), wanted.1);
        }
        let (report, mut lines) = sync_with(&self.volume, &self.tree(), options);
        assert_clean(&report.report);
        assert_eq!(lines, wanted.1);
        wanted.0.report = Report::default();
        assert_eq!(report.counts, wanted.0.counts);
        if options.delete {
            assert_volume_has(&self.volume, &self.tree());
            assert_eq!(sync(&self.volume, &self.tree(), options), [""; 0]);
        }
        lines.retain(|line| !line.starts_with(".d..t......"));
        (lines, report.report.counts.bytes)
    }
}

/// As many digits as a content of some blocks.
fn content(first: &str) -> String {
    format!("{first:0<9000}")
}

#[test]
fn renamed_files_and_directories_keep_their_inodes_and_nothing_is_copied() {
    let (one, two, three) = (content("1"), content("2"), content("3"));
    let files = [("f", &*one), ("d/e/g", &*two), ("d/h", &*three), ("other/i", "i")];
    let following = Following::new(&["d/e", "other"], &files);
    let inos = ["f", "d", "d/e/g"].map(|path| following.ino(path));
    following.rename("f", "other/f2");
    following.rename("d", "other/d2");
    let froms = Mutex::new(BTreeMap::new());
    let receiver = |difference: &Difference| {
        if let Some(from) = &difference.from {
            froms.lock().unwrap().insert(shown(&difference.path), shown(from));
        }
    };
    let (from, to) = (Side::Host(&following.tree()), Side::Volume(&following.volume, b"/in"));
    diff_trees(from, to, &deleting(), &receiver, control()).unwrap();
    let froms: Vec<_> = froms.into_inner().unwrap().into_iter().collect();
    assert_eq!(froms, [("other/d2".into(), "d".into()), ("other/f2".into(), "f".into())]);
    let lines = ["rd......... other/d2", "rf......... other/f2"].map(String::from).to_vec();
    assert_eq!(following.sync(&deleting()), (lines, 0));
    assert_eq!(["other/f2", "other/d2", "other/d2/e/g"].map(|path| following.ino(path)), inos);
    // With many threads as well, and back.
    following.rename("other/f2", "f");
    following.rename("other/d2", "d");
    let (report, _) =
        sync_with(&following.volume, &following.tree(), &SyncOptions { threads: None, ..deleting() });
    assert_eq!((report.counts.renamed, report.report.counts.bytes), (2, 0));
    assert_eq!(["f", "d", "d/e/g"].map(|path| following.ino(path)), inos);
    assert_volume_has(&following.volume, &following.tree());
}

#[test]
fn what_changed_below_a_renamed_directory_is_done_there() {
    let (one, two) = (content("1"), content("2"));
    let following = Following::new(
        &["d/e"],
        &[("d/a", &*one), ("d/b", &*two), ("d/c", "c"), ("d/e/g", "g"), ("d/m", "m"), ("d/x", "x")],
    );
    following.rename("d", "d2");
    fs::remove_file(following.at("d2/c")).unwrap();
    following.rename("d2/e", "d2/e2");
    following.write("d2/new", "new");
    following.write("d2/x", "longer");
    let mode = PermissionsExt::from_mode(0o600);
    fs::set_permissions(following.at("d2/a"), mode).unwrap();
    let ino = following.ino("d/b");
    let (lines, _) = following.sync(&deleting());
    // Names below a directory that is renamed are compared in it alone.
    let expected = [
        "*deleting   d2/c",
        "*deleting   d2/e",
        "*deleting   d2/e/g",
        ".f...p..... d2/a",
        ">f+++++++++ d2/e2/g",
        ">f+++++++++ d2/new",
        ">f.s....... d2/x",
        "cd+++++++++ d2/e2",
        "rd..t...... d2",
    ];
    assert_eq!(lines, expected);
    assert_eq!(following.ino("d2/b"), ino);
}

#[test]
fn names_move_into_new_directories_and_out_of_those_that_are_removed() {
    let (one, two, three) = (content("1"), content("2") + "2", content("3") + "33");
    let files = [("2024/01/a", &*one), ("2025/01/a", &*two), ("gone/in/b", &*three), ("gone/c", "c")];
    let following = Following::new(&["2024/01", "2025/01", "gone/in"], &files);
    fs::create_dir(following.at("archive")).unwrap();
    following.rename("2024", "archive/2024");
    following.rename("2025", "archive/2025");
    following.rename("gone/in/b", "b");
    fs::remove_dir_all(following.at("gone")).unwrap();
    let inos = ["2024/01/a", "2025/01/a", "gone/in/b"].map(|path| following.ino(path));
    let (lines, bytes) = following.sync(&deleting());
    let expected = [
        "*deleting   gone",
        "*deleting   gone/c",
        "*deleting   gone/in",
        "cd+++++++++ archive",
        "rd......... archive/2024",
        "rd......... archive/2025",
        "rf......... b",
    ];
    assert_eq!((&lines[..], bytes), (&expected.map(String::from)[..], 0));
    assert_eq!(["archive/2024/01/a", "archive/2025/01/a", "b"].map(|path| following.ino(path)), inos);
    // Up again, out of a directory that stays not.
    following.rename("archive/2024", "2024");
    following.rename("archive/2025/01", "01");
    fs::remove_dir_all(following.at("archive")).unwrap();
    let (lines, bytes) = following.sync(&deleting());
    let expected = ["*deleting   archive", "*deleting   archive/2025", "rd......... 01", "rd......... 2024"];
    assert_eq!((&lines[..], bytes), (&expected.map(String::from)[..], 0));
}

#[test]
fn a_file_of_the_same_size_and_time_with_another_content_is_copied() {
    for checksum in [false, true] {
        let files = [("v1", "one"), ("pkg-1/version", "1.0"), ("pkg-1/tool", "tool"), ("pkg-1/more", "more")];
        let following = Following::new(&["pkg-1"], &files);
        following.rename("v1", "v2");
        following.write("v2", "two");
        following.rename("pkg-1", "pkg-2");
        following.write("pkg-2/version", "1.1");
        let (lines, bytes) = following.sync(&SyncOptions { checksum, ..deleting() });
        let expected = ["*deleting   v1", ">f+++++++++ v2", ">fc........ pkg-2/version", "rd......... pkg-2"];
        let mut expected = expected.map(String::from).to_vec();
        expected.sort();
        assert_eq!((lines, bytes), (expected, 6));
    }
}

#[test]
fn whatever_ends_a_sync_no_renamed_file_has_the_content_of_another_one() {
    let mut interrupted = 0;
    for limit in 0..120 {
        let files =
            [("v1", "one"), ("pkg-1/version", "1.0"), ("pkg-1/d/tool", "tool"), ("pkg-1/more", "more")];
        let following = Following::new(&["pkg-1/d"], &files);
        following.rename("v1", "v2");
        following.write("v2", "two");
        following.rename("pkg-1", "pkg-2");
        following.write("pkg-2/version", "1.1");
        let calls = AtomicUsize::new(0);
        let interrupt = || calls.fetch_add(1, SeqCst) >= limit;
        let control = Control { interrupt: &interrupt, progress: &Silent };
        let (tree, options) = (following.tree(), deleting());
        let report = sync_tree(&following.volume, Side::Host(&tree), b"/in", &options, &|_| (), control)
            .unwrap()
            .report;
        interrupted += usize::from(report.exit_code() == EXIT_INTERRUPTED);
        assert_sound(&following.volume);
        // This sync compares sizes and times under the names that it finds.
        sync(&following.volume, &tree, &options);
        assert_volume_has(&following.volume, &tree);
    }
    assert!(interrupted > 20, "{interrupted}");
}

#[test]
fn nothing_is_renamed_where_names_stay_or_the_caller_does_not_want_it() {
    for options in
        [SyncOptions { delete: false, ..deleting() }, SyncOptions { no_renames: true, ..deleting() }]
    {
        let one = content("1");
        let following = Following::new(&["d"], &[("f", &*one), ("d/g", &*one)]);
        following.rename("f", "f2");
        following.rename("d", "d2");
        let (lines, bytes) = following.sync(&options);
        assert!(
            lines.contains(&">f+++++++++ f2".into()) && lines.contains(&">f+++++++++ d2/g".into()),
            "{lines:?}"
        );
        assert_eq!(bytes, 18_000);
        assert_eq!(following.volume.exists("/in/f").unwrap(), !options.delete);
    }
}

#[test]
fn a_directory_with_names_that_are_left_out_keeps_its_name() {
    let (one, two) = (content("1"), content("2"));
    let following = Following::new(&["d/e"], &[("d/a", &*one), ("d/e/b", &*two), ("d/e/left.o", "o")]);
    following.rename("d", "d2");
    let filter = Filter::new(["*.o"]).unwrap();
    let (report, lines) =
        sync_with(&following.volume, &following.tree(), &SyncOptions { filter, ..deleting() });
    assert_eq!(report.report.problems.len(), 0);
    // The files below it have other names.
    let renamed: Vec<_> = lines.iter().filter(|line| line.starts_with('r')).collect();
    assert_eq!(renamed, ["rf......... d2/a", "rf......... d2/e/b"]);
    assert!(following.volume.exists("/in/d/e/left.o").unwrap());
    assert!(!following.volume.exists("/in/d2/e/left.o").unwrap());
}

#[test]
fn names_of_one_file_stay_together() {
    let one = content("1");
    let following = Following::new(&["d", "e"], &[("d/a", &*one), ("d/c", "c")]);
    fs::hard_link(following.at("d/a"), following.at("d/b")).unwrap();
    fs::hard_link(following.at("d/a"), following.at("e/b")).unwrap();
    set_mtime(&following.at("d/c"), EPOCH);
    following.sync(&deleting());
    for (old, new) in [("d", "d2"), ("e/b", "e/c"), ("e", "e2")] {
        following.rename(old, new);
        for in_order in [false, true] {
            let options = SyncOptions { in_order, ..deleting() };
            following.sync(&options);
        }
    }
}

#[test]
fn a_full_volume_gets_the_room_of_names_that_are_removed_later() {
    let temp = tempfile::tempdir().unwrap();
    let tree = temp.path().join("tree");
    fs::create_dir_all(tree.join("d")).unwrap();
    fs::write(tree.join("old"), noise(20 << 20)).unwrap();
    fs::write(tree.join("d/f"), noise(1 << 20)).unwrap();
    fs::write(tree.join("grows"), "x").unwrap();
    let volume = volume(32);
    sync(&volume, &tree, &deleting());
    fs::remove_file(tree.join("old")).unwrap();
    fs::rename(tree.join("d"), tree.join("d2")).unwrap();
    fs::write(tree.join("grows"), noise(20 << 20)).unwrap();
    sync(&volume, &tree, &deleting());
    assert_volume_has(&volume, &tree);
}

#[test]
fn names_that_are_left_out_under_the_new_name_do_not_come_along() {
    let names: Vec<String> = ["a", "b", "c", "id.key", "keys/x", "keys/y.key"].map(String::from).into();
    let files: Vec<(String, String)> =
        names.iter().map(|name| (format!("private/{name}"), content(name))).collect();
    let files: Vec<(&str, &str)> = files.iter().map(|(name, content)| (&**name, &**content)).collect();
    let following = Following::new(&["private/keys"], &files);
    following.rename("private", "public");
    let filter = Filter::new(["/public/*.key", "/public/keys"]).unwrap();
    let options = SyncOptions { filter, ..deleting() };
    let (dry, wanted) =
        sync_with(&following.volume, &following.tree(), &SyncOptions { dry_run: true, ..options.clone() });
    assert_eq!(dry.counts.renamed, 1);
    let (report, lines) = sync_with(&following.volume, &following.tree(), &options);
    assert_clean(&report.report);
    assert_eq!(lines, wanted);
    for (name, is_there) in [("a", true), ("id.key", false), ("keys", false)] {
        assert_eq!(following.volume.resolve(format!("/in/public/{name}")).is_ok(), is_there, "{name}");
    }
    assert!(following.volume.resolve("/in/private").is_err());
}

#[test]
fn a_name_that_is_left_out_is_not_replaced_by_one_of_another_type() {
    let following = Following::new(&["build", "src"], &[("build/out", "kept"), ("x", "kept")]);
    fs::remove_dir_all(following.at("build")).unwrap();
    std::os::unix::fs::symlink("src", following.at("build")).unwrap();
    fs::remove_file(following.at("x")).unwrap();
    fs::create_dir(following.at("x")).unwrap();
    let options = SyncOptions { filter: Filter::new(["build/", "x", "!x/"]).unwrap(), ..deleting() };
    for dry_run in [true, false] {
        let options = SyncOptions { dry_run, ..options.clone() };
        let (report, _) = sync_with(&following.volume, &following.tree(), &options);
        let problems: Vec<String> = report.report.problems.iter().map(ToString::to_string).collect();
        assert_eq!(problems.len(), 2, "{problems:?}");
        assert!(problems.iter().all(|problem| problem.contains("is left out is in the way")), "{problems:?}");
    }
    for name in ["build/out", "x"] {
        assert_eq!(following.volume.read_file(format!("/in/{name}")).unwrap(), b"kept", "{name}");
    }
}
