//! The lines of a dry run are those of the sync that follows, whatever names share a file on either side.

use super::edits::Random;
use super::*;
use rustix::fs::XattrFlags;
use std::fs;
use std::path::PathBuf;

/// A tree of few names, most of which share a file with others.
struct LinkEditor {
    random: Random,
    top: PathBuf,
}

impl LinkEditor {
    fn new(seed: u64, top: &Path) -> Self {
        for dir in ["p", "q/r"] {
            fs::create_dir_all(top.join(dir)).unwrap();
        }
        LinkEditor { random: Random::new(seed), top: top.to_owned() }
    }

    fn path(&mut self) -> PathBuf {
        let dir = ["", "p", "q", "q/r"][self.random.below(4)];
        self.top.join(dir).join(["a", "b", "c"][self.random.below(3)])
    }

    fn edit_once(&mut self) {
        let (one, other) = (self.path(), self.path());
        let is_there = one.exists();
        // Few times and contents, so that a name can change its file and nothing else.
        let old = 1_700_000_000_000_000_000;
        match self.random.below(10) {
            0..=3 if other.exists() && one != other => {
                let _ = fs::remove_file(&one);
                fs::hard_link(&other, &one).unwrap();
            }
            4 if is_there => fs::remove_file(&one).unwrap(),
            5 if is_there => {
                let mode = [0o600, 0o640, 0o644][self.random.below(3)];
                fs::set_permissions(&one, fs::Permissions::from_mode(mode)).unwrap();
            }
            6 if is_there => {
                let value = [b'v'; 4];
                // The file system may have none.
                let _ = rustix::fs::lsetxattr(
                    &one,
                    "user.a",
                    &value[..self.random.below(4)],
                    XattrFlags::empty(),
                );
            }
            7 if is_there => set_mtime(&one, old + self.random.below(3) as u64),
            8 => {
                let _ = fs::remove_file(&one);
                std::os::unix::fs::symlink("elsewhere", &one).unwrap();
            }
            _ => {
                let _ = fs::remove_file(&one);
                fs::write(&one, ["same", "longer"][self.random.below(2)]).unwrap();
                set_mtime(&one, old);
            }
        }
    }
}

fn dry(options: &SyncOptions) -> SyncOptions {
    SyncOptions { dry_run: true, ..options.clone() }
}

#[test]
fn a_dry_run_and_the_sync_that_follows_list_the_same_of_links() {
    for seed in 1..=16 {
        let temp = tempfile::tempdir().unwrap();
        let tree = temp.path().join("tree");
        let mut editor = LinkEditor::new(seed, &tree);
        let volume = volume(32);
        for round in 0..25 {
            (0..8).for_each(|_| editor.edit_once());
            let threads = Some([1, 5][round % 2]);
            let checksum = round % 3 == 2;
            let options = SyncOptions { checksum, threads, in_order: true, ..deleting() };
            let (_, wanted) = sync_with(&volume, &tree, &dry(&options));
            assert_eq!(sync(&volume, &tree, &options), wanted, "seed {seed}, round {round}");
            assert_volume_has(&volume, &tree);
            assert_eq!(sync(&volume, &tree, &options), [""; 0], "seed {seed}, round {round}");
        }
    }
}

/// A tree, and the same in a volume.
fn prepared(names: &[(&str, Option<&str>)]) -> (tempfile::TempDir, PathBuf, Volume) {
    let temp = tempfile::tempdir().unwrap();
    let tree = temp.path().join("tree");
    fs::create_dir_all(tree.join("d")).unwrap();
    for (name, file) in names {
        match file {
            Some(file) => fs::hard_link(tree.join(file), tree.join(name)).unwrap(),
            None => fs::write(tree.join(name), "content").unwrap(),
        }
        set_mtime(&tree.join(name), 1_700_000_000_000_000_000);
    }
    let volume = volume(32);
    sync(&volume, &tree, &deleting());
    (temp, tree, volume)
}

#[test]
fn a_name_that_was_removed_counts_until_the_sync_ends() {
    // `a` goes first; then the file has as many names in the volume as in the tree.
    let (_temp, tree, volume) = prepared(&[("a", None), ("d/b", Some("a")), ("d/c", Some("a"))]);
    fs::remove_file(tree.join("a")).unwrap();
    fs::set_permissions(tree.join("d/b"), fs::Permissions::from_mode(0o600)).unwrap();
    let (_, wanted) = sync_with(&volume, &tree, &dry(&deleting()));
    assert_eq!(sync(&volume, &tree, &deleting()), wanted);
    assert!(wanted.contains(&">f...p..... d/b".to_string()), "{wanted:?}");
    assert_volume_has(&volume, &tree);
}

#[test]
fn attributes_that_were_set_through_another_name_count_as_before() {
    // `a` gets its attributes in place; `d/z` leaves the file with those that it had.
    let (_temp, tree, volume) = prepared(&[("a", None), ("d/z", Some("a"))]);
    fs::remove_file(tree.join("d/z")).unwrap();
    fs::write(tree.join("d/z"), "content").unwrap();
    set_mtime(&tree.join("d/z"), 1_700_000_000_000_000_000);
    fs::hard_link(tree.join("a"), tree.join("e")).unwrap();
    fs::set_permissions(tree.join("a"), fs::Permissions::from_mode(0o600)).unwrap();
    let _ = rustix::fs::lsetxattr(tree.join("a"), "user.a", b"v", XattrFlags::empty());
    let options = SyncOptions { in_order: true, ..deleting() };
    let (_, wanted) = sync_with(&volume, &tree, &dry(&options));
    assert_eq!(sync(&volume, &tree, &options), wanted);
    assert!(wanted.contains(&">f......... d/z".to_string()), "{wanted:?}");
    assert_volume_has(&volume, &tree);
}
