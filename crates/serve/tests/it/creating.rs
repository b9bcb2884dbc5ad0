//! Files that `open(2)` creates with `O_CREAT`.

use crate::client::{Client, ROOT};
use lanefs::SetAttr;
use lanefs_serve::{Errno, Groups, NewMode, NodeId, Requester};
use lanefs_testkit::posix::{PosixFs, User};
use rustix::fs::OFlags;

#[test]
fn a_name_that_exists_is_never_handed_out_as_a_new_file() {
    let client = Client::new(64 << 20);
    client.make("secret", 0o600, b"text");
    client.symlink(&User::ROOT, "secret", "link").expect("symlink");
    client.mkdir(&User::ROOT, "dir", 0o700).expect("mkdir");
    let before = client.stat("secret").expect("stat");
    let stranger = Requester { uid: 1000, gid: 100, groups: Groups::Listed(&[]) };
    let mode = NewMode { mode: 0o100_666, umask: 0 };
    for by in [&ROOT, &stranger] {
        for (flags, errno) in [
            (OFlags::RDWR, Errno::ESTALE),
            (OFlags::RDWR | OFlags::TRUNC, Errno::ESTALE),
            (OFlags::RDWR | OFlags::EXCL, Errno::EEXIST),
        ] {
            for name in ["secret", "link", "dir"] {
                let flags = (OFlags::CREATE | flags).bits() as i32;
                let made = client.0.create(by, NodeId::ROOT, name.as_bytes(), mode, flags);
                assert_eq!(made.err(), Some(errno), "{name}");
            }
        }
    }
    // Nothing has changed, and `end` checks that the client got no reference.
    let after = client.stat("secret").expect("stat");
    assert_eq!((after.id, after.size, after.perm, after.uid), (before.id, 4, 0o600, 0));
    let flags = (OFlags::CREATE | OFlags::RDWR).bits() as i32;
    let made = client.0.create(&ROOT, NodeId::ROOT, b"new", mode, flags).expect("made");
    drop(client.node(made.node));
    client.end();
}

/// A kernel before Linux 6.0 leaves it to the file system, which is not told all groups of the requester.
#[test]
fn a_stranger_to_the_group_of_a_directory_makes_no_program_for_it() {
    let client = Client::new(64 << 20);
    client.mkdir(&User::ROOT, "dir", 0o777).expect("mkdir");
    // The requester is the directory's owner.
    let (uid, gid, perm) = (Some(1000), Some(77), Some(0o2775));
    client.set(&User::ROOT, "dir", &SetAttr { uid, gid, perm, ..SetAttr::default() }).expect("set");
    let dir = client.walk("dir").expect("a directory");
    for (groups, perm, wanted) in [
        (&[][..], 0o2775, 0o775),
        (&[][..], 0o2765, 0o2765),
        (&[][..], 0o6777, 0o4777),
        (&[77][..], 0o2775, 0o2775),
    ] {
        let by = Requester { uid: 1000, gid: 100, groups: Groups::Listed(groups) };
        let mode = NewMode { mode: 0o100_000 | perm, umask: 0 };
        let flags = (OFlags::CREATE | OFlags::RDWR).bits() as i32;
        let made = [
            client.0.create(&by, dir.id, b"created", mode, flags),
            client.0.mknod(&by, dir.id, b"made", mode, 0),
            client.0.create_unnamed(&by, dir.id, mode),
        ];
        for made in made {
            let made = made.expect("made");
            drop(client.node(made.node));
            assert_eq!(
                (made.attr.perm, made.attr.uid, made.attr.gid),
                (wanted, 1000, 77),
                "{groups:?} {perm:o}"
            );
        }
        client.unlink("dir/created").expect("unlink");
        client.unlink("dir/made").expect("unlink");
    }
    drop(dir);
    client.end();
}

#[test]
fn a_whiteout_belongs_to_its_requester_or_to_the_group_of_the_directory() {
    const RENAME_WHITEOUT: u32 = 4;
    let client = Client::new(64 << 20);
    client.mkdir(&User::ROOT, "dir", 0o700).expect("mkdir");
    let by = Requester { uid: 1000, gid: 100, groups: Groups::Listed(&[]) };
    let dir = client.walk("dir").expect("a directory");
    for (perm, gid) in [(0o700, 100), (0o2700, 77)] {
        client.make("dir/old", 0o644, b"text");
        let set = SetAttr { gid: Some(77), perm: Some(perm), ..SetAttr::default() };
        client.set(&User::ROOT, "dir", &set).expect("set");
        // The client has permitted it, by whatever privilege: the directory is root's.
        client.0.rename(&by, (dir.id, b"old"), (dir.id, b"new"), RENAME_WHITEOUT).expect("rename");
        let left = client.stat("dir/old").expect("stat");
        assert_eq!((left.perm, left.uid, left.gid), (0, 1000, gid), "{perm:o}");
        client.unlink("dir/old").expect("unlink");
        client.unlink("dir/new").expect("unlink");
    }
    drop(dir);
    client.end();
}
