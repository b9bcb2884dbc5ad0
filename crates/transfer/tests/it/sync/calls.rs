//! The calls that a sync makes on a volume: none leaves a file without its name, and a hostile answer ends.

use super::*;
use lanefs::bulk::Applied;
use lanefs::{
    Attr, Description, DirEntry, FileKind, Ino, MkdirAll, RenameMode, Resolution, Seek, SetAttr, XattrMode,
};
use std::fs;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// Calls that another file system answers.
macro_rules! delegate {
    ($($name:ident($($argument:ident: $type:ty),*) -> $answer:ty;)*) => {$(
        fn $name(&self, $($argument: $type),*) -> lanefs::Result<$answer> {
            FileSystem::$name(&self.0, $($argument),*)
        }
    )*};
}

/// The calls of a volume that a wrapper does not change.
macro_rules! other_calls {
    () => {
        fn root(&self) -> Ino {
            self.0.root()
        }
        fn size(&self) -> lanefs::Result<u64> {
            FileSystem::size(&self.0)
        }
        fn resolve_at(&self, base: Ino, path: &[u8], follow: bool) -> lanefs::Result<Resolution> {
            self.0.resolve_at(base, path, follow)
        }
        delegate! {
            lookup(dir: Ino, name: &[u8]) -> (Ino, FileKind);
            getattr(ino: Ino) -> Attr;
            describe_inodes(inos: &[Ino]) -> Vec<Option<Description>>;
            setattr(ino: Ino, set: SetAttr) -> Attr;
            create_file(dir: Ino, name: &[u8], perm: u16) -> Attr;
            mknod(dir: Ino, name: &[u8], kind: FileKind, perm: u16, rdev: u64) -> Attr;
            mkdir(dir: Ino, name: &[u8], perm: u16) -> Attr;
            mkdir_all(options: MkdirAll, path: &[u8]) -> Attr;
            symlink(dir: Ino, name: &[u8], target: &[u8]) -> Attr;
            readlink(ino: Ino) -> Vec<u8>;
            link(ino: Ino, dir: Ino, name: &[u8]) -> Attr;
            rename(from: Ino, name: &[u8], to: Ino, new_name: &[u8], mode: RenameMode) -> ();
            read(ino: Ino, offset: u64, buffer: &mut [u8]) -> usize;
            write(ino: Ino, offset: u64, data: &[u8]) -> usize;
            replace(ino: Ino, content: &[u8]) -> bool;
            seek(ino: Ino, offset: u64, what: Seek) -> u64;
            getxattr(ino: Ino, name: &[u8]) -> Vec<u8>;
            setxattr(ino: Ino, name: &[u8], value: &[u8], mode: XattrMode) -> ();
            listxattr(ino: Ino) -> Vec<Vec<u8>>;
            removexattr(ino: Ino, name: &[u8]) -> ();
            apply(base: Ino, changes: &[lanefs::bulk::Change<'_>]) -> Vec<Applied>;
            sync() -> ();
        }
    };
}

#[test]
fn a_hostile_volume_neither_hangs_a_comparison_nor_leads_it_out() {
    let temp = tempfile::tempdir().unwrap();
    let tree = temp.path().join("tree");
    fs::create_dir(&tree).unwrap();
    let hostile = Hostile(volume(64));
    hostile.0.mkdir_all("/in/d", 0o755).unwrap();
    let (from, to) = (Side::Host(&tree), Side::Volume(&hostile, b"/in"));
    let report = diff_trees(from, to, &deleting(), &|_| (), control()).unwrap().report;
    assert_eq!(report.exit_code(), EXIT_DAMAGED);
    let (report, _) = sync_with(&hostile, &tree, &deleting());
    assert_eq!(report.report.exit_code(), EXIT_DAMAGED);
}

/// A volume in which a directory has itself as an entry.
struct Hostile(Volume);

impl FileSystem for Hostile {
    other_calls!();
    delegate! { unlink(dir: Ino, name: &[u8]) -> (); }

    fn readdir(&self, dir: Ino, cookie: u64, max: usize) -> lanefs::Result<Vec<DirEntry>> {
        let mut entries = FileSystem::readdir(&self.0, dir, cookie, max)?;
        if dir != self.0.resolve("/in")?.ino && cookie == 0 {
            entries.push(DirEntry {
                ino: dir,
                kind: FileKind::Directory,
                cookie: 1,
                name: b"again".to_vec(),
            });
        }
        Ok(entries)
    }
}

/// A volume that counts how often a directory is listed.
struct PageCounter(Volume, AtomicUsize);

impl FileSystem for PageCounter {
    other_calls!();
    delegate! { unlink(dir: Ino, name: &[u8]) -> (); }

    fn readdir(&self, dir: Ino, cookie: u64, max: usize) -> lanefs::Result<Vec<DirEntry>> {
        self.1.fetch_add(1, Relaxed);
        FileSystem::readdir(&self.0, dir, cookie, max)
    }
}

#[test]
fn an_interruption_ends_the_listing_of_a_large_directory() {
    let temp = tempfile::tempdir().unwrap();
    let counted = PageCounter(volume(64), AtomicUsize::new(0));
    counted.0.mkdir_all("/in", 0o755).unwrap();
    for name in 0..9000 {
        counted.0.write_file(format!("/in/{name}"), "").unwrap();
    }
    let interrupt = || counted.1.load(Relaxed) > 0;
    let control = Control { interrupt: &interrupt, progress: &Silent };
    let (from, to) = (Side::Host(temp.path()), Side::Volume(&counted, b"/in"));
    let report = diff_trees(from, to, &deleting(), &|_| (), control).unwrap();
    assert_eq!((report.report.exit_code(), report.counts.differences()), (EXIT_INTERRUPTED, 0));
    assert_eq!(counted.1.load(Relaxed), 1);
}

/// A volume whose files never lose their names but to others: only names of waiting files are removed.
struct Watched(Volume);

impl FileSystem for Watched {
    other_calls!();
    delegate! { readdir(dir: Ino, cookie: u64, max: usize) -> Vec<DirEntry>; }

    fn unlink(&self, dir: Ino, name: &[u8]) -> lanefs::Result<()> {
        assert!(name.starts_with(b".lanefs-"), "{} has no file for a moment", shown(name));
        FileSystem::unlink(&self.0, dir, name)
    }
}

#[test]
fn a_name_that_gets_another_file_is_never_without_one() {
    let temp = tempfile::tempdir().unwrap();
    let tree = temp.path().join("tree");
    fs::create_dir(&tree).unwrap();
    let make = |content: &str| {
        for name in ["file", "to-link", "to-dir", "link"] {
            let _ = fs::remove_file(tree.join(name));
            fs::write(tree.join(name), content).unwrap();
        }
    };
    make("old");
    let watched = Watched(volume(64));
    let options = SyncOptions { delete: false, ..deleting() };
    assert_clean(&sync_with(&watched, &tree, &options).0.report);
    make("newer");
    for name in ["to-link", "to-dir", "link"] {
        fs::remove_file(tree.join(name)).unwrap();
    }
    std::os::unix::fs::symlink("file", tree.join("to-link")).unwrap();
    fs::create_dir(tree.join("to-dir")).unwrap();
    fs::hard_link(tree.join("file"), tree.join("link")).unwrap();
    assert_clean(&sync_with(&watched, &tree, &options).0.report);
    assert_volume_has(&watched.0, &tree);
}

/// A volume that counts the files that come in one step.
struct WholeFiles(Volume, AtomicUsize);

impl FileSystem for WholeFiles {
    other_calls!();
    delegate! {
        readdir(dir: Ino, cookie: u64, max: usize) -> Vec<DirEntry>;
        unlink(dir: Ino, name: &[u8]) -> ();
    }

    fn create_whole(
        &self,
        dir: Ino,
        name: &[u8],
        content: &[u8],
        set: &SetAttr,
    ) -> lanefs::Result<Option<Attr>> {
        self.1.fetch_add(1, Relaxed);
        FileSystem::create_whole(&self.0, dir, name, content, set)
    }
}

#[test]
fn a_small_file_comes_in_one_step_also_in_the_place_of_another_one() {
    let temp = tempfile::tempdir().unwrap();
    let tree = temp.path().join("tree");
    fs::create_dir(&tree).unwrap();
    let volume = WholeFiles(volume(64), AtomicUsize::new(0));
    let files_of_a_sync = || {
        assert_clean(&sync_with(&volume, &tree, &deleting()).0.report);
        assert_volume_has(&volume.0, &tree);
        volume.1.swap(0, Relaxed)
    };
    fs::write(tree.join("f"), "old").unwrap();
    fs::write(tree.join("g"), "old").unwrap();
    assert_eq!(files_of_a_sync(), 2);
    fs::write(tree.join("f"), "newer").unwrap();
    assert_eq!(files_of_a_sync(), 1);
    fs::remove_file(tree.join("g")).unwrap();
    fs::create_dir(tree.join("g")).unwrap();
    assert_eq!(files_of_a_sync(), 0);
    // The directory is in the way.
    fs::remove_dir(tree.join("g")).unwrap();
    fs::write(tree.join("g"), "file").unwrap();
    assert_eq!(files_of_a_sync(), 1);
}
