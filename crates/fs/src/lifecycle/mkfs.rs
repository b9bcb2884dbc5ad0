//! The first content of a new volume.

use super::identity::label_bytes;
use crate::attempt::edit::Edit;
use crate::files::inode;
use crate::space::{self, Reserved};
use crate::vocabulary::error::{Error, ErrorKind, Outcome, Result};
use crate::vocabulary::extent::Extent;
use crate::vocabulary::options::CreateOptions;
use crate::vocabulary::types::Time;
use lanefs_format::superblock::{RO_COMPAT_DATA_CHECKSUMS, Superblock};
use lanefs_format::{
    BLOCK, BLOCKS_PER_CHUNK, BLOCKS_PER_GROUP, CHUNK, Checksummer, GROUP, HashSeed, MAX_VOLUME, MIN_VOLUME,
    SUPERBLOCK_COPY,
};

/// Makes the superblock of the new volume `name`.
///
/// # Errors
/// [`Error::Image`] for options that a volume cannot have; the host's, where it gives no random bytes.
pub(crate) fn superblock(name: &str, options: &CreateOptions, journaled: bool) -> Result<Superblock> {
    let refuse = |kind, why| Error::Image { kind, what: name.into(), why };
    let bytes = options.size & !(BLOCK - 1);
    if !(MIN_VOLUME..=MAX_VOLUME).contains(&bytes) {
        let (least, most) = (MIN_VOLUME >> 20, MAX_VOLUME >> 40);
        let why = format!("a volume has {least} MiB to {most} TiB, not {} bytes", options.size);
        return Err(refuse(ErrorKind::Size, why));
    }
    let label = label_bytes(&options.label).map_err(|why| refuse(ErrorKind::InvalidInput, why))?;
    let group_count = bytes.div_ceil(GROUP);
    // The table fits between the two superblocks in volumes up to some 60 GiB.
    let fits = group_count < SUPERBLOCK_COPY / BLOCK - 1;
    let position = |from: u64, blocks: u64| space::clear_of_sums(from / BLOCK, blocks) * BLOCK;
    let groups = if fits { BLOCK } else { position(CHUNK, group_count) };
    let journal_blocks = if journaled { journal_blocks(bytes / BLOCK) } else { 0 };
    let behind = groups + group_count * BLOCK;
    let journal = match () {
        () if !journaled => 0,
        () if fits && behind + journal_blocks * BLOCK <= SUPERBLOCK_COPY => behind,
        () => position(CHUNK.max(behind), journal_blocks),
    };
    debug_assert!(
        behind <= bytes && journal + journal_blocks * BLOCK <= bytes,
        "the tables exceed the volume"
    );
    let mut uuid = options.uuid.map_or_else(random, Ok)?;
    if options.uuid.is_none() {
        // Version 4, variant 1 of RFC 9562.
        uuid[6] = uuid[6] & 0x0f | 0x40;
        uuid[8] = uuid[8] & 0x3f | 0x80;
    }
    Ok(Superblock {
        compat: 0,
        ro_compat: if journaled && options.data_checksums { RO_COMPAT_DATA_CHECKSUMS } else { 0 },
        incompat: 0,
        uuid,
        checksum_seed: Checksummer::seed_of(&uuid),
        seed: HashSeed::from_bytes(options.seed.map_or_else(random, Ok)?),
        volume_bytes: bytes,
        inode_size: options.inode_size,
        root: 0,
        groups,
        group_count,
        journal,
        journal_blocks,
        clean: true,
        errors: false,
        sequence: 0,
        free_blocks: 0,
        inodes: 0,
        created: Time::now().0,
        orphans: 0,
        label,
    })
}

/// Blocks of the journal of a volume of `blocks` blocks: a 64th, 256 KiB to 122 MiB. That is room for the
/// metadata of some 300,000 new files in one commit. More would cost memory, where the blocks of half the
/// journal wait until they are in place, and time: recovery reads all of it. And a group has no more blocks
/// in a row beside its checksums of file data.
pub(crate) fn journal_blocks(blocks: u64) -> u64 {
    (blocks / 64).clamp(64, BLOCKS_PER_GROUP - 2 * BLOCKS_PER_CHUNK)
}

pub(crate) fn random() -> Result<[u8; 16]> {
    let mut bytes = [0; 16];
    let source = match rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty()) {
        Ok(16) => return Ok(bytes),
        Ok(_) => std::io::ErrorKind::UnexpectedEof.into(),
        Err(error) => error.into(),
    };
    Err(Error::Io { what: "random bytes of the host".into(), source })
}

/// Returns the blocks that no file gets.
pub(crate) fn reserved(superblock: &Superblock) -> Reserved {
    let journal = (superblock.journal, superblock.journal_blocks);
    let table = (superblock.groups, superblock.group_count);
    let extents = [(0, 1), (SUPERBLOCK_COPY, 1), table, journal];
    Reserved {
        blocks: superblock.volume_bytes / BLOCK,
        fixed: extents.into_iter().map(|(at, count)| Extent::new(at / BLOCK, count)).collect(),
        sums: superblock.has_data_checksums(),
    }
}

/// Makes the root directory and the orphan directory. Returns their inode numbers.
pub(crate) fn make_directories(edit: &mut Edit<'_>) -> Outcome<(u64, u64)> {
    Ok((inode::nameless_directory(edit, 0o755)?, inode::nameless_directory(edit, 0o700)?))
}
