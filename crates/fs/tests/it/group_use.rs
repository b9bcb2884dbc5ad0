//! The use of block groups.

use lanefs::format::{BLOCK, GROUP};
use lanefs::*;

/// A volume of three groups, the last of which is short, as a closed one.
fn volume(change: impl Fn(&Volume)) -> (Volume, Vec<u8>) {
    let options = CreateOptions { size: (2 * GROUP) + (20 << 20), ..CreateOptions::default() };
    let volume = Volume::create_memory(&options).expect("create");
    change(&volume);
    let bytes = volume.to_bytes().expect("bytes");
    (open(bytes.clone()).expect("open"), bytes)
}

fn open(bytes: Vec<u8>) -> Result<Volume> {
    Volume::open_device(Box::new(MemoryDevice::new(bytes)), Access::Read)
}

fn groups(volume: &Volume) -> Vec<GroupUse> {
    (0..volume.group_count()).map(|group| volume.group_use(group).expect("a group")).collect()
}

#[test]
fn each_block_of_the_volume_counts_once() {
    let (v, _) = volume(|volume| {
        for i in 0..200 {
            volume.write_file(format!("/{i}"), vec![7; 300_000 + i]).expect("write");
        }
        (0..200).step_by(2).for_each(|i| volume.remove_all(format!("/{i}")).expect("remove"));
    });
    let (groups, space) = (groups(&v), v.statfs().expect("statfs"));
    assert_eq!(groups.len(), 3);
    for (number, group) in groups.iter().enumerate() {
        let sum = group.metadata_blocks + group.reserved_blocks + group.data_blocks + group.free_blocks;
        assert_eq!((group.position, sum), (number as u64 * GROUP, group.blocks), "{group:?}");
        assert!(group.free_extents <= group.free_blocks && group.longest_free_blocks <= group.free_blocks);
        assert_eq!(group.free_extents == 0, group.free_blocks == 0, "{group:?}");
    }
    assert_eq!(groups.iter().map(|group| group.blocks).sum::<u64>(), space.blocks);
    assert_eq!(groups.iter().map(|group| group.free_blocks).sum::<u64>(), space.free_blocks);
    let files: u64 = (1..200).step_by(2).map(|i| v.resolve(format!("/{i}")).expect("a file").blocks).sum();
    assert_eq!(groups.iter().map(|group| group.data_blocks).sum::<u64>(), files);
    assert!(groups[0].metadata_chunks > 0 && groups[0].reserved_blocks > 0);
}

#[test]
fn holes_between_files_are_free_extents() {
    let fill = |volume: &Volume| {
        for i in 0..40 {
            volume.write_file(format!("/{i}"), vec![7; 1 << 20]).expect("write");
        }
    };
    let (full, _) = volume(fill);
    let (holed, _) = volume(|volume| {
        fill(volume);
        (0..40).step_by(2).for_each(|i| volume.remove_all(format!("/{i}")).expect("remove"));
    });
    let extents = |volume: &Volume| groups(volume).iter().map(|group| group.free_extents).sum::<u64>();
    assert!(extents(&holed) >= extents(&full) + 10, "{} and {}", extents(&holed), extents(&full));
}

#[test]
fn a_damaged_group_is_an_error_and_the_others_are_counted() {
    let (v, mut bytes) = volume(|_| {});
    let table = v.superblock().groups;
    for missing in [3, u64::MAX] {
        assert_eq!(v.group_use(missing).expect_err("no such group").code(), Code::Invalid);
    }
    let second = (table + BLOCK) as usize;
    bytes[second + 100] ^= 1;
    let damaged = open(bytes).expect("open");
    assert!(matches!(damaged.group_use(1), Err(Error::Damaged { .. })));
    for group in [0, 2] {
        assert_eq!(damaged.group_use(group).expect("a group"), v.group_use(group).expect("a group"));
    }
}
