//! Maps of files that a fault leads astray: what the repair keeps, and what operations say of them.

use crate::check::faults::FixtureInodes;
use crate::check::fixture::{OWNER, closed};
use crate::check::image::{Good, Image};
use crate::check::names;
use crate::check::planted::find_and_mend;
use lanefs::*;

#[test]
fn a_map_that_has_a_block_many_times_ends_every_walk() {
    let good = Good::new(closed(16 << 20, InodeSize::B256, 0));
    let inodes = FixtureInodes::of(&good.image().reopen());
    let mut image = good.image();
    // The third level of the map covers 1 GiB: all of it gets the first 2 MiB again and again.
    let below = |image: &Image<'_>, at: u64| {
        image.get(at, format::Array::<u64>::at(0, 512).index(0)) & !(format::BLOCK - 1)
    };
    let top = image.inode(inodes.sparse, format::inode::MAP) & !(format::BLOCK - 1);
    let at = below(&image, below(&image, top));
    let slots = format::Array::<u64>::at(0, 512);
    let first = image.get(at, slots.index(0));
    for slot in 1..512 {
        image.put(at, slots.index(slot), first);
    }
    let volume = image.open();
    let damaged = |error: Error| assert!(error.to_string().contains("has a block twice"), "{error}");
    volume.extents(Ino(inodes.sparse)).map(drop).map_err(damaged).expect_err("a block twice");
    let found = volume.check(true, &|_, _| {}).expect("a repair");
    assert!(found.findings.iter().all(|finding| finding.repaired), "{:?}", names(&found));
    volume.extents(Ino(inodes.sparse)).expect("extents");
}

#[test]
fn of_two_files_that_name_a_block_its_owner_keeps_it() {
    use format::inode::{FLAGS, MAP, XATTR};
    let good = Good::new(closed(16 << 20, InodeSize::B256, 0));
    let inodes = FixtureInodes::of(&good.image().reopen());
    let content = |volume: &Volume| {
        let mut bytes = vec![0; 70_000];
        let count = volume.read(&OWNER, Ino(inodes.mapped), 0, &mut bytes).expect("read");
        (count, bytes, volume.getxattr(&OWNER, Ino(inodes.sparse), b"user.long").expect("attribute"))
    };
    let before = content(&good.image().reopen());
    let mut image = good.image();
    // The others come first, in order of their numbers.
    assert!(inodes.big < inodes.mapped && inodes.a < inodes.sparse);
    image.put_inode(inodes.big, MAP, image.inode(inodes.mapped, MAP));
    image.put_inode(inodes.big, FLAGS, image.inode(inodes.mapped, FLAGS));
    image.put_inode(inodes.a, XATTR, image.inode(inodes.sparse, XATTR));
    let volume = find_and_mend(&mut image, "block-owned-twice").expect("mended");
    assert!(content(&volume) == before);
}

#[test]
fn a_link_whose_size_is_wrong_keeps_its_target() {
    use format::inode::BYTES;
    for inode_size in [InodeSize::B128, InodeSize::B256] {
        let good = Good::new(closed(16 << 20, inode_size, 0));
        let inodes = FixtureInodes::of(&good.image().reopen());
        let wrong =
            [(inodes.short, &[0, 4, 20, 161, 5000][..]), (inodes.long, &[0, 401, 4095, 4096, u64::MAX])];
        for (ino, size) in wrong.iter().flat_map(|(ino, sizes)| sizes.iter().map(|size| (*ino, *size))) {
            let target = good.image().reopen().readlink(Ino(ino)).expect("readlink");
            let mut image = good.image();
            image.put_inode(ino, BYTES, size);
            let volume = find_and_mend(&mut image, "inode-size").expect("mended");
            assert_eq!(
                volume.readlink(Ino(ino)).expect("readlink"),
                target,
                "{size} instead of {}",
                target.len()
            );
        }
    }
}

/// Where the block of a target is lost, or the target lies in a radix map, the size follows, too.
#[test]
fn the_size_of_a_link_follows_what_is_left_of_its_map() {
    use format::{INODE_CORE, extent, inode as f};
    let good = Good::new(closed(16 << 20, InodeSize::B256, 0));
    let inodes = FixtureInodes::of(&good.image().reopen());
    let first = INODE_CORE as u64;
    let target = |image: &Image<'_>, ino: u64| image.get(image.inode_at(ino) + first, extent::POINTER);
    let mut image = good.image();
    let of_another = target(&image, inodes.extents);
    assert!(inodes.extents < inodes.long);
    image.put(image.inode_at(inodes.long) + first, extent::POINTER, of_another);
    let volume = find_and_mend(&mut image, "block-owned-twice").expect("mended");
    assert!(volume.readlink(Ino(inodes.long)).expect("readlink").is_empty());

    let mut image = good.image();
    assert_eq!(image.inode(inodes.mapped, f::FLAGS) >> format::INODE_DEPTH_SHIFT & 0xf, 1);
    image.put_inode(inodes.mapped, f::MODE, 0o120_777);
    let volume = find_and_mend(&mut image, "inode-size").expect("mended");
    assert_eq!(volume.readlink(Ino(inodes.mapped)).expect("readlink"), b"start");
}

#[test]
fn a_damaged_extent_is_damage_for_every_operation() {
    use format::{BLOCK, BlockSize, INODE_CORE, Pointer, extent, inode};
    type Plant = fn(&mut Image<'_>, u64);
    let plants: [(&str, Plant); 7] = [
        ("empty", |i, at| i.put(at, extent::BLOCKS, 0)),
        ("overlapping", |i, at| i.put(at + extent::SIZE as u64, extent::FIRST, 0)),
        ("past the volume", |i, at| i.put(at, extent::BLOCKS, u32::MAX)),
        ("indirect", |i, at| i.put(at, extent::POINTER, Pointer::indirect(100 * BLOCK).word())),
        ("too large", |i, at| {
            i.put(at, extent::POINTER, Pointer::data(100 * BLOCK, BlockSize::Medium).word());
        }),
        ("a hole", |i, at| i.put(at, extent::POINTER, Pointer::HOLE)),
        ("too many", |i, at| i.put(at - INODE_CORE as u64, inode::FLAGS, 0xf000)),
    ];
    for inode_size in [InodeSize::B256, InodeSize::B128] {
        let good = Good::new(closed(16 << 20, inode_size, 0));
        let ino = FixtureInodes::of(&good.image().open()).extents;
        for (name, plant) in plants {
            let mut image = good.image();
            let at = image.inode_at(ino) + INODE_CORE as u64;
            plant(&mut image, at);
            image.seal();
            let volume = image.open_for(Access::Write);
            let ino = Ino(ino);
            let all = (0, u64::MAX >> 8);
            let answers = [
                volume.read(&OWNER, ino, 0, &mut [0; 30_000]).map(drop),
                volume.write(&OWNER, ino, 4096, &[1; 5000]).map(drop),
                volume.fallocate(&OWNER, ino, Allocate::PunchHole, all.0, all.1),
                volume.fallocate(&OWNER, ino, Allocate::CollapseRange, 0, 4096),
                volume.setattr(&OWNER, ino, &SetAttr { size: Some(1), ..SetAttr::default() }).map(drop),
                volume.extents(ino).map(drop),
                volume.unlink(&OWNER, volume.root(), b"extents"),
            ];
            for (number, answer) in answers.iter().enumerate() {
                assert!(matches!(answer, Err(Error::Damaged { .. })), "{name}, {number}: {answer:?}");
            }
        }
    }
}
