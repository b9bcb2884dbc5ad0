//! `lanefs mount` and `lanefs umount` as processes: start, end, and recovery after a crash.
//!
//! They need /dev/fuse, and root or fusermount3 (package fuse3). Without these mounting fails with a message
//! that names the missing one.

use crate::common::{Ran, TestVolume, program, run, text, until};
use lanefs_fuse::table;
use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A volume and the directory of its mount.
pub(crate) struct Mounted {
    pub(crate) v: TestVolume,
    pub(crate) dir: PathBuf,
}

impl Mounted {
    /// Creates the volume and the directory without mounting.
    pub(crate) fn prepare() -> Self {
        let v = TestVolume::new();
        let dir = v.host("mnt");
        fs::create_dir(&dir).unwrap();
        Mounted { v, dir }
    }

    pub(crate) fn new() -> Self {
        let m = Self::prepare();
        m.mount(&[]).ends(0);
        m
    }

    pub(crate) fn mount(&self, options: &[&str]) -> Ran {
        let args = [&["mount", text(&self.v.image), text(&self.dir)], options].concat();
        run(&args)
    }

    pub(crate) fn umount(&self) -> Ran {
        run(&["umount", text(&self.dir)])
    }

    /// The server's process, as the message of a mount in the foreground names it.
    pub(crate) fn server(&self) -> u32 {
        let other = self.v.host("other");
        fs::create_dir_all(&other).unwrap();
        let refused =
            run(&["mount", "--foreground", text(&self.v.image), text(&other)]).ends(3).says("in use");
        let number = refused.err.split("process ").find_map(|rest| rest.split(' ').next()?.parse().ok());
        number.unwrap_or_else(|| panic!("no process in {:?}", refused.err))
    }

    pub(crate) fn signal(&self, name: &str) {
        let status = Command::new("kill").args([name, &self.server().to_string()]).status().unwrap();
        assert!(status.success());
    }

    pub(crate) fn is_mounted(&self) -> bool {
        table::find(&self.dir).unwrap().is_some()
    }

    /// Waits until the server has released the image. (It would execute any other command as long as it
    /// runs.)
    pub(crate) fn await_end(&self) {
        until("the server releases the image", || run(&["fsck", text(&self.v.image)]).code == 0);
    }

    pub(crate) fn is_clean(&self) {
        run(&["fsck", text(&self.v.image)]).ends(0);
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.join(name)
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        if self.is_mounted() {
            run(&["umount", "--lazy", text(&self.dir)]);
        }
    }
}

#[test]
fn a_volume_is_mounted_used_and_unmounted() {
    let m = Mounted::prepare();
    let mounted = m.mount(&[]).ends(0);
    assert!(mounted.out().contains("mounted on"), "{}", mounted.out());
    let entry = table::find(&m.dir).unwrap().unwrap();
    assert_eq!(
        (entry.kind.as_str(), entry.source.as_path()),
        ("fuse.lanefs", m.v.image.canonicalize().unwrap().as_path())
    );
    fs::create_dir(m.path("d")).unwrap();
    fs::write(m.path("d/f"), b"text").unwrap();
    let out = m.umount().ends(0);
    assert_eq!((out.out(), out.err.as_str()), ("", ""));
    // No wait is needed: `umount` returns after the close.
    m.is_clean();
    assert_eq!(run(&["cat", text(&m.v.image), "/d/f"]).ends(0).bytes, b"text");
    m.umount().ends(1).says("nothing is mounted");
    m.mount(&["--quiet", "-o", "noatime,nodev"]).ends(0);
    assert_eq!(fs::read(m.path("d/f")).unwrap(), b"text");
    m.umount().ends(0);
}

#[test]
fn umount_takes_the_image_for_the_directory() {
    let m = Mounted::new();
    let image = text(&m.v.image);
    run(&["umount", image]).ends(0);
    assert!(!m.is_mounted());
    m.is_clean();
    run(&["umount", image]).ends(1).says("nothing is mounted there");
    m.mount(&[]).ends(0);
    run(&["umount", "--lazy", image]).ends(0);
    m.await_end();
    m.is_clean();
}

#[test]
fn without_a_helper_of_its_name_the_arguments_of_mount_are_explained() {
    run(&["/srv/v.lane", "/mnt", "-o", "remount,ro"]).ends(2).says("mount(8) needs /sbin/mount.fuse.lanefs");
    let ran = run(&["bogus", "/mnt", "-o", "ro"]).ends(2);
    assert!(!ran.err.contains("mount(8)"), "{}", ran.err);
}

#[test]
fn a_second_mount_is_refused_and_named() {
    let m = Mounted::new();
    let server = m.server();
    let line = fs::read(format!("/proc/{server}/cmdline")).unwrap();
    assert!(String::from_utf8_lossy(&line).contains("mount"));
    run(&["fsck", text(&m.v.image)]).ends(8).says("is mounted");
    m.umount().ends(0);
}

#[test]
fn a_second_mount_by_root_is_a_bind_of_the_first() {
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let m = Mounted::new();
    let other = m.v.host("other");
    fs::create_dir(&other).unwrap();
    let (image, there) = (text(&m.v.image), text(&other));
    let bound = run(&["mount", image, there, "-o", "ro,nodev"]).ends(0);
    assert!(bound.out().contains("by the process of the mount on"), "{}", bound.out());
    fs::write(m.path("f"), b"text").unwrap();
    assert_eq!(fs::read(other.join("f")).unwrap(), b"text");
    assert!(fs::write(other.join("f"), b"").unwrap_err().to_string().contains("Read-only"));
    assert!(
        table::find(&other).unwrap().unwrap().read_only && !table::find(&m.dir).unwrap().unwrap().read_only
    );
    run(&["mkdir", there, "/by-command"]).ends(0);
    assert!(m.path("by-command").is_dir(), "one server");
    // The volume stays open until its last mount ends.
    m.umount().ends(0);
    assert_eq!(fs::read(other.join("f")).unwrap(), b"text");
    run(&["umount", there]).ends(0);
    m.is_clean();
    // As with other file systems, a volume is read-only or it is not.
    m.mount(&["-o", "ro"]).ends(0);
    run(&["mount", image, there]).ends(1).says("mounted read-only on").says("remount,rw");
    m.umount().ends(0);
}

#[test]
fn a_signal_ends_all_mounts_of_a_volume() {
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let m = Mounted::new();
    let other = m.v.host("second");
    fs::create_dir(&other).unwrap();
    run(&["mount", text(&m.v.image), text(&other)]).ends(0);
    m.signal("-TERM");
    m.await_end();
    assert!(!m.is_mounted() && table::find(&other).unwrap().is_none());
    m.is_clean();
}

#[test]
fn a_mount_becomes_read_only_and_writable_again() {
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let m = Mounted::new();
    let (image, dir) = (text(&m.v.image), text(&m.dir));
    fs::write(m.path("f"), b"text").unwrap();
    let open = File::options().append(true).open(m.path("f")).unwrap();
    m.mount(&["-o", "remount,ro"]).ends(1).says("busy");
    drop(open);
    m.mount(&["-o", "remount,ro"]).ends(0);
    run(&["mkdir", image, "/d"]).ends(1).says("for reading only");
    assert!(fs::create_dir(m.path("d")).unwrap_err().to_string().contains("Read-only"));
    // The options of the table come back, as mount(8) passes them.
    let options = "rw,relatime,user_id=0,group_id=0,default_permissions,allow_other,remount,rw";
    let done = called("mount.fuse.lanefs", &m).args([image, dir, "-o", options]).output().unwrap();
    assert_eq!((done.status.code(), done.stdout.len()), (Some(0), 0), "{done:?}");
    run(&["mkdir", image, "/d"]).ends(0);
    assert!(m.path("d").is_dir());
    run(&["mount", image, "/proc", "-o", "remount,ro"]).ends(1).says("not a mount of LaneFS");
    m.umount().ends(0);
    m.is_clean();
    m.mount(&["--read-only"]).ends(0);
    m.mount(&["-o", "remount,rw"]).ends(1).says("opened for reading only");
    assert!(table::find(&m.dir).unwrap().unwrap().read_only);
    m.umount().ends(0);
}

#[test]
fn signals_end_a_mount_with_everything_durable() {
    for signal in ["-TERM", "-INT"] {
        let m = Mounted::new();
        for number in 0..200 {
            fs::write(m.path(&format!("f{number}")), vec![b'x'; 1000 * number]).unwrap();
        }
        m.signal(signal);
        m.await_end();
        assert!(!m.is_mounted());
        m.is_clean();
        let listed = run(&["ls", text(&m.v.image), "/"]).ends(0);
        assert_eq!(listed.out().lines().count(), 200);
    }
}

#[test]
fn a_mount_in_use_is_busy_and_says_by_whom() {
    let m = Mounted::new();
    let file = File::create(m.path("f")).unwrap();
    let me = std::process::id().to_string();
    m.umount().ends(1).says("busy").says(&me);
    assert!(m.is_mounted());
    run(&["umount", "--lazy", text(&m.dir)]).ends(0);
    assert!(!m.is_mounted());
    (&file).write_all(b"to the end").unwrap();
    drop(file);
    m.await_end();
    m.is_clean();
    assert_eq!(run(&["cat", text(&m.v.image), "/f"]).ends(0).bytes, b"to the end");
}

#[test]
fn a_killed_server_keeps_what_was_synced() {
    let m = Mounted::new();
    let server = m.server();
    let kept = std::thread::scope(|scope| {
        for thread in 0..3 {
            let dir = m.path("");
            // Writes until the server is killed; the last write fails.
            scope.spawn(move || {
                for number in 0.. {
                    if fs::write(
                        dir.join(format!("load{thread}-{}", number % 500)),
                        vec![b'l'; number % 9000],
                    )
                    .is_err()
                    {
                        break;
                    }
                }
            });
        }
        let mut kept = Vec::new();
        for number in 0..40 {
            let name = format!("kept{number}");
            let file = File::create(m.path(&name)).unwrap();
            let data = vec![b'0' + (number % 10) as u8; 100 * number + 1];
            file.write_all_at(&data, 0).unwrap();
            file.sync_all().unwrap();
            File::open(&m.dir).unwrap().sync_all().unwrap();
            kept.push((name, data));
        }
        assert!(Command::new("kill").args(["-KILL", &server.to_string()]).status().unwrap().success());
        kept
    });
    let dead = File::create(m.path("new")).unwrap_err();
    assert!(dead.to_string().contains("not connected"), "{dead}");
    m.mount(&[]).ends(1).says("lanefs umount");
    until("the server is gone", || !Path::new(&format!("/proc/{server}/exe")).exists());
    m.umount().ends(0);
    run(&["fsck", text(&m.v.image)]).ends(0);
    m.mount(&[]).ends(0);
    for (name, data) in kept {
        assert!(fs::read(m.path(&name)).unwrap() == data, "{name}");
    }
    m.umount().ends(0);
    m.is_clean();
}

#[test]
fn a_volume_in_memory_is_mounted_and_gone() {
    let m = Mounted::prepare();
    run(&["mount", "mem:64M", text(&m.dir)]).ends(0);
    fs::write(m.path("f"), b"text").unwrap();
    assert_eq!(fs::metadata(&m.dir).unwrap().uid(), rustix::process::getuid().as_raw());
    m.umount().ends(0);
    assert!(!m.path("f").exists());
    run(&["mount", "mem:lots", text(&m.dir)]).ends(2);
}

#[test]
fn a_read_only_mount_lets_others_read() {
    let m = Mounted::prepare();
    run(&["mkdir", text(&m.v.image), "/d"]).ends(0);
    m.mount(&["--read-only"]).ends(0);
    let other = m.v.host("other");
    fs::create_dir(&other).unwrap();
    run(&["mount", text(&m.v.image), text(&other), "-o", "ro"]).ends(0);
    assert!(other.join("d").is_dir() && m.path("d").is_dir());
    assert!(fs::write(m.path("f"), b"").unwrap_err().to_string().contains("Read-only"));
    run(&["umount", text(&other), text(&m.dir)]).ends(0);
}

#[test]
fn what_cannot_be_mounted_is_refused_with_a_reason() {
    let m = Mounted::prepare();
    let (image, dir) = (text(&m.v.image), text(&m.dir));
    m.mount(&["-o", "frobnicate"]).ends(2).says("frobnicate");
    m.mount(&["-o", "sync"]).ends(2).says("sync");
    m.mount(&["--threads", "0"]).ends(2).says("threads");
    m.mount(&["-o", "cache=lots"]).ends(2).says("lots");
    m.mount(&["--log", "/nowhere/at/all"]).ends(4).says("/nowhere/at/all");
    run(&["mount", "no-such-image", dir]).ends(4).says("no such image");
    run(&["mount", image, "no-such-directory"]).ends(4).says("no-such-directory");
    run(&["mount", image, image]).ends(1).says("not a directory");
    let file = m.v.host("text");
    fs::write(&file, vec![b'x'; 10_000]).unwrap();
    run(&["mount", text(&file), dir]).ends(3);
    run(&["umount", "/proc"]).ends(1).says("not a mount of LaneFS (proc)");
    run(&["umount", "/no/such"]).ends(4);
    assert!(!m.is_mounted());
    m.is_clean();
}

#[test]
fn a_log_has_what_happened() {
    let m = Mounted::prepare();
    let log = m.v.host("log");
    m.mount(&["--log", text(&log)]).ends(0);
    m.umount().ends(0);
    let said = fs::read_to_string(&log).unwrap();
    assert!(said.contains("mounted on") && said.contains("unmounted and closed"), "{said}");
}

#[test]
fn in_the_foreground_the_command_ends_with_the_mount() {
    let m = Mounted::prepare();
    let mut child =
        program().args(["mount", text(&m.v.image), text(&m.dir), "--foreground"]).spawn().unwrap();
    until("the volume is mounted", || m.is_mounted());
    fs::write(m.path("f"), b"text").unwrap();
    m.umount().ends(0);
    assert_eq!(child.wait().unwrap().code(), Some(0));
}

#[test]
fn an_aborted_connection_ends_the_command_with_an_error() {
    if !rustix::process::geteuid().is_root() {
        return eprintln!("SKIPPED: only root aborts connections");
    }
    let m = Mounted::prepare();
    let (said, connections) = (m.v.host("said"), m.v.host("connections"));
    let mut child = program()
        .args(["mount", text(&m.v.image), text(&m.dir), "--foreground"])
        .stderr(File::create(&said).unwrap())
        .spawn()
        .unwrap();
    until("the volume is mounted", || m.is_mounted());
    fs::write(m.path("f"), b"text").unwrap();
    let minor = rustix::fs::minor(fs::metadata(&m.dir).unwrap().dev());
    fs::create_dir(&connections).unwrap();
    let run = |program: &str, args: &[&str]| {
        let status = Command::new(program).args(args).arg(&connections).status();
        assert!(status.is_ok_and(|status| status.success()), "{program}");
    };
    run("mount", &["-t", "fusectl", "none"]);
    fs::write(connections.join(minor.to_string()).join("abort"), "1").unwrap();
    run("umount", &[]);
    assert_eq!(child.wait().unwrap().code(), Some(4));
    let said = fs::read_to_string(&said).unwrap();
    assert!(said.contains("the connection of the mount to the kernel was aborted"), "{said}");
    m.umount().ends(0);
    m.is_clean();
    assert_eq!(crate::common::run(&["cat", text(&m.v.image), "/f"]).ends(0).bytes, b"text");
}

/// The program under the name by which mount(8) calls it.
fn called(name: &str, m: &Mounted) -> Command {
    let link = m.v.host(name);
    if !link.exists() {
        std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_lanefs"), &link).unwrap();
    }
    Command::new(link)
}

#[test]
fn by_the_names_of_helpers_it_does_what_mount_and_umount_ask() {
    let m = Mounted::prepare();
    let (image, dir) = (text(&m.v.image), text(&m.dir));
    let done = called("mount.fuse.lanefs", &m)
        .args([image, dir, "-n", "-o", "rw,nofail,x-test,noatime"])
        .output()
        .unwrap();
    assert_eq!((done.status.code(), done.stdout.len()), (Some(0), 0), "{done:?}");
    fs::write(m.path("f"), b"text").unwrap();
    let done = called("umount.fuse.lanefs", &m).arg(dir).output().unwrap();
    assert_eq!(done.status.code(), Some(0), "{done:?}");
    m.is_clean();
    let status = |args: &[&str]| called("mount.fuse.lanefs", &m).args(args).output().unwrap().status.code();
    assert_eq!(status(&[image, dir, "-o", "nonsense"]), Some(1));
    assert_eq!(status(&["/no/image", dir]), Some(32));
    assert_eq!(status(&[image, dir, "-f"]), Some(0));
    assert_eq!(status(&[]), Some(1));
    assert!(!m.is_mounted());
    assert_eq!(status(&["-s", image, dir, "-o", "nonsense"]), Some(0));
    m.umount().ends(0);
}

/// A user that every system has: the helper needs a user with a name.
const NOBODY: u32 = 65534;

#[test]
fn a_user_mounts_through_the_helper() {
    if !rustix::process::geteuid().is_root() {
        // All other tests of this file then mount as a user.
        return;
    }
    let everybody = fs::metadata("/dev/fuse").is_ok_and(|meta| meta.mode() & 0o006 == 0o006);
    assert!(everybody, "users cannot open /dev/fuse: give it mode 0666, as udev does");
    let m = Mounted::prepare();
    for path in [m.v.dir.path(), &m.v.image, &m.dir] {
        std::os::unix::fs::chown(path, Some(NOBODY), Some(NOBODY)).unwrap();
    }
    // The user may have no access to the build directory.
    let copy = m.v.host("lanefs");
    fs::copy(env!("CARGO_BIN_EXE_lanefs"), &copy).unwrap();
    let as_user = |args: &[&str]| {
        let output =
            Command::new(&copy).args(args).uid(NOBODY).gid(NOBODY).current_dir("/").output().unwrap();
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    let (image, dir) = (text(&m.v.image), text(&m.dir));
    run(&["chown", image, "65534:65534", "/"]).ends(0);
    std::os::unix::fs::chown(&m.v.image, Some(NOBODY), Some(NOBODY)).unwrap();
    let mounted = as_user(&["mount", image, dir]);
    assert_eq!(mounted.0, Some(0), "{}", mounted.1);
    let touch = Command::new("touch").arg(m.path("f")).uid(NOBODY).gid(NOBODY).status().unwrap();
    assert!(touch.success());
    // Without allow_other not even root has access.
    assert!(fs::metadata(m.path("f")).is_err());
    let unmounted = as_user(&["umount", dir]);
    assert_eq!(unmounted.0, Some(0), "{}", unmounted.1);
    m.is_clean();
    // An image of another user.
    std::os::unix::fs::chown(&m.v.image, Some(0), Some(0)).unwrap();
    fs::set_permissions(&m.v.image, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
    let refused = as_user(&["mount", image, dir]);
    assert_eq!(refused.0, Some(4));
    assert!(refused.1.contains("ermission denied"), "{}", refused.1);
    let memory = as_user(&["mount", "mem:32M", dir]);
    assert_eq!(memory.0, Some(0), "{}", memory.1);
    let touch = Command::new("touch").arg(m.path("f")).uid(NOBODY).gid(NOBODY).status().unwrap();
    assert!(touch.success(), "whoever mounts a volume in memory can use it");
    assert_eq!(as_user(&["umount", dir]).0, Some(0));
    assert!(!Path::new(&m.path("f")).exists());
}
