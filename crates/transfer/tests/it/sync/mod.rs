//! Syncs and comparisons: the volume is as the tree afterwards, whatever the edits were and whatever failed.

mod archived;
mod calls;
mod edits;
mod far_times;
mod faults;
mod hard_links;
mod link_lines;
mod memory;
mod planted;
mod property;
mod recorded;
mod renames;
mod watched;

use crate::common::*;
use lanefs::{FileSystem, Volume};
use lanefs_transfer::*;
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::path::Path;
use std::sync::Mutex;

/// Options of most syncs here: one thread, so that the differences of two runs can be compared.
fn deleting() -> SyncOptions {
    SyncOptions { delete: true, threads: Some(1), ..SyncOptions::default() }
}

/// Lines of differences as the program prints them, sorted.
fn lines(differences: Mutex<Vec<Difference>>) -> Vec<String> {
    let differences = differences.into_inner().unwrap();
    let line = |difference: &Difference| format!("{} {}", difference.letters(), shown(&difference.path));
    let mut lines: Vec<String> = differences.iter().map(line).collect();
    lines.sort();
    lines
}

/// Syncs into `/in` of the volume. Returns the report and the differences.
fn sync_with(volume: &dyn FileSystem, tree: &Path, options: &SyncOptions) -> (SyncReport, Vec<String>) {
    let found = Mutex::new(Vec::new());
    let receiver = |difference: &Difference| found.lock().unwrap().push(difference.clone());
    let report = sync_tree(volume, Side::Host(tree), b"/in", options, &receiver, control()).unwrap();
    (report, lines(found))
}

/// Syncs `/in` of a volume into `/in` of another one, without any problem. Returns the differences.
fn sync_volumes(volume: &Volume, source: &Volume, options: &SyncOptions) -> Vec<String> {
    let found = Mutex::new(Vec::new());
    let receiver = |difference: &Difference| found.lock().unwrap().push(difference.clone());
    let report =
        sync_tree(volume, Side::Volume(source, b"/in"), b"/in", options, &receiver, control()).unwrap();
    assert_clean(&report.report);
    lines(found)
}

/// The same, without any problem.
fn sync(volume: &Volume, tree: &Path, options: &SyncOptions) -> Vec<String> {
    let (report, lines) = sync_with(volume, tree, options);
    assert_clean(&report.report);
    assert_eq!(report.counts.differences() as usize, lines.len());
    lines
}

/// The differences that a comparison finds.
fn diff(from: Side<'_>, to: Side<'_>, options: &SyncOptions) -> Vec<String> {
    let found = Mutex::new(Vec::new());
    let receiver = |difference: &Difference| found.lock().unwrap().push(difference.clone());
    let report = diff_trees(from, to, options, &receiver, control()).unwrap();
    assert_clean(&report.report);
    lines(found)
}

/// `/in` of the volume has everything as the tree, by the comparison that shares no code with a sync.
fn assert_volume_has(volume: &Volume, tree: &Path) {
    assert_sound(volume);
    let temp = tempfile::tempdir().unwrap();
    let back = temp.path().join("back");
    assert_clean(&export_tree(volume, b"/in", &back, &ExportOptions::default(), control()).unwrap());
    assert_same(tree, &back);
}

#[test]
fn a_tree_with_one_of_everything_goes_in_and_nothing_is_left_to_do() {
    let temp = tempfile::tempdir().unwrap();
    let tree = temp.path().join("tree");
    make_tree(&tree);
    let volume = volume(256);
    let added = sync(&volume, &tree, &SyncOptions::default());
    assert!(added.len() > 450, "{}", added.len());
    assert_volume_has(&volume, &tree);
    let checksum = SyncOptions { checksum: true, ..SyncOptions::default() };
    for options in [&SyncOptions::default(), &checksum, &deleting()] {
        assert_eq!(sync(&volume, &tree, options), [""; 0]);
        assert_eq!(diff(Side::Volume(&volume, b"/in"), Side::Host(&tree), options), [""; 0]);
        assert_eq!(diff(Side::Host(&tree), Side::Volume(&volume, b"/in"), options), [""; 0]);
    }
    assert_eq!(diff(Side::Host(&tree), Side::Host(&tree), &checksum), [""; 0]);
    assert_eq!(diff(Side::Volume(&volume, b"/in"), Side::Volume(&volume, b"/in"), &checksum), [""; 0]);
}

#[test]
fn a_volume_follows_another_one_with_everything_in_it() {
    let temp = tempfile::tempdir().unwrap();
    let tree = temp.path().join("tree");
    make_tree(&tree);
    // Data between holes, at the end and not, over pieces of a copy.
    for (name, data, len) in
        [("end", 40 << 20, 41 << 20), ("middle", 9 << 20, 64 << 20), ("none", 0, 1 << 20)]
    {
        let file = std::fs::File::create(tree.join(format!("hole at the {name}"))).unwrap();
        file.set_len(len).unwrap();
        if data > 0 {
            file.write_all_at(&noise((3 << 20) / 4), data).unwrap();
        }
    }
    let (first, second) = (volume(512), volume(512));
    let added = sync(&first, &tree, &SyncOptions::default());
    for options in [SyncOptions { threads: Some(3), ..deleting() }, deleting()] {
        second.remove_all("/in").ok();
        assert_eq!(sync_volumes(&second, &first, &options), added);
        assert_volume_has(&second, &tree);
        assert_eq!(sync_volumes(&second, &first, &SyncOptions { checksum: true, ..options }), [""; 0]);
    }
    let missing = sync_tree(&second, Side::Volume(&first, b"/none"), b"/in", &deleting(), &|_| (), control());
    assert!(missing.unwrap_err().to_string().contains("/none"));
    assert_volume_has(&second, &tree);
}

/// Keeps the states of a transfer.
#[derive(Default)]
struct Seen(Mutex<Vec<ProgressState>>);

impl Progress for Seen {
    fn update(&self, now: &ProgressState) {
        self.0.lock().unwrap().push(*now);
    }
}

#[test]
fn the_progress_tells_how_many_names_a_whole_volume_has() {
    let temp = tempfile::tempdir().unwrap();
    let tree = temp.path().join("tree");
    std::fs::create_dir(&tree).unwrap();
    let volume = volume(64);
    for name in 0..20 {
        volume.write_file(format!("/{name}"), "content").unwrap();
    }
    let inodes = volume.statfs().unwrap().inodes;
    for (top, wanted) in [(&b"/"[..], Some(inodes)), (b"/in", None)] {
        let seen = Seen::default();
        // A file is waited for until the progress was told.
        let interrupt = || {
            while seen.0.lock().unwrap().is_empty() {
                std::thread::yield_now();
            }
            false
        };
        volume.mkdir_all("/in", 0o755).unwrap();
        let control = Control { interrupt: &interrupt, progress: &seen };
        let (from, to) = (Side::Host(&tree), Side::Volume(&volume, top));
        diff_trees(from, to, &deleting(), &|_| (), control).unwrap();
        let wanted = wanted.map(|inodes| inodes + 1);
        assert_eq!(seen.0.lock().unwrap().first().unwrap().expected, wanted);
    }
}

#[test]
fn names_that_are_left_out_are_neither_copied_nor_removed() {
    let temp = tempfile::tempdir().unwrap();
    let tree = temp.path().join("tree");
    for dir in ["a/build", "b"] {
        std::fs::create_dir_all(tree.join(dir)).unwrap();
    }
    for file in ["a/x.o", "a/x.c", "a/keep.o", "a/build/out", "b/y"] {
        std::fs::write(tree.join(file), file).unwrap();
    }
    let volume = volume(64);
    volume.mkdir_all("/in/gone", 0o755).unwrap();
    volume.write_file("/in/gone/old.o", "old").unwrap();
    volume.write_file("/in/old.o", "old").unwrap();
    volume.write_file("/in/old.c", "old").unwrap();
    let filter = Filter::new(["*.o", "!keep.o", "build/"]).unwrap();
    let options = SyncOptions { filter, ..deleting() };
    let (report, _) = sync_with(&volume, &tree, &options);
    assert_eq!(report.report.notes.len(), 1, "{:?}", report.report.notes);
    for (path, is_there) in [
        ("/in/a/x.c", true),
        ("/in/a/keep.o", true),
        ("/in/a/x.o", false),
        ("/in/a/build", false),
        ("/in/b/y", true),
        ("/in/old.o", true),
        ("/in/old.c", false),
        ("/in/gone/old.o", true),
    ] {
        assert_eq!(volume.exists(path).unwrap(), is_there, "{path}");
    }
    assert_eq!(sync(&volume, &tree, &options), [""; 0]);
    let all = sync(&volume, &tree, &deleting());
    assert_eq!(all.iter().filter(|line| line.starts_with("*deleting")).count(), 3, "{all:?}");
    assert_volume_has(&volume, &tree);
}

#[test]
fn without_delete_nothing_is_removed_and_a_directory_with_names_stays_in_the_way() {
    let temp = tempfile::tempdir().unwrap();
    let tree = temp.path().join("tree");
    std::fs::create_dir(&tree).unwrap();
    for name in ["full", "empty", "new"] {
        std::fs::write(tree.join(name), name).unwrap();
    }
    let volume = volume(64);
    volume.mkdir_all("/in/full", 0o755).unwrap();
    volume.mkdir_all("/in/empty", 0o755).unwrap();
    for file in ["/in/full/inner", "/in/other"] {
        volume.write_file(file, "old").unwrap();
    }
    let options = SyncOptions { delete: false, ..deleting() };
    let (report, found) = sync_with(&volume, &tree, &options);
    assert_eq!(report.report.exit_code(), EXIT_PARTLY);
    assert!(report.report.problems[0].what.contains("is in the way"), "{:?}", report.report.problems);
    assert_eq!(found.iter().filter(|line| line.contains("deleting")).count(), 0, "{found:?}");
    assert_eq!(volume.read_file("/in/full/inner").unwrap(), b"old");
    assert_eq!(volume.read_file("/in/empty").unwrap(), b"empty");
    assert_eq!(volume.read_file("/in/other").unwrap(), b"old");
    sync(&volume, &tree, &deleting());
    assert_volume_has(&volume, &tree);
}

#[test]
fn only_a_comparison_of_contents_finds_a_change_that_kept_size_and_time() {
    let temp = tempfile::tempdir().unwrap();
    let tree = temp.path().join("tree");
    std::fs::create_dir(&tree).unwrap();
    for (name, len) in [("small", 100), ("large", 3 << 20)] {
        let path = tree.join(name);
        let mut content = noise(len);
        std::fs::write(&path, &content).unwrap();
        set_mtime(&path, 1_700_000_000_123_456_789);
        let volume = volume(64);
        sync(&volume, &tree, &deleting());
        content[len - 7] ^= 1;
        std::fs::write(&path, &content).unwrap();
        set_mtime(&path, 1_700_000_000_123_456_789);
        assert_eq!(sync(&volume, &tree, &deleting()), [""; 0]);
        let checksum = SyncOptions { checksum: true, ..deleting() };
        assert_eq!(sync(&volume, &tree, &checksum), [format!(">fc........ {name}")]);
        assert_volume_has(&volume, &tree);
        // A new time alone copies nothing, where contents are compared.
        set_mtime(&path, 1_700_000_000_123_456_790);
        assert_eq!(sync(&volume, &tree, &checksum), [format!(".f..t...... {name}")]);
        assert_volume_has(&volume, &tree);
    }
}

#[test]
fn content_gets_no_rights_that_it_had_not_when_it_was_copied() {
    if !is_root() {
        eprintln!("not run: only root gives files to others");
        return;
    }
    let temp = tempfile::tempdir().unwrap();
    let tree = temp.path().join("tree");
    std::fs::create_dir(&tree).unwrap();
    let path = tree.join("tool");
    let others = |user: u32| std::os::unix::fs::chown(&path, Some(user), Some(user)).unwrap();
    let permit = |mode: u32| std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
    // `cap_net_raw+ep` (vfs_cap_data of linux/capability.h).
    let mut capabilities = [0; 20];
    capabilities[..8].copy_from_slice(&[1, 0, 0, 2, 0, 0x20, 0, 0]);
    let gains: [&dyn Fn(); 4] = [&|| others(0), &|| permit(0o4755), &|| permit(0o2755), &|| {
        let file = std::fs::File::open(&path).unwrap();
        let flags = rustix::fs::XattrFlags::empty();
        rustix::fs::fsetxattr(&file, "security.capability", &capabilities, flags).unwrap();
    }];
    for gain in gains {
        for is_other in [true, false] {
            let volume = volume(64);
            std::fs::write(&path, b"made by its owner").unwrap();
            others(1000);
            permit(0o755);
            set_mtime(&path, 1_700_000_000_123_456_789);
            sync(&volume, &tree, &deleting());
            // A file of somebody else, of the same size and time, under the name: a hard link, for example.
            if is_other {
                std::fs::write(&path, b"made by the other").unwrap();
            }
            gain();
            set_mtime(&path, 1_700_000_000_123_456_789);
            let [line] = sync(&volume, &tree, &deleting()).try_into().expect("one difference");
            // The same content is not copied again.
            assert!(line.starts_with(if is_other { ">fc" } else { ".f." }), "{line}");
            assert_volume_has(&volume, &tree);
        }
    }
}
