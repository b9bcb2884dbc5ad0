//! The shell, from scripts; interruption; closed pipes.

use crate::common::{TestVolume, program, run, run_with, text, until_read};
use std::io::{BufRead, BufReader, Read, Write};
use std::process::Stdio;

fn script(lines: &str) -> crate::common::Ran {
    run_with(&["shell", "mem:64M"], lines.as_bytes())
}

#[test]
fn a_script_runs() {
    let ran = script("mkdir -p /a/b '/with space'\ncd /a\npwd\nls\ntouch b/x\ncd b/../..\npwd\nls\nls -R a\ncd a/b\nln -s /a/b/x /l\ncat x\nls .. /\n")
        .ends(0);
    assert_eq!(ran.out(), "/a\nb\n/\na\nwith space\na:\nb\n\na/b:\nx\n..:\nb\n\n/:\na\nl\nwith space\n");
    assert_eq!(ran.err, "");
}

#[test]
fn a_bad_name_is_reported_and_the_rest_is_done() {
    let ran = script("mkdir a none/b c\nls\nrm none\nls\nbogus\n'\n").ends(2);
    assert_eq!(ran.out(), "a\nc\na\nc\n");
    for part in ["none/b", "lanefs: none: not found", "bogus", "quote"] {
        assert!(ran.err.contains(part), "{part}: {}", ran.err);
    }
    // A line has no form of its own.
    assert!(!ran.err.contains("Usage"), "{}", ran.err);
    script("exit foo\n").ends(2).says("it is not a whole number");
    script("ls /none\nls\n").ends(1);
    script("cd /none\n").ends(1);
    script("touch f\ncd f\n").ends(1).says("not a directory");
    script("# nothing\n\n   \n").ends(0);
    script("ls /none\nexit 7\nbogus").ends(7);
    script("ls /none\nexit\nbogus").ends(1);
    script("bogus\nexit 0\n").ends(0);
    script("help\nls --help\nhelp ls\n").ends(0);
}

#[test]
fn any_name_can_be_typed() {
    let ran = script(
        "mkdir a\\x0ab \"double \\x22 quote\" 'single \\ quote' c\\ d \\xff\nls -b\nls -1 a\\x0ab\nlookup -q \\xff\n",
    );
    let ran = ran.ends(0);
    assert_eq!(
        ran.out().lines().take(5).collect::<Vec<_>>(),
        ["a\\x0ab", "c d", "double \" quote", "single \\\\ quote", "\\xff"]
    );
    assert!(ran.out().ends_with("\t\\xff\n"));
    // Bytes of a script need not be text.
    assert_eq!(run_with(&["shell", "mem:64M"], b"mkdir \xfe\nls\n").ends(0).bytes, b"\xfe\n");
}

#[test]
fn the_same_commands_keep_what_they_did() {
    let v = TestVolume::new();
    let shell = |args: &[&str], lines: &str| v.run_with("shell", args, lines.as_bytes());
    shell(&[], "mkdir /d\nsync\ncp /etc/passwd :/d/\nchmod 600 /d/passwd\nfsck\ninfo\ngrow +16M\n").ends(0);
    assert_eq!(v.run("cat", "/d/passwd").ends(0).bytes, std::fs::read("/etc/passwd").unwrap());
    shell(&["--read-only"], "mkdir /e\n").ends(1).says("reading only");
    shell(&["-e"], "ls /none\nmkdir /e\n").ends(1);
    v.run("ls", "/e").ends(1);
    assert_eq!(shell(&["-c", "cd /d", "-c", "ls"], "").ends(0).out(), "passwd\n");
    v.clean();
}

#[test]
fn a_closed_pipe_is_no_error() {
    let v = TestVolume::new();
    let make: String = (0..20)
        .map(|n| format!("mkdir -p {}\n", (0..500).map(|m| format!("/{n}/{m} ")).collect::<String>()))
        .collect();
    v.run_with("shell", &[] as &[&str], make.as_bytes()).ends(0);
    for args in [&["ls", "-lR"][..], &["find"], &["tree"], &["du"], &["ls", "-R", "--json"]] {
        let mut child = program()
            .arg(args[0])
            .arg(&v.image)
            .args(&args[1..])
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::with_capacity(64, child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let output = child.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{args:?}");
        assert_eq!(String::from_utf8_lossy(&output.stderr), "", "{args:?}");
    }
}

#[test]
fn ctrl_c_stops_cleanly() {
    let v = TestVolume::new();
    let mut child = program()
        .args(["shell", text(&v.image)])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    stdin.write_all(b"mkdir /before\npwd\n").unwrap();
    let mut answer = [0; 2];
    child.stdout.as_mut().unwrap().read_exact(&mut answer).unwrap();
    let pid = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(130));
    drop(stdin);
    assert_eq!(v.run("ls", "").ends(0).out(), "before\n");
    v.clean();
}

#[test]
fn a_terminal_is_not_needed_for_the_end_of_input() {
    assert_eq!(run(&["shell", "mem:16M"]).ends(0).out(), "");
}

#[test]
fn ctrl_c_ends_a_command_that_waits_for_input() {
    let v = TestVolume::new();
    let mut child = program()
        .args(["write", text(&v.image), "/half"])
        .stdin(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    // The command has part of a chunk, and waits for more.
    stdin.write_all(b"half a file").unwrap();
    until_read(&stdin);
    let pid = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!((output.status.code(), output.stderr.as_slice()), (Some(130), &b""[..]));
    drop(stdin);
    // No partial file stays.
    assert_eq!(v.run("ls", "").ends(0).out(), "");
    v.clean();
}

#[test]
fn trees_come_and_go_from_the_working_directory() {
    let host = tempfile::tempdir().expect("a temporary directory");
    let (from, back) = (host.path().join("from"), host.path().join("back"));
    std::fs::create_dir_all(from.join("sub")).expect("mkdir");
    std::fs::write(from.join("sub/file"), b"content").expect("write");
    let (from, back) = (from.display(), back.display());
    let ran = script(&format!(
        "mkdir /here\ncd /here\nimport {from} tree\ncat tree/sub/file\nexport tree {back}\nimport {from}/none x\n"
    ));
    let ran = ran.ends(4);
    assert_eq!(ran.out(), "content");
    assert!(ran.err.contains("none"), "{}", ran.err);
    let copied = host.path().join("back/sub/file");
    assert_eq!(std::fs::read(copied).expect("exported"), b"content");
}
