//! A volume that becomes read-only while it is open, and writable again.

use lanefs::*;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

const OWNER: Caller = Caller::OWNER;

fn volume(image: &Path) -> Volume {
    Volume::create(image, &CreateOptions { size: 32 << 20, ..CreateOptions::default() }).expect("create")
}

fn code<T>(answer: Result<T>) -> std::result::Result<(), Code> {
    answer.map(drop).map_err(|error| error.code())
}

/// Opens a copy of the image as it is now, while its volume is open.
fn copy(image: &Path) -> Volume {
    let bytes = std::fs::read(image).expect("the image");
    Volume::open_device(Box::new(MemoryDevice::new(bytes)), Access::Read).expect("open")
}

#[test]
fn a_frozen_volume_refuses_changes_and_its_device_is_closed() {
    let dir = tempfile::tempdir().expect("a directory");
    let image = dir.path().join("v.lane");
    let v = volume(&image);
    v.write_file("/f", b"text").expect("write");
    for _ in 0..2 {
        v.set_read_only(true).expect("freeze");
    }
    assert!(v.is_read_only());
    assert_eq!(code(v.write_file("/f", b"more")), Err(Code::ReadOnly));
    assert_eq!(code(v.mkdir(&OWNER, v.root(), b"d", 0o755)), Err(Code::ReadOnly));
    let frozen = copy(&image);
    assert!(frozen.superblock().clean, "closed as far as the device knows");
    assert_eq!(frozen.read_file("/f").expect("read"), b"text");
    v.set_read_only(false).expect("thaw");
    assert!(!v.is_read_only());
    v.write_file("/g", b"again").expect("write");
    assert!(!copy(&image).superblock().clean, "in use");
    v.close().expect("close");
    let v = Volume::open(&image, Access::Write).expect("open");
    assert_eq!(v.read_file("/g").expect("read"), b"again");
    assert!(v.check(false, &|_, _| ()).expect("check").findings.is_empty());
}

#[test]
fn nothing_writes_to_the_device_of_a_frozen_volume() {
    let dir = tempfile::tempdir().expect("a directory");
    let image = dir.path().join("v.lane");
    let options = CreateOptions { size: 32 << 20, ..CreateOptions::default() };
    drop(Volume::create(&image, &options).expect("create"));
    // The committer of the background is always due.
    let commit_every = Duration::from_millis(1);
    let v =
        Volume::open(&image, OpenOptions { access: Access::Write, commit_every, ..OpenOptions::default() });
    let v = v.expect("open");
    for round in 0..5 {
        // The last commit frees blocks, which are marked free in memory once it is durable.
        v.write_file("/f", [b'x'; 5000]).expect("write");
        v.remove_all("/f").expect("remove");
        v.set_read_only(true).expect("freeze");
        let before = std::fs::read(&image).expect("the image");
        v.sync().expect("sync");
        std::thread::sleep(Duration::from_millis(3));
        assert!(std::fs::read(&image).expect("the image") == before, "round {round}");
        v.set_read_only(false).expect("thaw");
    }
    v.write_file("/g", b"again").expect("write");
    v.close().expect("close");
    let v = Volume::open(&image, Access::Write).expect("open");
    assert!(v.check(false, &|_, _| ()).expect("check").findings.is_empty());
}

#[test]
fn no_change_is_in_progress_on_a_frozen_volume() {
    let dir = tempfile::tempdir().expect("a directory");
    let image = dir.path().join("v.lane");
    let v = volume(&image);
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for thread in 0..3 {
            let (v, done) = (&v, &done);
            scope.spawn(move || {
                let name = format!("/{thread}");
                let mut made = 0;
                while !done.load(Ordering::Relaxed) || made == 0 {
                    match v.write_file(&name, [b'x'; 5000]).and_then(|_| v.remove_all(&name)) {
                        Ok(()) => made += 1,
                        Err(error) => assert_eq!(error.code(), Code::ReadOnly),
                    }
                }
            });
        }
        for _ in 0..40 {
            v.set_read_only(true).expect("freeze");
            let frozen = copy(&image);
            assert!(frozen.superblock().clean);
            let names = |v: &Volume| v.readdir(&OWNER, v.root(), 0, 10).expect("list").len();
            assert_eq!(names(&frozen), names(&v), "a change came after the freeze");
            v.set_read_only(false).expect("thaw");
        }
        done.store(true, Ordering::Relaxed);
    });
    assert!(v.check(false, &|_, _| ()).expect("check").findings.is_empty());
    v.close().expect("close");
}

#[test]
fn an_inode_without_a_name_keeps_the_device_in_use() {
    let dir = tempfile::tempdir().expect("a directory");
    let image = dir.path().join("v.lane");
    let v = volume(&image);
    let ino = v.write_file("/f", b"text").expect("write").ino;
    v.hold(ino).expect("hold");
    v.unlink(&OWNER, v.root(), b"f").expect("unlink");
    v.set_read_only(true).expect("freeze");
    assert!(!copy(&image).superblock().clean);
    assert_eq!(code(v.release(ino, 1)), Err(Code::ReadOnly));
    v.close().expect("close");
    let v = Volume::open(&image, Access::Read).expect("open");
    assert!(v.superblock().clean);
    assert!(v.check(false, &|_, _| ()).expect("check").findings.is_empty());
}

#[test]
fn a_volume_opened_for_reading_stays_read_only() {
    let dir = tempfile::tempdir().expect("a directory");
    let image = dir.path().join("v.lane");
    volume(&image).close().expect("close");
    let v = Volume::open(&image, Access::Read).expect("open");
    assert!(v.is_read_only());
    v.set_read_only(true).expect("nothing happens");
    assert_eq!(code(v.set_read_only(false)), Err(Code::ReadOnly));
}
