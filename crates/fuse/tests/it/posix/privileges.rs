//! Owners, groups, and the privileges that a change of a file takes away.

use crate::posix::support::{Mounted, as_keeper, as_user};
use rustix::fs::{CWD, FallocateFlags, RenameFlags, XattrFlags};
use rustix::io::Errno;
use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

/// A set of file capabilities as setcap(8) writes it: version 2, effective, CAP_NET_RAW.
const CAPABILITY: [u8; 20] = [1, 0, 0, 2, 0, 0x20, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];

#[test]
fn what_a_user_makes_is_his_and_groups_count() {
    let m = Mounted::new();
    let dir = |name: &str, mode: u32, uid: u32, gid: u32| {
        fs::create_dir(m.path(name)).unwrap();
        std::os::unix::fs::chown(m.path(name), Some(uid), Some(gid)).unwrap();
        fs::set_permissions(m.path(name), fs::Permissions::from_mode(mode)).unwrap();
    };
    dir("own", 0o700, 1001, 9);
    dir("shared", 0o2770, 0, 2000);
    dir("open", 0o777, 0, 0);
    dir("closed", 0o755, 0, 0);
    // All users but the group may write there, which is odd but possible.
    dir("odd", 0o707, 0, 2000);
    let make = |name: &str| {
        let path = m.path(name);
        File::create(&path).map(|file| file.metadata().unwrap()).map(|meta| (meta.uid(), meta.gid()))
    };
    let denied = |made: std::io::Result<(u32, u32)>| {
        made.unwrap_err().raw_os_error() == Some(Errno::ACCESS.raw_os_error())
    };
    as_user(1001, 1001, &[2000], || {
        assert_eq!(make("own/f").unwrap(), (1001, 1001));
        assert_eq!(make("shared/f").unwrap(), (1001, 2000), "the group comes from the directory");
        assert_eq!(make("open/f").unwrap(), (1001, 1001));
        assert!(denied(make("closed/f")));
        assert!(denied(make("odd/f")), "a member of the group");
        fs::create_dir(m.path("shared/d")).unwrap();
        assert_eq!(fs::metadata(m.path("shared/d")).unwrap().mode() & 0o7777, 0o2755);
    });
    as_user(1002, 1002, &[], || {
        assert!(denied(make("own/g")));
        assert!(denied(make("shared/g")));
        assert_eq!(make("odd/g").unwrap(), (1002, 1002));
        rustix::fs::symlink("x", m.path("open/link")).unwrap();
        assert_eq!(fs::symlink_metadata(m.path("open/link")).unwrap().uid(), 1002);
    });
    assert_eq!(make("closed/f").unwrap(), (0, 0));
    m.end();
}

#[test]
fn sticky_directories_protect_what_is_not_ones_own() {
    let m = Mounted::new();
    fs::create_dir(m.path("tmp")).unwrap();
    fs::set_permissions(m.path("tmp"), fs::Permissions::from_mode(0o1777)).unwrap();
    as_user(1001, 1001, &[], || File::create(m.path("tmp/f")).unwrap());
    as_user(1002, 1002, &[], || {
        let error = fs::remove_file(m.path("tmp/f")).unwrap_err();
        assert_eq!(error.raw_os_error(), Some(Errno::PERM.raw_os_error()));
        let error = fs::rename(m.path("tmp/f"), m.path("tmp/g")).unwrap_err();
        assert_eq!(error.raw_os_error(), Some(Errno::PERM.raw_os_error()));
    });
    as_user(1001, 1001, &[], || fs::remove_file(m.path("tmp/f")).unwrap());
    m.end();
}

#[test]
fn privileges_go_when_others_change_a_program() {
    let m = Mounted::new();
    fs::create_dir(m.path("d")).unwrap();
    fs::set_permissions(m.path("d"), fs::Permissions::from_mode(0o777)).unwrap();
    let program = m.path("d/program");
    let perm = || fs::metadata(&program).unwrap().mode() & 0o7777;
    let make = |mode| {
        fs::write(&program, b"text").unwrap();
        std::os::unix::fs::chown(&program, None, Some(77)).unwrap();
        fs::set_permissions(&program, fs::Permissions::from_mode(mode)).unwrap();
    };
    let open = || OpenOptions::new().write(true).open(&program).unwrap();
    fs::write(m.path("source"), [b's'; 5000]).unwrap();
    // As ext4 does it, for a user outside of the file's group and for a member.
    for (before, [outside, member]) in [
        (0o6777, [0o777; 2]),
        (0o6676, [0o676; 2]),
        (0o2766, [0o766, 0o2766]),
        (0o6666, [0o666, 0o2666]),
        (0o4777, [0o777; 2]),
        (0o666, [0o666; 2]),
    ] {
        for (groups, after) in [(&[][..], outside), (&[77][..], member)] {
            let check = |how: &str, change: &(dyn Fn() + Sync)| {
                make(before);
                as_user(1001, 1001, groups, change);
                assert_eq!(perm(), after, "{before:o} {how}, groups {groups:?}");
            };
            check("written to", &|| open().write_all(b"x").unwrap());
            check("cut off", &|| open().set_len(1).unwrap());
            for flags in [
                FallocateFlags::empty(),
                FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE,
                FallocateFlags::ZERO_RANGE,
            ] {
                check("allocated", &|| rustix::fs::fallocate(open(), flags, 0, 9000).unwrap());
            }
            check("copied to", &|| {
                let from = File::open(m.path("source")).unwrap();
                let copied = rustix::fs::copy_file_range(&from, None, open(), None, 100).unwrap();
                assert_eq!(copied, 100);
            });
        }
    }
    make(0o6777);
    open().write_all(b"x").unwrap();
    assert_eq!(perm(), 0o6777, "root may");
    rustix::fs::setxattr(&program, "security.capability", &CAPABILITY, XattrFlags::empty()).unwrap();
    as_user(1001, 1001, &[], || open().write_all(b"x").unwrap());
    let mut value = [0; 64];
    let left = rustix::fs::getxattr(&program, "security.capability", &mut value[..]);
    assert_eq!(left, Err(Errno::NODATA));
    make(0o6777);
    std::os::unix::fs::chown(&program, Some(5), None).unwrap();
    assert_eq!(perm(), 0o777);
    m.end();
}

/// The kernel says so in the request: the server knows no capabilities.
#[test]
fn a_capability_keeps_set_id_bits_of_a_file_that_is_cut_off() {
    let m = Mounted::new();
    fs::create_dir(m.path("d")).unwrap();
    fs::set_permissions(m.path("d"), fs::Permissions::from_mode(0o777)).unwrap();
    let program = m.path("d/program");
    for uid in [0, 1001] {
        for keeps in [false, true] {
            fs::write(&program, b"text").unwrap();
            std::os::unix::fs::chown(&program, None, Some(77)).unwrap();
            fs::set_permissions(&program, fs::Permissions::from_mode(0o6777)).unwrap();
            let open = || OpenOptions::new().write(true).open(&program).unwrap();
            as_keeper(uid, keeps, || open().set_len(1).unwrap());
            let wanted = if keeps { 0o6777 } else { 0o777 };
            assert_eq!(fs::metadata(&program).unwrap().mode() & 0o7777, wanted, "{uid} {keeps}");
        }
    }
    m.end();
}

#[test]
fn a_mount_without_set_id_bits_gives_a_program_no_other_user() {
    for (list, fine) in [("suid", true), ("nosuid", false)] {
        let mut options = crate::mount_options();
        options.apply(list).unwrap();
        let m = Mounted::with(64 << 20, &options);
        fs::write(m.path("secret"), b"text").unwrap();
        fs::set_permissions(m.path("secret"), fs::Permissions::from_mode(0o600)).unwrap();
        fs::copy("/bin/cat", m.path("cat")).unwrap();
        fs::set_permissions(m.path("cat"), fs::Permissions::from_mode(0o4755)).unwrap();
        let (cat, secret) = (m.path("cat"), m.path("secret"));
        let read = Command::new(&cat).arg(&secret).uid(1001).gid(1001).output().unwrap();
        assert_eq!(read.status.success(), fine, "{list}: {}", String::from_utf8_lossy(&read.stderr));
        assert_eq!(read.stdout == b"text", fine, "{list}");
        m.end();
    }
}

/// Returns the mode and the presence of file capabilities after each kind of change by root and by a user.
fn after_changes(dir: &Path) -> Vec<String> {
    fs::set_permissions(dir, fs::Permissions::from_mode(0o777)).unwrap();
    let program = dir.join("program");
    let mut all = Vec::new();
    let keep = FallocateFlags::KEEP_SIZE;
    for (what, flags) in [
        ("allocate", Some(FallocateFlags::empty())),
        ("allocate past the end", Some(keep)),
        ("punch", Some(FallocateFlags::PUNCH_HOLE | keep)),
        ("zero", Some(FallocateFlags::ZERO_RANGE)),
        ("zero past the end", Some(FallocateFlags::ZERO_RANGE | keep)),
        ("write", None),
    ] {
        for (user, id) in [("root", 0), ("a user", 1001)] {
            // Root keeps set-id bits where ext4 does, unless the file has capabilities too (docs/mount.md).
            for is_capable in [false, true] {
                fs::write(&program, [7; 16384]).unwrap();
                let mode = if is_capable { 0o777 } else { 0o6777 };
                fs::set_permissions(&program, fs::Permissions::from_mode(mode)).unwrap();
                if is_capable {
                    let (name, flags) = ("security.capability", XattrFlags::empty());
                    rustix::fs::setxattr(&program, name, &CAPABILITY, flags).unwrap();
                }
                as_user(id, id, &[], || {
                    let mut file = OpenOptions::new().write(true).open(&program).unwrap();
                    match flags {
                        Some(flags) => rustix::fs::fallocate(&file, flags, 4096, 16384).unwrap(),
                        None => file.write_all(b"x").unwrap(),
                    }
                });
                let mode = fs::metadata(&program).unwrap().mode() & 0o7777;
                let left = rustix::fs::getxattr(&program, "security.capability", &mut [0; 64][..]);
                all.push(format!("{what} by {user}: {mode:o}, capabilities: {is_capable}, then {left:?}"));
            }
        }
    }
    all
}

#[test]
fn changes_take_privileges_away_as_on_the_hosts_file_system() {
    let (m, host) = (Mounted::new(), tempfile::tempdir().unwrap());
    let probe = File::create(host.path().join("probe")).unwrap();
    if rustix::fs::fallocate(&probe, FallocateFlags::ZERO_RANGE, 0, 4096) == Err(Errno::OPNOTSUPP) {
        eprintln!(
            "SKIPPED: privileges: the file system for temporary files cannot zero a range, so it is not an oracle"
        );
        return;
    }
    let (seen, expected) = (after_changes(m.dir.path()), after_changes(host.path()));
    let gone = format!("{:?}", Err::<usize, _>(Errno::NODATA));
    assert!(expected.iter().any(|line| line.contains("true") && line.ends_with(&gone)), "{expected:#?}");
    assert_eq!(seen, expected);
    m.end();
}

#[test]
fn a_whiteout_belongs_to_the_user_who_renames() {
    let m = Mounted::new();
    fs::set_permissions(m.dir.path(), fs::Permissions::from_mode(0o777)).unwrap();
    let (old, new) = (m.path("old"), m.path("new"));
    as_user(1000, 100, &[], || {
        fs::write(&old, b"text").unwrap();
        rustix::fs::renameat_with(CWD, &old, CWD, &new, RenameFlags::WHITEOUT).unwrap();
    });
    let left = fs::symlink_metadata(&old).unwrap();
    assert_eq!((left.mode(), left.rdev(), left.uid(), left.gid()), (0o020_000, 0, 1000, 100));
    assert_eq!(fs::read(&new).unwrap(), b"text");
    m.end();
}
