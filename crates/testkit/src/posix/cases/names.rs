//! Names.

use super::refused;
use crate::posix::{PosixFs, User};
use lanefs::SetAttr;
use lanefs_format::FileKind;
use rustix::fs::{OFlags, RenameFlags};
use rustix::io::Errno;
use std::collections::BTreeSet;

const ROOT: User = User::ROOT;

fn names(fs: &impl PosixFs, dir: &str) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    fs.list(dir, &mut |name| assert!(names.insert(name.to_owned()), "{name} comes twice")).expect("list");
    names
}

/// renameat2(2) with its flags.
pub fn a_rename_replaces_exchanges_and_refuses(fs: &impl PosixFs) {
    fs.make("a", 0o644, b"A");
    fs.make("b", 0o644, b"B");
    assert_eq!(refused(fs.rename("a", "b", RenameFlags::NOREPLACE)), Errno::EXIST);
    fs.rename("a", "b", RenameFlags::EXCHANGE).expect("exchange");
    assert_eq!((fs.content("a"), fs.content("b")), (b"B".to_vec(), b"A".to_vec()));
    assert_eq!(refused(fs.rename("a", "c", RenameFlags::EXCHANGE)), Errno::NOENT);
    let both = RenameFlags::NOREPLACE | RenameFlags::EXCHANGE;
    assert_eq!(refused(fs.rename("a", "b", both)), Errno::INVAL);
    fs.rename("a", "c", RenameFlags::NOREPLACE).expect("rename");
    fs.rename("c", "b", RenameFlags::empty()).expect("rename");
    assert_eq!(names(fs, ""), BTreeSet::from(["b".to_owned()]));
    assert_eq!(fs.content("b"), b"B");
    // Directories.
    fs.mkdir(&ROOT, "d", 0o755).expect("mkdir");
    fs.mkdir(&ROOT, "e", 0o755).expect("mkdir");
    fs.make("e/f", 0o644, b"f");
    assert_eq!(refused(fs.rename("d", "e", RenameFlags::empty())), Errno::NOTEMPTY);
    fs.rename("e", "d", RenameFlags::empty()).expect("an empty directory is replaced");
    assert_eq!((names(fs, ""), fs.content("d/f")), (["b", "d"].map(str::to_owned).into(), b"f".to_vec()));
}

/// renameat2(2) with `RENAME_WHITEOUT`, by which overlayfs hides names of a lower layer.
pub fn a_rename_leaves_a_whiteout(fs: &impl PosixFs) {
    let whiteout = RenameFlags::WHITEOUT;
    fs.make("a", 0o644, b"A");
    fs.make("b", 0o644, b"B");
    for dir in ["d", "e", "open"] {
        fs.mkdir(&ROOT, dir, 0o755).expect("mkdir");
    }
    fs.make("e/f", 0o644, b"f");
    assert_eq!(refused(fs.rename("a", "b", whiteout | RenameFlags::EXCHANGE)), Errno::INVAL);
    assert_eq!(refused(fs.rename("a", "b", whiteout | RenameFlags::NOREPLACE)), Errno::EXIST);
    assert_eq!(refused(fs.rename("none", "new", whiteout)), Errno::NOENT);
    assert_eq!(refused(fs.rename("a", "d", whiteout)), Errno::ISDIR);
    assert_eq!(refused(fs.rename("d", "a", whiteout)), Errno::NOTDIR);
    assert_eq!(refused(fs.rename("d", "e", whiteout)), Errno::NOTEMPTY);
    assert_eq!(names(fs, ""), ["a", "b", "d", "e", "open"].map(str::to_owned).into());
    let must_be_whiteout = |path: &str| {
        let stat = fs.stat(path).expect("stat");
        let found = (stat.kind, stat.perm, stat.rdev, stat.links, stat.size);
        assert_eq!(found, (FileKind::CharDevice, 0, 0, 1, 0), "{path}");
        assert_eq!((stat.uid, stat.gid), (0, 0), "{path}");
    };
    // To a free name, onto a file, and onto a whiteout, which is a name like any other.
    let id = fs.stat("a").expect("stat").id;
    fs.rename("a", "c", whiteout | RenameFlags::NOREPLACE).expect("rename");
    must_be_whiteout("a");
    fs.rename("c", "b", whiteout).expect("rename");
    must_be_whiteout("c");
    fs.rename("b", "a", whiteout).expect("rename");
    must_be_whiteout("b");
    assert_eq!((fs.content("a"), fs.stat("a").expect("stat").id), (b"A".to_vec(), id));
    // A directory, to another one: its old parent has one link less.
    let links = fs.stat("").expect("stat").links;
    fs.rename("e", "d/e", whiteout).expect("rename");
    must_be_whiteout("e");
    assert_eq!((fs.content("d/e/f"), fs.stat("").expect("stat").links), (b"f".to_vec(), links - 1));
    // One name, and two names of one inode: nothing happens.
    fs.link("a", "hard").expect("link");
    for new in ["a", "hard"] {
        fs.rename("a", new, whiteout).expect("rename");
        assert_eq!((fs.content("a"), fs.content("hard")), (b"A".to_vec(), b"A".to_vec()));
    }
    for name in ["b", "c", "e"] {
        fs.unlink(name).expect("unlink");
    }
    assert_eq!(names(fs, ""), ["a", "d", "hard", "open"].map(str::to_owned).into());
    // A user makes whiteouts, and no other devices.
    let user = User { uid: 1000, gid: 100, groups: &[] };
    fs.set(&ROOT, "open", &SetAttr { perm: Some(0o777), ..SetAttr::default() }).expect("chmod");
    fs.mknod(&user, "open/w", FileKind::CharDevice, 0, 0).expect("mknod");
    let made = fs.stat("open/w").expect("stat");
    assert_eq!((made.kind, made.rdev, made.uid, made.gid), (FileKind::CharDevice, 0, 1000, 100));
}

/// The file that a rename replaces goes on while it is open.
pub fn a_file_that_is_renamed_over_lives_on_while_it_is_open(fs: &impl PosixFs) {
    fs.make("old", 0o644, b"old");
    fs.make("new", 0o644, b"new");
    let open = fs.open(&ROOT, "old", OFlags::RDWR, 0).expect("open");
    let before = fs.stat("new").expect("stat");
    fs.rename("new", "old", RenameFlags::empty()).expect("rename");
    assert_eq!(refused(fs.stat("new")), Errno::NOENT);
    assert_eq!(fs.stat("old").expect("stat").id, before.id);
    assert_eq!(fs.content("old"), b"new");
    assert_eq!(fs.read(&open, 0, 10).expect("read"), b"old");
    assert_eq!(fs.fstat(&open).expect("fstat").links, 0);
    assert_eq!(fs.write(&ROOT, &open, 3, b"er"), Ok(2));
    assert_eq!(fs.content("old"), b"new");
}

/// Making and removing of names counts links and refuses.
pub fn names_are_made_and_removed_by_the_rules(fs: &impl PosixFs) {
    fs.make("f", 0o644, b"text");
    let root = fs.stat("").expect("stat").links;
    fs.mkdir(&ROOT, "d", 0o755).expect("mkdir");
    assert_eq!(fs.stat("").expect("stat").links, root + 1);
    assert_eq!(fs.stat("d").expect("stat").links, 2);
    assert_eq!(refused(fs.mkdir(&ROOT, "d", 0o755)), Errno::EXIST);
    assert_eq!(refused(fs.symlink(&ROOT, "x", "f")), Errno::EXIST);
    fs.link("f", "d/g").expect("link");
    assert_eq!(fs.stat("f").expect("stat"), fs.stat("d/g").expect("stat"));
    assert_eq!(fs.stat("f").expect("stat").links, 2);
    assert_eq!(refused(fs.link("f", "d/g")), Errno::EXIST);
    assert_eq!(refused(fs.link("none", "h")), Errno::NOENT);
    assert_eq!(refused(fs.rmdir("d")), Errno::NOTEMPTY);
    fs.unlink("f").expect("unlink");
    assert_eq!((fs.stat("d/g").expect("stat").links, fs.content("d/g")), (1, b"text".to_vec()));
    assert_eq!(refused(fs.unlink("f")), Errno::NOENT);
    fs.unlink("d/g").expect("unlink");
    fs.rmdir("d").expect("rmdir");
    assert_eq!(fs.stat("").expect("stat").links, root);
    fs.symlink(&ROOT, "some/target", "link").expect("symlink");
    assert_eq!(fs.readlink("link").expect("readlink"), b"some/target");
    assert_eq!(fs.stat("link").expect("stat").kind, FileKind::Symlink);
}

/// Cookies stay valid: a listing has each name once that is there all the time, and a name that is removed or
/// made meanwhile at most once.
pub fn a_listing_has_each_name_once_while_names_change(fs: &impl PosixFs) {
    const NAMES: usize = 1000;
    fs.mkdir(&ROOT, "d", 0o755).expect("mkdir");
    for number in 0..NAMES {
        fs.make(&format!("d/{number}"), 0o644, b"");
    }
    let mut seen = BTreeSet::new();
    let mut removed = 0;
    fs.list("d", &mut |name| {
        assert!(seen.insert(name.to_owned()), "{name} comes twice");
        if seen.len() % 2 == 0 && !name.starts_with("new") {
            fs.unlink(&format!("d/{name}")).expect("unlink");
            fs.make(&format!("d/new{removed}"), 0o644, b"");
            removed += 1;
        }
    })
    .expect("list");
    let old = seen.iter().filter(|name| !name.starts_with("new")).count();
    assert_eq!(old, NAMES);
    assert_eq!(names(fs, "d").len(), NAMES);
}

/// Fifos and devices.
pub fn special_files_are_what_was_made(fs: &impl PosixFs) {
    let number = rustix::fs::makedev(259, 70_000);
    fs.mknod(&ROOT, "pipe", FileKind::Fifo, 0o644, 0).expect("mknod");
    fs.mknod(&ROOT, "disk", FileKind::BlockDevice, 0o600, number).expect("mknod");
    let (pipe, disk) = (fs.stat("pipe").expect("stat"), fs.stat("disk").expect("stat"));
    assert_eq!((pipe.kind, pipe.perm), (FileKind::Fifo, 0o644));
    assert_eq!((disk.kind, disk.perm, disk.rdev), (FileKind::BlockDevice, 0o600, number));
}
