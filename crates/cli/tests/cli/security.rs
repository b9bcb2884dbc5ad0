//! The promises of docs/security.md about commands beside a mount: the server uses no file of the host for a
//! client, nobody can take its address, and no client costs another one anything.

use crate::common::{run, run_with, text, until};
use crate::mount::Mounted;
use crate::raw::{ANSWER, CALL, CALLS, EXECUTE, Told, VERSION, command_line, frame, receive};
use rustix::thread::{CapabilitySet, CapabilitySets, set_capabilities};
use std::fs;
use std::io::{ErrorKind, Read, Write};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::process::Command;

/// Variable with the address for [`confined_child`].
const ADDRESS: &str = "LANEFS_TEST_ADDRESS";
/// Variable with the command lines, one a line, words separated by tabs.
const COMMANDS: &str = "LANEFS_TEST_COMMANDS";
/// Variable with the directory to be confined to.
const CELL: &str = "LANEFS_TEST_CELL";

/// Not a test of its own: the process that the next test confines.
#[test]
fn confined_child() {
    let (Ok(text), Ok(commands)) = (std::env::var(ADDRESS), std::env::var(COMMANDS)) else { return };
    rustix::process::chroot(std::env::var(CELL).expect("a directory")).expect("root may");
    std::env::set_current_dir("/").expect("the new root");
    let none = CapabilitySet::empty();
    let sets = CapabilitySets { effective: none, permitted: none, inheritable: none };
    set_capabilities(None, sets).expect("rights are dropped");
    fs::read("/etc/shadow").expect_err("nothing of the host is visible");
    let told = Told { text };
    for line in commands.lines() {
        let words: Vec<&str> = line.split('\t').collect();
        let (code, said) = told.execute(&words).expect("an answer");
        // The commands of this list need a file of the host, which the server does not open.
        assert!(code != 0 && !said.contains("secret of the host"), "{line}: {code}, {said}");
    }
}

#[test]
fn a_confined_root_reaches_no_file_of_the_host() {
    if !rustix::process::geteuid().is_root() {
        eprintln!("not root: nothing to be confined");
        return;
    }
    let m = Mounted::new();
    let (secret, cell) = (m.v.host("secret"), m.v.host("cell"));
    fs::write(&secret, "secret of the host\n").unwrap();
    fs::set_permissions(&secret, fs::Permissions::from_mode(0o600)).unwrap();
    fs::create_dir(&cell).unwrap();
    run_with(&["write", text(&m.dir), "/planted"], b"planted").ends(0);
    let (image, dir, secret) = (text(&m.v.image), text(&m.dir), text(&secret));
    let target = m.v.host("target");
    let target = text(&target);
    let lines = [
        vec!["import", dir, secret, "/stolen"],
        vec!["import", image, "--no-tar", secret, "/stolen"],
        vec!["import", dir, "--tar", secret, "/stolen"],
        vec!["import", dir, "--overwrite", "/etc", "/stolen"],
        vec!["sync", dir, "/etc", "/stolen"],
        vec!["cp", dir, secret, ":/stolen"],
        vec!["lookup", dir, "--paths", secret, "/absent"],
        vec!["export", dir, "/planted", target],
        vec!["export", dir, "/planted", "--tar", target],
        vec!["cp", dir, ":/planted", target],
    ];
    let commands: Vec<String> = lines.iter().map(|words| words.join("\t")).collect();
    // The worst case: the confined process even knows the secrets of the mount.
    let status = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "security::confined_child", "--nocapture"])
        .env(ADDRESS, Told::of(&m.dir).text)
        .env(COMMANDS, commands.join("\n"))
        .env(CELL, &cell)
        .status()
        .unwrap();
    assert!(status.success());
    run(&["ls", dir, "/stolen"]).ends(1);
    assert!(!fs::exists(target).unwrap());
    m.umount().ends(0);
    m.is_clean();
}

#[test]
fn a_command_has_the_rights_of_its_client_on_the_host() {
    if !rustix::process::geteuid().is_root() {
        eprintln!("not root: no rights to drop");
        return;
    }
    let m = Mounted::new();
    let (secret, closed) = (m.v.host("secret"), m.v.host("closed"));
    fs::write(&secret, "secret of the host\n").unwrap();
    fs::create_dir(&closed).unwrap();
    for path in [&secret, &closed] {
        chown(path, Some(65534), Some(65534)).unwrap();
        fs::set_permissions(path, fs::Permissions::from_mode(0o700)).unwrap();
    }
    run_with(&["write", text(&m.dir), "/planted"], b"planted").ends(0);
    let target = closed.join("target");
    for words in [
        ["import", text(&m.dir), text(&secret), "/stolen"],
        ["sync", text(&m.dir), text(&closed), "/stolen"],
        ["cp", text(&m.dir), text(&secret), ":/stolen"],
        ["export", text(&m.dir), "/planted", text(&target)],
        ["cp", text(&m.dir), ":/planted", text(&target)],
    ] {
        // The same user, without root's rights on files of others.
        let output = Command::new("setpriv")
            .args(["--inh-caps=-all", "--bounding-set=-all", "--"])
            .arg(env!("CARGO_BIN_EXE_lanefs"))
            .args(words)
            .output()
            .expect("setpriv, of util-linux");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && said.to_lowercase().contains("permission denied"), "{said}");
    }
    run(&["ls", text(&m.dir), "/stolen"]).ends(1);
    assert!(!fs::exists(&target).unwrap());
    // With its rights, the same commands work.
    run(&["cp", text(&m.dir), text(&secret), ":/copied"]).ends(0);
    m.umount().ends(0);
    m.is_clean();
}

#[test]
fn nobody_can_take_the_names_of_mounts_to_come() {
    // Names by which a server could be found before it exists: those of device numbers.
    let taken: Vec<_> = (0..600)
        .filter_map(|device: u64| {
            let name = format!("lanefs-mount-{device:x}");
            UnixListener::bind_addr(&SocketAddr::from_abstract_name(name).unwrap()).ok()
        })
        .collect();
    assert!(!taken.is_empty());
    let m = Mounted::new();
    run_with(&["write", text(&m.v.image), "/f"], b"text").ends(0);
    assert_eq!(run(&["cat", text(&m.dir), "/f"]).ends(0).bytes, b"text");
    let name = Told::of(&m.dir).text;
    m.umount().ends(0);
    m.mount(&[]).ends(0);
    assert_ne!(Told::of(&m.dir).text, name, "each mount has an address of its own");
    m.umount().ends(0);
}

#[test]
fn the_address_is_for_the_owner_of_the_mount_only() {
    if !rustix::process::geteuid().is_root() {
        eprintln!("not root: there is no other user to be");
        return;
    }
    let m = Mounted::new();
    fs::set_permissions(m.v.dir.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let dir = m.dir.clone();
    // A mount of root lets other users in, but tells them nothing.
    let refused = std::thread::spawn(move || {
        rustix::thread::set_thread_uid(rustix::process::Uid::from_raw(65534)).expect("root may");
        let mut value = [0; 256];
        fs::read_dir(&dir).expect("other users may look");
        rustix::fs::getxattr(&dir, "system.lanefs.commands", &mut value).map(|_| ())
    });
    assert_eq!(refused.join().unwrap(), Err(rustix::io::Errno::PERM));
    // Nor does a connection: the server closes it, before its first byte.
    let told = Told::of(&m.dir);
    let refused = std::thread::spawn(move || {
        rustix::thread::set_thread_uid(rustix::process::Uid::from_raw(65534)).expect("root may");
        let mut stream = UnixStream::connect_addr(&told.socket()).expect("a connection");
        let mut bytes = Vec::new();
        let _ = stream.read_to_end(&mut bytes);
        bytes
    });
    assert_eq!(refused.join().unwrap(), b"");
    // Lists do not name it, and no other inode has it.
    assert_eq!(rustix::fs::listxattr(&m.dir, &mut [0_u8; 100][..]), Ok(0));
    fs::write(m.path("f"), "").unwrap();
    rustix::fs::getxattr(m.path("f"), "system.lanefs.commands", &mut [0_u8; 256]).unwrap_err();
    m.umount().ends(0);
}

/// Asserts that commands work.
#[track_caller]
fn works(m: &Mounted) {
    run_with(&["write", text(&m.v.image), "/works"], b"yes").ends(0);
    assert_eq!(run(&["cat", text(&m.dir), "/works"]).ends(0).bytes, b"yes");
    assert_eq!(fs::read(m.path("works")).unwrap(), b"yes");
}

#[test]
fn silent_clients_keep_nobody_waiting() {
    let m = Mounted::new();
    let told = Told::of(&m.dir);
    // The server has room for 64.
    let silent: Vec<UnixStream> = (0..50).map(|_| told.connect()).collect();
    works(&m);
    let half: Vec<UnixStream> = (0..3)
        .map(|_| {
            let mut stream = told.connect();
            stream.write_all(&told.request(EXECUTE, &command_line(&["ls"]))[..20]).unwrap();
            stream
        })
        .collect();
    works(&m);
    // Full: the next one is told so, and the mount itself goes on. The slot of a command that has ended is
    // taken until the server notices.
    let mut last = Vec::new();
    until("a command is refused for want of room", || {
        last.push(told.connect());
        let ran = run(&["ls", text(&m.dir), "/"]);
        fs::write(m.path("f"), "").unwrap();
        ran.code == 1 && ran.err.contains("too many clients")
    });
    drop(last);
    until("a slot is free", || run(&["ls", text(&m.dir), "/"]).code == 0);
    works(&m);
    // The end of the mount waits for none of them.
    m.umount().ends(0);
    m.is_clean();
    drop((silent, half));
}

#[test]
fn clients_that_lie_are_sent_away() {
    let m = Mounted::new();
    let told = Told::of(&m.dir);
    let line = command_line(&["rm", "-r", text(&m.dir), "/works"]);
    let wrong = Told { text: told.text.replace(told.text.rsplit(' ').next().unwrap(), &"0".repeat(32)) };
    works(&m);
    for bytes in [
        b"GET / HTTP/1.1\r\n\r\n".to_vec(),
        vec![0xff; 100],
        frame(99, b""),
        frame(CALL, &[3, 0, 0, 0, 0, 0, 0, 0, 0]),
        wrong.request(EXECUTE, &line),
        told.request_of_version(VERSION - 1, EXECUTE, &line),
        told.request_of_version(VERSION + 1, EXECUTE, &line),
        told.request(99, b""),
        told.request(EXECUTE, b""),
        told.request(EXECUTE, &[0, 0, 0, 255, 255, 255, 255]),
        [told.request(CALLS, b""), frame(CALL, &[])].concat(),
        [told.request(CALLS, b""), frame(CALL, &[200, 1, 2, 3])].concat(),
        [told.request(CALLS, b""), frame(ANSWER, &[0])].concat(),
    ] {
        let mut stream = told.connect();
        stream.write_all(&bytes).unwrap();
        let mut rest = Vec::new();
        // The server closes the connection without a word; with unread bytes the host calls that a reset.
        let _ = stream.read_to_end(&mut rest);
        assert!(rest.is_empty(), "{bytes:?}: {rest:?}");
        works(&m);
    }
    m.umount().ends(0);
    m.is_clean();
}

#[test]
fn clients_may_vanish_at_any_byte() {
    let m = Mounted::new();
    let told = Told::of(&m.dir);
    let mut ino = vec![3];
    ino.extend_from_slice(&1_u64.to_le_bytes());
    let talks = [
        told.request(EXECUTE, &command_line(&["write", text(&m.dir), "/vanished"])),
        [told.request(CALLS, b""), frame(CALL, &ino), frame(CALL, &[100])].concat(),
    ];
    for talk in &talks {
        for len in 0..=talk.len() {
            // Where many are served at a time, the server closes the connection first.
            match told.connect().write_all(&talk[..len]) {
                Err(error) if error.kind() == ErrorKind::BrokenPipe => {}
                written => written.unwrap(),
            }
        }
    }
    works(&m);
    m.umount().ends(0);
    m.is_clean();
    // A command whose client vanished removes its partial file.
    run(&["cat", text(&m.v.image), "/vanished"]).ends(1);
}

#[test]
fn clients_that_stall_in_the_middle_do_not_hold_up_the_end_of_the_mount() {
    let m = Mounted::new();
    run_with(&["write", text(&m.dir), "/big"], &vec![b'b'; 8 << 20]).ends(0);
    let told = Told::of(&m.dir);
    // This one takes no output, this one gives no input, and this one takes no answers.
    let mut stalled = Vec::new();
    for words in [&["cat", text(&m.dir), "/big"][..], &["write", text(&m.dir), "/never"]] {
        let mut stream = told.connect();
        stream.write_all(&told.request(EXECUTE, &command_line(words))).unwrap();
        // The server asks, and gets no answer.
        assert!(receive(&mut stream).unwrap().is_some());
        stalled.push(stream);
    }
    let mut stream = told.connect();
    stream.write_all(&told.request(CALLS, b"")).unwrap();
    let mut read = vec![101];
    let ino = run(&["stat", text(&m.dir), "--json", "/big"]).ends(0);
    let ino: serde_json::Value = serde_json::from_str(ino.out().lines().next().unwrap()).unwrap();
    read.extend_from_slice(&ino["inode"].as_u64().unwrap().to_le_bytes());
    read.extend_from_slice(&0_u64.to_le_bytes());
    read.extend_from_slice(&(4_u64 << 20).to_le_bytes());
    (0..20).for_each(|_| stream.write_all(&frame(CALL, &read)).unwrap());
    let mut first = [0; 1];
    stream.read_exact(&mut first).unwrap();
    stalled.push(stream);
    works(&m);
    m.umount().ends(0);
    m.is_clean();
    drop(stalled);
}
