//! Owners, and the privileges that a change takes away.

use crate::posix::{PosixFs, User};
use lanefs::SetAttr;
use lanefs_format::FileKind;
use rustix::fs::{FallocateFlags, OFlags, XattrFlags};
use rustix::io::Errno;

const ROOT: User = User::ROOT;
/// A set of file capabilities as setcap(8) writes it: version 2, effective, CAP_NET_RAW.
const CAPABILITY: [u8; 20] = [1, 0, 0, 2, 0, 0x20, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];

fn own(fs: &impl PosixFs, path: &str, uid: u32, gid: u32, perm: u16) {
    let owner = SetAttr { uid: Some(uid), gid: Some(gid), ..SetAttr::default() };
    fs.set(&ROOT, path, &owner).expect("chown");
    fs.set(&ROOT, path, &SetAttr { perm: Some(perm), ..SetAttr::default() }).expect("chmod");
}

/// A new inode has its maker's user, and his group or that of a set-group-id directory, whose subdirectories
/// are set-group-id as well.
pub fn a_new_inode_belongs_to_its_maker_or_to_the_group_of_the_directory(fs: &impl PosixFs) {
    let user = User { uid: 1001, gid: 1001, groups: &[2000] };
    for (dir, uid, gid, perm, group) in [
        ("own", 1001, 9, 0o700, 1001),
        ("shared", 0, 2000, 0o2770, 2000),
        ("open", 0, 0, 0o777, 1001),
        ("setgid", 0, 77, 0o2777, 77),
    ] {
        fs.mkdir(&ROOT, dir, 0o755).expect("mkdir");
        own(fs, dir, uid, gid, perm);
        let owner = |name: &str| {
            let stat = fs.stat(&format!("{dir}/{name}")).expect("stat");
            (stat.uid, stat.gid, stat.perm)
        };
        fs.open(&user, &format!("{dir}/f"), OFlags::CREATE | OFlags::RDWR, 0o644).expect("create");
        assert_eq!(owner("f"), (1001, group, 0o644), "{dir}");
        fs.mkdir(&user, &format!("{dir}/d"), 0o755).expect("mkdir");
        assert_eq!(owner("d"), (1001, group, 0o755 | perm & 0o2000), "{dir}");
        fs.mknod(&user, &format!("{dir}/p"), FileKind::Fifo, 0o600, 0).expect("mkfifo");
        assert_eq!(owner("p"), (1001, group, 0o600), "{dir}");
        fs.symlink(&user, "x", &format!("{dir}/l")).expect("symlink");
        assert_eq!((owner("l").0, owner("l").1), (1001, group), "{dir}");
    }
}

/// A user who writes, cuts off, allocates or copies to a program takes its set-id bits and capabilities away,
/// as in every file system of Linux: the set-group-id bit of a file without group execution stays where the
/// user is in its group.
pub fn changes_by_a_user_take_privileges_away(fs: &impl PosixFs) {
    fs.mkdir(&ROOT, "d", 0o755).expect("mkdir");
    fs.make("d/f", 0o666, b"text");
    fs.make("source", 0o644, &[b's'; 5000]);
    let source = fs.open(&ROOT, "source", OFlags::RDONLY, 0).expect("open");
    const KEEP: FallocateFlags = FallocateFlags::KEEP_SIZE;
    for (before, [outside, member]) in [
        (0o6777, [0o777; 2]),
        (0o6676, [0o676; 2]),
        (0o2766, [0o766, 0o2766]),
        (0o6666, [0o666, 0o2666]),
        (0o4777, [0o777; 2]),
        (0o666, [0o666; 2]),
    ] {
        for (groups, after) in [(&[][..], outside), (&[77][..], member)] {
            let user = User { uid: 1001, gid: 1001, groups };
            let open = || fs.open(&user, "d/f", OFlags::WRONLY, 0).expect("open");
            let check = |how: &str, change: &dyn Fn()| {
                own(fs, "d/f", 0, 77, before);
                fs.setxattr(&ROOT, "d/f", "security.capability", &CAPABILITY, XattrFlags::empty())
                    .expect("setxattr");
                change();
                assert_eq!(fs.stat("d/f").expect("stat").perm, after, "{before:o} {how}, groups {groups:?}");
                let left = fs.getxattr(&ROOT, "d/f", "security.capability");
                assert_eq!(left, Err(Errno::NODATA), "{before:o} {how}");
            };
            check("written to", &|| assert_eq!(fs.write(&user, &open(), 0, b"x"), Ok(1)));
            let size = SetAttr { size: Some(1), ..SetAttr::default() };
            check("cut off", &|| fs.set(&user, "d/f", &size).expect("truncate"));
            let truncating = OFlags::WRONLY | OFlags::TRUNC;
            check("opened", &|| drop(fs.open(&user, "d/f", truncating, 0).expect("open")));
            for flags in
                [FallocateFlags::empty(), FallocateFlags::PUNCH_HOLE | KEEP, FallocateFlags::ZERO_RANGE]
            {
                check("allocated", &|| fs.fallocate(&user, &open(), flags, 0, 9000).expect("fallocate"));
            }
            check("copied to", &|| {
                assert_eq!(fs.copy_range(&user, (&source, 0), (&open(), 0), 100), Ok(100));
            });
        }
    }
}

/// Root's changes leave set-id bits, but for a change of the owner.
pub fn changes_by_root_leave_set_id_bits(fs: &impl PosixFs) {
    fs.make("f", 0o666, b"text");
    own(fs, "f", 1001, 77, 0o6777);
    let file = fs.open(&ROOT, "f", OFlags::WRONLY, 0).expect("open");
    assert_eq!(fs.write(&ROOT, &file, 0, b"x"), Ok(1));
    fs.set(&ROOT, "f", &SetAttr { size: Some(1), ..SetAttr::default() }).expect("truncate");
    assert_eq!(fs.stat("f").expect("stat").perm, 0o6777);
    fs.set(&ROOT, "f", &SetAttr { uid: Some(5), ..SetAttr::default() }).expect("chown");
    let stat = fs.stat("f").expect("stat");
    assert_eq!((stat.uid, stat.gid, stat.perm), (5, 77, 0o777));
}
