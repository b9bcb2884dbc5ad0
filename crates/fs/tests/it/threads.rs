//! Threads in the same directories at once. Small enough for Miri; ThreadSanitizer runs more of it.

use lanefs::{Caller, Code, CreateOptions, Ino, InodeSize, RenameMode, Volume};
use std::sync::atomic::{AtomicUsize, Ordering};

const OWNER: Caller = Caller::OWNER;

/// Rounds of a thread.
const ROUNDS: usize = if cfg!(miri) { 2 } else { 300 };
/// Most rounds of a thread that waits for another to have done its own.
const MOST_ROUNDS: usize = 100 * ROUNDS;
/// Names of a thread: a small directory, and one whose names need an index block.
const NAMES: [usize; 2] = if cfg!(miri) { [2, 17] } else { [3, 150] };

/// Bytes of a file.
const BYTES: usize = 400;

fn volume() -> Volume {
    let options = CreateOptions { size: 8 << 20, inode_size: InodeSize::B256, ..CreateOptions::default() };
    Volume::create_memory(&options).expect("a volume")
}

fn name(thread: usize, number: usize) -> Vec<u8> {
    format!("thread-{thread}-{number}").into_bytes()
}

/// Makes names, finds them, moves them, and removes all but the last.
fn work(volume: &Volume, dir: Ino, thread: usize, names: usize) {
    for number in 0..names {
        volume.create_file(&OWNER, dir, &name(thread, number), 0o644).expect("a new name");
    }
    for number in 0..names {
        let (ino, _) = volume.lookup(&OWNER, dir, &name(thread, number)).expect("a name that was made");
        volume.write(&OWNER, ino, 0, &name(thread, number)).expect("content");
    }
    let moved = name(thread, names);
    volume.rename_at(&OWNER, dir, &name(thread, 0), dir, &moved, RenameMode::Replace).expect("a free name");
    for number in 1..names {
        volume.unlink(&OWNER, dir, &name(thread, number)).expect("a name that was made");
    }
    let gone = volume.lookup(&OWNER, dir, &name(thread, 0)).expect_err("the name was moved");
    assert_eq!(gone.code(), Code::NotFound);
    volume.unlink(&OWNER, dir, &moved).expect("the new name");
}

fn threads_in_one_directory(names: usize) {
    let volume = volume();
    let dir = volume.mkdir_all("/d", 0o755).expect("a directory").ino;
    for _ in 0..ROUNDS.div_ceil(names) {
        std::thread::scope(|scope| {
            for thread in 0..2 {
                let volume = &volume;
                scope.spawn(move || work(volume, dir, thread, names));
            }
            let mut cookie = 0;
            while let Some(last) = volume.readdir(&OWNER, dir, cookie, 8).expect("a listing").last() {
                cookie = last.cookie;
            }
        });
        assert!(volume.readdir(&OWNER, dir, 0, 8).expect("a listing").is_empty());
    }
    let report = volume.check(false, &|_, _| {}).expect("a check");
    assert!(report.findings.is_empty(), "{:?}", report.findings);
}

#[test]
fn threads_in_a_small_directory_leave_it_as_each_left_its_names() {
    threads_in_one_directory(NAMES[0]);
}

#[test]
fn threads_in_an_indexed_directory_leave_it_as_each_left_its_names() {
    threads_in_one_directory(NAMES[1]);
}

#[test]
fn a_reader_of_a_file_sees_one_write_or_the_other() {
    let volume = volume();
    // Too long for the inode: the bytes are in a block of data.
    let file = volume.write_file("/f", vec![0; BYTES].as_slice()).expect("a file").ino;
    // Both continue until the other has done its rounds, so that they overlap on a busy processor, too. The
    // counters order nothing: a sanitizer must see the races that the volume does not prevent.
    let [writes, reads] = [AtomicUsize::new(0), AtomicUsize::new(0)];
    let is_over = |other: &AtomicUsize| other.load(Ordering::Relaxed) >= ROUNDS;
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for round in 1..=MOST_ROUNDS {
                volume.write(&OWNER, file, 0, &vec![round as u8; BYTES]).expect("a write");
                writes.store(round, Ordering::Relaxed);
                if round >= ROUNDS && is_over(&reads) {
                    break;
                }
            }
        });
        for round in 1..=MOST_ROUNDS {
            let mut bytes = [0; BYTES];
            volume.read(&OWNER, file, 0, &mut bytes).expect("a read");
            assert!(bytes.iter().all(|byte| *byte == bytes[0]), "two writes in one read: {bytes:?}");
            reads.store(round, Ordering::Relaxed);
            if round >= ROUNDS && is_over(&writes) {
                break;
            }
        }
    });
}
