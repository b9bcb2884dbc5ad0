//! Paths that root names in a directory where everybody can make names, and pipes that nobody writes to:
//! docs/security.md. Each test failed before (those of links on hosts without `fs.protected_symlinks`).

use crate::common::{Ran, TestVolume, ended, program, run, text, until};
use rustix::fs::{CWD, FileType, Mode, mknodat};
use rustix::process::{Pid, Signal, kill_process};
use std::fs::{self, File, Permissions};
use std::io::Write;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt, lchown, symlink};
use std::path::{Path, PathBuf};
use std::process::Stdio;

/// The other user.
const NOBODY: u32 = 65534;

/// A directory like `/tmp` with links to a file and a private directory of root's.
struct Sticky {
    v: TestVolume,
    dir: PathBuf,
    secret: PathBuf,
    roots: PathBuf,
}

impl Sticky {
    /// The links belong to `owner`.
    fn new(owner: u32) -> Self {
        let v = TestVolume::new();
        v.run("mkdir", "/src /src/d").ends(0);
        v.run_with("write", &["/src/f"], b"content").ends(0);
        let (dir, secret, roots) = (v.host("sticky"), v.host("secret"), v.host("roots"));
        fs::create_dir(&dir).expect("a directory");
        fs::create_dir(&roots).expect("a directory");
        fs::set_permissions(&dir, Permissions::from_mode(0o1777)).expect("a mode");
        fs::write(&secret, "of root").expect("a file");
        fs::set_permissions(&secret, Permissions::from_mode(0o600)).expect("a mode");
        for (name, target) in [("file.svg", &secret), ("file.tar", &secret), ("dir", &roots)] {
            symlink(target, dir.join(name)).expect("a link");
            lchown(dir.join(name), Some(owner), Some(owner)).expect("tests run as root");
        }
        Sticky { v, dir, secret, roots }
    }

    fn at(&self, name: &str) -> String {
        text(&self.dir.join(name)).to_owned()
    }

    fn commands(&self) -> Vec<Ran> {
        let mount = self.v.host("mnt");
        fs::create_dir_all(&mount).expect("a directory");
        let log = format!("log={}", self.at("file.svg"));
        vec![
            self.v.run("export", &format!("/src {}", self.at("dir"))),
            self.v.run("export", &format!("/src {}", self.at("dir/below/it"))),
            self.v.run("export", &format!("/src/f {}", self.at("dir/file"))),
            self.v.run("cp", &format!(":/src/f {}", self.at("dir"))),
            self.v.run("cp", &format!("-r :/src {}", self.at("dir/below"))),
            self.v.run("cp", &format!(":/src/f {}", self.at("file.svg"))),
            self.v.run("export", &format!("--overwrite /src {}", self.at("file.tar"))),
            run(&["mkfs", "--force", "--mode", "666", "--size", "8M", &self.at("file.tar")]),
            run(&["publish", text(&self.v.image), &format!("file://{}", self.at("dir/store"))]),
            run(&["publish", text(&self.v.image), &format!("file://{}", self.at("dir"))]),
            self.v.run("map", &format!("--svg {}", self.at("file.svg"))),
            run(&["man", &self.at("dir/pages")]),
            run(&["mount", "-o", &log, text(&self.v.image), text(&mount)]),
        ]
    }
}

#[test]
fn no_link_of_another_user_in_a_sticky_directory_is_followed() {
    let sticky = Sticky::new(NOBODY);
    for ran in sticky.commands() {
        ran.ends(4).says("ermission denied");
    }
    assert_eq!(fs::read(&sticky.secret).expect("there"), b"of root");
    assert_eq!(fs::metadata(&sticky.secret).expect("there").permissions().mode() & 0o777, 0o600);
    assert_eq!(fs::read_dir(&sticky.roots).expect("a directory").count(), 0);
}

#[test]
fn links_of_the_user_are_followed_in_a_sticky_directory() {
    let sticky = Sticky::new(0);
    let mut commands = sticky.commands();
    commands.drain(..).for_each(|ran| drop(ran.ends(0)));
    run(&["umount", text(&sticky.v.host("mnt"))]).ends(0);
    for name in ["f", "below/it/f", "file", "pages/lanefs.1"] {
        assert!(sticky.roots.join(name).is_file(), "{name}");
    }
    let log = fs::read_to_string(&sticky.secret).expect("text");
    assert!(log.contains("<svg") && log.contains("unmounted and closed"), "{log}");
}

#[test]
fn pages_replace_links_and_a_log_is_no_pipe() {
    let sticky = Sticky::new(NOBODY);
    let theirs = sticky.v.host("theirs");
    fs::create_dir(&theirs).expect("a directory");
    symlink(&sticky.secret, theirs.join("lanefs-ls.1")).expect("a link");
    run(&["man", text(&theirs)]).ends(0);
    assert_eq!(fs::read(&sticky.secret).expect("there"), b"of root");
    assert!(theirs.join("lanefs-ls.1").symlink_metadata().expect("there").is_file());
    let pages = fs::read_dir(&theirs).expect("a directory").count();
    assert!(pages > 40, "{pages} pages");
    let (pipe, mount) = (sticky.v.host("pipe"), sticky.v.host("mnt"));
    fs::create_dir(&mount).expect("a directory");
    make_pipe(&pipe);
    let log = format!("log={}", text(&pipe));
    run(&["mount", "-o", &log, text(&sticky.v.image), text(&mount)]).ends(2).says("name a file, or syslog");
}

fn make_pipe(path: &Path) {
    mknodat(CWD, path, FileType::Fifo, Mode::from_raw_mode(0o666), 0).expect("a pipe");
}

/// Opens a pipe for writing once a command reads it.
fn writer(pipe: &Path) -> File {
    let mut writer = None;
    until("a command reads the pipe", || {
        let flags = rustix::fs::OFlags::NONBLOCK.bits() as i32;
        writer = File::options().write(true).custom_flags(flags).open(pipe).ok();
        writer.is_some()
    });
    writer.expect("a writer")
}

#[test]
fn a_pipe_is_read_and_a_wait_for_its_writer_hears_signals() {
    let v = TestVolume::new();
    v.run("mkdir", "/src").ends(0);
    v.run("touch", "/src/f").ends(0);
    let (pipe, archive) = (v.host("pipe.tar"), v.host("a.tar"));
    v.run("export", &format!("/src {}", text(&archive))).ends(0);
    let archive = fs::read(archive).expect("an archive");
    make_pipe(&pipe);
    let import = ["import", text(&v.image), text(&pipe), "/to", "--tar"];
    let lookup = ["lookup", text(&v.image), "--paths", text(&pipe)];
    let grep = ["grep", text(&v.image), "-f", text(&pipe), "/"];
    let start = |args: &[&str]| {
        let mut command = program();
        command.args(args).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        command.spawn().expect("the program starts")
    };
    for (args, content) in [(&import[..], &archive[..]), (&lookup, b"/src/f\n"), (&grep, b"x")] {
        for sent in [0, 2.min(content.len() - 1)] {
            let mut child = start(args);
            let mut writer = writer(&pipe);
            writer.write_all(&content[..sent]).expect("room");
            kill_process(Pid::from_child(&child), Signal::INT).expect("a signal");
            assert_eq!(ended(&mut child), Some(130), "{args:?} after {sent} bytes");
        }
    }
    for (args, content, code) in [(&import[..], &archive[..], 0), (&lookup, b"/src/f\n", 0), (&grep, b"x", 1)]
    {
        let mut child = start(args);
        let mut writer = writer(&pipe);
        rustix::fs::fcntl_setfl(&writer, rustix::fs::OFlags::empty()).expect("flags");
        writer.write_all(content).expect("room");
        drop(writer);
        assert_eq!(ended(&mut child), Some(code), "{args:?}");
    }
    v.run("stat", "/to/f").ends(0);
}
