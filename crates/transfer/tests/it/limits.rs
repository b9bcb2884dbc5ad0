//! Where a transfer cannot do all: full volumes, interruptions, files that cannot be read, and no root.

use crate::common::*;
use lanefs::Code;
use lanefs_transfer::*;
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::process::Command;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

#[test]
fn a_full_volume_stops_at_once_and_stays_consistent() {
    let temp = tempfile::tempdir().unwrap();
    let tree = temp.path().join("tree");
    fs::create_dir(&tree).unwrap();
    for i in 0..40 {
        fs::write(tree.join(format!("file-{i}")), noise(1 << 20)).unwrap();
    }
    let volume = volume(16);
    let report = import_tree(&volume, &tree, b"/t", &ImportOptions::default(), control()).unwrap();
    let stopped = report.stopped.as_ref().unwrap();
    assert!(matches!(stopped, Error::Volume { source, .. } if source.code() == Code::NoSpace), "{stopped}");
    let text = stopped.to_string();
    assert!(text.contains("file-") && text.contains("no space left on the volume"), "{text}");
    assert_eq!(report.exit_code(), EXIT_STOPPED);
    assert!((1..40).contains(&report.counts.files), "{:?}", report.counts);
    assert_sound(&volume);
    // The existing files are whole.
    let back = temp.path().join("back");
    assert_clean(&export_tree(&volume, b"/t", &back, &ExportOptions::default(), control()).unwrap());
    let mut there = 0;
    for entry in fs::read_dir(&back).unwrap() {
        assert_eq!(fs::read(entry.unwrap().path()).unwrap(), noise(1 << 20));
        there += 1;
    }
    assert_eq!(there, report.counts.files);
}

#[test]
fn an_interruption_leaves_whole_files_only() {
    let temp = tempfile::tempdir().unwrap();
    let tree = temp.path().join("tree");
    make_tree(&tree);
    for when in [0, 1, 50, 300] {
        let asked = AtomicU64::new(0);
        let interrupt = || asked.fetch_add(1, Relaxed) >= when;
        let control = Control { interrupt: &interrupt, progress: &Silent };
        let volume = volume(256);
        let report = import_tree(&volume, &tree, b"/t", &ImportOptions::default(), control).unwrap();
        assert!(report.interrupted && report.stopped.is_none());
        assert_eq!(report.exit_code(), EXIT_INTERRUPTED);
        assert_sound(&volume);
        let back = temp.path().join(format!("back-{when}"));
        assert_clean(
            &export_tree(&volume, b"/t", &back, &ExportOptions::default(), crate::common::control()).unwrap(),
        );
        let found = compare_trees(&tree, &back, CompareOptions::default(), crate::common::control()).unwrap();
        // The directories that were begun have their attributes, and the files that are there all their
        // content.
        for difference in &found.differences {
            assert_eq!(difference.what, "is missing in the other tree", "{difference}");
        }
        assert!(!found.differences.is_empty());

        let asked = AtomicU64::new(0);
        let interrupt = || asked.fetch_add(1, Relaxed) >= when;
        let control = Control { interrupt: &interrupt, progress: &Silent };
        let full = crate::common::volume(256);
        assert_clean(
            &import_tree(&full, &tree, b"/t", &ImportOptions::default(), crate::common::control()).unwrap(),
        );
        let out = temp.path().join(format!("out-{when}"));
        let report = export_tree(&full, b"/t", &out, &ExportOptions::default(), control).unwrap();
        assert!(report.interrupted);
        let found = compare_trees(&tree, &out, CompareOptions::default(), crate::common::control()).unwrap();
        for difference in &found.differences {
            assert_eq!(difference.what, "is missing in the other tree", "{difference}");
        }
    }
}

#[test]
fn what_keeps_a_transfer_from_beginning_is_told() {
    let temp = tempfile::tempdir().unwrap();
    let volume = volume(16);
    let missing = temp.path().join("missing");
    let error = import_tree(&volume, &missing, b"/", &ImportOptions::default(), control()).unwrap_err();
    assert!(error.to_string().contains("missing") && error.to_string().contains("No such file"), "{error}");
    let error = export_tree(&volume, b"/no", temp.path(), &ExportOptions::default(), control()).unwrap_err();
    assert!(error.to_string().contains("/no") && error.to_string().contains("not found"), "{error}");
    volume.write_file("/file", b"").unwrap();
    let tree = temp.path().join("tree");
    fs::create_dir(&tree).unwrap();
    let error = import_tree(&volume, &tree, b"/file/x", &ImportOptions::default(), control()).unwrap_err();
    assert!(error.to_string().contains("not a directory"), "{error}");
    fs::write(temp.path().join("f"), "").unwrap();
    let dest = temp.path().join("f/x");
    let error = export_tree(&volume, b"/", &dest, &ExportOptions::default(), control()).unwrap_err();
    assert!(error.to_string().contains("Not a directory"), "{error}");
}

#[test]
fn the_volume_s_own_image_is_left_out() {
    let temp = tempfile::tempdir().unwrap();
    fs::write(temp.path().join("image"), "image").unwrap();
    fs::write(temp.path().join("other"), "other").unwrap();
    let meta = fs::metadata(temp.path().join("image")).unwrap();
    let skip = vec![FileId { dev: meta.dev(), ino: meta.ino() }];
    let volume = volume(16);
    let options = ImportOptions { skip, ..ImportOptions::default() };
    let report = import_tree(&volume, temp.path(), b"/", &options, control()).unwrap();
    assert_clean(&report);
    assert_eq!((report.counts.files, report.notes.len()), (1, 1));
}

/// The part of the next test that a user without root runs.
#[test]
#[ignore = "run by `without_root`"]
fn without_root_child() {
    let tree = std::path::PathBuf::from(std::env::var_os("LANEFS_TEST_TREE").unwrap());
    assert!(!is_root());
    let volume = volume(64);
    let report =
        import_tree(&volume, &tree.join("source"), b"/", &ImportOptions::default(), control()).unwrap();
    let mut problems: Vec<String> = report.problems.iter().map(ToString::to_string).collect();
    problems.sort();
    assert_eq!(problems.len(), 2, "{problems:?}");
    assert!(problems[0].contains("closed") && problems[0].contains("Permission denied"), "{problems:?}");
    assert!(problems[1].contains("secret") && problems[1].contains("Permission denied"), "{problems:?}");
    assert_eq!(volume.read_file("/open").unwrap(), b"open");
    assert_sound(&volume);

    // Back again: owners cannot be kept, set-id bits must not be lent to oneself, devices cannot be made.
    let attr = volume.resolve("/open").unwrap();
    let set = lanefs::SetAttr { uid: Some(0), perm: Some(0o4755), ..lanefs::SetAttr::default() };
    volume.setattr(&lanefs::Caller::OWNER, attr.ino, &set).unwrap();
    let root = volume.root();
    let kind = lanefs::FileKind::CharDevice;
    volume.mknod(&lanefs::Caller::OWNER, root, b"null", kind, 0o666, rustix::fs::makedev(1, 3)).unwrap();
    let out = tree.join("out");
    let report = export_tree(&volume, b"/", &out, &ExportOptions::default(), control()).unwrap();
    assert_eq!(report.problems.len(), 1, "{:?}", report.problems);
    assert!(report.problems[0].to_string().starts_with("/null: "), "{:?}", report.problems);
    assert_eq!(report.notes.len(), 1, "{:?}", report.notes);
    let there = fs::metadata(out.join("open")).unwrap();
    assert_eq!(there.permissions().mode() & 0o7777, 0o755);

    let closed = tree.join("source/closed/out");
    let error = export_tree(&volume, b"/", &closed, &ExportOptions::default(), control()).unwrap_err();
    assert!(error.to_string().contains("Permission denied"), "{error}");
}

#[test]
fn without_root() {
    let temp = tempfile::tempdir().unwrap();
    let source = temp.path().join("source");
    fs::create_dir(&source).unwrap();
    for (name, mode) in [("open", 0o644), ("secret", 0o000)] {
        fs::write(source.join(name), name).unwrap();
        fs::set_permissions(source.join(name), fs::Permissions::from_mode(mode)).unwrap();
    }
    fs::create_dir(source.join("closed")).unwrap();
    fs::set_permissions(source.join("closed"), fs::Permissions::from_mode(0o000)).unwrap();
    as_another_user(temp.path(), "limits::without_root_child");
    fs::set_permissions(source.join("closed"), fs::Permissions::from_mode(0o700)).unwrap();
}

#[test]
fn a_full_host_leaves_no_partial_file() {
    if !is_root() {
        eprintln!("SKIPPED: a small file system of its own needs root");
        return;
    }
    let temp = tempfile::tempdir().unwrap();
    let small = temp.path().join("small");
    fs::create_dir(&small).unwrap();
    let mount = |arguments: &[&str]| Command::new("mount").args(arguments).arg(&small).status();
    if !mount(&["-t", "tmpfs", "-o", "size=4m", "none"]).is_ok_and(|status| status.success()) {
        eprintln!("SKIPPED: this root may not mount a tmpfs");
        return;
    }
    let volume = volume(64);
    let content = noise(1 << 20);
    for i in 0..10 {
        volume.write_file(format!("/file-{i}"), &content).unwrap();
    }
    let dest = small.join("dest");
    let report = export_tree(&volume, b"/", &dest, &ExportOptions::default(), control());
    let left: Vec<u64> =
        fs::read_dir(&dest).unwrap().map(|entry| entry.unwrap().metadata().unwrap().len()).collect();
    let archive = small.join("a.tar");
    fs::remove_dir_all(&dest).unwrap();
    let packed =
        export_archive(&volume, b"/", ArchiveTarget::File(&archive), &ExportOptions::default(), control());
    let files_left = fs::read_dir(&small).unwrap().count();
    assert!(Command::new("umount").arg(&small).status().unwrap().success());

    let report = report.unwrap();
    let text = report.stopped.as_ref().unwrap().to_string();
    assert!(text.contains("No space left on device") && text.contains("file-"), "{text}");
    assert_eq!(report.exit_code(), EXIT_STOPPED);
    assert!(left.iter().all(|len| *len == 1 << 20), "{left:?}");
    assert_eq!(left.len() as u64, report.counts.files);
    let packed = packed.unwrap();
    assert!(packed.stopped.unwrap().to_string().contains("No space left on device"));
    assert_eq!(files_left, 0, "a partial archive was left");
}

#[test]
fn a_file_that_changes_while_it_is_read_is_reported() {
    let temp = tempfile::tempdir().unwrap();
    let file = temp.path().join("log");
    fs::write(&file, noise(9 << 20)).unwrap();
    let volume = volume(64);
    // Asked between two pieces: just when another program appends.
    let append = || {
        use std::io::Write;
        let mut log = fs::File::options().append(true).open(&file).unwrap();
        log.write_all(b"one line more").unwrap();
        false
    };
    let control = Control { interrupt: &append, progress: &Silent };
    let report = import_tree(&volume, temp.path(), b"/", &ImportOptions::default(), control).unwrap();
    assert_eq!(report.exit_code(), EXIT_PARTLY);
    assert_eq!(report.problems.len(), 1, "{:?}", report.problems);
    assert!(report.problems[0].to_string().contains("log: changed while it was read"));
    assert!(volume.read_file("/log").unwrap().starts_with(&noise(9 << 20)), "what was read is kept");
    assert_sound(&volume);
}

#[test]
fn another_file_system_is_not_entered_when_told_so() {
    let temp = tempfile::tempdir().unwrap();
    let inner = temp.path().join("mounted");
    fs::create_dir(&inner).unwrap();
    let mounted = is_root()
        && Command::new("mount")
            .args(["-t", "tmpfs", "-o", "size=1m", "none"])
            .arg(&inner)
            .status()
            .is_ok_and(|s| s.success());
    if !mounted {
        eprintln!("SKIPPED: this user may not mount a tmpfs");
        return;
    }
    fs::write(inner.join("file"), "x").unwrap();
    let import = |one_file_system| {
        let volume = volume(16);
        let options = ImportOptions { one_file_system, ..ImportOptions::default() };
        let report = import_tree(&volume, temp.path(), b"/", &options, control());
        (report.map(|report| report.counts.files), volume.resolve("/mounted/file").is_ok())
    };
    let (with, without) = (import(true), import(false));
    assert!(Command::new("umount").arg(&inner).status().unwrap().success());
    assert!(matches!(with, (Ok(0), false)), "{with:?}");
    assert!(matches!(without, (Ok(1), true)), "{without:?}");
}
