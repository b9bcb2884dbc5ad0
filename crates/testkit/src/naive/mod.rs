//! A second reader of volumes, written from `docs/format.md` alone.
//!
//! It shares no code with `lanefs-format`, so an error in the document, or one that the engine and its check
//! have in common, shows as a difference. It is naive: it reads everything, in the order of the document, and
//! keeps nothing but verified blocks. It changes nothing: a journal is applied in memory.
//!
//! [`Naive::tree`] reads the whole tree and checks all that the document says on the way: checksums, owners,
//! bitmaps, chunk tables, lists, indexes, link counts, counts of blocks. [`Tree::compare`] compares it with a
//! volume that the engine has open.

mod acl;
mod attributes;
mod blocks;
mod bytes;
mod claims;
mod compare;
mod data_sums;
mod directory;
mod file_map;
mod hash;
mod inode;
mod journal;
mod lists;
mod lookup;
mod space;
mod sums;
mod superblock;
mod tree;

pub use blocks::{Naive, Source};
pub use tree::{Entry, Tree};

/// Bytes in a block.
const BLOCK: u64 = 4096;
/// Blocks in a chunk.
const CHUNK_BLOCKS: u64 = 512;
/// Blocks of a metadata chunk that hold its table.
const CHUNK_TABLE_BLOCKS: u64 = 2;
/// Chunks in a group.
const GROUP_CHUNKS: u64 = 63;
/// Blocks in a group.
const GROUP_BLOCKS: u64 = CHUNK_BLOCKS * GROUP_CHUNKS;

/// A contradiction to the document.
type Read<T> = Result<T, String>;

/// The error of a contradiction.
fn wrong<T>(text: impl Into<String>) -> Read<T> {
    Err(text.into())
}

/// Fails with the text where the condition does not hold.
fn ensure(holds: bool, text: impl FnOnce() -> String) -> Read<()> {
    if holds { Ok(()) } else { Err(text()) }
}
