//! Checksums of file data as a user meets them: wrong bytes, scrub, chattr, on an image and on a mount.

use crate::common::{TestVolume, run, run_with, text};
use crate::mount::Mounted;
use rustix::fs::{IFlags, ioctl_getflags, ioctl_setflags};
use std::fs::{self, File};
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

fn content() -> Vec<u8> {
    b"a line of text\n".iter().copied().cycle().take(100_000).collect()
}

/// Flips a bit in the first block of a file, and returns its position on the image.
fn spoil(image: &Path, file: &str) -> u64 {
    let stat = run(&["stat", "--json", text(image), file]).ends(0);
    let stat: serde_json::Value = serde_json::from_str(stat.out()).unwrap();
    let at = stat["extents"][0]["position"].as_u64().unwrap();
    let image = File::options().read(true).write(true).open(image).unwrap();
    let mut byte = [0];
    image.read_exact_at(&mut byte, at).unwrap();
    image.write_all_at(&[byte[0] ^ 4], at).unwrap();
    at
}

#[test]
fn a_scrub_names_wrong_data_and_its_exit_code_says_so() {
    let v = TestVolume::new();
    let image = text(&v.image);
    run_with(&["write", image, "/f"], &content()).ends(0);
    assert!(run(&["scrub", image]).ends(0).out().starts_with("0 wrong: 25 blocks of data"));
    let at = spoil(&v.image, "/f");
    let scrub = run(&["scrub", image]).ends(3);
    assert!(scrub.out().starts_with(&format!("{at:#x}: /f, offset 0\n1 wrong: ")), "{}", scrub.out());
    let json: serde_json::Value =
        serde_json::from_str(run(&["scrub", image, "--json"]).ends(3).out()).unwrap();
    assert_eq!((json["wrong"][0]["path"].as_str(), json["wrong"][0]["at"].as_u64()), (Some("/f"), Some(at)));
    // It goes on in the chunk that it is told.
    let behind = (at + (2 << 20)).to_string();
    assert!(run(&["scrub", image, "--from", &behind]).ends(0).out().starts_with("0 wrong"));
    run(&["scrub", image, "--from", "no number"]).ends(2);
    // A read says which file, and which position.
    run(&["cat", image, "/f"]).ends(3).says("checksum");
    // Written again, all is well.
    run_with(&["write", image, "/f"], &content()).ends(0);
    run(&["scrub", image]).ends(0);
    run(&["fsck", image]).ends(0);
}

/// Runs commands that meet damage: each ends with 3, and names what is damaged. Spaces separate words; IMAGE
/// and DIR stand for the image and a directory.
fn assert_damage(v: &TestVolume, image: &str, commands: &[(&str, &str)]) {
    for (number, (command, named)) in commands.iter().enumerate() {
        let dir = v.host(&format!("{number}.of.{}", image.len()));
        fs::create_dir(&dir).expect("a directory");
        let words = command.split(' ').map(|word| word.replace("IMAGE", image).replace("DIR", text(&dir)));
        let ran = run(&words.chain(["--no-cache".into()]).collect::<Vec<String>>());
        assert_eq!(ran.code, 3, "{command}: {}", ran.err);
        assert!(ran.err.contains(named), "{command}: {}", ran.err);
    }
}

/// Commands that read the data of `/d/f` and of the equal file `/d/g`, of which the first block is damaged.
const READERS: &[(&str, &str)] = &[
    ("cat IMAGE /d/f", "/d/f"),
    ("cp IMAGE :/d/f DIR/f", "/d/f"),
    ("cp IMAGE -r :/d DIR/d", "/d/f"),
    ("grep IMAGE -c y /", "/d/f"),
    ("grep IMAGE -c y /d/f", "/d/f"),
    ("dups IMAGE", "/d/f"),
    ("inventory IMAGE --digest -o DIR/v.parquet", "/d/f"),
    ("export IMAGE / DIR/tree", "/d/f"),
    ("export IMAGE / --tar DIR/all.tar", "/d/f"),
    ("export IMAGE /d/f DIR/f", "/d/f"),
];

#[test]
fn what_is_damaged_ends_with_3_and_is_named() {
    let v = TestVolume::new();
    let image = text(&v.image);
    run(&["mkdir", image, "/d"]).ends(0);
    for file in ["/d/f", "/d/g", "/d/name of a file"] {
        run_with(&["write", image, file], &content()).ends(0);
    }
    spoil(&v.image, "/d/f");
    assert_damage(&v, image, READERS);
    // The directory.
    let mut bytes = fs::read(&v.image).expect("the image");
    let behind_the_journal = 2 << 20;
    let name = b"name of a file";
    let leaf = bytes[behind_the_journal..].windows(name.len()).position(|window| window == name);
    bytes[behind_the_journal + leaf.expect("a leaf")] ^= 1;
    fs::write(&v.image, bytes).expect("the image");
    let directory = [
        ("ls IMAGE /d", "/d"),
        ("ls IMAGE -R /", "/d"),
        ("find IMAGE /", "/d"),
        ("tree IMAGE /", "/d"),
        ("du IMAGE /", "/d"),
        ("pick IMAGE --filter f", "/d"),
        ("grep IMAGE -c y /", "/d"),
        ("dups IMAGE", "/d"),
        ("inventory IMAGE -o DIR/v.parquet", "/d"),
        ("cp IMAGE -r :/ DIR/copy", "/d"),
        ("export IMAGE / DIR/tree", "/d"),
        ("export IMAGE / --tar DIR/all.tar", "d/"),
        ("map IMAGE --svg DIR/map.svg", "/d"),
        ("cat IMAGE /d/f", "/d/f"),
        ("stat IMAGE /d/f", "/d/f"),
        ("lookup IMAGE /d/f", "not found"),
        ("rm IMAGE -r /d", "/d"),
        ("mv IMAGE /d/f /x", "/d/f"),
    ];
    // (In other directories of the host than those before.)
    let other = v.host("other name.lane");
    fs::rename(&v.image, &other).expect("renamed");
    assert_damage(&v, text(&other), &directory);
}

#[test]
fn a_damaged_object_of_a_publication_ends_with_3_and_is_named() {
    let v = TestVolume::new();
    let image = text(&v.image);
    run(&["mkdir", image, "/d"]).ends(0);
    let mut random = lanefs_testkit::seeded::Seeded::new(1);
    let noise: Vec<u8> = (0..100_000).map(|_| random.bits() as u8).collect();
    for file in ["/d/f", "/d/g"] {
        run_with(&["write", image, file], &noise).ends(0);
    }
    let url = &format!("file://{}", text(&v.host("store")));
    run(&["publish", image, url]).ends(0);
    // The pack with the data is the largest one.
    let packs = fs::read_dir(v.host("store/packs")).expect("packs").map(|pack| pack.expect("a pack").path());
    let largest = packs.max_by_key(|pack| fs::metadata(pack).expect("a pack").len()).expect("a pack");
    let mut bytes = fs::read(&largest).expect("a pack");
    bytes[9] ^= 1;
    fs::write(&largest, bytes).expect("a pack");
    run(&["ls", "--no-cache", url, "/d"]).ends(0);
    assert_damage(&v, url, READERS);
    let object = largest.file_name().expect("a name").to_str().expect("text");
    run(&["cat", "--no-cache", url, "/d/f"]).ends(3).says(object);
}

#[test]
fn a_mounted_volume_is_scrubbed_while_it_is_in_use() {
    let m = Mounted::prepare();
    run_with(&["write", text(&m.v.image), "/f"], &content()).ends(0);
    spoil(&m.v.image, "/f");
    m.mount(&[]).ends(0);
    for volume in [&m.dir, &m.v.image] {
        let scrub = run(&["scrub", text(volume)]).ends(3);
        assert!(scrub.out().contains("/f, offset 0"), "{}", scrub.out());
    }
    let error = fs::read(m.path("f")).unwrap_err();
    assert_eq!(error.raw_os_error(), Some(rustix::io::Errno::IO.raw_os_error()));
    assert!(run(&["info", text(&m.dir)]).ends(0).out().contains("damage was met"));
    let counters = run(&["top", text(&m.dir), "--prometheus"]).ends(0);
    assert!(!counters.out().contains("lanefs_wrong_blocks 0\n"), "{}", counters.out());
    fs::write(m.path("f"), content()).unwrap();
    assert!(fs::read(m.path("f")).unwrap() == content());
    run(&["scrub", text(&m.dir)]).ends(0);
    m.umount().ends(0);
    m.is_clean();
}

#[test]
fn data_without_checksums_are_as_the_device_has_them() {
    let v = TestVolume::new();
    let image = text(&v.image);
    run(&["mkdir", image, "/db"]).ends(0);
    run(&["chattr", image, "+C", "/db"]).ends(0);
    run_with(&["write", image, "/db/f"], &content()).ends(0);
    spoil(&v.image, "/db/f");
    run(&["scrub", image]).ends(0);
    assert!(run(&["cat", image, "/db/f"]).ends(0).bytes != content());
    run(&["chattr", image, "-C", "/db/f"]).ends(1).says("has data already");
    run(&["chattr", image, "+C", "/nowhere"]).ends(1).says("/nowhere");
    // The whole volume.
    run(&["mkfs", image, "--size", "64M", "--force", "--quiet", "--no-data-checksums"]).ends(0);
    run_with(&["write", image, "/f"], &content()).ends(0);
    spoil(&v.image, "/f");
    run(&["scrub", image]).ends(0);
    assert!(run(&["cat", image, "/f"]).ends(0).bytes != content());
}

#[test]
fn chattr_works_on_a_mount_and_new_files_are_as_their_directory() {
    let m = Mounted::new();
    fs::create_dir(m.path("db")).unwrap();
    let flags = |name: &str| ioctl_getflags(File::open(m.path(name)).unwrap()).unwrap();
    assert!(!flags("db").contains(IFlags::NOCOW));
    ioctl_setflags(File::open(m.path("db")).unwrap(), IFlags::NOCOW).unwrap();
    fs::write(m.path("db/f"), content()).unwrap();
    fs::write(m.path("f"), content()).unwrap();
    assert!(flags("db/f").contains(IFlags::NOCOW) && !flags("f").contains(IFlags::NOCOW));
    let full = ioctl_setflags(File::open(m.path("db/f")).unwrap(), IFlags::empty());
    assert!(full.is_err(), "a file with data stays as it is");
    let other = ioctl_setflags(File::open(m.path("db")).unwrap(), IFlags::IMMUTABLE);
    assert_eq!(other, Err(rustix::io::Errno::OPNOTSUPP));
    ioctl_setflags(File::open(m.path("db")).unwrap(), IFlags::empty()).unwrap();
    fs::write(m.path("db/g"), content()).unwrap();
    assert!(!flags("db/g").contains(IFlags::NOCOW));
    m.umount().ends(0);
    m.is_clean();
}

#[test]
fn only_its_owner_switches_the_checksums_of_a_file() {
    if !rustix::process::geteuid().is_root() {
        eprintln!("not root: there is no other user to be");
        return;
    }
    let m = Mounted::prepare();
    fs::set_permissions(m.v.dir.path(), fs::Permissions::from_mode(0o755)).unwrap();
    m.mount(&["-o", "allow_other"]).ends(0);
    fs::create_dir(m.path("db")).unwrap();
    // FS_IOC_SETFLAGS, and FS_IOC32_SETFLAGS, which the kernel does not know as a change.
    for control in ["0x40086602", "0x40046602"] {
        let program = format!(
            "import fcntl, os, sys\nfd = os.open(sys.argv[1], os.O_RDONLY)\n\
             try: fcntl.ioctl(fd, {control}, (0x800000).to_bytes(8, 'little'))\n\
             except OSError as error: sys.exit(7)"
        );
        let mut other = Command::new("python3");
        let status =
            other.args(["-c", &program, text(&m.path("db"))]).uid(65534).gid(65534).status().unwrap();
        assert_eq!(status.code(), Some(7), "{control}");
        assert!(
            !ioctl_getflags(File::open(m.path("db")).unwrap()).unwrap().contains(IFlags::NOCOW),
            "{control}"
        );
    }
    m.umount().ends(0);
}
