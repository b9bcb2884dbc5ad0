//! Root's copies into and out of directories where another user changes names: docs/security.md. Each test
//! failed while copies went by names.

use crate::common::{TestVolume, text};
use rustix::fs::{CWD, RenameFlags, renameat_with};
use std::fs::{self, Permissions};
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt, chown, symlink};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

/// The other user.
const NOBODY: u32 = 65534;
/// Names that a copy makes, of which each may be exchanged.
const NAMES: usize = 300;

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, Permissions::from_mode(mode)).expect("a mode");
}

/// Owner and permissions of what has the name, which may be a link.
fn owner_and_mode(path: &Path) -> (u32, u32) {
    let meta = fs::symlink_metadata(path).expect("it is there");
    (meta.uid(), meta.mode() & 0o7777)
}

/// A directory of the other user with a private file and a private directory of root's in it.
struct Theirs {
    dir: PathBuf,
}

impl Theirs {
    fn new(v: &TestVolume) -> Self {
        // The other user gets there.
        set_mode(v.dir.path(), 0o755);
        let dir = v.host("theirs");
        fs::create_dir(&dir).expect("a directory");
        fs::write(dir.join("secret"), "of root").expect("a file");
        set_mode(&dir.join("secret"), 0o600);
        fs::create_dir(dir.join("private")).expect("a directory");
        set_mode(&dir.join("private"), 0o700);
        chown(&dir, Some(NOBODY), Some(NOBODY)).expect("tests run as root");
        Theirs { dir }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.join(name)
    }

    /// Runs `work` while the other user exchanges `mine` with each of the names that appear, again and again.
    fn exchanging(&self, mine: &str, names: &[String], work: impl FnOnce()) {
        let is_over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                rustix::thread::set_thread_gid(rustix::process::Gid::from_raw(NOBODY)).expect("root may");
                rustix::thread::set_thread_uid(rustix::process::Uid::from_raw(NOBODY)).expect("root may");
                let mine = self.path(mine);
                while !is_over.load(Ordering::Relaxed) {
                    for name in names {
                        let theirs = self.path(name);
                        let exchange = || renameat_with(CWD, &mine, CWD, &theirs, RenameFlags::EXCHANGE);
                        if exchange().is_ok() {
                            std::thread::yield_now();
                            let _ = exchange();
                        }
                    }
                }
            });
            work();
            is_over.store(true, Ordering::Relaxed);
        });
    }

    /// Asserts that no file of root's in the directory, under whatever name, has become another one's.
    #[track_caller]
    fn roots_files_are_roots(&self, content: &str) {
        let of_root = |path: &Path| fs::read(path).is_ok_and(|bytes| bytes == content.as_bytes());
        let mut found = 0;
        for entry in fs::read_dir(&self.dir).expect("a directory") {
            let path = entry.expect("an entry").path();
            if fs::symlink_metadata(&path).expect("there").is_file() && of_root(&path) {
                found += 1;
                assert_eq!(owner_and_mode(&path), (0, 0o600), "{}", path.display());
            }
        }
        assert_eq!(found, 1, "the file of root's is there once");
    }
}

fn names(kind: &str) -> Vec<String> {
    (0..NAMES).map(|number| format!("{kind}{number}")).collect()
}

/// A volume with a directory of pipes that belong to the other user and that all may use.
fn with_pipes(v: &TestVolume) {
    let script: String = names("pipe").iter().map(|name| format!("{name} ")).collect();
    let tree = v.host("tree");
    fs::create_dir(&tree).expect("a directory");
    for name in script.split_whitespace() {
        let (kind, mode) = (rustix::fs::FileType::Fifo, rustix::fs::Mode::from_raw_mode(0o666));
        rustix::fs::mknodat(CWD, tree.join(name), kind, mode, 0).expect("a pipe");
        set_mode(&tree.join(name), 0o666);
        chown(tree.join(name), Some(NOBODY), Some(NOBODY)).expect("root may");
    }
    chown(&tree, Some(NOBODY), Some(NOBODY)).expect("root may");
    v.run("import", &format!("{} /src", text(&tree))).ends(0);
}

#[test]
fn an_export_into_a_link_leaves_the_directory_its_owner_and_mode() {
    let v = TestVolume::new();
    with_pipes(&v);
    let theirs = Theirs::new(&v);
    let roots = v.host("roots");
    fs::create_dir(&roots).expect("a directory");
    set_mode(&roots, 0o700);
    symlink(&roots, theirs.path("dest")).expect("a link");
    v.run("export", &format!("/src {}", text(&theirs.path("dest")))).ends(0);
    assert!(roots.join("pipe7").symlink_metadata().expect("there").file_type().is_fifo());
    assert_eq!(owner_and_mode(&roots), (0, 0o700));
    // A directory of root's that the other user has moved to the name.
    v.run("export", &format!("/src {}", text(&theirs.path("private")))).ends(0);
    assert_eq!(owner_and_mode(&theirs.path("private")), (0, 0o700));
}

#[test]
fn an_export_of_nodes_gives_away_nothing_that_is_exchanged_with_them() {
    let v = TestVolume::new();
    with_pipes(&v);
    let theirs = Theirs::new(&v);
    theirs.exchanging("secret", &names("pipe"), || {
        // Names that are in the way for a moment are named, and the others are exported.
        v.run("export", &format!("/src {}", text(&theirs.dir)));
    });
    theirs.roots_files_are_roots("of root");
    let unfinished = |name: &str| name.starts_with(".lanefs-");
    let left = fs::read_dir(&theirs.dir).expect("a directory").flatten();
    assert!(!left.into_iter().any(|entry| unfinished(&entry.file_name().to_string_lossy())));
}

#[test]
fn a_copy_of_nodes_and_files_gives_away_nothing_that_is_exchanged_with_them() {
    let v = TestVolume::new();
    with_pipes(&v);
    let theirs = Theirs::new(&v);
    theirs.exchanging("secret", &names("pipe"), || {
        v.run("cp", &format!("-rp :/src/. {}", text(&theirs.dir)));
    });
    theirs.roots_files_are_roots("of root");
    let mut script = String::from("mkdir /files\n");
    for name in names("file") {
        script += &format!("touch /files/{name}\nchown {NOBODY}:{NOBODY} /files/{name}\n");
        script += &format!("chmod 4777 /files/{name}\n");
    }
    v.run_with("shell", &[] as &[&str], script.as_bytes()).ends(0);
    theirs.exchanging("secret", &names("file"), || {
        v.run("cp", &format!("-rp :/files/. {}", text(&theirs.dir)));
        v.run("cp", &format!("-r :/files/. {}", text(&theirs.dir)));
    });
    // Both copies may have overwritten the file, under a name that they were given, but not given it away.
    for entry in fs::read_dir(&theirs.dir).expect("a directory") {
        let meta = entry.expect("an entry").metadata().expect("there");
        assert!(meta.mode() & 0o4000 == 0 || meta.uid() == NOBODY, "a set-id program of root's");
    }
}

#[test]
fn a_copy_follows_no_link_to_a_directory_below_the_target() {
    let v = TestVolume::new();
    with_pipes(&v);
    let theirs = Theirs::new(&v);
    let roots = v.host("roots");
    fs::create_dir(&roots).expect("a directory");
    set_mode(&roots, 0o700);
    symlink(&roots, theirs.path("src")).expect("a link");
    v.run("cp", &format!("-rp :/src {}", text(&theirs.dir))).ends(1).says("is not a directory");
    assert_eq!(fs::read_dir(&roots).expect("a directory").count(), 0);
    assert_eq!(owner_and_mode(&roots), (0, 0o700));
}

#[test]
fn a_set_id_program_is_never_written_through_a_link() {
    let v = TestVolume::new();
    let theirs = Theirs::new(&v);
    v.run_with("write", &["/suid"], b"program").ends(0);
    v.run("chmod", "4755 /suid").ends(0);
    fs::write(v.host("target"), "old").expect("a file");
    chown(v.host("target"), Some(NOBODY), Some(NOBODY)).expect("root may");
    symlink(v.host("target"), theirs.path("link")).expect("a link");
    // The user names the link, and all goes to its target, as with cp(1): but for the set-id bits, because
    // somebody else may have the file open.
    v.run("cp", &format!("-p :/suid {}", text(&theirs.path("link")))).ends(0);
    assert_eq!(fs::read(v.host("target")).expect("there"), b"program");
    assert_eq!(owner_and_mode(&v.host("target")), (0, 0o755));
    assert!(theirs.path("link").is_symlink());
    // Below a directory that the user names, no link is followed.
    symlink(v.host("target"), theirs.path("suid")).expect("a link");
    fs::write(v.host("target"), "old").expect("a file");
    v.run("cp", &format!("-p :/suid {}", text(&theirs.dir))).ends(4).says("suid");
    assert_eq!(fs::read(v.host("target")).expect("there"), b"old");
    // A new file has them.
    v.run("cp", &format!("-p :/suid {}", text(&v.host("new")))).ends(0);
    assert_eq!(owner_and_mode(&v.host("new")), (0, 0o4755));
}
