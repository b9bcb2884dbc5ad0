//! Commands that meet the server of a mount which has ended: it closes the volume, and they wait for it.

use crate::common::{ended, program, run, text, until};
use crate::impostors::{Stopped, signal};
use crate::mount::Mounted;
use lanefs::ImageUse;
use rustix::mount::UnmountFlags;
use std::fs::{self, File};
use std::io::Read;
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// True where the test cannot run: it unmounts as umount(8) does.
fn is_not_root() -> bool {
    let is_root = rustix::process::geteuid().is_root();
    if !is_root {
        eprintln!("SKIPPED: only root can unmount without a helper");
    }
    !is_root
}

/// Unmounts as umount(8) does, which does not wait for the server.
fn unmount_alone(dir: &Path) {
    rustix::mount::unmount(dir, UnmountFlags::NOFOLLOW).unwrap();
}

/// A mount that has ended, whose server is stopped before it can notice.
fn ending(m: &Mounted) -> Stopped {
    let stopped = Stopped::new(m);
    unmount_alone(&m.dir);
    stopped
}

/// [`ending`] for a mount whose image a reader has as well; the server is the process with a mark.
fn ending_reader(m: &Mounted) -> Stopped {
    let used = ImageUse::of(&File::open(&m.v.image).unwrap()).unwrap();
    let server = used.processes.into_iter().find(|process| *process != std::process::id());
    let stopped = Stopped::process(server.expect("the server"));
    unmount_alone(&m.dir);
    stopped
}

/// Starts a command, and returns when it says that it waits.
fn waiting(m: &Mounted, command: Command) -> Child {
    saying(m, command, "waiting for its server to close the volume")
}

/// Starts a command, and returns when it has said `text`.
fn saying(m: &Mounted, mut command: Command, text: &str) -> Child {
    let said = m.v.host("said");
    let mut child = command.stdout(Stdio::null()).stderr(File::create(&said).unwrap()).spawn().unwrap();
    until("the command waits", || {
        let end = child.try_wait().unwrap();
        let said = fs::read_to_string(&said).unwrap();
        let waits = said.contains(text);
        assert!(waits || end.is_none(), "{command:?} has not waited: {end:?}, {said}");
        waits
    });
    child
}

fn lanefs(args: &[&str]) -> Command {
    let mut command = program();
    command.args(args);
    command
}

#[test]
fn a_long_wait_for_the_end_of_a_mount_names_other_mount_namespaces() {
    if is_not_root() {
        return;
    }
    let m = Mounted::new();
    // It has a copy of the mount until its input ends.
    let mut elsewhere = Command::new("unshare")
        .args(["--mount", "--propagation", "private", "sh", "-c", "echo ready; cat"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut ready = [0; 6];
    elsewhere.stdout.as_mut().unwrap().read_exact(&mut ready).unwrap();
    let reason = "another mount namespace, such as a container's, may have the mount";
    let mut child = saying(&m, lanefs(&["umount", text(&m.dir)]), reason);
    assert!(child.try_wait().unwrap().is_none(), "it goes on waiting");
    drop(elsewhere.stdin.take());
    assert!(elsewhere.wait().unwrap().success());
    assert_eq!(ended(&mut child), Some(0));
    m.is_clean();
}

#[test]
fn every_command_waits_for_a_server_that_ends() {
    if is_not_root() {
        return;
    }
    let m = Mounted::prepare();
    let (image, dir) = (text(&m.v.image), text(&m.dir));
    let helper = m.v.host("mount.fuse.lanefs");
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_lanefs"), &helper).unwrap();
    let mut by_helper = Command::new(helper);
    by_helper.args([image, dir]);
    let in_front = lanefs(&["mount", "--foreground", "--read-only", image, dir]);
    for (options, command) in [
        ("rw", lanefs(&["mount", image, dir])),
        ("rw", by_helper),
        ("rw", lanefs(&["ls", image, "/"])),
        ("rw", lanefs(&["fsck", image])),
        ("ro", lanefs(&["mkdir", image, "/d"])),
        ("rw", lanefs(&["mkfs", "--force", image, "--size", "64M"])),
        ("rw", in_front),
    ] {
        m.mount(&["-o", options]).ends(0);
        let stopped = ending(&m);
        let mut child = waiting(&m, command);
        drop(stopped);
        until("the command ends, or the mount works", || {
            m.is_mounted() || child.try_wait().unwrap().is_some()
        });
        if m.is_mounted() {
            m.umount().ends(0);
        }
        assert_eq!(ended(&mut child), Some(0));
    }
    m.is_clean();
}

#[test]
fn a_signal_ends_the_wait_for_a_server_and_nothing_is_mounted() {
    if is_not_root() {
        return;
    }
    let m = Mounted::new();
    let stopped = ending(&m);
    for args in [&["mount", text(&m.v.image), text(&m.dir)][..], &["ls", text(&m.v.image), "/"]] {
        let mut child = waiting(&m, lanefs(args));
        // A job in the background of a shell ignores SIGINT.
        signal(child.id(), "-TERM");
        assert!(matches!(ended(&mut child), None | Some(130)), "{args:?}");
    }
    drop(stopped);
    m.await_end();
    assert!(!m.is_mounted());
}

#[test]
fn a_server_is_waited_for_although_another_mount_has_its_device_number() {
    if is_not_root() {
        return;
    }
    let (m, other) = (Mounted::new(), Mounted::prepare());
    let stopped = ending(&m);
    // The kernel gives away the lowest free number.
    other.mount(&[]).ends(0);
    let mut child = waiting(&m, lanefs(&["ls", text(&m.v.image), "/"]));
    drop(stopped);
    assert_eq!(ended(&mut child), Some(0));
    other.umount().ends(0);
}

/// Asserts that a command is refused, and waited for nobody.
#[track_caller]
fn is_refused_at_once(image: &Path) {
    let refused = run(&["mkdir", text(image), "/d"]).ends(3).says("in use by another process");
    assert!(!refused.err.contains("waiting"), "{}", refused.err);
}

#[test]
fn a_process_that_does_not_end_is_not_waited_for() {
    if is_not_root() {
        return;
    }
    let m = Mounted::prepare();
    let (image, dir) = (text(&m.v.image), text(&m.dir));
    // A reader without a mount, beside a server that ends.
    m.mount(&["-o", "ro"]).ends(0);
    let reader = lanefs::Volume::open(&m.v.image, lanefs::Access::Read).unwrap();
    let stopped = ending_reader(&m);
    is_refused_at_once(&m.v.image);
    drop((reader, stopped));
    m.await_end();
    // A server whose mount this process does not see.
    let unshare = ["--mount", env!("CARGO_BIN_EXE_lanefs"), "mount", image, dir];
    let hidden = Command::new("unshare").args(unshare).stdout(Stdio::piped()).output().unwrap();
    assert!(hidden.status.success() && !m.is_mounted(), "{hidden:?}");
    is_refused_at_once(&m.v.image);
    signal(m.server(), "-TERM");
    m.await_end();
    // A server whose image has another name by now.
    m.mount(&[]).ends(0);
    let renamed = m.v.host("renamed");
    fs::rename(&m.v.image, &renamed).unwrap();
    is_refused_at_once(&renamed);
    fs::rename(&renamed, &m.v.image).unwrap();
    m.umount().ends(0);
    m.is_clean();
}

#[test]
fn umount_returns_when_nobody_has_the_image() {
    let m = Mounted::prepare();
    let is_open = || ImageUse::of(&File::open(&m.v.image).unwrap()).unwrap().is_open;
    let helper = m.v.host("umount.fuse.lanefs");
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_lanefs"), &helper).unwrap();
    for _ in 0..10 {
        for options in ["rw", "ro"] {
            m.mount(&["-o", options]).ends(0);
            assert!(is_open());
            m.umount().ends(0);
            assert!(!is_open(), "{options}");
            m.mount(&["-o", options]).ends(0);
            assert!(Command::new(&helper).arg(&m.dir).status().unwrap().success());
            assert!(!is_open(), "{options}, by umount(8)");
        }
    }
    if is_not_root() {
        return;
    }
    m.mount(&[]).ends(0);
    m.mount(&["-o", "remount,ro"]).ends(0);
    m.umount().ends(0);
    assert!(!is_open(), "a mount that became read-only");
}

#[test]
fn a_reader_that_shows_the_mark_of_a_read_only_mount_holds_up_umount_for_a_while_only() {
    let m = Mounted::prepare();
    m.mount(&["-o", "ro"]).ends(0);
    let used = ImageUse::of(&File::open(&m.v.image).unwrap()).unwrap();
    assert_eq!(used.marks.len(), 1, "a server has one mark");
    let reader = lanefs::Volume::open(&m.v.image, lanefs::Access::Read).unwrap();
    reader.show_mark(Some(used.marks[0]));
    m.umount().ends(0).says("has not ended for ten seconds");
    assert!(!m.is_mounted());
}
