//! The counts of the superblock, recounted after a crash.

use super::groups::group;
use super::tables::table_entry;
use crate::attempt::Core;
use crate::error::Outcome;
use lanefs_format::{
    BLOCK, BLOCKS_PER_CHUNK, BlockKind, CHUNK, CHUNK_HEADER_BLOCKS, CHUNKS_PER_GROUP, GROUP, chunk_entry,
    group as g,
};

/// Counts free blocks and inodes in use of a group.
pub(crate) fn recount(core: &Core<'_>, number: u64) -> Outcome<(u64, u64)> {
    let (view, mut inodes) = (group(core, number)?, 0);
    for chunk in (0..CHUNKS_PER_GROUP).filter(|c| view.get(g::METADATA) >> c & 1 != 0) {
        let at = number * GROUP + chunk * CHUNK;
        for slot in CHUNK_HEADER_BLOCKS..BLOCKS_PER_CHUNK {
            let entry = table_entry(core, at + slot * BLOCK)?;
            if entry.get(chunk_entry::KIND) == BlockKind::Inodes as u8 {
                inodes += u64::from(entry.get(chunk_entry::USED));
            }
        }
    }
    Ok((view.get(g::FREE), inodes))
}
