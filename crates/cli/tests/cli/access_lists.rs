//! Access control lists, set by commands on a volume and beside its mount.

use crate::common::{Ran, TestVolume, run, run_with, text};
use crate::mount::Mounted;
use rustix::io::Errno;
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;

const ACCESS: &str = "system.posix_acl_access";
const DEFAULT: &str = "system.posix_acl_default";
/// The user whom lists name, and a stranger.
const NAMED: u32 = 1001;
const STRANGER: u32 = 1002;

/// The value of a list, with permissions of the owner, of the named user, of the group, of the mask and of
/// others.
fn list([owner, user, group, mask, others]: [u16; 5]) -> Vec<u8> {
    let nobody = u32::MAX;
    let entries = [
        (1_u16, owner, nobody),
        (2, user, NAMED),
        (4, group, nobody),
        (16, mask, nobody),
        (32, others, nobody),
    ];
    let mut value = vec![2, 0, 0, 0];
    for (tag, perm, id) in entries {
        value.extend(tag.to_le_bytes());
        value.extend(perm.to_le_bytes());
        value.extend(id.to_le_bytes());
    }
    value
}

fn set(v: &TestVolume, name: &str, path: &str, value: &[u8]) -> Ran {
    v.run_with("xattr", &["set", name, "-", path], value)
}

/// The type and the permissions, as `ls -l` prints them.
fn mode(v: &TestVolume, path: &str) -> String {
    v.run("stat", path).ends(0).out().split_once("mode  ").expect("a mode").1[..15].to_owned()
}

#[test]
fn the_mode_follows_a_list_and_a_list_the_mode() {
    let v = TestVolume::new();
    v.run("mkdir", "/d").ends(0);
    v.run_with("write", &["/d/f"], b"text").ends(0);
    v.run("chmod", "2640 /d/f").ends(0);
    set(&v, ACCESS, "/d/f", &list([6, 7, 4, 5, 1])).ends(0);
    assert_eq!(mode(&v, "/d/f"), "2651/-rw-r-s--x");
    assert_eq!(v.run("xattr", &format!("get {ACCESS} /d/f")).ends(0).bytes, list([6, 7, 4, 5, 1]));
    assert_eq!(v.run("xattr", "list /d/f").ends(0).out(), format!("{ACCESS}\n"));
    v.run("chmod", "604 /d/f").ends(0);
    assert_eq!(v.run("xattr", &format!("get {ACCESS} /d/f")).ends(0).bytes, list([6, 7, 4, 0, 4]));
    // An inode gets the default list of its directory within its mode, which is 0644.
    set(&v, DEFAULT, "/d", &list([7, 6, 5, 7, 0])).ends(0);
    assert_eq!(mode(&v, "/d"), "0755/drwxr-xr-x");
    v.run_with("write", &["/d/g"], b"text").ends(0);
    assert_eq!(v.run("xattr", &format!("get {ACCESS} /d/g")).ends(0).bytes, list([6, 6, 5, 4, 0]));
    assert_eq!(mode(&v, "/d/g"), "0640/-rw-r-----");
    // Without a list the mode is what it was; removing none is not an error, as in Linux.
    for _ in 0..2 {
        v.run("xattr", &format!("rm {ACCESS} /d/g /d/f")).ends(0);
    }
    assert_eq!((&mode(&v, "/d/g")[..4], &mode(&v, "/d/f")[..4]), ("0640", "0604"));
    set(&v, DEFAULT, "/d", b"").ends(0);
    assert_eq!(v.run("xattr", "list /d").ends(0).out(), "");
    v.clean();
}

#[test]
fn a_value_that_is_no_list_is_refused_and_changes_nothing() {
    let v = TestVolume::new();
    v.run("mkdir", "/d").ends(0);
    v.run_with("write", &["/f"], b"text").ends(0);
    v.run("ln", "-s f /link").ends(0);
    let good = list([6, 7, 4, 4, 0]);
    set(&v, ACCESS, "/f", &good).ends(0);
    let without_mask = [&good[..28], &good[36..]].concat();
    let wrong_user = list([6, 8, 4, 4, 0]);
    for wrong in [&b"rwx"[..], &good[..43], &[&good[..], b"\0"].concat(), &without_mask, &wrong_user] {
        for name in [ACCESS, DEFAULT] {
            set(&v, name, "/d", wrong).ends(1).says("/d: the value is not an access control list; set one");
        }
        set(&v, ACCESS, "/f", wrong).ends(1).says("/f: the value is not an access control list");
    }
    set(&v, ACCESS, "/f", &[3, 0, 0, 0]).ends(1).says("not an access control list of version 2");
    set(&v, ACCESS, "/f", &[0; 5000]).ends(1).says("4096 bytes at most");
    set(&v, DEFAULT, "/f", &good).ends(1).says("only a directory has a default");
    let on_link = ["--no-dereference", "set", ACCESS, "-", "/link"];
    v.run_with("xattr", &on_link, &good).ends(1).says("a symbolic link");
    // The other names of the command are done.
    v.run_with("xattr", &["set", ACCESS, "-", "/link", "/absent", "/d"], &list([7, 7, 5, 5, 0]))
        .ends(1)
        .says("/absent: not found");
    assert_eq!(mode(&v, "/d"), "0750/drwxr-x---");
    assert_eq!(mode(&v, "/f"), "0750/-rwxr-x---");
    v.clean();
}

fn as_user<T: Send>(uid: u32, work: impl FnOnce() -> T + Send) -> T {
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            rustix::thread::set_thread_groups(&[]).expect("root may");
            rustix::thread::set_thread_gid(rustix::process::Gid::from_raw(uid)).expect("root may");
            rustix::thread::set_thread_uid(rustix::process::Uid::from_raw(uid)).expect("root may");
            work()
        });
        thread.join().expect("the work is done")
    })
}

fn get(path: &Path, name: &str) -> Result<Vec<u8>, Errno> {
    let mut value = vec![0; 5000];
    rustix::fs::getxattr(path, name, &mut value[..]).map(|len| value[..len].to_vec())
}

#[test]
fn a_list_that_a_command_sets_counts_at_once_in_the_mount() {
    if !rustix::process::geteuid().is_root() {
        eprintln!("not root: there is no other user to be");
        return;
    }
    let m = Mounted::prepare();
    fs::set_permissions(m.v.dir.path(), fs::Permissions::from_mode(0o755)).unwrap();
    m.mount(&["-o", "allow_other"]).ends(0);
    fs::set_permissions(&m.dir, fs::Permissions::from_mode(0o755)).unwrap();
    let (dir, file) = (m.path("d"), m.path("d/f"));
    fs::create_dir(&dir).unwrap();
    fs::write(&file, b"text").unwrap();
    fs::set_permissions(&dir, fs::Permissions::from_mode(0o755)).unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
    let set = |name: &str, path: &str, value: &[u8]| {
        run_with(&["xattr", text(&m.dir), "set", name, "-", path], value).ends(0);
    };
    let mode = |path: &Path| fs::metadata(path).unwrap().mode() & 0o7777;
    let reads = |uid| as_user(uid, || fs::read(&file).is_ok());
    // The kernel keeps the mode, and that there is no list.
    let kept = || {
        for _ in 0..2 {
            assert_eq!((reads(NAMED), reads(STRANGER)), (false, false));
        }
        mode(&file)
    };
    assert_eq!((kept(), get(&file, ACCESS)), (0o600, Err(Errno::NODATA)));
    set(ACCESS, "/d/f", &list([6, 4, 0, 4, 0]));
    assert_eq!((reads(NAMED), reads(STRANGER), mode(&file)), (true, false, 0o640));
    assert_eq!(get(&file, ACCESS), Ok(list([6, 4, 0, 4, 0])));
    // A change of the list that leaves the mode as it is, and one by the mode.
    set(ACCESS, "/d/f", &list([6, 2, 4, 4, 0]));
    assert_eq!((kept(), get(&file, ACCESS)), (0o640, Ok(list([6, 2, 4, 4, 0]))));
    set(ACCESS, "/d/f", &list([6, 4, 4, 4, 0]));
    assert!(reads(NAMED));
    run(&["chmod", text(&m.dir), "600", "/d/f"]).ends(0);
    assert_eq!((kept(), get(&file, ACCESS)), (0o600, Ok(list([6, 4, 4, 0, 0]))));
    run(&["chmod", text(&m.dir), "640", "/d/f"]).ends(0);
    assert!(reads(NAMED));
    run(&["xattr", text(&m.dir), "rm", ACCESS, "/d/f"]).ends(0);
    assert_eq!((kept(), get(&file, ACCESS)), (0o640, Err(Errno::NODATA)));
    // The list of a directory counts for the walk through it, and the default one for what is made in it.
    set(ACCESS, "/d/f", &list([6, 4, 4, 4, 0]));
    assert!(reads(NAMED));
    set(ACCESS, "/d", &list([7, 0, 5, 5, 0]));
    assert_eq!((kept(), mode(&dir)), (0o640, 0o750));
    set(ACCESS, "/d", &list([7, 5, 5, 5, 0]));
    assert!(reads(NAMED));
    let made = |name: &str| {
        fs::write(m.path(name), b"").unwrap();
        get(&m.path(name), ACCESS)
    };
    assert_eq!(made("d/before"), Err(Errno::NODATA));
    set(DEFAULT, "/d", &list([7, 6, 5, 7, 0]));
    assert_eq!(made("d/with"), Ok(list([6, 6, 5, 6, 0])));
    set(DEFAULT, "/d", b"");
    assert_eq!((get(&dir, DEFAULT), made("d/without")), (Err(Errno::NODATA), Err(Errno::NODATA)));
    m.umount().ends(0);
    m.is_clean();
}
