//! Devices compared with a vector of bytes, with every combination of options.

mod device_support;

use device_support::{Directories, Planted, exercise};
use lanefs_store::{Choice, Device, FileDevice, FileOptions, IoBuf, MemoryDevice, Read, Write};
use std::io::ErrorKind;
use std::sync::Arc;

const WAYS: [(Choice, Choice); 4] = [
    (Choice::Auto, Choice::Auto),
    (Choice::Auto, Choice::Never),
    (Choice::Never, Choice::Auto),
    (Choice::Never, Choice::Never),
];

fn options((direct, io_uring): (Choice, Choice)) -> FileOptions {
    FileOptions { direct, io_uring, ..FileOptions::default() }
}

/// Calls `test` with a new device of `len` bytes for every combination of options and directory.
fn on_all(len: u64, mut test: impl FnMut(FileDevice, &std::path::Path)) {
    for dir in Directories::new().all() {
        for way in WAYS {
            let path = dir.join("volume");
            let device = FileDevice::create_with(&path, len, true, &options(way)).expect("creates");
            eprintln!("{}: {}", dir.display(), device.engine());
            test(device, &path);
        }
    }
}

/// Returns memory of `len` bytes at an address that direct I/O can use.
fn aligned(memory: &mut Vec<u8>, len: usize) -> &mut [u8] {
    memory.resize(len + 4096, 0);
    let skip = memory.as_ptr().align_offset(4096);
    &mut memory[skip..skip + len]
}

#[test]
fn random_requests_from_several_threads_read_what_was_written() {
    for (seed, len) in [(1, 3 << 20), (2, (1 << 20) + 777), (3, 9000)] {
        on_all(len, |device, path| {
            exercise(&device, seed, 4, 150).expect("agrees with the vector");
            device.flush().expect("flushes");
            drop(device);
            assert_eq!(std::fs::metadata(path).expect("is there").len(), len, "the length stays");
        });
        exercise(&MemoryDevice::new(vec![0; len as usize]), seed, 4, 150).expect("memory");
    }
}

#[test]
fn the_tester_notices_a_planted_bug() {
    for bug in [Planted::WrongResult, Planted::LostWrite, Planted::LateByte] {
        let device = bug.plant(MemoryDevice::new(vec![0; 1 << 20]));
        assert!(exercise(&device, 1, 2, 150).is_err(), "{bug:?} went unnoticed");
    }
}

#[test]
fn the_engine_is_what_was_asked_for() {
    on_all(1 << 20, |device, _| assert!(!device.engine().is_empty() && !device.is_read_only()));
    let directories = Directories::new();
    let path = directories.all()[0].join("engine");
    FileDevice::create(&path, 1 << 20, false).expect("creates");
    let engine = |direct, io_uring| {
        let device = FileDevice::open_with(&path, &options((direct, io_uring))).expect("opens");
        device.engine()
    };
    assert_eq!(
        engine(Choice::Never, Choice::Never),
        "system calls (as asked for), page cache (as asked for)"
    );
    assert!(engine(Choice::Never, Choice::Auto).ends_with("page cache (as asked for)"));
    assert!(engine(Choice::Auto, Choice::Never).starts_with("system calls (as asked for), "));
    assert_eq!(MemoryDevice::new(Vec::new()).engine(), "memory");
    assert!(FileDevice::open(&path, false).expect("opens").is_read_only());
}

#[test]
fn past_the_end_is_an_error_and_nothing_happens() {
    on_all(10_000, |device, path| {
        let eof = |result: std::io::Result<()>| {
            assert_eq!(result.expect_err("past the end").kind(), ErrorKind::UnexpectedEof);
        };
        for (at, len) in
            [(10_000, 1), (9_999, 2), (8192, 4096), (u64::MAX, 1), (u64::MAX - 5, 20), (1 << 40, 4096)]
        {
            eof(device.read_slice(at, &mut vec![0; len]));
            eof(device.write_slice(at, &vec![0; len]));
            eof(device.write_many(&[
                Write { at: 0, data: IoBuf::new(&[0; 8]) },
                Write { at, data: IoBuf::new(&vec![0; len]) },
            ]));
        }
        device.read_slice(10_000, &mut []).expect("nothing at the end");
        device.write_slice(8192, &[7; 1808]).expect("the last bytes");
        let mut last = [0; 1900];
        device.read_slice(8100, &mut last).expect("reads to the end");
        assert!(last[..92] == [0; 92] && last[92..] == [7; 1808]);
        assert_eq!((device.len(), std::fs::metadata(path).expect("is there").len()), (10_000, 10_000));
    });
}

#[test]
fn each_read_has_its_own_result() {
    on_all(1 << 20, |device, _| {
        device.write_slice(0, &vec![5; 1 << 20]).expect("writes");
        let mut memory = Vec::new();
        let mut requests: Vec<Read<'_>> = aligned(&mut memory, 300 * 4096)
            .chunks_mut(4096)
            .enumerate()
            .map(|(index, buffer)| Read { at: index as u64 * 4096, buffer: buffer.into() })
            .collect();
        requests[17].at = 1 << 21;
        requests[40].at += 3;
        let errors = device.read_many(&mut requests).expect_err("some are past the end");
        let failed: Vec<usize> = errors.iter().map(|(index, _)| index).collect();
        let expected: Vec<usize> = std::iter::once(17).chain(256..300).collect();
        assert_eq!(failed, expected);
        assert_eq!(errors.of(17).map(std::io::Error::kind), Some(ErrorKind::UnexpectedEof));
        assert!(errors.of(18).is_none());
        assert_eq!(std::io::Error::from(errors).kind(), ErrorKind::UnexpectedEof);
        for (index, request) in requests.iter().enumerate().filter(|(index, _)| !expected.contains(index)) {
            let mut bytes = [0; 4096];
            request.buffer.copy_to(&mut bytes);
            assert!(bytes == [5; 4096], "read {index}");
        }
    });
}

/// Another program has truncated the file: the reads fail in the kernel and not before.
#[test]
fn reads_of_a_file_that_became_shorter_fail_one_by_one() {
    on_all(64 * 4096, |device, path| {
        device.write_slice(0, &vec![5; 64 * 4096]).expect("writes");
        std::fs::File::options().write(true).open(path).and_then(|f| f.set_len(32 * 4096)).expect("cuts");
        let mut memory = Vec::new();
        let parts = aligned(&mut memory, 64 * 4096).chunks_mut(4096).enumerate();
        let mut requests: Vec<Read<'_>> =
            parts.map(|(index, buffer)| Read { at: index as u64 * 4096, buffer: buffer.into() }).collect();
        let errors = device.read_many(&mut requests).expect_err("half is gone");
        assert!(errors.iter().map(|(index, _)| index).eq(32..64));
        assert!(errors.iter().all(|(_, error)| error.kind() == ErrorKind::UnexpectedEof));
    });
}

#[test]
fn ten_thousand_requests_in_one_call() {
    on_all(10_000 * 512, |device, _| {
        let mut memory = Vec::new();
        let data = aligned(&mut memory, 10_000 * 512);
        data.iter_mut().enumerate().for_each(|(at, byte)| *byte = (at / 512 + at) as u8);
        // (From the end to the start; some disks have an alignment above 512 bytes.)
        let writes: Vec<Write<'_>> = data
            .chunks(512)
            .enumerate()
            .map(|(i, data)| Write { at: i as u64 * 512, data: data.into() })
            .rev()
            .collect();
        device.write_many(&writes).expect("writes");
        let mut read_back = Vec::new();
        let mut reads: Vec<Read<'_>> = aligned(&mut read_back, 10_000 * 512)
            .chunks_mut(512)
            .enumerate()
            .map(|(i, buffer)| Read { at: i as u64 * 512, buffer: buffer.into() })
            .collect();
        device.read_many(&mut reads).expect("reads");
        assert!(aligned(&mut read_back, 10_000 * 512) == aligned(&mut memory, 10_000 * 512));
    });
}

#[test]
fn a_device_goes_away_under_its_users_and_its_lock_with_it() {
    on_all(1 << 20, |device, path| {
        assert_eq!(FileDevice::open(path, true).err().map(|e| e.kind()), Some(ErrorKind::WouldBlock));
        let device = Arc::new(device);
        let users: Vec<_> = (0..4)
            .map(|user| {
                let device = Arc::clone(&device);
                std::thread::spawn(move || {
                    let mut memory = Vec::new();
                    for _ in 0..20 {
                        let parts = aligned(&mut memory, 64 * 4096).chunks_mut(4096).enumerate();
                        let mut reads: Vec<Read<'_>> = parts
                            .map(|(i, buffer)| Read { at: (i as u64 + user) * 4096, buffer: buffer.into() })
                            .collect();
                        device.read_many(&mut reads).expect("reads");
                    }
                })
            })
            .collect();
        drop(device);
        users.into_iter().for_each(|user| user.join().expect("a user"));
        drop(FileDevice::open(path, true).expect("the lock is free at once"));
    });
}

#[test]
fn many_more_threads_than_rings_share_them() {
    on_all(1 << 20, |device, _| {
        std::thread::scope(|scope| {
            for user in 0..48u64 {
                let device = &device;
                scope.spawn(move || {
                    let at = user * 16384;
                    let mut memory = Vec::new();
                    let part = aligned(&mut memory, 16384);
                    part.fill(user as u8 + 1);
                    let writes: Vec<Write<'_>> = part
                        .chunks(4096)
                        .enumerate()
                        .map(|(i, data)| Write { at: at + i as u64 * 4096, data: data.into() })
                        .collect();
                    device.write_many(&writes).expect("writes");
                    let mut read = vec![0; 16384];
                    device.read_slice(at, &mut read).expect("reads");
                    assert!(read.iter().all(|byte| *byte == user as u8 + 1));
                });
            }
        });
    });
}

#[test]
fn the_length_is_what_resize_says_and_new_bytes_are_zero() {
    on_all(8192, |device, path| {
        device.write_slice(0, &[9; 8192]).expect("writes");
        for len in [5000, 12_345, 3, 1 << 20, 4096, 8192] {
            device.resize(len).expect("resizes");
            assert_eq!((device.len(), std::fs::metadata(path).expect("is there").len()), (len, len));
        }
        let mut all = [1; 8192];
        device.read_slice(0, &mut all).expect("reads");
        assert!(all[..3] == [9; 3] && all[3..].iter().all(|byte| *byte == 0));
        device.write_slice(0, &[8; 8192]).expect("writes");
        device.discard(4096, u64::MAX).expect("discards");
        device.discard(8192, 4096).expect("nothing to discard");
        device.read_slice(0, &mut all[..4096]).expect("reads");
        assert!(all[..4096] == [8; 4096]);
    });
}

#[test]
fn a_length_that_the_host_refuses_leaves_no_file_and_costs_an_older_one_nothing() {
    let dir = tempfile::tempdir().expect("a directory");
    let (new, old) = (dir.path().join("new"), dir.path().join("old"));
    std::fs::write(&old, "content").expect("a file");
    // No host has such files.
    for path in [&new, &old] {
        assert!(FileDevice::create(path, u64::MAX - 4095, true).is_err());
    }
    assert!(!new.exists());
    assert_eq!(std::fs::read(&old).expect("the older file"), b"content");
    // A name that leads to nothing is another's.
    let link = dir.path().join("link");
    std::os::unix::fs::symlink("target", &link).expect("a link");
    FileDevice::create(&link, 4096, true).expect("creates the target");
    assert!(dir.path().join("target").exists());
}

#[test]
fn a_device_that_has_only_the_old_methods_does_many_too() {
    let device = Planted::Nothing.plant(MemoryDevice::new(vec![0; 1 << 20]));
    exercise(&device, 5, 2, 100).expect("agrees with the vector");
    assert_eq!(device.engine(), "a device");
}
