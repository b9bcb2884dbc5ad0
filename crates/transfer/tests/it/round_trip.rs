//! Host to volume to host, compared whole.

use crate::common::*;
use lanefs::{Caller, FileKind};
use lanefs_transfer::*;
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;

#[test]
fn everything_comes_back() {
    let temp = tempfile::tempdir().unwrap();
    let (tree, back) = (temp.path().join("tree"), temp.path().join("back"));
    make_tree(&tree);
    let volume = volume(256);
    let options = ImportOptions::default();
    let report = import_tree(&volume, &tree, b"/in/here", &options, control()).unwrap();
    assert_clean(&report);
    assert!(report.notes.is_empty(), "{:?}", report.notes);
    assert_eq!(report.counts.hard_links, 2);
    assert_sound(&volume);
    let attr = volume.resolve("/in/here/sparse-all-hole").unwrap();
    assert_eq!((attr.size, attr.blocks), (1 << 30, 0));
    assert_eq!(volume.resolve("/in/here/links/two").unwrap().links, 3);

    let exported = export_tree(&volume, b"/in/here", &back, &ExportOptions::default(), control()).unwrap();
    assert_clean(&exported);
    assert_eq!(exported.counts, report.counts);
    assert_same(&tree, &back);
    for name in ["sparse-all-hole", "sparse-islands", "sparse-end"] {
        let blocks = fs::metadata(back.join(name)).unwrap().blocks();
        assert!(blocks * 512 < 1 << 20, "{name} lost its holes: {blocks} sectors");
    }
}

#[test]
fn one_thread_does_as_many_do() {
    let temp = tempfile::tempdir().unwrap();
    let (tree, back) = (temp.path().join("tree"), temp.path().join("back"));
    make_tree(&tree);
    let volume = volume(256);
    let one = ImportOptions { threads: Some(1), ..ImportOptions::default() };
    assert_clean(&import_tree(&volume, &tree, b"/", &one, control()).unwrap());
    let options = ExportOptions { threads: Some(1), sync: false, ..ExportOptions::default() };
    assert_clean(&export_tree(&volume, b"/", &back, &options, control()).unwrap());
    assert_same(&tree, &back);
}

#[test]
fn a_chain_longer_than_any_path_comes_back() {
    let temp = tempfile::tempdir().unwrap();
    let (tree, back) = (temp.path().join("tree"), temp.path().join("back"));
    // 1,000 names of 30 bytes: seven times PATH_MAX, and more levels than may be open at once.
    make_chain(&tree, &"n".repeat(30), 1000);
    let volume = volume(64);
    let report = import_tree(&volume, &tree, b"/chain", &ImportOptions::default(), control()).unwrap();
    assert_clean(&report);
    assert_eq!((report.counts.directories, report.counts.files), (1001, 1));
    assert_sound(&volume);
    let exported = export_tree(&volume, b"/chain", &back, &ExportOptions::default(), control()).unwrap();
    assert_clean(&exported);
    assert_same(&tree, &back);
    remove_deep(&tree);
    remove_deep(&back);
}

#[test]
fn single_files_go_to_a_path_or_into_a_directory() {
    let temp = tempfile::tempdir().unwrap();
    let file = temp.path().join("file");
    fs::write(&file, "content").unwrap();
    set_mtime(&file, 123_456_789_012);
    let volume = volume(16);
    let import =
        |dest: &[u8]| import_tree(&volume, &file, dest, &ImportOptions::default(), control()).unwrap();
    assert_clean(&import(b"/a/new-name"));
    volume.mkdir_all("/d", 0o755).unwrap();
    assert_clean(&import(b"/d"));
    assert_clean(&import(b"/e/f/"));
    assert_clean(&import(b"top"));
    for path in ["/a/new-name", "/d/file", "/e/f/file", "/top"] {
        assert_eq!(volume.read_file(path).unwrap(), b"content", "{path}");
        assert_eq!(volume.resolve(path).unwrap().mtime.0, 123_456_789_012);
    }

    let export = |source: &[u8], dest: &Path| {
        let report = export_tree(&volume, source, dest, &ExportOptions::default(), control()).unwrap();
        assert_clean(&report);
    };
    let out = temp.path().join("out");
    export(b"/a/new-name", &out.join("x/y"));
    fs::create_dir(out.join("dir")).unwrap();
    export(b"/a/new-name", &out.join("dir"));
    assert_same_file(&file, &out.join("x/y"));
    assert_same_file(&file, &out.join("dir/new-name"));
}

fn assert_same_file(a: &Path, b: &Path) {
    assert_eq!(fs::read(a).unwrap(), fs::read(b).unwrap());
    let (a, b) = (fs::metadata(a).unwrap(), fs::metadata(b).unwrap());
    assert_eq!(
        (a.mode(), a.uid(), a.mtime(), a.mtime_nsec()),
        (b.mode(), b.uid(), b.mtime(), b.mtime_nsec())
    );
}

#[test]
fn a_second_import_merges_and_reports_what_is_in_the_way() {
    let temp = tempfile::tempdir().unwrap();
    let (tree, back) = (temp.path().join("tree"), temp.path().join("back"));
    make_tree(&tree);
    let volume = volume(256);
    let first = import_tree(&volume, &tree, b"/t", &ImportOptions::default(), control()).unwrap();
    assert_clean(&first);
    fs::write(tree.join("d/size-1"), "another content").unwrap();
    fs::write(tree.join("d/new"), "new").unwrap();
    let again = import_tree(&volume, &tree, b"/t", &ImportOptions::default(), control()).unwrap();
    let c = first.counts;
    let in_the_way = (c.files + c.symlinks + c.hard_links + c.specials) as usize;
    assert_eq!(again.problems.len(), in_the_way);
    assert_eq!((again.exit_code(), again.counts.files), (EXIT_PARTLY, 1));
    assert!(again.problems[0].what.contains("overwrite replaces it"), "{:?}", again.problems[0]);
    assert_eq!(volume.read_file("/t/d/new").unwrap(), b"new");

    let overwrite = ImportOptions { overwrite: true, ..ImportOptions::default() };
    assert_clean(&import_tree(&volume, &tree, b"/t", &overwrite, control()).unwrap());
    assert_sound(&volume);
    assert_clean(&export_tree(&volume, b"/t", &back, &ExportOptions::default(), control()).unwrap());
    assert_same(&tree, &back);

    // The same way back: refused, then replaced.
    fs::write(back.join("d/size-1"), "old").unwrap();
    let refused = export_tree(&volume, b"/t", &back, &ExportOptions::default(), control()).unwrap();
    assert_eq!(refused.problems.len(), in_the_way + 1);
    assert_eq!(fs::read(back.join("d/size-1")).unwrap(), b"old");
    let overwrite = ExportOptions { overwrite: true, ..ExportOptions::default() };
    assert_clean(&export_tree(&volume, b"/t", &back, &overwrite, control()).unwrap());
    assert_same(&tree, &back);
}

#[test]
fn an_export_never_replaces_the_image() {
    let temp = tempfile::tempdir().unwrap();
    let image = temp.path().join("v.tar");
    fs::write(&image, "the volume").unwrap();
    fs::hard_link(&image, temp.path().join("other")).unwrap();
    let volume = volume(16);
    volume.write_file("/v.tar", b"a file").unwrap();
    volume.hard_link("/v.tar", "/other").unwrap();
    volume.write_file("/new", b"new").unwrap();
    let meta = fs::metadata(&image).unwrap();
    let keep = vec![FileId { dev: meta.dev(), ino: meta.ino() }];
    let options = ExportOptions { overwrite: true, keep, ..ExportOptions::default() };
    let report = export_tree(&volume, b"/", temp.path(), &options, control()).unwrap();
    assert_eq!(report.problems.len(), 2, "{:?}", report.problems);
    assert!(report.problems.iter().all(|problem| problem.what.contains("is the image")));
    assert_eq!(fs::read(temp.path().join("new")).unwrap(), b"new");
    let refused = export_archive(&volume, b"/", ArchiveTarget::File(&image), &options, control());
    assert!(refused.unwrap_err().to_string().contains("is the image"));
    assert_eq!(fs::read(&image).unwrap(), b"the volume");
    assert_eq!(fs::read(temp.path().join("other")).unwrap(), b"the volume");
}

#[test]
fn files_and_directories_do_not_replace_each_other() {
    let temp = tempfile::tempdir().unwrap();
    let tree = temp.path().join("tree");
    fs::create_dir_all(tree.join("a")).unwrap();
    fs::write(tree.join("a/x"), "x").unwrap();
    fs::write(tree.join("b"), "b").unwrap();
    let volume = volume(16);
    volume.mkdir_all("/t/b", 0o755).unwrap();
    volume.write_file("/t/a", b"file").unwrap();
    let report = import_tree(&volume, &tree, b"/t", &ImportOptions::default(), control()).unwrap();
    assert_eq!(report.problems.len(), 2, "{:?}", report.problems);
    assert_eq!(volume.read_file("/t/a").unwrap(), b"file");
    assert_eq!(volume.resolve("/t/b").unwrap().kind, FileKind::Directory);
    assert_sound(&volume);
}

#[test]
fn a_damaged_volume_cannot_write_outside_the_destination() {
    let temp = tempfile::tempdir().unwrap();
    let (dest, outside) = (temp.path().join("dest"), temp.path().join("outside"));
    fs::create_dir_all(&dest).unwrap();
    fs::create_dir_all(&outside).unwrap();
    // Links of the host where the volume has a directory and a file.
    std::os::unix::fs::symlink(&outside, dest.join("d")).unwrap();
    std::os::unix::fs::symlink(outside.join("target"), dest.join("f")).unwrap();
    let volume = volume(16);
    volume.mkdir_all("/d", 0o755).unwrap();
    volume.write_file("/d/inner", b"inner").unwrap();
    volume.write_file("/f", b"f").unwrap();
    for overwrite in [false, true] {
        let options = ExportOptions { overwrite, ..ExportOptions::default() };
        let report = export_tree(&volume, b"/", &dest, &options, control()).unwrap();
        assert!(!report.problems.is_empty());
        assert_eq!(fs::read_dir(&outside).unwrap().count(), 0, "written through a link");
    }
    assert!(dest.join("f").symlink_metadata().unwrap().is_file(), "--overwrite replaces the link itself");
}

#[test]
fn set_id_bits_come_last_and_owners_are_kept() {
    if !is_root() {
        eprintln!("SKIPPED: owners need root");
        return;
    }
    let temp = tempfile::tempdir().unwrap();
    let volume = volume(16);
    let attr = volume.write_file("/tool", b"#!").unwrap();
    let set =
        lanefs::SetAttr { uid: Some(77), gid: Some(88), perm: Some(0o6711), ..lanefs::SetAttr::default() };
    volume.setattr(&Caller::OWNER, attr.ino, &set).unwrap();
    let out = temp.path().join("out");
    assert_clean(&export_tree(&volume, b"/", &out, &ExportOptions::default(), control()).unwrap());
    let there = fs::metadata(out.join("tool")).unwrap();
    assert_eq!((there.uid(), there.gid(), there.permissions().mode() & 0o7777), (77, 88, 0o6711));
}

#[test]
fn a_default_acl_of_the_host_is_not_handed_down() {
    let temp = tempfile::tempdir().unwrap();
    let (tree, back) = (temp.path().join("tree"), temp.path().join("back"));
    make_tree(&tree);
    fs::create_dir_all(back.join("d")).unwrap();
    let mut acl = vec![0; 1000];
    let Ok(len) = rustix::fs::lgetxattr(tree.join("empty"), DEFAULT, &mut acl[..]) else {
        eprintln!("SKIPPED: access control lists: the temporary directory's file system has none");
        return;
    };
    let flags = rustix::fs::XattrFlags::empty();
    for dir in [&back, &back.join("d")] {
        rustix::fs::setxattr(dir, DEFAULT, &acl[..len], flags).unwrap();
    }
    let volume = volume(256);
    assert_clean(&import_tree(&volume, &tree, b"/", &ImportOptions::default(), control()).unwrap());
    assert_clean(&export_tree(&volume, b"/", &back, &ExportOptions::default(), control()).unwrap());
    // Existing files keep their own; no other file has one.
    for dir in [&back, &back.join("d")] {
        rustix::fs::removexattr(dir, DEFAULT).unwrap();
    }
    assert_same(&tree, &back);
}
