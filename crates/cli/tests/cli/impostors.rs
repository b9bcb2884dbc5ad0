//! Names in the table of mounts prove nothing: servers of other users that claim an image, servers that do
//! not reply, files that are not images, and locks of those who may only read.

use crate::common::{Ran, ended, program, run, run_with, text, until, until_read};
use crate::mount::Mounted;
use crate::raw::{CALLS, EXECUTE, Told, command_line, receive};
use lanefs_fuse::table;
use rustix::fs::{CWD, FileType, Mode, OFlags};
use rustix::mount::{MountFlags, UnmountFlags};
use std::ffi::CString;
use std::fs;
use std::io::Write;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Another user.
const NOBODY: u32 = 65534;
/// Time within which a command that meets a hostile mount comes back; a hang lasts for ever.
const BOUND: Duration = Duration::from_secs(120);

/// True where the test cannot run: it makes mounts of other users.
fn is_not_root() -> bool {
    let is_root = rustix::process::geteuid().is_root();
    if !is_root {
        eprintln!("SKIPPED: only root can make mounts of other users");
    }
    !is_root
}

/// A FUSE mount of another user with any source, whose server never replies.
struct Silent {
    dir: PathBuf,
    _device: OwnedFd,
}

impl Silent {
    fn new(dir: PathBuf, source: &Path, more: &str) -> Self {
        fs::create_dir(&dir).unwrap();
        let flags = OFlags::RDWR | OFlags::CLOEXEC;
        let device = rustix::fs::open("/dev/fuse", flags, Mode::empty()).unwrap();
        let fd = device.as_raw_fd();
        let data = format!("fd={fd},rootmode=40000,user_id={NOBODY},group_id={NOBODY}{more}");
        let data = CString::new(data).unwrap();
        let flags = MountFlags::NOSUID | MountFlags::NODEV;
        rustix::mount::mount(source, &dir, "fuse.lanefs", flags, data.as_c_str()).unwrap();
        Silent { dir, _device: device }
    }
}

impl Drop for Silent {
    fn drop(&mut self) {
        let _ = rustix::mount::unmount(&self.dir, UnmountFlags::DETACH | UnmountFlags::NOFOLLOW);
    }
}

/// Runs the program, which must come back.
#[track_caller]
fn bounded(args: &[&str]) -> Ran {
    let mut child = program()
        .args(args)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let begin = Instant::now();
    while child.try_wait().unwrap().is_none() {
        if begin.elapsed() > BOUND {
            let state = fs::read_dir(format!("/proc/{}/task", child.id())).unwrap().flatten().map(|task| {
                let read = |name: &str| fs::read_to_string(task.path().join(name)).unwrap_or_default();
                format!("{} {} {}", read("comm"), read("wchan"), read("stack"))
            });
            let state: Vec<String> = state.collect();
            child.kill().unwrap();
            panic!("{args:?} hangs: {state:#?}");
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    let output = child.wait_with_output().unwrap();
    Ran {
        code: output.status.code().unwrap_or(-1),
        bytes: output.stdout,
        err: String::from_utf8_lossy(&output.stderr).into_owned(),
    }
}

/// The options of the topmost mount on a directory.
fn options_of(dir: &Path) -> Vec<String> {
    let text = fs::read_to_string("/proc/self/mountinfo").unwrap();
    let mut lines = text.lines().rev().map(|line| line.split(' ').collect::<Vec<_>>());
    let words = lines.find(|words| Path::new(words[4]) == dir).expect("a mount");
    words[5].split(',').map(str::to_owned).collect()
}

/// A directory of the host that other users may enter, with an image that they may read.
fn open_to_others(m: &Mounted) {
    fs::set_permissions(m.v.dir.path(), fs::Permissions::from_mode(0o755)).unwrap();
    fs::set_permissions(&m.v.image, fs::Permissions::from_mode(0o644)).unwrap();
}

#[test]
fn root_binds_no_mount_of_another_user() {
    if is_not_root() {
        return;
    }
    let m = Mounted::prepare();
    let (image, other) = (m.v.image.canonicalize().unwrap(), m.v.host("other"));
    fs::create_dir(&other).unwrap();
    let before = Silent::new(m.v.host("before"), &image, "");
    // The name is taken, the image is not: root gets a server of its own.
    bounded(&["mount", text(&image), text(&m.dir)]).ends(0);
    fs::write(m.path("f"), b"text").expect("root's own server");
    // A newer mount of that name does not hide root's.
    let after = Silent::new(m.v.host("after"), &image, "");
    let bound = bounded(&["mount", text(&image), text(&other)]).ends(0);
    assert!(bound.out().contains("by the process of the mount on"), "{}", bound.out());
    assert_eq!(fs::read(other.join("f")).expect("root's own server"), b"text");
    assert_eq!(bounded(&["cat", text(&image), "/f"]).ends(0).bytes, b"text");
    bounded(&["umount", text(&other)]).ends(0);
    // Nor does root bind one that is named by its directory.
    for enemy in [&before, &after] {
        bounded(&["mount", text(&enemy.dir), text(&other)]).ends(1).says("another user has mounted it");
        bounded(&["mount", "-o", "remount,suid", text(&image), text(&enemy.dir)])
            .ends(1)
            .says("another user");
        assert!(options_of(&enemy.dir).contains(&"nosuid".to_owned()));
    }
    assert!(table::find(&other).unwrap().is_none());
    m.umount().ends(0);
    m.is_clean();
}

#[test]
fn a_bind_has_the_flags_of_the_first_mount_or_more() {
    if is_not_root() {
        return;
    }
    let m = Mounted::prepare();
    m.mount(&["-o", "nosuid,nodev"]).ends(0);
    for (options, more) in [("suid,dev", None), ("noexec", Some("noexec")), ("ro", Some("ro"))] {
        let dir = m.v.host(more.unwrap_or("plain"));
        fs::create_dir(&dir).unwrap();
        run(&["mount", text(&m.v.image), text(&dir), "-o", options]).ends(0);
        let has = options_of(&dir);
        for flag in ["nosuid", "nodev"].into_iter().chain(more) {
            assert!(has.iter().any(|one| one == flag), "{options}: {has:?}");
        }
        assert_eq!(has.iter().any(|one| one == "ro"), more == Some("ro"), "{options}: {has:?}");
        run(&["umount", text(&dir)]).ends(0);
    }
    m.umount().ends(0);
    m.is_clean();
}

#[test]
fn an_image_that_is_a_fifo_is_refused_at_once() {
    let m = Mounted::prepare();
    let (fifo, store) = (m.v.host("fifo"), format!("file://{}", text(&m.v.host("store"))));
    rustix::fs::mknodat(CWD, &fifo, FileType::Fifo, Mode::from_raw_mode(0o644), 0).unwrap();
    let fifo = text(&fifo);
    for args in [
        &["ls", fifo, "/"][..],
        &["mkdir", fifo, "/d"],
        &["fsck", fifo],
        &["fsck", fifo, "--repair"],
        &["publish", fifo, &store],
        &["mount", fifo, text(&m.dir)],
        &["mount", "--read-only", fifo, text(&m.dir)],
        &["mkfs", "--force", fifo, "--size", "64M"],
    ] {
        let ran = bounded(args).says("neither a file nor a block device");
        assert!(ran.code > 0, "{args:?}: {ran:?}");
    }
}

#[test]
fn umount_opens_no_file_that_another_user_named() {
    if is_not_root() {
        return;
    }
    let m = Mounted::prepare();
    let fifo = m.v.host("fifo");
    rustix::fs::mknodat(CWD, &fifo, FileType::Fifo, Mode::from_raw_mode(0o644), 0).unwrap();
    for (number, more) in ["", ",allow_other"].into_iter().enumerate() {
        let enemy = Silent::new(m.v.host(&format!("enemy{number}")), &fifo, more);
        bounded(&["umount", text(&enemy.dir)])
            .ends(0)
            .says("not waiting for its server: it belongs to user ");
        assert!(table::find(&enemy.dir).unwrap().is_none());
    }
}

#[test]
fn a_silent_server_of_another_user_holds_up_nobody() {
    if is_not_root() {
        return;
    }
    let m = Mounted::new();
    let image = m.v.image.canonicalize().unwrap();
    let store = format!("file://{}", text(&m.v.host("store")));
    fs::write(m.path("f"), b"text").unwrap();
    let enemy = Silent::new(m.v.host("enemy"), &image, ",allow_other");
    for args in [
        &["ls", text(&image), "/"][..],
        &["top", text(&image), "--prometheus"],
        &["publish", text(&image), &store],
        &["mkdir", text(&image), "/d"],
    ] {
        bounded(args).ends(0);
    }
    bounded(&["fsck", text(&image)]).ends(8).says("is mounted");
    m.umount().ends(0);
    // Without an own mount the image itself is opened.
    bounded(&["ls", text(&image), "/d"]).ends(0);
    bounded(&["top", text(&image), "--prometheus"]).ends(1).says("another user has mounted it");
    for args in [
        &["ls", text(&enemy.dir), "/"][..],
        &["top", text(&enemy.dir)],
        &["mount", text(&image), text(&enemy.dir)],
    ] {
        bounded(args).ends(1).says("another user");
    }
    m.is_clean();
}

/// A server that is stopped, until this value is dropped.
pub(crate) struct Stopped(u32);

impl Stopped {
    pub(crate) fn new(m: &Mounted) -> Self {
        Self::process(m.server())
    }

    /// Returns when no thread runs any more, which could take a request and stop before its reply.
    pub(crate) fn process(server: u32) -> Self {
        signal(server, "-STOP");
        let is_stopped = |task: fs::DirEntry| {
            let stat = fs::read_to_string(task.path().join("stat")).unwrap_or_default();
            stat.rsplit(") ").next().is_some_and(|rest| rest.starts_with('T'))
        };
        until("all threads are stopped", || {
            fs::read_dir(format!("/proc/{server}/task")).unwrap().flatten().all(is_stopped)
        });
        Stopped(server)
    }
}

impl Drop for Stopped {
    fn drop(&mut self) {
        signal(self.0, "-CONT");
    }
}

pub(crate) fn signal(process: u32, name: &str) {
    assert!(Command::new("kill").args([name, &process.to_string()]).status().unwrap().success());
}

#[test]
fn a_stopped_server_is_waited_for_so_long_and_signals_end_the_wait() {
    let m = Mounted::new();
    let (image, other) = (text(&m.v.image), m.v.host("second"));
    fs::create_dir(&other).unwrap();
    let store = format!("file://{}", text(&m.v.host("store")));
    let stopped = Stopped::new(&m);
    // One after the other: each waits for so long only, also on a slow machine.
    for (args, name) in [
        (&["ls", image, "/"][..], "-TERM"),
        (&["top", image, "--prometheus"], "-INT"),
        (&["umount", text(&m.dir)], "-TERM"),
        (&["publish", image, &store], "-INT"),
    ] {
        let mut child = program().args(args).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        until("the command handles signals", || {
            let status = fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap_or_default();
            status.contains("SigCgt") && !status.contains("SigCgt:\t0000000000000000")
        });
        signal(child.id(), name);
        // The exit code of an interruption, or the signal itself.
        assert!(matches!(ended(&mut child), None | Some(130)));
    }
    for args in [&["ls", image, "/"][..], &["umount", text(&m.dir)], &["ls", text(&m.dir), "/"]] {
        bounded(args).ends(1).says("does not reply");
    }
    drop(stopped);
    run(&["ls", image, "/"]).ends(0);
    m.umount().ends(0);
    m.is_clean();
}

#[test]
fn a_server_that_stops_in_the_middle_of_a_command_does_not_hold_it_for_ever() {
    let m = Mounted::new();
    let server = m.server();
    let mut child = program()
        .args(["write", text(&m.dir), "/f"])
        .stdin(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    stdin.write_all(b"some").unwrap();
    until_read(&stdin);
    let stopped = Stopped::process(server);
    signal(child.id(), "-TERM");
    assert_eq!(ended(&mut child), Some(130));
    drop(stopped);
    m.umount().ends(0);
    m.is_clean();
}

/// A process that has a `flock` on a file, which it opened for reading.
fn flock(user: u32, kind: &str, file: &Path) -> Child {
    let child = Command::new("flock")
        .args(["--no-fork", kind, text(file), "sleep", "3600"])
        .uid(user)
        .gid(user)
        .spawn()
        .expect("flock, of util-linux");
    let process = format!(" {} ", child.id());
    until("the file is locked", || fs::read_to_string("/proc/locks").unwrap().contains(&process));
    child
}

#[test]
fn a_lock_of_somebody_who_may_only_read_keeps_nobody_out() {
    if is_not_root() {
        return;
    }
    let m = Mounted::prepare();
    open_to_others(&m);
    let image = text(&m.v.image);
    let mut enemy = flock(NOBODY, "-x", &m.v.image);
    bounded(&["mkdir", image, "/d"]).ends(0);
    bounded(&["ls", image, "/d"]).ends(0);
    m.mount(&[]).ends(0);
    // The volume is locked all the same.
    bounded(&["fsck", image]).ends(8).says("is mounted");
    bounded(&["mkfs", "--force", image, "--size", "64M"]).ends(3).says("in use by another process");
    bounded(&["umount", text(&m.dir)]).ends(0);
    bounded(&["fsck", image]).ends(0);
    enemy.kill().unwrap();
    enemy.wait().unwrap();
    // One who may write may run an older program, which knows this lock only. So may a reader of those.
    for (user, kind) in [(0, "-x"), (0, "-s"), (NOBODY, "-s")] {
        let mut holder = flock(user, kind, &m.v.image);
        let named = format!("in use by another process: process {} (sleep)", holder.id());
        let refused = bounded(&["mkdir", image, "/e"]).ends(3).says(&named);
        assert_eq!(refused.err.contains("of user 65534"), user == NOBODY, "{}", refused.err);
        holder.kill().unwrap();
        holder.wait().unwrap();
    }
    bounded(&["mkdir", image, "/e"]).ends(0);
}

#[test]
fn a_server_loads_no_drivers_for_a_client() {
    let m = Mounted::new();
    let image = text(&m.v.image);
    run_with(&["write", image, "/f"], b"text").ends(0);
    let server = m.server();
    for command in
        [&["find", image, "/"][..], &["grep", image, "text"], &["dups", image], &["lookup", image, "/f"]]
    {
        for engine in ["auto", "cpu"] {
            let ran = run(&[command, &["--engine", engine]].concat());
            assert!(ran.code == 0 && !ran.err.contains("drivers"), "{command:?}: {ran:?}");
        }
        run(&[command, &["--engine", "gpu"]].concat()).ends(2).says("loads no drivers for a client");
    }
    let loaded = fs::read_to_string(format!("/proc/{server}/maps")).unwrap();
    assert!(!loaded.contains("vulkan"), "{loaded}");
    m.umount().ends(0);
    m.is_clean();
}

#[test]
fn a_mount_without_commands_gives_counters_only() {
    let m = Mounted::prepare();
    m.mount(&["-o", "nocommands"]).ends(0);
    let (image, dir) = (text(&m.v.image), text(&m.dir));
    fs::write(m.path("f"), b"text").unwrap();
    let store = format!("file://{}", text(&m.v.host("store")));
    let file = m.v.host("file");
    fs::write(&file, b"text").unwrap();
    for args in [
        &["mkdir", image, "/d"][..],
        &["ls", dir, "/"],
        &["cp", image, text(&file), ":/copied"],
        &["publish", image, &store],
    ] {
        run(args).ends(1).says("nocommands");
    }
    // The server itself refuses, whatever the client does.
    let told = Told::of(&m.dir);
    for (purpose, content) in
        [(EXECUTE, command_line(&["mkdir", dir, "/d"])), (CALLS, Vec::new()), (4, Vec::new())]
    {
        let mut stream = told.connect();
        stream.write_all(&told.request(purpose, &content)).unwrap();
        assert!(!matches!(receive(&mut stream), Ok(Some(_))), "purpose {purpose}");
    }
    assert!(!m.path("d").exists() && !m.path("copied").exists());
    run(&["top", dir, "--prometheus"]).ends(0);
    m.umount().ends(0);
    m.is_clean();
    if is_not_root() {
        return;
    }
    // One directory cannot refuse what the server of another one takes.
    m.mount(&[]).ends(0);
    let other = m.v.host("other");
    fs::create_dir(&other).unwrap();
    run(&["mount", image, text(&other), "-o", "nocommands"]).ends(1).says("takes commands");
    m.umount().ends(0);
}
