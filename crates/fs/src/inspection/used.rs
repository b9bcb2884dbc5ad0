//! The used blocks of a closed volume, for copies that leave free blocks out.

use crate::attempt::Core;
use crate::lifecycle::mkfs;
use crate::running::volume::Volume;
use crate::space::{self, Reserved};
use crate::vocabulary::error::{Error, ErrorKind, Outcome, Result};
use crate::vocabulary::options::Access;
use lanefs_format::superblock::Superblock;
use lanefs_format::{
    BLOCK, BLOCKS_PER_CHUNK, BLOCKS_PER_GROUP, CHUNK_HEADER_BLOCKS, JOURNAL_HEADERS, SUPERBLOCK_COPY,
    chunk_entry, group as g,
};

/// Blocks of a window: those of one word of a group's bitmap.
const WINDOW_BLOCKS: u64 = u64::BITS as u64;

/// The used blocks among 64 consecutive ones that begin at a multiple of 256 KiB.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UsedBlocks {
    /// Byte position of the first of the 64 blocks.
    pub position: u64,
    /// Bit `i` is set where block `i` is used.
    pub used: u64,
    /// True where one of them has metadata.
    pub is_metadata: bool,
}

/// # Blocks in use
impl Volume {
    /// Returns the number of block groups.
    pub fn group_count(&self) -> u64 {
        self.shared.state.group_count()
    }

    /// Returns the used blocks of a group, by position; 64 blocks of which none is used are left out. The
    /// volume was closed and is open for reading. The ring of its journal counts for nothing then, and is
    /// left out too; the journal's headers are not.
    ///
    /// # Errors
    /// [`Error::Image`] for a volume that was not closed or is open for writing; a damaged group or table of
    /// a chunk; the device's.
    pub fn used_blocks(&self, group: u64) -> Result<Vec<UsedBlocks>> {
        let superblock = self.closed()?;
        let reserved = mkfs::reserved(&superblock);
        self.view(|core| used_blocks(core, group, &reserved, &superblock))
    }

    /// Reads bytes as they lie on the device, without verification. The volume was closed and is open for
    /// reading.
    ///
    /// # Errors
    /// As [`used_blocks`](Self::used_blocks); [`Code::Unsupported`](lanefs_format::Code::Unsupported) for a
    /// volume in memory.
    pub fn read_image(&self, position: u64, buffer: &mut [u8]) -> Result<()> {
        self.closed()?;
        Ok(self.shared.state.store.read_image(position, buffer)?)
    }

    /// The superblock of a volume whose device has all of it.
    pub(crate) fn closed(&self) -> Result<Superblock> {
        self.refuse_join("has no blocks of its own")?;
        let refuse = |kind, why: &str| Err(Error::Image { kind, what: "volume".into(), why: why.into() });
        if self.access() != Access::Read {
            return refuse(ErrorKind::InUse, "is open for writing; close it first");
        }
        let superblock = self.superblock();
        if !superblock.clean || self.journal_damage().is_some() {
            return refuse(ErrorKind::NotClosed, "was not closed cleanly");
        }
        Ok(superblock)
    }
}

fn used_blocks(
    core: &Core<'_>,
    group: u64,
    reserved: &Reserved,
    superblock: &Superblock,
) -> Outcome<Vec<UsedBlocks>> {
    let view = space::group(core, group)?;
    let metadata = view.get(g::METADATA);
    let mut found = Vec::new();
    for i in 0..g::BITMAP.len as u64 {
        let first = group * BLOCKS_PER_GROUP + i * WINDOW_BLOCKS;
        let is_chunk = metadata >> (i * WINDOW_BLOCKS / BLOCKS_PER_CHUNK) & 1 != 0;
        let fixed = fixed(superblock, first);
        let used = match is_chunk {
            true => in_metadata_chunk(core, first)?,
            false => view.get(g::BITMAP.index(i as usize)) & !reserved.word(group, i) | fixed,
        };
        let is_metadata = is_chunk || fixed != 0;
        if used != 0 {
            found.push(UsedBlocks { position: first * BLOCK, used, is_metadata });
        }
    }
    Ok(found)
}

/// The used blocks of a window in a metadata chunk.
fn in_metadata_chunk(core: &Core<'_>, first: u64) -> Outcome<u64> {
    let mut used = 0;
    for i in 0..WINDOW_BLOCKS {
        let is_table = (first + i) % BLOCKS_PER_CHUNK < CHUNK_HEADER_BLOCKS;
        let is_used = is_table || space::table_entry(core, (first + i) * BLOCK)?.get(chunk_entry::KIND) != 0;
        used |= u64::from(is_used) << i;
    }
    Ok(used)
}

/// The blocks of a window that a closed volume has at fixed positions: superblocks, group table, headers of
/// the journal.
fn fixed(superblock: &Superblock, first: u64) -> u64 {
    let headers = superblock.journal_blocks.min(JOURNAL_HEADERS);
    let extents = [
        (0, 1),
        (SUPERBLOCK_COPY / BLOCK, 1),
        (superblock.groups / BLOCK, superblock.group_count),
        (superblock.journal / BLOCK, headers),
    ];
    let bits = |(from, count): (u64, u64)| {
        let low = from.clamp(first, first + WINDOW_BLOCKS) - first;
        let high = (from + count).clamp(first, first + WINDOW_BLOCKS) - first;
        if low < high { u64::MAX >> (WINDOW_BLOCKS - (high - low)) << low } else { 0 }
    };
    extents.into_iter().map(bits).fold(0, |word, bits| word | bits)
}
