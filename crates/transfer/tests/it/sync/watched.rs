//! Syncs of the parts of a tree that its watch names: afterwards the volume is as the tree.

use super::edits::Editor;
use super::*;
use std::fs;

/// Edits between two syncs.
const EDITS: usize = 12;

fn never() -> bool {
    false
}

fn within(scope: Scope) -> SyncOptions {
    SyncOptions { scope, ..deleting() }
}

/// Follows a tree through random edits by its watch. Returns how often a round had to be repeated as a whole.
fn follow(seed: u64, has_links: bool) -> usize {
    let temp = tempfile::tempdir().unwrap();
    let tree = temp.path().join("tree");
    let mut editor = Editor::new(seed, &tree);
    editor.links = has_links;
    editor.edit(100);
    let mut watch = TreeWatch::new(&tree, &Filter::default(), &never).unwrap();
    let volume = volume(64);
    sync(&volume, &tree, &deleting());
    let mut repeated = 0;
    for round in 0..8 {
        editor.edit(EDITS);
        let scope = match watch.now(&never).unwrap() {
            WatchOutcome::Changed(scope) => scope,
            WatchOutcome::Nothing => Scope::empty(),
            WatchOutcome::Overflow | WatchOutcome::Replaced => panic!("so few changes"),
        };
        let whole = sync_with(&volume, &tree, &SyncOptions { dry_run: true, ..deleting() }).1;
        let (report, found) = sync_with(&volume, &tree, &within(scope.clone()));
        assert_clean(&report.report);
        if report.needs_whole {
            repeated += 1;
            sync(&volume, &tree, &deleting());
        } else {
            assert_eq!(found, whole, "seed {seed}, round {round}: {scope:?}");
        }
        assert_volume_has(&volume, &tree);
        assert_eq!(sync(&volume, &tree, &deleting()), [""; 0], "seed {seed}, round {round}");
    }
    repeated
}

#[test]
fn a_sync_of_what_a_watch_has_seen_leaves_nothing_to_do() {
    for seed in 201..=206 {
        assert_eq!(follow(seed, false), 0, "without hard links every round is enough");
    }
    let repeated: usize = (301..=306).map(|seed| follow(seed, true)).sum();
    assert!(repeated > 0, "files with several names were among the edits");
}

#[test]
fn what_is_outside_of_the_scope_is_neither_read_nor_changed() {
    let temp = tempfile::tempdir().unwrap();
    let tree = temp.path().join("tree");
    for name in ["a/b/c", "a/d", "e/f"] {
        fs::create_dir_all(tree.join(name)).unwrap();
        fs::write(tree.join(name).join("file"), name).unwrap();
    }
    let volume = volume(64);
    sync(&volume, &tree, &deleting());
    for name in ["a/b/c", "a/d", "e/f"] {
        fs::write(tree.join(name).join("file"), "changed").unwrap();
        fs::write(tree.join(name).join("new"), "new").unwrap();
    }
    fs::remove_file(tree.join("e/f/file")).unwrap();
    let mut scope = Scope::empty();
    assert_eq!(sync(&volume, &tree, &within(scope.clone())), [""; 0]);
    scope.add(b"a/d", Depth::Names);
    scope.add(b"gone/long/ago", Depth::Below);
    let found = sync(&volume, &tree, &within(scope.clone()));
    let mut names: Vec<&str> = found.iter().map(|line| line.rsplit(' ').next().unwrap()).collect();
    names.sort_unstable();
    assert_eq!(names, ["a/d", "a/d/file", "a/d/new"]);
    // The names of a directory, but not what is below the directories in it.
    scope.add(b"a", Depth::Names);
    fs::create_dir(tree.join("a/g")).unwrap();
    fs::write(tree.join("a/g/file"), "below a new directory").unwrap();
    let found = sync(&volume, &tree, &within(scope.clone()));
    assert!(found.iter().any(|line| line.ends_with(" a/g/file")), "{found:?}");
    assert!(!found.iter().any(|line| line.contains("a/b/c/")), "{found:?}");
    scope.add(b"a", Depth::Below);
    let found = sync(&volume, &tree, &within(scope));
    assert!(found.iter().any(|line| line.ends_with(" a/b/c/file")), "{found:?}");
    let left = sync(&volume, &tree, &deleting());
    assert!(!left.is_empty() && left.iter().all(|line| line.contains(" e")), "{left:?}");
    assert_volume_has(&volume, &tree);
}

/// Nothing but the number of names tells that a name outside of the scope shares the file, or did.
#[test]
fn a_name_that_joins_or_leaves_a_file_outside_of_the_scope_is_told() {
    let temp = tempfile::tempdir().unwrap();
    let tree = temp.path().join("tree");
    let path = |name: &str| tree.join(name);
    for dir in ["d", "e"] {
        fs::create_dir_all(tree.join(dir)).unwrap();
        fs::write(path(dir).join("other"), "with a name outside of the tree").unwrap();
        fs::hard_link(path(dir).join("other"), temp.path().join(dir)).unwrap();
    }
    let write = |name: &str| {
        let _ = fs::remove_file(path(name));
        fs::write(path(name), "content").unwrap();
        set_mtime(&path(name), 1_700_000_000_000_000_000);
    };
    write("d/a");
    fs::hard_link(path("d/a"), path("e/b")).unwrap();
    let volume = volume(64);
    let shared = std::sync::Arc::new(UnequalLinks::default());
    let unequal_links = Some(shared);
    let whole = SyncOptions { unequal_links: unequal_links.clone(), ..deleting() };
    sync(&volume, &tree, &whole);
    // The first one of all finds names outside of the tree.
    sync(&volume, &tree, &whole);
    let mut scope = Scope::empty();
    scope.add(b"e", Depth::Names);
    let part = SyncOptions { scope, ..whole.clone() };
    let needs_whole = |options: &SyncOptions| sync_with(&volume, &tree, options).0.needs_whole;
    assert!(!needs_whole(&part), "names outside of the tree are known");
    assert!(
        needs_whole(&SyncOptions { unequal_links: None, ..part.clone() }),
        "unless nobody remembers them"
    );
    for joins in [false, true] {
        match joins {
            false => write("e/b"),
            true => {
                fs::remove_file(path("e/b")).unwrap();
                fs::hard_link(path("d/a"), path("e/b")).unwrap();
            }
        }
        // The directory has its time, so nothing else differs.
        let time = fs::metadata(path("d")).unwrap().modified().unwrap();
        fs::File::open(path("e")).unwrap().set_modified(time).unwrap();
        assert!(needs_whole(&part), "{joins}");
        sync(&volume, &tree, &whole);
        assert_volume_has(&volume, &tree);
        sync(&volume, &tree, &whole);
        assert!(!needs_whole(&part), "{joins}");
    }
}

#[test]
fn a_link_in_the_place_of_a_watched_directory_leads_nowhere() {
    let temp = tempfile::tempdir().unwrap();
    let (tree, outside) = (temp.path().join("tree"), temp.path().join("outside"));
    for dir in [&tree, &outside] {
        fs::create_dir_all(dir.join("d/e")).unwrap();
        fs::write(dir.join("d/e/file"), dir.as_os_str().as_encoded_bytes()).unwrap();
    }
    let mut watch = TreeWatch::new(&tree, &Filter::default(), &never).unwrap();
    let volume = volume(64);
    sync(&volume, &tree, &deleting());
    // The kernel tells of a directory that is a link by the time that the watch looks at it.
    fs::create_dir_all(tree.join("new/e")).unwrap();
    fs::rename(tree.join("d"), tree.join("d2")).unwrap();
    for name in ["d", "new"] {
        let _ = fs::remove_dir_all(tree.join(name));
        std::os::unix::fs::symlink(outside.join("d"), tree.join(name)).unwrap();
    }
    let mut follow = || match watch.now(&never).unwrap() {
        WatchOutcome::Changed(scope) => Some(sync(&volume, &tree, &within(scope))),
        WatchOutcome::Nothing => None,
        WatchOutcome::Overflow | WatchOutcome::Replaced => panic!("so few changes"),
    };
    assert!(follow().is_some());
    assert_volume_has(&volume, &tree);
    assert_eq!(volume.read_link("/in/d").unwrap(), outside.join("d").as_os_str().as_encoded_bytes());
    assert_eq!(volume.read_link("/in/new").unwrap(), outside.join("d").as_os_str().as_encoded_bytes());
    // A change outside is not told, or costs a look that finds nothing.
    fs::write(outside.join("d/e/file"), "changed").unwrap();
    assert!(follow().is_none_or(|lines| lines.is_empty()));
    assert_volume_has(&volume, &tree);
}
