//! `cp` and `write` to files that are there already: on the host regular ones, pipes, sockets and devices; in
//! the volume files that keep their content until the new one is complete.

use crate::common::{TestVolume, ended, program, text, until_read};
use rustix::fs::{CWD, FileType, Mode, makedev, mknodat};
use rustix::process::{Pid, Signal, kill_process};
use std::fs::{self, File};
use std::io::{Read, Write};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::process::Stdio;

/// A volume with `/src/NAME` for each name, and a directory of the host.
fn with_files(names: &[&str]) -> TestVolume {
    let v = TestVolume::sized("16M");
    v.run("mkdir", "/src").ends(0);
    for name in names {
        v.run_with("write", &[&format!("/src/{name}")], b"content").ends(0);
    }
    fs::create_dir(v.host("dir")).expect("a directory");
    v
}

fn make(kind: FileType, path: &Path, device: u64) {
    mknodat(CWD, path, kind, Mode::from_raw_mode(0o666), device).expect("tests run as root");
}

#[test]
fn a_copy_writes_to_no_pipe_socket_or_device_below_the_directory_that_the_user_named() {
    let v = with_files(&["pipe", "socket", "device", "file", "old"]);
    let at = |name: &str| v.host("dir").join(name);
    make(FileType::Fifo, &at("pipe"), 0);
    make(FileType::CharacterDevice, &at("device"), makedev(1, 3));
    let _socket = UnixListener::bind(at("socket")).expect("a socket");
    fs::write(at("old"), "a longer content").expect("a file");
    // The pipe has a reader, so nothing but the rule keeps the copy from it.
    let mut pipe = File::options().read(true).write(true).open(at("pipe")).expect("a pipe");
    for args in ["-r :/src/.", "-rp :/src/.", ":/src/pipe :/src/socket :/src/device :/src/file :/src/old"] {
        fs::write(at("old"), "a longer content").expect("a file");
        let _ = fs::remove_file(at("file"));
        let ran = v.run("cp", &format!("{args} {}", text(&v.host("dir")))).ends(1);
        for kind in ["pipe", "socket", "device"] {
            let what = format!("{kind}: exists and is a {kind}; remove it first or choose another name");
            assert!(ran.err.contains(&what), "{args}: {}", ran.err);
        }
        assert_eq!(ran.err.lines().count(), 3, "{}", ran.err);
        assert_eq!(fs::read(at("file")).expect("there"), b"content", "the others are copied");
        assert_eq!(fs::read(at("old")).expect("there"), b"content");
    }
    assert_eq!(rustix::io::ioctl_fionread(&pipe), Ok(0), "nothing was written to the pipe");
    assert!(at("device").symlink_metadata().expect("there").file_type().is_char_device());
    rustix::io::write(&pipe, b"x").expect("room");
    assert_eq!(pipe.read(&mut [0; 8]).expect("read"), 1);
}

#[test]
fn a_pipe_or_device_that_the_user_names_gets_all_bytes() {
    let v = with_files(&["file"]);
    // A hole in the middle and one at the end.
    v.run("truncate", "-s 200000 /src/file").ends(0);
    v.run_with("write", &["-a", "/src/file"], b"end").ends(0);
    v.run("truncate", "-s 300000 /src/file").ends(0);
    let expected = v.run("cat", "/src/file").ends(0).bytes;
    assert_eq!(expected.len(), 300_000);
    for options in [&[][..], &["-p"]] {
        let mut child = program();
        child.args(["cp", text(&v.image)]).args(options).args([":/src/file", "/dev/stdout"]);
        let output = child.stdout(Stdio::piped()).output().expect("the program ends");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        assert!(output.stdout == expected, "{} bytes", output.stdout.len());
    }
    let null = v.host("null");
    make(FileType::CharacterDevice, &null, makedev(1, 3));
    let before = null.metadata().expect("there");
    v.run("cp", &format!("-p :/src/file {}", text(&null))).ends(0);
    let after = null.metadata().expect("there");
    assert_eq!((before.mode(), before.uid(), before.mtime()), (after.mode(), after.uid(), after.mtime()));
    make(FileType::Fifo, &v.host("pipe"), 0);
    v.run("cp", &format!(":/src/file {}", text(&v.host("pipe")))).ends(1).says("that nobody reads");
}

/// A volume with `/old` and a second name of it, `/other`, and a link to it.
fn with_old_file(size: &str, content: &[u8]) -> TestVolume {
    let v = TestVolume::sized(size);
    v.run_with("write", &["/old"], content).ends(0);
    v.run("chmod", "4750 /old").ends(0);
    v.run("chown", "7:8 /old").ends(0);
    v.run("xattr", "set user.k value /old").ends(0);
    v.run("ln", "/old /other").ends(0);
    v.run("mkdir", "/d").ends(0);
    v.run("ln", "-s ../old /d/link").ends(0);
    v
}

fn attributes(v: &TestVolume, path: &str) -> serde_json::Value {
    let json = v.run("stat", &format!("--json {path}")).ends(0);
    serde_json::from_str(json.out().lines().next().expect("a line")).expect("JSON")
}

#[test]
fn what_fills_the_volume_leaves_the_old_content() {
    let old = vec![b'o'; 5 << 20];
    let v = with_old_file("16M", &old);
    let new = v.host("new");
    // One that does not fit beside the old one, one that does not fit at all, and a small one.
    v.run_with("write", &["/rest"], &vec![b'r'; 4 << 20]).ends(0);
    for size in [6 << 20, 20 << 20] {
        fs::write(&new, vec![b'n'; size]).expect("a file");
        v.run("cp", &format!("{} :/old", text(&new))).ends(1).says("no space");
        v.run_with("write", &["/d/link"], &vec![b'n'; size]).ends(1).says("no space");
        v.run("import", &format!("--overwrite {} /old", text(&new))).ends(4).says("no space");
        assert!(v.run("cat", "/old").ends(0).bytes == old, "the old content is lost");
        assert_eq!(v.run("ls", "-A /").ends(0).out(), "d\nold\nother\nrest\n");
    }
    v.clean();
}

#[test]
fn what_is_replaced_keeps_its_attributes_and_a_small_one_its_inode() {
    let v = with_old_file("64M", b"old content");
    let (before, new) = (attributes(&v, "/old"), v.host("new"));
    let kept = ["mode", "uid", "gid"];
    for (size, is_same) in [(0, true), (3, true), (1 << 20, true), ((1 << 20) + 1, false), (9 << 20, false)] {
        fs::write(&new, vec![b'n'; size]).expect("a file");
        v.run("cp", &format!("{} :/d/link", text(&new))).ends(0);
        let after = attributes(&v, "/old");
        for key in kept {
            assert_eq!(before[key], after[key], "{key} with {size} bytes");
        }
        assert_eq!(v.run("xattr", "get user.k /old").ends(0).out(), "value");
        assert_eq!(v.run("cat", "/old").ends(0).bytes.len(), size);
        let names_one_file = v.run("cat", "/other").ends(0).bytes.len() == size;
        assert_eq!(names_one_file, is_same, "{size} bytes");
        assert_eq!(before["inode"] == after["inode"], is_same, "{size} bytes");
    }
    // Holes stay holes.
    let sparse = File::create(&new).expect("a file");
    sparse.set_len(1 << 30).expect("a size");
    v.run("cp", &format!("{} :/old", text(&new))).ends(0);
    assert_eq!(attributes(&v, "/old")["size"], 1 << 30);
    v.clean();
}

/// Starts to replace `/old`, ends the command by a signal in the middle, and returns the content.
fn content_after(signal: Signal, sent: usize) -> Vec<u8> {
    let v = with_old_file("128M", b"old content");
    let mut command = program();
    command.args(["write", text(&v.image), "/old", "--cache", "8M"]);
    command.stdin(Stdio::piped()).stderr(Stdio::null());
    let mut child = command.spawn().expect("the program starts");
    let mut stdin = child.stdin.take().expect("a pipe");
    stdin.write_all(&vec![b'n'; sent]).expect("it reads");
    until_read(&stdin);
    kill_process(Pid::from_child(&child), signal).expect("a signal");
    let code = ended(&mut child);
    assert_eq!(code, if signal == Signal::INT { Some(130) } else { None });
    let content = v.run("cat", "/old").ends(0).bytes;
    v.clean();
    content
}

#[test]
fn a_file_that_was_being_written_has_its_old_content_after_a_signal() {
    for sent in [100, 3 << 20] {
        assert_eq!(content_after(Signal::INT, sent), b"old content", "{sent} bytes");
    }
    // More than there may be uncommitted, so a part is on the device.
    assert_eq!(content_after(Signal::KILL, 64 << 20), b"old content");
}

#[test]
fn a_deep_tree_is_copied_within_the_volume_and_its_attributes_are_kept() {
    let v = TestVolume::sized("64M");
    let deep = "/d".repeat(300);
    v.run("mkdir", &format!("-p /top{deep}")).ends(0);
    v.run_with("write", &[&format!("/top{deep}/file")], b"deep").ends(0);
    v.run("ln", &format!("-s file /top{deep}/link")).ends(0);
    v.run("chmod", &format!("750 /top{deep}")).ends(0);
    v.run("cp", "-rp :/top :/copy").ends(0);
    v.run("cp", "-r :/top :/copy").ends(0);
    for top in ["/copy", "/copy/top"] {
        assert_eq!(v.run("cat", &format!("{top}{deep}/link")).ends(0).out(), "deep");
    }
    assert!(v.run("ls", &format!("-ld /copy{deep}")).ends(0).out().contains("drwxr-x---"));
    v.run("fsck", "").ends(0);
}
