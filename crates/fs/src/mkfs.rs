//! Making and growing volumes.

use crate::edit::{Core, Edit, Outcome};
use crate::inode::{self, NewInode};
use crate::{CreateOptions, Error, Result, Time, Volume, space};
use lanefs_format::superblock::Superblock;
use lanefs_format::{
    BLOCK, BLOCKS_PER_CHUNK, BlockKind, CHUNK, CHUNK_HEADER_BLOCKS, CHUNKS_PER_GROUP, FileKind, GROUP,
    HashSeed, MAX_VOLUME, MIN_VOLUME, SUPERBLOCK_COPY, chunk_entry, group as g,
};
use lanefs_store::Fault;

/// The superblock of a volume to be made; what is wrong with the options, in words.
pub(crate) fn superblock(
    options: &CreateOptions,
    journaled: bool,
) -> std::result::Result<Superblock, String> {
    let bytes = options.size & !(BLOCK - 1);
    if !(MIN_VOLUME..=MAX_VOLUME).contains(&bytes) {
        return Err(format!(
            "a volume has {} MiB to {} TiB, not {} bytes",
            MIN_VOLUME >> 20,
            MAX_VOLUME >> 40,
            options.size
        ));
    }
    if options.label.len() > 64 {
        return Err("the label is longer than 64 bytes".into());
    }
    let mut label = [0; 64];
    label[..options.label.len()].copy_from_slice(options.label.as_bytes());
    let group_count = bytes.div_ceil(GROUP);
    // The table fits between the two superblocks in volumes up to some 60 GiB; else it follows chunk 0.
    let fits = group_count < SUPERBLOCK_COPY / BLOCK - 1;
    let groups = if fits { BLOCK } else { CHUNK };
    // A 64th of the volume, 256 KiB to 128 MiB: room for the metadata of some 300,000 new files in one commit.
    let journal_blocks = if journaled { (bytes / BLOCK / 64).clamp(64, 32768) } else { 0 };
    let behind = groups + group_count * BLOCK;
    let journal = match () {
        () if !journaled => 0,
        () if fits && behind + journal_blocks * BLOCK <= SUPERBLOCK_COPY => behind,
        () => CHUNK.max(behind),
    };
    let mut uuid = options.uuid.map_or_else(random, Ok)?;
    if options.uuid.is_none() {
        // Version 4, variant 1 of RFC 9562.
        uuid[6] = uuid[6] & 0x0f | 0x40;
        uuid[8] = uuid[8] & 0x3f | 0x80;
    }
    Ok(Superblock {
        uuid,
        seed: HashSeed::from_bytes(options.seed.map_or_else(random, Ok)?),
        volume_bytes: bytes,
        inode_size: options.inode_size,
        root: 0,
        groups,
        group_count,
        journal,
        journal_blocks,
        clean: true,
        sequence: 0,
        free_blocks: 0,
        inodes: 0,
        created: Time::now().0,
        orphans: 0,
        label,
    })
}

fn random() -> std::result::Result<[u8; 16], String> {
    let mut bytes = [0; 16];
    match rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty()) {
        Ok(16) => Ok(bytes),
        Ok(_) => Err("the host gave too few random bytes".into()),
        Err(e) => Err(format!("the host gave no random bytes: {e}")),
    }
}

/// Fills an empty volume: group table, root directory, orphan directory. Returns the inode numbers of the two.
pub(crate) fn fill(edit: &mut Edit<'_>, superblock: &Superblock) -> Outcome<(u64, u64)> {
    space::init_groups(edit, 0, superblock.group_count, superblock.volume_bytes)?;
    let journal = (superblock.journal, superblock.journal_blocks);
    for (at, blocks) in [(0, 1), (SUPERBLOCK_COPY, 1), (superblock.groups, superblock.group_count), journal] {
        space::reserve(edit, at / BLOCK, blocks)?;
    }
    Ok((nameless_directory(edit, 0o755)?, nameless_directory(edit, 0o700)?))
}

/// Makes a directory that no other one names, so it is its own parent. Returns its inode number.
pub(crate) fn nameless_directory(edit: &mut Edit<'_>, perm: u16) -> Outcome<u64> {
    let new = NewInode { kind: FileKind::Directory, perm, uid: 0, gid: 0, rdev: 0, parent: 0 };
    let node = inode::make(edit, &new)?;
    edit.tx.put(node.view, lanefs_format::inode::PARENT_OR_DEVICE, node.ino);
    Ok(node.ino)
}

/// Free blocks and inodes in use, counted.
pub(crate) fn recount(core: &Core) -> Outcome<(u64, u64)> {
    let (mut free, mut inodes) = (0u64, 0u64);
    for number in 0..core.group_count() {
        let view = space::group(core, number)?;
        free = free.saturating_add(view.get(g::FREE));
        for chunk in (0..CHUNKS_PER_GROUP).filter(|c| view.get(g::METADATA) >> c & 1 != 0) {
            let at = number * GROUP + chunk * CHUNK;
            for place in CHUNK_HEADER_BLOCKS..BLOCKS_PER_CHUNK {
                let entry = space::table_entry(core, at + place * BLOCK)?;
                if entry.get(chunk_entry::KIND) == BlockKind::Inodes as u8 {
                    inodes += u64::from(entry.get(chunk_entry::USED));
                }
            }
        }
    }
    Ok((free, inodes))
}

impl Volume {
    /// Grows the volume to `size` bytes (rounded down to a multiple of 4096).
    ///
    /// # Errors
    /// [`Error::Image`] for a size below the present one or too large; no room for the longer group table; the device's.
    pub fn grow(&self, size: u64) -> Result<()> {
        let refuse = |why: String| Error::Image { what: "cannot grow".into(), why };
        let bytes = size & !(BLOCK - 1);
        let old = self.shared.store.bytes();
        if bytes < old {
            return Err(refuse(format!("the volume has {old} bytes already; it cannot shrink to {bytes}")));
        }
        if bytes > MAX_VOLUME {
            return Err(refuse(format!("a volume ends at {} TiB", MAX_VOLUME >> 40)));
        }
        if bytes == old {
            return Ok(());
        }
        let shared = &self.shared;
        shared.begin_changes()?;
        // Nobody else is about while the volume's shape changes, and the volume as it is must be on the device before.
        let _turn = shared.turn();
        let mut closed = shared.gate.close_to_change(&shared.store);
        shared.commit_alone(shared.recall(&mut closed)?)?;
        let old_table = (shared.groups(), shared.group_count());
        let count = bytes.div_ceil(GROUP);
        shared.store.grow(bytes).map_err(|source| Error::Io { what: "growing the volume".into(), source })?;
        let grown = loop {
            let done =
                shared.change_alone(&mut closed, &mut |edit| grow(edit, old_table, (old, bytes), count));
            match done {
                Err(Fault::Miss { at, want }) => shared.store.fetch(at, want)?,
                done => break done,
            }
        };
        if let Err(fault) = grown {
            shared.set_groups(old_table.0, old_table.1);
            shared.store.grow(old).map_err(|source| Error::Io { what: "shrinking back".into(), source })?;
            return Err(fault.into());
        }
        shared.commit_alone(shared.recall(&mut closed)?)?;
        // The superblock may name the new table only when that is in its place.
        shared.store.checkpoint()?;
        let (groups, group_count) = (shared.groups(), shared.group_count());
        self.update_superblock(|s| {
            (s.volume_bytes, s.groups, s.group_count) = (bytes, groups, group_count);
        })
    }
}

/// Makes the volume's tables fit its new size.
fn grow(edit: &mut Edit<'_>, old_table: (u64, u64), size: (u64, u64), count: u64) -> Outcome<()> {
    let ((old_at, old_count), (old, bytes)) = (old_table, size);
    let core = edit.core;
    let at = if count == old_count { old_at } else { place_table(edit, old, bytes, count)? };
    if at != old_at {
        for number in 0..old_count {
            let from = space::group(core, number)?;
            let mut block = [0; BLOCK as usize];
            from.copy_to(0, &mut block);
            let to = edit.tx.fresh(at + number * BLOCK, BlockKind::Group, number)?;
            edit.tx.fill(to, 0, &block);
        }
        for number in 0..old_count {
            edit.tx.vacate(old_at + number * BLOCK);
        }
    }
    core.set_groups(at, count);
    let outcome = extend(edit, old_table, size);
    if outcome.is_err() {
        // It may run again, when all that it missed was fetched.
        core.set_groups(old_at, old_count);
    }
    outcome
}

/// A place for a table of `count` blocks: at the start of the new space when it has room there, else what is free.
fn place_table(edit: &mut Edit<'_>, old: u64, bytes: u64, count: u64) -> Outcome<u64> {
    if (bytes - old) / BLOCK > count {
        return Ok(old);
    }
    let (first, got) = space::alloc_straight(edit, None, count, count)?;
    if got < count {
        return Err(lanefs_format::Code::NoSpace.into());
    }
    Ok(first * BLOCK)
}

/// Makes the new groups, lets the last old one reach its new end, and takes the table's own blocks into account.
fn extend(edit: &mut Edit<'_>, old_table: (u64, u64), size: (u64, u64)) -> Outcome<()> {
    let ((old_at, old_count), (old, bytes)) = (old_table, size);
    let (at, count) = (edit.core.groups(), edit.core.group_count());
    let partial = (old_count * GROUP).min(bytes) - old;
    if partial > 0 {
        space::clear_run(edit, old / BLOCK, partial / BLOCK)?;
    }
    space::init_groups(edit, old_count, count, bytes)?;
    if at != old_at {
        if at >= old {
            space::reserve(edit, at / BLOCK, count)?;
        }
        space::free_run(edit, old_at / BLOCK, old_count)?;
    }
    Ok(())
}
