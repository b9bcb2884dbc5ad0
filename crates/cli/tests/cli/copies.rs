//! `cp` to files of the host that are there already: regular ones, pipes, sockets and devices.

use crate::common::{TestVolume, program, text};
use rustix::fs::{CWD, FileType, Mode, makedev, mknodat};
use std::fs::{self, File};
use std::io::Read;
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
