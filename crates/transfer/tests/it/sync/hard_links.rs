//! Names that share a file, on either side.

use super::*;
use lanefs::Ino;
use std::fs;

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
