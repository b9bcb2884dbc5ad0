//! Names that share a file, on either side.

use super::*;
use lanefs::Ino;
use std::fs;
use std::os::unix::fs::PermissionsExt;

fn ino(volume: &Volume, name: &str) -> Ino {
    volume.resolve_no_follow(format!("/in/{name}")).unwrap().ino
}

#[test]
fn names_share_a_file_exactly_if_they_do_in_the_tree() {
    let temp = tempfile::tempdir().unwrap();
    let tree = temp.path().join("tree");
    fs::create_dir_all(tree.join("d")).unwrap();
    for name in ["a", "d/b", "c"] {
        fs::write(tree.join(name), "same").unwrap();
        set_mtime(&tree.join(name), 1_000_000_000);
    }
    let volume = volume(64);
    let go = || {
        sync(&volume, &tree, &deleting());
        assert_volume_has(&volume, &tree);
        assert_eq!(sync(&volume, &tree, &deleting()), [""; 0]);
    };
    go();
    // Three files become one, then two names leave it.
    for name in ["d/b", "c"] {
        fs::remove_file(tree.join(name)).unwrap();
        fs::hard_link(tree.join("a"), tree.join(name)).unwrap();
    }
    go();
    assert_eq!(ino(&volume, "a"), ino(&volume, "d/b"));
    fs::remove_file(tree.join("c")).unwrap();
    fs::write(tree.join("c"), "same").unwrap();
    set_mtime(&tree.join("c"), 1_000_000_000);
    go();
    assert_ne!(ino(&volume, "a"), ino(&volume, "c"));
    // New content reaches all names; new attributes do in place.
    fs::write(tree.join("a"), "other content").unwrap();
    go();
    let before = ino(&volume, "a");
    set_mtime(&tree.join("a"), 2_000_000_000);
    let checksum = SyncOptions { checksum: true, ..deleting() };
    assert_eq!(sync(&volume, &tree, &checksum), [".f..t...... a", ".f..t...... d/b"]);
    assert_eq!(ino(&volume, "a"), before);
    go();
}

#[test]
fn a_name_outside_of_the_synced_directory_keeps_its_content_and_attributes() {
    let temp = tempfile::tempdir().unwrap();
    let tree = temp.path().join("tree");
    fs::create_dir(&tree).unwrap();
    fs::write(tree.join("f"), "content").unwrap();
    set_mtime(&tree.join("f"), 1_000_000_000);
    let volume = volume(64);
    sync(&volume, &tree, &deleting());
    volume.hard_link("/in/f", "/outside").unwrap();
    set_mtime(&tree.join("f"), 2_000_000_000);
    sync(&volume, &tree, &SyncOptions { checksum: true, ..deleting() });
    assert_eq!(volume.resolve("/outside").unwrap().mtime.0, 1_000_000_000);
    assert_eq!(volume.resolve("/in/f").unwrap().mtime.0, 2_000_000_000);
    assert_volume_has(&volume, &tree);
}

/// The first name that meets a file of the volume keeps it, unless it gets another one.
#[test]
fn a_file_that_one_name_leaves_is_kept_by_the_next() {
    let temp = tempfile::tempdir().unwrap();
    let tree = temp.path().join("tree");
    fs::create_dir(&tree).unwrap();
    let write = |name: &str, content: &str| {
        let _ = fs::remove_file(tree.join(name));
        fs::write(tree.join(name), content).unwrap();
        set_mtime(&tree.join(name), 1_000_000_000);
    };
    for (changed, letters) in [("other content", ">f.s"), ("content", ">f..")] {
        write("a", "content");
        for name in ["b", "c"] {
            let _ = fs::remove_file(tree.join(name));
            fs::hard_link(tree.join("a"), tree.join(name)).unwrap();
        }
        let volume = volume(64);
        sync(&volume, &tree, &deleting());
        let before = ino(&volume, "b");
        // Each of the three is a file of its own now, and only the first one differs.
        write("a", changed);
        fs::set_permissions(tree.join("a"), fs::Permissions::from_mode(0o600)).unwrap();
        write("b", "content");
        write("c", "content");
        let options = SyncOptions { in_order: true, ..deleting() };
        let (_, wanted) = sync_with(&volume, &tree, &SyncOptions { dry_run: true, ..options.clone() });
        let mut lines = sync(&volume, &tree, &options);
        assert_eq!(lines, wanted);
        lines.retain(|line| !line.starts_with(".d"));
        let [left, changed] = &lines[..] else { panic!("{lines:?}") };
        assert!(
            left == ">f......... c" && changed.starts_with(letters) && changed.ends_with(" a"),
            "{lines:?}"
        );
        assert_eq!(ino(&volume, "b"), before, "it is not copied");
        assert_volume_has(&volume, &tree);
        fs::set_permissions(tree.join("a"), fs::Permissions::from_mode(0o644)).unwrap();
    }
}

/// A name of the tree becomes one more of a file of somebody else, of the same size and time. Neither content
/// gets the rights of the other one, and none takes the other one's place.
#[test]
fn a_name_that_joins_a_file_of_somebody_else_has_its_content() {
    if !is_root() {
        eprintln!("not run: only root gives files to others");
        return;
    }
    for evil in ["a", "c"] {
        let temp = tempfile::tempdir().unwrap();
        let tree = temp.path().join("tree");
        fs::create_dir(&tree).unwrap();
        let make = |name: &str, content: &str, mode: u32, user: u32| {
            let path = tree.join(name);
            fs::write(&path, content).unwrap();
            std::os::unix::fs::chown(&path, Some(user), Some(user)).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
            set_mtime(&path, 1_700_000_000_123_456_789);
        };
        make("b", "program of root", 0o4755, 0);
        make(evil, "program of user", 0o755, 1000);
        let volume = volume(64);
        sync(&volume, &tree, &deleting());
        fs::remove_file(tree.join(evil)).unwrap();
        fs::hard_link(tree.join("b"), tree.join(evil)).unwrap();
        sync(&volume, &tree, &deleting());
        assert_volume_has(&volume, &tree);
        assert_eq!(sync(&volume, &tree, &deleting()), [""; 0]);
    }
}
