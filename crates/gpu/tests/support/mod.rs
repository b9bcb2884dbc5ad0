//! What the tests of the GPU engine share: volumes with all forms of directories, paths of every kind, the mirror's memory on the
//! host.

#![allow(dead_code, unreachable_pub, reason = "a module of each test, which uses some of it")]

use lanefs::format::{BLOCK, CHUNK};
use lanefs::{Caller, CreateOptions, InodeSize, Volume};
use lanefs_gpu::twin::Memory;
use lanefs_gpu::{Choice, Gpu};
use lanefs_testkit::seeded::Seeded;
use std::collections::BTreeMap;

pub const WHO: Caller = Caller::OWNER;

/// llvmpipe, or what is there.
pub fn gpu(workgroup: u32) -> Gpu {
    Gpu::with_workgroup(&Choice::Best, workgroup).expect(
        "a Vulkan device is needed (Debian: apt install libvulkan1 mesa-vulkan-drivers; make setup does it)",
    )
}

pub fn options(inode_size: InodeSize) -> CreateOptions {
    CreateOptions { size: 48 << 20, inode_size, seed: Some([7; 16]), ..CreateOptions::default() }
}

/// Directories of every form, below one another, with links; all paths in them.
pub fn fill(volume: &Volume, numbers: &mut Seeded) -> Vec<Vec<u8>> {
    let mut dirs = vec![(volume.root(), Vec::new())];
    let mut paths = Vec::new();
    for (number, files) in [0, 1, 7, 8, 9, 27, 28, 29, 200, 256, 257, 700, 3000].into_iter().enumerate() {
        let (parent, above) = numbers.pick(&dirs).clone();
        let name = format!("dir-{number}").into_bytes();
        let made = volume.mkdir(&WHO, parent, &name, 0o755).expect("mkdir").ino;
        let path = [&above[..], b"/", &name].concat();
        for file in 0..files {
            let long = numbers.length(200) as usize;
            let name = [format!("{file}-").into_bytes(), vec![b'a' + (file % 26) as u8; long]].concat();
            paths.push([&path[..], b"/", &name].concat());
            match numbers.below(10) {
                0 => drop(volume.symlink(&WHO, made, &name, b"/dir-0/../dir-1").expect("symlink")),
                1 => drop(volume.mkdir(&WHO, made, &name, 0o700).expect("mkdir")),
                _ => drop(volume.create_file(&WHO, made, &name, 0o644).expect("file")),
            }
        }
        paths.push(path.clone());
        dirs.push((made, path));
    }
    paths
}

/// Hits, misses, and what no path should be.
pub fn questions(paths: &[Vec<u8>], count: usize, numbers: &mut Seeded) -> Vec<Vec<u8>> {
    let mut asked: Vec<Vec<u8>> = vec![Vec::new(), b"/".into(), b"//".into(), b".".into(), b"../..".into()];
    while asked.len() < count {
        let path = numbers.pick(paths);
        let other = numbers.pick(paths);
        let cut = numbers.below(path.len() as u64 + 1) as usize;
        asked.push(match numbers.below(12) {
            0 => [&path[..], b"/"].concat(),
            1 => [&path[..], b"x"].concat(),
            2 => path[..cut].to_vec(),
            3 => [&path[..], b"/below"].concat(),
            4 => [&path[..], b"/..", other].concat(),
            5 => [b"/./".as_slice(), path].concat(),
            6 => {
                path.iter().flat_map(|byte| if *byte == b'/' { vec![b'/'; 3] } else { vec![*byte] }).collect()
            }
            7 => path.iter().skip(1).copied().collect(),
            8 => [&path[..cut], b"\0", &path[cut..]].concat(),
            9 => [&path[..], &b"/n".repeat(numbers.below(3000) as usize)].concat(),
            _ => path.clone(),
        });
    }
    asked
}

/// What the mirror of a volume has, on the host.
pub struct HostCopy {
    chunks: BTreeMap<u64, Vec<u8>>,
    /// Chunks of the volume.
    count: u64,
}

impl HostCopy {
    pub fn of(volume: &Volume) -> HostCopy {
        let mut chunks = BTreeMap::<u64, Vec<u8>>::new();
        let mut watch = volume.watch().expect("watch").expect("nobody else watches");
        watch.changes(&mut |block| {
            if block.kind.is_none() && !chunks.contains_key(&(block.at / CHUNK)) {
                return;
            }
            let chunk = chunks.entry(block.at / CHUNK).or_insert_with(|| vec![0xff; CHUNK as usize]);
            let place = (block.at % CHUNK) as usize;
            let bytes = &mut chunk[place..place + BLOCK as usize];
            match block.kind {
                Some(_) => bytes.copy_from_slice(block.bytes),
                None => bytes.fill(0xff),
            }
        });
        HostCopy { chunks, count: volume.superblock().volume_bytes.div_ceil(CHUNK) }
    }
}

impl Memory for HostCopy {
    fn word(&self, at: u64) -> Option<u32> {
        if at / CHUNK >= self.count {
            return None;
        }
        let place = (at % CHUNK) as usize;
        let four = self.chunks.get(&(at / CHUNK))?.get(place..place + 4)?;
        Some(u32::from_le_bytes(four.try_into().expect("four bytes")))
    }
}
