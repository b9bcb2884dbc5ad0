//! Volumes without damage, or with some that an allocation ends: the check finds nothing.

use crate::check::faults::FixtureInodes;
use crate::check::fixture::{HIDDEN, OWNER, closed, fill, options, orphan, tree};
use crate::check::image::Good;
use crate::check::{Random, assert_clean, names};
use lanefs::*;

#[test]
fn volumes_of_all_shapes_are_clean() {
    for inode_size in [InodeSize::B128, InodeSize::B256] {
        let volume = Volume::create_memory(&options(64 << 20, inode_size)).expect("create");
        assert_clean(&volume, "empty, in memory");
        fill(&volume, 0);
        assert_clean(&volume, "filled, in memory");
        orphan(&volume);
        assert_clean(&volume, "with orphans, in memory");
        assert_eq!(volume.check(false, &|_, _| {}).expect("check").orphans, HIDDEN - 1);
        let copy = Volume::from_bytes(volume.to_bytes().expect("bytes")).expect("open");
        assert_clean(&copy, "a copy");
        let bytes = closed(16 << 20, inode_size, 0);
        let good = Good::new(bytes);
        let volume = good.image().open();
        assert_clean(&volume, "from a device");
        let report = volume.check(true, &|_, _| {}).expect("check");
        assert!(report.findings.is_empty());
        assert_eq!(report.inodes, volume.statfs().expect("statfs").inodes);
        let before = tree(&volume);
        assert_eq!(report.orphans, HIDDEN - 1);
        let seen = before.len() as u64;
        assert_eq!(report.inodes, seen + HIDDEN, "all but a second link, the root, and what has no name");
    }
}

#[test]
fn a_wide_directory_stays_clean_while_it_shrinks() {
    let volume = Volume::create_memory(&options(256 << 20, InodeSize::B128)).expect("create");
    let dir = volume.mkdir(&OWNER, volume.root(), b"wide", 0o755).expect("mkdir").ino;
    let count = 60_000u32;
    for i in 0..count {
        volume.create_file(&OWNER, dir, format!("{i}").as_bytes(), 0o644).expect("create");
    }
    assert_clean(&volume, "wide");
    for i in 0..count {
        let i = i.wrapping_mul(2_654_435_761) % count;
        let _ = volume.unlink(&OWNER, dir, format!("{i}").as_bytes());
        if i.is_multiple_of(9973) {
            assert_clean(&volume, "shrinking");
        }
    }
    assert_clean(&volume, "shrunk");
}

#[test]
fn a_volume_in_use_stays_clean() {
    for (seed, inode_size) in [(1, InodeSize::B128), (2, InodeSize::B256), (3, InodeSize::B256)] {
        let mut random = Random(seed);
        let volume = Volume::create_memory(&options(64 << 20, inode_size)).expect("create");
        for step in 0..6000u32 {
            let name = |n: usize| format!("/{}", "n".repeat(1 + n % 200) + &n.to_string());
            let (one, other) = (name(random.below(60)), name(random.below(60)));
            let path = |p: &str| p.as_bytes()[1..].to_vec();
            let (root, ino) = (volume.root(), volume.resolve(&one).map_or(volume.root(), |a| a.ino));
            let at = random.next() >> (24 + random.below(40));
            let len = random.below(200_000);
            let _ = match random.below(12) {
                0 | 1 => volume.write_file(&one, vec![step as u8; random.below(300_000)]).map(|_| ()),
                2 => volume.write(&OWNER, ino, at, &vec![1; len]).map(|_| ()),
                3 => {
                    volume.setattr(&OWNER, ino, &SetAttr { size: Some(at), ..SetAttr::default() }).map(|_| ())
                }
                4 => volume.fallocate(&OWNER, ino, Allocate::PunchHole, at, 1 + len as u64),
                5 => volume.fallocate(&OWNER, ino, Allocate::KeepSize, at, 1 + 20 * len as u64),
                6 => volume.fallocate(&OWNER, ino, Allocate::ZeroRange, at, 1 + len as u64),
                7 => volume.setxattr(&OWNER, ino, b"user.x", &vec![3; len / 4], XattrMode::Set),
                8 => volume.rename_at(&OWNER, root, &path(&one), root, &path(&other), RenameMode::Replace),
                9 => volume.link(&OWNER, ino, root, &path(&other)).map(|_| ()),
                10 => volume.mkdir(&OWNER, root, &path(&one), 0o755).map(|_| ()),
                _ => volume
                    .unlink(&OWNER, root, &path(&one))
                    .or_else(|_| volume.rmdir(&OWNER, root, &path(&one))),
            };
            if step % 97 == 0 {
                assert_clean(&volume, &format!("seed {seed}, step {step}"));
            }
        }
        assert_clean(&volume, "in the end");
    }
}

/// The entry of a free block says what only a block in use may have. Blocks are allocated all the same,
/// before any repair, and nothing of that is said of them.
#[test]
fn what_a_table_says_of_a_free_block_ends_with_its_allocation() {
    use format::{BLOCK, BLOCKS_PER_CHUNK, CHUNK_HEADER_BLOCKS, chunk_entry};
    let good = Good::new(closed(16 << 20, InodeSize::B256, 0));
    let inodes = FixtureInodes::of(&good.image().reopen());
    let mut image = good.image();
    let chunk = image.inode_at(inodes.root) & !(format::CHUNK - 1);
    let entries =
        (CHUNK_HEADER_BLOCKS..BLOCKS_PER_CHUNK).map(|block| chunk + block * chunk_entry::SIZE as u64);
    let free: Vec<u64> = entries.filter(|at| image.get(*at, chunk_entry::KIND) == 0).collect();
    assert!(free.len() > 2, "{} free blocks", free.len());
    for at in &free {
        image.put(*at, chunk_entry::USED, 3);
        image.put(*at, chunk_entry::RESERVED, 5);
        image.put(*at, chunk_entry::CHECKSUM, 7);
        image.put(*at, chunk_entry::OWNER, 9);
    }
    image.seal();
    let volume = image.open_for(Access::Write);
    for number in 0..free.len() as u64 * BLOCK / 256 {
        volume.write_file(format!("/small/{number}"), b"").expect("a new inode");
    }
    let found = names(&volume.check(false, &|_, _| {}).expect("check"));
    assert!(found.is_empty(), "{} findings, the first {:?}", found.len(), found.first());
}
