//! Imports into directories with a default access control list: everything has the lists of its source and no
//! other, as with `cp -a` and `tar --acls`.

use crate::common::*;
use lanefs::bulk::{Applied, Change};
use lanefs::{Caller, Ino, Volume, XattrMode};
use lanefs_transfer::*;
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;

const OWNER: Caller = Caller::OWNER;
/// Directories with a default list and an access list, into which everything is imported.
const OLD: [&str; 2] = ["/t", "/t/old"];
/// Files and directories of the source, with their modes.
const SOURCE: [(&str, u32); 8] = [
    ("/t", 0o750),
    ("/t/file", 0o664),
    ("/t/closed", 0o600),
    ("/t/fifo", 0o640),
    ("/t/old", 0o755),
    ("/t/old/file", 0o660),
    ("/t/old/new", 0o2775),
    ("/t/old/new/file", 0o644),
];

fn source(tree: &Path) {
    fs::create_dir_all(tree.join("old/new")).unwrap();
    for (path, mode) in SOURCE.into_iter().rev() {
        let at = tree.join(path.trim_start_matches("/t").trim_start_matches('/'));
        if path.ends_with("fifo") {
            let mode = rustix::fs::Mode::from_raw_mode(mode);
            rustix::fs::mknodat(rustix::fs::CWD, &at, rustix::fs::FileType::Fifo, mode, 0).unwrap();
        } else if !at.is_dir() {
            fs::write(&at, path).unwrap();
        }
        fs::set_permissions(&at, fs::Permissions::from_mode(mode)).unwrap();
    }
    symlink("file", tree.join("link")).unwrap();
    fs::hard_link(tree.join("old/file"), tree.join("old/other")).unwrap();
}

/// A list that gives much to a named user.
fn old_list() -> Vec<u8> {
    access_list([7, 7, 5, 7, 5])
}

fn volume_with_lists() -> Volume {
    let volume = volume(32);
    for dir in OLD {
        let ino = volume.mkdir_all(dir, 0o700).unwrap().ino;
        for name in [ACCESS, DEFAULT] {
            volume.setxattr(&OWNER, ino, name.as_bytes(), &old_list(), XattrMode::Set).unwrap();
        }
    }
    volume
}

/// Nothing but the old directories has lists, and the modes are those of the source.
fn verify(volume: &Volume, what: &str) {
    for (path, mode) in SOURCE {
        let attr = volume.resolve(path).unwrap();
        assert_eq!(u32::from(attr.perm), mode, "{what}: {path}");
        let mut lists = volume.listxattr(attr.ino).unwrap();
        lists.sort();
        if OLD.contains(&path) {
            assert_eq!(lists, [ACCESS.as_bytes(), DEFAULT.as_bytes()], "{what}: {path}");
            let list = |name: &str| volume.getxattr(&OWNER, attr.ino, name.as_bytes()).unwrap();
            assert_eq!(list(DEFAULT), old_list());
            let [owner, mask, others] = [6, 3, 0].map(|shift| (mode >> shift & 7) as u16);
            assert_eq!(list(ACCESS), access_list([owner, 7, 5, mask, others]));
        } else {
            assert!(lists.is_empty(), "{what}: {path}");
        }
    }
    assert_sound(volume);
}

/// Makes changes all at once.
struct Together<'v>(&'v Volume);

impl Maker for Together<'_> {
    fn make(&self, base: Ino, changes: &[Change<'_>]) -> lanefs::Result<Vec<Applied>> {
        self.0.apply(base, changes)
    }
}

#[test]
fn an_imported_tree_inherits_nothing() {
    let temp = tempfile::tempdir().unwrap();
    let tree = temp.path().join("tree");
    source(&tree);
    for is_batched in [false, true] {
        let volume = volume_with_lists();
        let maker = Together(&volume);
        let maker = is_batched.then_some(&maker as &dyn Maker);
        // The second time, all files are replaced.
        for overwrite in [false, true] {
            let options = ImportOptions { overwrite, maker, ..ImportOptions::default() };
            assert_clean(&import_tree(&volume, &tree, b"/t", &options, control()).unwrap());
            verify(&volume, &format!("in batches: {is_batched}, again: {overwrite}"));
        }
        assert_eq!(volume.resolve("/t/old/other").unwrap().links, 2);
    }
}

#[test]
fn an_extracted_archive_inherits_nothing() {
    let temp = tempfile::tempdir().unwrap();
    let (tree, archive) = (temp.path().join("tree"), temp.path().join("archive.tar"));
    source(&tree);
    let plain = volume(32);
    assert_clean(&import_tree(&plain, &tree, b"/t", &ImportOptions::default(), control()).unwrap());
    let target = ArchiveTarget::File(&archive);
    assert_clean(&export_archive(&plain, b"/t", target, &ExportOptions::default(), control()).unwrap());
    let volume = volume_with_lists();
    for overwrite in [false, true] {
        let options = ImportOptions { overwrite, ..ImportOptions::default() };
        let source = ArchiveSource::File(&archive);
        assert_clean(&import_archive(&volume, source, b"/t", &options, control()).unwrap());
        verify(&volume, &format!("again: {overwrite}"));
    }
}

#[test]
fn a_single_file_inherits_nothing() {
    let temp = tempfile::tempdir().unwrap();
    let file = temp.path().join("file");
    fs::write(&file, "text").unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o640)).unwrap();
    let volume = volume_with_lists();
    for dest in ["/t", "/t/", "/t/old/name"] {
        assert_clean(
            &import_tree(
                &volume,
                &file,
                dest.as_bytes(),
                &ImportOptions { overwrite: true, ..ImportOptions::default() },
                control(),
            )
            .unwrap(),
        );
    }
    for path in ["/t/file", "/t/old/name"] {
        let attr = volume.resolve(path).unwrap();
        assert_eq!((attr.perm, volume.listxattr(attr.ino).unwrap().len()), (0o640, 0), "{path}");
    }
    // The directories stay as they were.
    for dir in OLD {
        let attr = volume.resolve(dir).unwrap();
        assert_eq!((attr.perm, volume.listxattr(attr.ino).unwrap().len()), (0o775, 2), "{dir}");
    }
    assert_sound(&volume);
}

/// Lists of the source: path and name of each.
const LISTS: [(&str, &str); 4] =
    [("old", ACCESS), ("old", DEFAULT), ("old/new", DEFAULT), ("old/file", ACCESS)];

/// Makes a tree with lists of its own, and returns their value; `None` where the host's file system has no
/// lists.
fn tree_with_lists(tree: &Path) -> Option<Vec<u8>> {
    source(tree);
    let own = access_list([7, 1, 0, 5, 0]);
    let set = |path: &str, name: &str| {
        rustix::fs::lsetxattr(tree.join(path), name, &own, rustix::fs::XattrFlags::empty())
    };
    if LISTS.iter().any(|(path, name)| set(path, name).is_err()) {
        eprintln!("SKIPPED: access control lists: the temporary directory's file system has none");
        return None;
    }
    Some(own)
}

fn verify_own(volume: &Volume, own: &[u8]) {
    for (path, name) in LISTS {
        let ino = volume.resolve(format!("/t/{path}")).unwrap().ino;
        assert_eq!(volume.getxattr(&OWNER, ino, name.as_bytes()).unwrap(), own, "{path} {name}");
    }
    for path in ["/t/file", "/t/old/new/file"] {
        assert!(volume.listxattr(volume.resolve(path).unwrap().ino).unwrap().is_empty(), "{path}");
    }
    assert_sound(volume);
}

#[test]
fn lists_of_the_source_replace_those_of_the_volume() {
    let temp = tempfile::tempdir().unwrap();
    let tree = temp.path().join("tree");
    let Some(own) = tree_with_lists(&tree) else { return };
    let volume = volume_with_lists();
    assert_clean(&import_tree(&volume, &tree, b"/t", &ImportOptions::default(), control()).unwrap());
    verify_own(&volume, &own);
}

/// Knows the user of the lists by any name.
struct One;

impl IdNames for One {
    fn user(&self, _: &str) -> Option<u32> {
        Some(1)
    }

    fn group(&self, _: &str) -> Option<u32> {
        None
    }
}

#[test]
fn lists_of_an_archive_of_gnu_tar_are_taken_where_names_have_numbers() {
    let temp = tempfile::tempdir().unwrap();
    let (tree, archive) = (temp.path().join("tree"), temp.path().join("archive.tar"));
    let Some(own) = tree_with_lists(&tree) else { return };
    let mut tar = std::process::Command::new("tar");
    tar.args(["--create", "--acls", "--file"]).arg(&archive).arg("-C").arg(&tree).arg(".");
    assert!(tar.status().unwrap().success());
    let import = |names: Option<&dyn IdNames>| {
        let volume = volume_with_lists();
        let options = ImportOptions { names, ..ImportOptions::default() };
        let source = ArchiveSource::File(&archive);
        let report = import_archive(&volume, source, b"/t", &options, control()).unwrap();
        assert_clean(&report);
        (volume, report.notes)
    };
    let (volume, notes) = import(Some(&One));
    verify_own(&volume, &own);
    assert!(notes.is_empty(), "{notes:?}");
    // tar writes the name of user 1 where the host has one.
    let users = fs::read_to_string("/etc/passwd").unwrap();
    let has_name = users.lines().any(|line| line.split(':').nth(2) == Some("1"));
    let (_, notes) = import(None);
    let is_told = notes.iter().any(|note| note.starts_with("4 access control lists not kept"));
    assert_eq!(is_told, has_name, "{notes:?}");
}
