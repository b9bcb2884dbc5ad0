//! The counts of the superblock, recounted after a crash.

use super::groups::group;
use super::tables::table_entry;
use crate::attempt::Core;
use crate::vocabulary::error::Outcome;
use lanefs_format::{
    BLOCK, BLOCKS_PER_CHUNK, BlockKind, CHUNK, CHUNK_HEADER_BLOCKS, CHUNKS_PER_GROUP, GROUP, chunk_entry,
    group as g,
};
use lanefs_store::Totals;

/// Counts free blocks and inodes in use in a group.
pub(crate) fn recount(core: &Core<'_>, number: u64) -> Outcome<Totals> {
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
    Ok(Totals { free_blocks: view.get(g::FREE), inodes })
}
