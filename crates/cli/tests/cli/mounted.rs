//! Commands on a mounted volume: the server executes them with the files, the working directory and the umask
//! of the client. `mounted_caches` tests the notifications of the kernel.

use crate::common::{Ran, TestVolume, ended, program, run, run_with, text, until, with_closed_output};
use crate::mount::Mounted;
use std::fs;
use std::io::{Read, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};

fn signal(child: &Child, name: &str) {
    assert!(Command::new("kill").args([name, &child.id().to_string()]).status().unwrap().success());
}

/// Starts a command that runs until it is stopped: it reads a pipe that the test keeps open.
fn endless(m: &Mounted) -> Child {
    let mut child = program()
        .args(["write", text(&m.v.image), "/endless"])
        .stdin(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.as_mut().unwrap().write_all(&[b'x'; 100_000]).unwrap();
    until("the command has created its file", || m.path("endless").exists());
    child
}

fn tree(dir: &Path, files: usize) {
    for number in 0..files {
        let dir = dir.join(format!("d{}", number % 10));
        fs::create_dir_all(&dir).unwrap();
        fs::write(dir.join(format!("f{number}")), format!("{number}").repeat(number % 300)).unwrap();
    }
}

#[test]
fn commands_work_by_the_image_and_by_the_directory() {
    let m = Mounted::new();
    fs::create_dir(m.path("d")).unwrap();
    fs::write(m.path("d/f"), "text").unwrap();
    for volume in [&m.v.image, &m.dir] {
        let v = |command: &str, args: &[&str]| run(&[&[command, text(volume)][..], args].concat());
        assert_eq!(v("ls", &["/d"]).ends(0).out(), "f\n");
        assert_eq!(v("cat", &["/d/f"]).ends(0).bytes, b"text");
        assert_eq!(v("find", &["/", "--name", "f"]).ends(0).out(), "/d/f\n");
        assert!(v("du", &["-s", "/d"]).ends(0).out().ends_with("/d\n"));
        v("mkdir", &["/made"]).ends(0);
        assert!(m.path("made").is_dir());
        v("mv", &["/made", "/moved"]).ends(0);
        assert!(!m.path("made").exists() && m.path("moved").is_dir());
        run_with(&["write", text(volume), "/moved/w"], b"written").ends(0);
        assert_eq!(fs::read(m.path("moved/w")).unwrap(), b"written");
        v("rm", &["-r", "/moved"]).ends(0);
        assert!(!m.path("moved").exists());
        let found = run_with(&["lookup", text(volume), "--paths", "-"], b"/d/f\n/absent\n");
        assert!(found.bytes.starts_with(b"/d/f\t") || found.out().contains("/d/f"), "{found:?}");
    }
    m.umount().ends(0);
    m.is_clean();
}

/// Code, output and messages, without the times of `lookup`.
fn came_to(ran: &Ran) -> (i32, &[u8], &str) {
    (ran.code, &ran.bytes, ran.err.split(" not found) in ").next().unwrap_or_default())
}

#[test]
fn answers_and_exit_codes_are_those_of_an_unmounted_volume() {
    let m = Mounted::prepare();
    m.v.run("mkdir", "/d").ends(0);
    m.v.run_with("write", &["/d/f"], b"text").ends(0);
    let cases: &[(&str, &[&str], &[u8])] = &[
        ("cat", &["/absent"], b""),
        ("cat", &["/d/f", "/absent"], b""),
        ("cat", &["/d"], b""),
        ("ls", &["/"], b""),
        ("ls", &["/absent"], b""),
        ("rm", &["/d"], b""),
        ("rmdir", &["/d"], b""),
        ("mkdir", &["/d"], b""),
        ("mv", &["/absent", "/x"], b""),
        ("ls", &["--no-such-option", "/"], b""),
        ("lookup", &["--paths", "-"], b"/d/f\n/absent\n/d/f/x\n"),
        ("import", &["no-such-file", "/x"], b""),
        ("write", &["/absent/f"], b"x"),
    ];
    let all = |v: &TestVolume| -> Vec<Ran> {
        cases.iter().map(|(command, args, input)| v.run_with(command, args, input)).collect()
    };
    let before = all(&m.v);
    m.mount(&[]).ends(0);
    let mounted = all(&m.v);
    for ((case, before), mounted) in cases.iter().zip(&before).zip(&mounted) {
        assert_eq!(came_to(mounted), came_to(before), "{case:?}");
    }
    assert!(before.iter().any(|ran| ran.code == 1) && before.iter().any(|ran| ran.code == 0));
    m.umount().ends(0);
    m.is_clean();
}

#[test]
fn a_command_has_the_directory_the_files_and_the_umask_of_its_client() {
    let m = Mounted::new();
    let here = m.v.host("here");
    tree(&here.join("tree"), 60);
    let client = |mask: &str, line: &str| {
        let script = format!("umask {mask}; exec \"$0\" {line}");
        let output = Command::new("sh")
            .args(["-c", &script, env!("CARGO_BIN_EXE_lanefs"), text(&m.v.image)])
            .current_dir(&here)
            .output()
            .unwrap();
        assert!(output.status.success(), "{output:?}");
    };
    client("022", "import \"$1\" tree /tree");
    let same = Command::new("diff").arg("-r").args([here.join("tree"), m.path("tree")]).status().unwrap();
    assert!(same.success());
    // An archive is written to the client's directory, with its umask.
    for (mask, mode) in [("027", 0o640), ("002", 0o664)] {
        let name = format!("out{mask}.tar");
        client(mask, &format!("export \"$1\" /tree {name}"));
        assert_eq!(fs::metadata(here.join(&name)).unwrap().permissions().mode() & 0o777, mode, "{mask}");
        client(mask, &format!("export \"$1\" /tree made{mask}/below"));
        let made = fs::metadata(here.join(format!("made{mask}"))).unwrap().permissions().mode() & 0o777;
        assert_eq!(made, mode | 0o110 | u32::from(mask == "002"), "{mask}");
    }
    // Through pipes.
    let archive = run(&["export", text(&m.dir), "/tree", "--tar", "-"]).ends(0).bytes;
    assert_eq!(archive.len() % 512, 0);
    run_with(&["import", text(&m.dir), "--tar", "-", "/again"], &archive).ends(0);
    let same = Command::new("diff").arg("-r").args([m.path("again"), m.path("tree")]).status().unwrap();
    assert!(same.success());
    m.umount().ends(0);
    m.is_clean();
}

#[test]
fn a_volume_is_copied_onto_itself_through_its_own_mount() {
    let m = Mounted::new();
    tree(&m.path("tree"), 100);
    run(&["import", text(&m.v.image), text(&m.path("tree")), "/copy"]).ends(0);
    run(&["export", text(&m.v.image), "/copy", text(&m.path("back"))]).ends(0);
    let same = Command::new("diff").arg("-r").args([m.path("tree"), m.path("back")]).status().unwrap();
    assert!(same.success());
    m.umount().ends(0);
    m.is_clean();
}

#[test]
fn output_that_nobody_takes_ends_a_command() {
    let m = Mounted::new();
    fs::write(m.path("big"), vec![b'b'; 8 << 20]).unwrap();
    // The reader closes the pipe after a part of the output.
    let mut child = program().args(["cat", text(&m.v.image), "/big"]).stdout(Stdio::piped()).spawn().unwrap();
    let mut some = [0; 1000];
    child.stdout.take().unwrap().read_exact(&mut some).unwrap();
    assert_eq!((ended(&mut child), some), (Some(0), [b'b'; 1000]));
    // The reader keeps the pipe open without reading: the mount can end, and ends the command.
    let mut child = program().args(["cat", text(&m.v.image), "/big"]).stdout(Stdio::piped()).spawn().unwrap();
    let mut held = child.stdout.take().unwrap();
    held.read_exact(&mut some).unwrap();
    m.umount().ends(0);
    m.is_clean();
    assert_eq!(ended(&mut child), Some(130));
}

#[test]
fn interrupted_commands_leave_what_is_whole_and_the_mount_goes_on() {
    let m = Mounted::new();
    for name in ["-INT", "-TERM", "-KILL"] {
        let mut child = endless(&m);
        signal(&child, name);
        let code = ended(&mut child);
        assert_eq!(code, if name == "-KILL" { None } else { Some(130) }, "{name}");
        // A killed client cannot wait for its command, which removes its partial file.
        until("the command has removed its file", || !m.path("endless").exists());
        fs::write(m.path("f"), name).unwrap();
        assert_eq!(run(&["cat", text(&m.v.image), "/f"]).ends(0).out(), name);
    }
    m.umount().ends(0);
    m.is_clean();
}

#[test]
fn an_import_that_is_interrupted_leaves_whole_files() {
    let m = Mounted::prepare();
    drop(fs::remove_file(&m.v.image));
    run(&["mkfs", text(&m.v.image), "--size", "1G"]).ends(0);
    m.mount(&[]).ends(0);
    let from = m.v.host("from");
    for number in 0..40 {
        let dir = from.join(format!("d{number}"));
        fs::create_dir_all(&dir).unwrap();
        (0..250).for_each(|file| fs::write(dir.join(format!("f{file}")), vec![b'f'; 5000]).unwrap());
    }
    let said = loop {
        let mut child = program()
            .args(["import", text(&m.v.image), text(&from), "/to", "--threads", "2"])
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        until("the import has begun", || {
            fs::read_dir(m.path("to")).is_ok_and(|mut dir| dir.next().is_some())
        });
        signal(&child, "-INT");
        let mut said = String::new();
        child.stderr.take().unwrap().read_to_string(&mut said).unwrap();
        match ended(&mut child) {
            Some(130) => break said,
            // The signal came after the end of the import: try again.
            Some(0) => drop(run(&["rm", "-r", text(&m.v.image), "/to"]).ends(0)),
            other => panic!("{other:?}: {said}"),
        }
    };
    assert!(said.contains("interrupted"), "{said}");
    let files = run(&["find", text(&m.v.image), "/to", "--type", "f"]).ends(0);
    let files: Vec<&str> = files.out().lines().collect();
    assert!(files.len() < 10_000, "an interrupted import is complete");
    for file in &files {
        assert!(fs::read(m.path(&file[1..])).unwrap() == vec![b'f'; 5000], "{file}");
    }
    // A second import adds the other files.
    run(&["import", text(&m.v.image), text(&from), "/to", "--overwrite"]).ends(0);
    m.umount().ends(0);
    m.is_clean();
}

#[test]
fn several_clients_are_served_at_once() {
    let m = Mounted::new();
    let (image, dir) = (text(&m.v.image), text(&m.dir));
    std::thread::scope(|scope| {
        for client in 0..6 {
            scope.spawn(move || {
                let volume = if client % 2 == 0 { image } else { dir };
                let top = format!("/c{client}");
                run(&["mkdir", volume, &top]).ends(0);
                for step in 0..15 {
                    let (file, data) = (format!("{top}/f{step}"), format!("{client} {step}"));
                    run_with(&["write", volume, &file], data.as_bytes()).ends(0);
                    assert_eq!(fs::read_to_string(Path::new(dir).join(&file[1..])).unwrap(), data);
                    assert_eq!(run(&["cat", volume, &file]).ends(0).out(), data);
                    if step % 3 == 0 {
                        fs::remove_file(Path::new(dir).join(&file[1..])).unwrap();
                        run(&["cat", volume, &file]).ends(1);
                    }
                }
            });
        }
    });
    assert_eq!(run(&["find", image, "/", "--type", "f"]).ends(0).out().lines().count(), 60);
    m.umount().ends(0);
    m.is_clean();
}

#[test]
fn what_needs_the_volume_alone_is_refused() {
    let m = Mounted::new();
    for volume in [&m.v.image, &m.dir] {
        let volume = text(volume);
        let refused = |args: &[&str], code: i32| {
            let ran = run(args).ends(code).says("is mounted").says("lanefs umount");
            assert_eq!(ran.err.lines().count(), 1, "{}", ran.err);
        };
        refused(&["fsck", volume], 8);
        refused(&["fsck", volume, "--repair"], 8);
        refused(&["grow", volume, "128M"], 3);
        refused(&["tune", volume, "--label", "x"], 3);
        refused(&["shell", volume], 3);
    }
    run(&["mkfs", text(&m.v.image), "--size", "64M", "--force"]).ends(3).says("in use");
    m.umount().ends(0);
    m.is_clean();
    // A directory without a mount is not a volume.
    let ran = run(&["ls", text(&m.dir), "/"]);
    assert!(ran.code != 0 && ran.err.contains("directory"), "{ran:?}");
}

#[test]
fn another_user_is_refused() {
    if !rustix::process::geteuid().is_root() {
        eprintln!("not root: there is no other user to be");
        return;
    }
    let m = Mounted::new();
    fs::set_permissions(m.v.dir.path(), fs::Permissions::from_mode(0o755)).unwrap();
    fs::set_permissions(&m.v.image, fs::Permissions::from_mode(0o666)).unwrap();
    let copy = m.v.host("lanefs");
    fs::copy(env!("CARGO_BIN_EXE_lanefs"), &copy).unwrap();
    // By its name the image is in use; which mount has it is only a claim.
    for (volume, code) in [(&m.v.image, 3), (&m.dir, 1)] {
        for (args, code) in [
            (&["ls", text(volume), "/"][..], code),
            (&["mkdir", text(volume), "/d"], code),
            (&["top", text(volume), "--prometheus"], 1),
        ] {
            let output =
                Command::new(&copy).args(args).uid(65534).gid(65534).current_dir("/").output().unwrap();
            let said = String::from_utf8_lossy(&output.stderr);
            assert_eq!(output.status.code(), Some(code), "{said}");
            assert!(said.contains("another user has mounted it") && output.stdout.is_empty(), "{said}");
        }
    }
    assert!(!m.path("d").exists());
    m.umount().ends(0);
}

#[test]
fn unmounting_ends_commands() {
    let m = Mounted::new();
    let mut child = endless(&m);
    m.umount().ends(0);
    assert_eq!(ended(&mut child), Some(130));
    m.is_clean();
    // The partial file is removed, as without a mount.
    run(&["cat", text(&m.v.image), "/endless"]).ends(1);
}

#[test]
fn a_signal_ends_a_mount_that_a_command_reads() {
    let m = Mounted::new();
    // The command reads the mount itself, and continues to read while the mount is about to end.
    fs::create_dir(m.path("from")).unwrap();
    for number in 0..5000 {
        fs::write(m.path(&format!("from/f{number}")), vec![b'f'; 3000]).unwrap();
    }
    let server = m.server();
    let mut child = program()
        .args(["import", text(&m.v.image), text(&m.path("from")), "/to"])
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    until("the import has begun", || m.path("to").exists());
    for _ in 0..2 {
        // The second signal ends the mount even with open files.
        assert!(Command::new("kill").args(["-TERM", &server.to_string()]).status().unwrap().success());
    }
    let code = ended(&mut child);
    m.await_end();
    m.is_clean();
    // The import may have ended before the signals.
    let files = run(&["find", text(&m.v.image), "/to", "--type", "f"]).ends(0).out().lines().count();
    assert!(code.is_some_and(|code| code != 0) || files == 5000, "{code:?}, {files}");
}

#[test]
fn output_that_is_closed_ends_a_command_with_an_error() {
    let m = Mounted::new();
    m.v.run("mkdir", "/d").ends(0);
    for volume in [text(&m.v.image), text(&m.dir)] {
        for args in [&["ls", volume][..], &["info", volume], &["export", volume, "/", "-"]] {
            with_closed_output(args).ends(4).says("Bad file descriptor");
        }
        with_closed_output(&["chmod", volume, "700", "/d"]).ends(0);
    }
    m.umount().ends(0);
    m.is_clean();
}

#[test]
fn a_read_only_mount_answers_and_changes_nothing() {
    let m = Mounted::prepare();
    m.v.run("mkdir", "/d").ends(0);
    m.mount(&["--read-only"]).ends(0);
    for volume in [&m.v.image, &m.dir] {
        let volume = text(volume);
        assert_eq!(run(&["ls", volume, "/"]).ends(0).out(), "d\n");
        for args in
            [&["mkdir", volume, "/e"][..], &["rm", "-r", volume, "/d"], &["chmod", volume, "700", "/d"]]
        {
            run(args).ends(1).says("the mount is read-only; `lanefs mount -o remount,rw");
        }
        let ran = run_with(&["write", volume, "/f"], b"x");
        assert!(ran.code != 0 && ran.err.to_lowercase().contains("read"), "{ran:?}");
    }
    assert!(m.path("d").is_dir() && !m.path("e").exists());
    m.umount().ends(0);
    m.is_clean();
}

#[test]
fn a_volume_in_memory_takes_commands_by_its_directory() {
    let m = Mounted::prepare();
    run(&["mount", "mem:64M", text(&m.dir)]).ends(0);
    let dir = text(&m.dir);
    run_with(&["write", dir, "/f"], b"text").ends(0);
    assert_eq!(fs::read(m.path("f")).unwrap(), b"text");
    assert_eq!(run(&["ls", dir, "/"]).ends(0).out(), "f\n");
    assert!(run(&["info", dir]).ends(0).out().contains("64M"));
    run(&["export", dir, "/f", text(&m.v.host("out"))]).ends(0);
    assert_eq!(fs::read(m.v.host("out")).unwrap(), b"text");
    m.umount().ends(0);
}

#[test]
fn a_mount_whose_server_is_dead_says_so() {
    let m = Mounted::new();
    let server = m.server();
    assert!(Command::new("kill").args(["-KILL", &server.to_string()]).status().unwrap().success());
    m.await_end();
    run(&["ls", text(&m.dir), "/"]).ends(1).says("lanefs umount");
    run(&["top", text(&m.dir), "--prometheus"]).ends(1).says("lanefs umount");
    // The image is not in use.
    run(&["mkdir", text(&m.v.image), "/d"]).ends(0);
    m.umount().ends(0);
    m.is_clean();
}

#[test]
fn a_command_in_a_server_that_is_killed_fails() {
    let m = Mounted::new();
    let server = m.server();
    let mut child = endless(&m);
    assert!(Command::new("kill").args(["-KILL", &server.to_string()]).status().unwrap().success());
    assert_eq!(ended(&mut child), Some(4));
    let mut said = String::new();
    child.stderr.take().unwrap().read_to_string(&mut said).unwrap();
    assert!(said.contains("the volume mounted at"), "{said}");
    // The kernel may end the connection before the process is gone.
    m.await_end();
    m.umount().ends(0);
    m.is_clean();
}

#[test]
fn what_a_command_changed_is_durable_when_it_returns() {
    let m = Mounted::new();
    let server = m.server();
    run_with(&["write", text(&m.v.image), "/f"], b"text").ends(0);
    assert!(Command::new("kill").args(["-KILL", &server.to_string()]).status().unwrap().success());
    m.await_end();
    m.umount().ends(0);
    assert_eq!(run(&["cat", text(&m.v.image), "/f"]).ends(0).bytes, b"text");
    m.is_clean();
}

#[test]
fn a_full_volume_takes_more_once_something_goes() {
    let m = Mounted::new();
    let full = |error: &std::io::Error| error.raw_os_error() == Some(rustix::io::Errno::NOSPC.raw_os_error());
    let mut names = Vec::new();
    let error = loop {
        let name = format!("f{}", names.len());
        names.push(name.clone());
        if let Err(error) = fs::write(m.path(&name), vec![b'f'; 3 << 20]) {
            break error;
        }
        assert!(names.len() < 100, "64 MiB took 300");
    };
    assert!(full(&error), "{error}");
    assert!(names.len() > 15, "full after {}", names.len());
    for name in &names[..names.len() - 1] {
        assert_eq!(fs::metadata(m.path(name)).unwrap().size(), 3 << 20);
    }
    // A command fails with its own code, and can free space for the mount, as the mount can for commands.
    let refused = run_with(&["write", text(&m.v.image), "/more"], &vec![b'm'; 6 << 20]);
    assert!(refused.code != 0 && refused.err.contains("no space"), "{refused:?}");
    run(&["rm", text(&m.v.image), "-f", "/f0", "/f1", "/f2", "/more"]).ends(0);
    // Freed blocks are usable after the next commit.
    until("the freed blocks are usable", || match fs::write(m.path("again"), vec![b'a'; 6 << 20]) {
        Ok(()) => true,
        Err(error) => {
            assert!(full(&error), "{error}");
            false
        }
    });
    assert!(fs::read(m.path("again")).unwrap() == vec![b'a'; 6 << 20]);
    m.umount().ends(0);
    m.is_clean();
}

#[test]
fn either_engine_searches_a_mounted_volume_as_one_that_is_not_mounted() {
    let m = Mounted::prepare();
    let (image, sources) = (text(&m.v.image), concat!(env!("CARGO_MANIFEST_DIR"), "/src"));
    for folder in ["/src", "/again"] {
        run(&["import", image, sources, folder]).ends(0);
    }
    let searches = [
        &["grep", image, "-n", "fn main|fn [a-z]+_failure"][..],
        &["dups", image],
        &["find", image, "--fuzzy", "main rs"],
        &["find", image, "/", "--name", "*.rs"],
    ];
    let by = |engine: &str| {
        searches.map(|search| {
            let found = run(&[search, &["--engine", engine]].concat()).ends(0);
            assert!(!found.bytes.is_empty(), "{search:?} by {engine} finds nothing");
            found.bytes
        })
    };
    let expected = by("cpu");
    assert!(by("gpu") == expected, "a device finds something else");
    m.mount(&[]).ends(0);
    for engine in ["cpu", "auto"] {
        assert!(by(engine) == expected, "{engine}: a search of the mount finds something else");
    }
    // The server loads no drivers for a client.
    for search in searches {
        let engine = ["--engine", "gpu"];
        if !search.contains(&"--fuzzy") {
            run(&[search, &engine].concat()).ends(2).says("loads no drivers");
        }
    }
    m.umount().ends(0);
}
