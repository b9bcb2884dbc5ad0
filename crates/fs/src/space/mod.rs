//! The volume's allocator: runs of data blocks, metadata blocks, inodes.
//!
//! Data blocks come from the bitmaps of block groups, in runs: large ones straight, small ones from what the writer has in
//! [`Stock`](crate::prealloc::Stock). Metadata blocks come from metadata chunks, which are
//! 2 MiB-aligned and taken from the bitmaps whole; inodes come from blocks of inodes in them. What [`Hints`] remembers
//! is where to go on looking, never the truth: that is in the volume's bytes.
//!
//! [`Hints`]: crate::hints::Hints

mod chunks;
mod groups;
mod inodes;
mod recount;
mod runs;

pub(crate) use chunks::{alloc_block, free_block, make_free, table_entry};
pub(crate) use groups::{clear_run, free_run, group, init_groups, of_chunk, reserve};
pub(crate) use inodes::{alloc_inode, free_inode, may_hold_inodes};
pub(crate) use recount::recount;
pub(crate) use runs::{alloc_run, alloc_straight, put_back};
