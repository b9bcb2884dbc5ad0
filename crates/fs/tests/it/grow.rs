//! Growth: the tables move, and the journal grows with the volume.

use lanefs::format::{BLOCK, BLOCKS_PER_CHUNK, GROUP};
use lanefs::*;
use std::path::Path;

fn create(image: &Path, size: u64) -> Volume {
    Volume::create(image, &CreateOptions { size, ..CreateOptions::default() }).expect("create")
}

fn is_sound(volume: &Volume) {
    let report = volume.check(false, &|_, _| {}).expect("check");
    assert!(report.findings.is_empty(), "{:?}", report.findings);
}

/// Blocks that are neither free nor the journal's, the group table's or those of checksums of file data.
fn content_blocks(volume: &Volume) -> u64 {
    let (space, superblock) = (volume.statfs().expect("statfs"), volume.superblock());
    let of_groups = superblock.group_count * (1 + BLOCKS_PER_CHUNK);
    space.blocks - space.free_blocks - of_groups - superblock.journal_blocks
}

#[test]
fn the_journal_grows_with_the_volume_and_nothing_leaks() {
    grows(8 << 20, &[((8 << 20) + BLOCK, 64), (9 << 20, 64), (64 << 20, 256)]);
    // The second one is hardly larger: the journal stays.
    grows(64 << 20, &[(72 << 20, 256), (GROUP, 504), (2 * GROUP + (5 << 20), 1028)]);
}

/// Grows a volume to some sizes, and compares the blocks of its journal.
fn grows(from: u64, steps: &[(u64, u64)]) {
    let dir = tempfile::tempdir().expect("tempdir");
    let image = dir.path().join("v.lane");
    let volume = create(&image, from);
    volume.write_file("/f", vec![7; 100_000].as_slice()).expect("write");
    let content = content_blocks(&volume);
    let mut before = volume.superblock();
    for (size, journal) in steps {
        volume.grow(*size).expect("grow");
        let now = volume.superblock();
        assert_eq!((now.volume_bytes, now.journal_blocks), (*size, *journal));
        assert_ne!(now.groups, before.groups, "the old table stays as it is until the superblock is written");
        assert_eq!(now.journal == before.journal, now.journal_blocks == before.journal_blocks);
        assert_eq!(content_blocks(&volume), content, "{size} bytes");
        is_sound(&volume);
        volume.write_file(format!("/{size}"), b"").expect("write");
        volume.unlink(&Caller::OWNER, volume.root(), format!("{size}").as_bytes()).expect("unlink");
        volume.sync().expect("sync");
        // The volume as a power cut leaves it now.
        let copy = Volume::from_bytes(std::fs::read(&image).expect("read")).expect("recovered");
        assert_eq!(copy.read_file("/f").expect("read"), vec![7; 100_000]);
        is_sound(&copy);
        before = now;
    }
    volume.close().expect("close");
    let volume = Volume::open(&image, Access::Write).expect("open");
    is_sound(&volume);
    assert_eq!(volume.read_file("/f").expect("read"), vec![7; 100_000]);
}

#[test]
fn space_of_the_old_tables_is_used_again() {
    let dir = tempfile::tempdir().expect("tempdir");
    let volume = create(&dir.path().join("v.lane"), 8 << 20);
    volume.grow(64 << 20).expect("grow");
    // A file that takes all free blocks lies where the tables were.
    let mut left = volume.statfs().expect("statfs").free_blocks * BLOCK;
    let file = volume.create_file(&Caller::OWNER, volume.root(), b"all", 0o644).expect("create").ino;
    let mut at = 0;
    while left >= BLOCK {
        match volume.write(&Caller::OWNER, file, at, &vec![3; left.min(1 << 20) as usize]) {
            Ok(done) => at += done as u64,
            Err(error) if error.code() == Code::NoSpace => left /= 2,
            Err(error) => panic!("{error}"),
        }
        left = left.min(volume.statfs().expect("statfs").free_blocks * BLOCK);
    }
    assert!(volume.statfs().expect("statfs").free_blocks < 16);
    volume.sync().expect("sync");
    is_sound(&volume);
}

#[test]
fn a_volume_grows_as_far_as_it_was_opened_for() {
    let dir = tempfile::tempdir().expect("tempdir");
    let image = dir.path().join("v.lane");
    let volume = create(&image, 8 << 20);
    let refused = volume.grow(1 << 30).expect_err("more than 16 times its size");
    assert_eq!(refused.kind(), ErrorKind::Size, "{refused}");
    volume.write_file("/f", b"kept").expect("write");
    is_sound(&volume);
    volume.close().expect("close");
    let options = OpenOptions { growth: Some(4 << 30), ..OpenOptions::from(Access::Write) };
    let volume = Volume::open(&image, options).expect("open");
    volume.grow((8 << 20) + (4 << 30)).expect("grow");
    assert_eq!(volume.grow(9 << 30).expect_err("more than that").kind(), ErrorKind::Size);
    is_sound(&volume);
    volume.close().expect("close");
    let volume = Volume::open(&image, Access::Read).expect("open");
    assert_eq!(volume.superblock().volume_bytes, (8 << 20) + (4 << 30));
    assert_eq!(volume.read_file("/f").expect("read"), b"kept");
}

#[test]
fn a_full_volume_grows_by_little() {
    let dir = tempfile::tempdir().expect("tempdir");
    let volume = create(&dir.path().join("v.lane"), 8 << 20);
    let mut size = 4 << 20;
    let mut number = 0;
    while size >= BLOCK {
        match volume.write_file(format!("/{number}"), vec![1; size as usize].as_slice()) {
            Ok(_) => number += 1,
            Err(_) => size /= 2,
        }
    }
    // One block is enough for the table of one group.
    for blocks in 1..4 {
        volume.grow((8 << 20) + blocks * BLOCK).expect("grow");
        is_sound(&volume);
    }
}
