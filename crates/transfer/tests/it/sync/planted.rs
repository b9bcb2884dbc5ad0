//! Each kind of difference, planted into a volume that is the same otherwise, is found and mended.

use super::*;
use lanefs::{Caller, FileKind, SetAttr, Time};
use std::fs;

/// A change of the volume, and the lines by which it is found.
type Plant = (&'static str, fn(&Volume), &'static [&'static str]);

fn set(volume: &Volume, path: &str, set: SetAttr) {
    volume.set_attributes(path, &set).unwrap();
}

/// Keeps the time of the directory, so that nothing but the planted change differs.
fn in_directory(volume: &Volume, change: impl FnOnce(&Volume)) {
    let before = volume.resolve("/in").unwrap();
    change(volume);
    set(volume, "/in", SetAttr { mtime: Some(before.mtime), ..SetAttr::default() });
}

const PLANTS: &[Plant] = &[
    ("mode", |v| set(v, "/in/f", SetAttr { perm: Some(0o600), ..SetAttr::default() }), &[".f...p..... f"]),
    ("owner", |v| set(v, "/in/f", SetAttr { uid: Some(77), ..SetAttr::default() }), &[".f....o.... f"]),
    ("group", |v| set(v, "/in/d", SetAttr { gid: Some(77), ..SetAttr::default() }), &[".d.....g... d"]),
    (
        "a nanosecond",
        |v| {
            let mtime = v.resolve("/in/f").unwrap().mtime;
            set(v, "/in/f", SetAttr { mtime: Some(Time(mtime.0 + 1)), ..SetAttr::default() });
        },
        &[">f..t...... f"],
    ),
    (
        "a time of a directory",
        |v| set(v, "/in/d", SetAttr { mtime: Some(Time(5)), ..SetAttr::default() }),
        &[".d..t...... d"],
    ),
    (
        "size",
        |v| {
            let mtime = Some(v.resolve("/in/f").unwrap().mtime);
            set(v, "/in/f", SetAttr { size: Some(3), mtime, ..SetAttr::default() });
        },
        &[">f.s....... f"],
    ),
    ("an attribute", |v| v.set_xattr("/in/f", "user.more", b"x").unwrap(), &[".f........x f"]),
    (
        "an access control list",
        |v| v.set_xattr("/in/f", ACCESS, access_list([6, 4, 4, 4, 4])).unwrap(),
        &[".f.......a. f"],
    ),
    (
        "a target",
        |v| {
            let before = v.resolve_no_follow("/in/link").unwrap();
            in_directory(v, |v| {
                v.remove_file("/in/link").unwrap();
                v.symlink("elsewher2", "/in/link").unwrap();
            });
            let link = v.resolve_no_follow("/in/link").unwrap().ino;
            let (uid, gid, mtime) = (Some(before.uid), Some(before.gid), Some(before.mtime));
            v.setattr(&Caller::OWNER, link, &SetAttr { uid, gid, mtime, ..SetAttr::default() }).unwrap();
        },
        &["cLc........ link"],
    ),
    ("a missing name", |v| in_directory(v, |v| v.remove_file("/in/f").unwrap()), &[">f+++++++++ f"]),
    (
        "a name too many",
        |v| in_directory(v, |v| _ = v.write_file("/in/f2", "x").unwrap()),
        &["*deleting   f2"],
    ),
    (
        "a tree too many",
        |v| {
            in_directory(v, |v| {
                v.mkdir_all("/in/e/g", 0o755).unwrap();
                v.write_file("/in/e/g/h", "x").unwrap();
            });
        },
        &["*deleting   e", "*deleting   e/g", "*deleting   e/g/h"],
    ),
    (
        "another type",
        |v| {
            in_directory(v, |v| {
                v.remove_file("/in/f").unwrap();
                let root = v.resolve("/in").unwrap().ino;
                v.mknod(&Caller::OWNER, root, b"f", FileKind::Fifo, 0o644, 0).unwrap();
            });
        },
        &[">f+++++++++ f"],
    ),
    (
        "a directory for a file",
        |v| {
            in_directory(v, |v| {
                v.remove_file("/in/f").unwrap();
                v.mkdir_all("/in/f/x", 0o755).unwrap();
            });
        },
        &["*deleting   f/x", ">f+++++++++ f"],
    ),
    (
        "a file for a directory",
        |v| {
            in_directory(v, |v| {
                v.remove_all("/in/d").unwrap();
                v.write_file("/in/d", "x").unwrap();
            });
        },
        &[">f+++++++++ d/inner", "cd+++++++++ d"],
    ),
];

#[test]
fn every_planted_difference_is_found_and_mended() {
    let temp = tempfile::tempdir().unwrap();
    let tree = temp.path().join("tree");
    fs::create_dir_all(tree.join("d")).unwrap();
    fs::write(tree.join("f"), "content").unwrap();
    fs::write(tree.join("d/inner"), "inner").unwrap();
    std::os::unix::fs::symlink("elsewhere", tree.join("link")).unwrap();
    let volume = volume(64);
    sync(&volume, &tree, &deleting());
    for (what, plant, expected) in PLANTS {
        plant(&volume);
        let mut expected: Vec<&str> = expected.to_vec();
        expected.sort_unstable();
        let (from, to) = (Side::Host(&tree), Side::Volume(&volume, b"/in"));
        assert_eq!(diff(from, to, &deleting()), expected, "{what}");
        assert_eq!(sync(&volume, &tree, &deleting()), expected, "{what}");
        assert_volume_has(&volume, &tree);
    }
}
