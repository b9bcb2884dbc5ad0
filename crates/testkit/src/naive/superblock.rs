//! The superblock.

use super::bytes::Words;
use super::sums::verifies;
use super::{BLOCK, GROUP_BLOCKS, Read, ensure, wrong};

/// Position of the second copy.
pub(super) const COPY: u64 = (2 << 20) - BLOCK;

/// Bits of `FEATURES_INCOMPAT` that this reader knows.
const KNOWN: u64 = 0;
/// Bit of `FEATURES_RO_COMPAT`: file data have checksums.
const DATA_CHECKSUMS: u64 = 1;
/// Bit of `STATE`: closed.
const CLEAN: u32 = 1;

#[derive(Clone, Debug)]
pub(super) struct Superblock {
    pub(super) checksum_seed: u32,
    pub(super) hash_seed: [u32; 4],
    pub(super) bytes: u64,
    pub(super) inode_bytes: u64,
    pub(super) root: u64,
    pub(super) groups: u64,
    pub(super) group_count: u64,
    pub(super) journal: u64,
    pub(super) journal_blocks: u64,
    pub(super) clean: bool,
    pub(super) free_blocks: u64,
    pub(super) inodes: u64,
    pub(super) orphans: u64,
    pub(super) data_checksums: bool,
    sequence: u64,
}

/// The good copy with the higher sequence.
pub(super) fn best(copies: &[Option<Vec<u8>>]) -> Read<Superblock> {
    let read: Vec<Read<Superblock>> = copies.iter().flatten().map(|copy| decode(copy)).collect();
    let good = read.iter().flatten().max_by_key(|superblock| superblock.sequence);
    match (good, read.first()) {
        (Some(superblock), _) => Ok(superblock.clone()),
        (None, Some(Err(text))) => wrong(text.clone()),
        _ => wrong("no superblock"),
    }
}

fn decode(block: &[u8]) -> Read<Superblock> {
    ensure(block.starts_with(&[1]) && block[16..24] == *b"LaneFS\r\n", || "no superblock".to_owned())?;
    let version = block.u32(24);
    ensure(version == 4, || format!("version {version}"))?;
    ensure(block.u8(28) == 1 && block.u8(29) == 1, || "unknown types of checksum or hash".to_owned())?;
    let unknown = block.u64(48) & !KNOWN;
    ensure(unknown == 0, || format!("unknown incompatible features {unknown:#x}"))?;
    let checksum_seed = block.u32(60);
    ensure(verifies(checksum_seed, 0, block, 4), || "the superblock does not verify".to_owned())?;
    let state = block.u32(56);
    ensure(state & !3 == 0, || format!("unknown bits of STATE {state:#x}"))?;
    let superblock = Superblock {
        checksum_seed,
        hash_seed: [80, 84, 88, 92].map(|at| block.u32(at)),
        bytes: block.u64(96),
        inode_bytes: block.u64(104),
        root: block.u64(112),
        groups: block.u64(120),
        group_count: block.u64(128),
        journal: block.u64(136),
        journal_blocks: block.u64(144),
        clean: state & CLEAN != 0,
        free_blocks: block.u64(160),
        inodes: block.u64(168),
        orphans: block.u64(184),
        data_checksums: block.u64(40) & DATA_CHECKSUMS != 0,
        sequence: block.u64(152),
    };
    let groups = superblock.bytes.div_ceil(GROUP_BLOCKS * BLOCK);
    ensure(superblock.bytes.is_multiple_of(BLOCK) && superblock.group_count == groups, || {
        format!("{} bytes in {} groups", superblock.bytes, superblock.group_count)
    })?;
    ensure([128, 256].contains(&superblock.inode_bytes), || "a wrong size of inodes".to_owned())?;
    let inside = |at: u64, blocks: u64| {
        at.is_multiple_of(BLOCK) && at < superblock.bytes && blocks <= (superblock.bytes - at) / BLOCK
    };
    ensure(inside(superblock.groups, groups), || "the group table is outside".to_owned())?;
    ensure(
        superblock.journal_blocks == 0
            || (5..=32768).contains(&superblock.journal_blocks)
                && inside(superblock.journal, superblock.journal_blocks),
        || "the journal is outside, or has an impossible size".to_owned(),
    )?;
    Ok(superblock)
}
