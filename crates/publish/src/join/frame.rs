//! The frame of a join: a small volume with the directories above the shards.
//!
//! The same prefixes make the same bytes, whoever makes them and when: so a join that is made again after it
//! was cut off is the same version.

use super::refused;
use crate::error::{Error, Result};
use lanefs::format::superblock::Superblock;
use lanefs::format::{
    BLOCK, BLOCKS_PER_CHUNK, BlockKind, CHUNK, CHUNK_HEADER_BLOCKS, GROUP, HashSeed, InodeSize,
    SUPERBLOCK_COPY, chunk_entry, group, inode,
};
use lanefs::{Access, CreateOptions, MemoryDevice, Volume};

/// Size of a frame in bytes: room for some 30,000 directories.
pub(super) const FRAME_BYTES: u64 = GROUP;

/// Identity of a frame.
#[derive(Clone, Copy)]
pub(super) struct FrameOptions {
    pub(super) uuid: [u8; 16],
    pub(super) inode_size: InodeSize,
    pub(super) hash_seed: HashSeed,
    /// Time of all of it, in nanoseconds since 1970.
    pub(super) created: i64,
}

/// Makes a frame with these directories, open for reading.
pub(super) fn make<'p>(
    options: &FrameOptions,
    prefixes: impl IntoIterator<Item = &'p [u8]>,
) -> Result<Volume> {
    let mut seed = [0; 16];
    for (bytes, word) in seed.chunks_exact_mut(4).zip(options.hash_seed.0) {
        bytes.copy_from_slice(&word.to_le_bytes());
    }
    let volume = Volume::create_memory(&CreateOptions {
        size: FRAME_BYTES,
        inode_size: options.inode_size,
        uuid: Some(options.uuid),
        seed: Some(seed),
        ..CreateOptions::default()
    })?;
    for prefix in prefixes {
        volume.mkdir_all(prefix, 0o755).map_err(|error| refused(prefix, error.to_string()))?;
    }
    let counts = volume.statfs()?;
    let mut bytes = volume.to_bytes()?;
    let unknown =
        || Error::Damaged { object: "frame".into(), offset: None, why: "is not what it was made as".into() };
    let superblock = Superblock::decode(&bytes).map_err(|_| unknown())?;
    if superblock.seed != options.hash_seed {
        // Only zeros, which stand for a seed of their own, are not taken as they are.
        return Err(unknown());
    }
    let superblock = Superblock {
        clean: true,
        sequence: 1,
        created: options.created,
        free_blocks: counts.free_blocks,
        inodes: counts.inodes,
        ..superblock
    };
    set_times(&superblock, &mut bytes).ok_or_else(unknown)?;
    for at in [0, SUPERBLOCK_COPY as usize] {
        bytes.get_mut(at..at + BLOCK as usize).ok_or_else(unknown)?.copy_from_slice(&superblock.encode());
    }
    Ok(Volume::open_device(Box::new(MemoryDevice::new(bytes)), Access::Read)?)
}

/// Gives all inodes the same times, generation and owner. `None` for bytes that are not such a volume.
fn set_times(superblock: &Superblock, bytes: &mut [u8]) -> Option<()> {
    let table = bytes.get(superblock.groups as usize..)?;
    let metadata = group::METADATA.read(table)?;
    let size = superblock.inode_size.bytes() as usize;
    let (sums, block) = (superblock.sums(), BLOCK as usize);
    for chunk in (0..u64::BITS).filter(|chunk| metadata >> chunk & 1 != 0) {
        let chunk_at = u64::from(chunk) * CHUNK;
        for number in CHUNK_HEADER_BLOCKS..BLOCKS_PER_CHUNK {
            let row = chunk_at as usize + number as usize * chunk_entry::SIZE;
            if chunk_entry::KIND.read(bytes.get(row..)?)? != BlockKind::Inodes as u8 {
                continue;
            }
            let at = chunk_at + number * BLOCK;
            let inodes = bytes.get_mut(at as usize..at as usize + block)?;
            for one in inodes.chunks_exact_mut(size).filter(|one| inode::MODE.read(one) != Some(0)) {
                for time in [inode::MTIME, inode::CTIME, inode::ATIME, inode::BTIME] {
                    time.write(one, superblock.created);
                }
                inode::GENERATION.write(one, 1);
                inode::UID.write(one, 0);
                inode::GID.write(one, 0);
            }
            sums.seal(BlockKind::Inodes, at, inodes, size);
        }
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_directories_make_the_same_frame_in_whatever_thread() {
        let options = FrameOptions {
            uuid: [3; 16],
            inode_size: InodeSize::B256,
            hash_seed: HashSeed([5, 6, 7, 8]),
            created: 1_700_000_000_000_000_000,
        };
        let prefixes: Vec<Vec<u8>> = (0..600).map(|i| format!("/a/{}/{i}", i % 7).into_bytes()).collect();
        let make = move || {
            let volume = make(&options, prefixes.iter().map(|prefix| &prefix[..])).expect("a frame");
            let mut bytes = vec![0; FRAME_BYTES as usize];
            volume.read_image(0, &mut bytes).expect("its bytes");
            let report = volume.check(false, &|_, _| {}).expect("a check");
            assert!(report.findings.is_empty(), "{:?}", report.findings);
            assert_eq!(report.directories, 1 + 1 + 1 + 7 + 600);
            bytes
        };
        let first = make();
        let others: Vec<_> = (0..3).map(|_| std::thread::spawn(make.clone())).collect();
        for other in others {
            assert!(other.join().expect("a thread") == first, "another frame");
        }
    }
}
