//! The program on hostile images: every command ends, within limits on time and memory, and a volume that
//! `fsck --repair` calls sound takes work.
//!
//! `LANEFS_IMAGES` and `LANEFS_SEED` set the number of images and the first seed.

use crate::common::{Ran, TestVolume, ended, program, run, run_with, text, until};
use crate::hostile_files::lose_group_table;
use lanefs_testkit::mutate::{MutationBase, bases, describe, hostile};
use lanefs_testkit::settings::Seeds;
use lanefs_testkit::watchdog::Watchdog;
use std::io::{Read, Seek};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::{Child, Stdio};
use std::time::Duration;

/// Resident memory of one command at most: an image has 16 MiB, the largest output some GiB.
const MOST_MEMORY: u64 = 1 << 30;

/// Commands that read.
const READING: &str = "ls -laR /
tree /
find / --size +0
find / --empty
du -a /
stat /
lookup /a/d1/blocks /wide/original
xattr list /
inspect inode:1
info
cp -r :/ out
fsck
";

/// Commands that change something.
const CHANGING: &str = "mkdir /new directory
mkdir -p /x/y/z
touch /x/file
truncate -s 100000 /x/file
chmod 600 /x/file
mv /x/file /x/y/other
ln /x/y/other /x/second
ln -s ../other /x/y/z/link
xattr set user.k value /x/second
rm -r /x
rm -r /a /wide /huge
sync
";

/// Other commands that read, each a process of its own. IMAGE and DIR stand for the image and a directory.
const PROGRAMS: &[&str] = &[
    "export IMAGE / DIR/tree",
    "export IMAGE / --tar DIR/all.tar",
    "export IMAGE / DIR/all.tar.zst",
    "scrub IMAGE",
    "grep IMAGE -c a /",
    "dups IMAGE",
    "inventory IMAGE --digest -o DIR/v.parquet",
    "map IMAGE --svg DIR/map.svg",
    "find IMAGE --fuzzy ab /",
    "du IMAGE --top 5 /",
    "lookup IMAGE --engine cpu --paths DIR/paths --stat",
    "publish IMAGE file://DIR/store#hostile --level 1",
    "pull file://DIR/store#hostile DIR/pulled.lane",
];

/// Other commands that change something.
const CHANGERS: &[&str] = &["tune IMAGE --label hostile", "chattr IMAGE +C /", "grow IMAGE 24M"];

/// The GPU engine starts slowly on a processor, so it works on one image in so many; so is a mount tried.
const SELDOM: u64 = 6;

/// Bytes on the host that the outputs for one image may take: twice the largest image, in some forms.
const MOST_OUTPUT: u64 = 512 << 20;

/// Peak of the resident memory of a process that runs, in bytes. Until it executes the program, a child
/// shares the memory of this process, which does not count.
pub(crate) fn peak(pid: u32) -> u64 {
    let program = |pid: &str| std::fs::read_link(format!("/proc/{pid}/exe")).ok();
    if program(&pid.to_string()) == program("self") {
        return 0;
    }
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kib = line.and_then(|line| line.trim().strip_suffix(" kB")?.parse::<u64>().ok());
    kib.unwrap_or(0) << 10
}

/// Waits for the end of a child, and watches its memory.
fn end(child: &mut Child, case: &str) -> i32 {
    loop {
        if let Some(status) = child.try_wait().expect("a child") {
            return status.code().unwrap_or_else(|| panic!("{case}: ended by a signal: {status}"));
        }
        let now = peak(child.id());
        if now > MOST_MEMORY {
            let _ = child.kill();
            panic!("{case}: {now} bytes of memory");
        }
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// Runs a command of the list; its output goes nowhere.
fn command(image: &Path, dir: &Path, words: &str, case: &str) -> i32 {
    let case = format!("{words}: {case}");
    let words = words.split(' ').map(|word| word.replace("DIR", text(dir)).replace("IMAGE", text(image)));
    let mut errors = tempfile::tempfile().expect("a file for errors");
    let mut child = program()
        .args(words)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(errors.try_clone().expect("a handle"))
        .spawn()
        .expect("the program starts");
    let code = end(&mut child, &case);
    let mut said = String::new();
    errors.rewind().and_then(|()| errors.read_to_string(&mut said)).expect("the messages are text");
    assert!(!said.contains("panicked"), "{case}: {said}");
    assert!(code == 0 || !said.is_empty() || may_fail_silently(&case), "{case}: {code} without a message");
    code
}

/// `grep` says by its code alone that nothing matched, and so does `lookup` that a path is missing.
fn may_fail_silently(case: &str) -> bool {
    ["grep", "lookup", "find", "dups", "scrub"].iter().any(|command| case.starts_with(command))
}

/// Bytes that a tree takes on the host.
fn size_on_host(dir: &Path) -> u64 {
    let entries = std::fs::read_dir(dir).into_iter().flatten().flatten();
    let size = |entry: std::fs::DirEntry| match entry.metadata() {
        Ok(found) if found.is_dir() => size_on_host(&entry.path()),
        Ok(found) => found.blocks() * 512,
        Err(_) => 0,
    };
    entries.map(size).sum()
}

/// Runs all other commands, in a new directory.
fn programs(base: &MutationBase, image: &Path, seed: u64, case: &str, watchdog: &Watchdog) {
    let dir = tempfile::tempdir().expect("a temporary directory");
    std::fs::write(dir.path().join("paths"), base.paths.join(&b'\n')).expect("a list of paths");
    for words in PROGRAMS {
        watchdog.at(|| format!("{words}: {case}"));
        command(image, dir.path(), words, case);
    }
    if seed.is_multiple_of(SELDOM) {
        command(image, dir.path(), "lookup IMAGE --engine gpu --paths DIR/paths --stat", case);
        command(image, dir.path(), "grep IMAGE --engine gpu -c [a-z]+ab?c /", case);
        command(image, dir.path(), "dups IMAGE --engine gpu --min-size 0", case);
        command(image, dir.path(), "find IMAGE --fuzzy ab --engine gpu /", case);
    }
    if seed % SELDOM == 1 {
        mounted(image, dir.path(), case);
    }
    let size = size_on_host(dir.path());
    assert!(size < MOST_OUTPUT, "{case}: {size} bytes of output");
    let copy = dir.path().join("changed.lane");
    std::fs::copy(image, &copy).expect("a copy");
    for words in CHANGERS {
        watchdog.at(|| format!("{words}: {case}"));
        command(&copy, dir.path(), words, case);
    }
}

/// Mounts the image, visits some of its files through the kernel, and unmounts it.
fn mounted(image: &Path, dir: &Path, case: &str) {
    let (mount, log) = (dir.join("mnt"), dir.join("log"));
    std::fs::create_dir(&mount).expect("a directory");
    let options = format!("ro,log={}", text(&log));
    let ran = run(&["mount", text(image), text(&mount), "-o", &options]);
    assert!(!ran.err.contains("panicked") && !ran.err.contains("/dev/fuse"), "{case}: {}", ran.err);
    if ran.code != 0 {
        return;
    }
    let server = ran.out().split("process ").last().and_then(|rest| rest.split(')').next()?.parse().ok());
    let server: u32 = server.unwrap_or_else(|| panic!("no process in {:?}", ran.out()));
    visit(&mount, &mut 250);
    let memory = peak(server);
    assert!(memory > 0, "{case}: the server of the mount has ended");
    assert!(memory < MOST_MEMORY, "{case}: {memory} bytes of memory of the server");
    let code = command(image, dir, "umount DIR/mnt", case);
    assert_eq!(code, 0, "{case}: it cannot be unmounted");
    until("the server has ended", || peak(server) == 0);
    let said = std::fs::read_to_string(&log).unwrap_or_default();
    assert!(!said.contains("because of a bug"), "{case}: {said}");
}

/// Visits up to `left` files of a tree, and reads the beginning of each. Errors are fine.
fn visit(dir: &Path, left: &mut u32) {
    for entry in std::fs::read_dir(dir).into_iter().flatten().flatten() {
        if *left == 0 {
            return;
        }
        *left -= 1;
        match entry.file_type() {
            Ok(kind) if kind.is_dir() => visit(&entry.path(), left),
            Ok(kind) if kind.is_file() => {
                let file = std::fs::File::open(entry.path());
                let _ = file.and_then(|file| file.take(100_000).read_to_end(&mut Vec::new()));
            }
            _ => drop(std::fs::read_link(entry.path())),
        }
    }
}

/// Runs a script in a shell; its output goes nowhere.
fn shell(image: &Path, dir: &Path, options: &[&str], script: &str, case: &str) -> i32 {
    let errors = dir.join("errors");
    let mut child = program()
        .arg("shell")
        .arg(image)
        .args(options)
        .current_dir(dir)
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(std::fs::File::create(&errors).expect("a file for errors"))
        .spawn()
        .expect("the program starts");
    let mut stdin = child.stdin.take().expect("stdin is a pipe");
    // The program may refuse the image before it has read everything.
    let _ = std::io::Write::write_all(&mut stdin, script.as_bytes());
    drop(stdin);
    let code = end(&mut child, case);
    let errors = std::fs::read_to_string(&errors).unwrap_or_default();
    assert!(!errors.contains("panicked"), "{case}: {errors}");
    code
}

fn script_of(base: &MutationBase) -> String {
    let mut script = READING.to_owned();
    for path in base.paths.iter().take(20) {
        let path = String::from_utf8_lossy(path).replace(' ', "\\ ");
        script += &format!("cat {path}\nstat {path}\nxattr list {path}\n");
    }
    script
}

/// After a repair that said done, every command must work.
fn works(image: &Path, case: &str) {
    let sound = |ran: Ran| {
        let full = ran.err.contains("no space");
        assert!(ran.code == 0 || full, "{case}: after a repair: {} {}", ran.code, ran.err);
    };
    sound(run(&["fsck", text(image)]));
    sound(run(&["mkdir", text(image), "/made"]));
    sound(run_with(&["write", text(image), "/made/file"], &[7; 30_000]));
    sound(run(&["mv", text(image), "/made/file", "/made/moved"]));
    sound(run(&["ls", text(image), "-lR", "/"]));
    sound(run(&["rm", text(image), "-r", "/made"]));
    sound(run(&["fsck", text(image)]));
}

#[test]
fn every_command_ends_on_hostile_images_and_works_after_a_repair() {
    let bases = bases().expect("sound volumes can be made");
    let dir = tempfile::tempdir().expect("a temporary directory");
    let (image, out) = (dir.path().join("v.lane"), dir.path().join("out"));
    let watchdog = Watchdog::new("commands on hostile images");
    for seed in Seeds::from_environment("LANEFS_IMAGES", 1, 24) {
        // Each base in turn; the journal's have an odd share, because nothing else tests them from outside.
        let base = &bases[seed as usize % bases.len()];
        let case = format!("case {} {seed}: {}", base.name, describe(base, seed));
        watchdog.at(|| case.clone());
        std::fs::write(&image, hostile(base, seed)).expect("an image");
        shell(&image, dir.path(), &["--read-only"], &script_of(base), &case);
        let _ = std::fs::remove_dir_all(&out);
        programs(base, &image, seed, &case, &watchdog);
        watchdog.at(|| case.clone());
        if seed % 3 == 0 {
            shell(&image, dir.path(), &[], CHANGING, &case);
        }
        let ran = run(&["fsck", text(&image), "--repair"]);
        assert!(matches!(ran.code, 0 | 1 | 4 | 8), "{case}: {} {}", ran.code, ran.err);
        assert!(!ran.err.contains("panicked"), "{case}: {}", ran.err);
        if ran.code < 2 {
            works(&image, &case);
        }
    }
}

/// Resident memory and page tables of a command at most, where an image claims much and holds little.
const MOST_FOR_A_CLAIM: u64 = 128 << 20;

/// Peak of the memory of a command, in bytes: its pages, and the page tables that lead to them.
fn memory_of(args: &[&str], code: i32) -> u64 {
    let mut child = program().args(args).stdout(Stdio::null()).spawn().expect("the program starts");
    let mut most = 0;
    loop {
        let status = std::fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap_or_default();
        let kib = |key: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(key));
            line.and_then(|line| line.trim().strip_suffix(" kB")?.parse::<u64>().ok()).unwrap_or(0)
        };
        most = most.max((kib("VmHWM:") + kib("VmPTE:")) << 10);
        if let Some(status) = child.try_wait().expect("a child") {
            assert_eq!(status.code(), Some(code), "{args:?}");
            return most;
        }
        assert!(most < MOST_MEMORY, "{args:?}: {most} bytes");
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn memory_goes_with_what_an_image_holds_and_not_with_the_size_that_it_claims() {
    let v = TestVolume::sized("512G");
    let image = text(&v.image);
    for command in ["fsck", "scrub"] {
        let used = memory_of(&[command, image], 0);
        assert!(used < MOST_FOR_A_CLAIM, "{command} of an empty volume: {used} bytes");
    }
    lose_group_table(&v.image);
    for (args, code) in [
        (&["fsck", image, "--memory", "64M"][..], 4),
        (&["fsck", image][..], 4),
        (&["scrub", image][..], 3),
        (&["fsck", image, "--repair", "--memory", "64M"][..], 1),
        (&["fsck", image][..], 0),
    ] {
        let used = memory_of(args, code);
        assert!(used < MOST_FOR_A_CLAIM, "{args:?}: {used} bytes");
    }
}

/// A volume with a file of the greatest size, which is one hole.
fn with_endless_file() -> TestVolume {
    let v = TestVolume::new();
    v.run("truncate", &format!("-s {} /endless", 1_u64 << 57)).ends(0);
    v
}

#[test]
fn an_archive_of_a_file_of_128_pib_is_small() {
    let v = with_endless_file();
    let archive = v.host("all.tar");
    v.run("export", &format!("/ --tar {}", text(&archive))).ends(0);
    let size = archive.metadata().expect("an archive").len();
    assert!(size < 1 << 20, "{size} bytes");
    let other = TestVolume::new();
    other.run("import", &format!("{} /", text(&archive))).ends(0);
    assert!(other.run("stat", "/endless").ends(0).out().contains(&(1_u64 << 57).to_string()));
    other.clean();
}

#[test]
fn a_file_of_128_pib_is_refused_by_cat_and_its_output_ends_by_ctrl_c() {
    let v = with_endless_file();
    v.run("cat", "/endless").ends(1).says("/endless").says("--max-expansion");
    let mut child = program()
        .args(["cat", text(&v.image), "/endless", "--max-expansion", "0"])
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("the program starts");
    let mut stdout = child.stdout.take().expect("stdout is a pipe");
    let mut part = vec![1; 1 << 20];
    stdout.read_exact(&mut part).expect("a million zeros");
    assert!(part.iter().all(|byte| *byte == 0));
    let id = child.id().to_string();
    assert!(std::process::Command::new("kill").args(["-INT", &id]).status().expect("kill").success());
    std::io::copy(&mut stdout, &mut std::io::sink()).expect("the output ends");
    assert_eq!(ended(&mut child), Some(130));
}
