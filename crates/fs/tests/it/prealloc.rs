//! Preallocated blocks count as free, are never lost, and are in no image.

use lanefs::*;
use std::sync::Barrier;

const BLOCK: usize = 4096;

fn memory(size: u64) -> Volume {
    Volume::create_memory(&CreateOptions { size, ..CreateOptions::default() }).expect("create")
}

fn create(volume: &Volume, dir: Ino, name: &str) -> Ino {
    volume.create_file(&Caller::OWNER, dir, name.as_bytes(), 0o644).expect("create").ino
}

fn free(volume: &Volume) -> u64 {
    volume.statfs().expect("statfs").free_blocks
}

fn is_clean(volume: &Volume) {
    let report = volume.check(false, &|_, _| {}).expect("check");
    assert!(report.findings.is_empty(), "{:?}", report.findings);
}

/// Runs some threads at the same time, each in a writer slot of its own, and so with its own preallocation.
fn in_threads(count: usize, work: impl Fn(usize) + Sync) {
    let barrier = Barrier::new(count);
    std::thread::scope(|scope| {
        for thread in 0..count {
            let (barrier, work) = (&barrier, &work);
            scope.spawn(move || {
                barrier.wait();
                work(thread);
            });
        }
    });
}

/// One directory for each thread.
fn directories(volume: &Volume, count: usize) -> Vec<Ino> {
    let make = |i| volume.mkdir(&Caller::OWNER, volume.root(), format!("{i}").as_bytes(), 0o755);
    (0..count).map(|i| make(i).expect("mkdir").ino).collect()
}

#[test]
fn preallocated_blocks_count_as_free_and_an_image_has_them_so() {
    let volume = memory(64 << 20);
    let dirs = directories(&volume, 4);
    in_threads(4, |thread| {
        for i in 0..100 {
            let file = create(&volume, dirs[thread], &format!("{i}"));
            for at in 0..1 + i % 20 {
                let block = [i as u8; BLOCK];
                volume.write(&Caller::OWNER, file, (at * BLOCK) as u64, &block).expect("write");
            }
            if i % 3 == 0 {
                volume.unlink(&Caller::OWNER, dirs[thread], format!("{i}").as_bytes()).expect("unlink");
            }
        }
    });
    let before = free(&volume);
    let image = Volume::from_bytes(volume.to_bytes().expect("image")).expect("open");
    assert_eq!((free(&volume), free(&image)), (before, before));
    is_clean(&image);
    is_clean(&volume);
    // The preallocations have returned to the bitmaps; writers can go on.
    let file = create(&volume, dirs[0], "more");
    volume.write(&Caller::OWNER, file, 0, &[1; BLOCK]).expect("write");
    is_clean(&volume);
    assert_eq!(free(&volume), before - 1);
}

#[test]
fn the_preallocations_of_others_are_used_when_nothing_else_is_free() {
    let volume = memory(16 << 20);
    let dirs = directories(&volume, 8);
    in_threads(8, |thread| {
        let file = create(&volume, dirs[thread], "first");
        volume.write(&Caller::OWNER, file, 0, &[1; BLOCK]).expect("write");
    });
    // Small and large requests, until nothing is left for either.
    for blocks in [100, 7, 1] {
        let file = create(&volume, dirs[0], &format!("{blocks}"));
        let data = vec![2; blocks * BLOCK];
        let mut at = 0;
        let code = loop {
            match volume.write(&Caller::OWNER, file, at, &data) {
                Ok(written) => at += written as u64,
                Err(error) => break error.code(),
            }
        };
        assert_eq!(code, Code::NoSpace);
        assert!(free(&volume) < blocks as u64, "{} free blocks left", free(&volume));
    }
    assert_eq!(free(&volume), 0);
    is_clean(&volume);
    // Blocks that one writer gives up serve another.
    in_threads(8, |thread| {
        volume.unlink(&Caller::OWNER, dirs[thread], b"first").expect("unlink");
    });
    assert_eq!(free(&volume), 8);
    let file = create(&volume, dirs[7], "last");
    volume.write(&Caller::OWNER, file, 0, &[3; 8 * BLOCK]).expect("write");
    assert_eq!(free(&volume), 0);
    is_clean(&volume);
}

#[test]
fn a_device_never_has_preallocated_blocks() {
    let folder = tempfile::tempdir().expect("a directory");
    let image = folder.path().join("image");
    let options = CreateOptions { size: 32 << 20, ..CreateOptions::default() };
    let volume = Volume::create(&image, &options).expect("create");
    let dirs = directories(&volume, 2);
    in_threads(2, |thread| {
        for i in 0..50 {
            let file = create(&volume, dirs[thread], &format!("{i}"));
            volume.write(&Caller::OWNER, file, 0, &[4; 3 * BLOCK]).expect("write");
            if i % 10 == 0 {
                volume.fsync(file, false).expect("fsync");
            }
        }
    });
    volume.sync().expect("sync");
    // The volume as its last commit left it, as after a power cut.
    let bytes = std::fs::read(&image).expect("read");
    let after = Volume::from_bytes(bytes).expect("recover");
    is_clean(&after);
    assert_eq!(free(&after), free(&volume));
    volume.close().expect("close");
}

#[test]
fn a_volume_grows_while_writers_have_preallocations() {
    let volume = memory(16 << 20);
    let file = create(&volume, volume.root(), "file");
    volume.write(&Caller::OWNER, file, 0, &[1; BLOCK]).expect("write");
    volume.grow(200 << 20).expect("grow");
    volume.write(&Caller::OWNER, file, BLOCK as u64, &[1; BLOCK]).expect("write");
    is_clean(&volume);
}

#[test]
fn files_that_grow_in_turn_lie_in_few_pieces() {
    let volume = memory(256 << 20);
    let files: Vec<Ino> = (0..4).map(|i| create(&volume, volume.root(), &format!("{i}"))).collect();
    for at in 0..512 {
        for file in &files {
            volume.write(&Caller::OWNER, *file, (at * BLOCK) as u64, &[5; BLOCK]).expect("write");
        }
    }
    for file in files {
        let extents = volume.extents(file).expect("extents");
        assert_eq!(extents.iter().map(|extent| extent.bytes).sum::<u64>(), 512 * BLOCK as u64);
        // The first few blocks are between those of the other files.
        assert!(extents.len() <= 24, "{} extents", extents.len());
    }
    is_clean(&volume);
}

#[test]
fn extents_show_where_a_file_lies() {
    let volume = memory(64 << 20);
    let file = create(&volume, volume.root(), "file");
    assert_eq!(volume.extents(file).expect("extents"), []);
    volume.write(&Caller::OWNER, file, 0, &vec![1; 100 * BLOCK]).expect("write");
    volume.fallocate(&Caller::OWNER, file, Allocate::PunchHole, 10 << 12, 5 << 12).expect("punch");
    let extents = volume.extents(file).expect("extents");
    let ranges: Vec<_> = extents.iter().map(|e| (e.offset >> 12, e.bytes >> 12, e.unwritten)).collect();
    assert_eq!(ranges, [(0, 10, false), (15, 85, false)]);
    assert_eq!(extents[1].position - extents[0].position, 15 << 12);
}

/// Writes the blocks of a file of `blocks` blocks in the order of `order`. Returns the number of blocks from
/// the first of them on the volume to the last.
fn spread(blocks: u64, order: impl Fn(u64) -> u64) -> u64 {
    let volume = memory(4 << 30);
    let file = create(&volume, volume.root(), "file");
    for i in 0..blocks {
        volume.write(&Caller::OWNER, file, order(i) * BLOCK as u64, &[7; BLOCK]).expect("write");
    }
    let extents = volume.extents(file).expect("extents");
    let first = extents.iter().map(|extent| extent.position).min().expect("an extent");
    let end = extents.iter().map(|extent| extent.position + extent.bytes).max().expect("an extent");
    is_clean(&volume);
    (end - first) / BLOCK as u64
}

#[test]
fn a_file_that_is_filled_in_any_order_is_not_spread_over_the_volume() {
    let blocks = 8192;
    let orders: [(&str, &dyn Fn(u64) -> u64); 3] = [
        ("backwards", &|i| blocks - 1 - i),
        // An odd factor reaches each block once.
        ("random", &|i| if i == 0 { blocks - 1 } else { (i * 4_801 + blocks - 1) % blocks }),
        ("every second one, then the others", &|i| (blocks - 1 - i * 2 % blocks) - i * 2 / blocks),
    ];
    for (name, order) in orders {
        let spread = spread(blocks, order);
        // Four ranges of 2 MiB, one for each file that grows, and ranges for new files.
        assert!(spread < blocks + 8 * 512, "{name}: over {spread} blocks");
    }
}
