//! Open files, sparse files, space, copies, and the end of a mount.

use crate::posix::support::{Mounted, pattern};
use lanefs::{Caller, CreateOptions, Volume};
use lanefs_fuse::{Ended, Operation, Options, table};
use rustix::fs::{AtFlags, FallocateFlags, Mode, OFlags, SeekFrom};
use rustix::io::Errno;
use std::fs::{self, File, OpenOptions};
use std::io::{Read, Seek, Write};
use std::os::unix::fs::{FileExt, MetadataExt};

#[test]
fn a_file_lives_on_while_it_is_open() {
    let m = Mounted::new();
    let mut file =
        OpenOptions::new().read(true).write(true).create(true).truncate(false).open(m.path("f")).unwrap();
    file.write_all(b"here").unwrap();
    fs::remove_file(m.path("f")).unwrap();
    // New files must not reuse the inode.
    for number in 0..100 {
        fs::write(m.path(&number.to_string()), vec![b'x'; 5000]).unwrap();
    }
    file.write_all(b" and there").unwrap();
    file.rewind().unwrap();
    let mut text = String::new();
    file.read_to_string(&mut text).unwrap();
    assert_eq!(text, "here and there");
    assert_eq!(file.metadata().unwrap().nlink(), 0);
    file.sync_all().unwrap();
    drop(file);
    m.end();
}

#[test]
fn a_directory_lives_on_while_somebody_works_in_it() {
    let m = Mounted::new();
    fs::create_dir(m.path("d")).unwrap();
    let dir = File::open(m.path("d")).unwrap();
    fs::remove_dir(m.path("d")).unwrap();
    fs::create_dir(m.path("e")).unwrap();
    fs::write(m.path("e/f"), b"").unwrap();
    assert_eq!(rustix::fs::statat(&dir, "f", AtFlags::empty()), Err(Errno::NOENT));
    let made = rustix::fs::openat(&dir, "g", OFlags::CREATE | OFlags::WRONLY, Mode::RUSR);
    assert_eq!(made.map(|_| ()), Err(Errno::NOENT));
    drop(dir);
    m.end();
}

#[test]
fn large_and_sparse_files_are_what_was_written() {
    let m = Mounted::new();
    let data = pattern(40 << 20, 7);
    fs::write(m.path("large"), &data).unwrap();
    assert!(fs::read(m.path("large")).unwrap() == data);
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .open(m.path("sparse"))
        .unwrap();
    file.write_all_at(b"far", 1 << 40).unwrap();
    file.write_all_at(b"near", 1 << 20).unwrap();
    assert_eq!(file.metadata().unwrap().len(), (1 << 40) + 3);
    assert!(file.metadata().unwrap().blocks() < 1000);
    assert_eq!(rustix::fs::seek(&file, SeekFrom::Data(0)), Ok(1 << 20));
    assert_eq!(rustix::fs::seek(&file, SeekFrom::Hole(1 << 20)), Ok((1 << 20) + 4096));
    assert_eq!(rustix::fs::seek(&file, SeekFrom::Data(2 << 20)), Ok(1 << 40));
    assert_eq!(rustix::fs::seek(&file, SeekFrom::Data(2 << 40)), Err(Errno::NXIO));
    let mut zeros = [1; 8192];
    file.read_exact_at(&mut zeros, 1 << 30).unwrap();
    assert_eq!(zeros, [0; 8192]);
    drop(file);
    m.end();
}

#[test]
fn space_is_allocated_punched_and_zeroed() {
    let m = Mounted::new();
    let file =
        OpenOptions::new().read(true).write(true).create(true).truncate(false).open(m.path("f")).unwrap();
    let all = |n: usize| {
        let mut bytes = vec![0; n];
        file.read_exact_at(&mut bytes, 0).unwrap();
        bytes
    };
    file.write_all_at(&[7; 16384], 0).unwrap();
    rustix::fs::fallocate(&file, FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE, 4096, 4096).unwrap();
    assert_eq!(all(16384).iter().filter(|byte| **byte == 0).count(), 4096);
    rustix::fs::fallocate(&file, FallocateFlags::ZERO_RANGE, 8192, 100).unwrap();
    assert_eq!(all(16384).iter().filter(|byte| **byte == 0).count(), 4196);
    rustix::fs::fallocate(&file, FallocateFlags::ZERO_RANGE | FallocateFlags::KEEP_SIZE, 16000, 100_000)
        .unwrap();
    assert_eq!(file.metadata().unwrap().len(), 16384);
    assert!(file.metadata().unwrap().blocks() * 512 >= 100_000);
    assert_eq!(all(16384)[16000..], [0; 384]);
    rustix::fs::fallocate(&file, FallocateFlags::KEEP_SIZE, 0, 1 << 20).unwrap();
    assert_eq!(file.metadata().unwrap().len(), 16384);
    rustix::fs::fallocate(&file, FallocateFlags::empty(), 0, 1 << 20).unwrap();
    assert_eq!(file.metadata().unwrap().len(), 1 << 20);
    let refused = rustix::fs::fallocate(&file, FallocateFlags::COLLAPSE_RANGE, 0, 4096);
    assert_eq!(refused, Err(Errno::OPNOTSUPP));
    drop(file);
    m.end();
}

#[test]
fn a_full_volume_says_so_and_goes_on() {
    let m = Mounted::with(16 << 20, &crate::mount_options());
    let mut file = File::create(m.path("f")).unwrap();
    let mut written = 0;
    let error = loop {
        match file.write(&pattern(1 << 20, 3)) {
            Ok(bytes) => written += bytes as u64,
            Err(error) => break error,
        }
    };
    assert_eq!(error.raw_os_error(), Some(Errno::NOSPC.raw_os_error()));
    assert_eq!(file.metadata().unwrap().len(), written);
    let stat = rustix::fs::statvfs(m.dir.path()).unwrap();
    assert!(
        stat.f_bfree * stat.f_frsize < 1 << 20,
        "the last bit is used, too: {} blocks free",
        stat.f_bfree
    );
    drop(file);
    fs::remove_file(m.path("f")).unwrap();
    m.end();
}

#[test]
fn ranges_are_copied_inside_the_volume() {
    let m = Mounted::new();
    let data = pattern(5 << 20, 11);
    fs::write(m.path("from"), &data).unwrap();
    let (from, to) = (File::open(m.path("from")).unwrap(), File::create(m.path("to")).unwrap());
    let (mut read, mut write) = (0, 100);
    while read < data.len() as u64 {
        let bytes =
            rustix::fs::copy_file_range(&from, Some(&mut read), &to, Some(&mut write), 3 << 20).unwrap();
        assert!(bytes > 0);
    }
    let copy = fs::read(m.path("to")).unwrap();
    assert!(copy[..100] == [0; 100] && copy[100..] == data);
    let all = m.mount().statistics().snapshot();
    assert!(
        all.iter().any(|one| one.operation == Operation::CopyRange && one.count > 0),
        "the volume copied"
    );
    drop((from, to));
    m.end();
}

#[test]
fn what_was_written_is_there_when_the_mount_has_ended() {
    let image = tempfile::tempdir().unwrap();
    let path = image.path().join("v.lane");
    let volume =
        Volume::create(&path, &CreateOptions { size: 64 << 20, ..CreateOptions::default() }).unwrap();
    let m = Mounted::of(volume, &crate::mount_options());
    fs::write(m.path("f"), b"written").unwrap();
    m.end();
    let volume = Volume::open(&path, lanefs::Access::Read).unwrap();
    assert!(volume.check(false, &|_, _| ()).unwrap().findings.is_empty());
    let (ino, _) = volume.lookup(&Caller::OWNER, volume.root(), b"f").unwrap();
    let mut text = [0; 16];
    assert_eq!(volume.read(&Caller::OWNER, ino, 0, &mut text).unwrap(), 7);
}

#[test]
fn open_files_are_waited_for_and_then_cut_off() {
    let m = Mounted::new();
    let file = File::create(m.path("f")).unwrap();
    let Mounted { mut mount, dir } = m;
    let mount = mount.take().unwrap();
    let stopper = mount.stopper();
    let waiter = std::thread::spawn(move || mount.wait().unwrap());
    stopper.stop();
    while table::find(dir.path()).unwrap().is_some() {
        std::thread::yield_now();
    }
    file.write_all_at(b"still there", 0).unwrap();
    stopper.stop();
    assert_eq!(waiter.join().unwrap(), Ended::CutOff);
    let error = file.write_all_at(b"no longer", 0).unwrap_err();
    assert_eq!(error.raw_os_error(), Some(Errno::NOTCONN.raw_os_error()));
}

#[test]
fn a_read_only_mount_changes_nothing() {
    let image = tempfile::tempdir().unwrap();
    let path = image.path().join("v.lane");
    let volume =
        Volume::create(&path, &CreateOptions { size: 16 << 20, ..CreateOptions::default() }).unwrap();
    volume.write_file("/f", b"text").unwrap();
    volume.close().unwrap();
    let bytes = fs::read(&path).unwrap();
    let volume = Volume::open(&path, lanefs::Access::Read).unwrap();
    let m = Mounted::of(volume, &Options { read_only: true, ..crate::mount_options() });
    assert_eq!(fs::read(m.path("f")).unwrap(), b"text");
    let refused = Some(Errno::ROFS.raw_os_error());
    assert_eq!(fs::write(m.path("f"), b"x").unwrap_err().raw_os_error(), refused);
    assert_eq!(fs::create_dir(m.path("d")).unwrap_err().raw_os_error(), refused);
    assert_eq!(fs::remove_file(m.path("f")).unwrap_err().raw_os_error(), refused);
    m.end();
    assert!(fs::read(&path).unwrap() == bytes, "the image has changed");
}
