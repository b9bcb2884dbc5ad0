//! Commands on whole volumes: mkfs, info, inspect, grow, fsck; files that are not images; help.

use crate::common::{TestVolume, program, run, text, with_closed_output, with_umask};
use lanefs::format::{BLOCK, CHUNK, SUPERBLOCK_COPY};
use lanefs::{Access, Volume};
use std::fs;
use std::io::{Read, Write};
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdin, Command, Stdio};

#[test]
fn mkfs_makes_what_info_shows() {
    let v = TestVolume::new();
    let image = v.host("w.lane");
    let image = text(&image);
    let uuid = "01234567-89ab-cdef-0123-456789abcdef";
    let made =
        run(&["mkfs", image, "--size", "32M", "--inode-size", "128", "--label", "données", "--uuid", uuid]);
    assert!(made.ends(0).out().contains(uuid));
    let info = run(&["info", image]).ends(0);
    for part in [uuid, "données", "32M", "128 bytes"] {
        assert!(info.out().contains(part), "{}", info.out());
    }
    let json: serde_json::Value =
        serde_json::from_str(run(&["info", image, "--json"]).ends(0).out()).unwrap();
    assert_eq!(json["bytes"], 32 << 20);
    assert_eq!(json["inode_bytes"], 128);
    assert_eq!(json["uuid"], uuid);
    assert_eq!(json["label"], "données");
    assert!(json["free_bytes"].as_u64().unwrap() < 32 << 20);
}

#[test]
fn mkfs_refuses_bad_sizes_and_what_exists() {
    let v = TestVolume::new();
    let image = text(&v.image);
    run(&["mkfs", image, "--size", "64M"]).ends(3).says("--force");
    run(&["mkfs", image, "--size", "64M", "--force", "--quiet"]).ends(0);
    let other = v.host("other");
    let other = text(&other);
    run(&["mkfs", other]).ends(2).says("--size");
    run(&["mkfs", other, "--size", "1K"]).ends(2).says("too small");
    run(&["mkfs", other, "--size", "4P"]).ends(2).says("too large");
    run(&["mkfs", other, "--size", "many"]).ends(2).says("1.5T");
    run(&["mkfs", other, "--size", "8M", "--inode-size", "64"]).ends(2);
    run(&["mkfs", other, "--size", "8M", "--uuid", "x"]).ends(2);
    run(&["mkfs", other, "--size", "8M", "--label", &"x".repeat(65)]).ends(2).says("64 bytes");
    assert!(!v.host("other").exists());
    run(&["mkfs", "/no/such/directory/v", "--size", "8M"]).ends(4);
    assert_eq!(run(&["mkfs", "mem:16M"]).ends(0).out().lines().count(), 1);
}

#[test]
fn mkfs_says_what_is_wrong_with_the_name() {
    let v = TestVolume::new();
    let mkfs = |name: &str, more: &[&str]| run(&[&["mkfs", name, "--size", "64M"], more].concat());
    mkfs(text(&v.host("none/v.lane")), &[])
        .ends(4)
        .says("its directory is missing; make the directory first");
    mkfs(text(v.dir.path()), &[]).ends(4).says("is a directory; name a file in it");
    for more in [&[][..], &["--force"]] {
        mkfs("/dev/null", more).ends(3).says("neither a file nor a block device; choose another name");
    }
    run(&["mkfs", text(&v.host("new")), "--size", "-1"]).ends(2).says("`-1` is not a size");
}

#[test]
fn output_that_is_closed_is_an_error_and_no_file_takes_its_number() {
    let v = TestVolume::new();
    v.run("mkdir", "/d").ends(0);
    let (image, other) = (text(&v.image), v.host("other"));
    for args in
        [&["ls", image][..], &["export", image, "/", "-"], &["mkfs", text(&other), "--size", "64M"], &["man"]]
    {
        with_closed_output(args).ends(4).says("Bad file descriptor");
    }
    with_closed_output(&["mkdir", image, "/e"]).ends(0);
    assert_eq!(v.run("ls", "/").ends(0).out(), "d\ne\n");
    v.clean();
    run(&["fsck", text(&other)]).ends(0);
    // A stream that goes to /dev/null is open.
    let null = fs::File::options().read(true).write(true).open("/dev/null").unwrap();
    assert!(program().args(["ls", image]).stdout(null).status().unwrap().success());
}

#[test]
fn a_volume_without_room_on_the_host_leaves_no_file() {
    let temp = tempfile::tempdir().expect("a directory");
    let mounted = Command::new("mount")
        .args(["-t", "tmpfs", "-o", "size=64k", "none"])
        .arg(temp.path())
        .stderr(Stdio::null())
        .status();
    if !mounted.is_ok_and(|status| status.success()) {
        eprintln!("SKIPPED: this user may not mount a tmpfs");
        return;
    }
    let image = temp.path().join("v.lane");
    let made = run(&["mkfs", text(&image), "--size", "1T"]);
    let is_there = image.exists();
    let unmounted = Command::new("umount").arg(temp.path()).status();
    assert!(unmounted.is_ok_and(|status| status.success()));
    made.ends(4).says("No space left");
    assert!(!is_there, "half a volume");
}

#[test]
fn an_image_gets_the_mode_that_the_user_names() {
    use std::os::unix::fs::PermissionsExt;
    let v = TestVolume::new();
    let url = format!("file://{}", text(&v.host("store")));
    run(&["publish", text(&v.image), &url]).ends(0);
    let image = v.host("w.lane");
    for umask in [0o000, 0o022, 0o077] {
        for (mode, expected) in [(Some("600"), 0o600), (Some("0644"), 0o644), (None, 0o666 & !umask)] {
            for make in [&["mkfs", text(&image), "--size", "8M"][..], &["pull", &url, text(&image)]] {
                let mut command = program();
                command.args(make).args(mode.map(|mode| format!("--mode={mode}")));
                let ended = with_umask(command, umask).output().expect("the program starts");
                assert!(ended.status.success(), "{make:?}");
                let meta = image.metadata().expect("an image");
                assert_eq!(meta.permissions().mode() & 0o7777, expected, "{make:?} {mode:?} {umask:o}");
                fs::remove_file(&image).expect("removed");
            }
        }
    }
    // One that is overwritten gets it, too.
    run(&["mkfs", text(&v.image), "--size", "8M", "--force", "--mode", "600"]).ends(0);
    assert_eq!(v.image.metadata().expect("there").permissions().mode() & 0o7777, 0o600);
    for bad in ["", "8", "1777", "4755", "rw", "+600", "u+r", "77777777777"] {
        let mode = format!("--mode={bad}");
        run(&["mkfs", text(&image), "--size", "8M", &mode]).ends(2).says("as 600 or 640");
        run(&["pull", &url, text(&image), &mode]).ends(2).says("as 600 or 640");
    }
    run(&["mkfs", "mem:8M", "--mode", "600"]).ends(2).says("a volume in memory has no file");
    assert!(!image.exists());
}

#[test]
fn what_is_no_volume_is_refused_by_every_command() {
    let v = TestVolume::new();
    let (empty, noise, short) = (v.host("empty"), v.host("noise"), v.host("short"));
    fs::write(&empty, "").unwrap();
    fs::write(&noise, "no volume at all, but some text. ".repeat(100_000)).unwrap();
    fs::write(&short, &fs::read(&v.image).unwrap()[..3 << 20]).unwrap();
    for image in [&empty, &noise, &short] {
        for command in [&["ls"][..], &["info"], &["lookup"], &["shell"], &["mkdir"]] {
            let mut args = vec![command[0], text(image)];
            args.extend(match command[0] {
                "lookup" | "mkdir" => Some("/x"),
                _ => None,
            });
            let ran = run(&args).ends(3);
            assert!(ran.err.starts_with(&format!("lanefs: {}: ", text(image))), "{}", ran.err);
        }
        run(&["fsck", text(image)]).ends(8);
    }
    run(&["ls", "/no/such/image"]).ends(4).says("lanefs: /no/such/image: no such image; ");
    run(&["fsck", "/no/such/image"]).ends(8);
    run(&["ls", text(v.dir.path())]).says("lanefs: ");
    run(&["ls", ""]).ends(2);
    run(&["ls", "mem:x"]).ends(2);
    assert_eq!(fs::read(&empty).unwrap(), b"");
}

#[test]
fn an_image_without_permission_is_refused() {
    use std::os::unix::fs::PermissionsExt;
    let v = TestVolume::new();
    fs::set_permissions(&v.image, fs::Permissions::from_mode(0o600)).unwrap();
    fs::set_permissions(v.dir.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let mut command = program();
    command.arg("ls").arg(&v.image);
    if rustix::process::geteuid().is_root() {
        command.uid(65534).gid(65534);
    } else {
        fs::set_permissions(&v.image, fs::Permissions::from_mode(0o000)).unwrap();
    }
    match command.output() {
        Ok(output) => {
            let err = String::from_utf8_lossy(&output.stderr).into_owned();
            assert_eq!(output.status.code(), Some(4), "{err}");
            assert!(err.contains("ermission denied"), "{err}");
        }
        // That user has no access to the program's directory.
        Err(error) => eprintln!("not tested: {error}"),
    }
}

/// Starts a shell, has it do some lines, of which the last one prints, and awaits that output.
fn shell(v: &TestVolume, lines: &[u8]) -> (Child, ChildStdin) {
    let mut shell =
        program().arg("shell").arg(&v.image).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut stdin = shell.stdin.take().unwrap();
    stdin.write_all(lines).unwrap();
    shell.stdout.as_mut().unwrap().read_exact(&mut [0; 2]).unwrap();
    (shell, stdin)
}

#[test]
fn a_volume_in_use_is_refused() {
    let v = TestVolume::new();
    let (mut shell, stdin) = shell(&v, b"pwd\n");
    v.run("mkdir", "/x").ends(3).says("in use");
    drop(stdin);
    assert!(shell.wait().unwrap().success());
    v.run("mkdir", "/x").ends(0);
}

#[test]
fn volumes_grow_and_never_shrink() {
    let v = TestVolume::sized("16M");
    v.run_with("write", &["/a"], b"kept").ends(0);
    v.run("grow", "32M").ends(0);
    v.run("grow", "+16M").ends(0);
    let json: serde_json::Value = serde_json::from_str(v.run("info", "--json").ends(0).out()).unwrap();
    assert_eq!(json["bytes"], 48 << 20);
    v.run("grow", "16M").ends(2).says("cannot shrink");
    v.run("grow", "9999P").ends(2).says("too large");
    v.run("grow", "more").ends(2);
    // More than 16 times the size at once, as an example of the help does.
    v.run("grow", "+4G").ends(0);
    v.run_with("shell", &[] as &[&str], b"grow 100T\n").ends(3).says("leave the shell and use `lanefs grow`");
    assert_eq!(v.run("cat", "/a").ends(0).bytes, b"kept");
    v.clean();
}

#[test]
fn tune_changes_identity_and_label_and_nothing_else() {
    let v = TestVolume::new();
    v.run_with("write", &["/a"], b"kept").ends(0);
    let info =
        || -> serde_json::Value { serde_json::from_str(v.run("info", "--json").ends(0).out()).unwrap() };
    let before = fs::read(&v.image).unwrap();
    let old = info();
    assert_eq!(v.run_with("tune", &["--label", "photos 2"], b"").ends(0).out(), "label photos 2\n");
    assert_eq!((&info()["label"], &info()["uuid"]), (&"photos 2".into(), &old["uuid"]));
    let uuid = "01234567-89ab-cdef-0123-456789abcdef";
    assert_eq!(v.run("tune", &format!("--uuid {uuid}")).ends(0).out(), format!("uuid  {uuid}\n"));
    assert_eq!((&info()["label"], &info()["uuid"]), (&"photos 2".into(), &uuid.into()));
    // The superblocks are all that changed: checksums do not begin with the UUID.
    let after = fs::read(&v.image).unwrap();
    let blocks = before.chunks(4096).zip(after.chunks(4096)).enumerate();
    let changed: Vec<usize> = blocks.filter(|(_, (a, b))| a != b).map(|(n, _)| n).collect();
    assert_eq!(changed, [0, 511]);
    v.clean();
    v.run("mkdir", "/d").ends(0);
    v.run("tune", "--uuid random").ends(0);
    let random = info()["uuid"].clone();
    assert!(random.is_string() && random != uuid && random != old["uuid"]);
    assert_eq!(
        v.run_with("tune", &["--uuid", "clear", "--label", ""], b"").ends(0).out(),
        "uuid  -\nlabel -\n"
    );
    assert!(info()["uuid"].is_null() && info()["label"] == "");
    assert_eq!(v.run("cat", "/a").ends(0).bytes, b"kept");
    v.clean();
    v.run("tune", "").ends(2);
    v.run("tune", "--uuid x").ends(2).says("random");
    v.run("tune", &format!("--label {}", "x".repeat(65))).ends(2).says("64 bytes");
}

/// Commands that read, with their arguments after the image.
const READING: &[&str] = &[
    "ls -laR /",
    "tree /",
    "find / --size +0",
    "du -a /",
    "map / --svg OUT",
    "stat /d/f",
    "lookup /d/f /none",
    "cat /d/f",
    "grep content /",
    "dups /",
    "inventory / -o OUT",
    "xattr list /d/f",
    "info",
    "fsck",
    "scrub",
    "inspect 0",
    "export / OUT",
    "cp -r :/ OUT",
];

#[test]
fn commands_that_read_change_no_byte_of_a_volume_that_was_not_closed() {
    let v = TestVolume::new();
    let volume = Volume::open(&v.image, Access::Write).unwrap();
    volume.create_dir("/d").unwrap();
    volume.write_file("/d/f", b"content of the file").unwrap();
    let orphan = volume.write_file("/d/gone", b"held").unwrap().ino;
    volume.hold(orphan).unwrap();
    volume.remove_file("/d/gone").unwrap();
    volume.sync().unwrap();
    let copy = v.host("copy.lane");
    fs::copy(&v.image, &copy).unwrap();
    let before = fs::read(&copy).unwrap();
    assert!(!lanefs::format::superblock::Superblock::decode(&before).unwrap().clean);
    for (number, line) in READING.iter().enumerate() {
        let line = line.replace("OUT", text(&v.host(&format!("out{number}"))));
        let (command, rest) = line.split_once(' ').unwrap_or((&line, ""));
        let args: Vec<&str> = [command, text(&copy)].into_iter().chain(rest.split_whitespace()).collect();
        let ran = run(&args);
        assert!(ran.code <= 1, "{line}: {ran:?}");
        assert!(fs::read(&copy).unwrap() == before, "{line} changed the image");
    }
    assert_eq!(run(&["cat", text(&copy), "/d/f"]).ends(0).bytes, b"content of the file");
    run(&["fsck", text(&copy), "--repair"]).ends(0);
    assert!(fs::read(&copy).unwrap() != before);
}

#[test]
fn inspect_goes_by_the_tables_and_not_by_the_first_byte() {
    let v = TestVolume::new();
    // Data that begin as a leaf block does, and more inodes than one chunk's first table block describes.
    let volume = Volume::open(&v.image, Access::Write).unwrap();
    let ino = volume.write_file("/leaf", [6; 9000]).unwrap().ino;
    let data = volume.extents(ino).unwrap()[0].position;
    let node = ino.0 * volume.superblock().inode_size.bytes();
    let (chunk, journal) = (node & !(CHUNK - 1), volume.superblock().journal);
    volume.close().unwrap();
    let inspect = |at: u64| v.run("inspect", &at.to_string()).ends(0).out().to_owned();
    assert!(inspect(data).contains("file data"), "{}", inspect(data));
    for table in [chunk, chunk + BLOCK] {
        let shown = inspect(table);
        assert!(shown.contains("ChunkHeader block (the table of a metadata chunk)"), "{shown}");
        assert!(!shown.contains("0 used"), "{shown}");
    }
    assert!(inspect(journal).contains("Journal block"));
    assert!(inspect(0).contains("Superblock block") && inspect(SUPERBLOCK_COPY).contains("Superblock block"));
    assert!(inspect(chunk + 511 * BLOCK).contains("a free block of a metadata chunk"));
    let shown = v.run("inspect", &format!("inode:{}", ino.0)).ends(0).out().to_owned();
    assert!(shown.contains(&format!("inode {}", ino.0)) && shown.matches("  mode ").count() == 1, "{shown}");
    for number in [0, 1, data / 256] {
        v.run("inspect", &format!("inode:{number}")).ends(1).says("no inode lies there");
    }
    // A block that is not what its table says.
    let mut bytes = fs::read(&v.image).unwrap();
    bytes[(node & !(BLOCK - 1)) as usize + 20] ^= 1;
    fs::write(&v.image, bytes).unwrap();
    assert!(inspect(node).contains("DAMAGED") || inspect(node & !(BLOCK - 1)).contains("DAMAGED"));
}

#[test]
fn inspect_decodes_positions() {
    let v = TestVolume::new();
    assert!(!v.run("inspect", "0").ends(0).out().is_empty());
    assert!(!v.run("inspect", "0x0").ends(0).out().is_empty());
    let json: serde_json::Value = serde_json::from_str(v.run("info", "--json").ends(0).out()).unwrap();
    assert!(!v.run("inspect", &format!("inode:{}", json["root"])).ends(0).out().is_empty());
    v.run("inspect", "0x7fffffffffff").ends(1).says("after the end");
    v.run("inspect", "inode:99999999999999").ends(1).says("after the end");
    v.run("inspect", "x").ends(2);
}

/// Changes a byte in each of the journal's two headers.
fn damage_the_journal(v: &TestVolume) {
    let mut bytes = fs::read(&v.image).unwrap();
    bytes[8212] ^= 0x55;
    bytes[8212 + 4096] ^= 0x55;
    fs::write(&v.image, &bytes).unwrap();
}

#[test]
fn fsck_finds_and_repairs_the_journal_of_a_closed_volume() {
    let v = TestVolume::new();
    v.run_with("write", &["/a"], b"kept").ends(0);
    damage_the_journal(&v);
    // Nothing else needs the journal of a closed volume.
    let ran = v.run("cat", "/a").ends(0);
    assert!(ran.bytes == b"kept" && ran.err.is_empty(), "{}", ran.err);
    v.run("mkdir", "/x").ends(3).says("lanefs fsck");
    let ran = v.run("fsck", "").ends(4);
    assert!(ran.out().contains("journal: ") && ran.out().contains("nothing is lost"), "{}", ran.out());
    assert!(v.run("fsck", "--repair").ends(1).out().contains("(repaired)"));
    v.clean();
    v.run("mkdir", "/x").ends(0);
    v.run("rmdir", "/x").ends(0);
    assert_eq!(v.run("cat", "/a").ends(0).bytes, b"kept");
}

#[test]
fn of_a_journal_that_is_lost_after_a_crash_everybody_is_told() {
    let v = TestVolume::new();
    v.run_with("write", &["/a"], b"kept").ends(0);
    let (mut shell, stdin) = shell(&v, b"mkdir /lost\nsync\npwd\n");
    shell.kill().unwrap();
    shell.wait().unwrap();
    drop(stdin);
    damage_the_journal(&v);
    assert_eq!(v.run("cat", "/a").ends(0).says("are lost").bytes, b"kept");
    v.run("mkdir", "/x").ends(3);
    assert!(v.run("fsck", "").ends(4).out().contains("are lost"));
    assert!(v.run("fsck", "--repair").ends(1).out().contains("are lost"));
    v.clean();
    v.run("mkdir", "/x").ends(0);
}

#[test]
fn fsck_reports_for_people_and_machines() {
    let v = TestVolume::new();
    v.run("mkdir", "-p /a/b").ends(0);
    assert!(v.run("fsck", "").ends(0).out().starts_with("clean: "));
    v.run("fsck", "--repair").ends(0);
    let json: serde_json::Value = serde_json::from_str(v.run("fsck", "--json").ends(0).out()).unwrap();
    assert_eq!(json["clean"], true);
    assert_eq!(json["findings"].as_array().unwrap().len(), 0);
    v.run("fsck", "--no-such-option").ends(16);
    run(&["fsck"]).ends(16);
}

#[test]
fn help_teaches() {
    for command in [
        "mkfs",
        "info",
        "ls",
        "tree",
        "find",
        "du",
        "stat",
        "lookup",
        "cat",
        "write",
        "cp",
        "mkdir",
        "rmdir",
        "rm",
        "mv",
        "ln",
        "touch",
        "truncate",
        "chmod",
        "chown",
        "xattr",
        "fsck",
        "inspect",
        "grow",
        "tune",
        "shell",
        "completions",
        "man",
    ] {
        let help = run(&[command, "--help"]).ends(0);
        assert!(help.out().contains(&format!("lanefs {command}")), "no example for {command}");
        assert!(!help.out().contains("The arguments of"), "{}", help.out());
        assert!(help.out().lines().all(|line| line.chars().count() <= 110), "{command}");
    }
    let help = run(&["--help"]).ends(0);
    for part in ["Exit codes:", "130  interrupted", "mem:SIZE", "Resolve many paths at once"] {
        assert!(help.out().contains(part), "{part}");
    }
    run(&["--version"]).ends(0);
    run::<&str>(&[]).ends(2);
    run(&["bogus"]).ends(2).says("lanefs: ");
}

#[test]
fn completions_and_manual_pages() {
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        assert!(run(&["completions", shell]).ends(0).out().contains("lookup"), "{shell}");
    }
    run(&["completions", "cmd"]).ends(2);
    assert!(run(&["man"]).ends(0).out().contains(".TH lanefs 1"));
    let dir = tempfile::tempdir().unwrap();
    let pages = dir.path().join("man/man1");
    run(&["man", text(&pages)]).ends(0);
    assert!(pages.join("lanefs.1").exists() && pages.join("lanefs-lookup.1").exists());
    fs::write(dir.path().join("file"), "").unwrap();
    run(&["man", text(&dir.path().join("file"))]).ends(4);
}

#[test]
fn a_directory_in_the_place_of_the_image_is_told() {
    let v = TestVolume::new();
    let dir = v.host("tree");
    fs::create_dir(&dir).unwrap();
    let told = "is a directory, not a volume; the image comes before all other names";
    run(&["sync", "--delete", text(&dir), "/"]).ends(4).says(told);
    run(&["ls", text(&dir)]).ends(4).says(told);
    run(&["fsck", text(&dir)]).ends(8).says(told);
}
