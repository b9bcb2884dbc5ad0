//! Files that `open(2)` creates with `O_CREAT`.

use crate::client::{Client, ROOT};
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
