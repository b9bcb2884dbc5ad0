//! Blocks apart from inodes: the group table, chunk tables, bitmaps, checksums, the journal, the superblock.
//!
//! It knows which blocks the walk found in use, and not why.
pub(super) mod groups;
pub(super) mod journal;
pub(super) mod space;
pub(super) mod sums;
pub(super) mod volume;
