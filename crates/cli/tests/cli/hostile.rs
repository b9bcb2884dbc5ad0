//! The program on hostile images: every command ends, within limits on time and memory, and a volume that
//! `fsck --repair` calls sound takes work.
//!
//! `LANEFS_IMAGES` and `LANEFS_SEED` set the number of images and the first seed.

use crate::common::{Ran, program, run, run_with, text};
use lanefs_testkit::mutate::{Base, bases, describe, hostile};
use lanefs_testkit::settings::Seeds;
use lanefs_testkit::watchdog::Watchdog;
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

/// Peak of the resident memory of a process that runs, in bytes.
fn peak(pid: u32) -> u64 {
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

fn script_of(base: &Base) -> String {
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
