//! The allocator of a volume: extents of data blocks, metadata blocks, inodes.
//!
//! Data blocks come from the bitmaps of block groups: large extents directly, small ones from the
//! [preallocation](crate::mounted::prealloc) of the writer. Metadata blocks come from metadata chunks, which are
//! aligned and are taken from the bitmaps as a whole. Inodes come from inode blocks, which are metadata
//! blocks. The checksums of a group's file data lie in its first metadata chunk, which is made when the group
//! is first used. [`Hints`](crate::mounted::hints::Hints) remember where to search next; the truth is in the blocks of the
//! volume.

mod chunks;
mod extents;
mod groups;
mod inodes;
mod recount;
mod reserved;
mod search;
mod tables;
mod take;
#[cfg(test)]
mod tests;

pub(crate) use chunks::{alloc_block, free_block, make_free};
pub(crate) use extents::{Growth, alloc_extent, find_extent, put_back};
pub(crate) use groups::{free_extent, group, of_chunk};
pub(crate) use inodes::{alloc_inode, free_inode, may_hold_inodes};
pub(crate) use recount::recount;
pub(crate) use reserved::{Reserved, clear_of_sums, free_table, lay_out, reserve};
pub(crate) use tables::{make_all_sums, make_sums, table_entry};
