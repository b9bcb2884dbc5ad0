//! Holes, allocation, copies, and the end of space.

use super::{pattern, refused};
use crate::posix::{PosixFs, User};
use rustix::fs::{FallocateFlags, OFlags, SeekFrom};
use rustix::io::Errno;

const ROOT: User = User::ROOT;

/// fallocate(2) and `SEEK_HOLE`, by blocks of 4 KiB.
pub fn ranges_are_allocated_punched_zeroed_and_found(fs: &impl PosixFs) {
    const KEEP: FallocateFlags = FallocateFlags::KEEP_SIZE;
    let file = fs.open(&ROOT, "f", OFlags::CREATE | OFlags::RDWR, 0o644).expect("create");
    let zeros = |len| fs.read(&file, 0, len).expect("read").iter().filter(|byte| **byte == 0).count();
    let allocate = |flags, offset, len| fs.fallocate(&ROOT, &file, flags, offset, len);
    let size = || fs.fstat(&file).expect("fstat").size;
    assert_eq!(fs.write(&ROOT, &file, 0, &[7; 16384]), Ok(16384));
    allocate(FallocateFlags::PUNCH_HOLE | KEEP, 4096, 4096).expect("punch");
    assert_eq!(zeros(16384), 4096);
    assert_eq!(fs.seek(&file, SeekFrom::Hole(0)), Ok(4096));
    assert_eq!(fs.seek(&file, SeekFrom::Data(4096)), Ok(8192));
    assert_eq!(refused(fs.seek(&file, SeekFrom::Data(16384))), Errno::NXIO);
    allocate(FallocateFlags::ZERO_RANGE, 8192, 100).expect("zero");
    assert_eq!(zeros(16384), 4196);
    allocate(FallocateFlags::ZERO_RANGE | KEEP, 16000, 100_000).expect("zero");
    assert_eq!((size(), zeros(16384)), (16384, 4196 + 384));
    allocate(KEEP, 0, 1 << 20).expect("allocate");
    assert_eq!(size(), 16384);
    allocate(FallocateFlags::empty(), 0, 1 << 20).expect("allocate");
    assert_eq!(size(), 1 << 20);
    assert_eq!(fs.write(&ROOT, &file, 1 << 40, b"far"), Ok(3));
    assert_eq!(fs.read(&file, 1 << 30, 8192).expect("read"), [0; 8192]);
    assert_eq!(fs.read(&file, 1 << 40, 10).expect("read"), b"far");
}

/// copy_file_range(2).
pub fn ranges_are_copied(fs: &impl PosixFs) {
    let data = pattern(3 << 20);
    fs.make("from", 0o644, &data);
    fs.make("to", 0o644, b"");
    let [from, to] = ["from", "to"].map(|name| fs.open(&ROOT, name, OFlags::RDWR, 0).expect("open"));
    let mut done = 0;
    while done < data.len() {
        let at = done as u64;
        let copied = fs.copy_range(&ROOT, (&from, at), (&to, at + 100), data.len() - done).expect("copy");
        assert!(copied > 0);
        done += copied;
    }
    let copy = fs.content("to");
    assert!(copy[..100] == [0; 100] && copy[100..] == data);
    assert_eq!(fs.copy_range(&ROOT, (&from, 3 << 20), (&to, 0), 100), Ok(0), "at the end");
    assert_eq!(refused(fs.copy_range(&ROOT, (&from, 0), (&from, 100), 1000)), Errno::INVAL, "overlapping");
}

/// A write that does not fit writes as much as does; the next one is refused, and what is there stays. The
/// file system has some MiB.
pub fn a_full_file_system_writes_what_fits(fs: &impl PosixFs) {
    let file = fs.open(&ROOT, "f", OFlags::CREATE | OFlags::RDWR, 0o644).expect("create");
    let data = pattern(1 << 20);
    let (mut written, mut short) = (0, 0);
    let error = loop {
        match fs.write(&ROOT, &file, written, &data) {
            Ok(len) => {
                assert!(len > 0);
                let last = fs.read(&file, written, len).expect("read");
                assert!(last == data[..len]);
                short += usize::from(len < data.len());
                written += len as u64;
            }
            Err(error) => break error,
        }
    };
    assert_eq!(error, Errno::NOSPC);
    assert!(short > 0, "no write was short");
    assert_eq!(fs.fstat(&file).expect("fstat").size, written);
    assert!(fs.free_bytes().expect("statfs") < 1 << 20, "the last bit is used, too");
    fs.unlink("f").expect("unlink");
}
