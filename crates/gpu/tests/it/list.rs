//! Whole directories: kernels and twins, the device and `readdir`.

use crate::support::{CALLER, fill, gpu, options, uncached};
use lanefs::{FileKind, Ino, InodeSize, Volume};
use lanefs_gpu::twin::host::HostCopy;
use lanefs_gpu::twin::kernels::leaves::{MapBlock, leaves};
use lanefs_gpu::twin::kernels::stat::stat;
use lanefs_gpu::{Gpu, MirrorOptions, Mirrored};
use lanefs_testkit::mutate::{bases, hostile};
use lanefs_testkit::seeded::Seeded;

/// All directories of a volume.
fn directories(volume: &Volume) -> Vec<Ino> {
    let mut found = vec![volume.root()];
    let mut next = 0;
    while let Some(dir) = found.get(next).copied() {
        next += 1;
        let entries = volume.readdir(&CALLER, dir, 0, usize::MAX).expect("listed");
        found.extend(entries.iter().filter(|one| one.kind == FileKind::Directory).map(|one| one.ino));
    }
    found
}

/// Checks that both engines list the same; returns how many directories the host listed.
fn compare(mirrored: &Mirrored<'_>, volume: &Volume, dirs: &[Ino]) -> u64 {
    let (listed, report) = mirrored.list(dirs, true);
    assert_eq!(report.by_device + report.by_host, dirs.len() as u64);
    for (dir, listed) in dirs.iter().zip(listed) {
        let listed = listed.expect("listed");
        let expected = volume.readdir(&CALLER, *dir, 0, usize::MAX).expect("listed");
        assert!(listed.iter().map(|one| &one.entry).eq(&expected), "{dir:?}");
        for one in listed {
            assert_eq!(one.attr, volume.getattr(one.entry.ino).ok(), "{dir:?}, {one:?}");
        }
    }
    let plain = mirrored.list(&dirs[..1], false).0.remove(0).expect("listed");
    assert!(plain.iter().all(|one| one.attr.is_none()));
    report.by_host
}

#[test]
fn directories_are_listed_as_readdir_lists_them_after_changes_too() {
    let gpu = gpu(64);
    for (seed, size) in [(1, InodeSize::B128), (2, InodeSize::B256)] {
        let numbers = &mut Seeded::new(seed);
        let volume = Volume::create_memory(&options(size)).expect("volume");
        let paths = fill(&volume, numbers);
        let mirrored = gpu.mirror(&volume, &uncached()).expect("mirror");
        let mut dirs = directories(&volume);
        // One twice.
        dirs.push(dirs[1]);
        assert_eq!(compare(&mirrored, &volume, &dirs), 0);
        for path in paths.iter().filter(|_| numbers.below(3) == 0) {
            if let Ok((dir, name)) = volume.resolve_parent(path) {
                let _ = volume.remove_all_with(&CALLER, dir, name, |_, done| done);
            }
        }
        assert_eq!(compare(&mirrored, &volume, &directories(&volume)), 0);
        assert_eq!(mirrored.failure(), None);
    }
}

#[test]
fn a_tree_is_listed_level_by_level_as_deep_as_wanted() {
    let gpu = gpu(64);
    let volume = Volume::create_memory(&options(InodeSize::B256)).expect("volume");
    fill(&volume, &mut Seeded::new(3));
    let mirrored = gpu.mirror(&volume, &uncached()).expect("mirror");
    let (all, _) = mirrored.list_below(&[volume.root()], None, false);
    let mut wanted = directories(&volume);
    wanted.sort_unstable();
    let mut found: Vec<Ino> = all.keys().copied().collect();
    found.sort_unstable();
    assert_eq!(found, wanted);
    assert_eq!(mirrored.list_below(&[volume.root()], Some(0), false).0.len(), 1);
}

#[test]
fn what_is_no_directory_or_not_on_the_device_the_host_answers() {
    let gpu = gpu(64);
    let volume = Volume::create_memory(&options(InodeSize::B256)).expect("volume");
    fill(&volume, &mut Seeded::new(4));
    let file = volume.write_file("/file", b"").expect("file").ino;
    let mirrored = gpu.mirror(&volume, &MirrorOptions { room: Some(0), ..uncached() }).expect("mirror");
    let dirs = directories(&volume);
    assert_eq!(compare(&mirrored, &volume, &dirs), dirs.len() as u64);
    drop(mirrored);
    let mirrored = gpu.mirror(&volume, &uncached()).expect("mirror");
    let answers = mirrored.list(&[file, Ino(u64::MAX), volume.root()], true).0;
    assert!(matches!(&answers[..], [Err(_), Err(_), Ok(_)]));
}

fn compare_with_twins(gpu: &Gpu, volume: &Volume, numbers: &mut Seeded, what: &str) {
    let memory = HostCopy::of(volume).expect("copied");
    let size = volume.superblock().inode_size;
    let mirrored = gpu.mirror(volume, &uncached()).expect("mirror");
    let positions: Vec<u64> = memory.blocks().take(2000).collect();
    let mut inos: Vec<u64> = positions.iter().map(|at| at / size.bytes() + numbers.below(3)).collect();
    inos.extend([0, 1, u64::MAX, u64::MAX / size.bytes()]);
    let (cores, _) = mirrored.cores_and_leaves(&inos, &[]).expect("the device");
    assert_eq!(cores, stat(&memory, size, &inos), "{what}");
    let mut blocks = Vec::new();
    for at in &positions {
        for depth in 0..=6 {
            let map = numbers.pick(&[at | 7, at | 5, at | 7, at + 128, 0, u64::MAX]).to_owned();
            let block = numbers.below(1 << (4 + 9 * depth.min(4)));
            blocks.push(MapBlock { map, depth, block });
        }
    }
    let (_, found) = mirrored.cores_and_leaves(&[], &blocks).expect("the device");
    assert_eq!(found, leaves(&memory, &blocks), "{what}");
    let _ = mirrored.list_below(&[volume.root()], Some(5), true);
}

#[test]
fn the_kernels_are_equal_to_their_twins() {
    let gpu = gpu(32);
    let bases = bases().expect("sound volumes can be made");
    let mut opened = 0;
    for seed in 0..60 {
        let base = &bases[seed as usize % bases.len()];
        let Ok(volume) = Volume::from_bytes(hostile(base, seed)) else { continue };
        let _ = volume.load_metadata(&|_, _| true);
        compare_with_twins(&gpu, &volume, &mut Seeded::new(seed), &format!("{} {seed}", base.name));
        opened += 1;
    }
    assert!(opened > 25, "only {opened} images could be opened");
}
