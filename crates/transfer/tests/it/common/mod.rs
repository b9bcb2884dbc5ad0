//! Helpers of the tests of real trees.
#![allow(dead_code)]

use lanefs::{CreateOptions, Volume};
use lanefs_transfer::*;
use rustix::fs::{CWD, FileType, Mode, OFlags, XattrFlags, mkdirat, mknodat, openat};
use std::ffi::OsStr;
use std::fs::{self, File};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, PermissionsExt, symlink};
use std::path::Path;
use std::process::Command;
use std::time::{Duration, SystemTime};

/// A transfer that nobody watches or stops.
pub(crate) fn control() -> Control<'static> {
    Control { interrupt: &|| false, progress: &Silent }
}

pub(crate) fn volume(megabytes: u64) -> Volume {
    Volume::create_memory(&CreateOptions { size: megabytes << 20, ..CreateOptions::default() }).unwrap()
}

pub(crate) fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// Every finding of a check is a failure.
pub(crate) fn assert_sound(volume: &Volume) {
    let report = volume.check(false, &|_, _| ()).unwrap();
    assert!(report.findings.is_empty(), "{:?}", report.findings);
}

/// All done, nothing to complain about.
pub(crate) fn assert_clean(report: &Report) {
    assert!(report.stopped.is_none(), "{:?}", report.stopped);
    assert!(report.problems.is_empty(), "{:?}", report.problems);
    assert!(!report.interrupted);
    assert_eq!(report.exit_code(), EXIT_DONE);
}

/// Both trees are the same in everything that is kept.
pub(crate) fn assert_same(a: &Path, b: &Path) {
    let found = compare_trees(a, b, CompareOptions::default(), control()).unwrap();
    let shown: Vec<String> = found.differences.iter().map(ToString::to_string).collect();
    assert!(shown.is_empty(), "{shown:#?}");
    assert!(found.counts.entries() > 0);
}

pub(crate) fn set_mtime(path: &Path, nanoseconds: u64) {
    let time = SystemTime::UNIX_EPOCH + Duration::from_nanos(nanoseconds);
    File::open(path).unwrap().set_times(fs::FileTimes::new().set_modified(time).set_accessed(time)).unwrap();
}

/// Content that no block repeats.
pub(crate) fn noise(len: usize) -> Vec<u8> {
    let mut x = len as u32 | 1;
    let mut next = || {
        x ^= x << 13;
        x ^= x >> 17;
        x ^= x << 5;
        x as u8
    };
    (0..len).map(|_| next()).collect()
}

/// A tree with one of everything that this user may make. Says on standard error what it could not.
pub(crate) fn make_tree(top: &Path) {
    fs::create_dir(top).unwrap();
    for dir in ["empty", "d/e/f", "links", "modes"] {
        fs::create_dir_all(top.join(dir)).unwrap();
    }
    for (i, len) in [0, 1, 100, 160, 161, 4095, 4096, 4097, 70_000, 5 << 20].into_iter().enumerate() {
        fs::write(top.join(format!("d/size-{i}")), noise(len)).unwrap();
    }
    for i in 0..400 {
        fs::write(top.join(format!("d/e/many-{i:03}")), format!("content {i}")).unwrap();
    }
    odd_names(&top.join("d/e/f"));
    sparse_files(top);
    fs::write(top.join("links/one"), "several names").unwrap();
    fs::hard_link(top.join("links/one"), top.join("links/two")).unwrap();
    fs::hard_link(top.join("links/one"), top.join("d/three")).unwrap();
    symlink("one", top.join("links/short")).unwrap();
    symlink("x/".repeat(600), top.join("links/long")).unwrap();
    symlink("/no/such/place", top.join("links/dangling")).unwrap();
    symlink(".", top.join("links/loop")).unwrap();
    for mode in [0o000, 0o400, 0o644, 0o755, 0o1777, 0o2755, 0o4755, 0o7777] {
        let path = top.join(format!("modes/{mode:04o}"));
        fs::write(&path, "mode").unwrap();
        // Only root can copy files that have no read permission.
        let mode = if is_root() { mode } else { mode | 0o400 };
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    }
    let _listener = std::os::unix::net::UnixListener::bind(top.join("socket")).unwrap();
    mknodat(CWD, top.join("fifo"), FileType::Fifo, Mode::from_raw_mode(0o640), 0).unwrap();
    devices(top);
    attributes(top);
    owners(top);
    // Last, as everything above touches them.
    set_mtime(&top.join("d/size-2"), 1_234_567_890_123_456_789);
    set_mtime(&top.join("empty"), 1);
    set_mtime(&top.join("d"), 999_999_999);
    set_mtime(top, 1_600_000_000_000_000_001);
}

/// Attributes that are access control lists.
pub(crate) const ACCESS: &str = "system.posix_acl_access";
pub(crate) const DEFAULT: &str = "system.posix_acl_default";

/// The value of an access control list with permissions of the owner, of user 1, of the group, of the mask
/// and of others.
pub(crate) fn access_list([owner, user, group, mask, others]: [u16; 5]) -> Vec<u8> {
    let nobody = u32::MAX;
    let mut value = vec![2, 0, 0, 0];
    for (tag, perm, id) in
        [(1_u16, owner, nobody), (2, user, 1), (4, group, nobody), (16, mask, nobody), (32, others, nobody)]
    {
        value.extend(tag.to_le_bytes());
        value.extend(perm.to_le_bytes());
        value.extend(id.to_le_bytes());
    }
    value
}

fn odd_names(dir: &Path) {
    let mut names: Vec<Vec<u8>> = vec![
        b"new\nline".to_vec(),
        b"\xff\xfe\x80".to_vec(),
        b" ".to_vec(),
        b"-rf".to_vec(),
        b"back\\slash".to_vec(),
        b"...".to_vec(),
        "grüße 🙂".as_bytes().to_vec(),
        vec![b'n'; 255],
    ];
    names.extend((1..=31_u8).map(|byte| vec![b'c', byte]));
    for name in &names {
        fs::write(dir.join(OsStr::from_bytes(name)), name).unwrap();
    }
    fs::create_dir(dir.join(OsStr::from_bytes(&[b'd'; 255]))).unwrap();
    fs::write(dir.join(OsStr::from_bytes(&[b'd'; 255])).join("in"), "deep name").unwrap();
}

fn sparse_files(top: &Path) {
    let file = |name: &str, size: u64, at: &[u64]| {
        let file = File::create(top.join(name)).unwrap();
        file.set_len(size).unwrap();
        for offset in at {
            file.write_all_at(b"island", *offset).unwrap();
        }
    };
    file("sparse-all-hole", 1 << 30, &[]);
    file("sparse-islands", 64 << 20, &[0, 1 << 20, (4 << 20) - 3, 33 << 20]);
    file("sparse-end", (16 << 20) + 6, &[16 << 20]);
    let many: Vec<u64> = (0..200).map(|i| i * 65_536).collect();
    file("sparse-many", 200 * 65_536, &many);
}

fn devices(top: &Path) {
    let make = |name: &str, kind, major, minor| {
        mknodat(CWD, top.join(name), kind, Mode::from_raw_mode(0o600), rustix::fs::makedev(major, minor))
    };
    if make("char", FileType::CharacterDevice, 1, 3).is_err()
        || make("block", FileType::BlockDevice, 259, 70_000).is_err()
    {
        eprintln!("SKIPPED: devices: this user may not make them");
    }
}

fn attributes(top: &Path) {
    let set = |path: &str, name: &str, value: &[u8]| {
        rustix::fs::lsetxattr(top.join(path), name, value, XattrFlags::empty())
    };
    if set("d/size-2", "user.plain", b"value").is_err() {
        eprintln!("SKIPPED: extended attributes: the temporary directory's file system has none");
        return;
    }
    set("d/size-2", "user.bytes", b"\0\n\xff=").unwrap();
    set("d/size-2", "user.empty", b"").unwrap();
    set("d/size-2", "user.long", &[7; 900]).unwrap();
    set("d/e", "user.of-directory", b"dir").unwrap();
    let acl = access_list([7, 7, 5, 7, 5]);
    if set("d/size-3", ACCESS, &acl).is_err() || set("empty", DEFAULT, &acl).is_err() {
        eprintln!("SKIPPED: access control lists: the temporary directory's file system has none");
    }
    if set("links/short", "trusted.of-link", b"link").is_err()
        || set("fifo", "trusted.of-fifo", b"fifo").is_err()
    {
        eprintln!("SKIPPED: trusted attributes: they need root");
    }
}

fn owners(top: &Path) {
    if !is_root() {
        eprintln!("SKIPPED: owners: they need root");
        return;
    }
    use std::os::unix::fs::lchown;
    lchown(top.join("d/size-1"), Some(1234), Some(5678)).unwrap();
    lchown(top.join("links/dangling"), Some(3_000_000_000), Some(7)).unwrap();
    lchown(top.join("fifo"), Some(1), Some(2)).unwrap();
    lchown(top.join("empty"), Some(9), None).unwrap();
}

/// A chain of directories each named `name`, with a file in the deepest.
pub(crate) fn make_chain(top: &Path, name: &str, depth: usize) {
    fs::create_dir(top).unwrap();
    let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let mut at = openat(CWD, top, flags, Mode::empty()).unwrap();
    for _ in 0..depth {
        mkdirat(&at, name, Mode::RWXU).unwrap();
        at = openat(&at, name, flags, Mode::empty()).unwrap();
    }
    let bottom = openat(&at, "bottom", OFlags::CREATE | OFlags::WRONLY, Mode::RUSR | Mode::WUSR).unwrap();
    rustix::io::write(bottom, b"down here").unwrap();
}

/// Removes what is too deep for paths.
pub(crate) fn remove_deep(top: &Path) {
    let status = Command::new("rm").arg("-rf").arg(top).status().unwrap();
    assert!(status.success());
}

/// Runs one ignored test of this program without root, with the path of `dir` in `LANEFS_TEST_TREE`.
pub(crate) fn as_another_user(dir: &Path, test: &str) {
    let me = std::env::current_exe().unwrap();
    let mut command = if is_root() {
        // The program itself may be where others cannot reach it.
        let copy = dir.join("test-program");
        fs::copy(me, &copy).unwrap();
        fs::set_permissions(dir, fs::Permissions::from_mode(0o777)).unwrap();
        let mut command = Command::new("setpriv");
        command.args(["--reuid=65534", "--regid=65534", "--clear-groups"]).arg(copy);
        command
    } else {
        Command::new(me)
    };
    let arguments = ["--ignored", "--exact", test];
    let run = command.args(arguments).env("LANEFS_TEST_TREE", dir).current_dir(dir).output();
    let output = match run {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            eprintln!("SKIPPED: no setpriv program to give root up with");
            return;
        }
        output => output.unwrap(),
    };
    let text = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && text.contains("1 passed"), "{text}");
}
