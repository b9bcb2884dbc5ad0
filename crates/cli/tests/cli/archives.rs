//! Archives on standard input and output, compressed ones, and imports that the host cannot keep.

use crate::common::{TestVolume, ended, program, run, run_with, text, until_read};
use rustix::process::{Pid, Signal, kill_process};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use std::fs;
use std::io::{Read, Write};
use std::process::{Command, Stdio};

/// A volume with two files in `/d`, and its archive.
fn with_archive() -> (TestVolume, Vec<u8>) {
    let v = TestVolume::new();
    v.run("mkdir", "/d").ends(0);
    v.run_with("write", &["/d/one"], b"first").ends(0);
    v.run_with("write", &["/d/two"], &[7; 300_000]).ends(0);
    let archive = v.run("export", "/d -").ends(0).says("exported 2 files").bytes;
    (v, archive)
}

#[test]
fn a_dash_is_an_archive_on_a_standard_stream() {
    let (v, archive) = with_archive();
    assert_eq!(archive, v.run("export", "/d --tar -").ends(0).bytes);
    assert_eq!(&archive[257..262], b"ustar");
    v.run_with("import", &["-", "/again"], &archive).ends(0).says("imported 2 files");
    assert_eq!(v.run("cat", "/again/one").ends(0).out(), "first");
    // Only an archive comes that way, and only a dash alone is a stream.
    v.run_with("import", &["-", "/text"], b"some text").ends(4).says("standard input: is not a tar archive");
    v.run("import", "./-").ends(4).says("No such file");
    v.run("export", "/d - --json").ends(2).says("--json");
    v.clean();
}

#[test]
fn an_archive_goes_to_no_terminal_and_comes_from_none() {
    let (v, _) = with_archive();
    let terminal = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).expect("a terminal");
    grantpt(&terminal).and_then(|()| unlockpt(&terminal)).expect("the other end of the terminal");
    let name = ptsname(&terminal, Vec::new()).expect("a name").into_string().expect("its name is text");
    let end = || fs::File::options().read(true).write(true).open(&name).expect("the other end");
    let on_terminal = |args: &[&str]| {
        let output = program().args(args).stdin(end()).stdout(end()).stderr(Stdio::piped()).output();
        let output = output.expect("the program ends");
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    let (code, told) = on_terminal(&["export", text(&v.image), "/d", "-"]);
    assert!(code == Some(2) && told.contains("an archive cannot go to a terminal"), "{told}");
    let (code, told) = on_terminal(&["import", text(&v.image), "-"]);
    assert!(code == Some(2) && told.contains("no archive comes from a terminal"), "{told}");
}

#[test]
fn a_reader_that_closes_the_pipe_gets_no_archive() {
    let (v, _) = with_archive();
    let mut child = program()
        .args(["export", text(&v.image), "/d", "-"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program starts");
    // Less than the pipe and the program's buffer hold, so that more must be written.
    let mut begin = [0; 100];
    child.stdout.take().expect("a pipe").read_exact(&mut begin).expect("the first bytes");
    let output = child.wait_with_output().expect("the program ends");
    let told = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(4), "{told}");
    assert!(
        told.contains("cannot write standard output: Broken pipe; stopped, the archive is not"),
        "{told}"
    );
}

/// Compresses by a program; `None` where it is not there.
fn compressed(program: &str, data: &[u8], dir: &std::path::Path) -> Option<Vec<u8>> {
    let plain = dir.join("plain");
    fs::write(&plain, data).expect("a file");
    match Command::new(program).arg("-c").arg(&plain).stderr(Stdio::null()).output() {
        Ok(output) if output.status.success() => Some(output.stdout),
        _ => {
            eprintln!("SKIPPED: no program {program}");
            None
        }
    }
}

#[test]
fn compressed_archives_are_unpacked_or_refused_and_never_a_file() {
    let (v, archive) = with_archive();
    for (program, name) in [("xz", "a.tar.xz"), ("xz", "a.txz"), ("bzip2", "a.tar.bz2"), ("lz4", "a.TAR.LZ4")]
    {
        let Some(packed) = compressed(program, &archive, v.dir.path()) else { continue };
        let at = v.host(name);
        fs::write(&at, &packed).expect("a file");
        run(&["import", text(&v.image), text(&at), &format!("/{name}")]).ends(0).says("imported 2 files");
        assert_eq!(v.run("cat", &format!("/{name}/one")).ends(0).out(), "first");
        run_with(&["import", text(&v.image), "-", &format!("/{name}-in")], &packed).ends(0);
        // As a file only if the user says so.
        run(&["import", text(&v.image), text(&at), "/plain/", "--no-tar"]).ends(0).says("imported 1 file");
        fs::write(&at, &packed[..packed.len() - 3]).expect("a file");
        run(&["import", text(&v.image), text(&at), "/cut"]).ends(4).says("too early");
    }
    for (name, content) in [("a.tar.lz", &b"LZIP\x01"[..]), ("a.tar.Z", b"\x1f\x9d"), ("a.tar.br", b"?")] {
        fs::write(v.host(name), content).expect("a file");
        let ran = run(&["import", text(&v.image), text(&v.host(name)), "/refused"]);
        match name {
            // Its content has no mark.
            "a.tar.br" => ran.ends(4).says("is not a tar archive"),
            _ => ran.ends(4).says("-dc FILE | lanefs import IMAGE -`"),
        };
    }
    let target = v.host("out.tar.xz");
    run(&["export", text(&v.image), "/d", text(&target)]).ends(2).says("| xz > FILE`");
    assert!(!target.exists());
    v.clean();
}

#[test]
fn damage_of_an_archive_is_skipped_on_request() {
    let (v, mut archive) = with_archive();
    // The header of the first file: the ones before are the records and the header of the directory.
    let at = archive.windows(8).position(|bytes| bytes == b"./one\0\0\0").expect("a member");
    archive[at] ^= 0x55;
    v.run_with("import", &["-", "/a"], &archive).ends(4).says("the option ignore-damage");
    let ran = v.run_with("import", &["-", "/b", "--ignore-damage"], &archive).ends(1);
    ran.says("checksum is wrong; skipped").says("imported 1 file");
    v.run("stat", "/b/two").ends(0);
    v.clean();
}

#[test]
fn a_full_host_leaves_what_the_import_counts() {
    if !rustix::process::geteuid().is_root() {
        eprintln!("SKIPPED: a small file system of its own needs root");
        return;
    }
    let temp = tempfile::tempdir().expect("a directory");
    let (small, source) = (temp.path().join("small"), temp.path().join("source"));
    fs::create_dir(&small).expect("a directory");
    let mount = Command::new("mount").args(["-t", "tmpfs", "-o", "size=28m", "none"]).arg(&small).status();
    if !mount.is_ok_and(|status| status.success()) {
        eprintln!("SKIPPED: this root may not mount a tmpfs");
        return;
    }
    fs::create_dir(&source).expect("a directory");
    (0..9000).for_each(|i| fs::write(source.join(format!("f{i}")), [b'x'; 1000]).expect("a file"));
    let image = small.join("v.lane");
    let made = run(&["mkfs", text(&image), "--size", "1G"]);
    let imported = run(&["import", text(&image), text(&source), "/in", "--json"]);
    // Elsewhere there is room.
    let copied =
        Command::new("cp").arg("--sparse=always").arg(&image).arg(temp.path().join("v.lane")).status();
    let unmounted = Command::new("umount").arg(&small).status();
    assert!(unmounted.is_ok_and(|status| status.success()) && copied.is_ok_and(|status| status.success()));
    made.ends(0);
    let imported = imported.ends(4).says("; stopped, the volume has the ");
    let counts: serde_json::Value = serde_json::from_str(imported.out()).expect("JSON");
    let copy = temp.path().join("v.lane");
    let listed = run(&["find", text(&copy), "/", "--type", "f"]).ends(0).out().lines().count();
    assert!(counts["files"].as_u64().is_some_and(|files| files >= 4000), "{counts}");
    assert_eq!(counts["files"].as_u64(), Some(listed as u64), "{counts}");
    assert!(counts["lost"].as_u64().is_some_and(|lost| lost > 0), "{counts}");
    run(&["fsck", text(&copy)]).ends(0);
}

/// Starts a command that reads an archive, and stops it by a signal while it unpacks. Returns the exit code.
fn stopped_while_unpacking(v: &TestVolume, args: &[&str], signal: Signal) -> Option<i32> {
    let temp = v.host("temp");
    fs::create_dir_all(&temp).expect("a directory");
    let mut command = program();
    command.args(args).env("TMPDIR", &temp).stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
    let mut child = command.spawn().expect("the program starts");
    let mut stdin = child.stdin.take().expect("a pipe");
    let (_, archive) = with_archive();
    // The rest never comes.
    stdin.write_all(&archive[..archive.len() / 2]).expect("it reads");
    until_read(&stdin);
    let left = || fs::read_dir(&temp).expect("the directory").count();
    assert_eq!(left(), 0, "a volume that is open has no name");
    kill_process(Pid::from_child(&child), signal).expect("a signal");
    let code = ended(&mut child);
    assert_eq!(left(), 0);
    code
}

#[test]
fn an_unpacked_archive_is_gone_however_the_command_ends() {
    let v = TestVolume::new();
    for args in [["diff", "-", text(&v.image)], ["sync", text(&v.image), "-"]] {
        for (signal, code) in [(Signal::INT, Some(130)), (Signal::TERM, Some(130)), (Signal::KILL, None)] {
            assert_eq!(stopped_while_unpacking(&v, &args, signal), code, "{args:?} {signal:?}");
        }
    }
    v.clean();
}

#[test]
fn an_archive_that_finds_no_room_says_where_and_names_no_volume() {
    if !rustix::process::geteuid().is_root() {
        eprintln!("SKIPPED: a small file system of its own needs root");
        return;
    }
    let v = TestVolume::new();
    let (source, small, archive) = (v.host("source"), v.host("small"), v.host("a.tar"));
    fs::create_dir(&source).expect("a directory");
    fs::create_dir(&small).expect("a directory");
    let content: Vec<u8> = (0..12_u32 << 20).map(|at| (at.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    fs::write(source.join("large"), content).expect("a file");
    v.run("import", &format!("{} /in", text(&source))).ends(0);
    v.run("export", &format!("/in --tar {}", text(&archive))).ends(0);
    let mount = Command::new("mount").args(["-t", "tmpfs", "-o", "size=8m", "none"]).arg(&small).status();
    if !mount.is_ok_and(|status| status.success()) {
        eprintln!("SKIPPED: this root may not mount a tmpfs");
        return;
    }
    let told = |args: &[&str]| {
        let output = program().args(args).env("TMPDIR", &small).output().expect("the program ends");
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    let told = [
        told(&["sync", text(&v.image), text(&archive), "/in"]),
        told(&["diff", text(&archive), text(&v.image)]),
    ];
    let unmounted = Command::new("umount").arg(&small).status();
    assert!(unmounted.is_ok_and(|status| status.success()));
    for (code, told) in told {
        let wanted = format!("a.tar: cannot be unpacked in '{}': ", text(&small));
        assert!(code == Some(4) && told.contains(&wanted) && told.contains("set TMPDIR"), "{code:?} {told}");
        assert!(!told.contains(".lane") && !told.contains("grow"), "{told}");
    }
    v.clean();
}
