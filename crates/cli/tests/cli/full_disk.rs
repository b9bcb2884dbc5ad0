//! A sparse image on a file system that becomes full: commands and a mount name the reason.

use crate::common::{Ran, run, run_with, text};
use lanefs_fuse::table;
use rustix::io::Errno;
use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Bytes of the content that the file system has no room for.
const TOO_MUCH: usize = 60 << 20;

/// A file system of 20 MiB, and a directory elsewhere.
struct SmallDisk {
    temp: tempfile::TempDir,
}

impl SmallDisk {
    /// `None`, with a message, for a user who may not mount one.
    fn new() -> Option<Self> {
        let disk = SmallDisk { temp: tempfile::tempdir().expect("a directory") };
        fs::create_dir(disk.dir()).expect("a directory");
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", "size=20m", "none"]).arg(disk.dir());
        if !mount.status().is_ok_and(|status| status.success()) {
            eprintln!("SKIPPED: this user may not mount a tmpfs");
            return None;
        }
        Some(disk)
    }

    fn dir(&self) -> PathBuf {
        self.temp.path().join("small")
    }

    fn elsewhere(&self, name: &str) -> PathBuf {
        self.temp.path().join(name)
    }

    /// A new sparse volume, which replaces the last one.
    fn image(&self) -> PathBuf {
        let image = self.dir().join("v.lane");
        let _ = fs::remove_file(&image);
        run(&["mkfs", text(&image), "--size", "500M"]).ends(0);
        image
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("--lazy").arg(self.dir()).status();
    }
}

/// Asserts that a command has failed for the full disk, and blames nothing else.
#[track_caller]
fn names_the_disk(ran: Ran) {
    let ran = ran.ends(4).says("No space left on device").says("free some space on the host");
    assert!(!ran.err.contains("open the image for writing"), "{}", ran.err);
}

#[test]
fn commands_name_the_full_disk_below_a_sparse_image() {
    let Some(disk) = SmallDisk::new() else { return };
    let source = disk.elsewhere("source");
    fs::create_dir(&source).expect("a directory");
    for number in 0..30 {
        fs::write(source.join(format!("f{number}")), vec![b'x'; TOO_MUCH / 30]).expect("a file");
    }
    let big = disk.elsewhere("big");
    fs::write(&big, vec![b'x'; TOO_MUCH]).expect("a file");
    names_the_disk(run_with(&["write", text(&disk.image()), "/r"], &vec![b'x'; TOO_MUCH]));
    names_the_disk(run(&["import", text(&disk.image()), text(&source), "/in"]));
    names_the_disk(run(&["sync", text(&disk.image()), text(&source), "/in"]));
    names_the_disk(run(&["cp", text(&disk.image()), text(&big), ":/big"]));
    let import = format!("import {} /in\n", text(&source));
    names_the_disk(run_with(&["shell", text(&disk.image())], import.as_bytes()));
}

#[test]
fn a_mount_tells_why_it_takes_no_more_changes() {
    let Some(disk) = SmallDisk::new() else { return };
    let (image, dir, log) = (disk.image(), disk.elsewhere("mnt"), disk.elsewhere("log"));
    fs::create_dir(&dir).expect("a directory");
    run(&["mount", text(&image), text(&dir), "--log", text(&log)]).ends(0);
    let errors = Errors::of(&dir);
    let said = fs::read_to_string(&log).expect("a log");
    let info = run(&["info", text(&dir)]);
    let json = run(&["info", text(&dir), "--json"]);
    let top = run(&["top", text(&dir), "-n", "1", "--interval", "0.1"]);
    let command = run_with(&["write", text(&dir), "/more"], b"more");
    let unmounted = run(&["umount", text(&dir)]);
    assert!(table::find(&dir).expect("the table of mounts").is_none(), "{unmounted:?}");
    assert_eq!(errors.write, Some(Errno::NOSPC));
    assert_eq!(errors.later, [Some(Errno::ROFS); 3]);
    assert_eq!(errors.fsync, [Some(Errno::NOSPC); 2]);
    assert!(said.contains("No space left on device") && said.contains("read-only"), "{said}");
    assert!(info.ends(0).out().contains("takes no changes: a write failed, "));
    assert!(json.ends(0).out().contains("No space left on device"));
    assert!(top.ends(0).out().contains("a WRITE FAILED (No space left on device)"));
    names_the_disk(command);
}

/// The errors of requests, the first of which fills the disk.
struct Errors {
    write: Option<Errno>,
    later: [Option<Errno>; 3],
    fsync: [Option<Errno>; 2],
}

impl Errors {
    fn of(dir: &Path) -> Self {
        let errno = |done: std::io::Result<()>| done.err().and_then(|e| Errno::from_io_error(&e));
        let mut file = File::create(dir.join("r")).expect("a file");
        let piece = vec![b'x'; 1 << 20];
        // The disk has room for a part of them, and the thread that writes them may lag, so it ends
        // with the error, and not after a number of bytes.
        let write = (0..400).find_map(|_| errno(file.write_all(&piece)));
        let later = [
            errno(file.write_all(&piece)),
            errno(fs::remove_file(dir.join("r"))),
            errno(fs::create_dir(dir.join("d"))),
        ];
        let fsync = [errno(file.sync_all()), errno(file.sync_data())];
        Errors { write, later, fsync }
    }
}
